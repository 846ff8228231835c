"""The arithmetic of a stored score matrix: what bm25s keeps instead of term counts, and what can be read back from it.

bm25s stores one score for each (term, document), idf(t) · part(t, d), by term: compressed sparse columns. For BM25L and
BM25+ it stores idf · (part − part₀), with part₀ the part of a document of average length without the term, and keeps
idf · part₀ apart (the non-occurrence array). So a matrix changes its idf by one factor a term, and the term counts can
be worked out again. Knows arrays; knows no files and no library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qidf.engines.base import Model, fixed_q
from qidf.errors import EngineCorruptError, EngineError
from qidf.spectrum import Spectrum, bands
from qidf.weighting import ODDS, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 1 << 20
"""Stored scores worked on at once."""

_METHODS = {"lucene": "bm25", "robertson": "bm25", "atire": "bm25", "bm25l": "bm25l", "bm25+": "bm25+"}
_SAMPLE = 64  # documents looked at by `check`
_DECISIVE = 6  # fewer terms of a document can look like whole counts by chance


@dataclass(frozen=True)
class StoredScores:
    """A matrix of BM25 scores in compressed sparse columns, one column a term.

    Attributes
    ----------
    data : array of float, shape (postings,)
        The scores, column by column.
    indices : array of int, shape (postings,)
        Their documents.
    indptr : array of int, shape (terms + 1,)
        Where each column begins; the last is the number of postings.
    documents : int
        N.
    model : Model
        The constants they were computed with; `model.odds` is what the idf takes the logarithm of.
    q : float
        The q of the stored idf_q; 1 as bm25s stores it.
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    documents: int
    model: Model
    q: float = 1.0

    def __post_init__(self) -> None:
        data, indices, indptr = self.data, self.indices, self.indptr
        if not (data.ndim == indices.ndim == indptr.ndim == 1):
            raise EngineCorruptError("the arrays of the scores must have one dimension")
        if (
            data.dtype not in (np.float16, np.float32, np.float64)
            or indices.dtype.kind not in "iu"
            or indptr.dtype.kind not in "iu"
        ):
            raise EngineCorruptError(
                "scores must be floats, document numbers and offsets integers,"
                f" got {data.dtype}, {indices.dtype}, {indptr.dtype}"
            )
        if len(data) != len(indices):
            raise EngineCorruptError(f"{len(data):,} scores, but {len(indices):,} document numbers")
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(data) or bool((indptr[1:] < indptr[:-1]).any()):
            raise EngineCorruptError(f"the offsets of the terms do not run from 0 to {len(data):,}")
        if self.documents < 1 or (len(self.dfs) and int(self.dfs.max()) > self.documents):
            raise EngineCorruptError(f"a term stands in more documents than there are ({self.documents:,})")

    @property
    def terms(self) -> int:
        """The number of columns."""
        return len(self.indptr) - 1

    @cached_property
    def dfs(self) -> NDArray[np.int64]:
        """The document frequency of each term."""
        offsets = self.indptr.astype(np.int64, copy=False)
        return offsets[1:] - offsets[:-1]

    def idfs(self, q: float) -> NDArray[np.float64]:
        """Return idf_q of each term; 0 for a term of no document."""
        values, where = np.unique(self.dfs, return_inverse=True)
        table = [idf(n, self.documents, q, self.model.odds) if n else 0.0 for n in values.tolist()]
        return np.array(table, dtype=np.float64)[where]

    def factors(self, q: float) -> NDArray[np.float64]:
        """Return idf_q / the stored idf of each term; 1 where that is 0, since a score of 0 stays 0.

        Raises
        ------
        ValueError
            A score would leave the range of the stored floats.
        """
        old, new = self.idfs(self.q), self.idfs(q)
        largest = float(np.max(new, initial=0.0)) * (self.model.k1 + 1) * max(1.0, self.model.delta)
        limits = np.finfo(self.data.dtype)
        least = float(np.min(new[old > 0], initial=np.inf))
        smallest = float(limits.tiny) * (1e6 if self.data.dtype.itemsize > 2 else 1)  # a score is some of its idf
        if not largest < float(limits.max) or least < min(smallest, float(np.min(old[old > 0], initial=np.inf))):
            raise ValueError(f"q = {q!r} gives weights beyond what {self.data.dtype} scores can hold")
        return np.divide(new, old, out=np.ones_like(new), where=old > 0)

    def nonoccurrence(self, q: float) -> NDArray[Any] | None:
        """Return idf_q · part₀ of each term for BM25L and BM25+, in the type of the scores; None for the others."""
        if self.model.variant == "bm25":
            return None
        return (self.idfs(q) * part0(self.model)).astype(self.data.dtype)

    def rescaled(self, factors: NDArray[np.float64]) -> Iterator[NDArray[Any]]:
        """Yield the scores times their terms' factors, in pieces of at most `CHUNK`."""
        for start, stop, _, expanded in self._chunks(factors):
            yield (self.data[start:stop] * expanded).astype(self.data.dtype, copy=False)

    def column(self, term: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the documents and the scores of a term."""
        start, stop = int(self.indptr[term]), int(self.indptr[term + 1])
        return self.indices[start:stop], self.data[start:stop]

    def sum(self, boosts: Iterable[tuple[int, float]]) -> NDArray[np.float64]:
        """Return each document's Σ boost · score over the given (term, boost).

        Raises
        ------
        EngineCorruptError
            A posting names a document that is not there, or its score is no number.
        """
        columns = [(*self.column(term), boost) for term, boost in boosts]
        if not columns:
            return np.zeros(self.documents)
        documents = np.concatenate([column[0] for column in columns])
        factors = np.repeat([column[2] for column in columns], [len(column[0]) for column in columns])
        weighted = np.concatenate([column[1] for column in columns]) * factors
        try:
            scores: NDArray[np.float64] = np.bincount(documents, weighted, self.documents).astype(
                np.float64, copy=False
            )
        except ValueError:  # a negative number
            scores = np.empty(0)
        if len(scores) != self.documents:
            raise EngineCorruptError(f"a posting names a document that is not there (of {self.documents:,})")
        if not bool(np.isfinite(scores).all()):
            raise EngineCorruptError("a stored score is no number")
        return scores

    # what the scores say about the counts behind them

    def check(self) -> None:
        """Raise ValueError unless the scores look like `model`'s at `q`: within a document, the parts of its terms must
        come from whole counts. A sample of documents is looked at; one gather over the document numbers.
        """
        if self.data.dtype.itemsize < 4 or not len(self.data) or self.model.k1 == 0:
            return  # too coarse to tell, or nothing in it that depends on counts
        stride = max(1, self.documents // _SAMPLE)
        wanted = np.zeros(self.documents, dtype=bool)
        wanted[::stride] = True
        idfs, pieces = self.idfs(self.q), []
        for start, stop, first, counts in self._columns():
            self._check_documents(self.indices[start:stop])
            inside = np.flatnonzero(wanted[self.indices[start:stop]])
            term = first + np.searchsorted(np.cumsum(counts), inside, side="right")
            pieces.append((self.indices[start:stop][inside], self.data[start:stop][inside], term))
        documents, scores, terms = (np.concatenate(column) for column in zip(*pieces, strict=True))
        with np.errstate(all="ignore"):
            ratios = count_ratios(scores.astype(np.float64) / idfs[terms], self.model)
        usable = (idfs[terms] > 0) & ~(ratios > 20)  # beyond, a part is too near to its limit
        bad = good = 0
        for document in np.unique(documents[usable]).tolist():
            mine = usable & (documents == document)
            if len(np.unique(self.dfs[terms[mine]])) < 2 or mine.sum() < _DECISIVE:
                continue  # other idfs would scale all of it alike, or chance could make whole counts of it
            counts = ratios[mine] / max(float(ratios[mine].min()), 1e-300)
            # The rarest of its terms mostly stands once; in a document with few different words, several times.
            if any(np.all(np.abs(m * counts - np.rint(m * counts)) < 0.02 * counts) for m in range(1, 13)):
                good += 1
            else:
                bad += 1
        if bad > good:
            raise ValueError(
                f"these are not the scores of bm25s' {self.model.odds!r} idf at q = {self.q:g}: in {bad} of"
                f" {bad + good} documents they do not come from whole term counts. If qidf scaled them, say so"
                " (bm25s:DIR?q=Q, or stored_q=Q in Python)"
            )

    def spectrum(self) -> Spectrum:
        """Return the term statistics, tokens worked out from the scores: two passes.

        Raises
        ------
        ValueError
            The scores are not `model`'s at `q`, see `check`.
        EngineError
            The scores do not tell: a term's idf is 0 (`robertson`, in more than half of the documents), k1 is 0, or
            they are too coarse (float16).
        """
        self.check()
        tokens, norms = self._norms
        dfs = self.dfs
        values, counts = np.unique(dfs[dfs > 0], return_counts=True)
        once = None
        if norms is not None:
            hapaxes = np.flatnonzero(dfs == 1)
            where = self.indptr[:-1][hapaxes]
            ratios = count_ratios(self.data[where].astype(np.float64) / self.idfs(self.q)[hapaxes], self.model)
            once = int((np.rint(ratios * norms[self.indices[where]]) == 1).sum())
        histogram = dict(zip(values.tolist(), counts.tolist(), strict=True))
        return Spectrum(self.documents, tokens, int(counts.sum()), histogram.get(1, 0), once, bands(histogram))

    @cached_property
    def _norms(self) -> tuple[int, NDArray[np.float64] | None]:
        """Return the number of tokens, and K = k1·((1 − b) + b·dl/avgdl) of each document; None where it is not sure.

        The scores tell tf / K. With U the sum of these in a document, dl = K·U, so K = k1·(1 − b) / (1 − k1·b·U/avgdl),
        and the one unknown is the avgdl whose documents have this mean: the sum of their lengths falls as it grows.
        """
        N, (k1, b), idfs = self.documents, self.model[:2], self.idfs(self.q)
        if k1 == 0 or self.data.dtype.itemsize < 4:
            why = "with k1 = 0 no score depends on it" if k1 == 0 else f"{self.data.dtype} scores are too coarse"
            raise EngineError(f"the number of tokens can't be worked out: {why} (give q as a number)")
        if bool((idfs[self.dfs > 0] <= 0).any()):
            raise EngineError(
                f"the number of tokens can't be worked out: with the idf {self.model.odds!r} terms in many documents"
                " score 0 (give q as a number)"
            )
        least, total = np.full(N, np.inf), np.zeros(N)
        for start, stop, _, expanded in self._chunks(np.divide(1.0, idfs, out=np.ones_like(idfs), where=idfs > 0)):
            self._check_documents(self.indices[start:stop])
            ratios = count_ratios(self.data[start:stop] * expanded, self.model)
            np.minimum.at(least, self.indices[start:stop], ratios)
            np.add.at(total, self.indices[start:stop], ratios)
        filled = np.isfinite(least) & (least > 0)
        if not bool(filled.any()):
            return 0, None
        least, total = least[filled], total[filled]
        if b < 1:
            average = _root(lambda average: float(_lengths(total, average, k1, b).sum()) / N - average, k1 * b * total)
            lowest = np.rint(least * _lengths(total, average, k1, b) / total)  # the count of a document's rarest term
        else:  # K = k1·dl/avgdl, so that k1·U = avgdl in each document, whatever its counts
            average = float(np.median(k1 * total))
            lowest = np.ones(len(least))
        lowest = np.maximum(lowest, 1)
        tokens = float((total * lowest / least).sum())  # from the counts, which are whole: exact where 32 bits are not
        gap = abs(tokens - average * N)
        if b == 1 and gap > 0.5 + 1e-6 * tokens:
            return round(average * N), None
        if gap > 0.01 * tokens:
            raise EngineError(
                "the number of tokens can't be worked out from the stored scores: they do not agree with k1, b and the"
                f" idf {self.model.odds!r} at q = {self.q:g} (give q as a number)"
            )
        norms = np.ones(N)
        norms[filled] = lowest / least
        return round(tokens), norms

    def _check_documents(self, documents: NDArray[Any]) -> None:
        if int(documents.min()) < 0 or int(documents.max()) >= self.documents:
            raise EngineCorruptError(f"a posting names a document that is not there (of {self.documents:,})")

    def _columns(self) -> Iterator[tuple[int, int, int, NDArray[np.int64]]]:
        """Yield (start, stop, first term, how many scores of each term from it) of each piece of the scores."""
        postings = len(self.data)
        for start in range(0, postings, CHUNK):
            stop = min(start + CHUNK, postings)
            first = int(np.searchsorted(self.indptr, start, side="right")) - 1
            last = int(np.searchsorted(self.indptr, stop, side="left"))
            edges = np.clip(self.indptr[first : last + 1].astype(np.int64, copy=False), start, stop)
            yield start, stop, first, np.diff(edges)

    def _chunks(self, values: NDArray[np.float64]) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
        """Yield (start, stop, first term, the term's value for each score) of each piece."""
        for start, stop, first, counts in self._columns():
            yield start, stop, first, np.repeat(values[first : first + len(counts)], counts)


def model_of(method: str, idf_method: str, k1: float, b: float, delta: float, dtype: Any) -> Model:
    """Return the constants of bm25s' `method` and `idf_method`. EngineError if there is no such method."""
    for name, value in (("method", method), ("idf_method", idf_method)):
        if value not in _METHODS:
            raise EngineError(f"bm25s' {name} must be one of {', '.join(_METHODS)}, got {value!r}")
    assert set(_METHODS) <= set(ODDS)
    return Model(
        k1=float(k1),
        b=float(b),
        delta=float(delta) if _METHODS[method] != "bm25" else 0.0,
        odds=idf_method,
        variant=_METHODS[method],
        k1_plus_1=method not in ("lucene", "robertson"),
        float_bits=8 * np.dtype(dtype).itemsize,
    )


def part0(model: Model) -> float:
    """Return what BM25L or BM25+ gives a document of average length without the term; 0 for the others."""
    if model.variant == "bm25+":
        return model.delta
    if model.variant == "bm25l" and model.delta:
        return (model.k1 + 1) * model.delta / (model.k1 + model.delta)
    return 0.0


def count_ratios(parts: NDArray[np.float64], model: Model) -> NDArray[np.float64]:
    """Return tf / K for stored parts (without part₀), K = k1·((1 − b) + b·dl/avgdl): bm25s' formulas backwards."""
    share = (parts + part0(model)) / (model.k1 + 1) if model.variant == "bm25l" else parts
    if model.variant != "bm25l" and model.k1_plus_1:
        share = share / (model.k1 + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: NDArray[np.float64] = share / (1 - share)
    return ratios - model.delta / model.k1 if model.variant == "bm25l" else ratios


def _lengths(total: NDArray[np.float64], average: float, k1: float, b: float) -> NDArray[np.float64]:
    """Return dl of documents whose tf / K sum up to `total`."""
    with np.errstate(divide="ignore"):
        lengths: NDArray[np.float64] = total * k1 * (1 - b) / np.maximum(1 - k1 * b * total / average, 0.0)
    return lengths


def _root(falls: Callable[[float], float], floors: NDArray[np.float64]) -> float:
    """Return where a falling function meets 0, above all of `floors`, to the last bits."""
    low = high = max(float(floors.max()), 1e-12)
    while falls(high) > 0:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if falls(middle) > 0 else (low, middle)
    return high


def number(q: float | str, scores: StoredScores) -> float:
    """Return the q that a whole matrix can get, see `fixed_q`."""
    return fixed_q(q, lambda: scores.spectrum().hapax_density, "--engine (Python: qidf.connect)")


__all__ = ["CHUNK", "StoredScores", "count_ratios", "model_of", "number", "part0"]
