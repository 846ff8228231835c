"""The hapax density of an index on a server, estimated from a random sample of its documents; only reads.

A term that stands in one document belongs to that document. So the hapaxes of documents drawn at random, over their
tokens, estimate h = (terms with df = 1) / (tokens) without a list of the index's terms, which a server does not give.

Knows requests and counts; chooses no q and judges nothing.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from qidf.cluster.vectors import reason
from qidf.engines.cluster import Cluster, Request
from qidf.errors import EngineError
from qidf.rewriting.body import as_dict
from qidf.weighting import check_count

SAMPLE = 300
"""Documents of a sample."""

LARGEST_SAMPLE = 2000
"""With it, term vectors take 200 requests."""

MOST_TERMS = 20_000
"""Terms of a document that is read; a larger one is skipped, so that an answer stays within some megabytes."""

AT_ONCE = 10
"""Documents of a request."""

SECONDS = 20.0
"""The time for term vectors, and again for the df of hapaxes; what was not reached is left out of the sample."""

MOST_CHECKED = 40_000
"""Terms whose df is asked of all shards; of more, so many at random."""

CHECKED_AT_ONCE = 1000
ANSWERED_AT_ONCE = 20_000
"""Of a request for df: terms, and terms times shards."""

MOST_CHECKS = 200
"""Requests for df."""

RESAMPLES = 1000
"""Of the bootstrap."""

_SHORT = ("circuit_breaking_exception", "rejected_execution_exception", "es_rejected_execution_exception")
_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)

_KEPT = ("found", "error", "term_vectors.*.field_statistics.doc_count", "term_vectors.*.terms.*.*_freq")
_FILTER_PATH = ",".join(f"docs.{name}" for name in _KEPT)


class Counted:
    """Carries requests and counts them; one that parts of a server had no room for is sent again a moment later."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.requests = 0

    def __call__(self, method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        """Return what the server answers."""
        for pause in (*_PAUSES, None):
            self.requests += 1
            answer = self._request(method, path, params, body)
            if pause is None or not _is_short(answer):
                break
            time.sleep(pause)
        return answer


def _is_short(answer: Any) -> bool:
    """Return whether a part of an answer tells of too little memory or too long a queue, which soon passes."""
    parts = [one for name in ("docs", "responses") for one in answer.get(name, ())]
    return any(as_dict(one.get("error")).get("type") in _SHORT for one in parts)


class Sampled(NamedTuple):
    """A document of the sample.

    Attributes
    ----------
    index : str
        The concrete index that holds it.
    id : str
        Its `_id`.
    shard_documents : int
        N of its shard.
    terms : dict
        {term: (count in the document, n on its shard)}.
    """

    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a document
    id: str
    shard_documents: int
    terms: dict[str, tuple[int, int]]

    @property
    def tokens(self) -> int:
        """The document's length, overlapping tokens counted."""
        return sum(count for count, _ in self.terms.values())


@dataclass(frozen=True)
class Sample:
    """Documents drawn at random, without replacement, from those that have the field.

    Attributes
    ----------
    documents : list of Sampled
        In random order, too.
    population : int
        Documents that have the field, deleted ones not counted.
    skipped : int
        Documents drawn that have more than `MOST_TERMS` terms.
    shards : int
        Of all indices together.
    """

    documents: list[Sampled]
    population: int
    skipped: int
    shards: int


class Estimate(NamedTuple):
    """The hapax density of an index.

    Attributes
    ----------
    h : float
        Σ hapaxes / Σ tokens over the documents of the sample.
    low, high : float
        95% interval by the bootstrap over documents; h itself where all documents were read.
    documents, tokens : int
        What was read.
    hapaxes : int
        Terms of these documents with df = 1 in the index; where not all were `checked`, their estimated number.
    candidates, checked : int
        Terms with df = 1 on their shard, and those of them whose df was asked of all shards.
    population, skipped : int
        See `Sample`.
    hidden : int
        Documents that count in df and can't be found: deleted and not merged away yet, or kept from us by an alias's
        filter or by document-level security. Terms that they share are no hapaxes, so h is low. At least so many:
        documents without a token can be found, and do not count.
    requests : int
        Sent to the server.
    """

    h: float
    low: float
    high: float
    documents: int
    tokens: int
    hapaxes: int
    candidates: int
    checked: int
    population: int
    skipped: int
    hidden: int
    requests: int


def hapax_density(engine: Cluster, sample: int = SAMPLE, seed: int = 0) -> Estimate:
    """Estimate h = (terms with df = 1) / (tokens) of an index from a random sample of its documents.

    Parameters
    ----------
    engine : Cluster
    sample : int, default 300
        Documents to draw, 1 to 2,000; all are taken where there are no more.
    seed : int, default 0
        Of the draw and of the bootstrap; less than 2^31.

    Raises
    ------
    ValueError
        `sample` or `seed` is out of range.
    EngineError
        The server is away or refuses, no document has the field, or term vectors can't be made of it.
    """
    engine, counted = counting(engine)
    return estimate(engine, draw(engine, sample, seed), seed)._replace(requests=counted.requests)


def counting(engine: Cluster) -> tuple[Cluster, Counted]:
    """Return the engine again, with the count of the requests that it sends from now on."""
    counted = Counted(engine.way.request)
    own = copy.copy(engine)
    own.way, own._request = engine.way._replace(request=counted), counted
    return own, counted


def draw(engine: Cluster, sample: int = SAMPLE, seed: int = 0) -> Sample:
    """Draw documents at random, and read their terms; see `hapax_density`."""
    if check_count("sample", sample) > LARGEST_SAMPLE:
        raise ValueError(f"sample must be at most {LARGEST_SAMPLE:,}, got {sample:,}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must be from 0 to {2**31 - 1:,}, got {seed:,}")
    answer = engine.way.request(
        "POST",
        f"/{engine.index}/_search",
        {"allow_partial_search_results": "false"},  # without a shard's documents it would be no random sample
        {
            "query": {
                "function_score": {
                    "query": {"bool": {"filter": [{"exists": {"field": engine.field}}]}},
                    "random_score": {"seed": seed, "field": "_seq_no"},
                    "boost_mode": "replace",
                }
            },
            "size": sample,
            "_source": False,
            "track_total_hits": True,
        },
    )
    hits, shards = answer["hits"]["hits"], answer["_shards"]["total"]
    population = answer["hits"]["total"]["value"]
    if not hits:
        raise EngineError(
            f"{engine.url} can't be sampled: none of its documents has the field (or none since its last refresh)"
        )
    read: list[Sampled | None] = []
    until = time.monotonic() + SECONDS
    for start in range(0, len(hits), AT_ONCE):
        if start and time.monotonic() > until:
            break  # the hits are in random order: those read so far are a random sample
        read += _read(engine, hits[start : start + AT_ONCE])
    documents = [one for one in read if one is not None and len(one.terms) < MOST_TERMS]
    if not any(one.terms for one in documents):
        raise EngineError(
            f"{engine.url} can't be sampled: no document gave its terms. A server makes them of stored term vectors or"
            " of _source, so the mapping must have one of the two, and some document no more than"
            f" {MOST_TERMS:,} terms"
        )
    skipped = sum(one is not None for one in read) - len(documents)
    return Sample(documents, population, skipped, shards)


def _read(engine: Cluster, hits: Sequence[dict[str, Any]]) -> Iterator[Sampled | None]:
    """Yield each hit with its terms, None where it is gone."""
    docs = [
        {
            "_index": hit["_index"],
            "_id": hit["_id"],
            **({"routing": hit["_routing"]} if "_routing" in hit else {}),
            "fields": [engine.field],
            "positions": False,
            "offsets": False,
            "payloads": False,
            "term_statistics": True,
            "filter": {"max_num_terms": MOST_TERMS},
        }
        for hit in hits
    ]
    params = {"realtime": "false", "filter_path": _FILTER_PATH}
    answers = engine.way.request("POST", "/_mtermvectors", params, {"docs": docs}).get("docs", [])
    for hit, answer in zip(hits, answers, strict=True):
        if "error" in answer:
            raise EngineError(f"{engine.url} can't be sampled. The server says: {reason(answer['error'])}")
        if not answer.get("found"):
            yield None
            continue
        vectors = answer.get("term_vectors", {}).get(engine.field, {})
        terms = {term: (one["term_freq"], one["doc_freq"]) for term, one in vectors.get("terms", {}).items()}
        yield Sampled(hit["_index"], hit["_id"], vectors.get("field_statistics", {}).get("doc_count", 0), terms)


def estimate(engine: Cluster, sample: Sample, seed: int = 0) -> Estimate:
    """Return what a sample tells of the hapax density; see `hapax_density`. `requests` is 0 here."""
    documents, N = sample.documents, engine.collection().documents
    candidates = [
        (number, term)
        for number, one in enumerate(documents)
        for term, (_, n) in one.terms.items()
        if n <= 1  # 0 where the document came after the last refresh of its shard
    ]
    if all(one.shard_documents in (0, N) for one in documents):  # one shard holds all there is
        hapaxes, checked = [number for number, _ in candidates], len(candidates)
    else:
        hapaxes, checked = _unique(engine, candidates, sample.shards, seed)
    counts = [0] * len(documents)
    for number in hapaxes:
        counts[number] += 1
    tokens = [one.tokens for one in documents]
    share = checked / len(candidates) if candidates else 1.0
    h = sum(counts) / share / sum(tokens)
    complete = share == 1 and len(documents) == sample.population
    low, high = (h, h) if complete else (bound / share for bound in bootstrap(counts, tokens, seed))
    return Estimate(
        h=h,
        low=low,
        high=high,
        documents=len(documents),
        tokens=sum(tokens),
        hapaxes=round(sum(counts) / share),
        candidates=len(candidates),
        checked=checked,
        population=sample.population,
        skipped=sample.skipped,
        hidden=max(0, N - sample.population),
        requests=0,
    )


def _unique(engine: Cluster, candidates: Sequence[tuple[int, str]], shards: int, seed: int) -> tuple[list[int], int]:
    """Return the document of each candidate that has df = 1 on all shards together, and how many were checked."""
    found: list[int] = []
    checked, until = 0, time.monotonic() + SECONDS
    at_once = max(1, min(CHECKED_AT_ONCE, ANSWERED_AT_ONCE // shards))
    drawn = random.Random(seed).sample(candidates, min(len(candidates), MOST_CHECKED, MOST_CHECKS * at_once))
    while checked < len(drawn) and (not checked or time.monotonic() < until):
        some = drawn[checked : checked + at_once]
        dfs = engine.doc_freqs([term for _, term in some])
        found += [number for (number, _), n in zip(some, dfs, strict=True) if n <= 1]
        checked += len(some)
    return found, checked


def bootstrap(numerators: Sequence[float], denominators: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95% interval of Σ numerators / Σ denominators: percentiles of it over resampled pairs (Efron 1979)."""
    import numpy as np

    above, below = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    generator = np.random.default_rng(seed)
    ratios = []
    for _ in range(RESAMPLES):
        chosen = generator.integers(len(above), size=len(above))
        if (total := below[chosen].sum()) > 0:
            ratios.append(above[chosen].sum() / total)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)
