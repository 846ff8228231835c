"""BM25 against q-IDF on an index on a server, with the judged queries of a BEIR folder.

    measure(engine, read_judgments("beir"), choices)

Knows requests and files; advises nothing.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import json
import math
import os
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from qidf.cluster.rewriter import LONGEST
from qidf.cluster.sampling import bootstrap
from qidf.cluster.vectors import reason
from qidf.engines.base import float32
from qidf.engines.cluster import CLAUSES, Cluster
from qidf.errors import EngineError, SourceError
from qidf.rewriting.body import as_dict
from qidf.sources.jsonl import JsonlSource
from qidf.weighting import Q, check_count

TOP = 10
DEPTH = 100
"""Ranks that are compared, and that are judged."""

MOST_QUERIES = 1000
"""Of an evaluation; of more, so many at random."""

LARGEST_QRELS = 5_000_000
"""Lines of a file of judgments."""

_AT_ONCE = 40  # searches of a request
_LONGEST_LINE = 64 * 1024

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
class Judgments:
    """Queries with their relevant documents.

    Attributes
    ----------
    folder : str
    queries : dict
        {id: text}, those that are run.
    relevant : dict
        {id of a query: {id of a document: grade above 0}}.
    judged, missing : int
        Queries with a relevant document, and those of them that have no text, or one that is too long.
    """

    folder: str
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]
    judged: int
    missing: int


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


def read_judgments(folder: str | os.PathLike[str], queries: int = MOST_QUERIES, seed: int = 0) -> Judgments:
    """Read queries and judgments of a BEIR folder (Thakur et al. 2021): queries.jsonl and qrels/test.tsv.

    Without a test.tsv, qrels must hold one file. Ids of documents are the index's `_id`s.

    Parameters
    ----------
    folder : str or path
    queries : int, default 1000
        The most that are run; of more, so many at random by `seed`.

    Raises
    ------
    ValueError
        `queries` is less than 1.
    SourceError
        A file is missing or can't be read; the message names the file and the line.
    """
    queries = check_count("queries", queries)
    name = os.fspath(folder)
    relevant = _qrels(_qrels_file(name))
    texts: dict[str, str] = {}
    for document in JsonlSource(os.path.join(name, "queries.jsonl")).documents():
        if document.id in relevant and len(document.text) <= LONGEST:
            texts[document.id] = document.text
    if not texts:
        raise SourceError(f"{name}: no query of queries.jsonl has a relevant document in qrels; compare their ids")
    chosen = sorted(texts)
    if len(chosen) > queries:
        chosen = sorted(random.Random(seed).sample(chosen, queries))
    kept = {id: relevant[id] for id in chosen}
    return Judgments(name, {id: texts[id] for id in chosen}, kept, len(relevant), len(relevant) - len(texts))


def _qrels_file(folder: str) -> str:
    place = os.path.join(folder, "qrels")
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".tsv"))
    except OSError as error:
        raise SourceError(
            f"can't read {place}: {error.strerror}; a BEIR folder has queries.jsonl and qrels/test.tsv"
        ) from None
    if "test.tsv" not in names and len(names) != 1:
        raise SourceError(f"{place} has no test.tsv, and {len(names)} other .tsv files: leave one")
    path = os.path.join(place, "test.tsv" if "test.tsv" in names else names[0])
    if not os.path.isfile(path):  # asked before opening: a FIFO would wait for a writer
        raise SourceError(f"not a file: {path}")
    return path


def _qrels(path: str) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} of the grades above 0."""
    found: dict[str, dict[str, int]] = {}
    expected = "expected query-id, corpus-id and score (a whole number), separated by tabs"
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE), b""), 1):
                if number > LARGEST_QRELS:
                    raise SourceError(f"{path} has more than {LARGEST_QRELS:,} lines")
                try:
                    fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                    if fields == [""] or (number == 1 and fields[-1].strip() == "score"):
                        continue
                    query, document, grade = fields[0], fields[1], int(fields[2])
                    if len(fields) != 3 or not query or not document:
                        raise ValueError
                except (ValueError, IndexError):
                    raise SourceError(f"{path}, line {number}: {expected}") from None
                if grade > 0:
                    found.setdefault(query, {})[document] = grade
    except OSError as error:
        raise SourceError(f"can't read {path}: {error.strerror or error}") from None
    if not found:
        raise SourceError(f"{path} calls no document relevant: {expected}")
    return found


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
