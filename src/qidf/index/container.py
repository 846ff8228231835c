"""The form of an index's binary files: arrays in a row, a checksum for each page, a footer that says where they are.

    array, array, …        little-endian, each at a multiple of 64 bytes, zeros up to a whole page of 4,096 bytes
    checksums              one uint64 for each of these pages
    footer                 JSON: numbers, and where each array begins
    trailer                footer length, CRC-32 of checksums and footer, format (uint32 each), 8 bytes: what it is

Knows bytes; knows nothing of terms or documents.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

from qidf import strictjson
from qidf.errors import IndexCorruptError, IndexMismatchError
from qidf.kernels import checksums

FORMAT = 1
PAGE = 4096
WIDTHS = {
    "data": 1,
    "counts": 1,
    "docs": 4,
    "lengths": 4,
    "lines": 4,
    "slots": 4,
    "terms": 4,
    "lost": 4,
    "offsets": 8,
    "large": 8,
    "stamps": 8,
    "digests": 16,
}
"""Bytes of an item, by the last part of an array's name."""

_TRAILER = struct.Struct("<III8s")
_ALIGNMENT = 64
_CHUNK = 1 << 20


class Output:
    """Writes a container; `add` or `stream` its arrays, then `finish`. The caller makes the file durable (fsync)."""

    def __init__(self, file: BinaryIO, magic: bytes) -> None:
        self._file = file
        self._magic = magic
        self._places: dict[str, list[int]] = {}
        self._position = 0
        self._buffer = bytearray(_CHUNK)
        self._used = 0
        self._sums = bytearray()

    def add(self, name: str, array: Any) -> None:
        """Write an array: any buffer of its items' width."""
        self.stream(name, [array])

    def stream(self, name: str, pieces: Iterable[Any]) -> None:
        """Write an array that comes in pieces."""
        self._write(bytes(-self._position % _ALIGNMENT))
        start = self._position
        for piece in pieces:
            view = memoryview(piece)
            self._write(view.cast("B") if view.nbytes else b"")
        self._places[name] = [start, (self._position - start) // _width(name)]

    def finish(self, footer: dict[str, Any]) -> int:
        """Write checksums and footer, and return the size of the file in bytes."""
        self._write(bytes(-self._position % PAGE or (0 if self._position else PAGE)))
        self._flush()
        self._places["pages"] = [self._position, len(self._sums) // 8]
        data = json.dumps({**footer, "arrays": self._places}, sort_keys=True).encode()
        self._file.write(self._sums)
        self._file.write(data)
        crc = zlib.crc32(data, zlib.crc32(self._sums))
        self._file.write(_TRAILER.pack(len(data), crc, FORMAT, self._magic))
        return self._position + len(self._sums) + len(data) + _TRAILER.size

    def _write(self, data: Any) -> None:
        done = 0
        while done < len(data):
            step = min(_CHUNK - self._used, len(data) - done)
            self._buffer[self._used : self._used + step] = data[done : done + step]
            self._used += step
            self._position += step
            done += step
            if self._used == _CHUNK:
                self._flush()

    def _flush(self) -> None:
        full = memoryview(self._buffer)[: self._used]
        self._sums += checksums(full)
        self._file.write(full)
        self._used = 0


def blob(items: Sequence[bytes]) -> tuple[bytes, Any]:
    """Return the bytes of `items` end to end, and where each begins and the last one ends (uint64)."""
    from array import array

    return b"".join(items), array("Q", accumulate(map(len, items), initial=0))


def _width(name: str) -> int:
    return WIDTHS.get(name.rpartition(".")[2], 8)


class Container:
    """A container on disk, read through a memory map.

    With `in_memory` the file is read whole, so that whoever cuts it short while it is in use does no harm.
    `footer` is its JSON without the arrays; `arrays` gives (offset in bytes, number of items) by name.

    Raises
    ------
    IndexCorruptError
        The file is missing, truncated, damaged or something else.
    IndexMismatchError
        Another version of qidf wrote it.
    """

    magic: bytes
    map: mmap.mmap | bytes
    required: tuple[str, ...] = ()

    def __init__(self, path: str, *, in_memory: bool = False) -> None:
        self.name = os.path.basename(path)
        try:
            fd = os.open(
                path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            )  # a FIFO would wait
            with open(fd, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < _TRAILER.size + PAGE:
                    raise self.damaged("it is truncated")
                self.map = file.read() if in_memory else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            size = len(self.map)
        except FileNotFoundError as error:
            raise self.damaged("it is missing") from error
        except (OSError, ValueError) as error:
            raise self.damaged(f"it can't be read ({error})") from error
        length, crc, version, magic = _TRAILER.unpack_from(self.map, size - _TRAILER.size)
        if magic != self.magic:
            raise self.damaged("it is truncated, or another file")
        if version != FORMAT:
            raise IndexMismatchError(
                f"{self.name} has format {version}, this version of qidf reads {FORMAT}"
                " (build the index again: qidf index PATH --rebuild)"
            )
        end = size - _TRAILER.size
        if end - length < 0:
            raise self.damaged("its footer does not fit")
        self.size = size
        self._read_footer(end - length, end, crc)

    def _read_footer(self, start: int, end: int, crc: int) -> None:
        data = self.map[start:end]
        try:
            footer = strictjson.loads(data)
            arrays = {name: (int(offset), int(count)) for name, (offset, count) in footer.pop("arrays").items()}
            sums_start, sums_count = arrays["pages"]
            missing = [name for name in self.required if name not in arrays]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self.damaged("its footer can't be read") from error
        if missing or sums_start % PAGE or sums_start + 8 * sums_count != start or sums_start != PAGE * sums_count:
            raise self.damaged("its footer does not fit the file")
        if zlib.crc32(data, zlib.crc32(self.map[sums_start:start])) != crc:
            raise self.damaged("its checksum is wrong")
        for name, (offset, count) in arrays.items():
            width = _width(name)
            if name != "pages" and (
                min(offset, count) < 0 or offset % min(width, 8) or offset + width * count > sums_start
            ):
                raise self.damaged(f"array {name} does not fit")
        self.footer: dict[str, Any] = footer
        self.arrays: dict[str, tuple[int, int]] = arrays
        self.sums = (sums_start, sums_count)

    def numbers(self, *names: str) -> list[int]:
        """Return numbers of the footer, each 0 ≤ n < 2^63."""
        try:
            out = [int(self.footer[name]) for name in names]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self.damaged("its footer can't be read") from error
        if not 0 <= min(out) <= max(out) < 1 << 63:
            raise self.damaged("its numbers are out of range")
        return out

    def damaged(self, why: str) -> IndexCorruptError:
        """Return the error that says so of this file."""
        return IndexCorruptError(f"{self.name} is damaged: {why}")

    def forget(self) -> None:
        """Let the system have the memory of the pages that were read; they are read again when they are needed."""
        if isinstance(self.map, mmap.mmap) and hasattr(self.map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            self.map.madvise(mmap.MADV_DONTNEED)

    def verify(self) -> None:
        """Read every page; IndexCorruptError where one is not what was written."""
        start, count = self.sums
        for first in range(0, count, _CHUNK // PAGE):
            last = min(count, first + _CHUNK // PAGE)
            if checksums(self.map[first * PAGE : last * PAGE]) != self.map[start + 8 * first : start + 8 * last]:
                raise self.damaged("a page is not what was written")
