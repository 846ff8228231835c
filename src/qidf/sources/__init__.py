"""Documents in: a directory or git work tree, or JSONL. Sources read; they know nothing of analysis or indexes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from qidf.errors import SourceError

if TYPE_CHECKING:
    from qidf.sources.files import FileSource
    from qidf.sources.jsonl import JsonlSource

MAX_BYTES = 1_000_000
"""Files of a directory that are larger than this, in bytes, are skipped unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Document:
    """A unit of retrieval.

    `id` names it, uniquely in its collection; ties in a ranking are broken by it. `text` is what is analyzed. `path` is
    where a person finds it (a file's path below the collection's root, or whatever a JSONL line gives); empty if there
    is none. `line` is the line of `path`, from 1, at which `text` begins.
    """

    id: str
    text: str
    path: str = ""
    line: int = 1


class FileEntry(NamedTuple):
    """A file as a scan saw it, without its content: what a refresh compares with the table it stored.

    `path` is relative to the source's root, with `/` between folders; bytes of a file name that are not UTF-8 stand in
    it as lone surrogates (Python's `surrogateescape`), so it leads back to the file. `size` is in bytes, `mtime_ns` in
    nanoseconds since the epoch; `inode` tells a replaced file from a rewritten one.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int


class Source(Protocol):
    """Where documents come from."""

    @property
    def root(self) -> Path:
        """The directory or file that is read, resolved."""

    @property
    def skipped(self) -> Counter[str]:
        """What the last `scan` and `documents` left out, by reason."""

    @property
    def notes(self) -> list[str]:
        """Lines for the user about what the last `scan` could not honour."""

    def scan(self) -> list[FileEntry]:
        """List the files that would be read, by `stat` alone, in ascending order of `id_bytes`."""

    def documents(self, entries: Iterable[FileEntry] | None = None) -> Iterator[Document]:
        """Read the documents of `entries`, in their order; of everything that `scan` finds if None."""

    def summary(self) -> str:
        """Tell `skipped` in one line; empty when nothing was."""


def id_bytes(id: str) -> bytes:
    """Encode an id as the bytes that order ids and can be stored for them: UTF-8 with `surrogatepass`.

    Every `str` has such bytes and no two share them, also file names that are not UTF-8 and ids out of JSON escapes.
    """
    return id.encode("utf-8", "surrogatepass")


def open_source(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> FileSource | JsonlSource:
    """Open a directory, or a file of JSON lines.

    Parameters
    ----------
    path : str or path
        A directory, or a file whose name ends in .jsonl, .ndjson, .jsonl.gz or .ndjson.gz.
    max_bytes : int, default 1,000,000
        Larger files of a directory are skipped. Says nothing about JSONL.

    Raises
    ------
    SourceError
        There is nothing at `path`, it can't be read, or it is neither of the two.
    """
    from qidf.sources.files import FileSource
    from qidf.sources.jsonl import SUFFIXES, JsonlSource

    if os.path.isdir(path):
        return FileSource(path, max_bytes)
    name = os.fspath(path)
    if name.endswith(SUFFIXES) or not os.path.lexists(path):
        return JsonlSource(path)
    raise SourceError(f"can't read documents from {name}: give a directory, or a file named {', '.join(SUFFIXES)}")
