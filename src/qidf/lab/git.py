"""What a git repository holds, bare or not, and what its commits changed. Runs git; writes nothing.

A repository is a stranger's data: only plumbing is run, without hooks, external diffs, pagers or fetching.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from qidf.errors import SourceError
from qidf.sources.text import UnfitError, decode

_ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}
_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_REGULAR = ("100644", "100755")


class Blob(NamedTuple):
    """A regular file of a tree: its path below the root, the name of its content, its bytes."""

    path: str
    oid: str
    size: int


class Commit(NamedTuple):
    """A commit that is no merge: its message, and (status, path) of what it changed, status one of A, M, D, T."""

    id: str
    message: str
    changes: list[tuple[str, str]]


class Repository:
    """A git repository by its folder: a work tree, its .git, or a bare clone.

    Raises
    ------
    SourceError
        There is none, git is not installed, or it has no commit.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not os.path.isdir(self.path):
            raise SourceError(f"no git repository at {self.path}: not a folder")
        inner = os.path.join(self.path, ".git")
        place = inner if os.path.exists(inner) else self.path
        if os.path.isfile(place):  # a worktree's or submodule's .git names another folder; git follows it
            self._command = ["git", *_OPTIONS, "-C", self.path]
        else:
            self._command = ["git", *_OPTIONS, f"--git-dir={place}"]
        self.head = self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", what="no commit").strip()

    @property
    def is_shallow(self) -> bool:
        """Whether the history was cut off when it was cloned."""
        return self._run("rev-parse", "--is-shallow-repository").strip() == "true"

    def mainline(self, most: int) -> list[str]:
        """Return the ids of HEAD and its first parents, newest first, at most so many."""
        return self._run("rev-list", "--first-parent", f"--max-count={most}", self.head).split()

    def tree(self, commit: str) -> list[Blob]:
        """Return the regular files of a commit's tree; symlinks and submodules are left out."""
        blobs = []
        for line in self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split("\0"):
            if line:
                mode, kind, oid, rest = line.split(None, 3)
                size, _, path = rest.partition("\t")
                if kind == "blob" and mode in _REGULAR:
                    blobs.append(Blob(path, oid, int(size) if size.isdigit() else 0))  # BAD: it is not there
        return blobs

    def read(self, oids: Iterable[str]) -> Iterator[bytes | None]:
        """Yield the content of each blob in turn, None for one that is not there (a partial clone)."""
        command = [*self._command, "cat-file", "--batch"]
        pipe = subprocess.PIPE
        try:
            with subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=self._environment()
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                try:
                    for oid in oids:
                        yield _read_blob(process.stdin, process.stdout, oid)
                finally:
                    process.kill()
        except (OSError, EOFError):  # also what closing the pipe raises
            raise SourceError(f"git stopped while reading {self.path}") from None

    def texts(
        self, blobs: Sequence[Blob], skipped: Counter[str], progress: Callable[[int, int], None] | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield (path, text) of each blob; one that is no text is counted in `skipped`.

        `progress` is told how many are read, of how many.
        """
        contents = self.read(blob.oid for blob in blobs)
        for number, (blob, content) in enumerate(zip(blobs, contents, strict=True), 1):
            try:
                if content is None:
                    raise UnfitError("unreadable")
                yield blob.path, decode(content)
            except UnfitError as error:
                skipped[f"files that are {error.reason}"] += 1
            if progress:
                progress(number, len(blobs))

    def commits(self, base: str, tip: str) -> Iterator[Commit]:
        """Yield what is reachable from `tip` and not from `base`, merges left out, newest first."""
        options = (
            "--no-merges",
            "--no-show-signature",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            "-z",
            "--no-ext-diff",
            "--no-color",
            "--encoding=UTF-8",
            "--format=%H%x00%B%x00",  # no message holds a NUL
        )
        fields = deque(self._run("log", *options, f"{base}..{tip}").split("\0"))
        while len(fields) > 2:  # an empty one is the last
            id, message, _ = (fields.popleft() for _ in range(3))
            changes = []
            while fields[0].lstrip("\n").startswith(":"):
                status, path = fields.popleft().split()[-1], fields.popleft()
                changes.append((status[:1], path))
            yield Commit(id, message, changes)

    def _run(self, *arguments: str, what: str = "") -> str:
        try:
            done = subprocess.run(
                [*self._command, *arguments], capture_output=True, env=self._environment(), stdin=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise SourceError("git is not installed, and the repository is read by it") from None
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").split("\n")[0]
            raise SourceError(f"can't read the git repository at {self.path}: {why or what or arguments[0]}")
        return done.stdout.decode("utf-8", "replace")

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        # whose folder it is does not matter to one who only reads
        safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        return {**kept, **_ENVIRONMENT, **safe}


def _read_blob(asked: IO[bytes], answered: IO[bytes], oid: str) -> bytes | None:
    """Ask `git cat-file --batch` for one blob; EOFError or OSError where it has stopped."""
    asked.write(f"{oid}\n".encode())
    asked.flush()
    head = answered.readline().split()
    if not head:
        raise EOFError
    if len(head) != 3:  # `OID missing`
        return None
    size = int(head[2])
    content = answered.read(size + 1)
    if len(content) != size + 1:
        raise EOFError
    return content[:-1]


def is_repository(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder looks like a git directory itself (a bare clone), not a work tree."""
    return all(os.path.exists(os.path.join(path, name)) for name in ("HEAD", "objects", "refs"))
