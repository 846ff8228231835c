"""Scores and rankings: against bm25s, against a brute force written here, and against themselves."""

# ruff: noqa: N806 (N is the literature's letter)
from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import ANALYZERS, get
from qidf.index import Index
from qidf.sources import id_bytes

from .helpers import collections, many_segments, place, queries


def terms(analyzer: str, text: str) -> list[str]:
    return [token.term for token in get(analyzer).analyze(text)]


def generate(rng: random.Random, documents: int) -> list[tuple[str, str]]:
    """Documents over a vocabulary with a long tail, of very different lengths."""
    names = [f"{a}{b}" for a in ("get", "set", "parse", "read") for b in ("User", "File", "_config", "256", "Error")]
    common = ["the", "of", "return", "self", "value", "not"]
    rare = [f"name{i}" for i in range(300)]
    return [
        (
            f"d{i:03}",
            " ".join(
                rng.choice(common) if (x := rng.random()) < 0.5 else rng.choice(names) if x < 0.8 else rng.choice(rare)
                for _ in range(int(rng.expovariate(1 / 40)))
            ),
        )
        for i in range(documents)
    ]


# Against bm25s


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.parametrize("odds", ["robertson", "lucene"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (1.5, 1.0), (2.0, 0.0)])
def test_at_q_1_the_scores_are_those_of_bm25s(analyzer: str, odds: str, k1: float, b: float) -> None:
    """bm25s' conventions in both of its methods, read in its `scoring.py`, are ours:

    - no factor (k1 + 1): tf / (tf + k1·((1 − b) + b·dl/avgdl)), in `lucene` too;
    - idf `robertson` is ln((N − n + 0.5) / (n + 0.5)), 0 where that is negative; `lucene` ln(1 + the same odds);
    - a term that stands c times in the query is added c times.

    It multiplies idf and tf part when it indexes, in float32 unless told otherwise; here it is told float64. A document
    of score 0 is ranked by bm25s and not by us.
    """
    rng = random.Random(f"{analyzer}{k1}")
    documents = generate(rng, 150)
    other = bm25s.BM25(k1=k1, b=b, method=odds, dtype="float64")
    other.index([terms(analyzer, text) for _, text in documents], show_progress=False)
    with place() as path:
        index = Index.build(documents, path, analyzer=analyzer)
        asked = [text for _, text in generate(rng, 25)] + ["getUser", "name7 name7 the", "the of"]
        for query in asked:
            known = [term for term in terms(analyzer, query) if any(index.doc_freqs([term]))]
            if not known:
                continue
            expected = other.get_scores(known)
            hits = index.search(query, len(documents), q=1, a=1, k1=k1, b=b, odds=odds)
            got = np.zeros(len(documents))
            got[[int(hit.id[1:]) for hit in hits]] = [hit.score for hit in hits]
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=0)
            # Documents whose scores differ by more than rounding stand in the same order.
            ranked = [expected[int(hit.id[1:])] for hit in hits]
            assert all(x >= y * (1 - 1e-9) for x, y in pairwise(ranked))
            assert len(hits) == np.count_nonzero(expected)


# Against a brute force


def brute_force(
    documents: list[tuple[str, str]], query: str, analyzer: str, q: float, a: float, k1: float, b: float, odds: str
) -> dict[str, float]:
    """BM25 with q-logarithm weights as DESIGN writes it, straight from the texts; documents that score."""
    bags = {id: Counter(terms(analyzer, text)) for id, text in documents}
    N = len(bags)
    average = sum(bag.total() for bag in bags.values()) / N
    scores = dict.fromkeys(bags, 0.0)
    for term, c in Counter(terms(analyzer, query)).items():
        n = sum(term in bag for bag in bags.values())
        x = (N - n + 0.5) / (n + 0.5)
        x = 1 + x if odds == "lucene" else max(x, 1)
        idf = math.log(x) if q == 1 else (x ** (1 - q) - 1) / (1 - q)
        for id, bag in bags.items():
            if term in bag:
                tf, dl = bag[term], bag.total()
                scores[id] += c**a * idf * tf / (tf + k1 * (1 - b + b * dl / average))
    return {id: score for id, score in scores.items() if score > 0}


@given(
    collections,
    st.lists(queries, min_size=1, max_size=4),
    st.sampled_from(ANALYZERS),
    st.sampled_from([-1.0, 0.0, 0.05, 0.3, 0.5, 0.7, 0.9, 1.0, 1.5, 2.5]),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 0.9, 1.2, 100.0]),
    st.sampled_from([0.0, 0.4, 0.75, 1.0]),
    st.sampled_from(["lucene", "robertson"]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_any_parameters_agree_with_a_brute_force(
    documents: list[tuple[str, str]],
    asked: list[str],
    analyzer: str,
    q: float,
    a: float,
    k1: float,
    b: float,
    odds: str,
    split: bool,
) -> None:
    with place() as path:
        if split:
            with many_segments() as options:
                index = Index.build(documents, path, analyzer=analyzer, threads=1, **options)
        else:
            index = Index.build(documents, path, analyzer=analyzer, threads=1)
        all_ids, all_scores = index.search_many(asked, len(documents) + 2, q=q, a=a, k1=k1, b=b, odds=odds)
        assert all_ids.shape == all_scores.shape == (len(asked), len(documents) + 2)
        for row, query in enumerate(asked):
            expected = brute_force(documents, query, analyzer, q, a, k1, b, odds)
            hits = index.search(query, len(documents), q=q, a=a, k1=k1, b=b, odds=odds)
            assert {hit.id for hit in hits} == set(expected)
            for hit in hits:
                assert hit.score == pytest.approx(expected[hit.id], rel=1e-12)
            # exact order, ties by the bytes of the id
            order = [(-hit.score, id_bytes(hit.id)) for hit in hits]
            assert order == sorted(order)
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            # any k is a beginning of the whole ranking
            for k in {1, 2, len(documents) // 2 + 1}:
                assert index.search(query, k, q=q, a=a, k1=k1, b=b, odds=odds) == hits[:k]
            # the other ways to ask
            weights = index.weights(query, q=q, a=a, odds=odds)
            assert index.search_terms(weights, len(documents), k1=k1, b=b) == hits
            padding = len(documents) + 2 - len(hits)
            assert all_ids[row].tolist() == [hit.id for hit in hits] + [None] * padding
            assert all_scores[row].tolist() == [hit.score for hit in hits] + [0.0] * padding
            # explanations
            for hit in hits:
                told = index.explain(query, hit.id, q=q, a=a, k1=k1, b=b, odds=odds)
                assert told.score == hit.score
                total = 0.0
                for row_ in told.terms:  # sum() compensates for rounding since Python 3.12
                    total += row_.contribution
                assert total == hit.score
                assert told.length == index.length(hit.id)
                for term in told.terms:
                    assert term.contribution == term.weight * term.tf_part
                    assert term.weight == pytest.approx(term.query_count**a * term.idf_q, rel=1e-15)
            for id, _ in documents:
                if id not in expected:
                    assert index.explain(query, id, q=q, a=a, k1=k1, b=b, odds=odds).score == 0


@given(collections, queries, st.sampled_from(ANALYZERS), st.sampled_from(["auto", "hapax", 0.5]))
@settings(max_examples=60, deadline=None)
def test_one_query_many_queries_and_weighted_terms_agree_under_every_rule(
    documents: list[tuple[str, str]], query: str, analyzer: str, q: float
) -> None:
    with place() as path:
        index = Index.build(documents, path, analyzer=analyzer, threads=1)
        hits = index.search(query, 5, q=q)
        assert index.search_terms(index.weights(query, q=q), 5) == hits
        ids, scores = index.search_many([query, "x", query], 5, q=q, threads=2)
        for row in (0, 2):
            assert [id for id in ids[row] if id is not None] == [hit.id for hit in hits]
            assert [score for score in scores[row] if score > 0] == [hit.score for hit in hits]
        assert [index.explain(query, hit.id, q=q).score for hit in hits] == [hit.score for hit in hits]


def test_duplicates_of_a_document_tie_in_the_order_of_their_ids_bytes() -> None:
    ids = ["a", "B", "é", "z", "\ud800", "\uffff", "😀", "a\n", "10", "9", "𐀀"]
    with place() as path:
        index = Index.build([(id, "same words here") for id in ids] + [("other", "else")], path)
        assert [hit.id for hit in index.search("words", 20)] == sorted(ids, key=id_bytes)


# What a caller may get wrong


def test_an_unknown_term_an_empty_query_and_no_query_have_no_hits() -> None:
    with place() as path:
        index = Index.build([("a", "alpha"), ("b", "")], path)
        for query in ("", "unknown", "!?", "\ud800", "\0"):
            assert index.search(query) == []
        assert index.search_terms([]) == []
        assert index.search_terms([("alpha", 0.0)]) == []
        ids, scores = index.search_many([], 3)
        assert ids.shape == scores.shape == (0, 3)
        ids, scores = index.search_many(["", "unknown"], 3)
        assert ids.tolist() == [[None] * 3] * 2
        assert scores.tolist() == [[0.0] * 3] * 2
        assert index.explain("unknown", "a").score == 0.0


@pytest.mark.parametrize(
    "options",
    [
        *({"k": k} for k in (0, -1, True, 1.0)),
        *({"b": b} for b in (1.1, math.nan)),
        {"q": "no"},
        {"q": math.nan},
        {"a": -1.0},
        {"k1": -0.1},
        {"odds": "okapi"},
    ],
)
def test_an_argument_that_makes_no_sense_is_a_value_error(options: dict[str, Any]) -> None:
    with place() as path:
        index = Index.build([("a", "alpha")], path)
        for call in (lambda: index.search("alpha", **options), lambda: index.search_many(["alpha"], **options)):
            with pytest.raises(ValueError, match=next(iter(options))):
                call()


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_weights_are_finite_and_not_negative_and_terms_unique(weight: float) -> None:
    with place() as path:
        index = Index.build([("a", "alpha")], path)
        with pytest.raises(ValueError, match="'alpha'"):
            index.search_terms([("alpha", weight)])
        with pytest.raises(ValueError, match="unique"):
            index.search_terms([("alpha", 1.0), ("alpha", 1.0)])


def test_an_unknown_id_is_a_key_error() -> None:
    with place() as path:
        index = Index.build([("a", "alpha")], path)
        for call in (index.text, index.length, lambda id: index.explain("alpha", id)):
            with pytest.raises(KeyError, match="no such"):
                call("no such")
