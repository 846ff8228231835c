"""rank_bm25's objects in memory: BM25Okapi, BM25L and BM25Plus. The library itself is not imported.

It keeps the term counts of each document and one dictionary of idfs, so another idf is another dictionary: `apply` puts
one into an object, `RankBM25` gives one with each query to a copy that shares everything else.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qidf.engines.base import Clause, Collection, Engine, Model, best, fixed_q, placed
from qidf.errors import EngineError
from qidf.index.search import Hit
from qidf.spectrum import Spectrum, bands
from qidf.weighting import check_bm25, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qidf.analysis import Token
    from qidf.engines import EngineURL

OPTIONS = ()


def open_url(url: EngineURL) -> RankBM25:
    """Raise EngineError: there is nothing to open."""
    raise EngineError(
        f"rank_bm25 has no files of its own, and qidf reads no pickles, got {url.url!r}: in Python, use"
        " qidf.engines.rank_bm25.RankBM25(bm25) on the object"
    )


class RankBM25(Engine):
    """A `BM25Okapi`, `BM25L` or `BM25Plus` of rank_bm25, or of a class derived from one, with weights at query time.

    The object is never changed, and what `apply` did to it makes no difference here: q = 1 is the library's own idf. It
    must not grow later. Only documents that hold a term of positive weight are hits; rank_bm25 scores all. Equal scores
    stand in the order of the documents. A `filter` is an array of bool, shape (N,), or a container of ids.

    BM25Okapi's idf is negative where n > N/2, and the library puts epsilon · (mean idf) there. That floor is the term's
    idf_q at every q. In a tiny collection it may be below 0 itself; such a term weighs 0.

    Parameters
    ----------
    bm25 : BM25Okapi, BM25L or BM25Plus
    analyze : callable, default the object's tokenizer, else `str.split`
        From a text to its tokens (str, or `Token`s with their places): what the documents were made of. A str is placed
        by searching the text for it, as written, then in lower case; a stem may be misplaced, and so miss the shape of
        an identifier, which `q="auto"` looks at.
    ids : sequence of str, default "0", "1", …
        The documents' names, in the order they were given to rank_bm25.
    texts : sequence of str, default none
        The documents' texts, in the same order.

    Raises
    ------
    EngineError
        That is no such object, or has an idf of its own.
    """

    url = "rank_bm25:(in memory)"
    remedy = "Pass what the documents were tokenized with: analyze="

    def __init__(
        self,
        bm25: Any,
        analyze: Callable[[str], Iterable[Any]] | None = None,
        ids: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        kind = _kind(bm25)
        k1, b = check_bm25(bm25.k1, bm25.b)
        if not k1:
            raise EngineError("rank_bm25 divides by zero at k1 = 0")
        N = int(bm25.corpus_size)
        for name, given in (("ids", ids), ("texts", texts)):
            if given is not None and len(given) != N:
                raise ValueError(f"{name} must hold one str for each of {N:,} documents, got {len(given):,}")
        self.bm25 = bm25
        self.model = kind.model._replace(k1=k1, b=b, delta=float(getattr(bm25, "delta", 0.0)))
        self._dfs = _dfs(bm25)
        if self._dfs and not isinstance(next(iter(self._dfs)), str):
            raise EngineError(f"{type(bm25).__name__} must hold str tokens, got {type(next(iter(self._dfs))).__name__}")
        self._idf = kind.idf
        self._floor = _library_idfs(bm25, kind, self._dfs)[1]
        tokenizer = analyze or getattr(bm25, "tokenizer", None)
        self.analyzer = "a function" if tokenizer else "str.split"
        self._analyze = tokenizer or str.split
        self._ids = [str(id) for id in ids] if ids is not None else [str(number) for number in range(N)]
        self._numbers = {id: number for number, id in reversed(list(enumerate(self._ids)))}
        self._texts = texts
        tokens = sum(bm25.doc_len)
        self._collection = Collection(N, tokens, float(bm25.avgdl))

    def analyze(self, text: str) -> list[Token]:
        return placed(text, self._analyze(text))

    def collection(self) -> Collection:
        return self._collection

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        return [self._dfs.get(term, 0) for term in terms]

    def idf(self, n: int, N: int) -> float:
        own = self._idf(max(n, 1), N)
        return self._floor if own < 0 else own

    def idf_q(self, n: int, N: int, q: float) -> float:
        own = self.idf(n, N)
        return own if q == 1 or self._idf(max(n, 1), N) < 0 else idf(n, N, q, self.model.odds)

    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        N = len(self._ids)
        weights = {term: boost * self.idf(n, N) for term, n, boost, _ in clauses}
        own = {clause.term: weights[clause.term] for clause in clauses if not clause.optional}
        with np.errstate(divide="ignore", invalid="ignore"):  # an empty document at b = 1, which holds nothing
            scores: NDArray[np.float64] = _with_idf(self.bm25, weights).get_scores(list(weights))
            mine = scores if len(own) == len(weights) else _with_idf(self.bm25, own).get_scores(list(own))
        if self.model.variant == "bm25+":  # it gives all documents delta · Σ weight
            held = (not own.keys().isdisjoint(counts) for counts in self.bm25.doc_freqs)
            found = np.flatnonzero(np.fromiter(held, bool, len(scores)))
        else:
            found = np.flatnonzero(mine > 0)
        if filter is not None:
            found = found[self._mask(filter)[found]]
        order = best(scores, found, k)
        return [
            Hit(rank, self._ids[number], "", 1, score)
            for rank, (number, score) in enumerate(zip(order.tolist(), scores[order].tolist(), strict=True), 1)
        ]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        number = self._numbers[id]
        counts, one = self.bm25.doc_freqs[number], _with_idf(self.bm25, dict.fromkeys(terms, 1.0))
        without = self.model.delta if self.model.variant == "bm25+" else 0.0
        return [
            (float(one.get_batch_scores([term], [number])[0]), counts[term]) if term in counts else (without, 0)
            for term in terms
        ]

    def spectrum(self) -> Spectrum:
        once = sum(tf == 1 and self._dfs[term] == 1 for counts in self.bm25.doc_freqs for term, tf in counts.items())
        histogram = Counter(self._dfs.values())
        N, tokens, _ = self._collection
        return Spectrum(N, tokens or 0, len(self._dfs), histogram[1], once, bands(histogram))

    def text(self, id: str) -> str | None:
        number = self._numbers[id]
        return self._texts[number] if self._texts is not None else None

    def texts(self) -> Iterator[str]:
        return iter(self._texts or ())

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        return iter(self._dfs.items())

    def length(self, id: str) -> int | None:
        return int(self.bm25.doc_len[self._numbers[id]])

    def _mask(self, filter: Any) -> NDArray[np.bool_]:
        N = len(self._ids)
        if isinstance(filter, str):
            raise TypeError("filter must be an array of bool or a container of ids, got one str")
        if not isinstance(filter, np.ndarray):
            filter = set(filter)
            return np.fromiter((id in filter for id in self._ids), bool, N)
        if filter.dtype != bool or filter.shape != (N,):
            raise ValueError(f"filter must be bool of shape ({N},), got {filter.dtype} of shape {filter.shape}")
        return filter


def apply(bm25: Any, q: float | str) -> float:
    """Give an object of rank_bm25 the idf of another q; return that q as a number.

    Its scores are those of the new idf from then on, without qidf too. Nothing else in it reads an idf (BM25Okapi's
    `average_idf` stays what it was made with), and the counts that an idf comes from stay in it, also pickled: each
    call starts from them, and `apply(bm25, q=1)` makes the library's own dictionary again, bit for bit.

    BM25Okapi's terms with n > N/2 keep at every q the floor that the library gives them.

    Parameters
    ----------
    bm25 : BM25Okapi, BM25L or BM25Plus
    q : float or "hapax"

    Raises
    ------
    ValueError
        `"auto"`, or a q that is no number or too extreme for floats; the object is as it was.
    EngineError
        That is no such object, or has an idf of its own.
    """
    kind = _kind(bm25)
    dfs, N, tokens = _dfs(bm25), bm25.corpus_size, sum(bm25.doc_len)
    value = fixed_q(
        q,
        lambda: sum(n == 1 for n in dfs.values()) / tokens if tokens else 0.0,
        "qidf.engines.rank_bm25.RankBM25(bm25)",
    )
    idfs, _ = _library_idfs(bm25, kind, dfs)
    if value != 1:
        table = {n: idf(n, N, value, kind.model.odds) for n in set(dfs.values()) if kind.idf(n, N) >= 0}
        idfs = {term: table.get(dfs[term], own) for term, own in idfs.items()}
    bm25.idf = idfs
    return value


class _Kind(NamedTuple):
    """A class of rank_bm25: its idf by the library's own expression, since another may differ in the last bit."""

    idf: Callable[[int, int], float]
    model: Model


_KINDS = {
    "BM25Okapi": _Kind(
        lambda n, N: math.log(N - n + 0.5) - math.log(n + 0.5), Model(0, 0, odds="robertson", k1_plus_1=True)
    ),
    "BM25L": _Kind(
        lambda n, N: math.log(N + 1) - math.log(n + 0.5),
        Model(0, 0, odds="bm25l", variant="bm25l-tf", k1_plus_1=True),
    ),
    "BM25Plus": _Kind(lambda n, N: math.log((N + 1) / n), Model(0, 0, odds="bm25+", variant="bm25+", k1_plus_1=True)),
}


def _kind(bm25: Any) -> _Kind:
    """Return which class of rank_bm25 an object is of. EngineError if of none."""
    name = next((base.__name__ for base in type(bm25).__mro__ if base.__name__ in _KINDS), "")
    own = "epsilon" if name == "BM25Okapi" else "delta"
    wanted = ("corpus_size", "avgdl", "doc_freqs", "idf", "doc_len", "k1", "b", own)
    if not name or not all(hasattr(bm25, attribute) for attribute in wanted):
        raise EngineError(f"expected a {', '.join(_KINDS)} of rank_bm25, got {type(bm25).__name__}")
    for method in ("_calc_idf", "get_scores", "get_batch_scores"):
        owner = next((base.__name__ for base in type(bm25).__mro__ if method in vars(base)), name)
        if owner != name:
            what = "an idf" if method == "_calc_idf" else "scores"
            raise EngineError(f"{owner} has {what} of its own ({method}): qidf knows those of {', '.join(_KINDS)}")
    return _KINDS[name]


def _dfs(bm25: Any) -> dict[str, int]:
    """Return {term: n} in the order the library met the terms, which is the order it sums idfs in."""
    dfs: dict[str, int] = {}
    for counts in bm25.doc_freqs:
        for term in counts:
            dfs[term] = dfs.get(term, 0) + 1
    return dfs


def _library_idfs(bm25: Any, kind: _Kind, dfs: dict[str, int]) -> tuple[dict[str, float], float]:
    """Return the idfs that the library computed when the object was made, and BM25Okapi's floor."""
    idfs = {term: kind.idf(n, bm25.corpus_size) for term, n in dfs.items()}
    if kind.model.odds != "robertson" or not idfs:
        return idfs, 0.0
    total = 0.0
    for value in idfs.values():  # one by one: `sum` rounds otherwise from Python 3.12 on
        total += value
    floor = bm25.epsilon * (total / len(idfs))
    return {term: floor if value < 0 else value for term, value in idfs.items()}, floor


def _with_idf(bm25: Any, idfs: dict[str, float]) -> Any:
    """Return an object that shares all with `bm25` but its idfs."""
    scorer = copy.copy(bm25)
    scorer.idf = idfs
    return scorer
