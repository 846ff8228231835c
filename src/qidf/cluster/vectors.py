"""Term vectors of documents that do not exist: a server's own analysis of a text, with the statistics of its terms.

Each shard analyzes the text and tells n of each term, and N and the tokens of the field; summed over one copy of each
shard these are what `dfs_query_then_fetch` works with. Reading is enough, and nothing is written. (Elasticsearch
Reference, "Term vectors API"; OpenSearch, "Multi-term vectors".)

Knows requests and answers, and which shard a routing value leads to; weighs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from qidf.cluster.steps import Asked, Steps
from qidf.engines.base import code_points
from qidf.errors import EngineError
from qidf.rewriting import Placed

_TRIES = 64
"""Routing values that are tried for each shard: with 64 a shard is missed once in e^64 indices."""


class Shard(NamedTuple):
    """A shard, and a routing value that leads to it."""

    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a shard
    routing: str


class Vectors(NamedTuple):
    """What the shards tell of a text: its tokens, {term: n}, N and the sum of the lengths, None if that is unknown."""

    tokens: list[Placed]
    dfs: dict[str, int]
    documents: int
    length: int | None


def artificial(
    shards: Iterable[Shard], field: str, document: dict[str, Any], analyzer: str = "", *, tokens: bool = True
) -> list[dict[str, Any]]:
    """Return the documents to ask `_mtermvectors` for, one a shard.

    `document` holds the text where the field takes it from. Without `analyzer` it is the field's own for indexing;
    without `tokens` only the statistics of its terms come back.
    """
    own = {"per_field_analyzer": {field: analyzer}} if analyzer else {}
    return [
        {
            "_index": shard.index,
            "doc": document,
            "fields": [field],
            "routing": shard.routing,
            "positions": tokens,
            "offsets": tokens,
            "payloads": False,
            "term_statistics": True,
            "field_statistics": True,
            **own,
        }
        for shard in shards
    ]


def summed(field: str, text: str | list[str], answers: Sequence[dict[str, Any]]) -> Vectors:
    """Return what the shards' answers to `artificial` come to; the tokens of a text are the same on each.

    Raises
    ------
    EngineError
        A shard could not answer.
    """
    dfs: dict[str, int] = {}
    tokens: list[Placed] = []
    documents = length = 0
    at = code_points(text) if isinstance(text, str) else None
    for number, answer in enumerate(answers):
        if "error" in answer:
            raise EngineError(f"field {field!r} can't be read. The server says: {reason(answer['error'])}")
        vectors = answer.get("term_vectors", {}).get(field, {})
        statistics = vectors.get("field_statistics", {})
        documents += max(0, statistics.get("doc_count", 0))
        length += max(0, statistics.get("sum_ttf", 0))
        for term, entry in vectors.get("terms", {}).items():
            dfs[term] = dfs.get(term, 0) + entry.get("doc_freq", 0)
            if not number and at is not None:
                tokens += [
                    Placed(term, one["position"], at(one["start_offset"]), at(one["end_offset"]))
                    for one in entry["tokens"]
                ]
    tokens.sort(key=lambda token: (token.position, token.start))
    return Vectors(tokens, dfs, documents, length)


def find_shards(path: str, params: dict[str, str]) -> Steps[dict[str, tuple[int, ...]]]:
    """Ask which indices `path` names, an escaped expression of them, and which of their shards.

    An alias with a routing value stands for some of an index's shards only.
    """
    answer = yield Asked("GET", f"{path}/_search_shards", params)
    shards = {(copy["index"], copy["shard"]) for copies in answer["shards"] for copy in copies[:1]}
    names = sorted({index for index, _ in shards})
    return {name: tuple(sorted(shard for index, shard in shards if index == name)) for name in names}


def find_routing(path: str, index: str, shards: tuple[int, ...], total: int) -> Steps[list[Shard]]:
    """Ask for a routing value to each of some of an index's shards.

    There is none, and the list is empty, where the index spreads a routing value over several shards.

    Parameters
    ----------
    path : str
        The index's escaped name with a slash before it.
    shards : tuple of int
        The numbers of those that are wanted.
    total : int
        How many it has.
    """
    if total == 1:
        return [Shard(index, "0")]
    found: dict[int, str] = {}
    for routing in map(str, range(_TRIES * total)):
        answer = yield Asked("GET", f"{path}/_search_shards", {"routing": routing})
        led = {copy[0]["shard"] for copy in answer["shards"]}
        if len(led) == 1:
            found.setdefault(led.pop(), routing)
        if found.keys() >= set(shards):
            return [Shard(index, found[number]) for number in shards]
    return []


def reason(error: Any) -> str:
    """Return why a server refused, on one line."""
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        return " ".join(f"{causes[0].get('type', '')}: {causes[0].get('reason', '')}".split())
    return " ".join(str(error).split())
