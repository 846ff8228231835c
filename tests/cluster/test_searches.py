"""Which requests search, and their bodies out and in again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.cluster.rewriter import Outcome
from qidf.cluster.searches import Sought, bodies, sought

ONE, MANY = Sought(False, "code"), Sought(True, "code")
NEW: dict[str, Any] = {"query": {"match_all": {}}}


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("POST", "/_search", Sought(False, "")),
        ("GET", "/code/_search", Sought(False, "code")),
        ("post", "/code/_search/", Sought(False, "code")),
        ("POST", "/_all/_search", Sought(False, "_all")),
        ("POST", "/code*,-old,%3Clogs-%7Bnow%2Fd%7D%3E/_search", Sought(False, "code*,-old,%3Clogs-%7Bnow%2Fd%7D%3E")),
        ("POST", "/code/_async_search", Sought(False, "code")),
        ("POST", "/_msearch", Sought(True, "")),
        ("GET", "/code/_msearch", Sought(True, "code")),
        ("POST", "/_plugins/_asynchronous_search", Sought(False, "")),
        ("PUT", "/code/_search", None),
        ("POST", "/code/_count", None),
        ("POST", "/code/_delete_by_query", None),
        ("POST", "/code/_update_by_query", None),
        ("POST", "/_search/scroll", None),
        ("POST", "/code/_search/template", None),
        ("POST", "/code/_msearch/template", None),
        ("POST", "/code/_search/point_in_time", None),
        ("GET", "/code/_search_shards", None),
        ("GET", "/_async_search/abc", None),
        ("POST", "/code/_doc/_search", None),
        ("GET", "/", None),
        ("POST", "/_nodes/_search", None),
        ("POST", "/code/_search\n", None),
    ],
)
def test_what_searches(method: str, path: str, found: Sought | None) -> None:
    assert sought(method, path, {}) == found


def test_a_query_in_the_url_is_no_body() -> None:
    assert sought("GET", "/code/_search", {"q": "a"}) is None
    assert sought("GET", "/code/_search", {"source": "{}"}) is None
    assert sought("POST", "/_plugins/_asynchronous_search", {"index": "code"}) == Sought(False, "code")


def outcomes(found: Any, changed: bool = True) -> list[Outcome]:
    return [Outcome(NEW if changed else search.body, changed, ()) for search in found.searches]


@pytest.mark.parametrize("kind", [bytes, str])
def test_one_body(kind: type) -> None:
    text = '{"query": {"match": {"body": "\\u00e4"}}}'
    body: bytes | str = text.encode() if kind is bytes else text
    found = bodies(ONE, body, {})
    assert [(search.index, search.body) for search in found.searches] == [("code", json.loads(text))]
    joined: bytes | str = found.joined(outcomes(found))
    assert isinstance(joined, kind)
    assert json.loads(joined) == NEW


def test_a_body_of_a_client_stays_an_object() -> None:
    found = bodies(ONE, {"size": 1}, {})
    assert found.searches[0].body == {"size": 1}
    assert found.joined(outcomes(found)) is NEW


LINES = (
    '{"index": "other", "ignore_unavailable": true}\n{"size": 1}\n\n{"size":2}\n{"index": ["a", "b"]}\n{ "size" : 3 }\n'
)


@pytest.mark.parametrize("kind", [bytes, str])
def test_many_bodies(kind: type) -> None:
    body = LINES.encode() if kind is bytes else LINES
    found = bodies(MANY, body, {"expand_wildcards": "all"}, "me")
    assert [(one.index, one.body, one.user) for one in found.searches] == [
        ("other", {"size": 1}, "me"),
        ("code", {"size": 2}, "me"),
        ("a,b", {"size": 3}, "me"),
    ]
    assert found.searches[0].place == ("me", "other", ("expand_wildcards", "all"), ("ignore_unavailable", "True"))
    assert found.joined(outcomes(found, False)) == body
    told = outcomes(found, False)
    told[1] = Outcome(NEW, True, ())
    joined = found.joined(told)
    lines = (joined.decode() if kind is bytes else joined).split("\n")
    assert lines[:3] + lines[4:] == LINES.split("\n")[:3] + LINES.split("\n")[4:]
    assert json.loads(lines[3]) == NEW


def test_many_bodies_of_a_client() -> None:
    lines = [{"index": "other"}, {"size": 1}, {}, '{"size": 2}']
    found = bodies(MANY, lines, {})
    assert [(one.index, one.body) for one in found.searches] == [("other", {"size": 1}), ("code", {"size": 2})]
    assert found.joined(outcomes(found)) == [{"index": "other"}, NEW, {}, json.dumps(NEW, separators=(",", ":"))]


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        (ONE, b'{"a": '),
        (ONE, b""),
        (ONE, b'{"a": 1, "a": 2}'),
        (ONE, b"\xff"),
        (ONE, b"[" * 100_000),
        (MANY, b'{}\n{"size": 1}'),
        (MANY, b'{}\n{"size": 1}\n{}\n'),
        (MANY, b"[]\n[1]\n"),
        (MANY, b"x\ny\n"),
        (ONE, b"Infinity"),
        (ONE, b'{"size": NaN}'),
        (ONE, b'{"min_score": 1e999}'),
    ],
)
def test_what_is_none(asked: Sought, body: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        bodies(asked, body, {})


@given(st.binary() | st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists), st.booleans())
def test_anything_is_a_search_or_a_value_error(body: Any, many: bool) -> None:
    try:
        found = bodies(Sought(many, ""), body, {})
    except (ValueError, TypeError, RecursionError):
        return
    assert found.joined(outcomes(found, False)) == body or not many
