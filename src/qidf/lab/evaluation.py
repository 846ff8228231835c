"""Rankings of a test collection's queries with several weights, measured and compared with the first.

Knows indexes by `search` alone; prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from qidf.engines import Engine
from qidf.engines.base import Expand
from qidf.lab.beir import Judgments
from qidf.lab.bootstrap import RESAMPLES, Difference, paired
from qidf.lab.measures import BUDGETS, MEASURES, Overflow, fill, measure
from qidf.lab.trec import Run
from qidf.weighting import Q

if TYPE_CHECKING:
    from qidf.index import Index

DEPTH = 100
"""Hits of a query, more where a budget holds more."""

Progress = Callable[[int, int], None]


class Weights(NamedTuple):
    """q and a, as `Index.search` takes them, and of an engine whether identifiers widen its queries."""

    q: Q
    a: float | None = None
    expand: Expand = "off"


@dataclass(frozen=True)
class Result:
    """What one choice of weights came to.

    Attributes
    ----------
    weights : Weights
    means : dict
        {measure: mean over the queries}; R@500-tokens and so on after `MEASURES`.
    values : dict
        {measure: {id of a query: value}}.
    differences : dict
        {measure: Difference to the first choice}; empty for that one.
    run : dict
        {id of a query: (id of a document, score) of its hits, best first}, at most `DEPTH`.
    """

    weights: Weights
    means: dict[str, float]
    values: dict[str, dict[str, float]]
    differences: dict[str, Difference]
    run: Run


def evaluate(
    index: Index | Engine,
    judgments: Judgments,
    choices: Sequence[Weights],
    *,
    tokens: Mapping[str, int] | None = None,
    budgets: Sequence[int] = BUDGETS,
    overflow: Overflow = "stop",
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Result]:
    """Measure each choice of weights on judged queries.

    Parameters
    ----------
    index : Index or Engine
    judgments : Judgments
    choices : sequence of Weights
        The first is what the others are compared with.
    tokens : mapping of str to int, optional
        Tokens of each document; without them budgets are not measured.
    budgets : sequence of int
    overflow : {"stop", "skip", "truncate"}
        See `qidf.lab.measures.fill`.
    resamples : int, default 10,000
    seed : int, default 0
        Of the bootstrap.
    progress : callable, optional
        Is told how many choices are done, of how many.
    """
    results: list[Result] = []
    for number, weights in enumerate(choices, 1):
        run = _search(index, judgments.queries, weights, DEPTH)
        values = _values(index, judgments, weights, run, tokens, budgets, overflow)
        first = results[0].values if results else None
        differences = {}
        if first is not None:
            ids = list(judgments.queries)
            for name, own in values.items():
                base = [first[name][id] for id in ids]
                differences[name] = paired(base, [own[id] for id in ids], resamples, seed)
        means = {name: sum(own.values()) / len(own) for name, own in values.items()}
        results.append(Result(weights, means, values, differences, run))
        if progress:
            progress(number, len(choices))
    return results


def _values(
    index: Index | Engine,
    judgments: Judgments,
    weights: Weights,
    run: Run,
    tokens: Mapping[str, int] | None,
    budgets: Sequence[int],
    overflow: Overflow,
) -> dict[str, dict[str, float]]:
    rankings = {query: [id for id, _ in hits] for query, hits in run.items()}
    values = measure(rankings, judgments.relevant)
    if tokens is None:
        return values
    depth, open_ = DEPTH, judgments.queries
    walked: dict[int, dict[str, float]] = {budget: {} for budget in budgets}
    while open_:
        short = {}
        for id, text in open_.items():
            for budget in budgets:
                recall, is_full = fill(rankings[id], judgments.relevant[id], tokens, budget, overflow)
                walked[budget][id] = recall
                if not is_full and len(rankings[id]) >= depth:  # there may be more hits
                    short[id] = text
        depth *= 4
        open_ = short
        if open_:
            deeper = _search(index, open_, weights, depth)
            rankings |= {query: [id for id, _ in hits] for query, hits in deeper.items()}
    return values | {f"R@{budget}-tokens": walked[budget] for budget in budgets}


def _search(index: Index | Engine, queries: Mapping[str, str], weights: Weights, k: int) -> Run:
    q, a, expand = weights
    if isinstance(index, Engine):
        found = {id: index.search(text, k, q=q, a=a, expand=expand) for id, text in queries.items()}
        return {id: [(hit.id, hit.score) for hit in hits] for id, hits in found.items()}
    ids, scores = index.search_many(list(queries.values()), min(k, max(1, index.documents)), q=q, a=a)
    rows = zip(queries, ids.tolist(), scores.tolist(), strict=True)
    return {query: [hit for hit in zip(own, found, strict=True) if hit[0] is not None] for query, own, found in rows}


__all__ = ["DEPTH", "MEASURES", "Result", "Weights", "evaluate"]
