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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, BinaryIO

from qidf import strictjson
from qidf.analysis import tables
from qidf.errors import (
    IndexCorruptError,
    IndexLockedError,
    IndexMismatchError,
    IndexNotFoundError,
    QidfError,
)

FORMAT = 1
MANIFEST = "manifest.json"
LOCK = "write.lock"
_OURS = re.compile(
    r"[0-9a-f]{16}\.(qidf|sources|tmp)"
)  # what we write beside the manifest; nothing else is ever removed


@dataclass(frozen=True)
class Manifest:
    """What an index is made of.

    `documents`, `tokens`, `terms` and `hapax_terms` (df = 1) count the whole index. `root` is the directory or file it
    was built from, empty if there is none, and `mark` shows its maker that it is theirs (`trust`); `sources` names the
    file with what a refresh compares.
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
    if version != FORMAT:
        raise IndexMismatchError(
            f"the index at {path} has format {version}, this version of qidf reads {FORMAT}"
            " (build it again: qidf index PATH --rebuild)"
        )
    try:
        if zlib.crc32(body) != crc:
            raise ValueError("checksum")
        manifest = Manifest(**strictjson.loads(body))
        for part in fields(manifest):
            if type(getattr(manifest, part.name)).__name__ != str(part.type).partition("[")[0]:
                raise ValueError(part.name)
        if not 0 <= manifest.hapax_terms <= manifest.terms <= manifest.tokens < 1 << 63 or manifest.documents < 1:
            raise ValueError("counts")
        if not manifest.segments or not all(isinstance(file_name, str) for file_name in manifest.segments):
            raise ValueError("segments")
    except (ValueError, TypeError, RecursionError) as error:
        raise IndexCorruptError(f"{name} is damaged (build the index again: qidf index PATH --rebuild)") from error
    if not manifest.unicode or manifest.unicode != tables(manifest.analyzer):
        raise IndexMismatchError(
            f"the index at {path} was made by another version of qidf: analyzer {manifest.analyzer!r} with the tables"
            f" of {manifest.unicode!r} (build it again: qidf index PATH --rebuild)"
        )
    for file_name in (*manifest.segments, *([manifest.sources] if manifest.sources else [])):
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
        with _explained(self.path), open(name, "xb") as file:
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
        with _explained(self.path):
            try:
                os.replace(file.name, os.path.join(self.path, MANIFEST))
            except BaseException:
                if os.path.lexists(file.name):
                    self._written = written
                raise
            sync_directory(self.path)
            keep = {*manifest.segments, manifest.sources}
            for entry in os.scandir(self.path):
                if _OURS.fullmatch(entry.name) and entry.name not in keep:
                    _remove(entry.path)

    def abandon(self) -> None:
        """Remove what was written since the last commit."""
        for name in self._written:
            _remove(name)
        self._written.clear()


@contextmanager
def writing(path: str) -> Iterator[Writer]:
    """Lock the directory `path` for writing, made if need be; a failure leaves it as it was.

    Raises
    ------
    IndexLockedError
        Another process writes to it.
    QidfError
        It can't be written (no rights, full disk), or holds other things than an index.
    """
    from filelock import FileLock, Timeout

    absent = _topmost_absent(path)
    lock = FileLock(os.path.join(path, LOCK), timeout=0)
    writer = Writer(path)
    try:  # from before the first thing is made: an interrupt may come at any moment
        with _explained(path):
            os.makedirs(path, exist_ok=True)
            try:
                lock.acquire()
            except Timeout:  # an OSError too
                who = f"another process writes to the index at {path} (wait for it, or stop it)"
                raise IndexLockedError(who) from None
        yield writer
    except BaseException:
        writer.abandon()
        if absent:
            with suppress(Timeout, OSError):
                lock.acquire()  # again, since the interrupt may have come between making the file and locking it
                _remove(os.path.join(path, LOCK))  # while it is ours: who comes later makes a new one
        _remove_directories(path, absent)
        raise
    finally:
        lock.release(force=True)


@contextmanager
def _explained(path: str) -> Iterator[None]:
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
    with _explained(path):
        if os.path.lexists(path):
            if not os.path.isdir(path):
                raise QidfError(f"{path} is not a directory (give another --index DIR)")
            names = os.listdir(path)
            foreign = [name for name in names if not _OURS.fullmatch(name) and name != LOCK]
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


def write_sources(writer: Writer, table: dict[str, Any]) -> str:
    """Write what a refresh compares and return the file's name."""
    with writer.create(".sources") as file:
        file.write(json.dumps(table, ensure_ascii=True, separators=(",", ":")).encode())
    return os.path.basename(file.name)


def read_sources(path: str, manifest: Manifest) -> dict[str, Any]:
    """Read what a refresh compares; empty where it can't be read, and then everything counts as changed."""
    if not manifest.sources:
        return {}
    try:
        table = strictjson.loads(_read_regular(os.path.join(path, manifest.sources), -1))
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}
