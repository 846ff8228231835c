"""The file of one segment: arrays in a row, a checksum for each page, a footer that says where they are.

    array, array, …        little-endian, each at a multiple of 64 bytes, zeros up to a whole page of 4,096 bytes
    checksums              one uint64 for each of these pages
    footer                 JSON: what `Segment` reads
    trailer                footer length, CRC-32 of checksums and footer, format (uint32 each), b"qidf-seg"

Documents stand in ascending order of `id_bytes`, so that the number of a document also breaks ties. The arrays of the
field `body`, for T terms in the order of their UTF-8 bytes, P postings, N documents:

    body.lengths           N     uint32   tokens of each document
    body.terms.data              bytes    the terms, end to end
    body.terms.offsets     T+1   uint64   where each begins
    body.terms.slots       2S    uint32   hash table of S = 2^s pairs (high half of the hash, term number + 1)
    body.postings.offsets  T+1   uint64   where each term's postings begin; the difference is its df
    body.postings.docs     P     uint32   document numbers, ascending in each term
    body.postings.counts   P     uint8    how often the term stands there; 255 says: look in `large`
    body.postings.large    2L    uint64   pairs (posting, count) in ascending order, for counts of 255 and more

and for the documents `ids.*`, `paths.*` (where they differ from the ids), `lines` (where one is not 1) and `text.*`
(where the text is stored): `data` and `offsets` of N + 1, or uint32. Nothing here knows of queries or weights.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from qidf import strictjson
from qidf.errors import IndexCorruptError, IndexMismatchError
from qidf.kernels import Reader, checksums
from qidf.sources import id_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 1
MAGIC = b"qidf-seg"
PAGE = 4096
_TRAILER = struct.Struct("<III8s")
_ALIGNMENT = 64
_CHUNK = 1 << 20
_PIECE = 1 << 14
_REQUIRED = (
    "body.lengths",
    "body.terms.data",
    "body.terms.offsets",
    "body.terms.slots",
    "body.postings.offsets",
    "body.postings.docs",
    "body.postings.counts",
    "body.postings.large",
    "ids.data",
    "ids.offsets",
)


def write(file: BinaryIO, arrays: dict[str, NDArray[Any]], footer: dict[str, Any]) -> int:
    """Write a segment and return its size in bytes. `footer` holds documents, tokens, hapax, terms and seed.

    The caller makes the file durable (fsync) and names it in a manifest.
    """
    pages = _PageWriter(file)
    places: dict[str, list[int]] = {}
    for name, array in arrays.items():
        pages.align()
        places[name] = [pages.position, array.size]
        pages.write(memoryview(array.reshape(-1).view("u1").data))
    sums = pages.finish()
    places["pages"] = [pages.position, len(sums) // 8]
    data = json.dumps({**footer, "arrays": places}, sort_keys=True).encode()
    file.write(sums)
    file.write(data)
    file.write(_TRAILER.pack(len(data), zlib.crc32(data, zlib.crc32(sums)), FORMAT, MAGIC))
    return pages.position + len(sums) + len(data) + _TRAILER.size


class _PageWriter:
    """Writes bytes in large pieces and keeps the checksum of every page."""

    def __init__(self, file: BinaryIO) -> None:
        self.position = 0
        self._file = file
        self._buffer = bytearray(_CHUNK)
        self._used = 0
        self._sums = bytearray()

    def write(self, data: memoryview) -> None:
        done = 0
        while done < len(data):
            step = min(_CHUNK - self._used, len(data) - done)
            self._buffer[self._used : self._used + step] = data[done : done + step]
            self._used += step
            self.position += step
            done += step
            if self._used == _CHUNK:
                self._flush()

    def align(self, to: int = _ALIGNMENT) -> None:
        self.write(memoryview(bytes(-self.position % to)))

    def finish(self) -> bytes:
        self.align(PAGE)
        self._flush()
        return bytes(self._sums)

    def _flush(self) -> None:
        full = memoryview(self._buffer)[: self._used]
        self._sums += checksums(full)
        self._file.write(full)
        self._used = 0


def blob(items: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Return the bytes of `items` end to end, and where each begins."""
    import numpy as np

    offsets = np.zeros(len(items) + 1, np.uint64)
    if items:
        offsets[1:] = np.cumsum(np.fromiter(map(len, items), np.uint64, len(items)))
    return np.frombuffer(b"".join(items), np.uint8), offsets


class Segment:
    """A segment on disk, read through a memory map.

    Raises
    ------
    IndexCorruptError
        The file is missing, truncated, damaged or no segment; also later, by any method that meets a damaged page.
    IndexMismatchError
        Another version of qidf wrote it.
    """

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        try:
            fd = os.open(
                path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            )  # a FIFO would wait
            with open(fd, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < _TRAILER.size + PAGE:
                    raise self._damaged("it is truncated")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as error:
            raise self._damaged("it is missing") from error
        except (OSError, ValueError) as error:
            raise self._damaged(f"it can't be read ({error})") from error
        length, crc, version, magic = _TRAILER.unpack_from(self._map, size - _TRAILER.size)
        if magic != MAGIC:
            raise self._damaged("it is truncated, or no segment of qidf's")
        if version != FORMAT:
            raise IndexMismatchError(f"{self.name} has format {version}, this version of qidf reads {FORMAT}")
        end = size - _TRAILER.size
        start = end - length
        if start < 0:
            raise self._damaged("its footer does not fit")
        footer = self._read_footer(start, end, crc)
        self.size = size
        self.documents: int = footer["documents"]
        self.tokens: int = footer["tokens"]
        self.hapax: int = footer["hapax"]
        self.terms: int = footer["terms"]
        self.paths_are_ids: bool = footer["paths_are_ids"]
        self.arrays: dict[str, tuple[int, int]] = footer["arrays"]
        self.reader = Reader(self._map, self.name, self.documents, footer["seed"], self.arrays)
        if self.reader.terms != self.terms:
            raise self._damaged("its footer contradicts itself")

    def _read_footer(self, start: int, end: int, crc: int) -> dict[str, Any]:
        data = self._map[start:end]
        try:
            footer = strictjson.loads(data)
            arrays = {name: (int(offset), int(count)) for name, (offset, count) in footer["arrays"].items()}
            numbers = [int(footer[key]) for key in ("documents", "tokens", "hapax", "terms", "seed")]
            flag = bool(footer["paths_are_ids"])
            sums_start, sums_count = arrays["pages"]
            missing = [name for name in _REQUIRED if name not in arrays]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise self._damaged("its footer can't be read") from error
        if missing or sums_start % PAGE or sums_start + 8 * sums_count != start or sums_start != PAGE * sums_count:
            raise self._damaged("its footer does not fit the file")
        if not 0 <= min(numbers) <= max(numbers) < 1 << 63:
            raise self._damaged("its numbers are out of range")
        if zlib.crc32(data, zlib.crc32(self._map[sums_start:start])) != crc:
            raise self._damaged("its checksum is wrong")
        widths = {"data": 1, "counts": 1, "docs": 4, "lengths": 4, "lines": 4, "slots": 4, "offsets": 8, "large": 8}
        for name, (offset, count) in arrays.items():
            width = widths.get(name.rpartition(".")[2], 8)
            if name != "pages" and (min(offset, count) < 0 or offset + width * count > sums_start):
                raise self._damaged(f"array {name} does not fit")
        for name in ("ids", "paths", "text"):
            if (f"{name}.data" in arrays) != (f"{name}.offsets" in arrays):
                raise self._damaged(f"{name} is not whole")
            if f"{name}.offsets" in arrays and arrays[f"{name}.offsets"][1] != numbers[0] + 1:
                raise self._damaged(f"{name}.offsets has the wrong size")
        if "lines" in arrays and arrays["lines"][1] != numbers[0]:
            raise self._damaged("lines has the wrong size")
        return {
            **dict(zip(("documents", "tokens", "hapax", "terms", "seed"), numbers, strict=True)),
            "paths_are_ids": flag,
            "arrays": arrays,
        }

    def _damaged(self, why: str) -> IndexCorruptError:
        return IndexCorruptError(f"{self.name} is damaged: {why}")

    def verify(self) -> None:
        """Read every page; IndexCorruptError where one is not what was written."""
        pages = self.arrays["pages"][1]
        for page in range(pages):
            self.reader.check(page * PAGE, PAGE)

    def item(self, name: str, number: int) -> bytes:
        """Return the bytes of item `number` of the blob `name`."""
        start, _ = self.arrays[f"{name}.offsets"]
        data, size = self.arrays[f"{name}.data"]
        self.reader.check(start + 8 * number, 16)
        first, last = struct.unpack_from("<QQ", self._map, start + 8 * number)
        if not first <= last <= size:
            raise self._damaged(f"{name}.offsets do not rise")
        self.reader.check(data + first, last - first)
        return self._map[data + first : data + last]

    def _string(self, name: str, number: int) -> str:
        try:
            return self.item(name, number).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self._damaged(f"{name} hold no UTF-8") from error

    def id_bytes(self, number: int) -> bytes:
        """Return the id of document `number` as the bytes that order it."""
        return self.item("ids", number)

    def id(self, number: int) -> str:
        """Return the id of document `number`."""
        return self._string("ids", number)

    def ids(self, numbers: Any) -> list[str | None]:
        """Return the ids of many document numbers (a buffer of int64), None for −1."""
        return self.reader.ids(numbers, self.arrays["ids.offsets"][0], *self.arrays["ids.data"])

    def path(self, number: int) -> str:
        """Return the path of document `number`, empty if it has none."""
        if self.paths_are_ids:
            return self.id(number)
        if "paths.offsets" not in self.arrays:
            return ""
        return self._string("paths", number)

    def line(self, number: int) -> int:
        """Return the line of its path at which document `number` begins."""
        if "lines" not in self.arrays:
            return 1
        place = self.arrays["lines"][0] + 4 * number
        self.reader.check(place, 4)
        line: int = struct.unpack_from("<I", self._map, place)[0]
        return line

    def text(self, number: int) -> str | None:
        """Return the stored text of document `number`, None if texts are not stored."""
        if "text.offsets" not in self.arrays:
            return None
        return self._string("text", number)

    def number(self, id: str) -> int:
        """Return the number of the document called `id`, or −1 (binary search)."""
        wanted = id_bytes(id)
        low, high = 0, self.documents
        while low < high:
            middle = (low + high) // 2
            if self.id_bytes(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < self.documents and self.id_bytes(low) == wanted else -1

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """Return an array as numpy sees it, checked."""
        import numpy as np

        offset, count = self.arrays[name]
        width = np.dtype(dtype).itemsize
        self.reader.check(offset, width * count)
        return np.frombuffer(self._map, dtype, count, offset)

    def vocabulary(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield each term's bytes with its df and its collection frequency, in the order of the bytes."""
        offsets = self.array("body.terms.offsets", "<u8")
        postings = self.array("body.postings.offsets", "<u8")
        start, size = self.arrays["body.terms.data"]
        self.reader.check(start, size)
        frequencies = self.collection_frequencies()
        for first in range(0, self.terms, _PIECE):  # many segments are read at once: no whole one as Python objects
            places = offsets[first : first + _PIECE + 1].tolist()
            if places[-1] > size:
                raise self._damaged("terms.offsets do not fit")
            data = self._map[start + places[0] : start + places[-1]]
            dfs = (
                postings[first + 1 : first + _PIECE + 1] - postings[first : first + _PIECE][: len(places) - 1]
            ).tolist()
            counts = frequencies[first : first + _PIECE].tolist()
            for a, b, df, cf in zip(places, places[1:], dfs, counts, strict=False):
                yield data[a - places[0] : b - places[0]], df, cf

    def collection_frequencies(self) -> NDArray[np.uint64]:
        """Return how often each term stands in the segment."""
        import numpy as np

        if not self.terms:
            return np.zeros(0, np.uint64)
        counts = self.counts()
        starts = self.array("body.postings.offsets", "<u8")[:-1]
        if (starts >= counts.size).any():
            raise self._damaged("postings.offsets do not fit")
        return np.add.reduceat(counts, starts.astype(np.int64))

    def counts(self) -> NDArray[np.uint64]:
        """Return how often the term of each posting stands in its document."""
        import numpy as np

        counts = self.array("body.postings.counts", "u1").astype(np.uint64)
        large = self.array("body.postings.large", "<u8").reshape(-1, 2)
        if large.size:
            if large[:, 0].max() >= counts.size:
                raise self._damaged("postings.large does not fit")
            counts[large[:, 0]] = large[:, 1]
        return counts
