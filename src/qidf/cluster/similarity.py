"""A scripted similarity in an index's settings: one q for all its queries, computed by the server itself.

    change = propose(way, "code", "content", 0.6)     reads
    carry_out(way, change)                            closes the index, sets, opens, checks; or puts all back

A field's similarity can't be changed, but what its name stands for can: `index.similarity.default`, or a named one of
the index, while the index is closed. What stood there before is kept beside it, as a similarity that no field has.

Sources: OpenSearch and Elasticsearch, "Similarity" (scripted similarity); Lucene's BM25Similarity.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from qidf.cluster.indices import Index
from qidf.cluster.steps import RefusedError
from qidf.engines.cluster import Connection
from qidf.errors import EngineError
from qidf.rewriting.fields import find_field, similarity_of
from qidf.weighting import K1, B, idf, ln_q, lucene_odds, parse_q

SCORED = ("text", "keyword", "annotated_text", "search_as_you_type")
"""The types of fields whose hits a similarity scores."""

_WAS, _UNSET = "qidf_was_", "qidf_unset_"
"""Names of similarities that keep what stood at NAME before: its settings, or that there were none."""

_LARGEST_N = 2**31
_CHECKED = 5
_OPEN_SECONDS = 60
_TRIES = 3

_NAMES = {
    "N": ("field.docCount", "N, "),
    "n": ("term.docFreq", "n, "),
    "tf": ("doc.freq", "freq, "),
    "length": ("doc.length", "dl, "),
    "tokens": ("field.sumTotalTermFreq",),
    "average": ("avgdl, ",),
}
"""How explanations of a scripted similarity and of BM25 begin to name what a score is made of."""


@dataclass(frozen=True)
class Change:
    """What is to be changed in an index's settings.

    Attributes
    ----------
    index, field : str
        Their own names, where aliases were given.
    similarity : str
        `default`, or the name that the field's mapping has.
    q : float
        Of the scores afterwards; 1 is BM25.
    k1, b : float
        Of the index.
    settings, undo : dict
        What to write, and what brings back what is there now. Empty where nothing is to be done.
    fields : dict of str to str
        All fields whose scores change, with their types.
    shards : int
    closed : bool
        Whether the index is closed already, as one is that was left in the middle of a change.
    """

    index: str
    field: str
    similarity: str
    q: float
    k1: float
    b: float
    settings: dict[str, Any]
    undo: dict[str, Any]
    fields: dict[str, str]
    shards: int
    closed: bool


def propose(way: Connection, index: str, field: str, q: float) -> Change:
    """Return the change to scores with `q`. Only reads.

    Raises
    ------
    ValueError
        `q` makes no sense, or its scores would be beyond the server's 32-bit floats.
    EngineError
        There is no such index or field, there are several indices, or the field's similarity can't be changed.
    """
    q = checked_q(q)
    if not ln_q(lucene_odds(0, _LARGEST_N), q) < 1e37:
        raise ValueError(f"q = {q!r} makes scores beyond the server's 32-bit floats")
    found, closed = _find(way, index)
    name, similarity = _similarity(way, found, field)
    kept = _kept(found, similarity)
    own = similarity_of(similarity, found.settings) if kept is None else kept or {"type": "BM25"}
    if own.get("type") != "BM25":
        raise EngineError(f"field {name!r} is scored by {own.get('type')}, not BM25: its similarity is left alone")
    if closed:
        raise EngineError(f"{found.name} is closed: open it first, or bring its similarity back with --revert")
    k1, b = float(own.get("k1", K1)), float(own.get("b", B))
    new = scripted(q, k1, b, way.k1_plus_1) | {key: own[key] for key in ("discount_overlaps",) if key in own}
    current = _current(found, similarity)
    settings = {} if current == new else _written(similarity, new)
    if settings and kept is None:
        settings |= _written((_WAS if current else _UNSET) + similarity, current or {"type": "BM25"})
    fields = _scored_by(found, similarity)
    undo = _undo(found, similarity, settings)
    return Change(found.name, name, similarity, q, k1, b, settings, undo, fields, _shards(found), closed)


def checked_q(q: float | str) -> float:
    """Return a q for all queries of an index, or raise ValueError."""
    parsed = parse_q(q)
    if isinstance(parsed, str):
        raise ValueError(f"q must be a number here, got {q!r}: settings know no query ('qidf advise' tells a number)")
    return parsed


def propose_revert(way: Connection, index: str, field: str) -> Change:
    """Return the change back to what stood there before the first of `propose`. Only reads.

    Raises
    ------
    EngineError
        As for `propose`, or there is nothing to bring back.
    """
    found, closed = _find(way, index)
    name, similarity = _similarity(way, found, field)
    kept = _kept(found, similarity)
    if kept is None:
        raise EngineError(f"similarity {similarity} of {found.name} was not changed by qidf: nothing to bring back")
    keeping = _UNSET if _UNSET + similarity in _named(found) else _WAS
    settings = _written(similarity, kept) | _written(keeping + similarity, {})
    k1, b = float(kept.get("k1", K1)), float(kept.get("b", B))
    fields = _scored_by(found, similarity)
    undo = _undo(found, similarity, settings)
    return Change(found.name, name, similarity, 1.0, k1, b, settings, undo, fields, _shards(found), closed)


def scripted(q: float, k1: float, b: float, k1_plus_1: bool) -> dict[str, Any]:
    """Return the settings of a similarity that scores ln_q(Lucene's odds) · boost · BM25's part of the count."""
    power = f"Math.expm1({1 - q!r} * Math.log(x)) / {1 - q!r}" if q != 1 else "Math.log(x)"
    factor = f"{k1 + 1!r} * " if k1_plus_1 else ""
    weight = (
        "double n = term.docFreq; double N = Math.max(n, (double) field.docCount);"
        f" double x = 1.0 + (N - n + 0.5) / (n + 0.5); return query.boost * {factor}{power};"
    )
    script = (
        "double avgdl = field.sumTotalTermFreq / (double) field.docCount;"
        f" return weight * doc.freq / (doc.freq + {k1!r} * ({1 - b!r} + {b!r} * doc.length / avgdl));"
    )
    return {"type": "scripted", "weight_script": {"source": weight}, "script": {"source": script}}


def carry_out(
    way: Connection, change: Change, tell: Callable[[str], None] = lambda step: None, *, tried: bool = False
) -> int:
    """Carry a change out, and return how many scores were checked afterwards.

    The script is tried on an index of its own first. While the index is closed, searches and writes of it fail. Where
    anything fails, or Ctrl-C comes, the settings are what they were and the index is open before this raises.

    Parameters
    ----------
    tell : callable
        Is told each step before it is taken.
    tried : bool, default False
        Whether `try_out` was called already.

    Raises
    ------
    EngineError
        A step failed. If the settings could not be brought back either, the message has the requests to do so.
    """
    if not change.settings:
        return 0
    if not tried:
        try_out(way, change, tell)
    refused: RefusedError | None = None
    tell(f"closing {change.index}: searches and writes of it fail now")
    try:
        try:
            _acknowledged(way, "POST", f"/{change.index}/_close")
        except RefusedError as error:
            refused = error
            raise
        tell("changing its settings")
        _acknowledged(way, "PUT", f"/{change.index}/_settings", change.settings)
        _open(way, change.index, tell)
        tell("checking scores")
        return check_scores(way, change)
    except BaseException as error:
        if error is not refused:
            try:
                tell("bringing back what was there")
            finally:
                _roll_back(way, change, error)
        raise


def check_scores(way: Connection, change: Change) -> int:
    """Return how many scores of the index are what `change` says; EngineError if one is not."""
    path = f"/{change.index}/_search"
    body: dict[str, Any] = {"query": {"exists": {"field": change.field}}, "size": 1, "_source": False}
    hits = way.request("POST", path, None, body)["hits"]["hits"]
    checked = 0
    for hit in hits:
        routing = {"routing": hit["_routing"]} if "_routing" in hit else {}
        asked = {"docs": [{"_index": hit["_index"], "_id": hit["_id"], "fields": [change.field], **routing}]}
        told = way.request("POST", "/_mtermvectors", None, asked)["docs"][0]
        terms = told.get("term_vectors", {}).get(change.field, {}).get("terms", {})
        for term in sorted(terms, key=len)[-_CHECKED:]:
            only = {"ids": {"values": [hit["_id"]]}}
            body = {"query": {"bool": {"filter": [only], "must": [{"term": {change.field: term}}]}}, "explain": True}
            for one in way.request("POST", path, None, body)["hits"]["hits"][:1]:
                expected = _score(one["_explanation"], change, way.k1_plus_1)
                if not abs(one["_score"] - expected) <= 1e-4 * expected:
                    raise EngineError(f"the score of a term is {one['_score']}, and should be {expected:.6g}")
                checked += 1
    return checked


def _score(explanation: Mapping[str, Any], change: Change, k1_plus_1: bool) -> float:
    """Return the score that the numbers of an explanation should come to."""
    found = {name: next(_values(explanation, begins), None) for name, begins in _NAMES.items()}
    average = found["average"]
    N, n, tf, length, tokens = (found[name] for name in ("N", "n", "tf", "length", "tokens"))
    if average is None and tokens is not None and N:
        average = tokens / N
    if N is None or n is None or tf is None or length is None or not average:
        raise EngineError("the server does not explain its scores as it should")
    part = tf / (tf + change.k1 * (1 - change.b + change.b * length / average))
    return idf(int(n), int(N), change.q) * part * ((change.k1 + 1) if k1_plus_1 else 1)


def _values(explanation: Mapping[str, Any], begins: tuple[str, ...]) -> Iterator[float]:
    if str(explanation.get("description", "")).startswith(begins):
        yield float(explanation["value"])
    for detail in explanation.get("details", ()):
        yield from _values(detail, begins)


# what an index has


def _find(way: Connection, index: str) -> tuple[Index, bool]:
    """Return the one index of an expression, and whether it is closed."""
    mappings, settings = (way.request("GET", f"/{index}/{what}") for what in ("_mapping", "_settings"))
    if len(mappings) != 1:
        names = ", ".join(sorted(mappings))
        raise EngineError(f"{index} is {len(mappings)} indices: {names[:500] or 'none'}. Name one at a time")
    ((name, own),) = mappings.items()
    found = Index(name, own.get("mappings", {}), settings[name]["settings"], [])
    (row,) = way.request("GET", f"/_cat/indices/{name}", {"format": "json", "h": "health,status"})
    if row["status"] != "close" and row["health"] == "red":
        raise EngineError(f"{name} is red: not all of its shards are there")
    return found, row["status"] == "close"


def _shards(index: Index) -> int:
    return int(index.settings["index"]["number_of_shards"])


def _similarity(way: Connection, index: Index, field: str) -> tuple[str, str]:
    """Return the field's own name and that of its similarity."""
    found = find_field(field, index.mapping)
    if found is None:
        raise EngineError(f"field {field!r} of {way.url} does not exist")
    own = found.mapping
    if own.get("type") != "text":
        raise EngineError(f"field {field!r} of {way.url} is of type {own.get('type', 'object')}, not text")
    for key, value, why in (("norms", False, "has norms off"), ("index_options", "docs", "counts no terms")):
        if own.get(key) == value:
            raise EngineError(f"field {field!r} of {way.url} {why}, which BM25 needs")
    name = own.get("similarity", "default")
    if name != "default" and name not in _named(index):
        raise EngineError(f"the mapping of {field!r} names the server's own similarity {name}, which can't be changed")
    return found.name, name


def _named(index: Index) -> dict[str, Any]:
    named: dict[str, Any] = index.settings.get("index", {}).get("similarity", {})
    return named


def _current(index: Index, similarity: str) -> dict[str, Any]:
    return dict(_named(index).get(similarity, {}))


def _kept(index: Index, similarity: str) -> dict[str, Any] | None:
    """Return the settings that stood there before qidf's, empty if there were none; None if qidf changed nothing."""
    named = _named(index)
    return {} if _UNSET + similarity in named else named.get(_WAS + similarity)


def _scored_by(index: Index, similarity: str) -> dict[str, str]:
    found: dict[str, str] = {}
    todo = [("", index.mapping)]
    while todo:
        prefix, node = todo.pop()
        for children in (node.get("properties", {}), node.get("fields", {})):
            for name, child in children.items():
                todo.append((f"{prefix}{name}.", child))
                if child.get("type") in SCORED and child.get("similarity", "default") == similarity:
                    found[f"{prefix}{name}"] = child["type"]
    return dict(sorted(found.items()))


# settings


def _written(similarity: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what sets a similarity to just these settings, whatever it has now."""
    flat: dict[str, Any] = {f"index.similarity.{similarity}.*": None}
    for key, value in own.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat |= {f"index.similarity.{similarity}.{key}{end and '.'}{end}": one for end, one in inner}
    return flat


def _undo(index: Index, similarity: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    if not settings:
        return {}
    undo: dict[str, Any] = {}
    for name in (similarity, _WAS + similarity, _UNSET + similarity):
        undo |= _written(name, _current(index, name))
    return undo


def try_out(way: Connection, change: Change, tell: Callable[[str], None] = lambda step: None) -> None:
    """Try a change's script, if it has one, on documents of an index made for it, which is gone afterwards.

    Raises
    ------
    EngineError
        The server refuses the script, or its scores are not those of the formula.
    """
    prefix = f"index.similarity.{change.similarity}."
    if f"{prefix}script.source" not in change.settings:
        return
    tell("trying the script on an index of its own")
    name = f"qidf-scratch-{secrets.token_hex(6)}"
    own = {
        f"index.similarity.tried.{key.removeprefix(prefix)}": value
        for key, value in change.settings.items()
        if key.startswith(prefix) and value is not None
    }
    body = {
        "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0, **own},
        "mappings": {"properties": {"text": {"type": "text", "similarity": "tried"}}},
    }
    with _gone_afterwards(way, name):
        way.request("PUT", f"/{name}", None, body)
        for i, text in enumerate(("common rare", "common common words", "common words and more of them")):
            way.request("PUT", f"/{name}/_doc/{i}", {"refresh": "true"}, {"text": text})
        tried = Change(name, "text", "tried", change.q, change.k1, change.b, {}, {}, {}, 1, False)
        if not check_scores(way, tried):
            raise EngineError(f"no score could be checked on the index {name} made to try the script")


@contextmanager
def _gone_afterwards(way: Connection, index: str) -> Iterator[None]:
    try:
        yield
    finally:
        _stubborn(lambda: way.request("DELETE", f"/{index}", {"ignore_unavailable": "true"}))


def _acknowledged(way: Connection, method: str, path: str, body: Any = None) -> None:
    answer = way.request(method, path, None, body)
    if not answer.get("acknowledged"):
        raise EngineError(f"the server did not acknowledge {method} {path} in time")


def _open(way: Connection, index: str, tell: Callable[[str], None] = lambda step: None) -> None:
    tell(f"opening {index}")
    _acknowledged(way, "POST", f"/{index}/_open")
    end = time.monotonic() + _OPEN_SECONDS
    while way.request("GET", f"/_cluster/health/{index}")["status"] == "red":
        if time.monotonic() > end:
            raise EngineError(f"the shards of {index} did not start within {_OPEN_SECONDS} seconds")
        time.sleep(0.1)


def _roll_back(way: Connection, change: Change, error: BaseException) -> None:
    def back() -> None:
        _acknowledged(way, "POST", f"/{change.index}/_close")
        _acknowledged(way, "PUT", f"/{change.index}/_settings", change.undo)
        _open(way, change.index)

    try:
        _stubborn(back)
    except Exception as failure:
        import json

        raise EngineError(
            f"{change.index} may be closed, and could not be brought back: {failure} (after: {error!r}). Send"
            f" POST /{change.index}/_close, PUT /{change.index}/_settings {json.dumps(change.undo)}, POST"
            f" /{change.index}/_open"
        ) from None


def _stubborn(work: Callable[[], Any]) -> None:
    """Do what must be done: Ctrl-C is raised afterwards, however often it comes; a failure is tried twice more."""
    first: KeyboardInterrupt | None = None
    failures = 0
    while True:
        try:
            work()
        except KeyboardInterrupt as interrupt:
            first = first or interrupt
        except Exception:
            failures += 1
            if failures == _TRIES:
                raise
        else:
            break
    if first:
        raise first
