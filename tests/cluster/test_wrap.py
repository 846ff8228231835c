"""A wrapped client against the real server: the same calls, other weights, and never a search that fails for it."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.flow import Report
from qidf.engines import connect
from qidf.engines.base import EXPAND, Expand
from qidf.engines.cluster import Cluster
from qidf.engines.opensearch import from_client, wrap
from qidf.errors import IndexCorruptError
from qidf.expansion.building import build
from qidf.expansion.dictionary import write
from qidf.expansion.place import path_of
from qidf.rewriting import Rewritten
from tests.cluster.between import Between, between
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

INDEX = "wrapped"
QUERY = "read the config file everywhere"
BODY = {"query": {"match": {"body": QUERY}}, "size": 100, "_source": False}
DFS = {"search_type": "dfs_query_then_fetch"}


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    made.indices.delete(index=INDEX, ignore_unavailable=True)
    made.indices.create(
        index=INDEX,
        body={
            "settings": {"number_of_shards": 2, "number_of_replicas": 0},
            "mappings": {"properties": {"body": {"type": "text"}, "title": {"type": "text"}}},
        },
    )
    lines: list[Any] = []
    for id, text in DOCUMENTS:
        lines += [{"index": {"_index": INDEX, "_id": id}}, {"body": text, "title": text[:20]}]
    made.bulk(body=lines, refresh="true")
    yield made
    made.close()


@pytest.fixture
def middle(cluster: Server) -> Iterator[Between]:
    with between(cluster.url) as told:
        yield told


def through(middle: Between, **options: Any) -> Any:
    return opensearchpy.OpenSearch(middle.url, max_retries=0, timeout=30, **options)


def scores(answer: Any) -> dict[str, float]:
    return {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}


@pytest.fixture(scope="module")
def expected(client: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in from_client(client, INDEX, "body").search(QUERY, 100)}


def test_search_and_msearch_have_the_engines_weights(client: Any, expected: dict[str, float]) -> None:
    plain = scores(client.search(index=INDEX, body=BODY, params=DFS))
    wrapped = wrap(client, fields=["body"])
    assert isinstance(wrapped, opensearchpy.OpenSearch)
    assert scores(wrapped.search(index=INDEX, body=BODY, params=DFS)) == pytest.approx(expected, rel=1e-5)
    many = wrapped.msearch(
        body=[{"index": INDEX}, BODY, {}, {"query": {"match_all": {}}, "size": 0}], index=INDEX, params=DFS
    )
    assert scores(many["responses"][0]) == pytest.approx(expected, rel=1e-5)
    assert scores(client.search(index=INDEX, body=BODY, params=DFS)) == plain
    assert plain != pytest.approx(expected, rel=1e-2)


def test_helpers_and_namespaces_lead_through_it(client: Any, expected: dict[str, float]) -> None:
    from opensearchpy.helpers.search import Search

    reports: list[Report] = []
    wrapped = wrap(client, fields=["body"], report=reports.append)
    hits = (
        Search(using=wrapped, index=INDEX).query("match", body=QUERY).params(search_type="dfs_query_then_fetch")[:100]
    )
    assert {hit.meta.id: hit.meta.score for hit in hits.execute()} == pytest.approx(expected, rel=1e-5)
    assert wrapped.indices.client is wrapped
    assert wrapped.indices.get_mapping(index=INDEX) == client.indices.get_mapping(index=INDEX)
    assert wrapped.count(index=INDEX, body={"query": BODY["query"]})["count"] == len(expected)
    assert [report.rewritten for report in reports] == [True]


def test_a_client_of_asyncio(cluster: Server, client: Any, expected: dict[str, float]) -> None:
    async def main() -> Any:
        async with opensearchpy.AsyncOpenSearch(cluster.url) as own:
            wrapped = wrap(own, fields=["body"])
            assert isinstance(wrapped, opensearchpy.AsyncOpenSearch)
            several = [wrapped.search(index=INDEX, body=BODY, params=DFS) for _ in range(8)]
            return await asyncio.gather(*several)

    load("opensearch", "aiohttp")
    for answer in asyncio.run(main()):
        assert scores(answer) == pytest.approx(expected, rel=1e-5)


def test_threads_share_a_wrapped_client(client: Any, expected: dict[str, float]) -> None:
    wrapped = wrap(client, fields=["body"], ttl=0.01)
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: wrapped.search(index=INDEX, body=BODY, params=DFS), range(64)):
            assert scores(answer) == pytest.approx(expected, rel=1e-5)


def test_a_refused_body_is_followed_by_the_original(client: Any, middle: Between) -> None:
    plain = scores(client.search(index=INDEX, body=BODY))
    reports: list[Report] = []
    wrapped = wrap(through(middle), report=reports.append)
    for status in (400, 429, 500, 503):
        middle.status = lambda seen, status=status: status if b'"boost"' in seen.body else 0  # type: ignore[misc]
        middle.seen.clear()
        assert scores(wrapped.search(index=INDEX, body=BODY)) == plain
        assert len(middle.searches()) == 2
        assert reports[-1].error == f"the server refused the rewritten body: status {status}"
        assert not reports[-1].rewritten


def test_a_refused_item_of_many_is_followed_by_the_original(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rewritten body is known that the real server refuses, so a rewriter is made to write one."""

    def broken(body: Any, *arguments: Any, **options: Any) -> Rewritten:
        return Rewritten({**body, "query": {"match": {"body": {"query": "x", "no_such_option": 1}}}}, (), True)

    monkeypatch.setattr("qidf.cluster.rewriter.rewrite", broken)
    reports: list[Report] = []
    wrapped = wrap(client, report=reports.append)
    many = wrapped.msearch(body=[{}, BODY, {}, BODY], index=INDEX)
    assert [scores(one) for one in many["responses"]] == [scores(client.search(index=INDEX, body=BODY))] * 2
    assert "refused" in reports[0].error
    assert scores(wrapped.search(index=INDEX, body=BODY)) == scores(client.search(index=INDEX, body=BODY))


@pytest.mark.parametrize("path", ["_search_shards", "_mtermvectors"])
@pytest.mark.parametrize("status", [401, 403, 404])
def test_where_term_vectors_are_refused_hits_are_counted(
    client: Any, middle: Between, path: str, status: int, expected: dict[str, float]
) -> None:
    middle.status = lambda seen: status if path in seen.path else 0
    wrapped = wrap(through(middle), fields=["body"])
    for _ in range(2):
        # N counts the three documents without a token, too
        assert scores(wrapped.search(index=INDEX, body=BODY, params=DFS)) == pytest.approx(expected, rel=2e-3)
    many = [{}, BODY, {}, {"query": {"match": {"body": "another text of config"}}}]
    wrapped.msearch(body=many, index=INDEX)
    assert sum(path in seen.path for seen in middle.seen) == 1, "what was refused is not asked again"
    counts = [seen for seen in middle.seen if seen.path.startswith("/_msearch")]
    assert len(counts) == 2, "one request counts all that is not known yet"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, status) for path in ("_mapping", "_settings") for status in (401, 403, 404, 500, -1)),
        *((path, status) for path in ("_search_shards", "_mtermvectors") for status in (429, 500, -1)),
        *((path, status) for path in ("_mtermvectors|_analyze", "_mtermvectors|/_msearch") for status in (403, 404)),
    ],
)
def test_without_statistics_the_plain_query_runs(
    client: Any, middle: Between, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    plain = scores(client.search(index=INDEX, body=BODY))
    middle.status = lambda seen: status if re.search(path, seen.path) else 0
    wrapped = wrap(through(middle))
    assert scores(wrapped.search(index=INDEX, body=BODY)) == plain
    assert [record.levelno for record in caplog.records if record.name == "qidf"] == [logging.WARNING]
    number = len(middle.seen)
    assert scores(wrapped.search(index=INDEX, body=BODY)) == plain
    rests = status in (429, 500, -1)
    assert (len(middle.seen) == number + 1) == rests, "a server that fails is not asked again at once"


def test_statistics_that_take_too_long_are_done_without(
    client: Any, middle: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qidf.engines.opensearch.TIMEOUT", 0.2)
    released = threading.Event()
    middle.wait = lambda seen: float(released.wait(5) and 0) if "_mtermvectors" in seen.path else 0.0
    wrapped = wrap(through(middle))
    assert scores(wrapped.search(index=INDEX, body=BODY)) == scores(client.search(index=INDEX, body=BODY))
    released.set()


def test_old_statistics_are_better_than_none(client: Any, middle: Between, expected: dict[str, float]) -> None:
    wrapped = wrap(through(middle), fields=["body"], ttl=0)
    assert scores(wrapped.search(index=INDEX, body=BODY, params=DFS)) == pytest.approx(expected, rel=1e-5)
    middle.status = lambda seen: 500 if "_mtermvectors" in seen.path else 0
    assert scores(wrapped.search(index=INDEX, body=BODY, params=DFS)) == pytest.approx(expected, rel=1e-5)


def test_the_callers_errors_stay_its_own(client: Any) -> None:
    wrapped = wrap(client)
    with pytest.raises(opensearchpy.NotFoundError):
        wrapped.search(index="nowhere", body=BODY)
    with pytest.raises(opensearchpy.RequestError):
        wrapped.search(index=INDEX, body={"query": {"match": {"body": {"query": "a b", "x": 1}}}})
    with pytest.raises(opensearchpy.RequestError):
        wrapped.search(index=INDEX, body={"query": {"nothing": {}}})


def test_headers_of_a_call_go_with_its_statistics(client: Any, middle: Between) -> None:
    wrapped = wrap(through(middle))
    headers = {"Authorization": "Basic bWU6cGFzcw==", "X-Opaque-Id": "7"}
    wrapped.search(index=INDEX, body=BODY, headers=headers)
    assert {seen.header("authorization") for seen in middle.seen} == {headers["Authorization"]}
    number = len(middle.seen)
    wrapped.search(index=INDEX, body=BODY, headers={**headers, "X-Opaque-Id": "8"})
    assert len(middle.seen) == number + 1
    wrapped.search(index=INDEX, body=BODY, headers={"Authorization": "Basic b3RoZXI6cGFzcw=="})
    assert len(middle.seen) > number + 2, "what one user may know is not kept for another"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": "hapax"}, "qidf advise"),
        ({"q": "steep"}, "q must be"),
        ({"fields": "body"}, "list of names"),
        ({"ttl": -1}, "ttl must be"),
        ({"a": -1}, "a must be"),
        ({"max_clauses": 0}, "max_clauses"),
    ],
)
def test_parameters_without_sense(client: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrap(client, **options)


def test_wrapping_twice_is_refused(client: Any) -> None:
    with pytest.raises(ValueError, match="wrapped already"):
        wrap(wrap(client))


def test_plain_weights_ask_nothing(middle: Between, client: Any) -> None:
    wrapped = wrap(through(middle), q=1, a=1)
    wrapped.search(index=INDEX, body=BODY)
    assert len(middle.seen) == 1


GLUED = [
    ("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack(w) }"),
    ("dial.go", "func dial(web string) { return openWebSocket(web) }"),
    ("user.py", "def get_user_by_id(id): return rows[id]"),
    ("notes.md", "An upgrade of the web server, and of its web pages."),
    *[(f"f{i}", f"func readTable{i}(w Writer) {{ return row{i} }}") for i in range(30)],
]
QUESTION = "upgrade a web socket"


@pytest.fixture
def glued(cluster: Server, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The engine of an index with a dictionary."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mapping = {"properties": {"body": {"type": "text"}, "title": {"type": "text"}}}
    client.indices.create(
        index="glued-words",
        body={"settings": {"number_of_shards": 2, "number_of_replicas": 0}, "mappings": mapping},
    )
    lines: list[Any] = []
    for id, text in GLUED:
        lines += [{"index": {"_index": "glued-words", "_id": id}}, {"body": text, "title": text[:20]}]
    client.bulk(body=lines, refresh="true")
    engine = connect(f"opensearch+{cluster.url}/glued-words#body")
    assert isinstance(engine, Cluster)
    build(engine)
    yield engine
    client.indices.delete(index="glued-words")


def ranked(engine: Cluster, expand: Expand) -> dict[str, float]:
    return {hit.id: hit.score for hit in engine.search(QUESTION, 100, expand=expand)}


def asked(match: Any = QUESTION, **more: Any) -> dict[str, Any]:
    return {"query": {"match": {"body": match}}, "size": 100, "_source": False, **more}


def test_matches_are_widened_as_the_engine_widens_queries(client: Any, glued: Cluster) -> None:
    expected: dict[str, dict[str, float]] = {expand: ranked(glued, expand) for expand in EXPAND}
    assert "upgrade.go" in expected["recall"].keys() - expected["rank"].keys()
    assert expected["rank"].keys() == expected["off"].keys()
    assert expected["rank"]["dial.go"] > expected["off"]["dial.go"]
    for expand in EXPAND:
        wrapped = wrap(client, ["body"], expand=expand)
        answer = wrapped.search(index="glued-words", body=asked(), params=DFS)
        as_engine = "rank" if expand == "auto" else expand
        assert scores(answer) == pytest.approx(expected[as_engine], rel=1e-5), expand
    plain = wrap(client, ["body"], expand="recall", q=1, a=1)
    weighed = {hit.id: hit.score for hit in glued.search(QUESTION, 100, q=1, a=1)}
    assert scores(plain.search(index="glued-words", body=asked(), params=DFS)) == pytest.approx(weighed, rel=1e-5)


def test_a_client_of_asyncio_widens_too(cluster: Server, client: Any, glued: Cluster) -> None:
    async def main() -> Any:
        async with opensearchpy.AsyncOpenSearch(cluster.url) as own:
            wrapped = wrap(own, ["body"], expand="recall")
            return await wrapped.search(index="glued-words", body=asked(), params=DFS)

    load("opensearch", "aiohttp")
    assert scores(asyncio.run(main())) == pytest.approx(ranked(glued, "recall"), rel=1e-5)


def test_what_a_match_demands_it_demands_of_its_own_words(client: Any, glued: Cluster) -> None:
    wrapped = wrap(client, expand="recall")
    for body in (
        asked({"query": QUESTION, "minimum_should_match": 2}),
        asked({"query": QUESTION, "operator": "and"}),
        asked({"query": "upgrade web", "operator": "and"}),
    ):
        before = scores(client.search(index="glued-words", body=body))
        assert scores(wrapped.search(index="glued-words", body=body)).keys() == before.keys()
    filtered = asked()
    filtered["query"] = {"bool": {"must": [filtered["query"]], "filter": [{"ids": {"values": ["f1", "dial.go"]}}]}}
    assert scores(wrapped.search(index="glued-words", body=filtered)).keys() == {"dial.go"}
    several = asked()
    several["query"] = {"multi_match": {"query": QUESTION, "fields": ["body", "title^2"]}}
    kept = wrap(client, expand="auto").search(index="glued-words", body=several)
    assert scores(kept).keys() == scores(client.search(index="glued-words", body=several)).keys()


def test_added_terms_are_highlighted_and_explained(client: Any, glued: Cluster) -> None:
    body = asked(highlight={"fields": {"body": {}}}, explain=True)
    answer = wrap(client, ["body"], expand="recall").search(index="glued-words", body=body)
    hit = next(hit for hit in answer["hits"]["hits"] if hit["_id"] == "upgrade.go")
    assert "<em>handleWebSocketUpgrade</em>" in hit["highlight"]["body"][0]
    assert "body:handlewebsocketupgrade" in str(hit["_explanation"])


def test_a_widened_search_asks_once(cluster: Server, glued: Cluster, middle: Between) -> None:
    path = path_of(glued)
    wrapped = wrap(through(middle), ["body"], dictionaries=[path])
    wrapped.search(index="glued-words", body=asked())
    assert len([one for one in middle.seen if "_mtermvectors" in one.path]) == 1
    middle.seen.clear()
    wrapped.search(index="glued-words", body=asked())
    assert len(middle.seen) == 1
    assert b"openwebsocket" in middle.seen[0].body


def test_a_dictionary_goes_by_index_field_and_analyzer(client: Any, glued: Cluster) -> None:
    reports: list[Report] = []
    wrapped = wrap(client, ["body"], expand="rank", report=reports.append)
    client.indices.put_alias(index="glued-words", name="code")
    for index in ("glued-words", "code", "glued-w*"):
        hits = scores(wrapped.search(index=index, body=asked(), params=DFS))
        assert hits == pytest.approx(ranked(glued, "rank"), rel=1e-5)
    assert not any(report.notes for report in reports)
    other = asked({"query": "upgrade sockets", "analyzer": "english"})
    wrapped.search(index="glued-words", body=other)
    assert "field body has no dictionary (qidf dictionary build)" in str(reports[-1])


def test_a_damaged_dictionary_is_told_and_the_query_goes_without(client: Any, glued: Cluster) -> None:
    path = Path(path_of(glued))
    path.write_bytes(path.read_bytes()[:-100])
    reports: list[Report] = []
    wrapped = wrap(client, ["body"], report=reports.append)
    hits = scores(wrapped.search(index="glued-words", body=asked(), params=DFS))
    assert hits == pytest.approx(ranked(glued, "off"), rel=1e-5)
    assert "queries are not expanded" in str(reports[-1])
    with pytest.raises(IndexCorruptError):
        wrap(client, dictionaries=[str(path)])
    with pytest.raises(IndexCorruptError, match="can't be read"):
        wrap(client, dictionaries=[f"{path}.none"])


def test_a_dictionary_made_anew_is_used(client: Any, glued: Cluster) -> None:
    path = Path(path_of(glued))
    wrapped = wrap(client, ["body"], expand="recall", ttl=0)
    found = scores(wrapped.search(index="glued-words", body=asked())).keys()
    assert "upgrade.go" in found
    assert glued.dictionary
    write(str(path), glued.dictionary.about, [("openwebsocket", ("open", "web", "socket"))], {"web": 3, "socket": 2})
    assert scores(wrapped.search(index="glued-words", body=asked())).keys() == found - {"upgrade.go"}
    path.unlink()
    assert scores(wrapped.search(index="glued-words", body=asked())).keys() == ranked(glued, "off").keys()


def test_plain_weights_tell_what_is_wrong_with_a_dictionary_too(client: Any, glued: Cluster) -> None:
    reports: list[Report] = []
    wrapped = wrap(client, ["body", "title"], q=1, a=1, expand="rank", report=reports.append)
    body = {"query": {"multi_match": {"query": QUESTION, "fields": ["body", "title"]}}}
    wrapped.search(index="glued-words", body=body)
    assert reports[-1].rewritten
    assert [note.reason for note in reports[-1].notes] == ["field title has no dictionary (qidf dictionary build)"]
    Path(path_of(glued)).write_bytes(b"damaged")
    other = wrap(client, ["body"], q=1, a=1, report=reports.append)
    other.search(index="glued-words", body=asked())
    assert "queries are not expanded" in str(reports[-1])
    assert not reports[-1].rewritten


def test_where_term_vectors_are_refused_added_terms_are_counted(
    cluster: Server, glued: Cluster, middle: Between
) -> None:
    middle.status = lambda seen: 403 if "_mtermvectors" in seen.path else 0
    wrapped = wrap(through(middle), ["body"], expand="recall", dictionaries=[path_of(glued)])
    hits = scores(wrapped.search(index="glued-words", body=asked(), params=DFS))
    assert hits == pytest.approx(ranked(glued, "recall"), rel=1e-5)
