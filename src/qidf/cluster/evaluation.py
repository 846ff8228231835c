"""BM25 against q-IDF on an index on a server, with the judged queries of a BEIR folder.

    measure(engine, read_judgments("beir"), choices)

Knows requests and files; advises nothing.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from qidf.cluster.sampling import bootstrap
from qidf.cluster.vectors import reason
from qidf.engines.base import float32
from qidf.engines.cluster import CLAUSES, Cluster
from qidf.errors import EngineError
from qidf.lab.beir import Judgments
from qidf.rewriting.body import as_dict
from qidf.weighting import Q

TOP = 10
DEPTH = 100
"""Ranks that are compared, and that are judged."""

_AT_ONCE = 40  # searches of a request

Progress = Callable[[int, int], None]


class Choice(NamedTuple):
    """A way to weigh: its name, and q and a as `Engine.search` takes them."""

    name: str
    q: Q
    a: float | None


class Measured(NamedTuple):
    """A choice's means over the judged queries, and its nDCG@10 minus BM25's, query by query.

    Attributes
    ----------
    ndcg_10, mrr_10, recall_100 : float
    difference, low, high : float
        Mean and its 95% interval by the bootstrap over queries.
    won, lost : int
        Queries.
    """

    choice: Choice
    ndcg_10: float
    mrr_10: float
    recall_100: float
    difference: float
    low: float
    high: float
    won: int
    lost: int


@dataclass(frozen=True)
class Evaluation:
    """BM25 and q-IDF on judged queries.

    Attributes
    ----------
    folder : str
    queries, judged, missing : int
        How many were run; the others as in `Judgments`.
    relevant, unknown : int
        Their relevant documents, and those of them that the index does not hold: they count as not found.
    rows : tuple of Measured
    """

    folder: str
    queries: int
    judged: int
    missing: int
    relevant: int
    unknown: int
    rows: tuple[Measured, ...]


def measure(
    engine: Cluster,
    judgments: Judgments,
    choices: Sequence[Choice],
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Run judged queries with each choice, exactly (`dfs_query_then_fetch`), and compare them with the first.

    Raises
    ------
    EngineError
        The server is away or refuses, or no relevant document is in the index.
    """
    wanted = sorted({id for own in judgments.relevant.values() for id in own})
    held = _held(engine, wanted)
    if not held:
        raise EngineError(
            f"{engine.url} holds none of the {len(wanted):,} relevant documents of {judgments.folder}:"
            f" the corpus-id of its qrels, such as {wanted[0][:80]!r}, must be the _id in the index"
        )
    scores: list[list[tuple[float, float, float]]] = [[] for _ in choices]
    ids = iter(judgments.queries)
    done = 0
    while some := list(islice(ids, max(1, _AT_ONCE // len(choices)))):
        searches = [
            (engine.weights(judgments.queries[id], q=choice.q, a=choice.a), True) for id in some for choice in choices
        ]
        found = iter(tops(engine, searches, DEPTH))
        for id in some:
            for column in scores:
                column.append(_judged([document for _, document in next(found)], judgments.relevant[id]))
        done += len(some)
        if progress:
            progress(done, len(judgments.queries))
    rows = []
    for choice, column in zip(choices, scores, strict=True):
        gains = [own[0] - base[0] for own, base in zip(column, scores[0], strict=True)]
        low, high = bootstrap(gains, [1] * len(gains), seed)
        ndcg, mrr, recall = (statistics.fmean(values) for values in zip(*column, strict=True))
        won, lost = sum(gain > 1e-9 for gain in gains), sum(gain < -1e-9 for gain in gains)
        rows.append(Measured(choice, ndcg, mrr, recall, statistics.fmean(gains), low, high, won, lost))
    return Evaluation(
        folder=judgments.folder,
        queries=len(judgments.queries),
        judged=judgments.judged,
        missing=judgments.missing,
        relevant=len(wanted),
        unknown=len(wanted) - len(held),
        rows=tuple(rows),
    )


def _held(engine: Cluster, ids: Sequence[str]) -> set[str]:
    """Return those ids that documents of the index have."""
    found: set[str] = set()
    for start in range(0, len(ids), 1000):
        body = {"query": {"ids": {"values": ids[start : start + 1000]}}, "size": 10_000, "_source": False}
        answer = engine.way.request("POST", f"/{engine.index}/_search", {"filter_path": "hits.hits._id"}, body)
        found |= {hit["_id"] for hit in as_dict(answer.get("hits")).get("hits", ())}
    return found


def _judged(ranking: Sequence[str], relevant: Mapping[str, int]) -> tuple[float, float, float]:
    """Return nDCG@10, the reciprocal rank within 10, and recall within 100 of a ranking of ids.

    nDCG is trec_eval's: gain is the grade, the discount log2(rank + 1) (Järvelin & Kekäläinen 2002).
    """
    ranking = list(dict.fromkeys(ranking))  # of several indices, two may hold the same id
    gains = [relevant.get(id, 0) for id in ranking]
    ideal = _dcg(sorted(relevant.values(), reverse=True))
    first = next((rank for rank, gain in enumerate(gains[:TOP], 1) if gain), math.inf)
    return _dcg(gains) / ideal, 1 / first, sum(gain > 0 for gain in gains) / len(relevant)


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:TOP], 1))


# Searches


def tops(
    engine: Cluster, searches: Sequence[tuple[list[tuple[str, float]], bool]], k: int
) -> list[list[tuple[str, str]]]:
    """Return the first k documents of each search, as (index, id).

    A search is its weighted terms, and whether its idf is that of all shards together.
    """
    found: list[list[tuple[str, str]]] = []
    for start in range(0, len(searches), _AT_ONCE):
        lines: list[Any] = []
        for weights, exact in searches[start : start + _AT_ONCE]:
            lines.append({"search_type": "dfs_query_then_fetch" if exact else "query_then_fetch"})
            lines.append({"query": _weighted(engine, weights), "size": k, "_source": False, "track_total_hits": False})
        names = ("status", "error", "hits.hits._index", "hits.hits._id")
        answer = engine.way.request(
            "POST",
            f"/{engine.index}/_msearch",
            {"filter_path": ",".join(f"responses.{name}" for name in names)},
            "".join(json.dumps(line) + "\n" for line in lines),
        )
        for one in answer["responses"]:
            if "error" in one:
                raise EngineError(f"{engine.url} can't be searched. The server says: {reason(one['error'])}")
            hits = as_dict(one.get("hits")).get("hits", ())
            found.append([(hit["_index"], hit["_id"]) for hit in hits])
    return found


def _weighted(engine: Cluster, weights: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Return the query of weighted terms: the heaviest, where they are more than a server takes."""
    heaviest = sorted(weights, key=lambda one: -one[1])[:CLAUSES]
    N = engine.collection().documents
    dfs = engine.doc_freqs([term for term, _ in heaviest])
    should = [
        {"term": {engine.field: {"value": term, "boost": float32(weight / engine.idf(n, N))}}}
        for (term, weight), n in zip(heaviest, dfs, strict=True)
    ]
    return {"bool": {"should": should}} if should else {"match_none": {}}
