"""A scripted similarity on the real server: scores as the formula has them, and an index that is never left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qidf.cluster.similarity import Change, carry_out, propose, propose_revert
from qidf.engines.cluster import Connection
from qidf.engines.opensearch import connected, from_client, wrap
from qidf.errors import EngineError
from qidf.weighting import idf
from tests.cluster.between import between
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

INDEX = "similar"
QUERY = "read the config file everywhere only7"
DFS = {"search_type": "dfs_query_then_fetch"}
FIELDS = {"raw": {"type": "keyword"}, "flat": {"type": "text", "similarity": "boolean"}}
NAMED = {"gentle": {"type": "BM25", "k1": 0.9, "b": 0.4}}


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    yield made
    made.indices.delete(index=f"{INDEX}*", ignore_unavailable=True)
    made.close()


@pytest.fixture
def way(client: Any) -> Connection:
    """Return the way to a server with a fresh index."""
    fill(client)
    return connected(client, INDEX)


def fill(client: Any, **settings: Any) -> None:
    client.indices.delete(index=INDEX, ignore_unavailable=True)
    properties = {
        "body": {"type": "text", "fields": FIELDS},
        "title": {"type": "text", "similarity": "gentle"},
        "built_in": {"type": "text", "similarity": "BM25"},
        "size": {"type": "integer"},
    }
    own = {"number_of_shards": 2, "number_of_replicas": 0, "similarity": NAMED, **settings}
    client.indices.create(index=INDEX, body={"settings": own, "mappings": {"properties": properties}})
    lines: list[Any] = []
    for id, text in DOCUMENTS:
        if len(text) < 20_000:  # what a keyword takes
            lines += [{"index": {"_index": INDEX, "_id": id}}, {"body": text, "title": text, "built_in": text}]
    client.bulk(body=lines, refresh="true")


def similarities(client: Any) -> Any:
    return client.indices.get_settings(index=INDEX)[INDEX]["settings"]["index"].get("similarity")


def scores(client: Any, field: str = "body", query: str = QUERY) -> dict[str, float]:
    body = {"query": {"match": {field: query}}, "size": 200, "_source": False}
    return {hit["_id"]: hit["_score"] for hit in client.search(index=INDEX, body=body, params=DFS)["hits"]["hits"]}


def whole(client: Any) -> bool:
    """Whether the index is open, and nothing is left of the one that was made to try."""
    scratch = client.cat.indices(index="qidf-scratch-*", params={"format": "json", "expand_wildcards": "all"})
    (row,) = client.cat.indices(index=INDEX, params={"format": "json"})
    return row["status"] == "open" and not scratch


@pytest.mark.parametrize("field", ["body", "title"])
@pytest.mark.parametrize("q", [0.05, 0.6, 1.0, 1.5])
def test_scores_are_those_of_the_formula(client: Any, way: Connection, field: str, q: float) -> None:
    engine = from_client(client, INDEX, field)
    terms = [token.term for token in engine.analyze(QUERY)]
    documents = engine.collection().documents
    dfs = dict(zip(terms, engine.doc_freqs(terms), strict=True))
    ids = list(scores(client, field))
    expected = {
        id: sum(
            idf(dfs[term], documents, q) * part for term, (part, _) in zip(terms, engine.parts(id, terms), strict=True)
        )
        for id in ids
    }
    assert carry_out(way, propose(way, INDEX, field, q)) > 0
    assert scores(client, field) == pytest.approx(expected, rel=1e-4)
    assert whole(client)


def test_going_back_restores_settings_and_scores(client: Any, way: Connection) -> None:
    before, plain = similarities(client), scores(client)
    carry_out(way, propose(way, INDEX, "body", 0.6))
    assert scores(client) != pytest.approx(plain, rel=0.05)
    carry_out(way, propose(way, INDEX, "body", 0.8))
    assert propose(way, INDEX, "body", 0.8).settings == {}
    assert carry_out(way, propose(way, INDEX, "body", 0.8)) == 0
    carry_out(way, propose_revert(way, INDEX, "body"))
    assert similarities(client) == before
    assert scores(client) == plain
    with pytest.raises(EngineError, match="nothing to bring back"):
        propose_revert(way, INDEX, "body")


def test_what_was_set_before_comes_back(client: Any) -> None:
    fill(client, **{"similarity.default": {"type": "BM25", "k1": 2.0, "b": 0.1, "discount_overlaps": False}})
    way = connected(client, INDEX)
    before, plain = similarities(client), scores(client)
    for field in ("body", "title"):  # each has its own past
        carry_out(way, propose(way, INDEX, field, 0.5))
    assert similarities(client)["default"]["discount_overlaps"] == "false"
    carry_out(way, propose_revert(way, INDEX, "title"))
    assert similarities(client)["default"]["type"] == "scripted"
    carry_out(way, propose_revert(way, INDEX, "body"))
    assert similarities(client) == before
    assert scores(client) == plain


def test_all_fields_of_a_similarity_are_told(way: Connection) -> None:
    assert propose(way, INDEX, "body", 0.6).fields == {"body": "text", "body.raw": "keyword"}
    assert propose(way, INDEX, "title", 0.6).fields == {"title": "text"}


def test_weights_are_never_applied_twice(client: Any, way: Connection) -> None:
    carry_out(way, propose(way, INDEX, "body", 0.6))
    scored = scores(client)
    reports: list[Any] = []
    assert scores(wrap(client, report=reports.append)) == scored
    assert "not scored by BM25" in str(reports[0])
    with pytest.raises(EngineError, match="scored by scripted"):
        from_client(client, INDEX, "body")


class StoppedError(Exception):
    """What a test makes fail."""


def broken(way: Connection, at: int, error: BaseException, *, after: bool) -> tuple[Connection, list[str]]:
    """Return a connection whose request number `at` fails, before or after the server got it."""
    seen: list[str] = []

    def request(method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        seen.append(f"{method} {path}")
        if len(seen) == at and not after:
            raise error
        answer = way.request(method, path, params, body)
        if len(seen) == at:
            raise error
        return answer

    return way._replace(request=request), seen


def each_request(change: Callable[[Connection], Change], way: Connection, restore: Callable[[], object]) -> int:
    """Return how many requests a change takes, after carrying it out once."""
    counted, seen = broken(way, 0, StoppedError(), after=False)
    carry_out(counted, change(way))
    restore()
    return len(seen)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoppedError()], ids=["Ctrl-C", "failure"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_request_fails_the_index_is_as_it_was(
    client: Any, way: Connection, error: BaseException, after: bool
) -> None:
    before = similarities(client)

    def change(way: Connection) -> Change:
        return propose(way, INDEX, "title", 0.6)

    number = each_request(change, way, lambda: carry_out(way, propose_revert(way, INDEX, "title")))
    assert number > 12
    planned = change(way)
    for at in range(1, number + 1):
        breaking, seen = broken(way, at, error, after=after)
        try:
            carry_out(breaking, planned)
        except type(error):
            pass
        else:
            assert seen[at - 1].startswith("DELETE"), "what failed was tried again"
            carry_out(way, propose_revert(way, INDEX, "title"))
        assert whole(client), seen
        assert similarities(client) == before, seen


def test_going_back_that_fails_leaves_what_was_set(client: Any, way: Connection) -> None:
    carry_out(way, propose(way, INDEX, "title", 0.6))
    before = similarities(client)
    planned = propose_revert(way, INDEX, "title")
    for at in range(1, 9):
        breaking, seen = broken(way, at, StoppedError(), after=True)
        with pytest.raises(StoppedError):
            carry_out(breaking, planned)
        assert whole(client), seen
        assert similarities(client) == before, seen


@pytest.mark.parametrize("at", range(5))
def test_who_is_told_may_fail_too(client: Any, way: Connection, at: int) -> None:
    """As printing does where nobody reads any more."""
    before = similarities(client)
    told: list[str] = []

    def tell(step: str) -> None:
        told.append(step)
        if len(told) > at:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        carry_out(way, propose(way, INDEX, "title", 0.6), tell)
    assert whole(client)
    assert similarities(client) == before


def test_an_index_left_closed_is_brought_back(client: Any, way: Connection) -> None:
    """As after a kill between two requests."""
    before = similarities(client)
    carry_out(way, propose(way, INDEX, "title", 0.6))
    client.indices.close(index=INDEX)
    with pytest.raises(EngineError, match="is closed: open it first"):
        propose(way, INDEX, "title", 0.7)
    carry_out(way, propose_revert(way, INDEX, "title"))
    assert whole(client)
    assert similarities(client) == before


def test_where_bringing_back_fails_the_requests_are_told(client: Any, way: Connection) -> None:
    planned = propose(way, INDEX, "title", 0.6)

    def request(method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        if path == f"/{INDEX}/_settings":
            raise EngineError("no settings today")
        return way.request(method, path, params, body)

    with pytest.raises(EngineError, match="may be closed") as raised:
        carry_out(way._replace(request=request), planned)
    assert all(
        part in str(raised.value) for part in (f"POST /{INDEX}/_open", '"index.similarity.gentle', "no settings")
    )
    client.indices.open(index=INDEX)


def test_scores_that_are_wrong_are_noticed(client: Any, way: Connection) -> None:
    before = similarities(client)
    planned = propose(way, INDEX, "title", 0.6)
    key = "index.similarity.gentle.script.source"
    wrong = {**planned.settings, key: planned.settings[key].replace("0.9", "0.8")}
    for settings in ({**wrong}, {**planned.settings, key: "return no such thing;"}):
        with pytest.raises(EngineError, match=r"and should be|compile error"):
            carry_out(way, Change(**{**vars(planned), "settings": settings}))
        assert whole(client)
        assert similarities(client) == before


@pytest.mark.parametrize(
    ("index", "field", "q", "error", "message"),
    [
        (INDEX, "built_in", 0.6, EngineError, "server's own similarity BM25"),
        (INDEX, "body.flat", 0.6, EngineError, "server's own similarity boolean"),
        (INDEX, "body.raw", 0.6, EngineError, "of type keyword"),
        (INDEX, "nope", 0.6, EngineError, "does not exist"),
        ("nowhere", "body", 0.6, EngineError, "no such index"),
        (f"{INDEX},{INDEX}-2", "body", 0.6, EngineError, "is 2 indices: similar, similar-2. Name one"),
        (INDEX, "body", "auto", ValueError, "settings know no query"),
        (INDEX, "body", float("nan"), ValueError, "q must be"),
        (INDEX, "body", -10.0, ValueError, "32-bit floats"),
    ],
)
def test_what_can_not_be_changed(
    client: Any, way: Connection, index: str, field: str, q: Any, error: type[Exception], message: str
) -> None:
    client.indices.create(index=f"{INDEX}-2", body={"mappings": {"properties": {"body": {"type": "text"}}}}, ignore=400)
    with pytest.raises(error, match=message):
        propose(way, index, field, q)


def test_an_alias_of_one_index_stands_for_it(client: Any, way: Connection) -> None:
    client.indices.put_alias(index=INDEX, name="also-similar")
    assert propose(way, "also-similar", "body", 0.6).index == INDEX


def test_an_index_without_documents(client: Any) -> None:
    client.indices.delete(index=INDEX, ignore_unavailable=True)
    client.indices.create(index=INDEX, body={"mappings": {"properties": {"body": {"type": "text"}}}})
    way = connected(client, INDEX)
    assert carry_out(way, propose(way, INDEX, "body", 0.6)) == 0
    assert whole(client)


@pytest.mark.parametrize(
    ("path", "message"),
    [("_close", "manage"), ("qidf-scratch", "create_index.* on qidf-scratch"), ("_cat", "monitor")],
)
def test_a_missing_privilege_is_named(cluster: Server, way: Connection, client: Any, path: str, message: str) -> None:
    with between(cluster.url) as middle:
        middle.status = lambda seen: 403 if path in seen.path and seen.method != "DELETE" else 0
        through = opensearchpy.OpenSearch(middle.url, timeout=30, max_retries=0)
        refused = connected(through, INDEX)
        with pytest.raises(EngineError, match=message):
            carry_out(refused, propose(refused, INDEX, "title", 0.6))
        through.close()
    assert whole(client)


def test_searches_go_on_while_nothing_is_applied(client: Any, way: Connection) -> None:
    """A dry run reads: an index that is searched and written to meanwhile notices nothing."""
    failed: list[Exception] = []
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            try:
                scores(client)
            except Exception as error:
                failed.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    for _ in range(20):
        propose(way, INDEX, "body", 0.6)
    done.set()
    thread.join()
    assert not failed
