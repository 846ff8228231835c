"""`qidf.rewriting` against a small evaluator of the query language: the same documents, the formula's scores.

The evaluator reads a match as Lucene's QueryBuilder does and minimum_should_match as the servers document it; it shares
nothing with the module under test but `weighting.idf`.
"""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.expansion.expanding import Added
from qidf.rewriting import Note, Placed, Plan, Rewritten, Statistics, Text, analyzer_of, plan, rewrite
from qidf.weighting import Scheme, identifier_spans, idf, ln_q

PLAIN = Scheme(q_shaped=1.0, q_word=1.0, a=1.0)
AUTO = Scheme(q_shaped=0.5, q_word=0.8, a=0.5)

MAPPING = {
    "properties": {
        "title": {"type": "text"},
        "content": {
            "type": "text",
            "fields": {"code": {"type": "text", "analyzer": "mine"}, "raw": {"type": "keyword"}},
        },
        "contents": {"type": "alias", "path": "content"},
        "meta": {"properties": {"note": {"type": "text", "search_analyzer": "look", "analyzer": "mine"}}},
        "parts": {"type": "nested", "properties": {"text": {"type": "text"}}},
        "size": {"type": "long"},
        "hidden": {"type": "text", "index": False},
        "flat": {"type": "text", "similarity": "boolean"},
        "dot.ted": {"type": "text"},
    }
}

DOCUMENTS = [
    {"title": title, "content": content}
    for title, content in [
        ("a", "a a b big"),
        ("b a", "a c"),
        ("c", "b c c the d"),
        ("getUser", "a getUser d"),
        ("large", "large a"),
        ("", "the big d"),
        ("e a", "a b c d e"),
        ("a b", "a"),
        ("f", "e f a"),
    ]
]


# The engine, by hand


def analyzed(text: str) -> list[Placed]:
    """Words, without `the`; `big` has a synonym at its position, `ny` one of three words."""
    tokens: list[Placed] = []
    position = 0
    for word in re.finditer(r"\w+", text):
        term = word.group().lower()
        if term != "the":
            terms = [term, "large"] if term == "big" else [term]
            tokens += [Placed(one, position, *word.span()) for one in terms]
        if term == "ny":
            tokens += [Placed(one, position + i, *word.span()) for i, one in enumerate(("new", "york", "city"))]
            position += 2
        position += 1
    return tokens


def terms_of(document: dict[str, str], field: str) -> list[str]:
    return document.get(field, "").lower().split()


def df(term: str, field: str) -> int:
    return sum(term in terms_of(document, field) for document in DOCUMENTS)


def count(field: str) -> int:
    return sum(bool(terms_of(document, field)) for document in DOCUMENTS)


def statistics(*texts: Text) -> dict[Text, Statistics]:
    found = {}
    for text in texts:
        tokens = analyzed(text.text)
        dfs = {token.term: df(token.term, text.field) for token in tokens}
        found[text] = Statistics(tokens, dfs, count(text.field))
    return found


def least(spec: str | int, optional: int) -> int:
    """minimum_should_match as documented: an integer, a percentage, both negative, `n<spec` pairs."""
    spec = str(spec)
    if "<" in spec:
        chosen = optional
        for pair in spec.split():
            bound, rule = pair.split("<")
            if optional <= int(bound):
                return chosen
            chosen = least(rule, optional)
        return chosen
    if spec.endswith("%"):
        percent = int(spec[:-1])
        share = abs(percent) * optional // 100
        return share if percent >= 0 else optional - share
    return max(0, int(spec) if int(spec) >= 0 else optional + int(spec))


def combined(inner: dict[str, Any], must: list[float | None], should: list[float | None]) -> float | None:
    """A boolean query: what its clauses score, None where it does not match."""
    needed = least(inner["minimum_should_match"], len(should)) if "minimum_should_match" in inner else 0
    needed = needed or (0 if must else 1)
    if any(score is None for score in must) or sum(score is not None for score in should) < needed:
        return None
    return sum(score for score in must + should if score is not None) * float(inner.get("boost", 1.0))


Weigh = Callable[[str, str, tuple[str, ...], int], float]


def plain(text: str, field: str, terms: tuple[str, ...], start: int) -> float:
    """The engine's own weight of a position."""
    return idf(max(df(term, field) for term in terms), count(field))


def formula(scheme: Scheme) -> Weigh:
    """The weights that DESIGN gives: s · c^a · idf_q, shared over the c positions of a term; s keeps Σ idf."""

    def weigh(text: str, field: str, terms: tuple[str, ...], start: int) -> float:
        spans, N = identifier_spans(text), count(field)
        places = stacks(text)
        counts = Counter(terms for terms, _ in places)
        shaped = {terms for terms, at in places if any(a <= at < b for a, b in spans)}
        raw = {}
        for one, c in counts.items():
            n = max(df(term, field) for term in one)
            odds = 1 + (N - n + 0.5) / (n + 0.5)
            raw[one] = c**scheme.a * ln_q(odds, scheme.q_shaped if one in shaped else scheme.q_word) if n else 0.0
        target = sum(c * plain(text, field, one, 0) for one, c in counts.items() if raw[one])
        return target / sum(raw.values()) * raw[terms] / counts[terms] if raw[terms] else 0.0

    return weigh


def stacks(text: str) -> list[tuple[tuple[str, ...], int]]:
    by_position: dict[int, list[Placed]] = {}
    for token in analyzed(text):
        by_position.setdefault(token.position, []).append(token)
    return [(tuple(token.term for token in stack), stack[0].start) for stack in by_position.values()]


def part(document: dict[str, str], field: str, terms: tuple[str, ...]) -> float:
    tf = sum(terms_of(document, field).count(term) for term in terms)
    return tf / (tf + 1.2)


def matched(field: str, given: Any, document: dict[str, str], weigh: Weigh) -> float | None:
    """A match, as Lucene's QueryBuilder reads it."""
    options = given if isinstance(given, dict) else {"query": given}
    text = str(options["query"])
    places, tokens = stacks(text), analyzed(text)
    if not places:
        return 1.0 if options.get("zero_terms_query") == "all" else None
    scores = [
        weigh(text, field, terms, start) * part(document, field, terms) if part(document, field, terms) else None
        for terms, start in places
    ]
    if len(tokens) == 1 or tokens[-1].position == 0:
        return None if scores[0] is None else scores[0] * float(options.get("boost", 1.0))
    required = options.get("operator", "or").lower() == "and"
    return combined(options, scores if required else [], [] if required else scores)


def score(query: dict[str, Any], document: dict[str, str], weigh: Weigh = plain) -> float | None:
    """What a query gives a document, None where it does not match."""
    ((kind, inner),) = query.items()
    if kind == "term":
        ((field, own),) = inner.items()
        tf = part(document, field, (own["value"],))
        return own["boost"] * plain("", field, (own["value"],), 0) * tf if tf else None
    if kind == "match":
        ((field, given),) = inner.items()
        return matched(field, given, document, weigh)
    if kind == "bool":
        must, should = ([score(one, document, weigh) for one in inner.get(key, [])] for key in ("must", "should"))
        return combined(inner, must, should)
    if kind == "dis_max":
        scores = [one for query in inner["queries"] if (one := score(query, document, weigh)) is not None]
        tie = inner.get("tie_breaker", 0.0)
        top = max(scores, default=0.0)
        return (top + tie * (sum(scores) - top)) * inner.get("boost", 1.0) if scores else None
    assert kind == "multi_match"
    options = {key: inner[key] for key in ("query", "operator", "minimum_should_match") if key in inner}
    queries = []
    for named in inner["fields"]:
        field, _, boost = named.partition("^")
        queries.append({"match": {field: {**options, "boost": float(boost or 1)}}})
    tie = inner.get("tie_breaker", 1.0 if inner.get("type") == "most_fields" else 0.0)
    return score(
        {"dis_max": {"queries": queries, "tie_breaker": tie, "boost": inner.get("boost", 1.0)}}, document, weigh
    )


def run(body: Any, scheme: Scheme = AUTO, max_clauses: int = 1024, **options: Any) -> Rewritten:
    before = copy.deepcopy(body)
    planned = plan(body, MAPPING, **options)
    result = rewrite(body, planned, statistics(*planned.texts), scheme, max_clauses=max_clauses)
    assert body == before, "the body that came in was changed"
    assert result.changed or result.body is body
    return result


def of(query: Any, scheme: Scheme = AUTO, **options: Any) -> Any:
    return run({"query": query}, scheme, **options).body["query"]


def reasons(query: Any, **options: Any) -> list[str]:
    result = run({"query": query}, **options)
    assert not result.changed
    return [note.reason for note in result.notes]


def same_documents_and_scores(query: dict[str, Any], scheme: Scheme, new: dict[str, Any]) -> None:
    for document in DOCUMENTS:
        expected, got = score(query, document, formula(scheme)), score(new, document)
        assert (got is None) == (expected is None), document
        if got is not None and expected is not None:
            assert got == pytest.approx(expected, rel=1e-6), document


# A match


@pytest.mark.parametrize(
    "match",
    [
        {"content": "a f"},
        {"content": {"query": "a f"}},
        {"content": {"query": "a a b f", "boost": 3}},
        {"content": {"query": "a a b f", "operator": "and"}},
        {"content": {"query": "a c d", "operator": "AND", "minimum_should_match": "75%"}},
        {"content": {"query": "a f unknown", "operator": "and"}},
        {"content": {"query": "a b c d nowhere", "minimum_should_match": "75%"}},
        {"content": {"query": "the big a getUser", "minimum_should_match": 2}},
        {"content": {"query": "a big d", "operator": "and"}},
        {"content": {"query": "a d getUser a", "zero_terms_query": "all", "lenient": True, "_name": "x"}},
    ],
)
def test_a_match_finds_the_same_documents_with_the_formulas_scores(match: dict[str, Any]) -> None:
    new = of({"match": match})
    assert "bool" in new
    same_documents_and_scores({"match": match}, AUTO, new)


def test_each_position_is_a_clause_and_duplicates_share_a_weight() -> None:
    new = of({"match": {"content": {"query": "f a nowhere a", "boost": 2, "_name": "mine"}}})
    clauses = [one["term"]["content"] for one in new["bool"]["should"]]
    assert [one["value"] for one in clauses] == ["f", "a", "nowhere", "a"]
    assert clauses[1] == clauses[3]
    assert clauses[2]["boost"] == 1
    assert clauses[0]["boost"] > 1 > clauses[1]["boost"]
    assert (new["bool"]["boost"], new["bool"]["_name"]) == (2, "mine")


def test_operator_and_is_must() -> None:
    assert list(of({"match": {"content": {"query": "a f", "operator": "and"}}})["bool"]) == ["must"]


def test_a_stacked_position_stays_a_match_on_its_own_text() -> None:
    given = {"query": "a BIG f", "analyzer": "mine", "lenient": "true", "auto_generate_synonyms_phrase_query": False}
    own = of({"match": {"content": given}})["bool"]["should"][1]["match"]["content"]
    assert own.pop("boost") > 0
    assert own == {**given, "query": "BIG"}


def test_identifiers_have_a_q_of_their_own() -> None:
    one, two = (
        clause["term"]["content"]["boost"]
        for clause in of({"match": {"content": "getUser f"}}, Scheme(0.05, 1.0, 1.0))["bool"]["should"]
    )
    assert df("getuser", "content") == df("f", "content")
    assert one > two


@pytest.mark.parametrize("spec", ["2", 2, "-1", "75%", "-25%", "3<90%", "1<-25% 3<-2", "2<75% ", "5", "0", "0%"])
@pytest.mark.parametrize("operator", ["or", "and"])
@pytest.mark.parametrize("text", ["f", "big", "the big", "a f", "a a f", "a b c d", "nowhere a b c d e f"])
def test_minimum_should_match_means_what_it_meant(spec: Any, operator: str, text: str) -> None:
    match = {"content": {"query": text, "operator": operator, "minimum_should_match": spec}}
    same_documents_and_scores({"match": match}, AUTO, of({"match": match}))


@pytest.mark.parametrize("text", ["f", "f the", "big", "the big"])
def test_a_match_of_one_position_is_left_to_the_server(text: str) -> None:
    """Lucene makes a BooleanQuery of `the big|large`, and none of `f` or `big|large`; its one boost is 1 anyway."""
    body = {"query": {"match": {"content": {"query": text, "minimum_should_match": "2"}}}}
    assert run(body) == (body, (), False)


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "big", "the", "getUser", "nowhere"]), max_size=7),
    st.sampled_from(["or", "and", "OR"]),
    st.none() | st.sampled_from(["1", "2", "-1", "50%", "-30%", "2<50%", "1<-1 4<60%", "7"]),
    st.builds(Scheme, *[st.floats(0, 1.5)] * 3),
)
def test_any_match_finds_the_same_documents_with_the_formulas_scores(
    words: list[str], operator: str, spec: str | None, scheme: Scheme
) -> None:
    options = {"query": " ".join(words), "operator": operator} | ({"minimum_should_match": spec} if spec else {})
    query = {"match": {"content": options}}
    new = of(query, scheme)
    if new is not query and "match" not in new:
        same_documents_and_scores(query, scheme, new)
        clauses = new["bool"].get("should") or new["bool"]["must"]
        boosts = [next(iter(next(iter(clause.values())).values()))["boost"] for clause in clauses]
        idfs = [plain("", "content", terms, 0) for terms, _ in stacks(options["query"])]
        known = [any(df(term, "content") for term in terms) for terms, _ in stacks(options["query"])]
        before = sum(one for one, is_known in zip(idfs, known, strict=True) if is_known)
        after = sum(b * one for b, one, is_known in zip(boosts, idfs, known, strict=True) if is_known)
        assert after == pytest.approx(before)


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "big", "the", "getUser", "nowhere"]), max_size=7),
    st.sampled_from(["or", "and", "OR"]),
    st.none() | st.sampled_from(["1", "2", "-1", "50%", "-30%", "2<50%", "1<-1 4<60%", "7"]),
    st.sampled_from([AUTO, PLAIN]),
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "big", "the"]), max_size=4, unique=True),
    st.booleans(),
    st.sampled_from([1, 3, 1024]),
)
def test_terms_beside_a_match_add_to_scores_and_keep_what_matches(
    words: list[str],
    operator: str,
    spec: str | None,
    scheme: Scheme,
    beside: list[str],
    recall: bool,
    room: int,
) -> None:
    text = " ".join(words)
    options = {"query": text, "operator": operator, "boost": 2.0}
    options |= {"minimum_should_match": spec} if spec else {}
    body = {"query": {"match": {"content": options}}}
    planned = plan(body, MAPPING)
    places = stacks(text)
    own = {term for terms, _ in places for term in terms}
    # What `widen` would give: terms that the index holds and the query does not have.
    widened = [Added(term, df(term, "content"), 3.0, ("word",)) for term in beside if term not in own]
    added = dict.fromkeys(planned.texts, widened)
    without = rewrite(body, planned, statistics(*planned.texts), scheme, max_clauses=room)
    told = rewrite(body, planned, statistics(*planned.texts), scheme, max_clauses=room, added=added, recall=recall)
    assert told.notes == without.notes or not places
    taken = widened[: max(0, room - len(places))]
    if not places or not taken or not (recall or any(df(term, "content") for term in own)):
        assert told.body == without.body
        return
    spans = identifier_spans(text)
    raw = plain_sum = 0.0
    for terms, c in Counter(terms for terms, _ in places).items():
        at = {start for one, start in places if one == terms}
        n = max(df(term, "content") for term in terms)
        shaped = any(a <= start < b for start in at for a, b in spans)
        if n:
            odds = 1 + (count("content") - n + 0.5) / (n + 0.5)
            raw += c**scheme.a * ln_q(odds, scheme.q_shaped if shaped else scheme.q_word)
            plain_sum += c * math.log(odds)
    s = plain_sum / raw if raw else 1.0
    grows = recall and operator.lower() == "or" and spec is None
    for document in DOCUMENTS:
        before, after = score(without.body["query"], document), score(told.body["query"], document)
        more = [2.0 * s * 3.0 * part(document, "content", (one.term,)) for one in taken]
        if before is None:
            assert (after is not None) == (grows and any(more)), document
        if after is not None:
            assert after == pytest.approx((before or 0.0) + sum(more)), document


def test_a_widened_match_keeps_its_name_and_its_boost() -> None:
    query = {"match": {"content": {"query": "a f", "boost": 3, "_name": "mine"}}}
    planned = plan({"query": query}, MAPPING)
    added = {text: [Added("big", df("big", "content"), 1.0, ("word",))] for text in planned.texts}
    new = rewrite({"query": query}, planned, statistics(*planned.texts), PLAIN, added=added).body["query"]["bool"]
    assert new["must"] == [{"match": {"content": {"query": "a f"}}}]
    assert (new["boost"], new["_name"]) == (3, "mine")
    assert [clause["term"]["content"]["value"] for clause in new["should"]] == ["big"]
    heavy = {text: [Added("big", 3, 1e39, ("word",))] for text in planned.texts}
    left = rewrite({"query": query}, planned, statistics(*planned.texts), PLAIN, added=heavy)
    assert [note.reason for note in left.notes] == ["a boost is beyond the engine's 32-bit floats"]
    assert not left.changed


@given(
    st.permutations(["b", "c", "nowhere", "the"]), st.sampled_from(["or", "and"]), st.sampled_from(["1", "2", "60%"])
)
def test_equal_weights_leave_the_query_alone(words: list[str], operator: str, spec: str) -> None:
    """Terms of one df keep boost 1, as unknown ones do: there is nothing to rewrite."""
    assert df("b", "content") == df("c", "content") == 3
    match = {"query": " ".join(words), "operator": operator, "minimum_should_match": spec}
    body = {"query": {"match": {"content": match}}}
    assert run(body, Scheme(0.3, 0.3, 0.5)) == (body, (), False)


def test_at_q_1_and_a_1_the_body_is_the_very_same() -> None:
    body = {"query": {"match": {"content": "a f"}}, "size": 3}
    result = run(body, PLAIN)
    assert result.body is body
    assert not result.changed
    assert not result.notes


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (True, "true"), (1.5, "1.5")])
def test_other_values_are_read_as_the_server_writes_them(value: Any, text: str) -> None:
    assert plan({"query": {"match": {"content": value}}}, MAPPING).texts == (Text("content", "standard", text),)


# A multi_match


@pytest.mark.parametrize("kind", [None, "best_fields", "most_fields"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"operator": "and"},
        {"minimum_should_match": "60%"},
        {"tie_breaker": 0.3, "boost": 2.0},
        {"fields": ["content^2.5"]},
        {"fields": ["title", "content.raw^2"]},
    ],
)
@pytest.mark.parametrize("text", ["a f", "a a getUser", "big a b c", "f"])
def test_a_multi_match_is_a_dis_max_of_its_fields(kind: str | None, options: dict[str, Any], text: str) -> None:
    inner = {"query": text, "fields": ["title^3", "content"], **options} | ({"type": kind} if kind else {})
    same_documents_and_scores({"multi_match": inner}, AUTO, of({"multi_match": inner}))


def test_fields_of_a_multi_match_that_cannot_be_weighed_stay_matches() -> None:
    inner = {
        "query": "a f",
        "fields": ["content^2", "size", "none"],
        "operator": "and",
        "analyzer": "x",
        "lenient": True,
        "_name": "mine",
    }
    result = run({"query": {"multi_match": inner}})
    dis_max = result.body["query"]["dis_max"]
    assert [next(iter(query)) for query in dis_max["queries"]] == ["bool", "match", "match"]
    shared = {"query": "a f", "operator": "and", "analyzer": "x", "lenient": True}
    assert dis_max["queries"][1:] == [{"match": {"size": shared}}, {"match": {"none": shared}}]
    assert dis_max["queries"][0]["bool"]["boost"] == 2
    assert (dis_max["tie_breaker"], dis_max["_name"]) == (0.0, "mine")
    assert [note.path for note in result.notes] == ["query", "query"]


def test_patterns_of_fields_are_expanded_where_the_mapping_is_clear() -> None:
    body = {"query": {"multi_match": {"query": "a f", "fields": ["con*t^2", "content.*"]}}}
    assert [text.field for text in plan(body, MAPPING).texts] == ["content", "content.code"]
    for pattern in ("*", "_*", "contents*", "co*", "no*", "size*"):
        body = {"query": {"multi_match": {"query": "a f", "fields": [pattern]}}}
        assert not plan(body, MAPPING), pattern
        assert plan(body, MAPPING).notes
    body = {"query": {"multi_match": {"query": "a f", "fields": ["cont*t"]}}, "runtime_mappings": {"x": {}}}
    assert not plan(body, MAPPING)


# What scores, and what does not

M: Any = {"match": {"content": "a f"}}


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        (M, ["query"]),
        ({"bool": {"must": M, "should": [M, M]}}, ["query.bool.must", "query.bool.should[0]", "query.bool.should[1]"]),
        ({"bool": {"filter": [M], "must_not": M}}, []),
        ({"bool": {"filter": [{"bool": {"must": [M]}}]}}, []),
        ({"dis_max": {"queries": [M, {"term": {"size": 3}}]}}, ["query.dis_max.queries[0]"]),
        ({"constant_score": {"filter": M}}, []),
        ({"function_score": {"query": M, "functions": [{"filter": M}]}}, ["query.function_score.query"]),
        ({"script_score": {"query": M, "script": {}}}, ["query.script_score.query"]),
        ({"boosting": {"positive": M, "negative": M, "negative_boost": 0.5}}, ["query.boosting.positive"]),
    ],
)
def test_only_scoring_positions_are_rewritten(query: Any, paths: list[str]) -> None:
    body = {"query": query}
    new = run(body).body
    found = []

    def compare(old: Any, new: Any, path: str) -> None:
        if old == M and new != M:
            assert "bool" in new
            found.append(path)
        elif isinstance(old, dict):
            assert old.keys() == new.keys()
            for key in old:
                compare(old[key], new[key], f"{path}.{key}" if path else key)
        elif isinstance(old, list):
            for i, (one, other) in enumerate(zip(old, new, strict=True)):
                compare(one, other, f"{path}[{i}]")
        else:
            assert old == new

    compare(body, new, "")
    assert found == paths
    assert bool(plan(body, MAPPING)) == bool(paths)


def test_everything_beside_the_query_is_the_same_object() -> None:
    rest = {
        key: {"query": M}
        for key in (
            "post_filter",
            "highlight",
            "aggs",
            "suggest",
            "sort",
            "collapse",
            "rescore",
            "explain",
            "search_after",
        )
    }
    kept = [M]
    result = run({"query": {"bool": {"must": [M], "filter": kept}}, **rest})
    assert result.changed
    assert all(result.body[key] is rest[key] for key in rest)
    assert result.body["query"]["bool"]["filter"] is kept


def test_rescore_is_rewritten_where_asked() -> None:
    body = {"query": M, "rescore": [{"window_size": 9, "query": {"rescore_query": M}}]}
    assert run(body).body["rescore"] is body["rescore"]
    assert Note("rescore", "scores of the query have another range now") in run(body).notes
    result = run(body, rescore=True)
    assert "bool" in result.body["rescore"][0]["query"]["rescore_query"]
    assert not result.notes
    one = {"rescore": {"query": {"rescore_query": M}}}
    assert "bool" in run(one, rescore=True).body["rescore"]["query"]["rescore_query"]


def test_what_builds_on_the_scores_is_told() -> None:
    result = run({"query": {"bool": {"must": [{"function_score": {"query": M}}]}}, "min_score": 3})
    assert [note.path for note in result.notes] == ["min_score", "query.bool.must[0]"]
    assert not run({"query": {"match_all": {}}, "min_score": 3}).notes


# fmt: off
LEFT_QUERIES = (
    "combined_fields", "common", "has_child", "has_parent", "intervals", "knn", "match_bool_prefix", "match_phrase",
    "match_phrase_prefix", "more_like_this", "nested", "neural", "percolate", "query_string", "rank_feature",
    "simple_query_string", "span_near", "wrapper",
)
# fmt: on
LEFT_TYPES: list[Any] = ["cross_fields", "phrase", "phrase_prefix", "bool_prefix", 3, []]
LEFT_OPTIONS: list[dict[str, Any]] = [
    {"fuzziness": "AUTO"},
    {"fuzziness": 1},
    {"cutoff_frequency": 0.1},
    {"operator": "xor"},
    {"boost": -1},
    {"boost": "2"},
    {"boost": None},
    {"minimum_should_match": 1.5},
    {"analyzer": 3},
    {"lenient": "maybe"},
    {"zero_terms_query": {}},
]
LEFT_MATCHES: list[Any] = [
    {"content": "{{text}}"},
    {"nowhere": "a f"},
    {"content.raw": "a f"},
    {"size": 3},
    {"parts.text": "a f"},
    {"hidden": "a f"},
    {"flat": "a f"},
    {"meta": "a f"},
    {"content": ["a", "f"]},
    {"content": None},
    {"content": 1e20},
    {"content": "a f", "title": "a"},
    {},
    [],
    "a",
    {"content": "the"},
    {"content": "a ny f"},
]
LEFT_MULTI_MATCHES: list[Any] = [
    {"query": "a f"},
    {"query": "a f", "fields": []},
    {"query": "a f", "fields": [3]},
    {"query": "a f", "fields": ["content^x"]},
    {"query": "a f", "fields": ["content", "content^2"]},
    {"query": "a f", "fields": ["content"], "tie_breaker": "x"},
    {"query": "a f", "fields": ["content"], "fuzziness": 1},
    {"query": "a f", "fields": ["size"]},
    {"fields": ["content"]},
    [],
]
NO_QUERIES: list[Any] = [[], "a", 3, {}, {"match": {}, "bool": {}}, {"bool": []}, {"bool": {"must": [3]}}]


@pytest.mark.parametrize(
    "query",
    [{"multi_match": {"query": "a f", "fields": ["content"], "type": kind}} for kind in LEFT_TYPES]
    + [{name: {"content": "a f", "query": M}} for name in LEFT_QUERIES]
    + [{"hybrid": {"queries": [M]}}]
    + [{"match": {"content": {"query": "a f", **option}}} for option in LEFT_OPTIONS]
    + [{"match": match} for match in LEFT_MATCHES]
    + [{"multi_match": inner} for inner in LEFT_MULTI_MATCHES]
    + NO_QUERIES,
)
def test_what_is_left_is_reported(query: Any) -> None:
    assert len(reasons(query)) == 1


def test_notes_say_where() -> None:
    body = {"query": {"bool": {"must": [M, {"match_phrase": {"content": "a f"}}]}}}
    assert run(body).notes == (Note("query.bool.must[1]", "match_phrase is left as it is"),)


def test_only_the_fields_asked_for_are_weighed() -> None:
    query = {"bool": {"should": [M, {"match": {"title": "a getUser"}}]}}
    new = run({"query": query}, fields=["title"])
    assert new.body["query"]["bool"]["should"][0] is M
    assert "bool" in new.body["query"]["bool"]["should"][1]
    assert len(new.notes) == 1
    assert plan({"query": {"match": {"contents": "a"}}}, MAPPING, ["content"])


def test_runtime_fields_hide_the_mapping() -> None:
    assert not plan({"query": M, "runtime_mappings": {"content": {"type": "keyword"}}}, MAPPING)
    assert not plan({"query": M}, {**MAPPING, "runtime": {"content": {}}})


# Many clauses


def test_beyond_the_limit_the_heaviest_stay_single() -> None:
    result = run({"query": {"match": {"content": "a f b unknown e a"}}}, max_clauses=3)
    *single, rest = result.body["query"]["bool"]["should"]
    assert [one["term"]["content"]["value"] for one in single] == ["f", "e"]
    assert rest["match"]["content"]["query"] == "a b unknown a"
    total = sum(
        one["term"]["content"]["boost"] * idf(df(one["term"]["content"]["value"], "content"), 9) for one in single
    )
    total += rest["match"]["content"]["boost"] * sum(idf(df(term, "content"), 9) for term in "aba")
    assert total == pytest.approx(sum(idf(df(term, "content"), 9) for term in "afbea"))
    assert "lightest 4 of 6" in result.notes[0].reason


@pytest.mark.parametrize("option", [{"operator": "and"}, {"minimum_should_match": "1"}])
def test_beyond_the_limit_a_match_with_conditions_is_left(option: dict[str, str]) -> None:
    query = {"match": {"content": {"query": "a f b", **option}}}
    assert reasons(query, max_clauses=2) == ["more than 2 clauses"]


def test_max_clauses_is_a_count() -> None:
    with pytest.raises(ValueError, match="max_clauses"):
        run({"query": M}, max_clauses=0)


# Statistics that do not fit


@pytest.mark.parametrize(
    "known",
    [
        None,
        Statistics([], {}, 9),
        Statistics([Placed("a", 0, 0, 1), Placed("f", 1, 2, 9)], {"a": 8, "f": 1}, 9),
        Statistics([Placed("a", 0, -1, 1), Placed("f", 1, 2, 3)], {"a": 8, "f": 1}, 9),
        Statistics([Placed("a", 0, 0, 0), Placed("b", 0, 0, 0), Placed("f", 1, 2, 3)], {"a": 8, "f": 1}, 9),
        Statistics([Placed("a", 0, 0, 1), Placed("f", 1, 2, 3)], {"a": 8, "f": -1}, -9),
    ],
)
def test_a_match_stays_as_it_is_without_good_statistics(known: Statistics | None) -> None:
    body = {"query": M}
    planned = plan(body, MAPPING)
    result = rewrite(body, planned, {planned.texts[0]: known} if known else {}, AUTO)
    assert result.body is body
    assert not result.changed


def test_a_scheme_beyond_a_float_leaves_the_body() -> None:
    result = run({"query": M}, Scheme(-2000.0, -2000.0, 1.0))
    assert not result.changed
    assert result.notes


def test_another_body_than_the_planned_is_left() -> None:
    planned = plan({"query": {"bool": {"must": [M]}}}, MAPPING)
    others: list[Any] = [{"query": {"bool": {"must": []}}}, {"query": M}, {}, [], None, {"query": "x"}]
    for body in others:
        result = rewrite(body, planned, statistics(*planned.texts), AUTO)
        assert result.body is body
        assert result.notes


# Analyzers


@pytest.mark.parametrize(
    ("field", "analysis", "clause", "expected"),
    [
        ("content", {}, {"analyzer": "own"}, "own"),
        ("meta.note", {"default_search": {}}, {}, "look"),
        ("content.code", {"default_search": {}, "default": {}}, {}, "mine"),
        ("content", {"default_search": {}, "default": {}}, {}, "default_search"),
        ("contents", {"default": {}}, {}, "default"),
        ("dot.ted", {}, None, "standard"),
        ("nowhere", {}, None, "standard"),
    ],
)
def test_the_analyzer_is_the_servers_choice(field: str, analysis: Any, clause: Any, expected: str) -> None:
    for settings in ({"index": {"analysis": {"analyzer": analysis}}}, {"analysis": {"analyzer": analysis}}):
        assert analyzer_of(field, MAPPING, settings, clause) == expected


def test_a_plan_names_the_concrete_field_and_the_clause_the_alias() -> None:
    query = {"match": {"contents": "a f"}}
    assert plan({"query": query}, MAPPING).texts == (Text("content", "standard", "a f"),)
    assert list(of(query)["bool"]["should"][0]["term"]) == ["contents"]


def test_an_index_whose_similarity_is_not_bm25_is_left() -> None:
    settings = {"index": {"similarity": {"default": {"type": "DFR"}, "mine": {"type": "BM25"}}}}
    assert not plan({"query": M}, MAPPING, settings=settings)
    mapping = {"properties": {"content": {"type": "text", "similarity": "mine"}}}
    assert plan({"query": M}, mapping, settings=settings)


def test_each_text_is_asked_once() -> None:
    query = {"bool": {"must": [M, M], "should": [{"match": {"content": {"query": "a f", "analyzer": "mine"}}}]}}
    texts = plan({"query": query}, MAPPING).texts
    assert texts == (Text("content", "standard", "a f"), Text("content", "mine", "a f"))


# Any JSON

# fmt: off
WORDS = (
    "query", "bool", "must", "should", "filter", "must_not", "dis_max", "queries", "match", "multi_match", "fields",
    "content", "title", "size", "type", "operator", "and", "minimum_should_match", "boost", "function_score",
    "boosting", "positive", "hybrid", "rescore", "rescore_query", "tie_breaker", "fuzziness", "a", "most_fields",
    "content^2", "con*", "properties", "2", "75%", "min_score", "_name", "analyzer", "lenient",
)
# fmt: on
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from([*WORDS, "a f"])
    | st.text()
)
NONSENSE = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
)


def queries(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"bool": st.fixed_dictionaries({"must": some, "should": some | inner})}),
        st.fixed_dictionaries({"dis_max": st.fixed_dictionaries({"queries": some})}),
        st.fixed_dictionaries({"function_score": st.fixed_dictionaries({"query": inner})}),
        st.fixed_dictionaries({"match": st.dictionaries(st.sampled_from(["content", "size"]), NONSENSE, max_size=2)}),
        st.fixed_dictionaries({"multi_match": st.dictionaries(st.sampled_from(WORDS), NONSENSE, max_size=5)}),
    )


MATCHES = st.sampled_from(["a f", "big a", "a getUser", "the", "f"]).map(lambda text: {"match": {"content": text}})
BODIES = NONSENSE | st.fixed_dictionaries({"query": st.recursive(MATCHES | NONSENSE, queries)})


@given(BODIES, st.booleans())
def test_any_body_comes_out_as_json_and_unharmed(body: Any, rescore: bool) -> None:
    result = run(body, rescore=rescore)
    assert json.loads(json.dumps(result.body)) == result.body
    assert all(isinstance(note, Note) for note in result.notes)


@given(NONSENSE, NONSENSE)
def test_any_mapping_and_settings_are_taken(mapping: Any, settings: Any) -> None:
    assert isinstance(plan({"query": M}, mapping, settings=settings), Plan)
    assert analyzer_of("content", mapping, settings)


@given(st.recursive(MATCHES, lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
    lambda some: st.sampled_from([{"bool": {"must": some}}, {"bool": {"should": some}}, {"dis_max": {"queries": some}}])
), max_leaves=8))  # fmt: skip
def test_nested_queries_find_the_same_documents_with_the_formulas_scores(query: dict[str, Any]) -> None:
    same_documents_and_scores(query, AUTO, of(query))


@pytest.mark.parametrize("depth", [17, 1000, 100_000])
def test_deep_nesting_is_reported(depth: int) -> None:
    query: Any = M
    for _ in range(depth):
        query = {"bool": {"must": [query]}}
    body = {"query": query}
    planned = plan(body, MAPPING)
    assert not planned
    assert len(planned.notes) == 1
    assert rewrite(body, planned, {}, AUTO).body is body
    while depth:  # taken apart from outside, or Python's own destructor would recurse
        query, depth = query["bool"]["must"].pop(), depth - 1


def test_deep_values_are_no_text() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for query in (
        {"match": {"content": deep}},
        {"match": {"content": {"query": "a f", "prefix_length": deep}}},
        {"match": {"content": {"query": "a f", "operator": deep}}},
        {"multi_match": {"query": "a f", "fields": deep}},
        {"multi_match": {"query": "a f", "fields": ["content"], "type": deep}},
        {"unknown": deep},
        deep,
    ):
        assert len(plan({"query": query}, MAPPING).notes) == 1
    planned = plan({"query": M}, MAPPING)
    assert not rewrite({"query": {"match": {"content": deep}}}, planned, statistics(*planned.texts), AUTO).changed


def test_many_matches_and_long_names_take_no_long_time() -> None:
    body = {"query": {"bool": {"should": [{"function_score": {"query": M}}] * 20_000}}}
    assert len(run(body).body["query"]["bool"]["should"]) == 20_000
    assert reasons({"match": {"." * 1_000_000: "a"}})
    assert reasons({"multi_match": {"query": "a", "fields": ["c" + "*" * 1_000_000]}})
    assert reasons({"match": {"content": {"query": "a", "boost": 10**400}}})
