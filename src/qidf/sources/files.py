"""Documents from a directory or git work tree, one a file. Knows nothing of analysis, indexes or git's history.

What is left out, and the name it is counted under in `FileSource.skipped`:

- `binary`: a NUL among the first 8,192 bytes, unless a UTF-16 or UTF-32 byte order mark stands before it;
- `minified`: named `*.min.*` or `*.map`; or longer than 4,096 characters with more than half of them in lines of more
  than 2,000, which no one writes by hand;
- `vendored`: a folder of somebody else's code or of a tool's cache, by its name (`VENDORED`), or because it holds
  `pyvenv.cfg` or `CACHEDIR.TAG`, or is a `target` beside Cargo.toml or pom.xml. Folders are counted, not the files in
  them. Only folders below the root are judged, and `!name/` in a .qidfignore file brings one back;
- `too large`: more than `max_bytes`;
- `empty`: nothing but white space;
- `unreadable`: no permission, gone since the scan, or an input error; files and folders;
- `symlink`: no symlink below the root is followed, to a file or a folder, inside or outside: what it leads to is either
  in the tree already or not part of it. So there are no loops, and nothing outside the root is ever read;
- `not a file`: sockets, FIFOs, devices; never opened.

Not counted: what ignore rules leave out (`qidf.sources.ignore`), and the folders .git, .hg, .svn. Other hidden files
are read. A tracked file that the rules ignore is left out too, unlike in git. Inside a nested repository or submodule
the rules around it go on to hold.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from qidf.errors import SourceError
from qidf.sources import MAX_BYTES, Document, FileEntry, id_bytes
from qidf.sources.ignore import FORCE, IGNORE, IGNORE_FILES, NONE, Scope, Scopes, folder_rules, outer_scopes, verdict
from qidf.sources.text import UnfitError, decode, read_regular

REASONS = ("binary", "minified", "vendored", "too large", "empty", "unreadable", "symlink", "not a file")
"""The keys of `FileSource.skipped`, in the order of `summary`."""

# fmt: off
VENDORED = frozenset((
    "site-packages", "dist-packages", "node_modules", "bower_components", "jspm_packages", "vendor", "third_party",
    "Pods", "Carthage",
    "__pycache__", ".venv", ".tox", ".nox", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
    ".ipynb_checkpoints", ".idea", ".gradle", ".terraform", ".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo",
    ".yarn", ".pnpm-store", ".bundle", ".dart_tool", ".cache",
))
# fmt: on
"""Names of folders that hold others' code or a tool's cache."""

_REPOSITORIES = frozenset((".git", ".hg", ".svn"))
_MARKERS = frozenset(("pyvenv.cfg", "CACHEDIR.TAG"))
_BUILDS = frozenset(("Cargo.toml", "pom.xml"))
_MINIFIED_NAME = re.compile(r"\.min\.|\.map$", re.IGNORECASE)


class FileSource:
    """The text files below a directory.

    A document's id and path are the file's path below the root, as in `FileEntry`.

    Parameters
    ----------
    root : str or path
        A directory; may itself be a symlink, ignored, or lie in a vendored folder.
    max_bytes : int, default 1,000,000
        Larger files are skipped.

    Raises
    ------
    SourceError
        There is no directory at `root`, or it can't be listed.
    """

    def __init__(self, root: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.notes: list[str] = []
        self._met: Counter[str] = Counter()  # by scan
        self._read: Counter[str] = Counter()  # by documents
        try:
            self.root = Path(root).resolve(strict=True)
            os.scandir(self.root).close()
        except (OSError, RuntimeError, ValueError) as e:
            raise _no_directory(os.fspath(root), e) from e

    @property
    def skipped(self) -> Counter[str]:
        """What the last `scan` and the last `documents` left out, by reason."""
        return self._met + self._read

    def summary(self) -> str:
        """Tell in one line such as `skipped 3 binary, 2 vendored folders`; empty when nothing was skipped."""
        skipped = self.skipped
        counts = [f"{skipped[reason]:,} {_plural(reason, skipped[reason])}" for reason in REASONS if skipped[reason]]
        return f"skipped {', '.join(counts)}" if counts else ""

    def scan(self) -> list[FileEntry]:
        """List the files by one walk that reads no content but that of ignore files.

        Files that `documents` can tell to be binary, empty or minified only by their content are in the list.

        Returns
        -------
        list of FileEntry
            In ascending order of `id_bytes(path)`.

        Raises
        ------
        SourceError
            The root is gone or can't be listed. Troubles below it are counted as `unreadable`.
        """
        met: Counter[str] = Counter()
        notes: list[str] = []
        self._met, self._read, self.notes = met, Counter(), notes
        found: list[FileEntry] = []
        top = os.path.join(self.root, "")
        folders: list[tuple[str, Scopes, bool]] = [("", outer_scopes(str(self.root), notes), True)]
        while folders:
            folder, scopes, wanted = folders.pop()
            try:
                with os.scandir(top + folder) as listing:
                    entries = list(listing)
            except OSError as e:
                if not folder:
                    raise _no_directory(str(self.root), e) from e
                met["unreadable"] += 1
                continue
            names = {entry.name for entry in entries}
            if not wanted and not names.isdisjoint(_MARKERS):
                met["vendored"] += 1
                continue
            if present := names.intersection(IGNORE_FILES):
                rules = folder_rules(top + folder, present, notes)
                if rules is not None:
                    scopes = (Scope(rules, len(os.fsencode(folder)), ""), *scopes)
            for entry in entries:
                name = entry.name
                if name in _REPOSITORIES:  # .git is a file in a submodule
                    continue
                path = folder + name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        ruling = verdict(scopes, name, path, True) if scopes else NONE
                        if ruling == IGNORE:
                            continue
                        vendored = name in VENDORED or (name == "target" and not names.isdisjoint(_BUILDS))
                        if vendored and ruling != FORCE:
                            met["vendored"] += 1
                        else:
                            folders.append((f"{path}/", scopes, ruling == FORCE))
                    elif scopes and verdict(scopes, name, path, False) == IGNORE:
                        pass
                    elif entry.is_symlink():
                        met["symlink"] += 1
                    elif not entry.is_file(follow_symlinks=False):
                        met["not a file"] += 1
                    elif _MINIFIED_NAME.search(name):
                        met["minified"] += 1
                    else:
                        status = entry.stat(follow_symlinks=False)
                        if status.st_size > self.max_bytes:
                            met["too large"] += 1
                        else:
                            found.append(FileEntry(path, status.st_size, status.st_mtime_ns, status.st_ino))
                except OSError:
                    met["unreadable"] += 1
        found.sort(key=lambda entry: id_bytes(entry.path))
        return found

    def documents(self, entries: Iterable[FileEntry] | None = None) -> Iterator[Document]:
        """Read files, one at a time, and count those that are no text for us.

        Parameters
        ----------
        entries : iterable of FileEntry, default None
            What to read, in this order; all that `scan` finds if None.

        Yields
        ------
        Document
            Never an exception for what a file holds, or for its being gone.
        """
        if entries is None:
            entries = self.scan()
        self._read = Counter()
        top = os.path.join(self.root, "")
        for entry in entries:
            try:
                text = decode(read_regular(top + entry.path, self.max_bytes))
                if not text or text.isspace():
                    raise UnfitError("empty")
                if _is_minified(text):
                    raise UnfitError("minified")
            except UnfitError as e:
                self._read[e.reason] += 1
            else:
                yield Document(entry.path, text, entry.path)

    def locate(self, path: str) -> Path | None:
        """Find the file of an id; None if no file below the root can have this id.

        Ids come back from index files, which strangers may have made. So `..`, an absolute path, a NUL, a symlink
        anywhere on the way, a repository's own folder and whatever is not a regular file are refused.
        """
        parts = path.split("/")
        if not all(parts) or not {".", ".."}.isdisjoint(parts) or not _REPOSITORIES.isdisjoint(parts):
            return None
        real = os.path.join(self.root, *parts)
        try:
            if os.path.realpath(real) == real and os.path.isfile(real):
                return Path(real)
        except (OSError, ValueError):
            pass
        return None

    def read_text(self, path: str) -> str:
        """Return the text of the file with the id `path`, decoded as `documents` does it.

        Raises
        ------
        SourceError
            There is no such file (any more), it can't be read, is binary, or larger than `max_bytes`.
        """
        real = self.locate(path)
        if real is None:
            raise SourceError(f"can't read {path!r}: there is no such file below {self.root}")
        try:
            return decode(read_regular(str(real), self.max_bytes))
        except UnfitError as e:
            raise SourceError(f"can't read {real}: {e}") from e


def _is_minified(text: str, least: int = 4096, long: int = 2000) -> bool:
    """Whether more than half of a text of over `least` characters stands in lines of over `long` characters."""
    if len(text) <= least:
        return False
    end = 0  # of the last line known to be short
    while end + long < len(text):
        newline = text.rfind("\n", end, end + long + 1)
        if newline < 0:
            break
        end = newline + 1
    else:
        return False
    return 2 * sum(length for line in text.splitlines() if (length := len(line)) > long) > len(text)


def _plural(reason: str, count: int) -> str:
    if reason == "vendored":
        return "vendored folder" if count == 1 else "vendored folders"
    return "symlinks" if reason == "symlink" and count != 1 else reason


def _no_directory(name: str, e: Exception) -> SourceError:
    if isinstance(e, FileNotFoundError):
        return SourceError(f"no such file or directory: {name}")
    if isinstance(e, NotADirectoryError):
        return SourceError(f"not a directory: {name}; give a directory that holds source files")
    why = (e.strerror if isinstance(e, OSError) else None) or e
    return SourceError(f"can't list the directory {name}: {why}; check its permissions or give another one")
