"""From a search body to the matches in it that score. Knows the query language; weighs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from qidf.rewriting.body import LARGEST, OF_ANALYSIS, Json, LeftError, Match, Note, Path, Plan, Site, as_dict, shown
from qidf.rewriting.fields import Index, as_text, runtime_fields

LEVELS = 16
"""How deep a query is looked for: a server takes 20 levels (OpenSearch's default), and a rewritten one has 3 more."""

_SCORED = {
    "bool": ("must", "should"),
    "dis_max": ("queries",),
    "function_score": ("query",),
    "script_score": ("query",),
    "boosting": ("positive",),
}
"""The keys of a query under which other queries score."""

# fmt: off
_SILENT = frozenset((
    "constant_score", "distance_feature", "exists", "geo_bounding_box", "geo_distance", "geo_grid", "geo_polygon",
    "geo_shape", "ids", "match_all", "match_none", "prefix", "range", "regexp", "script", "shape", "term", "terms",
    "terms_set", "type", "wildcard", "xy_shape",
))
# fmt: on
"""Queries without a text to weigh, or without a score; not worth a note."""

_OF_FIELD = (*OF_ANALYSIS, "query", "operator", "minimum_should_match", "zero_terms_query")
_OPTIONS = frozenset((*_OF_FIELD, "boost", "_name"))
_IDLE = frozenset(("prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite"))
"""What a match takes and does not use without fuzziness; clients write it out all the same."""

_TIES = {"best_fields": 0.0, "most_fields": 1.0}
"""tie_breaker of the dis_max that a multi_match is, by its type; at 1 a dis_max is the sum."""


def plan(
    body: Json,
    mapping: Json,
    fields: Iterable[str] | None = None,
    *,
    settings: Json = None,
    rescore: bool = False,
) -> Plan:
    """Find the matches that score in a body, and what must be known to weigh them.

    Parameters
    ----------
    body : JSON
        Of a search. Only `query` is looked at; filters, must_not, aggregations and the rest never.
    mapping : JSON
        The index's: `{"properties": …}`.
    fields : iterable of str, optional
        The only fields to weigh; all of type text by default.
    settings : JSON, optional
        The index's: `{"index": {"analysis": …}}`, with or without `index`.
    rescore : bool, default False
        Weigh the queries of `rescore` too.
    """
    index = Index(mapping, settings, None if fields is None else frozenset(fields), runtime_fields(body, mapping))
    sites: list[Site] = []
    notes: list[Note] = []
    cautions: list[tuple[Path, Note]] = []
    top = body if isinstance(body, dict) else {}
    for key in ("knn", "retriever", "sub_searches"):
        if key in top:
            notes.append(Note(key, f"{key} is left as it is"))
    for key in ("min_score",) if rescore else ("min_score", "rescore"):
        if key in top:
            cautions.append(((), Note(key, "scores of the query have another range now")))
    todo = list(_roots(top, rescore))[::-1]
    while todo:
        path, node, level = todo.pop()
        try:
            kind, inner = _only(node, "a query has one name")
            if kind in _SCORED:
                if level == LEVELS:
                    raise LeftError(f"queries below level {LEVELS} are left as they are")
                if not isinstance(inner, dict):
                    raise LeftError(f"{kind} holds no object")
                if kind in ("function_score", "script_score"):
                    cautions.append((path, Note(shown(path), f"{kind} sees scores of another range now")))
                below = [place for key in _SCORED[kind] for place in _queries(inner.get(key), (*path, kind, key))]
                todo += [(place, query, level + 1) for place, query in reversed(below)]
            elif kind == "match":
                field, options = _only(inner, "a match names one field")
                match = index.match(field, _checked(options if isinstance(options, dict) else {"query": options}))
                sites.append(Site(path, node, (match,)))
            elif kind == "multi_match":
                site, left = _multi_match(index, path, node, inner)
                notes += [Note(shown(path), reason) for reason in left]
                if any(match.text for match in site.matches):
                    sites.append(site)
            elif kind == "hybrid":
                queries = _queries(inner.get("queries") if isinstance(inner, dict) else None, (*path, kind, "queries"))
                notes += [Note(shown(place), "queries of a hybrid are left as they are") for place, _ in queries]
            elif kind not in _SILENT:
                raise LeftError(f"{kind} is left as it is")
        except LeftError as left:
            notes.append(Note(shown(path), str(left)))
    texts = dict.fromkeys(match.text for site in sites for match in site.matches if match.text)
    return Plan(tuple(texts), tuple(notes), tuple(sites), tuple(cautions))


def _roots(body: dict[str, Json], rescore: bool) -> Iterator[tuple[Path, Json, int]]:
    """Yield the outermost queries that score."""
    if body.get("query") is not None:
        yield ("query",), body["query"], 1
    if rescore:
        for path, one in _queries(body.get("rescore"), ("rescore",)):
            query = as_dict(as_dict(one).get("query")).get("rescore_query")
            if query is not None:
                yield (*path, "query", "rescore_query"), query, 1


def _queries(value: Json, path: Path) -> list[tuple[Path, Json]]:
    """Return the queries of a list, or the one that stands there without a list."""
    if isinstance(value, list):
        return [((*path, i), query) for i, query in enumerate(value)]
    return [] if value is None else [(path, value)]


def _only(node: Json, expected: str) -> tuple[str, Json]:
    """Return the one key of an object, and its value."""
    if not isinstance(node, dict) or len(node) != 1:
        raise LeftError(expected)
    ((key, value),) = node.items()
    return str(key), value


def _checked(options: dict[str, Json], more: frozenset[str] = frozenset()) -> dict[str, Json]:
    """Return the options of a match that mean something, if all are as a server takes them."""
    if "fuzziness" in options:
        raise LeftError("a fuzzy match is left as it is")
    for name, value in options.items():
        if name not in _OPTIONS | _IDLE | more:
            raise LeftError(f"option {name[:80]} is left as it is")
        if name != "fields" and not isinstance(value, str | int | float):
            raise LeftError("the text is no text" if name == "query" else f"{name} is no value")
    used = {name: value for name, value in options.items() if name not in _IDLE}
    text = as_text(used.get("query"))
    if "{{" in text:
        raise LeftError("a template is left as it is")
    operator = used.get("operator", "or")
    if not isinstance(operator, str) or operator.lower() not in ("or", "and"):
        raise LeftError("operator is neither or nor and")
    if not is_number(used.get("boost", 1.0)):
        raise LeftError("boost is no number of at least 0")
    least = used.get("minimum_should_match", "1")
    if not isinstance(least, str | int) or isinstance(least, bool):
        raise LeftError("minimum_should_match is neither text nor a whole number")
    for name in ("analyzer", "zero_terms_query", "_name"):
        if not isinstance(used.get(name, ""), str):
            raise LeftError(f"{name} is no text")
    for name in ("lenient", "auto_generate_synonyms_phrase_query"):
        if used.get(name, True) not in (True, False, "true", "false"):
            raise LeftError(f"{name} is neither true nor false")
    return used


def is_number(value: Json) -> bool:
    """Return whether a value may be a boost."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST


def _multi_match(index: Index, path: Path, node: Json, inner: Json) -> tuple[Site, list[str]]:
    """Return a multi_match as the matches on its fields, and why some of them stay as they are."""
    if not isinstance(inner, dict):
        raise LeftError("multi_match holds no object")
    kind = inner.get("type", "best_fields")
    if not isinstance(kind, str) or kind not in _TIES:
        raise LeftError(f"multi_match of type {kind[:80] if isinstance(kind, str) else '?'} is left as it is")
    options = _checked(inner, frozenset(("fields", "type", "tie_breaker", "slop")))
    tie = options.get("tie_breaker", _TIES[kind])
    if not is_number(tie):
        raise LeftError("tie_breaker is no number of at least 0")
    shared = {name: options[name] for name in _OF_FIELD if name in options}
    matches, left = [], []
    for field, boost in _boosted(index, options.get("fields")):
        own = shared if boost == 1 else {**shared, "boost": boost}
        try:
            matches.append(index.match(field, own))
        except LeftError as why:
            matches.append(Match(field, own, None))
            left.append(str(why))
    around = {"tie_breaker": tie} | {name: options[name] for name in ("boost", "_name") if name in options}
    return Site(path, node, tuple(matches), around), left


def _boosted(index: Index, fields: Json) -> list[tuple[str, float]]:
    """Return the fields of a multi_match, `name` or `name^boost`, with patterns expanded."""
    names = [fields] if isinstance(fields, str) else fields
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise LeftError("multi_match names no fields")
    found: list[tuple[str, float]] = []
    for name in names:
        field, hat, number = name.partition("^")
        try:
            boost = float(number) if hat else 1.0
        except ValueError:
            boost = math.nan
        if not is_number(boost) or "{{" in field:
            raise LeftError(f"no field and boost: {name[:80]}")
        found += [(one, boost) for one in (index.expand(field) if "*" in field else [field])]
    if len({field for field, _ in found}) != len(found):
        raise LeftError("a field stands twice")
    return found
