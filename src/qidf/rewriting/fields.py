"""What an index tells of its fields: which a match may weigh, and with which analyzer. Reads mapping and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from qidf.rewriting.body import Json, LeftError, Match, Text, as_dict

_DEPTH = 50
"""Parts of a field's name; a server's mapping has 20 at most."""


class Field(NamedTuple):
    """A concrete field.

    Attributes
    ----------
    name : str
        In full.
    mapping : dict
    nested : bool
        Whether documents of their own hold it.
    source : str
        The field that a document gives the text under: of a multi-field the one it belongs to.
    """

    name: str
    mapping: dict[str, Json]
    nested: bool
    source: str


class Index(NamedTuple):
    """What a server knows of an index, and which of its fields are to be weighed."""

    mapping: Json
    settings: Json
    fields: frozenset[str] | None
    runtime: frozenset[str]

    def match(self, field: str, options: dict[str, Json]) -> Match:
        """Return a match on a field that may be weighed."""
        found = find_field(field, self.mapping)
        if found is None:
            raise LeftError(f"field {field[:80]} is not in the mapping")
        if self.fields is not None and not {field, found.name} & self.fields:
            raise LeftError(f"field {field[:80]} is not one of those to weigh")
        kind = found.mapping.get("type", "object")
        if kind != "text" or {field, found.name} & self.runtime:
            raise LeftError(f"field {field[:80]} is of type {'runtime' if kind == 'text' else kind}, not text")
        if found.nested:
            raise LeftError(f"field {field[:80]} is nested")
        if found.mapping.get("index") in (False, "false"):
            raise LeftError(f"field {field[:80]} is not indexed")
        if similarity_of(found.mapping.get("similarity", "default"), self.settings).get("type") != "BM25":
            raise LeftError(f"field {field[:80]} is not scored by BM25")
        analyzer = analyzer_of(field, self.mapping, self.settings, options)
        return Match(field, options, Text(found.name, analyzer, as_text(options.get("query"))))

    def expand(self, pattern: str) -> list[str]:
        """Return the fields like `pattern`, where these are surely those that the server finds."""
        if pattern[0] in "*_" or self.runtime:  # also metadata fields; with * alone `lenient` is on, too
            raise LeftError(f"fields like {pattern[:80]} are left as they are")
        like = [(name, own) for name, own in _leaves(self.mapping) if _is_like(name, pattern)]
        extra = ("index_prefixes", "index_phrases")  # fields that the mapping does not show
        if not like or any(own.get("type") not in ("text", "keyword") or any(map(own.get, extra)) for _, own in like):
            raise LeftError(f"fields like {pattern[:80]} are left as they are: none, or not all text and keyword")
        return [name for name, _ in like]


def analyzer_of(field: str, mapping: Json, settings: Json = None, clause: Json = None) -> str:
    """Return the name of the analyzer that a match on `field` uses.

    The clause's `analyzer`, else the field's `search_analyzer`, else its `analyzer`, else the index's
    `default_search`, else its `default`, else `standard`. That is the order of the servers' own code (Elasticsearch's
    TextParams), where `default_search` is for fields that name no analyzer at all. An unknown field names none.
    """
    found = find_field(field, mapping)
    own = found.mapping if found else {}
    for source, key in ((clause, "analyzer"), (own, "search_analyzer"), (own, "analyzer")):
        name = as_dict(source).get(key)
        if isinstance(name, str) and name:
            return name
    known = as_dict(as_dict(_index_settings(settings).get("analysis")).get("analyzer"))
    return next((name for name in ("default_search", "default") if name in known), "standard")


def analyzer_name(name: str) -> str:
    """Return how an engine tells an index's analyzer, which may stand for anything but where it is `standard`."""
    return name if name == "standard" else f"{name} of the index"


def find_field(field: str, mapping: Json) -> Field | None:
    """Return a field by its full name: of an object, a multi-field, or what an alias stands for."""
    found = _walk(field, mapping)
    if found and found.mapping.get("type") == "alias":
        found = _walk(str(found.mapping.get("path")), mapping)
    return found


def _walk(field: str, mapping: Json) -> Field | None:
    parts = field.split(".")
    todo = [(mapping, 0, False, "")] if len(parts) <= _DEPTH else []
    while todo:
        node, begin, nested, source = todo.pop()
        children = _children(node)
        multi = bool(begin) and not as_dict(as_dict(node).get("properties"))
        for end in range(begin + 1, len(parts) + 1):  # a name may hold dots
            child = children.get(".".join(parts[begin:end]))
            if isinstance(child, dict):
                given = source if multi else ".".join(parts[:end])
                if end == len(parts):
                    return Field(field, child, nested, given)
                todo.append((child, end, nested or child.get("type") == "nested", given))
    return None


def count_fields(mapping: Json) -> int:
    """Return how many fields a mapping has, without mere objects."""
    return sum(1 for _ in _leaves(mapping))


def _leaves(mapping: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield all fields that are no mere objects, with their full names."""
    todo = [("", mapping)]
    while todo:
        prefix, node = todo.pop()
        for name, child in _children(node).items():
            if isinstance(child, dict):
                todo.append((f"{prefix}{name}.", child))
                if child.get("type", "object") not in ("object", "nested"):
                    yield f"{prefix}{name}", child


def _children(node: Json) -> dict[str, Json]:
    return as_dict(as_dict(node).get("properties")) or as_dict(as_dict(node).get("fields"))


def _is_like(name: str, pattern: str) -> bool:
    """Return whether `name` is `pattern`, whose `*` stand for anything."""
    first, *middle, last = pattern.split("*")
    at = len(first)
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.startswith(first) and name.endswith(last) and at + len(last) <= len(name)


def similarity_of(name: Json, settings: Json) -> dict[str, Json]:
    """Return the settings of the similarity called `name`, a field's `similarity` or `"default"`; at least its type."""
    similarities = as_dict(_index_settings(settings).get("similarity"))
    chosen = similarities.get(str(name)) or (similarities.get("default") if name == "default" else None)
    return as_dict(chosen) or {"type": "BM25" if name in ("default", "BM25") else str(name)}


def _index_settings(settings: Json) -> dict[str, Json]:
    return as_dict(as_dict(settings).get("index", settings))


def runtime_fields(body: Json, mapping: Json) -> frozenset[str]:
    """Return the names of fields that are computed by the server, which hide those of the mapping."""
    places = [(mapping, "runtime"), (mapping, "derived"), (body, "runtime_mappings"), (body, "derived")]
    return frozenset(name for node, key in places for name in as_dict(as_dict(node).get(key)))


def as_text(value: Json) -> str:
    """Return a value as the text that a server makes of it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and (value == 0 or 1e-3 <= abs(value) < 1e7):  # where Java writes what Python does
        return repr(value)
    if isinstance(value, int) and abs(value) < 2**63:
        return str(value)
    if not isinstance(value, str):
        raise LeftError("the text is no text")
    return value
