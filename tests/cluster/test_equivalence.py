"""Rewritten bodies on a real server: they find what the originals find, and rank by the formula."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qidf.cluster.rewriter import Outcome, Rewriter, Search
from qidf.cluster.steps import Asked, carry_out
from qidf.engines.opensearch import from_client
from qidf.weighting import Scheme
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

ANALYSIS = {
    "filter": {
        "same": {"type": "synonym", "synonyms": ["config, settings", "file => document, file"]},
        "graph": {"type": "synonym_graph", "synonyms": ["db, data base"]},
        "parts": {"type": "word_delimiter_graph", "preserve_original": True},
    },
    "analyzer": {
        "synonyms": {"tokenizer": "standard", "filter": ["lowercase", "same"]},
        "graphs": {"tokenizer": "standard", "filter": ["lowercase", "graph"]},
        "code": {"tokenizer": "whitespace", "filter": ["parts", "lowercase", "flatten_graph"]},
    },
}
BODY = {
    "type": "text",
    "fields": {
        "english": {"type": "text", "analyzer": "english"},
        "synonyms": {"type": "text", "search_analyzer": "synonyms", "analyzer": "standard"},
        "graphs": {"type": "text", "search_analyzer": "graphs", "analyzer": "standard"},
        "code": {"type": "text", "analyzer": "code"},
        "raw": {"type": "keyword", "ignore_above": 50},
    },
}
FIELDS = ["body", "title", "body.english", "body.synonyms", "body.graphs", "body.code"]
WORDS = [
    *("read the config file", "settings", "db", "data", "base", "the", "of", "getUser", "parse_config", "Config.load"),
    *("everywhere", "only7", "only8", "nowhere", "document", "HTTPServer2", "running", "files", "file", "öffnen", "𝒳"),
]
NEARLY = 1 + 1e-6
"""A q so near 1 that a body is rewritten and its scores stay."""


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    made.indices.delete(index="rewritten", ignore_unavailable=True)
    made.indices.create(
        index="rewritten",
        body={
            "settings": {"number_of_shards": 2, "number_of_replicas": 0, "analysis": ANALYSIS},
            "mappings": {"properties": {"body": BODY, "title": {"type": "text"}, "size": {"type": "integer"}}},
        },
    )
    lines: list[Any] = []
    for i, (id, text) in enumerate(DOCUMENTS):
        lines += [{"index": {"_index": "rewritten", "_id": id}}, {"body": text, "title": text[:20], "size": i}]
    made.bulk(body=lines, refresh="true")
    yield made
    made.close()


def rewritten(client: Any, body: Any, **options: Any) -> Outcome:
    def send(asked: Asked) -> Any:
        return client.transport.perform_request(asked.method, asked.path, params=asked.params, body=asked.body)

    before = copy.deepcopy(body)
    (outcome,) = carry_out(Rewriter(**options).steps([Search("rewritten", body)]), send)
    assert body == before
    assert not outcome.error
    return outcome


def found(client: Any, body: Any) -> Any:
    return client.search(index="rewritten", body=body, params={"search_type": "dfs_query_then_fetch"})


def scores(answer: Any) -> dict[str, float]:
    return {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}


# Bodies

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
least = st.sampled_from(["1", "2", 2, "-1", "75%", "-25%", "2<50%", "1<-1 4<60%"])


def options(*optional: tuple[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"query": texts}, optional=dict(optional))


COMMON = [
    ("operator", st.sampled_from(["or", "and", "AND"])),
    ("minimum_should_match", least),
    ("boost", st.sampled_from([0.5, 2, 3.0])),
    ("zero_terms_query", st.sampled_from(["none", "all"])),
    ("auto_generate_synonyms_phrase_query", st.booleans()),
]
analyzers = st.sampled_from(["standard", "english", "synonyms", "simple"])
matches = st.builds(
    lambda field, own: {"match": {field: own}}, st.sampled_from(FIELDS), options(*COMMON, ("analyzer", analyzers))
)
named = st.builds(lambda field, boost: f"{field}{boost}", st.sampled_from(FIELDS), st.sampled_from(["", "^2", "^0.5"]))
multi_matches = st.builds(
    lambda own, fields: {"multi_match": {**own, "fields": fields}},
    options(
        *COMMON,
        ("type", st.sampled_from(["best_fields", "most_fields"])),
        ("tie_breaker", st.sampled_from([0.0, 0.3, 1.0])),
    ),
    st.lists(named, min_size=1, max_size=3, unique_by=lambda name: name.partition("^")[0]),
)
others = st.sampled_from(
    [
        {"term": {"body": {"value": "config"}}},
        {"range": {"size": {"gte": 20}}},
        {"match_phrase": {"body": "config file"}},
        {"match": {"body": {"query": "confg file", "fuzziness": "AUTO"}}},
        {"multi_match": {"query": "config file", "fields": ["body", "title"], "type": "cross_fields"}},
        {"query_string": {"query": "body:config AND file"}},
        {"constant_score": {"filter": {"match": {"body": "config file"}}, "boost": 0.5}},
        {"match_all": {}},
    ]
)


def around(queries: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(queries, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"bool": st.dictionaries(st.sampled_from(["must", "should", "filter", "must_not"]), several, min_size=1)}
        ),
        st.builds(lambda many, tie: {"dis_max": {"queries": many, "tie_breaker": tie}}, several, st.floats(0, 1)),
        st.builds(lambda one: {"function_score": {"query": one, "weight": 2}}, queries),
        st.builds(lambda a, b: {"boosting": {"positive": a, "negative": b, "negative_boost": 0.5}}, queries, queries),
    )


queries = st.recursive(st.one_of(matches, multi_matches, others), around, max_leaves=6)
slow = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@slow
@given(queries)
def test_nearly_plain_weights_change_no_hit_and_no_score(client: Any, query: Any) -> None:
    body = {"query": query, "size": 100, "_source": False}
    outcome = rewritten(client, body, q=NEARLY, a=1)
    plain, new = found(client, body), found(client, outcome.body)
    assert new["hits"]["total"] == plain["hits"]["total"]
    if "cross_fields" not in str(query):  # whose df a term beside it gets, or not, as the hash of a boost falls
        assert scores(new) == pytest.approx(scores(plain), rel=1e-4), outcome.body


@slow
@given(queries)
def test_weights_change_the_ranking_and_not_what_is_found(client: Any, query: Any) -> None:
    body = {"query": query, "size": 100, "_source": False}
    outcome = rewritten(client, body)
    plain, new = found(client, body), found(client, outcome.body)
    assert new["hits"]["total"] == plain["hits"]["total"]
    assert scores(new).keys() == scores(plain).keys()


@slow
@given(queries)
def test_bm25s_own_weights_leave_a_body_alone(client: Any, query: Any) -> None:
    body = {"query": query}
    assert rewritten(client, body, q=1, a=1).body is body


@slow
@given(texts, st.sampled_from(FIELDS[:3]), st.builds(Scheme, *[st.sampled_from([0.5, 0.8])] * 2, st.just(1.0)))
def test_the_ranking_is_that_of_the_engine(client: Any, text: str, field: str, scheme: Scheme) -> None:
    """`Cluster` runs weighted terms; its own numbers stand against a brute force in the conformance suite."""
    engine = from_client(client, "rewritten", field)
    hits = {hit.id: hit.score for hit in engine.search(text, 100)}
    outcome = rewritten(client, {"query": {"match": {field: text}}, "size": 100})
    assert scores(found(client, outcome.body)) == pytest.approx(hits, rel=1e-5)


# What else a search does

REST = {
    "highlight": {"fields": {"body": {}, "body.english": {}}},
    "aggs": {"sizes": {"histogram": {"field": "size", "interval": 10}}},
    "post_filter": {"match": {"body": "file of everywhere"}},
}
QUERY = {"match": {"body": {"query": "read the config file everywhere", "_name": "mine"}}}


def test_highlighting_aggregations_post_filter_and_names_stay(client: Any) -> None:
    body = {"query": QUERY, "size": 100, **REST}
    outcome = rewritten(client, body)
    assert outcome.changed
    plain, new = found(client, body), found(client, outcome.body)
    assert new["aggregations"] == plain["aggregations"]
    before, after = ({hit["_id"]: hit for hit in answer["hits"]["hits"]} for answer in (plain, new))
    assert before.keys() == after.keys()
    for id, hit in before.items():
        assert after[id].get("highlight") == hit.get("highlight")
        assert after[id]["matched_queries"] == hit["matched_queries"] == ["mine"]


def test_paging_sorting_explain_and_profile_go_on_working(client: Any) -> None:
    body = rewritten(client, {"query": QUERY, "size": 100}).body
    everything = [hit["_id"] for hit in found(client, body)["hits"]["hits"]]
    pages = [found(client, {**body, "from": i, "size": 7})["hits"]["hits"] for i in range(0, len(everything), 7)]
    assert [hit["_id"] for page in pages for hit in page] == everything
    order = {"sort": [{"_score": "desc"}, {"size": "asc"}]}
    sorted_hits = found(client, {**body, **order, "size": 3})["hits"]["hits"]
    after = found(client, {**body, **order, "search_after": sorted_hits[-1]["sort"], "size": 3})["hits"]["hits"]
    assert len({hit["_id"] for hit in sorted_hits + after}) == 6
    explained = found(client, {**body, "explain": True, "profile": True})
    first = explained["hits"]["hits"][0]
    assert first["_explanation"]["value"] == pytest.approx(first["_score"])
    assert explained["profile"]["shards"]


def test_rescoring_is_left_alone_unless_asked_for(client: Any) -> None:
    window = {"window_size": 50, "query": {"rescore_query": QUERY, "query_weight": 0, "rescore_query_weight": 1}}
    body = {"query": QUERY, "rescore": window, "size": 100}
    assert rewritten(client, body).body["rescore"] == window
    asked = rewritten(client, body, rescore=True).body
    assert scores(found(client, asked)) != pytest.approx(scores(found(client, body)))


def test_a_second_search_asks_nothing(client: Any) -> None:
    asked: list[Asked] = []

    def send(one: Asked) -> Any:
        asked.append(one)
        return client.transport.perform_request(one.method, one.path, params=one.params, body=one.body)

    rewriter, search = Rewriter(), Search("rewritten", {"query": QUERY})
    (first,) = carry_out(rewriter.steps([search]), send)
    number = len(asked)
    assert [one.path for one in asked].count("/_mtermvectors") == 1
    (second,) = carry_out(rewriter.steps([search]), send)
    assert first == second
    assert len(asked) == number
    other = Search("rewritten", {"query": {"multi_match": {"query": "a new text", "fields": FIELDS}}})
    carry_out(rewriter.steps([other]), send)
    assert len(asked) == number + 1


def test_only_reading_is_asked_for(client: Any) -> None:
    before = client.indices.get_mapping(index="rewritten"), client.count(index="rewritten")["count"]
    rewritten(client, {"query": {"multi_match": {"query": "a b unknown", "fields": ["body*", "title", "size"]}}})
    assert (client.indices.get_mapping(index="rewritten"), client.count(index="rewritten")["count"]) == before


def test_nothing_in_a_body_raises(client: Any) -> None:
    bodies: list[Any] = [None, [], "x", 7, {"query": 7}, {"query": {"match": None}}, {"query": {"match": {"a": []}}}]
    for body in bodies:
        assert rewritten(client, body).body is body
