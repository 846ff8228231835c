"""Which requests to a server search, and the bodies in them: JSON out, and in again where it was rewritten.

Knows paths and formats of requests; sends none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from qidf import strictjson
from qidf.cluster.rewriter import Outcome, Search

_PATH = re.compile(
    r"/(?:(?P<index>_all|[^/_][^/]*)/)?(?:(?P<kind>_search|_msearch|_async_search)|_plugins/_asynchronous_search)/?\Z"
)
_ELSEWHERE = ("q", "source")
"""Parameters that hold the query of a search in place of its body."""


class Sought(NamedTuple):
    """A request that searches: whether for many at once, and the expression of its indices, escaped as in a path."""

    many: bool
    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a request


class Bodies(NamedTuple):
    """The searches of a request, and what puts what became of them together again.

    `joined` takes one outcome a search and returns a body of the kind that came in.
    """

    searches: list[Search]
    joined: Callable[[Sequence[Outcome]], Any]


def sought(method: str, path: str, params: Mapping[str, Any]) -> Sought | None:
    """Return what a request searches; None if it does something else, or has its query elsewhere than in a body."""
    match = _PATH.match(path)
    if match is None or method.upper() not in ("GET", "POST") or any(name in params for name in _ELSEWHERE):
        return None
    return Sought(match["kind"] == "_msearch", match["index"] or str(params.get("index", "")))


def bodies(sought: Sought, body: Any, params: Mapping[str, Any], user: str = "") -> Bodies:
    """Return the searches in a body: of JSON as bytes or str, or of what a client would make JSON of.

    Raises
    ------
    ValueError, RecursionError
        The body is no JSON, or none of a search.
    """
    return _many(sought, body, params, user) if sought.many else _one(sought, body, params, user)


def _one(sought: Sought, body: Any, params: Mapping[str, Any], user: str) -> Bodies:
    plain = not isinstance(body, bytes | str)

    def joined(outcomes: Sequence[Outcome]) -> Any:
        return outcomes[0].body if plain else _written(outcomes[0].body, body)

    return Bodies([Search(sought.index, body if plain else _read(body), params, user)], joined)


def _many(sought: Sought, body: Any, params: Mapping[str, Any], user: str) -> Bodies:
    plain = not isinstance(body, bytes | str)
    lines: list[Any] = list(body) if plain else _lines(body)
    searches = []
    for header, query in zip(lines[::2], lines[1::2], strict=True):
        own = _object(header)
        index = own.get("index", own.get("indices", sought.index))
        index = ",".join(map(str, index)) if isinstance(index, list) else str(index or "")
        searches.append(Search(index, _object(query), {**params, **own}, user))

    def joined(outcomes: Sequence[Outcome]) -> Any:
        new = list(lines)
        for i, outcome in enumerate(outcomes):
            if outcome.changed:
                old = lines[2 * i + 1]
                new[2 * i + 1] = _written(outcome.body, old) if isinstance(old, bytes | str) else outcome.body
        if plain:
            return new
        return b"\n".join([*new, b""]) if isinstance(body, bytes) else "\n".join([*new, ""])

    return Bodies(searches, joined)


def _lines(body: bytes | str) -> list[Any]:
    lines: list[Any] = body.split(b"\n") if isinstance(body, bytes) else body.split("\n")
    if lines[-1]:
        raise ValueError("the body of a _msearch ends without a line break")
    return lines[:-1]


def _object(value: Any) -> dict[str, Any]:
    found = _read(value) if isinstance(value, bytes | str) and value.strip() else value or {}
    if not isinstance(found, Mapping):
        raise ValueError("a line of a _msearch is no object")
    return dict(found)


def _read(text: bytes | str) -> Any:
    data = text.encode() if isinstance(text, str) else text
    strictjson.check(data)
    return json.loads(data, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    """Return a number; ValueError for NaN and what is infinite in 64 bits: it could not be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; ValueError if a name stands twice: which one counts is the server's to say."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _written(value: Any, like: bytes | str) -> bytes | str:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.encode() if isinstance(like, bytes) else text
