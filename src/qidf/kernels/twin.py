"""The kernels in plain Python: the tests' oracle, and what runs where nothing could be compiled. Slower, never wrong.

The same names and results as `scan`, `inverter`, `scorer`, `merger` and `lookup`, down to the bits of a score and the
bytes of a segment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from qidf.analysis import Token, get
from qidf.errors import DictionaryCorruptError, IndexCorruptError

_V = TypeVar("_V")

_PAGE = 4096
_WORDS = _PAGE // 8
_MASK = (1 << 64) - 1
_CHUNK = 1024  # pages checked at once


def term_hash(term: bytes, seed: int) -> int:
    """Return the hash of a term's UTF-8 bytes, as `scan.pxd` does it."""
    h = (seed ^ (len(term) * 0x9E3779B97F4A7C15)) & _MASK
    for at in range(0, len(term), 8):
        h = (h ^ int.from_bytes(term[at : at + 8], "little")) * 0xBF58476D1CE4E5B9 & _MASK
        h ^= h >> 32
    h = h * 0x94D049BB133111EB & _MASK
    return h ^ (h >> 29)


# Texts to terms


class Scanner:
    """The analyzer called `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._analyze = get(name).analyze

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of `text`."""
        return self._analyze(text)

    def find(self, text: str, wanted: dict[bytes, _V]) -> list[tuple[int, int, _V]]:
        """Return (start, end, value) for each token of `text` whose term, as UTF-8 bytes, is a key of `wanted`."""
        terms = {term.decode("utf-8", "replace"): value for term, value in wanted.items()}
        return [(token.start, token.end, terms[token.term]) for token in self._analyze(text) if token.term in terms]

    def bag(self, text: str) -> dict[str, int]:
        """Return the terms of `text` in order of first occurrence with their counts."""
        return dict(Counter(token.term for token in self._analyze(text)))


# Texts to postings


class Inverter:
    """Terms and counts of the documents added so far."""

    def __init__(self, scanner: Scanner, seed: int) -> None:
        self.scanner = scanner
        self.seed = seed
        self.numbers: dict[str, int] = {}  # term → its number here
        self.terms, self.counts = array("I"), array("I")  # a pair for each term of each document
        self.sizes, self.lengths = array("I"), array("I")  # of each document: its pairs, its tokens
        self._characters = 0

    @property
    def documents(self) -> int:
        """Documents added so far."""
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, and about what `invert` will need on top."""
        return 200 * len(self.numbers) + 2 * self._characters + 56 * len(self.terms) + 16 * len(self.sizes)

    def add(self, texts: list[str]) -> None:
        """Add one document for each of `texts`, in this order."""
        for text in texts:
            bag = self.scanner.bag(text)
            for term in bag:
                if term not in self.numbers:
                    self.numbers[term] = len(self.numbers)
                    self._characters += len(term)
                self.terms.append(self.numbers[term])
            self.counts.extend(bag.values())
            self.sizes.append(len(bag))
            self.lengths.append(sum(bag.values()))

    def sort(self) -> None:
        """Do nothing: `invert` sorts. Nothing may be added afterwards."""


def invert(inverters: list[Inverter], order: Any) -> dict[str, Any]:
    """Join `inverters` into the arrays of a segment.

    `order[d]` is the serial number of the document that becomes number d: documents are counted through the inverters
    in turn. Returns a dict of buffers by the names of `qidf.index.segment` (without the field), with `tokens`
    and `hapax` (terms with df = 1) as ints.
    """
    documents = sum(inverter.documents for inverter in inverters)
    order = np.asarray(order)
    if len(order) != documents:
        raise ValueError(f"order must name {documents} documents, got {len(order)}")
    if not np.array_equal(np.sort(order), np.arange(documents)):
        raise ValueError("order must name every document once")
    vocabulary = sorted(set().union(*(inverter.numbers for inverter in inverters)))  # as their UTF-8 bytes sort
    number = {term: t for t, term in enumerate(vocabulary)}
    maps = [np.array([number[term] for term in inverter.numbers], np.int64) for inverter in inverters]

    terms = _join([new[_array(inverter.terms)] for new, inverter in zip(maps, inverters, strict=True)], np.int64)
    counts = _join([_array(inverter.counts) for inverter in inverters], np.uint32)
    sizes = _join([_array(inverter.sizes) for inverter in inverters], np.uint32)
    lengths = _join([_array(inverter.lengths) for inverter in inverters], np.uint32)
    places = np.empty(documents, np.uint32)
    places[order] = np.arange(documents)
    docs = np.repeat(places, sizes)
    ascending = np.lexsort((docs, terms))
    counts = counts[ascending]
    dfs = np.bincount(terms, minlength=len(vocabulary))
    large = np.flatnonzero(counts >= 255)

    data = [term.encode() for term in vocabulary]
    return {
        "lengths": lengths[order],
        "terms.data": np.frombuffer(b"".join(data), np.uint8),
        "terms.offsets": _starts(np.array([len(term) for term in data], np.int64)),
        "terms.slots": _slots(data, inverters[0].seed if inverters else 0),
        "postings.offsets": _starts(dfs),
        "postings.docs": docs[ascending],
        "postings.counts": np.minimum(counts, 255).astype(np.uint8),
        "postings.large": np.stack([large, counts[large]], axis=1).astype(np.uint64).reshape(-1),
        "tokens": int(lengths.sum(dtype=np.uint64)),
        "hapax": int((dfs == 1).sum()),
    }


def _array(values: array[int]) -> NDArray[np.uint32]:
    return np.array(values, np.uint32)


def _join(pieces: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *pieces])


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    starts = np.zeros(len(sizes) + 1, np.uint64)
    starts[1:] = np.cumsum(sizes)
    return starts


def _slots(terms: list[bytes], seed: int) -> NDArray[np.uint32]:
    """Return the hash table: pairs of (tag, term + 1), linear probing."""
    size = 1
    while size < len(terms) + len(terms) // 2 + 1:
        size *= 2
    slots = [0] * (2 * size)
    for t, term in enumerate(terms):
        h = term_hash(term, seed)
        slot = h & (size - 1)
        while slots[2 * slot + 1]:
            slot = (slot + 1) & (size - 1)
        slots[2 * slot : 2 * slot + 2] = h >> 32, t + 1
    return np.array(slots, np.uint32)


# A segment's bytes to rankings


def _multipliers() -> NDArray[np.uint64]:
    """Return SplitMix64's first 512 outputs, made odd."""
    state, out = 0, []
    for _ in range(_WORDS):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        out.append((z ^ z >> 31) | 1)
    return np.array(out, np.uint64)


_MULTIPLIERS = _multipliers()


def _page_sums(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the multilinear checksum of each page, modulo 2^64; `words` has shape (pages, 512)."""
    sums: NDArray[np.uint64] = (words * _MULTIPLIERS).sum(axis=1, dtype=np.uint64)
    return sums


def checksums(data: Any) -> bytes:
    """Return the checksums of the pages of `data`, whose length is a multiple of 4096 bytes, as bytes (uint64 each)."""
    if len(data) % _PAGE:
        raise ValueError(f"data must be whole pages of {_PAGE} bytes, got {len(data)} bytes")
    return _page_sums(np.frombuffer(data, "<u8").reshape(-1, _WORDS)).astype("<u8").tobytes()


class Reader:
    """One segment in a buffer (a map of its file).

    `arrays` gives (offset in bytes, number of items) of each array by name; see `qidf.index.segment` for what they
    hold. The caller has checked the footer that they come from.
    """

    def __init__(self, buffer: Any, name: str, documents: int, seed: int, arrays: dict[str, tuple[int, int]]) -> None:
        self.name = name
        self.documents = documents
        self.terms = arrays["body.terms.offsets"][1] - 1
        self._buffer = buffer
        self._size = len(memoryview(buffer))
        self._seed = seed
        self._arrays = arrays
        self._pages = arrays["pages"][1]
        self._sums = self._view("pages", "<u8", self._pages)
        self._seen = np.zeros(self._pages, bool)
        if self._pages * _PAGE > self._size:
            raise IndexCorruptError(f"{name}: array pages does not fit the file")
        self._words = np.frombuffer(buffer, "<u8", self._pages * _WORDS).reshape(-1, _WORDS)
        self._slot_count = arrays["body.terms.slots"][1] // 2
        if self._slot_count < 1 or self._slot_count & (self._slot_count - 1):
            raise IndexCorruptError(f"{name}: the term table's size is not a power of two")
        self.postings = arrays["body.postings.docs"][1]
        self._large_count = arrays["body.postings.large"][1] // 2
        self._term_offsets = self._view("body.terms.offsets", "<u8", self.terms + 1)
        self._term_data = self._view("body.terms.data", "u1", arrays["body.terms.data"][1])
        self._slots = self._view("body.terms.slots", "<u4", 2 * self._slot_count)
        self._posting_offsets = self._view("body.postings.offsets", "<u8", self.terms + 1)
        self._docs = self._view("body.postings.docs", "<u4", self.postings)
        self._counts = self._view("body.postings.counts", "u1", self.postings)
        self._large = self._view("body.postings.large", "<u8", 2 * self._large_count)
        self._lengths = self._view("body.lengths", "<u4", documents)
        self.deleted = 0
        self._dead = np.zeros(documents, bool)
        self._lost: dict[int, int] = {}  # how many of the deleted documents held a term

    def _view(self, name: str, dtype: str, count: int) -> NDArray[Any]:
        offset, items = self._arrays[name]
        width = np.dtype(dtype).itemsize
        if count < 0 or items != count or offset < 0 or offset % width or offset + count * width > self._size:
            raise IndexCorruptError(f"{self.name}: array {name} does not fit the file")
        return np.frombuffer(self._buffer, dtype, count, offset)

    def _damaged(self, what: str) -> IndexCorruptError:
        return IndexCorruptError(f"{self.name}: damaged {what}")

    def _touch(self, offset: int, length: int, what: str) -> None:
        """Check the pages of `length` bytes from `offset` that nobody has touched yet."""
        if length == 0:
            return
        first, stop = offset // _PAGE, (offset + length - 1) // _PAGE + 1
        if stop > self._pages:
            raise self._damaged(what)
        unseen = first + np.flatnonzero(~self._seen[first:stop])
        for at in range(0, len(unseen), _CHUNK):
            pages = unseen[at : at + _CHUNK]
            if (_page_sums(self._words[pages]) != self._sums[pages]).any():
                raise self._damaged(what)
            self._seen[pages] = True

    def _items(self, array: NDArray[Any], name: str, start: int, stop: int, what: str) -> NDArray[Any]:
        """Return `array[start:stop]`, checked; the caller knows that start ≤ stop ≤ its size."""
        self._touch(self._arrays[name][0] + array.itemsize * start, array.itemsize * (stop - start), what)
        return array[start:stop]

    def check(self, offset: int, length: int) -> None:
        """Raise IndexCorruptError unless the bytes at `offset` are what was written."""
        what = f"data near byte {offset}"
        if offset + length > self._pages * _PAGE:
            raise self._damaged(what)
        self._touch(offset, length, what)

    def ordinal(self, term: str) -> int:
        """Return the number of `term` in this segment, or -1."""
        try:
            wanted = term.encode()
        except UnicodeEncodeError:
            return -1
        what = "dictionary"
        h = term_hash(wanted, self._seed)
        for probe in range(self._slot_count):
            slot = (h + probe) & (self._slot_count - 1)
            tag, t = self._items(self._slots, "body.terms.slots", 2 * slot, 2 * slot + 2, what).tolist()
            if t == 0:
                return -1
            if tag == h >> 32:
                if t > self.terms:
                    raise self._damaged(what)
                a, b = self._items(self._term_offsets, "body.terms.offsets", t - 1, t + 1, what).tolist()
                if not a <= b <= len(self._term_data):
                    raise self._damaged(what)
                if self._items(self._term_data, "body.terms.data", a, b, what).tobytes() == wanted:
                    return int(t) - 1
        return -1

    def _span(self, ordinal: int) -> tuple[int, int]:
        """Return where the postings of a term begin and end, checked."""
        if not 0 <= ordinal < self.terms:
            raise self._damaged("postings")
        name = "body.postings.offsets"
        start, stop = self._items(self._posting_offsets, name, ordinal, ordinal + 2, "postings").tolist()
        if not start <= stop <= self.postings:
            raise self._damaged("postings")
        return start, stop

    def _read(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the document numbers and counts of a row of postings, checked."""
        docs = self._items(self._docs, "body.postings.docs", start, stop, "postings").astype(np.int64)
        counts = self._items(self._counts, "body.postings.counts", start, stop, "postings").astype(np.float64)
        if (docs >= self.documents).any():
            raise self._damaged("postings")
        pairs = self._items(self._large, "body.postings.large", 0, 2 * self._large_count, "counts").reshape(-1, 2)
        large = np.flatnonzero(counts == 255)
        if large.size:
            at = np.searchsorted(pairs[:, 0], (large + start).astype(np.uint64))
            if (at == len(pairs)).any() or (pairs[at, 0] != (large + start).astype(np.uint64)).any():
                raise self._damaged("counts")
            counts[large] = pairs[at, 1]
        return docs, counts

    def df(self, ordinal: int) -> int:
        """Return in how many documents of this segment the term stands."""
        start, stop = self._span(ordinal)
        df = stop - start - self._lost.get(ordinal, 0)
        if df < 0:
            raise self._damaged("postings")
        return df

    def delete(self, docs: Any, terms: Any, lost: Any) -> None:
        """Take documents out: `docs` (ascending), and the `terms` that stood in `lost` of them, as `lost` gives them.

        To be called once, before anything is read. IndexCorruptError where the numbers don't fit this segment.
        """
        if self.deleted:
            raise ValueError("the documents of this reader were deleted already")
        for numbers, bound in ((list(docs), self.documents), (list(terms), self.terms)):
            if numbers != sorted(set(numbers)) or (numbers and numbers[-1] >= bound):
                raise self._damaged("deletes")
        if len(terms) != len(lost):
            raise self._damaged("deletes")
        if len(docs):
            self._dead[np.array(docs, np.int64)] = True
            self._lost = dict(zip(terms, lost, strict=True))
            self.deleted = len(docs)

    def is_deleted(self, doc: int) -> bool:
        """Return whether document number `doc` was deleted."""
        return doc < self.documents and bool(self._dead[doc])

    def terms_of(self, docs: Any) -> tuple[array[int], array[int]]:
        """Return the terms of some documents (ascending numbers), and in how many of them each stands.

        A segment knows a term's documents, not a document's terms, so this reads the document numbers of every posting.
        """
        wanted = np.zeros(self.documents, bool)
        for doc in docs:
            if doc >= self.documents:
                raise ValueError(f"docs must be below {self.documents}, got {doc}")
            wanted[doc] = True
        found = self._read(0, self.postings)[0]
        starts = self._dictionary()[1]
        before = np.concatenate([[0], np.cumsum(wanted[found])])
        counts = before[starts[1:]] - before[starts[:-1]]
        terms = np.flatnonzero(counts)
        return array("I", terms.tolist()), array("I", counts[terms].tolist())

    def _dictionary(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return all terms, and where their postings begin and the last ones end."""
        offsets = self._items(self._term_offsets, "body.terms.offsets", 0, self.terms + 1, "dictionary").tolist()
        data = self._items(self._term_data, "body.terms.data", 0, len(self._term_data), "dictionary").tobytes()
        name = "body.postings.offsets"
        starts = self._items(self._posting_offsets, name, 0, self.terms + 1, "dictionary").astype(np.int64)
        if offsets != sorted(offsets) or offsets[-1] > len(data):
            raise self._damaged("dictionary")
        if (starts[1:] < starts[:-1]).any() or starts[-1] > self.postings:
            raise self._damaged("dictionary")
        return [data[a:b] for a, b in pairwise(offsets)], starts

    def shift(self, terms: Any, before: Any, after: Any, others: tuple[Reader, ...]) -> tuple[int, int]:
        """Tell what a change of dfs here does to the counts of a whole index.

        `terms[i]` of this segment stands in `before[i]` live documents and will stand in `after[i]`; `others` are the
        readers of the other segments. Returns the change of the number of terms (df ≥ 1) and of those with df = 1.
        """
        if not len(terms) == len(before) == len(after):
            raise ValueError("the arrays' sizes do not fit each other")
        words = once = 0
        vocabulary = self._dictionary()[0] if len(terms) else []
        for term, old, new in zip(terms, before, after, strict=True):
            if term >= self.terms:
                raise self._damaged("dictionary")
            rest = 0
            for other in others:
                ordinal = other.ordinal(vocabulary[term].decode())
                rest += other.df(ordinal) if ordinal >= 0 else 0
            words += (rest + new > 0) - (rest + old > 0)
            once += (rest + new == 1) - (rest + old == 1)
        return words, once

    def count(self, ordinal: int, doc: int) -> int:
        """Return how often the term stands in document number `doc`."""
        docs, counts = self._read(*self._span(ordinal))
        at = np.searchsorted(docs, doc)
        return int(counts[at]) if at < len(docs) and docs[at] == doc else 0

    def length(self, doc: int) -> int:
        """Return the number of tokens of document number `doc`."""
        if doc >= self.documents:
            raise self._damaged("lengths")
        return int(self._items(self._lengths, "body.lengths", doc, doc + 1, "lengths")[0])

    def ids(self, docs: Any, offsets: int, data: int, data_bytes: int) -> list[str | None]:
        """Return the ids of document numbers, None for −1: items of the blob at `offsets` (uint64) and `data`."""
        if offsets % 8 or offsets + 8 * (self.documents + 1) > self._size or data + data_bytes > self._size:
            raise self._damaged("ids")
        places = np.frombuffer(self._buffer, "<u8", self.documents + 1, offsets)
        out: list[str | None] = []
        for doc in np.asarray(docs).tolist():
            if doc < 0:
                out.append(None)
                continue
            if doc >= self.documents:
                raise self._damaged("ids")
            self._touch(offsets + 8 * doc, 16, "ids")
            a, b = places[doc : doc + 2].tolist()
            if not a <= b <= data_bytes:
                raise self._damaged("ids")
            self._touch(data + a, b - a, "ids")
            try:
                out.append(bytes(self._buffer[data + a : data + b]).decode("utf-8", "surrogatepass"))
            except UnicodeDecodeError as error:
                raise self._damaged("ids") from error
        return out

    def number(self, id: bytes, offsets: int, data: int, data_bytes: int) -> int:
        """Return the number of the document with an id's bytes, −1 if there is none or it was deleted."""
        if offsets % 8 or offsets + 8 * (self.documents + 1) > self._size or data + data_bytes > self._size:
            raise self._damaged("ids")
        places = np.frombuffer(self._buffer, "<u8", self.documents + 1, offsets)
        low, high = 0, self.documents
        while low < high:
            middle = (low + high) // 2
            self._touch(offsets + 8 * middle, 16, "ids")
            a, b = places[middle : middle + 2].tolist()
            if not a <= b <= data_bytes:
                raise self._damaged("ids")
            self._touch(data + a, b - a, "ids")
            found = bytes(self._buffer[data + a : data + b])
            if found == id:
                return -1 if self._dead[middle] else middle
            if found < id:
                low = middle + 1
            else:
                high = middle
        return -1

    def norms(self, k1: float, b: float, average: float, out: Any) -> None:
        """Write k1·((1 − b) + b·dl/avgdl) of each document into `out`, ∞ for a deleted one: that makes its score 0."""
        if len(out) != self.documents:
            raise ValueError(f"out must have {self.documents} items, got {len(out)}")
        lengths = self._items(self._lengths, "body.lengths", 0, self.documents, "lengths")
        with np.errstate(all="ignore"):
            np.asarray(out)[:] = np.where(self._dead, np.inf, k1 * ((1.0 - b) + b * (lengths / average)))

    def parts(self, norms: Any, out: Any) -> None:
        """Write tf / (tf + norm) of every posting into `out`: what `score` would compute again for each query."""
        if len(norms) != self.documents or len(out) != self.postings:
            raise ValueError(f"norms and out must have {self.documents} and {self.postings} items")
        docs, tf = self._read(0, self.postings)
        with np.errstate(all="ignore"):
            np.asarray(out)[:] = tf / (tf + np.asarray(norms)[docs])

    def score(
        self,
        offsets: Any,
        ordinals: Any,
        weights: Any,
        norms: Any,
        k: int,
        out_docs: Any,
        out_scores: Any,
        first: int,
        last: int,
        parts: Any = None,
    ) -> None:
        """Rank queries `first` to `last`: the k best documents of each, by score, ties by number.

        Query i has the terms `ordinals[offsets[i]:offsets[i + 1]]` (−1: not in this segment) with `weights` ≥ 0. Row i
        of `out_docs` and `out_scores` (k items each) gets its hits, then −1 and 0. A hit has a score above 0. `parts`,
        if given, is what `parts` wrote for these norms: the same scores, without computing them again.
        """
        offsets, ordinals, weights, norms = map(np.asarray, (offsets, ordinals, weights, norms))
        out_docs, out_scores = np.asarray(out_docs), np.asarray(out_scores)
        if (
            first < 0
            or last > len(offsets) - 1
            or len(norms) != self.documents
            or k < 1
            or min(len(out_docs), len(out_scores)) < last * k
            or len(weights) != len(ordinals)
            or (parts is not None and len(parts) != self.postings)
        ):
            raise ValueError("the arrays' sizes do not fit each other")
        bounds = [0, *offsets[first : last + 1].tolist(), len(ordinals)] if first < last else []
        if bounds != sorted(bounds):
            raise ValueError("offsets must rise and stay within the terms")
        for i in range(first, last):
            terms = slice(offsets[i], offsets[i + 1])
            docs, scores = self._rank(ordinals[terms].tolist(), weights[terms].tolist(), norms, k, parts)
            row = slice(i * k, i * k + len(docs))
            rest = slice(row.stop, (i + 1) * k)
            out_docs[row], out_docs[rest] = docs, -1
            out_scores[row], out_scores[rest] = scores, 0.0

    def _rank(
        self, ordinals: list[int], weights: list[float], norms: NDArray[np.float64], k: int, parts: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        scores = np.zeros(self.documents)
        # Σ over terms, in the query's order, of w · tf / (tf + k1·((1 − b) + b·dl/avgdl))
        with np.errstate(all="ignore"):
            for ordinal, weight in zip(ordinals, weights, strict=True):
                if ordinal >= 0 and weight != 0:
                    start, stop = self._span(ordinal)
                    docs, tf = self._read(start, stop)
                    part = tf / (tf + norms[docs]) if parts is None else np.asarray(parts)[start:stop]
                    scores[docs] += weight * part
        hits = np.flatnonzero(scores > 0)
        if len(hits) > k:
            least = np.partition(scores[hits], -k)[-k]
            hits = hits[scores[hits] >= least]
        hits = hits[np.argsort(-scores[hits], kind="stable")][:k]  # ties stay in the order of their numbers
        return hits, scores[hits]


# Segments to one segment


class Merger:
    """The documents of several segments that were not deleted, as one segment.

    `ids` gives for each reader where its ids stand: (offsets, data, bytes of data). IndexCorruptError where a segment
    is not what was written, or two hold the same id.

    Attributes
    ----------
    documents, postings, tokens, terms, hapax, most : int
        Of the new segment; `most` is the largest df.
    segments, docs : array of uint32
        By new number, where the document comes from.
    vocabulary : dict of arrays
        `terms.data`, `terms.offsets`, `terms.slots`, `postings.offsets`.
    """

    def __init__(self, readers: list[Reader], ids: list[tuple[int, int, int]], seed: int) -> None:
        self._readers = readers
        lists = [self._list(reader, place) for reader, place in zip(readers, ids, strict=True)]
        if any(names != sorted(set(names)) for names in lists):
            raise IndexCorruptError("segments hold documents out of order")
        live = [
            (name, i, doc)
            for i, names in enumerate(lists)
            for doc, name in enumerate(names)
            if not readers[i].is_deleted(doc)
        ]
        live.sort()
        if any(a[0] == b[0] for a, b in pairwise(live)):
            raise IndexCorruptError("segments hold a document twice")
        self.documents = len(live)
        self.segments = array("I", [i for _, i, _ in live])
        self.docs = array("I", [doc for _, _, doc in live])
        number = {(i, doc): n for n, (_, i, doc) in enumerate(live)}
        self.tokens = sum(readers[i].length(doc) for _, i, doc in live)
        postings: dict[bytes, list[tuple[int, int]]] = {}
        for i, reader in enumerate(readers):
            terms, starts = reader._dictionary()
            docs, counts = reader._read(0, reader.postings)
            for t, term in enumerate(terms):
                for doc, count in zip(
                    docs[starts[t] : starts[t + 1]].tolist(), counts[starts[t] : starts[t + 1]].tolist(), strict=True
                ):
                    if (i, doc) in number:
                        postings.setdefault(term, []).append((number[i, doc], int(count)))
        vocabulary = sorted(postings)
        self._rows = [sorted(postings[term]) for term in vocabulary]
        sizes = np.array([len(row) for row in self._rows], np.int64)
        self.terms = len(vocabulary)
        self.postings = int(sizes.sum())
        self.hapax = int((sizes == 1).sum())
        self.most = int(sizes.max(initial=0))
        self.vocabulary = {
            "terms.data": np.frombuffer(b"".join(vocabulary), np.uint8),
            "terms.offsets": _starts(np.array([len(term) for term in vocabulary], np.int64)),
            "terms.slots": _slots(vocabulary, seed),
            "postings.offsets": _starts(sizes),
        }
        self._term = 0
        self._asked: list[tuple[int, int, int] | None] = []
        self._found: list[bytes] = []
        big = [(p, count) for p, (_, count) in enumerate(pair for row in self._rows for pair in row) if count >= 255]
        self.large = array("Q", [number for pair in big for number in pair])

    def _list(self, reader: Reader, place: tuple[int, int, int]) -> list[bytes]:
        """Return the items of a blob."""
        offsets, data, size = place
        if min(place) < 0 or offsets % 8 or offsets + 8 * (reader.documents + 1) > reader._size:
            raise reader._damaged("documents")
        if data + size > reader._size:
            raise reader._damaged("documents")
        reader._touch(offsets, 8 * (reader.documents + 1), "documents")
        reader._touch(data, size, "documents")
        places = np.frombuffer(reader._buffer, "<u8", reader.documents + 1, offsets).tolist()
        if places != sorted(places) or places[-1] > size:
            raise reader._damaged("documents")
        return [bytes(reader._buffer[data + a : data + b]) for a, b in pairwise(places)]

    def fill(self, docs: Any, counts: Any) -> int:
        """Write the postings of the next terms, as many as fit (`docs` must hold the largest df); return their number.

        0 when all were written.
        """
        if len(counts) < len(docs):
            raise ValueError("the arrays' sizes do not fit each other")
        if len(docs) < self.most:
            raise ValueError(f"docs must hold {self.most} numbers, got {len(docs)}")
        n = 0
        while self._term < self.terms and n + len(self._rows[self._term]) <= len(docs):
            for doc, count in self._rows[self._term]:
                docs[n], counts[n] = doc, min(count, 255)
                n += 1
            self._term += 1
        return n

    def _items(self, blobs: list[tuple[int, int, int] | None]) -> list[bytes]:
        if len(blobs) != len(self._readers):
            raise ValueError("the arrays' sizes do not fit each other")
        if self._asked != blobs:
            lists = [
                self._list(reader, place) if place is not None else [b""] * reader.documents
                for reader, place in zip(self._readers, blobs, strict=True)
            ]
            self._found = [lists[i][doc] for i, doc in zip(self.segments, self.docs, strict=True)]
            self._asked = blobs
        return self._found

    def sizes(self, blobs: list[tuple[int, int, int] | None]) -> Any:
        """Return where each item of the joined blobs will begin, and where the last ends: an array of uint64.

        `blobs` gives for each reader (offsets, data, bytes of data), or None where its documents have no such item.
        """
        return array("Q", accumulate(map(len, self._items(blobs)), initial=0))

    def items(self, blobs: list[tuple[int, int, int] | None], first: int, last: int) -> Any:
        """Return the items of new documents `first` to `last` (exclusive), end to end."""
        if not 0 <= first <= last <= self.documents:
            raise ValueError(f"there are {self.documents} documents, got {first} to {last}")
        return b"".join(self._items(blobs)[first:last])

    def column(self, places: list[int], width: int, default: bytes) -> Any:
        """Return an array's items by new number, `width` bytes each, from the offsets `places` (−1: `default`)."""
        if len(default) != width or len(places) != len(self._readers):
            raise ValueError("the arrays' sizes do not fit each other")
        for reader, place in zip(self._readers, places, strict=True):
            if place >= 0:
                if place + width * reader.documents > reader._size:
                    raise reader._damaged("documents")
                reader._touch(place, width * reader.documents, "documents")
        out = []
        for i, doc in zip(self.segments, self.docs, strict=True):
            at = places[i] + width * doc
            out.append(bytes(self._readers[i]._buffer[at : at + width]) if places[i] >= 0 else default)
        return b"".join(out)


# Queries to known terms


class Lookup:
    """The terms of a dictionary in a buffer (a map of its file).

    `arrays` gives (offset in bytes, number of items) of each array by name; terms of `sizes[i]` different parts begin
    at number `starts[i]`. The caller has checked the footer that they come from.
    """

    def __init__(
        self, buffer: Any, name: str, arrays: dict[str, tuple[int, int]], starts: list[int], sizes: list[int]
    ) -> None:
        self._map, self._name, self._arrays = memoryview(buffer), name, arrays
        self._starts, self._sizes = starts, sizes
        self._pages = arrays["pages"][1]
        self._seen = bytearray(self._pages)
        self._terms, self._parts = arrays["terms.slots"][1] - 1, arrays["parts.offsets"][1] - 1
        for name, width in _LOOKUP.items():
            offset, items = arrays[name]
            if min(offset, items) < 0 or offset % width or offset + items * width > len(self._map):
                raise self._damaged(f"array {name} does not fit")
        if arrays["lists.offsets"][1] != self._parts + 1 or arrays["parts.docs"][1] != self._parts:
            raise self._damaged("its arrays do not fit each other")

    def ordinals(self, words: list[bytes]) -> list[int]:
        """Return the number of each word among the parts, -1 for one that is none."""
        return [self._find(word) for word in words]

    def df(self, ordinal: int) -> int:
        """Return how many documents hold a part."""
        if not 0 <= ordinal < self._parts:
            raise self._damaged("its parts are not what was written")
        return self._number("parts.docs", ordinal)

    def terms_of(self, ordinal: int, most: int) -> list[int]:
        """Return the numbers of the first terms that hold a part."""
        if not 0 <= ordinal < self._parts:
            raise self._damaged("a list is not what was written")
        start, stop = self._number("lists.offsets", ordinal), self._number("lists.offsets", ordinal + 1)
        out: list[int] = []
        number = gap = shift = 0
        for byte in self._bytes("lists.data", start, min(stop, start + 5 * most)):
            if len(out) == most:
                break
            gap |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                number += gap
                if number >= self._terms:
                    raise self._damaged("a list is not what was written")
                out.append(number)
                number, gap, shift = number + 1, 0, 0
            elif shift > 28:
                raise self._damaged("a list is not what was written")
        if shift and len(out) < most:
            raise self._damaged("a list is not what was written")
        return out

    def packed(self, number: int) -> bytes:
        """Return a term with its marks, as it stands in the file."""
        if not 0 <= number < self._terms:
            raise self._damaged("its terms are not what was written")
        return self._bytes("terms.data", self._number("terms.slots", number), self._number("terms.slots", number + 1))

    def related(
        self, words: list[str], ordinals: list[int], weights: list[float], read: int, most: int
    ) -> list[tuple[str, tuple[str, ...], int, int]]:
        """Return the `most` terms with the highest k/n · Σ weight; see `lookup`."""
        if read < 1:
            return []
        known = self._terms
        held: dict[int, list[int]] = {}
        totals: dict[int, float] = {}  # no `sum`, which newer Pythons compensate
        for i, ordinal in enumerate(ordinals):
            numbers = self.terms_of(ordinal, read + 1)
            if len(numbers) > read:
                known = min(known, numbers[read - 1])
            for number in numbers[:read]:
                held.setdefault(number, []).append(i)
                totals[number] = totals.get(number, 0.0) + weights[i]
        scores = {number: len(own) * totals[number] / self._size(number) for number, own in held.items()}
        best = sorted(held, key=lambda number: (-scores[number], number))[: max(0, most)]
        return [
            (
                self._text(number),
                tuple([words[i] for i in held[number]]),
                self._size(number),
                -1 if number <= known else number,
            )
            for number in best
        ]

    def _damaged(self, why: str) -> DictionaryCorruptError:
        return DictionaryCorruptError(f"{self._name} is damaged: {why}")

    def _size(self, number: int) -> int:
        return self._sizes[bisect_right(self._starts, number) - 1]

    def _text(self, number: int) -> str:
        try:
            return self.packed(number).partition(b"\x1e")[0].replace(b"\x1f", b"").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self._damaged("a term is no text") from None

    def _find(self, word: bytes) -> int:
        low, high = 0, self._parts
        while low < high:
            middle = (low + high) // 2
            start, stop = self._number("parts.offsets", middle), self._number("parts.offsets", middle + 1)
            own = self._bytes("parts.data", start, stop)
            if own == word:
                return middle
            if own < word:
                low = middle + 1
            else:
                high = middle
        return -1

    def _number(self, name: str, i: int) -> int:
        width = _LOOKUP[name]
        return int.from_bytes(self._bytes(name, width * i, width * (i + 1)), "little")

    def _bytes(self, name: str, start: int, stop: int) -> bytes:
        """Return bytes of an array, checked against their pages' checksums the first time."""
        offset, items = self._arrays[name]
        if not 0 <= start <= stop <= items * _LOOKUP[name]:
            raise self._damaged(f"an entry of {name} lies outside")
        for page in range((offset + start) // _PAGE, (offset + stop + _PAGE - 1) // _PAGE if stop > start else 0):
            if page >= self._pages:
                raise self._damaged("a page is not what was written")
            if not self._seen[page]:
                at = self._arrays["pages"][0] + 8 * page
                if checksums(self._map[page * _PAGE : (page + 1) * _PAGE]) != bytes(self._map[at : at + 8]):
                    raise self._damaged("a page is not what was written")
                self._seen[page] = 1
        return bytes(self._map[offset + start : offset + stop])


_LOOKUP = {
    "terms.data": 1,
    "terms.slots": 4,
    "parts.data": 1,
    "parts.offsets": 8,
    "parts.docs": 4,
    "lists.data": 1,
    "lists.offsets": 8,
}
"""The arrays that a look-up reads, and the width of their items."""


def analyze(
    scanner: Scanner,
    readers: list[Reader],
    texts: Sequence[str],
    spans: Sequence[list[tuple[int, int]] | None] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the known terms of many queries: what `query_terms` and the segments' dictionaries say of each.

    `spans[i]` is None or the identifier-shaped spans of `texts[i]`, in code points; `spans` is None where shape does
    not matter. Unknown terms are left out; the others stand in order of their first occurrence.

    Returns
    -------
    offsets : array of int64, queries + 1: where each query's terms begin
    numbers : array of int64, terms x segments: each term's number in each segment, -1 where it does not stand
    dfs, counts, shaped : arrays of int64, one item a term
    """
    offsets = [0]
    rows: list[tuple[list[int], int, int, bool]] = []
    for i, text in enumerate(texts):
        identifiers = (spans[i] if spans is not None else None) or []
        counts: dict[str, int] = {}
        shaped: set[str] = set()
        for token in scanner.tokens(text):
            counts[token.term] = counts.get(token.term, 0) + 1
            if not token.part and any(a < token.end and token.start < b for a, b in identifiers):
                shaped.add(token.term)
        for term, count in counts.items():
            numbers = [reader.ordinal(term) for reader in readers]
            df = sum(reader.df(t) for reader, t in zip(readers, numbers, strict=True) if t >= 0)
            if df:
                rows.append((numbers, df, count, term in shaped))
        offsets.append(len(rows))
    return (
        np.array(offsets, np.int64),
        np.array([row[0] for row in rows], np.int64).reshape(-1, len(readers)),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[3] for row in rows], np.int64),
    )
