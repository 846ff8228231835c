"""A wrapped client of Elasticsearch, on a real server."""

from __future__ import annotations

import asyncio
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.flow import Report
from qidf.engines import connect
from qidf.engines.base import EXPAND
from qidf.engines.elasticsearch import from_client, wrap
from qidf.expansion.building import build
from qidf.rewriting import Rewritten
from tests.cluster.between import Between, between
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load
from tests.engines.test_elasticsearch import drop, write

elasticsearch = load("elasticsearch")

INDEX = "wrapped"
QUERY = {"match": {"body": "read the config file everywhere"}}
SEARCH: dict[str, Any] = {"index": INDEX, "query": QUERY, "size": 100, "source": False}
DFS = {"search_type": "dfs_query_then_fetch"}


@pytest.fixture(scope="module")
def client(elastic: Server) -> Iterator[Any]:
    write(elastic.url, INDEX, DOCUMENTS)
    made = elasticsearch.Elasticsearch(elastic.url, request_timeout=30)
    yield made
    made.close()


@pytest.fixture
def middle(elastic: Server) -> Iterator[Between]:
    with between(elastic.url) as told:
        yield told


@pytest.fixture
def through(middle: Between) -> Iterator[Any]:
    made = elasticsearch.Elasticsearch(middle.url, max_retries=0, request_timeout=30)
    yield made
    made.close()


@pytest.fixture(scope="module")
def expected(client: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in from_client(client, INDEX, "body").search(QUERY["match"]["body"], 100)}


def scores(answer: Any) -> dict[str, float]:
    return {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}


def test_search_and_msearch_have_the_engines_weights(client: Any, expected: dict[str, float]) -> None:
    plain = scores(client.search(**SEARCH, **DFS))
    wrapped = wrap(client, fields=["body"])
    assert isinstance(wrapped, elasticsearch.Elasticsearch)
    assert scores(wrapped.search(**SEARCH, **DFS)) == pytest.approx(expected, rel=1e-5)
    lines = [{"index": INDEX}, {"query": QUERY, "size": 100}, {}, {"query": {"match_all": {}}, "size": 0}]
    many = wrapped.msearch(searches=lines, index=INDEX, **DFS)
    assert scores(many["responses"][0]) == pytest.approx(expected, rel=1e-5)
    assert scores(client.search(**SEARCH, **DFS)) == plain
    assert plain != pytest.approx(expected, rel=1e-2)


def test_options_and_namespaces_lead_through_it(client: Any, expected: dict[str, float]) -> None:
    reports: list[Report] = []
    wrapped = wrap(client, fields=["body"], report=reports.append)
    assert scores(wrapped.options(request_timeout=5).search(**SEARCH, **DFS)) == pytest.approx(expected, rel=1e-5)
    assert wrapped.indices.get_mapping(index=INDEX) == client.indices.get_mapping(index=INDEX)
    with pytest.raises(elasticsearch.ApiError):  # this server has no such search
        wrapped.async_search.submit(index=INDEX, query=QUERY)
    assert wrapped.count(index=INDEX, query=QUERY)["count"] == len(expected)
    assert [report.rewritten for report in reports] == [True, False], "a search by a namespace was seen, too"


def test_a_client_of_asyncio(elastic: Server, client: Any, expected: dict[str, float]) -> None:
    async def main() -> Any:
        async with elasticsearch.AsyncElasticsearch(elastic.url) as own:
            wrapped = wrap(own, fields=["body"])
            return await asyncio.gather(*(wrapped.search(**SEARCH, **DFS) for _ in range(8)))

    load("elasticsearch", "aiohttp")
    for answer in asyncio.run(main()):
        assert scores(answer) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_a_refused_body_is_followed_by_the_original(client: Any, middle: Between, through: Any, status: int) -> None:
    reports: list[Report] = []
    wrapped = wrap(through, report=reports.append)
    middle.status = lambda seen: status if b'"boost"' in seen.body else 0
    assert scores(wrapped.search(**SEARCH)) == scores(client.search(**SEARCH))
    assert len(middle.searches()) == 2
    assert reports[-1].error == f"the server refused the rewritten body: status {status}"


def test_a_refused_item_of_many_is_followed_by_the_original(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(body: Any, *arguments: Any, **options: Any) -> Rewritten:
        return Rewritten({**body, "query": {"match": {"body": {"query": "x", "no_such_option": 1}}}}, (), True)

    monkeypatch.setattr("qidf.cluster.rewriter.rewrite", broken)
    reports: list[Report] = []
    wrapped = wrap(client, report=reports.append)
    many = wrapped.msearch(searches=[{}, {"query": QUERY, "size": 100}] * 2, index=INDEX)
    assert [scores(one) for one in many["responses"]] == [scores(client.search(**SEARCH))] * 2
    assert "refused" in reports[0].error


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, status) for path in ("_mapping", "_settings") for status in (401, 403, 404, 500, -1)),
        *((path, status) for path in ("_search_shards", "_mtermvectors") for status in (429, 500, -1)),
        *((path, status) for path in ("_mtermvectors|_analyze", "_mtermvectors|/_msearch") for status in (403, 404)),
    ],
)
def test_without_statistics_the_plain_query_runs(
    client: Any, middle: Between, through: Any, path: str, status: int
) -> None:
    middle.status = lambda seen: status if re.search(path, seen.path) else 0
    reports: list[Report] = []
    assert scores(wrap(through, report=reports.append).search(**SEARCH)) == scores(client.search(**SEARCH))
    assert [(report.rewritten, bool(report.error)) for report in reports] == [(False, True)]


@pytest.mark.parametrize("path", ["_search_shards", "_mtermvectors"])
def test_where_term_vectors_are_refused_hits_are_counted(
    middle: Between, through: Any, path: str, expected: dict[str, float]
) -> None:
    middle.status = lambda seen: 403 if path in seen.path else 0
    found = scores(wrap(through, fields=["body"]).search(**SEARCH, **DFS))
    # N counts documents without a token, and neither it nor n those that are deleted
    assert found == pytest.approx(expected, rel=0.1)
    assert found.keys() == expected.keys()
    assert any(seen.path == "/_msearch" for seen in middle.seen)


def test_statistics_that_take_too_long_are_done_without(
    client: Any, middle: Between, through: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qidf.engines.elasticsearch.TIMEOUT", 0.2)
    released = threading.Event()
    middle.wait = lambda seen: float(released.wait(5) and 0) if "_mtermvectors" in seen.path else 0.0
    assert scores(wrap(through).search(**SEARCH)) == scores(client.search(**SEARCH))
    released.set()


def test_the_callers_errors_stay_its_own(client: Any) -> None:
    wrapped = wrap(client)
    with pytest.raises(elasticsearch.NotFoundError):
        wrapped.search(index="nowhere", query=QUERY)
    with pytest.raises(elasticsearch.BadRequestError):
        wrapped.search(index=INDEX, query={"nothing": {}})
    with pytest.raises(ValueError, match="wrapped already"):
        wrap(wrapped)


def test_credentials_of_a_call_go_with_its_statistics(middle: Between, through: Any) -> None:
    wrapped = wrap(through)
    wrapped.options(api_key="a2V5OnNlY3JldA==").search(**SEARCH)
    assert {seen.header("authorization") for seen in middle.seen} == {"ApiKey a2V5OnNlY3JldA=="}
    number = len(middle.seen)
    wrapped.options(api_key="b3RoZXI6c2VjcmV0").search(**SEARCH)
    assert len(middle.seen) > number + 2, "what one user may know is not kept for another"


def test_nothing_is_warned_of(client: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap(client).search(**SEARCH)


def test_matches_are_widened_by_identifiers(
    elastic: Server, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = [(f"f{i}", f"func readTable{i}(w Writer) {{ return row{i} }}") for i in range(25)]
    write(elastic.url, "glued", [*texts, ("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack(w) }")])
    engine = connect(f"elasticsearch+{elastic.url}/glued#body")
    build(engine)
    question = "upgrade of a web socket, row1"
    search = {"index": "glued", "query": {"match": {"body": question}}, "size": 100, "source": False, **DFS}
    for expand in EXPAND:
        found = scores(wrap(client, ["body"], expand=expand).search(**search))
        wanted = engine.search(question, 100, expand="rank" if expand == "auto" else expand)
        assert found == pytest.approx({hit.id: hit.score for hit in wanted}, rel=1e-5)
        assert ("upgrade.go" in found) == (expand == "recall")
    drop(elastic.url, "glued")
