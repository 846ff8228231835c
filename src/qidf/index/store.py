"""The directory of an index: a manifest that names the segments and is replaced atomically, and files nobody names.

Write the new files, make them durable, then rename the manifest into place: at every moment the directory holds one
whole index, the old or the new one. Knows names and bytes; knows nothing of terms or scores.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from typing import BinaryIO

from qidf import strictjson
from qidf.analysis import tables
from qidf.errors import (
    IndexCorruptError,
    IndexLockedError,
    IndexMismatchError,
    IndexNotFoundError,
    QidfError,
)
from qidf.index.container import Container, Output
from qidf.sources import id_bytes

FORMAT = 2
READABLE = (1, 2)
"""Formats that can be read; 1 knew no deletes, and becomes 2 at the next commit."""

MANIFEST = "manifest.json"
LOCK = "write.lock"
OWNER = "write.owner"
_OURS = re.compile(
    r"[0-9a-f]{16}\.(qidf|deletes|sources|tmp)"
)  # what we write beside the manifest; nothing else is ever removed


@dataclass(frozen=True)
class Manifest:
    """What an index is made of.

    `deletes` names for each of `segments` the file with what was deleted from it, '' if nothing was. `documents`,
    `tokens`, `terms` and `hapax_terms` (df = 1) count the whole index. `root` is the directory or file it was built
    from, empty if there is none, and `mark` shows its maker that it is theirs (`trust`); `sources` names the file with
    what a refresh compares.
    """

    analyzer: str
    unicode: str
    documents: int
    tokens: int
    terms: int
    hapax_terms: int
    segments: list[str]
    generation: int = 1
    root: str = ""
    mark: str = ""
    sources: str = ""
    stored: bool = False
    written_by: str = ""
    deletes: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """The names of all files of the index but the manifest."""
        return [*self.segments, *filter(None, (*self.deletes, self.sources))]


def read_manifest(path: str) -> Manifest:
    """Read the manifest of the index at `path`.

    Raises
    ------
    IndexNotFoundError, IndexCorruptError, IndexMismatchError
        There is none; it is damaged; it is of another format, or its analyzer is not this version's.
    """
    name = os.path.join(path, MANIFEST)
    try:
        data = _read_regular(name, 1 << 26)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexNotFoundError(f"no index at {path} (make one: qidf index PATH --index {path})") from error
    except OSError as error:
        raise QidfError(f"can't read {name}: {error.strerror}") from error
    head, _, body = data.partition(b"\n")
    try:
        header = strictjson.loads(head)
        version, crc = header["qidf index format"], header["crc32"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IndexCorruptError(f"{name} is damaged (build the index again: qidf index PATH --rebuild)") from error
    if type(version) is not int or version not in READABLE:
        raise IndexMismatchError(
            f"the index at {path} has format {version}, this version of qidf reads {FORMAT} and older"
            " (build it again: qidf index PATH --rebuild)"
        )
    try:
        if zlib.crc32(body) != crc:
            raise ValueError("checksum")
        row = strictjson.loads(body)
        manifest = Manifest(**{"deletes": [""] * len(row["segments"]), **row} if version == 1 else row)
        for part in fields(manifest):
            if type(getattr(manifest, part.name)).__name__ != str(part.type).partition("[")[0]:
                raise ValueError(part.name)
        if not 0 <= manifest.hapax_terms <= manifest.terms <= manifest.tokens < 1 << 63 or manifest.documents < 0:
            raise ValueError("counts")
        if not all(isinstance(file_name, str) for file_name in (*manifest.segments, *manifest.deletes)):
            raise ValueError("segments")
        if len(manifest.deletes) != len(manifest.segments) or (manifest.documents and not manifest.segments):
            raise ValueError("segments")
        if len(set(manifest.segments)) != len(manifest.segments):
            raise ValueError("segments")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise IndexCorruptError(f"{name} is damaged (build the index again: qidf index PATH --rebuild)") from error
    if not manifest.unicode or manifest.unicode != tables(manifest.analyzer):
        raise IndexMismatchError(
            f"the index at {path} was made by another version of qidf: analyzer {manifest.analyzer!r} with the tables"
            f" of {manifest.unicode!r} (build it again: qidf index PATH --rebuild)"
        )
    for file_name in (*manifest.segments, *manifest.files):
        if os.path.basename(file_name) != file_name or file_name in ("", ".", ".."):
            raise IndexCorruptError(f"{name} names a file outside the index: {file_name!r}")
    return manifest


def exists(path: str) -> bool:
    """Return whether there is an index at `path`, whole or not."""
    return os.path.isfile(os.path.join(path, MANIFEST))


class Writer:
    """The one writer of an index directory; get it from `writing`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._written: list[str] = []

    @contextmanager
    def create(self, suffix: str) -> Iterator[BinaryIO]:
        """Open a new file of a name nobody has, and make it durable at the end. `file.name` is its path."""
        name = os.path.join(self.path, f"{os.urandom(8).hex()}{suffix}")
        self._written.append(name)
        with explained(self.path), open(name, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the index, then remove the files that no manifest names any more."""
        body = json.dumps(asdict(manifest), sort_keys=True, indent=1).encode()
        head = json.dumps({"qidf index format": FORMAT, "crc32": zlib.crc32(body)}).encode()
        with self.create(".tmp") as file:
            file.write(head + b"\n" + body)
        written, self._written = self._written, []  # once renamed they are the index: nothing may abandon them
        with explained(self.path):
            try:
                os.replace(file.name, os.path.join(self.path, MANIFEST))
            except BaseException:
                if os.path.lexists(file.name):
                    self._written = written
                raise
            sync_directory(self.path)
            keep = set(manifest.files)
            for entry in os.scandir(self.path):
                if _OURS.fullmatch(entry.name) and entry.name not in keep:
                    _remove(entry.path)

    def discard(self, name: str) -> None:
        """Remove a file that was written since the last commit and that nobody will name; leave any other."""
        path = os.path.join(self.path, name)
        if path in self._written:
            _remove(path)

    def abandon(self) -> None:
        """Remove what was written since the last commit."""
        for name in self._written:
            _remove(name)
        self._written.clear()


@contextmanager
def writing(path: str, *, wait: float = 0.0, on_wait: Callable[[str], None] | None = None) -> Iterator[Writer]:
    """Lock the directory `path` for writing, made if need be; a failure leaves it as it was.

    The system frees the lock of a process that dies, so there is nothing to clean up after one.

    Parameters
    ----------
    path : str
    wait : float, default 0
        Seconds to wait for another writer to finish; negative: as long as it takes.
    on_wait : callable, default None
        Called once with who that is, where there is something to wait for.

    Raises
    ------
    IndexLockedError
        Another process writes to it.
    QidfError
        It can't be written (no rights, full disk), or holds other things than an index.
    """
    from filelock import FileLock, Timeout

    absent = _topmost_absent(path)
    lock = FileLock(os.path.join(path, LOCK), timeout=0, thread_local=False)
    writer = Writer(path)
    owner = os.path.join(path, OWNER)
    try:  # from before the first thing is made: an interrupt may come at any moment
        with explained(path):
            os.makedirs(path, exist_ok=True)
            try:
                try:
                    lock.acquire()
                except Timeout:
                    if not wait:
                        raise
                    if on_wait is not None:
                        on_wait(_who(owner))
                    lock.acquire(timeout=wait)
            except Timeout:  # an OSError too
                raise IndexLockedError(
                    f"{_who(owner)} writes to the index at {path} (wait for it, or stop it)"
                ) from None
        _sign(owner)
        yield writer
    except BaseException:
        writer.abandon()
        if absent:
            with suppress(Timeout, OSError):
                lock.acquire()  # again, since the interrupt may have come between making the file and locking it
                _remove(owner)
                _remove(os.path.join(path, LOCK))  # while it is ours: who comes later makes a new one
        if lock.is_locked:
            _remove(owner)
        _remove_directories(path, absent)
        raise
    else:
        _remove(owner)
    finally:
        lock.release(force=True)


def _sign(owner: str) -> None:
    """Say who holds the lock, for the message that others get. Where that can't be written, they get none."""
    line = {"pid": os.getpid(), "command": " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])[:200]}
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(OSError):
        handle = os.open(owner, flags, 0o666)
        try:
            os.write(handle, json.dumps(line).encode())
        finally:
            os.close(handle)


def _who(owner: str) -> str:
    """Name the process that holds the lock, as far as it said who it is."""
    try:
        row = strictjson.loads(_read_regular(owner, 1 << 12))
        pid, command = row["pid"], row["command"]
        if type(pid) is not int or type(command) is not str:
            return "another process"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    shown = "".join(c if c.isprintable() else " " for c in command)[:60].strip()
    return f"another process ({pid}: {shown})" if shown else f"another process ({pid})"


def check_space(
    path: str, needed: int, what: str = "index", remedy: str = "free some space, or give another --index DIR"
) -> None:
    """Raise QidfError if there are not `needed` bytes free where an index, or what it is, stands or will stand."""
    import shutil

    folder = os.path.abspath(path)
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free < needed:
        raise QidfError(
            f"not enough disk for the {what} at {path}: it may take {needed / 1e6:,.2f} MB, and {free / 1e6:,.2f} MB"
            f" are free ({remedy})"
        )


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the system says of a failed write into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = f"disk full while writing the index at {path}; what was there before still stands (free some space)"
        else:
            reason = error.strerror or error
            why = f"can't write the index at {error.filename or path}: {reason} (give another --index DIR)"
        raise QidfError(why) from error


def _topmost_absent(path: str) -> str:
    """Return the topmost folder to `path` that is not there, '' if all are; QidfError if `path` can't be ours."""
    with explained(path):
        if os.path.lexists(path):
            if not os.path.isdir(path):
                raise QidfError(f"{path} is not a directory (give another --index DIR)")
            names = os.listdir(path)
            foreign = [name for name in names if not _OURS.fullmatch(name) and name not in (LOCK, OWNER)]
            if foreign and not (MANIFEST in names and _is_ours(path, names)):
                raise QidfError(f"{path} is not empty and holds no index (give another --index DIR)")
            if os.path.islink(os.path.join(path, LOCK)):
                raise QidfError(f"{os.path.join(path, LOCK)} is a symbolic link, which is never followed (remove it)")
            return ""
    topmost = os.path.abspath(path)
    while not os.path.lexists(os.path.dirname(topmost)):
        topmost = os.path.dirname(topmost)
    return topmost


def _is_ours(path: str, names: list[str]) -> bool:
    """Return whether the manifest there is an index's: it says so, or is damaged and stands beside our segments."""
    if any(name.endswith(".qidf") and _OURS.fullmatch(name) for name in names):
        return True
    try:
        return b"qidf index format" in _read_regular(os.path.join(path, MANIFEST), 1 << 12)
    except OSError:
        return False


def _read_regular(name: str, most: int) -> bytes:
    """Read at most `most` bytes (all if −1) of a regular file; a FIFO or device, which could block, is an OSError."""
    fd = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        return file.read(most)


def _remove_directories(path: str, topmost: str) -> None:
    """Remove the empty folders from `path` up to `topmost`, nothing if that is ''."""
    if not topmost:
        return
    folder = os.path.abspath(path)
    while True:
        try:
            os.rmdir(folder)
        except OSError:
            return
        if folder == topmost:
            return
        folder = os.path.dirname(folder)


def _remove(name: str) -> None:
    with suppress(OSError):  # gone, or in use on a system that keeps open files: the next commit tries again
        os.unlink(name)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable; nothing to do on Windows."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


Stamp = tuple[int, int, int]
"""Size, time of the last change in nanoseconds, inode: what tells a file that changed from one that did not."""


class _Sources(Container):
    """What a refresh compares: `paths.data`, each ended by a NUL, and three `stamps` (int64) for each."""

    magic = b"qidf-src"
    required = ("paths.data", "stamps")


def write_sources(writer: Writer, stamps: Sequence[tuple[str, Stamp]]) -> str:
    """Write what a refresh compares, the paths in the order of their bytes, and return the file's name."""
    numbers = array("q", [n for _, stamp in stamps for n in stamp])
    with writer.create(".sources") as file:
        output = Output(file, _Sources.magic)
        output.add("paths.data", id_bytes("".join(f"{path}\0" for path, _ in stamps)))
        output.add("stamps", numbers)
        output.finish({"files": len(stamps)})
    return os.path.basename(file.name)


def read_sources(path: str, manifest: Manifest) -> dict[str, Stamp]:
    """Read what a refresh compares; empty where it can't be read, and then every file is read and compared."""
    if not manifest.sources:
        return {}
    try:
        table = _Sources(os.path.join(path, manifest.sources))
        table.verify()
        start, size = table.arrays["paths.data"]
        names = table.map[start : start + size].decode("utf-8", "surrogatepass").split("\0")
        start, count = table.arrays["stamps"]
        numbers = iter(array("q", table.map[start : start + 8 * count]))
        return dict(zip(names[:-1], zip(numbers, numbers, numbers, strict=True), strict=True))
    except (QidfError, ValueError):
        return {}
