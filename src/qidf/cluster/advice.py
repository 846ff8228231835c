"""What switching q-IDF on would do to an index on a server, told from its statistics, example queries and judgments.

    advise(engine, queries=…, body=…, folder=…)      everything together; only reads
    ways(url, product)                               the lines that switch it on

Knows no terminal: the numbers and sentences are for whoever shows them.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import json
import math
import random
import re
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from qidf.cluster.evaluation import TOP, Choice, Evaluation, Progress, measure, tops
from qidf.cluster.rewriter import LONGEST, Outcome, Rewriter, Search
from qidf.cluster.sampling import SAMPLE, Estimate, Sample, Sampled, counting, draw, estimate
from qidf.cluster.steps import Asked, carry_out
from qidf.engines.cluster import Cluster, quoted
from qidf.errors import EngineError
from qidf.lab.beir import Judgments
from qidf.rewriting import Note, plan
from qidf.rewriting.body import as_dict, at, shown
from qidf.rewriting.fields import analyzer_of, find_field
from qidf.weighting import AUTO, Q, identifier_spans, q_hapax

MADE = 12
"""Queries that are made from the sample."""

RARE = 3
"""The df on its shard that a rare word of such a query has at least, if it can: enough for a ranking to show it."""

MATTERS = 0.5
"""Of ten hits, how many must differ on average for a shard's own idf to matter."""

COMPARED = 1000
"""Terms of the sample whose idf on their shard is compared with that of all shards."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_SETTINGS = ("similarity", "analysis", "search.default_pipeline")


class TermShare(NamedTuple):
    """A term of a query, and its share of the query's weight under each choice, 0 to 1."""

    term: str
    df: int
    shaped: bool
    shares: tuple[float, ...]


class Example(NamedTuple):
    """What each choice does to a query.

    Attributes
    ----------
    query : str
    made : bool
        Whether it is made from the sample.
    terms : tuple of TermShare
        Those that the index holds, in the query's order.
    found : int
        How many documents BM25 ranks among its first ten.
    kept : tuple of int
        How many of these each choice has among its own.
    """

    query: str
    made: bool
    terms: tuple[TermShare, ...]
    found: int
    kept: tuple[int, ...]


class Sharding(NamedTuple):
    """What comes of each shard having an idf of its own, as it has without `dfs_query_then_fetch`.

    Attributes
    ----------
    shards : int
    idf_difference : float
        Σ |idf on the shard − idf| / Σ idf over terms of the sample: of a weight, how much is off.
    differ : float
        How many of the first ten hits change on average, with the weights of `auto`. Of documents with nearly the same
        score any may come first, so ties count as well.
    matters : bool
    """

    shards: int
    idf_difference: float
    differ: float
    matters: bool


class BodyReport(NamedTuple):
    """What becomes of a search body: paths that are rewritten, notes on what is left and what to look at again."""

    rewritten: tuple[str, ...]
    left: tuple[Note, ...]
    cautions: tuple[Note, ...]
    body: Any


@dataclass(frozen=True)
class Advice:
    """What `advise` found out.

    Attributes
    ----------
    url, product, version, analyzer : str
    average_length : float
        Tokens a document.
    estimate : Estimate
        The hapax density.
    q_hapax, q_low, q_high : float
        The q it predicts, and the ends of its interval.
    choices : tuple of Choice
    examples : tuple of Example
    kept : tuple of float
        How many of BM25's first ten hits each choice keeps, on average over the examples.
    sharding : Sharding
    cautions : tuple of str
    body : BodyReport, optional
    evaluation : Evaluation, optional
    q : float or "auto"
        What is recommended; 1 is to leave it off.
    why : str
    requests : int
        Sent after the engine was opened.
    """

    url: str
    product: str
    version: str
    analyzer: str
    average_length: float
    estimate: Estimate
    q_hapax: float
    q_low: float
    q_high: float
    choices: tuple[Choice, ...]
    examples: tuple[Example, ...]
    kept: tuple[float, ...]
    sharding: Sharding
    cautions: tuple[str, ...]
    body: BodyReport | None
    evaluation: Evaluation | None
    q: Q
    why: str
    requests: int


class Way(NamedTuple):
    """A way to switch it on: what it is, and the lines to copy."""

    title: str
    lines: tuple[str, ...]


def advise(
    engine: Cluster,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
    queries: Sequence[str] = (),
    body: Any = None,
    judgments: Judgments | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Tell what q-IDF would do to an index, and what to look at before it is switched on. Only reads.

    Parameters
    ----------
    engine : Cluster
    sample : int, default 300
    seed : int, default 0
        See `qidf.cluster.sampling.hapax_density`; queries are made with the same seed.
    queries : sequence of str
        Examples to show, besides those that are made from the sample.
    body : JSON, optional
        A search body as an application sends it: what would become of it.
    judgments : Judgments, optional
        Measures BM25 against q-IDF, see `read_judgments`. Without them it takes 500 requests at most.
    progress : callable, optional
        Is told how many judged queries are done, of how many.

    Raises
    ------
    ValueError
        `sample` or `seed` is out of range, or `body` is no object.
    EngineError
        The server is away or refuses, or the index can't be sampled.
    """
    if body is not None and not isinstance(body, dict):
        raise ValueError("the body of a search must be a JSON object")
    engine, counted = counting(engine)
    drawn = draw(engine, sample, seed)
    density = estimate(engine, drawn, seed)._replace(requests=counted.requests)
    q = q_hapax(min(1.0, density.h))
    choices = (
        Choice("BM25", 1.0, 1.0),
        Choice("auto", "auto", None),
        Choice("0.8", 0.8, None),
        Choice("0.6", 0.6, None),
        Choice("hapax", q, None),
    )
    made = _made(engine, drawn, seed)
    examples, differ = _examples(engine, {**dict.fromkeys(made, True), **dict.fromkeys(queries, False)}, choices)
    sharding = _sharding(engine, drawn, differ, seed)
    mappings = engine.way.request("GET", f"/{engine.index}/_mapping")
    paths = ",".join(f"*.settings.index.{name}" for name in _SETTINGS)
    settings = engine.way.request("GET", f"/{engine.index}/_settings", {"filter_path": paths})
    kinds = [
        (as_dict(own.get("mappings")), as_dict(settings.get(name, {}).get("settings")))
        for name, own in mappings.items()
    ]
    bodies = [{"query": {"match": {engine.field: one.query}}} for one in examples]
    outcomes = _rewritten(engine, bodies if body is None else [*bodies, body])
    cautions = (*_of_index(engine, kinds, density), *_of_queries(outcomes[: len(bodies)]))
    report = None if body is None else _body_report(engine, body, outcomes[-1], kinds)
    evaluation = None
    if judgments is not None:
        compared = tuple(choice for choice in choices if choice.name != "0.8")
        evaluation = measure(engine, judgments, compared, seed=seed, progress=progress)
    recommended, why = _recommended(q, evaluation)
    return Advice(
        url=engine.url,
        product=engine.way.product,
        version=".".join(map(str, engine.way.version)),
        analyzer=engine.analyzer,
        average_length=engine.collection().average_length or 0.0,
        estimate=density,
        q_hapax=q,
        q_low=q_hapax(min(1.0, density.high)),
        q_high=q_hapax(min(1.0, density.low)),
        choices=choices,
        examples=tuple(examples),
        kept=tuple(statistics.fmean(kept) for kept in zip(*(one.kept for one in examples), strict=True)),
        sharding=sharding,
        cautions=cautions,
        body=report,
        evaluation=evaluation,
        q=recommended,
        why=why,
        requests=counted.requests,
    )


def ways(url: str, product: str, q: Q) -> tuple[Way, ...]:
    """Return the three ways to switch it on, for an engine's URL without credentials.

    A similarity is one formula for all terms of a field, so with `"auto"` it gets the q of words.
    """
    from qidf.engines import parse

    parts = parse(url)
    address = urlsplit(f"{parts.scheme.partition('+')[2]}:{parts.path}")
    server, field = f"{address.scheme}://{address.netloc.rpartition('@')[2]}", parts.field
    library, client = (
        ("elasticsearch", "Elasticsearch") if product == "elasticsearch" else ("opensearchpy", "OpenSearch")
    )
    argument, flag = ("", "") if q == "auto" else (f", q={q:g}", f" --q {q:g}")
    number = AUTO["standard"].q_word if q == "auto" else q
    if parts.options.get("verify") == "false":
        flag += " --insecure"
    if "ca" in parts.options:
        flag += f" --ca {shlex.quote(parts.options['ca'])}"
    return (
        Way(
            "in a Python client, for its own searches",
            (
                f"from {library} import {client}",
                f"from qidf.engines.{product} import wrap",
                f"client = wrap({client}({json.dumps(server)}), fields=[{json.dumps(field)}]{argument})",
            ),
        ),
        Way(
            "in the index, for every client, with one q for all terms",
            (f"qidf similarity --engine {shlex.quote(url)} --q {number:g}",),
        ),
        Way(
            "in front of the server, for clients that can't be changed",
            (f"qidf proxy --upstream {shlex.quote(server)} --field {shlex.quote(field)}{flag}",),
        ),
    )


# Example queries


def _made(engine: Cluster, sample: Sample, seed: int) -> list[str]:
    """Return queries made from documents of the sample: a rare identifier, or word, among common words."""
    chosen = [one for one in sample.documents if len(one.terms) >= 4 and one.tokens <= LONGEST // 10][:MADE]
    texts = _texts(engine, chosen)
    generator = random.Random(seed)
    found = (_query(one, texts.get((one.index, one.id), "") or " ".join(one.terms), generator) for one in chosen)
    return list(dict.fromkeys(query for query in found if query))


def _texts(engine: Cluster, documents: Sequence[Sampled]) -> dict[tuple[str, str], str]:
    """Return {(index, id): text}, of those that the server keeps the text of."""
    try:
        answer = engine.way.request(
            "POST",
            f"/{engine.index}/_search",
            None,
            {
                "query": {"ids": {"values": [one.id for one in documents]}},
                "size": 10 * len(documents) + 1,  # an id may stand in several indices
                "_source": False,
                "fields": [engine.field],
            },
        )
    except EngineError:
        return {}  # where _source is disabled; the documents' terms will do
    return {
        (hit["_index"], hit["_id"]): "\n".join(map(str, as_dict(hit.get("fields")).get(engine.field, ())))[:LONGEST]
        for hit in answer["hits"]["hits"]
    }


def _query(document: Sampled, text: str, generator: random.Random) -> str:
    """Return up to six words of a document in its order; empty where the text has none of the document's terms."""

    def dfs(words: Iterator[str]) -> dict[str, int]:
        """Return {word: n on the shard} of those that are terms, each once in whatever case."""
        known = {word.lower(): word for word in words}
        return {word: document.terms[term][1] for term, word in known.items() if term in document.terms}

    names = dfs(text[start:end] for start, end in identifier_spans(text))
    words = dfs(match.group() for match in _WORD.finditer(text) if match.group() not in names)
    shuffled = generator.sample(list(words), len(words))
    known = names or words
    rare = min(known, key=lambda word: (known[word] < RARE, known[word]), default="")
    common = [w for w in shuffled if 0.01 <= words[w] / max(1, document.shard_documents) <= 0.6 and w != rare][:5]
    return " ".join(sorted(dict.fromkeys((rare, *common)), key=text.find)).strip()


def _examples(
    engine: Cluster, queries: Mapping[str, bool], choices: Sequence[Choice]
) -> tuple[list[Example], list[tuple[int, int]]]:
    """Return what the choices do to each query, {query: made}, those not made first.

    And of each query how many of the first ten `auto` finds, and how many of them without `dfs_query_then_fetch`.
    """
    ordered = sorted(queries, key=queries.__getitem__)
    searches: list[tuple[list[tuple[str, float]], bool]] = []
    tables = []
    for query in ordered:
        weights = [engine.weights(query, q=choice.q, a=choice.a) for choice in choices]
        terms = {term.term: term for term in engine.query_terms(query)}
        known = [term for term, _ in weights[0]]
        columns = [_shares(one) for one in weights]
        tables.append(
            tuple(
                TermShare(term, df, terms[term].shaped, tuple(column[row] for column in columns))
                for row, (term, df) in enumerate(zip(known, engine.doc_freqs(known), strict=True))
            )
        )
        searches += [(one, True) for one in weights]
        searches.append((weights[1], False))
    found = tops(engine, searches, TOP)
    examples, differ = [], []
    for row, (query, table) in enumerate(zip(ordered, tables, strict=True)):
        *ranked, local = found[row * (len(choices) + 1) : (row + 1) * (len(choices) + 1)]
        kept = tuple(len(set(ranked[0]) & set(top)) for top in ranked)
        examples.append(Example(query, queries[query], table, len(ranked[0]), kept))
        differ.append((len(ranked[1]), len(set(ranked[1]) & set(local))))
    return examples, differ


def _shares(weights: Sequence[tuple[str, float]]) -> list[float]:
    total = math.fsum(weight for _, weight in weights)
    return [weight / total if total else 0.0 for _, weight in weights]


def _sharding(engine: Cluster, sample: Sample, differ: Sequence[tuple[int, int]], seed: int) -> Sharding:
    """Return what comes of an idf of its own on each shard; `differ` are the hits of each query, and those kept."""
    N = engine.collection().documents
    if sample.shards == 1:
        return Sharding(1, 0.0, 0.0, False)
    pairs = [(one, term) for one in sample.documents for term in one.terms]
    pairs = random.Random(seed).sample(pairs, min(COMPARED, len(pairs)))
    dfs = engine.doc_freqs([term for _, term in pairs])
    off = weight = 0.0
    for (one, term), n in zip(pairs, dfs, strict=True):
        idf = engine.idf(n, N)
        off += abs(engine.idf(one.terms[term][1], one.shard_documents) - idf)
        weight += idf
    found = sum(hits for hits, _ in differ)
    mean = TOP * (1 - sum(kept for _, kept in differ) / found) if found else 0.0
    return Sharding(sample.shards, off / weight if weight else 0.0, mean, mean >= MATTERS)


# What to look at


def _of_index(engine: Cluster, kinds: Sequence[tuple[Any, Any]], density: Estimate) -> Iterator[str]:
    """Yield what of an index is to be looked at, from its mappings and settings."""
    synonyms, pipelines = set(), set()
    for mapping, settings in kinds:
        index = as_dict(settings.get("index"))
        analysis = as_dict(index.get("analysis"))
        if find_field(engine.field, mapping):
            own = as_dict(as_dict(analysis.get("analyzer")).get(analyzer_of(engine.field, mapping, settings)))
            names = own.get("filter", [])
            for name in [names] if isinstance(names, str) else names:
                if str(as_dict(as_dict(analysis.get("filter")).get(name)).get("type")).startswith("synonym"):
                    synonyms.add(name)
        if (pipeline := as_dict(index.get("search")).get("default_pipeline", "_none")) != "_none":
            pipelines.add(pipeline)
    if synonyms:
        yield (
            f"The search analyzer has synonyms ({', '.join(sorted(synonyms))}). Synonyms of one word share a weight, by"
            " the most frequent of them; a match with a synonym of several words stays plain BM25."
        )
    for pipeline in sorted(pipelines):
        yield f"Searches go through the pipeline {pipeline}: if it mixes scores, its weights must be set again."
    if density.hidden > 0.1 * density.population:
        yield (
            f"{density.hidden:,} documents that can't be found still count in df (deleted and not merged away yet, or"
            " kept out by a filter of the alias or of your user), so the density is too low and the predicted q too"
            " high."
        )
    yield (
        "Scores change, though the highest that a query can reach does not: a document without the query's rare terms"
        " scores far lower. Set min_score, function scores and linear fusion with vectors again; fusion by rank needs"
        " nothing."
    )


def _of_queries(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield why example queries would stay as they are."""
    whys: dict[str, int] = {}
    for outcome in outcomes:
        for why in {outcome.error, *(note.reason for note in outcome.notes)} - {""}:
            whys[why] = whys.get(why, 0) + 1
    for why, number in whys.items():
        yield f"{number} of {len(outcomes)} example queries would not be weighed in full: {why}."


def _rewritten(engine: Cluster, bodies: Sequence[Any]) -> list[Outcome]:
    """Return what a wrapped client or the proxy would make of searches."""

    def send(asked: Asked) -> Any:
        return engine.way.request(asked.method, unquote(asked.path), asked.params, asked.body)

    rewriter = Rewriter([engine.field])
    return carry_out(rewriter.steps([Search(quoted(engine.index), body) for body in bodies]), send)


def _body_report(
    engine: Cluster, body: dict[str, Any], outcome: Outcome, kinds: Sequence[tuple[Any, Any]]
) -> BodyReport:
    """Return what would become of a body, clause by clause."""
    plans = [plan(body, mapping, [engine.field], settings=settings) for mapping, settings in kinds]
    planned = next((one for one in plans if one), plans[0])
    changed = [site.path for site in planned.sites if at(outcome.body, site.path) != site.node]
    cautions = {note for _, note in planned.cautions}
    left = [note for note in outcome.notes if note not in cautions]
    if outcome.error:
        left.append(Note("", outcome.error))
    noted = {note.path for note in left}
    left += [
        Note(shown(site.path), "nothing to weigh: one term, or terms of equal weight")
        for site in planned.sites
        if site.path not in changed and shown(site.path) not in noted and not outcome.error
    ]
    kept = tuple(note for note in outcome.notes if note in cautions)
    return BodyReport(tuple(map(shown, changed)), tuple(left), kept, outcome.body)


def _recommended(q: float, evaluation: Evaluation | None) -> tuple[Q, str]:
    """Return the q to begin with, and why."""
    auto = AUTO["standard"]
    rule = f"q {auto.q_shaped:g} for identifiers and {auto.q_word:g} for words, counts to the power {auto.a:g}"
    if evaluation is None:
        return "auto", (
            f"Begin with auto: {rule}. It goes by how each query is written. The prediction {q:.2f} comes from the"
            " documents alone and can't see the queries: by it, questions in plain words over code lost 14 %. Judged"
            " queries decide: measure with --evaluate."
        )
    rows = {row.choice.name: row for row in evaluation.rows}
    own = rows["auto"]
    said = f"nDCG@10 {own.difference:+.3f}, 95 % interval {own.low:+.3f} to {own.high:+.3f}"
    if own.low > 0:
        return "auto", f"Switch auto on: it is better than BM25 on these queries ({said}). It is {rule}."
    better = [row for row in evaluation.rows if row.low > 0]
    if own.high >= 0:
        others = "".join(
            f" q = {row.choice.q:.2f} is better ({row.difference:+.3f}, {row.low:+.3f} to {row.high:+.3f}), but was one"
            " of several tried: hold it against other queries."
            for row in sorted(better, key=lambda row: -row.difference)[:1]
        )
        return "auto", (
            f"Auto can't be told from BM25 on these queries ({said}): no sure gain, no sure loss. More judged queries"
            f" would tell.{others}"
        )
    if not better:
        return 1.0, f"Leave it off: auto is worse than BM25 on these queries ({said}), and nothing else is better."
    best = max(better, key=lambda row: row.difference)
    return best.choice.q, (
        f"Auto is worse than BM25 on these queries ({said}), but q = {best.choice.q:.2f} is better:"
        f" {best.difference:+.3f}, {best.low:+.3f} to {best.high:+.3f}."
    )
