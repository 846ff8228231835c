"""What passes between `plan`, the server's statistics and `rewrite`, and places in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Json: TypeAlias = Any

LARGEST = 3.4e38
"""A boost is a 32-bit float."""

OF_ANALYSIS = ("analyzer", "lenient", "auto_generate_synonyms_phrase_query")
"""The options of a match that say how its text is read."""


class Text(NamedTuple):
    """A text to be analyzed: with `analyzer`, a name of the index's, for the concrete `field`."""

    field: str
    analyzer: str
    text: str


class Placed(NamedTuple):
    """A token: its term, its position as Lucene counts, and its place in the text in code points."""

    term: str
    position: int
    start: int
    end: int


class Note(NamedTuple):
    """What stayed as it was, or what to look at again: where in the body, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Statistics:
    """What the shards together tell of a `Text`.

    Attributes
    ----------
    tokens : sequence of Placed
        All of them, in any order.
    dfs : mapping of str to int
        n of each term; one that is missing counts as unknown.
    documents : int
        N as the engine's idf has it: the field's `doc_count`, summed over the shards.
    """

    tokens: Sequence[Placed]
    dfs: Mapping[str, int]
    documents: int


@dataclass(frozen=True)
class Match:
    """A match on one field: its options as written, and its text if it may be weighed."""

    field: str
    options: dict[str, Json]
    text: Text | None


@dataclass(frozen=True)
class Site:
    """A clause to rewrite: where, what stands there, and the matches it is made of. `around` is a multi_match's own."""

    path: Path
    node: Json
    matches: tuple[Match, ...]
    around: dict[str, Json] | None = None


@dataclass(frozen=True)
class Plan:
    """What `rewrite` needs; False where there is nothing to do.

    Attributes
    ----------
    texts : tuple of Text
        What needs `Statistics`, each once.
    notes : tuple of Note
        What stays as it is already.
    """

    texts: tuple[Text, ...]
    notes: tuple[Note, ...]
    sites: tuple[Site, ...]
    cautions: tuple[tuple[Path, Note], ...]

    def __bool__(self) -> bool:
        return bool(self.sites)


class Rewritten(NamedTuple):
    """A body to search with: the very object that came in, unless `changed`."""

    body: Json
    notes: tuple[Note, ...]
    changed: bool


class LeftError(Exception):
    """Why a clause stays as it is."""


def as_dict(value: Json) -> dict[str, Json]:
    """Return a value that is an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def at(body: Json, path: Path) -> Json:
    """Return what stands at a path, None if there is no such one."""
    for key in path:
        try:
            body = body[key]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def replaced(body: Json, new: Mapping[Path, Json]) -> Json:
    """Return a body with other values at some paths. Only what is on the way to them is copied."""
    root = body.copy()
    copied: dict[Path, Json] = {(): root}
    for path, value in new.items():
        node = root
        for i in range(1, len(path)):
            if path[:i] not in copied:
                copied[path[:i]] = node[path[i - 1]] = node[path[i - 1]].copy()
            node = copied[path[:i]]
        node[path[-1]] = value
    return root


def shown(path: Path) -> str:
    """Return a path as people write it: `query.bool.must[0]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
