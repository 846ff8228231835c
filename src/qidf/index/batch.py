"""Many queries at once: analyzed in one pass, ranked without the GIL by several threads, answered as numpy arrays.

What `Index.search` gives, to the last bit; what a batch repeats (idf by df, parts of scores by posting) is kept.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qidf.index.segment import Segment
from qidf.kernels import Scanner, analyze
from qidf.weighting import Scheme, count_factor, identifier_spans, idf

_MANY = 200  # queries from which it pays to compute every posting's part of the score beforehand
_MOST_PARTS = 1 << 23  # postings for which that is done: 64 MB
_STEP = 512  # queries of one call at most: an interrupt waits for no more
_SCHEMES = 64  # (q, odds) whose idfs are kept


class Terms(NamedTuple):
    """The known terms of many queries in a row.

    Attributes
    ----------
    offsets : array of int64, shape (queries + 1,)
        Where each query's terms begin.
    numbers : array of int64, shape (terms, segments)
        Each term's number in each segment, −1 where it does not stand.
    dfs, counts, shaped : arrays of int64, shape (terms,)
        In how many documents it stands, how often in the query, and whether it was written as an identifier.
    """

    offsets: NDArray[np.int64]
    numbers: NDArray[np.int64]
    dfs: NDArray[np.int64]
    counts: NDArray[np.int64]
    shaped: NDArray[np.int64]


class Batch:
    """Ranks batches of queries over the segments of one snapshot. Threads may share it."""

    def __init__(self, segments: Sequence[Segment], scanner: Scanner) -> None:
        self._segments = segments
        self._scanner = scanner
        self._documents = sum(segment.documents for segment in segments)
        self._idfs: dict[tuple[float, str], dict[int, float]] = {}
        self._parts: tuple[tuple[float, float], list[Any]] | None = None

    def analyze(self, queries: Sequence[str], *, with_shapes: bool = True) -> Terms:
        """Return the terms of the queries; `shaped` is all 0 where nobody asks for shapes."""
        spans = [identifier_spans(query) or None for query in queries] if with_shapes else None
        return Terms(*analyze(self._scanner, [segment.reader for segment in self._segments], queries, spans))

    def rank(
        self,
        terms: Terms,
        weights: NDArray[np.float64],
        k: int,
        norms: Sequence[Any],
        *,
        settings: tuple[float, float],
        parts: list[Any] | None = None,
        threads: int | None = None,
    ) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        """Return ids and scores, arrays of (queries, k), as `Index.search_many` describes them.

        `weights` holds one number ≥ 0 for each of `terms`, `norms` k1·((1 − b) + b·dl/avgdl) by document of each
        segment, for the (k1, b) of `settings`. `parts`, where given, is what a posting of each segment adds to a score
        for each unit of weight, in BM25's place.
        """
        queries = len(terms.offsets) - 1
        room = min(k, self._documents)
        if parts is None:
            parts = self._get_parts(settings, norms) if queries >= _MANY else [None] * len(self._segments)
        count = threads or min(8, os.cpu_count() or 1)
        step = max(1, min(_STEP, -(-queries // (4 * count))))
        starts = range(0, queries, step)
        rankings = []
        for i, segment in enumerate(self._segments):
            docs = np.empty((queries, room), np.int64)
            scores = np.empty((queries, room))
            score = partial(
                segment.reader.score,
                terms.offsets,
                np.ascontiguousarray(terms.numbers[:, i]),
                weights,
                norms[i],
                room,
                docs.reshape(-1),
                scores.reshape(-1),
                parts=parts[i],
            )

            def run(first: int, score: Callable[..., None] = score) -> None:
                score(first, min(first + step, queries))

            if count == 1 or len(starts) < 2:
                for first in starts:
                    run(first)
            else:
                with ThreadPoolExecutor(count) as pool:
                    for _ in pool.map(run, starts):
                        pass
            rankings.append((docs, scores))
        return self._merge(rankings, queries, k)

    def _merge(
        self, rankings: list[tuple[NDArray[np.int64], NDArray[np.float64]]], queries: int, k: int
    ) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        """Join the segments' rankings, by score, ties by id."""
        if len(rankings) == 1 and rankings[0][0].shape[1] == k:
            docs, scores = rankings[0]
            return np.array(self._segments[0].ids(docs.reshape(-1)), object).reshape(docs.shape), scores
        ids = np.full((queries, k), None, object)
        scores = np.zeros((queries, k))
        for row in range(queries):
            best = [
                (-score, self._segments[i].id_bytes(doc))
                for i, (docs, found) in enumerate(rankings)
                for doc, score in zip(docs[row].tolist(), found[row].tolist(), strict=True)
                if doc >= 0
            ]
            for column, (score, id) in enumerate(heapq.nsmallest(k, best)):
                ids[row, column] = id.decode("utf-8", "surrogatepass")
                scores[row, column] = -score
        return ids, scores

    def weigh(self, terms: Terms, scheme: Scheme, odds: str = "lucene") -> NDArray[np.float64]:
        """Return the weight of each term: `term_weights`, computed once for each distinct df and count."""
        weights = by_value(terms.dfs, lambda n: self._idf(n, scheme.q_word, odds))
        if scheme.q_shaped != scheme.q_word:
            shaped = by_value(terms.dfs, lambda n: self._idf(n, scheme.q_shaped, odds))
            weights = np.where(terms.shaped, shaped, weights)
        with np.errstate(over="ignore"):
            weights = by_value(terms.counts, lambda count: count_factor(count, scheme.a)) * weights
        if not np.isfinite(weights).all():
            raise ValueError(f"scheme must keep every weight within a float's range, got {scheme!r}")
        return weights

    def _idf(self, n: int, q: float, odds: str) -> float:
        """`idf`, kept by n: a batch asks for the same few again and again."""
        if len(self._idfs) > _SCHEMES:
            self._idfs.clear()
        known = self._idfs.setdefault((q, odds), {})
        value = known.get(n)
        if value is None:
            value = known[n] = idf(n, self._documents, q, odds)
        return value

    def _get_parts(self, settings: tuple[float, float], norms: Sequence[Any]) -> list[Any]:
        """Return tf / (tf + norm) of all postings in each segment, or None where they are too many to keep."""
        kept = self._parts  # read once: another thread may replace it
        if kept is None or kept[0] != settings:
            parts: list[Any] = [None] * len(self._segments)
            if sum(segment.reader.postings for segment in self._segments) <= _MOST_PARTS:
                for i, segment in enumerate(self._segments):
                    parts[i] = np.empty(segment.reader.postings)
                    segment.reader.parts(norms[i], parts[i])
            kept = self._parts = (settings, parts)
        return kept[1]


def by_value(values: NDArray[np.int64], function: Callable[[int], float]) -> NDArray[np.float64]:
    """Return `function` of each of `values` (≥ 0), called once for each distinct one."""
    if not values.size:
        return np.zeros(0)
    present = np.flatnonzero(np.bincount(values))
    table = np.zeros(present[-1] + 1)
    table[present] = [function(value) for value in present.tolist()]
    return table[values]
