"""Advice on real indices: its numbers against searches made one by one, its warnings where mappings need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.advice import Advice, _recommended, advise, ways
from qidf.cluster.evaluation import Choice, Evaluation, Measured
from qidf.engines import connect
from qidf.engines.cluster import Cluster
from qidf.engines.opensearch import from_client
from qidf.lab.beir import read_judgments
from tests.cluster.advised import folder, make, parsing
from tests.cluster.between import between
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

INDEX = "advised"
QUERY = "read the config file everywhere with parse_config"
BM25 = Choice("BM25", 1.0, 1.0)
AUTO = Choice("auto", "auto", None)


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    yield made
    made.indices.delete(index="advised*")
    made.close()


@pytest.fixture(scope="module")
def engine(client: Any) -> Cluster:
    return parsing(client, INDEX)


@pytest.fixture(scope="module")
def advice(engine: Cluster) -> Advice:
    return advise(engine, queries=[QUERY])


def test_examples_have_the_engines_weights_and_rankings(engine: Cluster, advice: Advice) -> None:
    assert [choice.name for choice in advice.choices] == ["BM25", "auto", "0.8", "0.6", "hapax"]
    assert advice.choices[-1].q == advice.q_hapax
    assert advice.examples[0].query == QUERY
    assert [example.made for example in advice.examples] == [False] + [True] * (len(advice.examples) - 1)
    assert len(advice.examples) > 5
    for example in advice.examples:
        terms = [row.term for row in example.terms]
        assert [row.df for row in example.terms] == engine.doc_freqs(terms)
        plain = {hit.id for hit in engine.search(example.query, 10, q=1, a=1)}
        assert example.found == len(plain)
        for i, choice in enumerate(advice.choices):
            weights = dict(engine.weights(example.query, q=choice.q, a=choice.a))
            total = sum(weights.values())
            assert {row.term: row.shares[i] for row in example.terms} == pytest.approx(
                {term: weight / total for term, weight in weights.items()}
            )
            hits = {hit.id for hit in engine.search(example.query, 10, q=choice.q, a=choice.a)}
            assert example.kept[i] == len(plain & hits)
    assert advice.kept == pytest.approx(
        [sum(one.kept[i] for one in advice.examples) / len(advice.examples) for i in range(5)]
    )
    assert advice.kept[0] > advice.kept[3]  # q = 0.6 changes something


def test_made_queries_hold_an_identifier_of_a_document_where_it_has_one(advice: Advice) -> None:
    made = [example for example in advice.examples if example.made]
    shaped = [example for example in made if any(row.shaped for row in example.terms)]
    assert len(shaped) >= 2
    assert all(2 <= len(example.query.split()) <= 6 for example in made)
    assert all(len(example.terms) >= 2 for example in made)


def test_a_query_of_unknown_words(engine: Cluster) -> None:
    (example, *_) = advise(engine, queries=["nowhere_to_be_found"]).examples
    assert (example.terms, example.found, example.kept) == ((), 0, (0,) * 5)


def test_it_only_reads_and_counts_what_it_asks(cluster: Server, engine: Cluster, client: Any) -> None:
    before = client.indices.stats(index=INDEX)["_all"]["total"]["indexing"]["index_total"]
    with between(cluster.url) as middle:
        own = from_client(opensearchpy.OpenSearch(middle.url, max_retries=0, timeout=30), INDEX, "body")
        middle.seen.clear()
        found = advise(own, queries=[QUERY], body={"query": {"match": {"body": QUERY}}})
        assert found.requests == len(middle.seen) < 100
        asked = {(one.method, one.path.split("?")[0].rpartition("/")[2]) for one in middle.seen}
    posts = {("POST", "_search"), ("POST", "_msearch"), ("POST", "_mtermvectors")}
    assert asked == posts | {("GET", "_mapping"), ("GET", "_settings"), ("GET", "_search_shards")}
    assert client.indices.stats(index=INDEX)["_all"]["total"]["indexing"]["index_total"] == before


def test_one_shard_has_the_idf_of_the_index(client: Any) -> None:
    found = advise(make(client, "advised-single", dict(DOCUMENTS), shards=1)).sharding
    assert found == (1, 0.0, 0.0, False)


def test_shards_that_differ_matter(client: Any) -> None:
    # Of both, beta is the rarer word; on its own, the second shard has it the other way round.
    for number, (alpha, beta) in enumerate(((50, 2), (10, 50))):
        words = ["alpha"] * alpha + ["beta"] * beta
        texts = {f"{number}-{i}": f"{word} filler" for i, word in enumerate(words)}
        make(client, f"advised-apart-{number}", texts, shards=1)
    found = advise(from_client(client, "advised-apart-*", "body"), queries=["alpha beta"]).sharding
    assert (found.shards, found.differ, found.matters) == (2, 8.0, True)
    assert found.idf_difference > 0.3


def test_every_index_is_told_that_scores_change(advice: Advice) -> None:
    (caution,) = advice.cautions
    assert "min_score" in caution
    assert "fusion" in caution


def test_synonyms_of_the_search_analyzer(client: Any) -> None:
    chain = {"tokenizer": "standard", "filter": ["lowercase", "brands"]}
    settings = {
        "analysis": {
            "filter": {"brands": {"type": "synonym_graph", "synonyms": ["config, read me file", "parse, read"]}},
            "analyzer": {"with_synonyms": chain},
        }
    }
    field = {"type": "text", "analyzer": "standard", "search_analyzer": "with_synonyms"}
    own = make(client, "advised-synonyms", dict(DOCUMENTS), settings=settings, properties={"body": field})
    found = advise(own, queries=["everywhere config file"])
    assert any("synonyms (brands)" in caution for caution in found.cautions)
    assert any("example queries would not be weighed in full: words that overlap" in one for one in found.cautions)
    elsewhere = make(client, "advised-unused", dict(DOCUMENTS), settings=settings)
    assert len(advise(elsewhere).cautions) == 1


def test_a_search_pipeline_and_deleted_documents(client: Any) -> None:
    settings = {"index.merge.policy.deletes_pct_allowed": 50}
    own = make(client, "advised-piped", dict(DOCUMENTS), shards=1, settings=settings)
    client.transport.perform_request("PUT", "/_search/pipeline/advised", body={"request_processors": []})
    client.indices.put_settings(index="advised-piped", body={"index.search.default_pipeline": "advised"})
    for id, _ in DOCUMENTS[:20]:
        client.delete(index="advised-piped", id=id)
    client.indices.refresh(index="advised-piped")
    found = advise(own)
    assert found.estimate.hidden == 18  # of 20 that were deleted: two of those left have no token
    assert any("through the pipeline advised" in caution for caution in found.cautions)
    assert any(caution.startswith("18 documents that can't be found still count") for caution in found.cautions)
    client.indices.put_settings(index="advised-piped", body={"index.search.default_pipeline": "_none"})
    client.transport.perform_request("DELETE", "/_search/pipeline/advised")
    assert not any("pipeline" in caution for caution in advise(own).cautions)


def test_a_search_body(engine: Cluster) -> None:
    inner = {
        "bool": {
            "must": [{"match": {"body": QUERY}}, {"match_phrase": {"body": "config file"}}],
            "should": [{"match": {"title": "config"}}, {"match": {"body": "config"}}],
        }
    }
    body = {"query": {"function_score": {"query": inner, "boost": 2}}, "min_score": 3}
    report = advise(engine, body=body).body
    assert report is not None
    assert report.rewritten == ("query.function_score.query.bool.must[0]",)
    left = {note.path.removeprefix("query.function_score.query."): note.reason for note in report.left}
    assert left == {
        "bool.must[1]": "match_phrase is left as it is",
        "bool.should[0]": "field title is not one of those to weigh",
        "bool.should[1]": "nothing to weigh: one term, or terms of equal weight",
    }
    assert [note.path for note in report.cautions] == ["min_score", "query"]
    assert report.body["min_score"] == 3
    nothing = advise(engine, body={"query": {"match_all": {}}}).body
    assert nothing is not None
    assert nothing[:3] == ((), (), ())
    with pytest.raises(ValueError, match="must be a JSON object"):
        advise(engine, body=[])


def test_without_text_queries_are_made_of_terms(client: Any) -> None:
    field = {"type": "text", "term_vector": "yes"}
    unsourced = make(
        client, "advised-unsourced", dict(DOCUMENTS), _source={"enabled": False}, properties={"body": field}
    )
    found = advise(unsourced)
    assert len(found.examples) > 5


# Judged queries


def test_judgments_decide_the_recommendation(client: Any, engine: Cluster, tmp_path: Path, advice: Advice) -> None:
    assert (advice.q, advice.evaluation) == ("auto", None)
    assert "can't see the queries" in advice.why
    words = " ".join(f"common{i}" for i in range(6))
    texts = {f"prose{i}": words for i in range(10)} | {f"name{i}": f"own_name{i} common0 filler" for i in range(10)}
    texts |= {f"other{i}": f"common{i % 6}" for i in range(10)}
    own = make(client, "advised-decided", texts, shards=1)
    queries = {f"q{i}": f"{words} own_name{i}" for i in range(10)}
    names = folder(tmp_path / "names", queries, "".join(f"q{i}\tname{i}\t1\n" for i in range(10)))
    found = advise(own, judgments=read_judgments(names))
    assert found.evaluation is not None
    assert [row.choice.name for row in found.evaluation.rows] == ["BM25", "auto", "0.6", "hapax"]
    assert (found.q, found.why[:16]) == ("auto", "Switch auto on: ")
    prose = folder(tmp_path / "prose", queries, "".join(f"q{i}\tprose{j}\t1\n" for i in range(10) for j in range(10)))
    found = advise(own, judgments=read_judgments(prose))
    assert (found.q, found.why[:14]) == (1.0, "Leave it off: ")
    same = folder(tmp_path / "same", {"q": "filler"}, "q\tname1\t1\n")
    assert "can't be told from BM25" in advise(own, judgments=read_judgments(same)).why


def test_another_q_is_recommended_where_it_alone_is_better() -> None:
    def row(choice: Choice, difference: float) -> Measured:
        return Measured(choice, 0.5, 0.5, 0.5, difference, difference - 0.01, difference + 0.01, 5, 5)

    rows = (row(BM25, 0), row(AUTO, -0.02), row(Choice("0.6", 0.6, None), 0.03), row(Choice("hapax", 0.3, None), 0.05))
    found, why = _recommended(0.3, Evaluation("beir", 100, 100, 0, 100, 0, rows))
    assert found == 0.3
    assert "q = 0.30 is better: +0.050, +0.040 to +0.060" in why


def test_the_client_that_is_printed_works(cluster: Server, engine: Cluster) -> None:
    way, *_ = ways(f"opensearch+{cluster.url}/{INDEX}#body", "opensearch", "auto")
    made: dict[str, Any] = {}
    exec("\n".join(way.lines), made)
    body = {"query": {"match": {"body": QUERY}}, "size": 5}
    hits = made["client"].search(index=INDEX, body=body, search_type="dfs_query_then_fetch")["hits"]["hits"]
    assert [hit["_score"] for hit in hits] == pytest.approx([hit.score for hit in engine.search(QUERY, 5)], rel=1e-5)
    made["client"].close()


def test_commands_that_are_printed_parse() -> None:
    import shlex

    from qidf.cli.proxy import command

    url = "opensearch+https://search.example:9200/my%23index#a.body?ca=/my own.pem&verify=false"
    _, similarity, proxy = ways(url, "opensearch", 0.6)
    words = shlex.split(similarity.lines[0])
    assert words == ["qidf", "similarity", "--engine", url, "--q", "0.6"]
    words = shlex.split(proxy.lines[0])
    assert words[:2] == ["qidf", "proxy"]
    assert words[-2:] == ["--ca", "/my own.pem"]
    context = command.make_context("proxy", words[2:-2])
    assert context.params["upstream"] == "https://search.example:9200"
    assert (context.params["fields"], context.params["q"], context.params["insecure"]) == (("a.body",), "0.6", True)


def test_an_engine_of_a_url_is_advised_as_well(cluster: Server, engine: Cluster, advice: Advice) -> None:
    opened = connect(f"opensearch+{cluster.url}/{INDEX}#body")
    assert isinstance(opened, Cluster)
    found = advise(opened, queries=[QUERY])
    assert found.estimate[:-1] == advice.estimate[:-1]  # requests come last: what is known is not asked again
    assert found.examples == advice.examples
