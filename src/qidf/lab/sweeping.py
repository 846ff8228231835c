"""One parameter of the weights, many values of it: the curve of a measure, its best value, what choosing it is worth.

Queries are analyzed once, and weighed and ranked for each value. Prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qidf.index.batch import by_value
from qidf.lab.beir import Judgments
from qidf.lab.bootstrap import RESAMPLES, Difference, paired, reselected
from qidf.lab.measures import measure
from qidf.weighting import count_factor, idf_power

if TYPE_CHECKING:
    from qidf.index import Index
    from qidf.index.batch import Terms
    from qidf.index.search import Postings

QS = tuple(round(0.05 * i, 2) for i in range(1, 21))
"""0.05 to 1: what the published predictor is clamped to."""

GAMMAS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
"""Of idf^γ; 1 is BM25."""

MEASURE = "nDCG@10"
_DEPTH = 10

Weigh = Callable[[float], NDArray[np.float64]]
Progress = Callable[[int, int], None]


class Asked:
    """An index and the judged queries that it is asked, analyzed once.

    Attributes
    ----------
    index : Index
    judgments : Judgments
    terms : Terms
    """

    def __init__(self, index: Index, judgments: Judgments) -> None:
        self.index = index
        self.judgments = judgments
        self.terms: Terms = index.analyze_many(list(judgments.queries.values()))

    def values(
        self, weights: NDArray[np.float64], parts: list[NDArray[np.float64]] | None = None
    ) -> NDArray[np.float64]:
        """Return nDCG@10 of each query, in the order of the judgments; the arguments are those of `Index.rank_many`."""
        ids, _ = self.index.rank_many(self.terms, weights, min(_DEPTH, self.index.documents), parts=parts)
        rows = zip(self.judgments.queries, ids.tolist(), strict=True)
        rankings = {query: [id for id in row if id is not None] for query, row in rows}
        found = measure(rankings, self.judgments.relevant, (MEASURE,))[MEASURE]
        return np.array([found[id] for id in self.judgments.queries])

    def dph(self) -> NDArray[np.float64]:
        """Return nDCG@10 of each query for DFR-DPH, with terms weighed by their counts in the query.

        Raises
        ------
        ValueError
            The index has several segments, of which none knows a term's occurrences in all.
        """
        segments = self.index.postings()
        if len(segments) != 1:
            raise ValueError(f"DPH needs an index of one segment, this one has {len(segments)}: build with more memory")
        parts = [dph_parts(segments[0], self.index.average_length, self.index.documents)]
        return self.values(self.terms.counts.astype(np.float64), parts)

    def by_q(self, a: float) -> Weigh:
        """Return what weighs by q."""
        return lambda q: self.index.weigh_many(self.terms, q=q, a=a)

    def by_gamma(self, a: float) -> Weigh:
        """Return what weighs by idf^γ."""
        terms, documents = self.terms, self.index.documents

        factors = by_value(terms.counts, lambda count: count_factor(count, a))
        return lambda gamma: factors * by_value(terms.dfs, lambda n: idf_power(n, documents, gamma))


def dph_parts(postings: Postings, average: float, documents: int) -> NDArray[np.float64]:
    """Return `qidf.weighting.dph` of each posting."""
    tf, dl = postings.counts.astype(np.float64), postings.lengths[postings.docs].astype(np.float64)
    sizes = np.diff(postings.offsets).astype(np.int64)
    cf = np.repeat(np.add.reduceat(tf, postings.offsets[:-1].astype(np.int64)), sizes) if tf.size else tf
    f = tf / dl
    with np.errstate(divide="ignore", invalid="ignore"):
        information = tf * np.log2(tf * average / dl * documents / cf) + 0.5 * np.log2(2 * np.pi * tf * (1 - f))
        part = (1 - f) ** 2 / (tf + 1) * information
    return np.ascontiguousarray(np.where(f < 1, part, 0.0))


@dataclass(frozen=True)
class Curve:
    """What each value of a parameter came to.

    Attributes
    ----------
    settings : tuple of float
        The parameter's values; one of them is 1, which is BM25.
    values : array, shape (settings, queries)
        The measure of each query.
    """

    settings: tuple[float, ...]
    values: NDArray[np.float64]

    @property
    def means(self) -> list[float]:
        """The mean over the queries of each setting."""
        return [float(mean) for mean in self.values.mean(axis=1)]

    def at(self, setting: float) -> NDArray[np.float64]:
        """Return the values of one setting."""
        row: NDArray[np.float64] = self.values[self.settings.index(setting)]
        return row

    @property
    def best(self) -> float:
        """The setting with the largest mean; of equal ones the one closest to 1."""
        means = self.values.mean(axis=1)
        top = means.max()
        equal = [setting for setting, mean in zip(self.settings, means, strict=True) if mean >= top - 1e-12]
        return min(equal, key=lambda setting: abs(setting - 1))


class Oracle(NamedTuple):
    """The best setting, chosen with the labels.

    Attributes
    ----------
    setting : float
    mean : float
    fixed : Difference
        To BM25, the setting fixed before the bootstrap: it does not know of the choice, and is too sure.
    reselected : Difference
        The same with the setting chosen in each resample.
    """

    setting: float
    mean: float
    fixed: Difference
    reselected: Difference


def sweep(asked: Asked, settings: Sequence[float], weigh: Weigh, progress: Progress | None = None) -> Curve:
    """Measure each setting.

    Parameters
    ----------
    asked : Asked
    settings : sequence of float
        1 must be among them.
    weigh : callable
        Setting → weights: `Asked.by_q`, `Asked.by_gamma`.
    progress : callable, optional
        Is told how many settings are done, of how many.
    """
    if 1.0 not in settings:
        raise ValueError(f"1 must be among the settings, which is BM25, got {list(settings)!r}")
    rows = []
    for number, setting in enumerate(settings, 1):
        rows.append(asked.values(weigh(setting)))
        if progress:
            progress(number, len(settings))
    return Curve(tuple(settings), np.array(rows))


def oracle(curve: Curve, resamples: int = RESAMPLES, seed: int = 0, base: NDArray[np.float64] | None = None) -> Oracle:
    """Return the best setting of a curve, and how far its gain is known.

    `base` is what it is compared with, BM25's values; by default those of the curve at 1.
    """
    first = curve.at(1.0) if base is None else base
    best = curve.at(curve.best)
    fixed = paired(first.tolist(), best.tolist(), resamples, seed)
    return Oracle(curve.best, float(best.mean()), fixed, reselected(first.tolist(), curve.values, resamples, seed))


def recovery(value: float, bm25: float, best: float) -> float | None:
    """Return (value − BM25) / (best − BM25): the share of what labels could bring; None where they bring nothing."""
    return (value - bm25) / (best - bm25) if best - bm25 > 1e-9 else None


class Predicted(NamedTuple):
    """What weights chosen without labels come to.

    Attributes
    ----------
    q : float or None
        None where terms differ.
    mean : float
    difference : Difference
        To BM25.
    recovery : float or None
        Share of the gain of the oracle with the same exponent a; None where that gains nothing.
    """

    q: float | None
    mean: float
    difference: Difference
    recovery: float | None


@dataclass(frozen=True)
class Sweep:
    """The curves over q of a collection, one for each exponent a, and beside them what needs no labels.

    Attributes
    ----------
    documents, queries : int
    hapax_density : float
    settings : tuple of float
    bm25 : float
        Mean at q = 1, a = 1.
    curves : dict
        {a: Curve}.
    oracles : dict
        {a: Oracle}, their differences to BM25.
    predicted : dict
        {"hapax" or "auto": Predicted}.
    """

    documents: int
    queries: int
    hapax_density: float
    settings: tuple[float, ...]
    bm25: float
    curves: dict[float, Curve]
    oracles: dict[float, Oracle]
    predicted: dict[str, Predicted]

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "documents": self.documents,
            "queries": self.queries,
            "hapax_density": self.hapax_density,
            "bm25": self.bm25,
            "curves": [
                {"a": a, "q": list(curve.settings), MEASURE: curve.means, "best": curve.best}
                for a, curve in self.curves.items()
            ],
            "oracles": [
                {
                    "a": a,
                    "q": own.setting,
                    MEASURE: own.mean,
                    "fixed": own.fixed._asdict(),
                    "reselected": own.reselected._asdict(),
                }
                for a, own in self.oracles.items()
            ],
            "predicted": {
                name: {
                    "q": own.q,
                    MEASURE: own.mean,
                    "difference": own.difference._asdict(),
                    "recovery": own.recovery,
                }
                for name, own in self.predicted.items()
            },
        }


def sweep_all(
    asked: Asked,
    settings: Sequence[float] = QS,
    exponents: Sequence[float] = (1.0, 0.5),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sweep:
    """Sweep q for each exponent a, and measure `hapax` and `auto` beside it."""
    index = asked.index
    total = len(settings) * len(exponents)
    curves = {}
    for number, a in enumerate(exponents):
        before = number * len(settings)
        told = partial(_tell, progress, before, total) if progress else None
        curves[a] = sweep(asked, settings, asked.by_q(a), told)
    bm25 = curves[1.0].at(1.0) if 1.0 in curves else asked.values(asked.by_q(1.0)(1.0))
    oracles = {a: oracle(curve, resamples, seed, bm25) for a, curve in curves.items()}
    predicted = {}
    for name in ("hapax", "auto"):
        scheme = index.scheme(name)
        values = asked.values(index.weigh_many(asked.terms, q=name))
        difference = paired(bm25.tolist(), values.tolist(), resamples, seed)
        best = oracles.get(scheme.a)
        share = recovery(float(values.mean()), float(bm25.mean()), best.mean) if best else None
        q = scheme.q_word if scheme.q_word == scheme.q_shaped else None
        predicted[name] = Predicted(q, float(values.mean()), difference, share)
    return Sweep(
        documents=index.documents,
        queries=len(asked.judgments.queries),
        hapax_density=index.hapax_density,
        settings=tuple(settings),
        bm25=float(bm25.mean()),
        curves=curves,
        oracles=oracles,
        predicted=predicted,
    )


def _tell(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)
