"""A segment: the postings, lengths, ids and texts of documents, written once; and which of them were deleted since.

Documents stand in ascending order of `id_bytes`, so that the number of a document also breaks ties. The arrays of the
field `body` in a segment's container, for T terms in the order of their UTF-8 bytes, P postings, N documents:

    body.lengths           N     uint32   tokens of each document
    body.terms.data              bytes    the terms, end to end
    body.terms.offsets     T+1   uint64   where each begins
    body.terms.slots       2S    uint32   hash table of S = 2^s pairs (high half of the hash, term number + 1)
    body.postings.offsets  T+1   uint64   where each term's postings begin; the difference is its df
    body.postings.docs     P     uint32   document numbers, ascending in each term
    body.postings.counts   P     uint8    how often the term stands there; 255 says: look in `large`
    body.postings.large    2L    uint64   pairs (posting, count) in ascending order, for counts of 255 and more

and for the documents `ids.*`, `paths.*` (where they differ from the ids), `lines` (where one is not 1), `text.*`
(where the text is stored) and `digests` (16 bytes each: has it changed?): `data` and `offsets` of N + 1, or N. Nothing
here knows of queries or weights.

The documents that were deleted stand in a container of their own, with `docs`, their numbers; `terms`, the numbers of
the terms that stood in them; and `lost`, in how many of them each stood. So every df is exact.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

from qidf.index.container import Container, Output
from qidf.kernels import Reader
from qidf.sources import id_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"qidf-seg"
MAGIC_OF_DELETES = b"qidf-del"
_PIECE = 1 << 14


def write(file: BinaryIO, arrays: dict[str, Any], footer: dict[str, Any]) -> int:
    """Write a segment and return its size in bytes. `footer` holds documents, tokens, hapax, terms and seed.

    The caller makes the file durable (fsync) and names it in a manifest.
    """
    output = Output(file, MAGIC)
    for name, array in arrays.items():
        output.add(name, array)
    return output.finish(footer)


class Deletes(Container):
    """The documents of a segment that were deleted."""

    magic = MAGIC_OF_DELETES
    required = ("docs", "terms", "lost")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.verify()
        self.documents, self.tokens = self.numbers("documents", "tokens")
        self.docs, self.terms, self.lost = (
            memoryview(self.map)[offset : offset + 4 * count].cast("I")
            for offset, count in (self.arrays[name] for name in self.required)
        )
        if self.documents != len(self.docs):
            raise self.damaged("its footer contradicts itself")


def write_deletes(file: BinaryIO, segment: str, docs: Any, terms: Any, lost: Any, tokens: int) -> int:
    """Write the deletes of the segment called `segment` and return the file's size.

    The buffers hold uint32, the first two ascending; `tokens` is what the documents had together.
    """
    output = Output(file, MAGIC_OF_DELETES)
    output.add("docs", docs)
    output.add("terms", terms)
    output.add("lost", lost)
    return output.finish({"segment": segment, "documents": len(docs), "tokens": tokens})


class Segment(Container):
    """A segment on disk, without the documents that the file `deletes` names.

    `documents` and `tokens` count those that are there; `size` is the file's; `all_documents` bounds the numbers of
    documents, `all_terms` those of terms. The methods that take a document's number don't ask whether it was deleted.

    Raises
    ------
    IndexCorruptError
        The file is missing, truncated, damaged or no segment; also later, by any method that meets a damaged page.
    IndexMismatchError
        Another version of qidf wrote it.
    """

    magic = MAGIC
    required = (
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

    def __init__(self, path: str, deletes: str = "") -> None:
        super().__init__(path)
        self.all_documents, self.tokens, self.hapax, self.all_terms, self.seed = self.numbers(
            "documents", "tokens", "hapax", "terms", "seed"
        )
        if self.footer.get("name", self.name) != self.name:
            raise self.damaged("it is another segment")
        self.paths_are_ids = bool(self.footer.get("paths_are_ids"))
        for name in ("ids", "paths", "text"):
            if (f"{name}.data" in self.arrays) != (f"{name}.offsets" in self.arrays):
                raise self.damaged(f"{name} is not whole")
            if f"{name}.offsets" in self.arrays and self.arrays[f"{name}.offsets"][1] != self.all_documents + 1:
                raise self.damaged(f"{name}.offsets has the wrong size")
        for name in ("lines", "digests"):
            if name in self.arrays and self.arrays[name][1] != self.all_documents:
                raise self.damaged(f"{name} has the wrong size")
        self.reader = Reader(self.map, self.name, self.all_documents, self.seed, self.arrays)
        if self.reader.terms != self.all_terms:
            raise self.damaged("its footer contradicts itself")
        self.documents = self.all_documents
        self.deletes: Deletes | None = None
        if deletes:
            self.deletes = Deletes(deletes)
            if self.deletes.footer.get("segment") != self.name:
                raise self.deletes.damaged("it is of another segment")
            self.reader.delete(self.deletes.docs, self.deletes.terms, self.deletes.lost)
            self.documents -= self.deletes.documents
            self.tokens -= self.deletes.tokens
            if min(self.documents, self.tokens) < 0:
                raise self.deletes.damaged("it is of another segment")

    def verify(self) -> None:
        """Read every page; IndexCorruptError where one is not what was written."""
        super().verify()
        if self.deletes is not None:
            self.deletes.verify()

    def item(self, name: str, number: int) -> bytes:
        """Return the bytes of item `number` of the blob `name`."""
        start, _ = self.arrays[f"{name}.offsets"]
        data, size = self.arrays[f"{name}.data"]
        self.reader.check(start + 8 * number, 16)
        first, last = struct.unpack_from("<QQ", self.map, start + 8 * number)
        if not first <= last <= size:
            raise self.damaged(f"{name}.offsets do not rise")
        self.reader.check(data + first, last - first)
        return self.map[data + first : data + last]

    def _string(self, name: str, number: int) -> str:
        try:
            return self.item(name, number).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self.damaged(f"{name} hold no UTF-8") from error

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
        line: int = struct.unpack_from("<I", self.map, place)[0]
        return line

    def text(self, number: int) -> str | None:
        """Return the stored text of document `number`, None if texts are not stored."""
        if "text.offsets" not in self.arrays:
            return None
        return self._string("text", number)

    def digest(self, number: int) -> bytes:
        """Return the digest of document `number`, empty if an older version of qidf kept none."""
        if "digests" not in self.arrays:
            return b""
        place = self.arrays["digests"][0] + 16 * number
        self.reader.check(place, 16)
        return self.map[place : place + 16]

    def number(self, id: str) -> int:
        """Return the number of the document called `id` that was not deleted, or −1 (binary search)."""
        return self.reader.number(id_bytes(id), self.arrays["ids.offsets"][0], *self.arrays["ids.data"])

    def numbers_of_path(self, path: str) -> list[int]:
        """Return the numbers of the documents of `path` that were not deleted: one pass over the bytes of all paths."""
        if self.paths_are_ids:
            number = self.number(path)
            return [number] if number >= 0 else []
        if "paths.offsets" not in self.arrays or not path:
            return []
        wanted = id_bytes(path)
        places, count = self.arrays["paths.offsets"]
        start, size = self.arrays["paths.data"]
        self.reader.check(places, 8 * count)
        self.reader.check(start, size)
        found = []
        with memoryview(self.map)[places : places + 8 * count] as view, view.cast("Q") as offsets:
            at = self.map.find(wanted, start, start + size)
            while at >= 0:
                number = bisect_left(offsets, at - start)
                if number < count and offsets[number] == at - start:
                    number = bisect_right(offsets, at - start) - 1  # the ones before it are empty
                    if number + 1 < count and offsets[number + 1] == at - start + len(wanted):
                        found.append(number)
                at = self.map.find(wanted, at + 1, start + size)
        return [number for number in found if not self.reader.is_deleted(number)]

    def place(self, name: str) -> tuple[int, int, int] | None:
        """Return where a blob stands, as `Merger` takes it: its offsets, its data, and their size; None without it."""
        if f"{name}.offsets" not in self.arrays:
            return None
        return (self.arrays[f"{name}.offsets"][0], *self.arrays[f"{name}.data"])

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """Return an array as numpy sees it, checked."""
        import numpy as np

        offset, count = self.arrays[name]
        width = np.dtype(dtype).itemsize
        self.reader.check(offset, width * count)
        return np.frombuffer(self.map, dtype, count, offset)

    def vocabulary(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield each term's bytes with its df and its collection frequency, in the order of the bytes."""
        offsets = self.array("body.terms.offsets", "<u8")
        live = self.dfs()
        start, size = self.arrays["body.terms.data"]
        self.reader.check(start, size)
        frequencies = self.collection_frequencies()
        for first in range(0, self.all_terms, _PIECE):  # many segments are read at once: no whole one as Python objects
            places = offsets[first : first + _PIECE + 1].tolist()
            if places[-1] > size:
                raise self.damaged("terms.offsets do not fit")
            data = self.map[start + places[0] : start + places[-1]]
            dfs = live[first : first + _PIECE].tolist()
            counts = frequencies[first : first + _PIECE].tolist()
            for a, b, df, cf in zip(places, places[1:], dfs, counts, strict=False):
                if df:  # else it stands in deleted documents only
                    yield data[a - places[0] : b - places[0]], df, cf

    def dfs(self) -> NDArray[np.int64]:
        """Return the df of each term, 0 for one that stands in deleted documents only."""
        import numpy as np

        offsets = self.array("body.postings.offsets", "<u8")
        if (offsets[1:] < offsets[:-1]).any():
            raise self.damaged("postings.offsets do not rise")
        out: NDArray[np.int64] = (offsets[1:] - offsets[:-1]).astype(np.int64)
        if self.deletes is not None:
            out[np.asarray(self.deletes.terms)] -= np.asarray(self.deletes.lost)
            if out.size and out.min() < 0:
                raise self.deletes.damaged("it is of another segment")
        return out

    @cached_property
    def deleted(self) -> NDArray[np.bool_]:
        """Whether each document was deleted, by number."""
        import numpy as np

        out = np.zeros(self.all_documents, bool)
        if self.deletes is not None:
            out[np.asarray(self.deletes.docs)] = True
        return out

    def collection_frequencies(self) -> NDArray[np.uint64]:
        """Return how often each term stands in the documents that were not deleted."""
        import numpy as np

        if not self.all_terms:
            return np.zeros(0, np.uint64)
        counts = self.counts()
        if self.deletes is not None:
            docs = self.array("body.postings.docs", "<u4")
            if docs.size and docs.max() >= self.all_documents:
                raise self.damaged("postings do not fit")
            counts[self.deleted[docs]] = 0
        starts = self.array("body.postings.offsets", "<u8")[:-1]
        if (starts >= counts.size).any():
            raise self.damaged("postings.offsets do not fit")
        return np.add.reduceat(counts, starts.astype(np.int64))

    def counts(self) -> NDArray[np.uint64]:
        """Return how often the term of each posting stands in its document."""
        import numpy as np

        counts = self.array("body.postings.counts", "u1").astype(np.uint64)
        large = self.array("body.postings.large", "<u8").reshape(-1, 2)
        if large.size:
            if large[:, 0].max() >= counts.size:
                raise self.damaged("postings.large does not fit")
            counts[large[:, 0]] = large[:, 1]
        return counts
