"""The hapax density of a real index from a sample, against the one counted over all of its documents."""

from __future__ import annotations

import statistics
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qidf.analysis import get
from qidf.cluster import sampling
from qidf.cluster.sampling import Counted, bootstrap, draw, estimate, hapax_density
from qidf.engines.cluster import Cluster
from qidf.engines.opensearch import from_client
from qidf.errors import EngineError
from tests.cluster.between import between
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

LIBRARY = "sampled-library"


class Exact(NamedTuple):
    """What is counted over all documents."""

    h: float
    hapaxes: int
    tokens: int


def texts() -> dict[str, str]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in folder.glob("*.py") if 300 < path.stat().st_size < 20_000)
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in files}


def counted(documents: list[str]) -> Exact:
    found = [Counter(token.term for token in get("standard").analyze(text)) for text in documents]
    dfs = Counter(term for one in found for term in one)
    tokens = sum(one.total() for one in found)
    hapaxes = sum(df == 1 for df in dfs.values())
    return Exact(hapaxes / tokens, hapaxes, tokens)


def make(client: Any, index: str, shards: int = 3, **mapping: Any) -> None:
    client.indices.delete(index=index, ignore_unavailable=True)
    client.indices.create(
        index=index,
        body={
            "settings": {"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": -1},
            "mappings": {"properties": {"body": {"type": "text"}, "other": {"type": "text"}}} | mapping,
        },
    )


def fill(client: Any, index: str, documents: dict[str, str], *, routed: bool = False) -> None:
    lines: list[Any] = []
    for number, (id, text) in enumerate(documents.items()):
        own = {"routing": f"own {number}"} if routed and number % 3 == 0 else {}
        lines += [{"index": {"_index": index, "_id": id, **own}}, {"body": text}]
    assert not client.bulk(body=lines, refresh="true")["errors"]


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    yield made
    made.indices.delete(index="sampled-*")
    made.close()


@pytest.fixture(scope="module")
def library(client: Any) -> Cluster:
    """Python's own modules over three shards, each third one under a routing of its own."""
    make(client, LIBRARY)
    fill(client, LIBRARY, texts(), routed=True)
    client.index(index=LIBRARY, id="without", body={"other": "no document with the field"}, refresh=True)
    return from_client(client, LIBRARY, "body")


@pytest.fixture(scope="module")
def exact() -> Exact:
    return counted(list(texts().values()))


def test_all_documents_give_the_exact_density(library: Cluster, exact: Exact) -> None:
    found = hapax_density(library, sample=2000)
    assert found.h == pytest.approx(exact.h, rel=1e-12)
    assert (found.low, found.high) == (found.h, found.h)
    assert (found.hapaxes, found.tokens) == (exact.hapaxes, exact.tokens)
    assert (found.documents, found.population) == (len(texts()), len(texts()))
    assert found.candidates > found.hapaxes  # a shard's own hapaxes are not all the index's
    assert (found.skipped, found.hidden) == (0, 0)


def test_samples_are_unbiased_and_their_intervals_hold_the_exact_density(library: Cluster, exact: Exact) -> None:
    found = [hapax_density(library, sample=30, seed=seed) for seed in range(40)]
    assert {one.documents for one in found} == {30}
    assert all(one.low < one.h < one.high for one in found)
    spread = statistics.stdev(one.h for one in found) / len(found) ** 0.5
    assert statistics.fmean(one.h for one in found) == pytest.approx(exact.h, abs=4 * spread)
    assert spread < 0.05 * exact.h
    assert sum(one.low <= exact.h <= one.high for one in found) >= 32


def test_each_document_is_drawn_as_often_as_any(client: Any) -> None:
    make(client, "sampled-evenly")
    fill(client, "sampled-evenly", {str(i): f"word{i} " * (1 + i * i) for i in range(30)}, routed=True)
    engine = from_client(client, "sampled-evenly", "body")
    drawn = Counter(one.id for seed in range(200) for one in draw(engine, 6, seed).documents)
    expected = 200 * 6 / 30
    assert sum((drawn[str(i)] - expected) ** 2 / expected for i in range(30)) < 62  # χ², 29 degrees, p = 0.0003


def test_a_seed_gives_the_same_sample_again(library: Cluster) -> None:
    first, again = (hapax_density(library, 20, seed=5) for _ in range(2))
    assert first._replace(requests=0) == again._replace(requests=0)  # what is known is not asked again
    assert hapax_density(library, 20, seed=5).h != hapax_density(library, 20, seed=6).h


def test_several_indices_are_one_collection(client: Any) -> None:
    documents = texts()
    names = list(documents)
    half = len(names) // 2
    for index, some in (("sampled-part-1", names[:half]), ("sampled-part-2", names[half:])):
        make(client, index, shards=1)
        fill(client, index, {name: documents[name] for name in some})
    found = hapax_density(from_client(client, "sampled-part-*", "body"), sample=2000)
    assert found.hapaxes == counted(list(documents.values())).hapaxes


def test_one_shard_needs_no_second_look(client: Any) -> None:
    make(client, "sampled-single", shards=1)
    documents = dict(list(texts().items())[:25])
    fill(client, "sampled-single", documents)
    found = hapax_density(from_client(client, "sampled-single", "body"))
    assert found.h == pytest.approx(counted(list(documents.values())).h, rel=1e-12)
    assert found.candidates == found.checked == found.hapaxes
    assert found.requests == 1 + 3 + 1  # the draw, 25 documents by ten, N


def test_of_many_candidates_a_part_is_checked(library: Cluster, exact: Exact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_CHECKED", 2000)
    found = hapax_density(library, sample=2000)
    assert found.checked == 2000 < found.candidates
    assert found.low < found.h < found.high
    assert found.h == pytest.approx(exact.h, rel=0.1)
    assert found.hapaxes == pytest.approx(exact.hapaxes, rel=0.1)


@pytest.mark.usefixtures("library")
def test_of_many_shards_fewer_terms_are_asked_at_once(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "ANSWERED_AT_ONCE", 600)
    monkeypatch.setattr(sampling, "MOST_CHECKS", 5)
    found = hapax_density(from_client(client, LIBRARY, "body"), sample=50)
    assert found.checked == 5 * 600 / 3
    assert found.requests == 1 + 5 + 1 + 5  # the draw, documents by ten, N, checks


def test_what_time_does_not_allow_is_left_out(library: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SECONDS", 0.0)
    found = hapax_density(library, sample=300)
    assert found.documents == 10
    assert found.checked == min(1000, found.candidates)
    assert found.low < found.h < found.high


def test_a_document_with_too_many_terms_is_skipped(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_TERMS", 100)
    make(client, "sampled-large")
    huge = " ".join(f"name{i}" for i in range(3000))
    fill(client, "sampled-large", {"huge": huge, "empty": ""} | {str(i): f"own{i}{' shared' * i}" for i in range(20)})
    found = hapax_density(from_client(client, "sampled-large", "body"))
    assert (found.skipped, found.documents, found.population) == (1, 21, 22)
    assert (found.hapaxes, found.tokens) == (20, 210)
    assert found.low < found.h < found.high  # what was skipped is not known: no census


def test_deleted_documents_are_told(client: Any) -> None:
    make(client, "sampled-deleted", shards=1)
    fill(client, "sampled-deleted", {str(i): f"shared own{i}" for i in range(20)})
    for i in range(5):
        client.delete(index="sampled-deleted", id=str(i))
    client.indices.refresh(index="sampled-deleted")
    found = hapax_density(from_client(client, "sampled-deleted", "body"))
    assert (found.population, found.documents) == (15, 15)
    assert found.hidden == from_client(client, "sampled-deleted", "body").collection().documents - 15


def test_stored_term_vectors_do_without_source(client: Any) -> None:
    make(client, "sampled-unsourced", _source={"enabled": False})
    fill(client, "sampled-unsourced", {str(i): f"shared own{i}" for i in range(20)})
    with pytest.raises(EngineError, match=r"no document gave its terms.*stored term vectors or of _source"):
        hapax_density(from_client(client, "sampled-unsourced", "body"))
    field = {"type": "text", "term_vector": "yes"}
    make(client, "sampled-unsourced", _source={"enabled": False}, properties={"body": field})
    fill(client, "sampled-unsourced", {str(i): f"shared own{i}" for i in range(20)})
    assert hapax_density(from_client(client, "sampled-unsourced", "body")).h == 0.5


def test_an_index_without_the_field_in_any_document(client: Any) -> None:
    make(client, "sampled-empty")
    with pytest.raises(EngineError, match="none of its documents has the field"):
        hapax_density(from_client(client, "sampled-empty", "body"))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"sample": 0}, "sample must be an integer of at least 1, got 0"),
    ({"sample": 2001}, "sample must be at most 2,000, got 2,001"),
    ({"seed": -1}, "seed must be from 0 to"),
    ({"seed": 2**31}, "seed must be from 0 to"),
])  # fmt: skip
def test_arguments(library: Cluster, arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hapax_density(library, **arguments)


def test_requests_are_counted_and_a_refusal_names_the_privilege(cluster: Server, library: Cluster) -> None:
    with between(cluster.url) as middle:
        client = opensearchpy.OpenSearch(middle.url, max_retries=0, timeout=30)
        engine = from_client(client, LIBRARY, "body")
        middle.seen.clear()
        assert hapax_density(engine, sample=50).requests == len(middle.seen)
        middle.status = lambda seen: 403 if "_mtermvectors" in seen.path else 0
        with pytest.raises(EngineError, match=r"lacks a privilege: read \(indices:data/read/mtv"):
            hapax_density(engine, sample=50)
        middle.status = lambda seen: -1
        with pytest.raises(EngineError, match="does not answer"):
            hapax_density(engine, sample=50)


def test_a_server_short_of_memory_is_asked_again(library: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_PAUSES", (0.0, 0.0))
    short = {"docs": [{"_id": "x", "error": {"type": "circuit_breaking_exception", "reason": "Data too large"}}]}
    turns = [short, short]

    def request(method: str, path: str, params: Any = None, body: Any = None) -> Any:
        return turns.pop() if turns and path == "/_mtermvectors" else library.way.request(method, path, params, body)

    way = Counted(request)
    engine, _ = sampling.counting(library)
    engine.way = engine.way._replace(request=way)
    assert estimate(library, draw(engine, 10)) == estimate(library, draw(library, 10))
    assert way.requests == 4
    turns += [short] * 3
    with pytest.raises(EngineError, match="circuit_breaking_exception: Data too large"):
        draw(engine, 10)


def test_the_bootstrap_of_a_mean_is_that_of_its_standard_error() -> None:
    values = [float(i % 10) for i in range(400)]
    low, high = bootstrap(values, [1.0] * len(values), seed=3)
    error = statistics.pstdev(values) / len(values) ** 0.5
    assert low == pytest.approx(4.5 - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(4.5 + 1.96 * error, abs=0.15 * error)
    assert bootstrap([3.0], [6.0]) == (0.5, 0.5)
