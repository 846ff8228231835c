"""What a server tells of an expression of indices (a name, an alias, a data stream, a pattern): mappings and shards.

Asks for it in steps; view_index_metadata is the privilege. Knows no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from qidf.cluster.steps import Asked, RefusedError, Steps
from qidf.cluster.vectors import Shard, artificial, find_routing, find_shards
from qidf.errors import EngineError
from qidf.rewriting.fields import count_fields, find_field

MOST_SHARDS = 500
"""Of all indices together: each is asked about each text of a query."""

_SETTINGS = ",".join(
    f"*.settings.index.{name}" for name in ("similarity", "analysis.analyzer.default*", "number_of_shards")
)
EXPRESSION = ("allow_no_indices", "expand_wildcards", "ignore_unavailable")
"""The parameters of a search that say what an expression stands for; the requests here take them, too."""


class Index(NamedTuple):
    """A concrete index: its mapping, the settings that a score depends on, its shards."""

    name: str
    mapping: dict[str, Any]
    settings: dict[str, Any]
    shards: list[Shard]


@dataclass
class Indices:
    """What an expression stands for.

    Attributes
    ----------
    all : list of Index
    kinds : list of Index
        One of each mapping and settings among them.
    vectors : bool
        Whether the server gives term vectors, from each of their shards. Whoever is refused them makes it False.
    """

    all: list[Index]
    kinds: list[Index]
    vectors: bool

    @property
    def size(self) -> int:
        """How many fields and indices there are, for a bound on what is kept."""
        return len(self.all) + sum(count_fields(index.mapping) for index in self.kinds)

    def artificial(self, field: str, text: str | list[str], analyzer: str) -> list[dict[str, Any]]:
        """Return the documents to ask `_mtermvectors` for, one a shard: `text` in `field`."""
        documents: list[dict[str, Any]] = []
        for index in self.all:
            found = find_field(field, index.mapping)
            if found:  # where there is no such field, the server would make one
                document = {found.source: text} | _timestamp(index.mapping)
                documents += artificial(index.shards, field, document, analyzer, tokens=isinstance(text, str))
        return documents


Routing: TypeAlias = dict[tuple[str, tuple[int, ...]], list[Shard]]
"""What was found of shards, by an index's name and their numbers."""


def look(expression: str, params: Mapping[str, Any], routing: Routing) -> Steps[Indices]:
    """Ask what an escaped expression stands for; empty stands for all indices.

    `routing` keeps what was found of shards. Only those of `params` are sent that say how
    to read the expression.

    Raises
    ------
    EngineError
        Nothing is there, or it has too many shards.
    """
    expression = expression or "_all"
    how = {name: str(params[name]) for name in EXPRESSION if name in params}
    mappings = yield Asked("GET", f"/{expression}/_mapping", how)
    if not mappings:
        raise EngineError(f"no such index on the server: {expression}")
    settings = yield Asked("GET", f"/{expression}/_settings", {**how, "filter_path": _SETTINGS})
    totals = {name: _taken_out(own.get("settings", {})) for name, own in settings.items()}
    shards = yield from _find_shards(expression, how, routing, totals)
    kinds: list[Index] = []
    every: list[Index] = []
    for name, own in sorted(mappings.items()):
        found = Index(name, own.get("mappings", {}), settings.get(name, {}).get("settings", {}), shards.get(name, []))
        same = next((one for one in kinds if one[1:3] == found[1:3]), None)
        if same:  # hundreds of indices may share a mapping, and so one object
            found = found._replace(mapping=same.mapping, settings=same.settings)
        else:
            kinds.append(found)
        every.append(found)
    return Indices(every, kinds, vectors=all(index.shards for index in every))


def _taken_out(settings: dict[str, Any]) -> int:
    """Take the number of an index's shards out of its settings, in which indices of one kind may differ."""
    return int(settings.get("index", {}).pop("number_of_shards", 0))


def _find_shards(
    expression: str, how: dict[str, str], routing: Routing, totals: Mapping[str, int]
) -> Steps[dict[str, list[Shard]]]:
    """Return the shards of each index; nothing of one whose shards can't all be asked."""
    try:
        found = yield from find_shards(f"/{expression}", how)
    except RefusedError:
        return {}
    if sum(map(len, found.values())) > MOST_SHARDS:
        raise EngineError(f"{expression} has more than {MOST_SHARDS} shards")
    for name, shards in found.items():
        if (name, shards) not in routing:
            total = totals.get(name) or len(shards)
            routing[name, shards] = yield from find_routing(f"/{quote(name, safe='')}", name, shards, total)
    return {name: routing[name, shards] for name, shards in found.items()}


def _timestamp(mapping: dict[str, Any]) -> dict[str, str]:
    """Return what any document of a data stream must hold; nothing for another index."""
    stream = mapping.get("_data_stream_timestamp") or {}
    if not stream.get("enabled"):
        return {}
    return {stream.get("timestamp_field", {}).get("name", "@timestamp"): "1970-01-01T00:00:00Z"}
