"""The Elasticsearch engine on a real server, in the suite of all engines."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.cli.places import open_place
from qidf.engines import connect
from qidf.engines.cluster import Cluster
from qidf.engines.elasticsearch import from_client
from qidf.errors import EngineError, EngineWarning
from tests.cluster.between import between, certificate
from tests.engines.conformance import DELETED, DOCUMENTS, Conformance, Subject
from tests.engines.opensearch_server import Server, request
from tests.engines.required import load

elasticsearch = load("elasticsearch")

DFS = "search_type=dfs_query_then_fetch"


@pytest.fixture(scope="module")
def client(elastic: Server) -> Iterator[Any]:
    made = elasticsearch.Elasticsearch(elastic.url, request_timeout=30)
    yield made
    made.close()


def write(url: str, index: str, documents: list[tuple[str, str]], **settings: Any) -> None:
    """Index documents; those of DELETED are deleted again, and stay in the statistics until a merge."""
    drop(url, index)
    own = {"number_of_shards": 2, "number_of_replicas": 0, "refresh_interval": "-1"}
    own["merge.policy.expunge_deletes_allowed"] = "90"
    mappings = {"properties": {"body": {"type": "text"}, "other": {"type": "keyword"}}}
    request(f"{url}/{index}", {"settings": {"index": {**own, **settings}}, "mappings": mappings}, "PUT")
    lines = [line for id, text in documents for line in ({"index": {"_id": id}}, {"body": text})]
    bulk(f"{url}/{index}", lines)
    deleted = [{"delete": {"_id": id}} for id, _ in documents if id in DELETED]
    if deleted:
        bulk(f"{url}/{index}", deleted)


def bulk(url: str, lines: list[Any]) -> None:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    asked = urllib.request.Request(f"{url}/_bulk?refresh=true", data, {"Content-Type": "application/x-ndjson"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert not json.load(answer)["errors"]


def drop(url: str, index: str) -> None:
    request(f"{url}/{index}?ignore_unavailable=true", method="DELETE")


def plain(url: str, index: str, query: str, k: int) -> list[tuple[str, float]]:
    body = {"query": {"match": {"body": query}}, "size": k, "_source": False}
    return [(hit["_id"], hit["_score"]) for hit in request(f"{url}/{index}/_search?{DFS}", body)["hits"]["hits"]]


@pytest.fixture(scope="module", params=["standard", "stop", "k1 0.9, b 0.4"])
def subject(request: pytest.FixtureRequest, elastic: Server, client: Any) -> Subject:
    index = "conformance-" + request.param.partition(" ")[0]
    settings: Any = {}
    if request.param == "stop":  # of the language analyzers none is in the server itself
        own = {"type": "standard", "stopwords": ["the", "of", "everywhere"]}
        settings = {"analysis": {"analyzer": {"default": own}}}
    if request.param.startswith("k1"):
        settings = {"similarity.default": {"type": "BM25", "k1": 0.9, "b": 0.4}}
    write(elastic.url, index, DOCUMENTS, **settings)
    engine = from_client(client, index, "body", max_clauses=4096)
    return Subject(engine, dict(DOCUMENTS), DELETED, lambda query, k: plain(elastic.url, index, query, k))


class TestConformance(Conformance):
    def tells_tokens(self, subject: Subject) -> bool:
        return False


def test_the_url_opens_it(elastic: Server) -> None:
    write(elastic.url, "by-url", DOCUMENTS[:5])
    url = f"elasticsearch+{elastic.url}/by-url#body"
    engine = connect(url)
    assert engine.collection().documents == 5  # one of them is deleted
    assert engine.search("everywhere", 10)
    assert engine.text("doc0") == dict(DOCUMENTS)["doc0"]
    assert open_place(None, None, url, no_refresh=False)


def test_a_pattern_of_indices(elastic: Server, client: Any) -> None:
    write(elastic.url, "part-1", DOCUMENTS[:20])
    write(elastic.url, "part-2", DOCUMENTS[20:])
    engine = from_client(client, "part-*", "body")
    hits = engine.search("read the config file", 5, q=1, a=1)
    expected = plain(elastic.url, "part-*", "read the config file", 5)
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], rel=1e-6)
    assert hits[0].id.startswith("part-")


@pytest.mark.parametrize("refused", ["_mtermvectors", "_search_shards"])
def test_where_term_vectors_are_refused_hits_are_counted(elastic: Server, refused: str) -> None:
    whole = [document for document in DOCUMENTS if document[0] not in DELETED]
    write(elastic.url, "counted", whole)
    expected = connect(f"elasticsearch+{elastic.url}/counted#body")
    with between(elastic.url) as middle:
        middle.status = lambda seen: 403 if refused in seen.path else 0
        engine = connect(f"elasticsearch+{middle.url}/counted#body")
        assert engine.doc_freqs(["config", "the"]) == expected.doc_freqs(["config", "the"])
        query = "read the config file"
        assert [hit.id for hit in engine.search(query, 3)] == [hit.id for hit in expected.search(query, 3)]


def test_a_busy_server_is_asked_again_then_the_plain_query_runs(
    elastic: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(elastic.url, "by-url", DOCUMENTS[:5])
    monkeypatch.setattr("qidf.engines.cluster.PAUSES", (0.01, 0.02))
    with between(elastic.url) as middle:
        engine = connect(f"elasticsearch+{middle.url}/by-url#body")
        middle.status = lambda seen: 503 if "_mtermvectors" in seen.path else 0
        with pytest.warns(EngineWarning, match="plain BM25"):
            assert engine.search("everywhere", 10)
        assert sum("_mtermvectors" in seen.path for seen in middle.seen) == 3


@pytest.mark.parametrize("by", ["key", "user"])
def test_credentials_of_the_environment(elastic: Server, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(elastic.url, "by-url", DOCUMENTS[:5])
    names = {"key": {"QIDF_API_KEY": "a2V5OnNlY3JldA=="}, "user": {"QIDF_USER": "me", "QIDF_PASSWORD": "pass:word"}}
    for name, value in names[by].items():
        monkeypatch.setenv(name, value)
    with between(elastic.url) as middle:
        connect(f"elasticsearch+{middle.url}/by-url#body").search("everywhere")
    sent = {"key": "ApiKey a2V5OnNlY3JldA==", "user": "Basic bWU6cGFzczp3b3Jk"}[by]
    assert {seen.header("authorization") for seen in middle.seen} == {sent}


def test_a_certificate_is_verified_unless_you_say_so(elastic: Server, tmp_path: Path) -> None:
    write(elastic.url, "by-url", DOCUMENTS[:5])
    made = certificate(tmp_path)
    with between(elastic.url, made) as middle:
        url = f"elasticsearch+{middle.url}/by-url#body"
        with pytest.raises(EngineError, match="nobody vouches for"):
            connect(url)
        assert middle.seen == []
        for trusting in (f"ca={made.file}", "verify=false"):
            assert connect(f"{url}?{trusting}").search("everywhere", 10)


@pytest.mark.parametrize(
    ("path", "message"),
    [("/nowhere#body", "no such index"), ("/by-url#nope", "does not exist"), ("/by-url#other", "of type keyword")],
)
def test_what_is_not_there(elastic: Server, path: str, message: str) -> None:
    write(elastic.url, "by-url", DOCUMENTS[:5])
    with pytest.raises(EngineError, match=message):
        connect(f"elasticsearch+{elastic.url}{path}")


@pytest.mark.parametrize(("status", "message"), [(401, "no such user or password"), (403, "view_index_metadata")])
def test_a_missing_privilege_is_named(elastic: Server, status: int, message: str) -> None:
    with between(elastic.url) as middle:
        middle.status = lambda seen: status
        with pytest.raises(EngineError, match=message):
            connect(f"elasticsearch+{middle.url}/by-url#body")


def test_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qidf.engines.cluster.PAUSES", ())
    with pytest.raises(EngineError, match="does not answer"):
        connect("elasticsearch+http://127.0.0.1:9/index#body?timeout=1")


def test_a_client_of_another_version_says_which_to_install(elastic: Server) -> None:
    """What a client of version 9 sends: it says so in its media type."""
    write(elastic.url, "by-url", DOCUMENTS[:5])
    client = elasticsearch.Elasticsearch(elastic.url)

    class Newer:
        def perform_request(self, *arguments: Any, headers: dict[str, str], **options: Any) -> Any:
            newer = dict.fromkeys(headers, "application/vnd.elasticsearch+json; compatible-with=9")
            return client.perform_request(*arguments, headers=newer, **options)

    with pytest.raises(EngineError, match="pip install 'elasticsearch<9'"):
        from_client(Newer(), "by-url", "body")
    client.close()


def test_another_product_is_told(elastic: Server) -> None:
    with between(elastic.url) as middle:
        middle.dropped = {"x-elastic-product"}
        with pytest.raises(EngineError, match="is no Elasticsearch"):
            connect(f"elasticsearch+{middle.url}/by-url#body")


def test_a_server_without_scripts_refuses_a_similarity_before_anything_is_changed(elastic: Server) -> None:
    """This one has no Painless; others have scripts switched off."""
    from qidf.cluster.similarity import carry_out, propose
    from qidf.engines import parse
    from qidf.engines.elasticsearch import connection

    write(elastic.url, "unscripted", DOCUMENTS[:5])
    way = connection(parse(f"elasticsearch+{elastic.url}/unscripted#body"))
    told: list[str] = []
    with pytest.raises(EngineError, match="script"):
        carry_out(way, propose(way, "unscripted", "body", 0.6), told.append)
    assert told == ["trying the script on an index of its own"]
    rows = request(f"{elastic.url}/_cat/indices/unscripted,qidf-scratch-*?format=json&expand_wildcards=all")
    assert [(row["index"], row["status"]) for row in rows] == [("unscripted", "open")]


def test_all_texts_are_read_through_a_point_in_time(elastic: Server) -> None:
    documents = [(f"d{i}", f"func readTable{i}(w Writer) {{}}") for i in range(30)]
    write(elastic.url, "read-whole", documents)
    engine = connect(f"elasticsearch+{elastic.url}/read-whole#body")
    assert isinstance(engine, Cluster)
    assert sorted(engine.texts()) == sorted(text for _, text in documents)
    pages = list(engine.read(size=7))
    assert sorted(text for page, _ in pages for text in page) == sorted(text for _, text in documents)
    rest = [text for page, _ in engine.read(pages[1][1]) for text in page]
    assert sorted(pages[0][0] + pages[1][0] + rest) == sorted(text for _, text in documents)
    assert list(engine.read(pages[-1][1])) == []
    drop(elastic.url, "read-whole")
