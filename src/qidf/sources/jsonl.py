"""Documents from a file of JSON lines, plain or gzip. Knows nothing of analysis or indexes.

A line is an object with `id` (or BEIR's `_id`; a string or an integer) and `text` (a string), and may have `title` (a
string, put before the text on a line of its own unless empty), `path` (a string) and `line` (an integer, 1 or more).
Other keys are ignored, so are blank lines; null counts as absent. A text may be empty: such a document
still counts in N. `line` is passed on as given, the line of the text; a title above it is not counted.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from qidf import strictjson
from qidf.errors import SourceError
from qidf.sources import Document, FileEntry

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""How the names of the files end that can be read."""

MAX_LINE = 64 * 1024 * 1024
"""A longer line, in bytes, is an error: memory stays bounded whatever the file or its compressed form holds."""


class JsonlSource:
    """The documents in a file of JSON lines.

    Parameters
    ----------
    path : str or path
        A regular file; gzip if its name ends in .gz.

    Raises
    ------
    SourceError
        There is no such file, or it can't be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fspath(path)
        self.skipped: Counter[str] = Counter()
        """Always empty: a line that is no document is an error."""
        self.notes: list[str] = []
        """Always empty."""
        if not os.path.exists(path):
            raise SourceError(f"no such file or directory: {name}")
        if not os.path.isfile(path):  # asked before opening: a FIFO would wait for a writer
            raise SourceError(f"not a file: {name}; give a file of JSON lines")
        try:
            self.root = Path(path).resolve(strict=True)
            open(self.root, "rb").close()
        except OSError as e:
            raise SourceError(f"can't read {name}: {e.strerror}; check its permissions") from e

    def summary(self) -> str:
        """Return an empty line: nothing is skipped."""
        return ""

    def scan(self) -> list[FileEntry]:
        """List the one file, so that a refresh can tell whether it changed."""
        try:
            status = self.root.stat()
        except OSError as e:
            raise SourceError(f"can't read {self.root}: {e.strerror}") from e
        return [FileEntry(self.root.name, status.st_size, status.st_mtime_ns, status.st_ino)]

    def documents(self, entries: Iterable[FileEntry] | None = None) -> Iterator[Document]:
        """Read the documents in the order of their lines; a line at a time is in memory.

        Parameters
        ----------
        entries : iterable of FileEntry, default None
            If given and empty, nothing is read; else it says nothing: there is one file.

        Raises
        ------
        SourceError
            At the first line that is no document; the message names the file, the line and what was expected.
        """
        if entries is not None and not list(entries):
            return
        number = 0
        try:
            with self._open() as lines:
                while line := lines.readline(MAX_LINE + 1):
                    number += 1
                    if len(line) > MAX_LINE:
                        raise _Problem(f"longer than {MAX_LINE // 1024**2} MiB; split the document")
                    if number == 1:
                        line = line.removeprefix(b"\xef\xbb\xbf")
                    if not line.isspace() and line:
                        yield _document(line)
        except _Problem as e:
            raise SourceError(f"{self.root}, line {number}: {e}") from e
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise SourceError(f"{self.root}, after line {number}: not whole gzip data ({e})") from e
        except OSError as e:
            raise SourceError(f"can't read {self.root}: {e.strerror or e}") from e

    def _open(self) -> IO[bytes] | gzip.GzipFile:
        if self.root.name.endswith(".gz"):
            return gzip.open(self.root, "rb")
        return open(self.root, "rb")


class _Problem(Exception):  # noqa: N818 - it never leaves this module
    """What is wrong with a line."""


def _document(line: bytes) -> Document:
    try:
        strictjson.check(line)
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise _Problem(f"invalid UTF-8 at byte {e.start + 1}") from e
    except RecursionError as e:
        raise _Problem("not JSON that can be read: nested too deeply") from e
    except ValueError as e:
        raise _Problem(f'not JSON: {e}; expected an object such as {{"id": "1", "text": "…"}}') from e
    if not isinstance(row, dict):
        raise _Problem(f"expected an object with id and text, got {_kind(row)}")
    key = "id" if row.get("id") is not None else "_id"
    id = row.get(key)
    if id is None:
        raise _Problem('no id: expected "id" or "_id", a string or an integer')
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise _Problem(f'"{key}": expected a string or an integer, got {_kind(id)}')
    if id == "":
        raise _Problem(f'"{key}": expected a string that is not empty')
    if row.get("text") is None:
        raise _Problem('no text: expected "text", a string')
    text, title, path = _string(row, "text"), _string(row, "title"), _string(row, "path")
    at = row.get("line")
    if at is None:
        at = 1
    elif isinstance(at, bool) or not isinstance(at, int) or at < 1:
        raise _Problem(f'"line": expected an integer of 1 or more, got {at if type(at) is int else _kind(at)}')
    return Document(str(id), f"{title}\n{text}" if title else text, path, at)


def _string(row: dict[str, Any], key: str) -> str:
    """Return a value that must be a string; empty if absent. Lone surrogates (no encoding has them) become U+FFFD."""
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Problem(f'"{key}": expected a string, got {_kind(value)}')
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _kind(value: object) -> str:
    """Say what JSON calls a value."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
