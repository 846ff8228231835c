"""The OpenSearch engine on a real cluster of two nodes, with shards, replicas, aliases and deleted documents."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.steps import RefusedError
from qidf.engines import connect
from qidf.engines.cluster import Cluster
from qidf.engines.opensearch import from_client, wrap
from qidf.errors import EngineError, EngineWarning
from qidf.expansion import building
from qidf.expansion.building import build
from qidf.expansion.place import path_of
from tests.cluster.between import between, certificate
from tests.engines.conformance import DELETED, DOCUMENTS, Conformance, Subject
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

LETTERS = [chr(65 + i // 26) + chr(97 + i % 26) + "x" for i in range(120)]
ENGLISH = {"analysis": {"analyzer": {"default": {"type": "english"}}}}


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    yield made
    made.close()


def write(
    client: Any, index: str, documents: list[tuple[str, str]], *, settings: Any = None, field: Any = None
) -> None:
    """Index documents; those of DELETED are deleted again, and stay in the statistics until a merge."""
    client.indices.delete(index=index, ignore_unavailable=True)
    own = {
        "number_of_shards": 2,
        "number_of_replicas": 1,
        "refresh_interval": -1,
        "merge.policy.expunge_deletes_allowed": 90,
    }
    client.indices.create(
        index=index,
        body={
            "settings": {"index": own, **(settings or {})},
            "mappings": {"properties": {"body": field or {"type": "text"}, "other": {"type": "keyword"}}},
        },
        params={"wait_for_active_shards": "all"},
    )
    lines: list[Any] = []
    for id, text in documents:
        lines += [{"index": {"_index": index, "_id": id}}, {"body": text}]
    client.bulk(body=lines, params={"refresh": "true"})
    for id, _ in documents:
        if id in DELETED:
            client.delete(index=index, id=id)
    client.indices.refresh(index=index)


@pytest.fixture(scope="module", params=["standard", "english", "k1 0.9, b 0.4"])
def subject(request: pytest.FixtureRequest, client: Any) -> Subject:
    index = "conformance-" + request.param.partition(" ")[0]
    settings: Any = ENGLISH if request.param == "english" else None
    if request.param.startswith("k1"):
        settings = {"index.similarity.default": {"type": "BM25", "k1": 0.9, "b": 0.4}}
    write(client, index, DOCUMENTS, settings=settings)
    engine = from_client(client, index, "body", max_clauses=4096)

    def plain(query: str, k: int) -> list[tuple[str, float]]:
        answer = client.search(
            index=index,
            body={"query": {"match": {"body": {"query": query}}}, "size": k, "_source": False},
            params={"search_type": "dfs_query_then_fetch"},
        )
        return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]

    return Subject(engine, dict(DOCUMENTS), DELETED, plain)


class TestConformance(Conformance):
    def tells_tokens(self, subject: Subject) -> bool:
        return False


def test_the_url_opens_it(cluster: Server, client: Any) -> None:
    write(client, "by-url", DOCUMENTS[:5])
    engine = connect(f"opensearch+{cluster.url}/by-url#body")
    assert engine.collection().documents == 5  # one of them is deleted
    assert engine.search("everywhere", 10)
    assert engine.text("doc0") == dict(DOCUMENTS)["doc0"]
    assert engine.text("doc1") is not None


def test_statistics_need_no_query_before(client: Any) -> None:
    write(client, "fresh", DOCUMENTS, settings=ENGLISH)
    engine = from_client(client, "fresh", "body")
    assert engine.collection().documents > 70  # the English analyzer knows no term in "a"
    assert engine.doc_freqs(["config"])[0] > 0
    client.indices.delete(index="empty", ignore_unavailable=True)
    client.indices.create(index="empty", body={"mappings": {"properties": {"body": {"type": "text"}}}})
    empty = from_client(client, "empty", "body")
    assert empty.collection() == (0, 0, 0.0)
    assert empty.search("anything") == []


def test_an_alias_and_a_pattern_of_indices(client: Any) -> None:
    write(client, "part-1", DOCUMENTS[:20])
    write(client, "part-2", DOCUMENTS[20:])
    client.indices.update_aliases(body={"actions": [{"add": {"index": "part-*", "alias": "both"}}]})
    for name in ("both", "part-*", "part-1,part-2"):
        engine = from_client(client, name, "body")
        hits = engine.search("read the config file", 5)
        answer = client.search(
            index=name,
            body={"query": {"match": {"body": "read the config file"}}, "size": 5, "_source": False},
            params={"search_type": "dfs_query_then_fetch"},
        )
        plain = engine.search("read the config file", 5, q=1, a=1)
        assert [hit.id for hit in plain] == [f"{hit['_index']}/{hit['_id']}" for hit in answer["hits"]["hits"]]
        assert [hit.score for hit in plain] == pytest.approx(
            [hit["_score"] for hit in answer["hits"]["hits"]], rel=1e-6
        )
        assert engine.explain("read the config file", hits[0].id).score == pytest.approx(hits[0].score, rel=1e-5)


def test_a_filter_adds_nothing_to_a_score(client: Any) -> None:
    write(client, "filtered", DOCUMENTS)
    engine = from_client(client, "filtered", "body")
    everything = {hit.id: hit.score for hit in engine.search("config file", 100)}
    hits = engine.search("config file", 100, filter={"ids": {"values": ["doc1", "doc2", "doc5"]}})
    assert {hit.id: hit.score for hit in hits} == {
        id: score for id, score in everything.items() if id in ("doc1", "doc2", "doc5")
    }


def test_the_analyzer_is_the_mappings_search_analyzer(client: Any) -> None:
    field = {"type": "text", "analyzer": "english", "search_analyzer": "whitespace"}
    write(client, "two-analyzers", DOCUMENTS[:5], field=field)
    assert [t.term for t in from_client(client, "two-analyzers", "body").analyze("Running files")] == [
        "Running",
        "files",
    ]
    english = from_client(client, "two-analyzers", "body", analyzer="english")
    assert [t.term for t in english.analyze("Running files")] == ["run", "file"]


FIELDS = {
    "body": {"type": "text", "fields": {"code": {"type": "text", "analyzer": "whitespace"}}},
    "meta": {"properties": {"note": {"type": "text"}}},
    "name": {"type": "keyword", "fields": {"words": {"type": "text"}}},
    "alias": {"type": "alias", "path": "meta.note"},
    "parts": {"type": "nested", "properties": {"text": {"type": "text"}}},
}


def fill(client: Any, index: str, properties: Any, sources: list[Any], **settings: Any) -> None:
    client.indices.delete(index=index, ignore_unavailable=True)
    own = {"number_of_shards": 2, "number_of_replicas": 0, **settings}
    client.indices.create(index=index, body={"settings": own, "mappings": {"properties": properties}})
    client.bulk(body=[line for one in sources for line in ({"index": {"_index": index}}, one)], refresh="true")


@pytest.mark.parametrize(
    ("field", "terms"),
    [
        ("body.code", ["getUser", "of", "us"]),
        ("meta.note", ["getuser", "of", "us"]),
        ("alias", ["getuser", "of", "us"]),
        ("name.words", ["getuser", "of", "us"]),
    ],
)
def test_fields_of_fields(client: Any, field: str, terms: list[str]) -> None:
    text = "getUser of us"
    sources = [{"body": text, "meta": {"note": text}, "name": text}, {"body": "us", "meta": {"note": "us"}}] * 4
    fill(client, "fields", FIELDS, sources)
    engine = from_client(client, "fields", field)
    assert [token.term for token in engine.analyze(text)] == terms
    assert engine.doc_freqs(terms)[:2] == [4, 4]
    hit = engine.search(text, 1)[0]
    assert engine.text(hit.id) == text
    assert engine.explain(text, hit.id).score == pytest.approx(hit.score, rel=1e-5)


def test_a_nested_field_is_refused(client: Any) -> None:
    fill(client, "fields", FIELDS, [{"body": "a"}])
    with pytest.raises(EngineError, match="is nested"):
        from_client(client, "fields", "parts.text")


def test_a_data_stream(client: Any) -> None:
    template = {
        "index_patterns": ["stream-*"],
        "data_stream": {},
        "template": {
            "settings": {"number_of_shards": 2, "number_of_replicas": 0},
            "mappings": {"properties": {"body": {"type": "text"}}},
        },
    }
    client.indices.put_index_template(name="streams", body=template)
    client.indices.delete_data_stream(name="stream-*")
    for part in (DOCUMENTS[:40], DOCUMENTS[40:]):
        lines: list[Any] = []
        for _, text in part:
            lines += [{"create": {}}, {"body": text, "@timestamp": "2026-01-01T00:00:00Z"}]
        client.bulk(body=lines, index="stream-1", refresh="true")
        client.indices.rollover(alias="stream-1")
    engine = from_client(client, "stream-1", "body")
    assert engine.collection().documents == sum(any(map(str.isalnum, text)) for _, text in DOCUMENTS)
    query = "read the config file"
    answer = client.search(
        index="stream-1",
        body={"query": {"match": {"body": query}}, "size": 5, "_source": False},
        params={"search_type": "dfs_query_then_fetch"},
    )
    assert [hit.score for hit in engine.search(query, 5, q=1, a=1)] == pytest.approx(
        [hit["_score"] for hit in answer["hits"]["hits"]], rel=1e-6
    )


def test_an_index_without_the_field_stays_without(client: Any) -> None:
    """A document with a field that is not mapped would map it, also one that does not exist."""
    fill(client, "mixed-1", {"body": {"type": "text"}}, [{"body": "a b"}, {"body": "b"}])
    fill(client, "mixed-2", {"other": {"type": "text"}}, [{"other": "a b"}])
    engine = from_client(client, "mixed-*", "body")
    assert engine.doc_freqs(["a", "b"]) == [1, 2]
    assert engine.collection().documents == 2
    assert "body" not in client.indices.get_mapping(index="mixed-2")["mixed-2"]["mappings"]["properties"]


@pytest.mark.parametrize(
    ("own", "settings"),
    [
        ({"type": "text", "analyzer": "english"}, {}),
        ({"type": "text"}, {"similarity.default": {"type": "BM25", "k1": 2}}),
    ],
)
def test_indices_that_disagree_are_refused(client: Any, own: Any, settings: Any) -> None:
    fill(client, "apart-1", {"body": {"type": "text"}}, [{"body": "a"}])
    fill(client, "apart-2", {"body": own}, [{"body": "a"}], **settings)
    with pytest.raises(EngineError, match="in different ways"):
        from_client(client, "apart-*", "body")


def test_the_similarity_called_bm25_is_not_the_default_one(client: Any) -> None:
    properties = {"body": {"type": "text", "similarity": "BM25"}, "flat": {"type": "text"}}
    fill(
        client,
        "named",
        properties,
        [{"body": "a b", "flat": "a"}, {"body": "b"}],
        **{"similarity.default.type": "boolean"},
    )
    assert from_client(client, "named", "body").search("a", 1)
    with pytest.raises(EngineError, match="scored by boolean"):
        from_client(client, "named", "flat")


def test_too_many_terms_lose_the_lightest(client: Any) -> None:
    write(client, "wide", DOCUMENTS)
    engine = from_client(client, "wide", "body", max_clauses=3)
    with pytest.warns(EngineWarning, match="the lightest are left out"):
        hits = engine.search("only7 only8 only9 everywhere", 50)
    assert {hit.id for hit in hits} == {"doc7", "doc8", "doc9"}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "text", "norms": False}, "norms off"),
        ({"type": "text", "index_options": "docs"}, "counts no terms"),
        ({"type": "text", "index": False}, "not indexed"),
        ({"type": "keyword"}, "of type keyword"),
        ({"type": "text", "similarity": "boolean"}, "not BM25"),
    ],
)
def test_fields_that_bm25_can_not_work_on(client: Any, field: Any, message: str) -> None:
    client.indices.delete(index="unable", ignore_unavailable=True)
    client.indices.create(index="unable", body={"mappings": {"properties": {"body": field}}})
    with pytest.raises(EngineError, match=message):
        from_client(client, "unable", "body")


@pytest.mark.parametrize(
    ("url", "message"),
    [("/nowhere#body", "no such index"), ("/by-url#nope", "does not exist"), ("/by-url#other", "of type keyword")],
)
def test_what_is_not_there(cluster: Server, client: Any, url: str, message: str) -> None:
    write(client, "by-url", DOCUMENTS[:5])
    with pytest.raises(EngineError, match=message):
        connect(f"opensearch+{cluster.url}{url}")


def test_a_server_that_is_away() -> None:
    with pytest.raises(EngineError, match="does not answer"):
        connect("opensearch+http://127.0.0.1:9/index#body?timeout=1")


class Refusing(BaseHTTPRequestHandler):
    """A server that knows one user, who may not read mappings: the cluster of the tests has no users."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == "Basic " + b64encode(b"me:pass:word").decode()
        allowed = known and self.path == "/"
        body = {"version": {"number": "2.19.6"}} if allowed else {"error": {"reason": "no permissions", "type": "x"}}
        data = json.dumps(body).encode()
        self.send_response(200 if allowed else 403 if known else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("", "refuses, no such user or password"),
        ("me:wrong@", "refuses, no such user or password"),
        ("me:pass%3Aword@", "lacks a privilege: view_index_metadata"),
    ],
)
@pytest.mark.parametrize("by", ["url", "environment"])
def test_a_server_that_refuses(user: str, message: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if by == "environment" and user:
        name, _, password = user.removesuffix("@").partition(":")
        monkeypatch.setenv("QIDF_USER", name)
        monkeypatch.setenv("QIDF_PASSWORD", password.replace("%3A", ":"))
        user = ""
    try:
        with pytest.raises(EngineError, match=message) as raised:
            connect(f"opensearch+http://{user.replace('%', '%25')}127.0.0.1:{server.server_port}/index#body")
    finally:
        server.shutdown()
        server.server_close()
    assert "pass" not in str(raised.value).replace("password", "")


def test_without_dfs_the_scores_are_near(client: Any) -> None:
    write(client, "near", DOCUMENTS)
    exact, near = (from_client(client, "near", "body", exact=exact) for exact in (True, False))
    assert isinstance(near, Cluster)
    for one, two in zip(exact.search("read the config file", 5), near.search("read the config file", 5), strict=True):
        assert one.score == pytest.approx(two.score, rel=0.5)


def test_an_index_that_spreads_a_routing_value_is_counted(client: Any) -> None:
    """A routing value leads to two of its three shards, so that no artificial document stands for just one."""
    index = "spread"
    client.indices.delete(index=index, ignore_unavailable=True)
    settings = {
        "number_of_shards": 3,
        "number_of_replicas": 0,
        "number_of_routing_shards": 3,
        "routing_partition_size": 2,
    }
    mappings = {"_routing": {"required": True}, "properties": {"body": {"type": "text"}}}
    client.indices.create(index=index, body={"settings": settings, "mappings": mappings})
    lines: list[Any] = []
    for id, text in DOCUMENTS:
        if any(map(str.isalnum, text)):  # one without a token counts in N here, and not in the engine's own
            lines += [{"index": {"_index": index, "_id": id, "routing": id}}, {"body": text}]
    client.bulk(body=lines, refresh="true")
    query = "read the config file"
    engine = from_client(client, index, "body")
    assert engine.collection().tokens is None
    assert engine.doc_freqs(["config", "file", "nowhere"]) == [
        client.count(index=index, body={"query": {"term": {"body": term}}})["count"]
        for term in ("config", "file", "nowhere")
    ]
    answer = client.search(
        index=index,
        body={"query": {"match": {"body": query}}, "size": 10, "_source": False},
        params={"search_type": "dfs_query_then_fetch"},
    )
    hits = engine.search(query, 10, q=1, a=1)
    assert [hit.score for hit in hits] == pytest.approx([hit["_score"] for hit in answer["hits"]["hits"]], rel=1e-6)
    best = engine.search(query, 1)[0]
    assert engine.explain(query, best.id).score == pytest.approx(best.score, rel=1e-5)


@pytest.mark.parametrize("refused", ["_mtermvectors", "_search_shards"])
def test_where_term_vectors_are_refused_hits_are_counted(cluster: Server, client: Any, refused: str) -> None:
    write(client, "counted", DOCUMENTS)
    whole = [document for document in DOCUMENTS if document[0] not in DELETED]
    write(client, "undeleted", whole)
    with between(cluster.url) as middle:
        middle.status = lambda seen: 403 if refused in seen.path else 0
        through = opensearchpy.OpenSearch(middle.url, timeout=30, max_retries=0)
        engine = from_client(through, "counted", "body")
        hits = engine.search("read the config file", 10)
        expected = from_client(client, "undeleted", "body")
        assert engine.doc_freqs(["config", "the"]) == expected.doc_freqs(["config", "the"])
        assert [hit.id for hit in hits[:3]] == [hit.id for hit in expected.search("read the config file", 3)]
        through.close()


def test_without_any_statistics_the_plain_query_runs(cluster: Server, client: Any) -> None:
    write(client, "counted", DOCUMENTS)
    answer = client.search(
        index="counted",
        body={"query": {"match": {"body": "read the config file"}}, "size": 10, "_source": False},
        params={"search_type": "dfs_query_then_fetch"},
    )
    with between(cluster.url) as middle:
        through = opensearchpy.OpenSearch(middle.url, timeout=30, max_retries=0)
        engine = from_client(through, "counted", "body")
        middle.status = lambda seen: 500 if "_mtermvectors" in seen.path else 0
        with pytest.warns(EngineWarning, match="plain BM25, for the statistics can't be had"):
            hits = engine.search("read the config file", 10)
        assert [(hit.id, hit.score) for hit in hits] == [(one["_id"], one["_score"]) for one in answer["hits"]["hits"]]
        with pytest.warns(EngineWarning):
            (hit,) = engine.search("read the config file", 10, filter={"ids": {"values": [hits[3].id]}})
        assert (hit.id, hit.score) == (hits[3].id, hits[3].score)
        with pytest.raises(EngineError, match=r"can't be asked \(500\)"):
            engine.search("read the config file", q="hapax")
        middle.status = lambda seen: -1
        with pytest.raises(EngineError, match="does not answer"):
            engine.search("read the config file")
        through.close()


def test_a_red_index_says_so(client: Any) -> None:
    """No node has this name, so no shard of the index ever starts."""
    client.indices.delete(index="red", ignore_unavailable=True)
    client.indices.create(
        index="red",
        body={
            "settings": {"index.routing.allocation.require._name": "nobody"},
            "mappings": {"properties": {"body": {"type": "text"}}},
        },
        params={"wait_for_active_shards": "0"},
    )
    try:
        with pytest.raises(EngineError, match="all shards failed"):
            from_client(client, "red", "body").search("anything")
    finally:
        client.indices.delete(index="red")


@pytest.mark.parametrize("status", [429, 502, 503, 504, -1])
def test_a_server_that_is_busy_is_asked_again_after_a_while(
    cluster: Server,
    client: Any,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(client, "by-url", DOCUMENTS[:5])
    monkeypatch.setattr("qidf.engines.cluster.PAUSES", (0.01, 0.02, 0.04))
    with between(cluster.url) as middle:
        engine = connect(f"opensearch+{middle.url}/by-url#body")
        busy = iter([status, status, status, 0])
        middle.status = lambda seen: next(busy) if "_mtermvectors" in seen.path else 0
        begin = time.monotonic()
        assert engine.search("everywhere", 10)
        assert time.monotonic() - begin > 0.5 * (0.01 + 0.02 + 0.04)
        assert next(busy, None) is None, "asked four times"
        middle.seen.clear()
        middle.status = lambda seen: status
        with pytest.raises(EngineError, match="does not answer" if status < 0 else f"can't be asked \\({status}\\)"):
            engine.search("config", 10)
        assert len(middle.seen) == 8, "four times for the statistics, four times for the plain query"


def test_what_a_server_refuses_is_not_asked_again(cluster: Server, client: Any) -> None:
    write(client, "by-url", DOCUMENTS[:5])
    with between(cluster.url) as middle:
        middle.status = lambda seen: 400 if "_mapping" in seen.path else 0
        with pytest.raises(EngineError, match="can't be asked \\(400\\)"):
            connect(f"opensearch+{middle.url}/by-url#body")
        assert sum("_mapping" in seen.path for seen in middle.seen) == 1


def test_a_certificate_is_verified_unless_you_say_so(cluster: Server, client: Any, tmp_path: Path) -> None:
    write(client, "by-url", DOCUMENTS[:5])
    made = certificate(tmp_path)
    with between(cluster.url, made) as middle:
        url = f"opensearch+{middle.url}/by-url#body"
        with pytest.raises(EngineError, match="nobody vouches for"):
            connect(url)
        assert middle.seen == [], "nothing was told to a server that nobody vouches for"
        for trusting in (f"ca={made.file}", "verify=false"):
            assert connect(f"{url}?{trusting}").search("everywhere", 10)


def test_requests_signed_for_aws(cluster: Server, client: Any) -> None:
    """The client signs what it sends, statistics and rewritten bodies too; a server would check it against the body."""
    credentials = load("opensearch", "botocore.credentials").Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG")
    write(client, "by-url", DOCUMENTS[:5])
    with between(cluster.url) as middle:
        signer = opensearchpy.Urllib3AWSV4SignerAuth(credentials, "eu-central-1")
        signing = opensearchpy.OpenSearch(middle.url, http_auth=signer, timeout=30)
        assert from_client(signing, "by-url", "body").search("everywhere config", 10)
        wrap(signing).search(index="by-url", body={"query": {"match": {"body": "everywhere config"}}})
        signing.close()
        assert b'"boost"' in middle.seen[-1].body
        for seen in middle.seen:
            assert (seen.header("authorization") or "").startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), seen
            assert seen.header("x-amz-content-sha256") == sha256(seen.body).hexdigest()


def test_an_alias_with_a_routing_value_has_the_statistics_of_its_shards(client: Any) -> None:
    fill(client, "tenants", {"body": {"type": "text"}}, [{"other": 1}], number_of_shards=3)
    lines: list[Any] = []
    for i, (_, text) in enumerate(DOCUMENTS[:60]):
        lines += [{"index": {"_index": "tenants", "routing": str(i % 5)}}, {"body": text}]
    client.bulk(body=lines, refresh="true")
    actions = [{"add": {"index": "tenants", "alias": f"tenant-{i}", "routing": str(i)}} for i in range(5)]
    client.indices.update_aliases(body={"actions": actions})
    query = "read the config file"
    shards = set()
    for i in range(5):
        (copies,) = client.search_shards(index=f"tenant-{i}")["shards"]
        shards.add(copies[0]["shard"])
        engine = from_client(client, f"tenant-{i}", "body")
        answer = client.search(
            index=f"tenant-{i}", body={"query": {"match": {"body": query}}, "explain": True, "size": 5}
        )["hits"]["hits"]
        told = json.dumps(answer[0]["_explanation"])
        documents = engine.collection().documents
        assert f'"value": {documents}, "description": "N, total number' in told
        for term, n in zip(("config", "file"), engine.doc_freqs(["config", "file"]), strict=True):
            if f"body:{term} in" in told:
                assert f'"value": {n}, "description": "n, number' in told
        hits = engine.search(query, 5, q=1, a=1)
        assert [hit.score for hit in hits] == pytest.approx([one["_score"] for one in answer], rel=1e-6)
    assert len(shards) > 1


def test_plain_words_find_a_function_that_the_index_glued(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All texts are read through points in time, in pages that begin where the last ended, though one expires."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = [(f"f{i}", f"func readTable{i}(w Writer) {{ return row{i} }}") for i in range(25)]
    write(client, "glued", [*texts, ("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack(w) }")])
    engine = from_client(client, "glued", "body", url="opensearch+http://here/glued#body")
    assert sorted(engine.texts()) == sorted(
        text for _, text in [*texts, ("", "func handleWebSocketUpgrade(w Writer) { hijack(w) }")]
    )
    pages = engine.read(size=7)
    found = next(pages)[0]
    client.transport.perform_request("DELETE", "/_search/point_in_time/_all")
    for page, _ in pages:
        found += page
    assert sorted(found) == sorted(engine.texts())

    question = "upgrade of a web socket"
    assert engine.search(question) == []
    built = build(engine)
    assert built.dictionary.about.read == 26
    assert [hit.id for hit in engine.search(question)] == ["upgrade.go"]
    assert engine.search(question, filter={"ids": {"values": ["f1"]}}) == []
    assert engine.search(question, expand="off") == []
    client.indices.delete(index="glued")


def test_a_build_goes_on_where_it_was_interrupted(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And a later one reads what was written since; an index that was made anew is read from its begin."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(building, "_BETWEEN", 1)
    texts = [(f"f{i}", f"func readTable{i}(w Writer) {{ return row{i} }}") for i in range(40)]
    write(client, "kept", texts)
    engine = from_client(client, "kept", "body", url="opensearch+http://here/kept#body")
    read = engine.read

    def interrupted(place: Any = None) -> Iterator[Any]:
        yield from islice(read(place, 6), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "read", interrupted)
    for before in (18, 36):
        with pytest.raises(KeyboardInterrupt):
            build(engine)
        assert engine.dictionary is None
        monkeypatch.setattr(engine, "read", interrupted if before == 18 else read)
    built = build(engine)
    assert (built.dictionary.about.read, len(built.dictionary)) == (40, 80)
    assert built.note.startswith("went on after 3")
    client.index(index="kept", id="more", body={"body": "func writeTable(w) {}"}, params={"refresh": "true"})
    client.index(index="kept", id="f1", body={"body": "func readTable1(w) {}"}, params={"refresh": "true"})
    again = build(engine)
    assert (again.dictionary.about.read, len(again.dictionary)) == (42, 81)
    assert again.note.startswith("went on after 40 documents")
    part = build(engine, most=7)  # which is no beginning to go on from, and leaves the other
    assert (part.dictionary.about.read, part.note) == (7, "")
    assert build(engine).note.startswith("went on after 42 documents")
    assert build(engine, fresh=True).dictionary.about.read == 41

    client.indices.delete(index="kept")
    write(client, "kept", texts[:5])
    anew = build(from_client(client, "kept", "body", url="opensearch+http://here/kept#body"))
    assert (anew.dictionary.about.read, anew.note) == (5, "")
    client.indices.delete(index="kept")


def test_what_shows_late_is_read_later(client: Any) -> None:
    """A copy of a shard may show a sequence number before a lower one: a hole below the last is looked into again."""
    write(client, "late", [(f"f{i}", f"text{i}") for i in range(30)])
    engine = from_client(client, "late", "body")
    pages = list(engine.read())
    whole = pages[-1][1]
    ((key, shards),) = whole.items()
    assert all(len(ranges) <= 2 for ranges in shards.values())
    number, ranges = next((number, ranges) for number, ranges in shards.items() if ranges[-1][1] >= 3)
    last = ranges[-1][1]
    holed = {key: {**shards, number: [[0, last - 2], [last, last]]}}
    found = [text for texts, _ in engine.read(holed) for text in texts]
    assert len(found) == 1
    assert list(engine.read(holed))[-1][1][key][number] == [[0, last]]
    assert [text for texts, _ in engine.read(whole) for text in texts] == []
    for odd in (5, {"late": 3}, {key: {"0": [1]}}, {key: {"0": "x"}}, [1]):
        assert not engine.can_resume(odd)
    assert engine.can_resume(whole)
    client.indices.delete(index="late")


def test_an_analyzer_that_takes_so_many_tokens_is_asked_about_the_rest(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    few = {"type": "custom", "tokenizer": "standard", "filter": ["lowercase", "few"]}
    analysis = {"analyzer": {"few": few}, "filter": {"few": {"type": "limit", "max_token_count": 20}}}
    fields = {"body": {"type": "text", "analyzer": "few"}, "text": {"type": "alias", "path": "body"}}
    client.indices.create(
        index="limited", body={"settings": {"analysis": analysis}, "mappings": {"properties": fields}}
    )
    for i in range(12):
        client.index(index="limited", id=str(i), body={"body": " ".join(f"get{c}Table" for c in LETTERS[i:])})
    client.indices.refresh(index="limited")
    engine = from_client(client, "limited", "text", url="opensearch+http://here/limited#text")
    assert len(build(engine).dictionary) == len(LETTERS)
    assert path_of(engine) == path_of(from_client(client, "limited", "body", url="opensearch+http://here/limited#body"))
    client.indices.delete(index="limited")


def test_a_point_in_time_that_is_refused_again_is_an_error(client: Any) -> None:
    write(client, "refused", DOCUMENTS[:5])
    engine = from_client(client, "refused", "body")
    asked: list[str] = []
    request = engine._request

    def refuse(method: str, path: str, params: Any = None, body: Any = None) -> Any:
        asked.append(f"{method} {path}")
        if path == "/_search" and method == "POST":
            raise RefusedError("no such thing")
        return request(method, path, params, body)

    engine._request = refuse
    with pytest.raises(EngineError, match="no such thing"):
        next(engine.read())
    assert asked[-1].startswith("DELETE")
    client.indices.delete(index="refused")
