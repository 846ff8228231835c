"""What the tests of engines on OpenSearch rely on: the cluster itself, asked over HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import opensearch_server
from tests.engines.opensearch_server import Server, opensearch, request

INDEX = "qidf-server-test"
TEXTS = ["the quick brown fox", "the lazy dog", "a quick dog", "parse the config file", "config config config"]
SCRIPT = "return query.boost * Math.pow(field.docCount / (term.docFreq + 0.5), 0.5) * doc.freq / (doc.freq + 1.2);"


@pytest.fixture(scope="module")
def index(cluster: Server) -> Iterator[str]:
    """Give the URL of an index of two shards and a replica of each, which is deleted in the end."""
    url = f"{cluster.url}/{INDEX}"
    settings = {
        "number_of_shards": 2,
        "number_of_replicas": 1,
        "similarity": {"q": {"type": "scripted", "script": {"source": SCRIPT}}},
    }
    properties = {
        "body": {"type": "text", "analyzer": "standard"},
        "scripted": {"type": "text", "analyzer": "english", "similarity": "q"},
    }
    request(url, {"settings": settings, "mappings": {"properties": properties}}, "PUT")
    try:
        for i, text in enumerate(TEXTS):
            request(f"{url}/_doc/{i}", {"body": text, "scripted": text}, "PUT")
        request(f"{url}/_refresh", method="POST")
        yield url
    finally:
        request(url, method="DELETE")


def found(url: str, query: object) -> list[str]:
    return [hit["_id"] for hit in request(f"{url}/_search", {"query": query}, "POST")["hits"]["hits"]]


def test_two_nodes_run_the_version(cluster: Server) -> None:
    assert request(cluster.url)["version"]["number"] == cluster.version
    assert request(f"{cluster.url}/_cluster/health")["number_of_data_nodes"] >= len(cluster.urls)
    assert all(request(url)["cluster_name"] == request(cluster.url)["cluster_name"] for url in cluster.urls)


def test_match_finds_documents(index: str) -> None:
    assert set(found(index, {"match": {"body": "quick"}})) == {"0", "2"}
    assert set(found(index, {"match": {"body": "config"}})) == {"3", "4"}


def test_both_shards_hold_documents(index: str) -> None:
    shards = request(f"{index}/_stats/docs?level=shards")["indices"][INDEX]["shards"]
    assert sorted(shards) == ["0", "1"]
    assert all(shards[one][0]["docs"]["count"] for one in shards)


def test_a_replica_is_on_another_node(cluster: Server, index: str) -> None:
    if len(cluster.urls) == 1:
        pytest.skip("QIDF_TEST_OPENSEARCH may be one node")
    health = request(f"{cluster.url}/_cluster/health/{INDEX}?wait_for_status=green&timeout=30s")
    assert health["status"] == "green"
    for copies in request(f"{index}/_search_shards")["shards"]:
        assert len({copy["node"] for copy in copies}) == 2


def test_search_shards_names_the_shards(index: str) -> None:
    assert sorted(copies[0]["shard"] for copies in request(f"{index}/_search_shards")["shards"]) == [0, 1]


def test_analyze(cluster: Server) -> None:
    tokens = request(f"{cluster.url}/_analyze", {"analyzer": "english", "text": "Parsing the files"}, "POST")["tokens"]
    assert [token["token"] for token in tokens] == ["pars", "file"]


def test_term_vectors_of_artificial_documents(index: str) -> None:
    asked = {
        "_index": INDEX,
        "doc": {"body": "quick config"},
        "fields": ["body"],
        "term_statistics": True,
        "per_field_analyzer": {"body": "whitespace"},
    }
    docs = request(f"{index}/_mtermvectors", {"docs": [asked] * 20}, "POST")["docs"]
    assert len(docs) == 20
    for doc in docs:
        terms = doc["term_vectors"]["body"]["terms"]
        assert set(terms) == {"quick", "config"}
        assert all(term.get("doc_freq", 0) <= 2 for term in terms.values())
    assert any(
        term.get("doc_freq") for doc in docs for term in doc["term_vectors"]["body"]["terms"].values()
    )  # which shard is asked is chance, so one document alone may meet a shard without the terms


def test_scripted_similarity_scores(index: str) -> None:
    query = {"match": {"scripted": "config"}}
    asked = {"query": query, "track_scores": True}
    hits = request(f"{index}/_search?search_type=dfs_query_then_fetch", asked, "POST")["hits"]["hits"]
    weight = (5 / 2.5) ** 0.5
    assert {hit["_id"]: hit["_score"] for hit in hits} == pytest.approx(
        {"3": weight * 1 / 2.2, "4": weight * 3 / 4.2}, rel=1e-5
    )


def test_a_given_cluster_is_used(cluster: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIDF_TEST_OPENSEARCH", f"{cluster.url}/")
    with opensearch() as server:
        assert server == Server(cluster.url, [cluster.url], cluster.version)
    assert request(cluster.url)["version"]["number"] == cluster.version


def test_without_java_the_tests_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QIDF_TEST_OPENSEARCH", raising=False)
    monkeypatch.delenv("QIDF_REQUIRE_ENGINES", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="Java 17 or newer"), opensearch():
        pass
    monkeypatch.setenv("QIDF_REQUIRE_ENGINES", "lucene,opensearch")
    with pytest.raises(pytest.fail.Exception, match="Java 17 or newer"), opensearch():
        pass


def test_a_failing_download_skips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QIDF_REQUIRE_ENGINES", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="Maven can't fetch OpenSearch"):
        opensearch_server.distribution(opensearch_server.Release("0.0.0", range(0), "Plugin"))
    assert not list(tmp_path.glob("opensearch-*/"))


def test_a_node_that_dies_is_told_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIDF_REQUIRE_ENGINES", "lucene,opensearch")
    (tmp_path / "node-0.log").write_text("the reason")
    node = subprocess.Popen(["true"])
    node.wait()
    with pytest.raises(pytest.fail.Exception, match="the reason"):
        opensearch_server._wait("http://127.0.0.1:9", [node], tmp_path)


def test_nothing_is_left_when_the_process_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    script = f"""
import subprocess, sys, time
from pathlib import Path
from tests.engines.opensearch_server import _watched
node = subprocess.Popen(["sleep", "600"], start_new_session=True)
with _watched(Path({str(folder)!r}), [node]):
    print(node.pid, flush=True)
    time.sleep(600)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE) as killed:
        assert killed.stdout
        node = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)
    end = time.monotonic() + 20
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not folder.exists()
    assert _gone(node)


def _gone(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip() or state.startswith("Z")
