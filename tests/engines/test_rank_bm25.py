"""rank_bm25's three classes: `RankBM25` at query time, `apply` on the object itself."""

from __future__ import annotations

import math
import pickle
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qidf import connect
from qidf.engines.rank_bm25 import RankBM25, apply
from qidf.errors import EngineError
from tests.engines.brute_force import ln_q, odds
from tests.engines.conformance import DELETED, DOCUMENTS, Conformance, Subject, counted
from tests.engines.required import load

rank_bm25 = load("rank_bm25")

CLASSES = ("BM25Okapi", "BM25L", "BM25Plus")
ODDS = {"BM25Okapi": "robertson", "BM25L": "bm25l", "BM25Plus": "bm25+"}
TEXTS = {id: text for id, text in DOCUMENTS if id not in DELETED}
QUERY = "read the config file getUserById only7 everywhere"


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def make(name: str, **settings: Any) -> Any:
    return getattr(rank_bm25, name)([tokens(text) for text in TEXTS.values()], **settings)


def bits(idfs: dict[str, float]) -> list[tuple[str, bytes]]:
    return [(term, struct.pack("d", value)) for term, value in idfs.items()]


def floor(documents: list[list[str]], epsilon: float = 0.25) -> float:
    """BM25Okapi's idf of a term in more than half of the documents."""
    N, df = len(documents), {term: sum(term in row for row in documents) for term in {t for d in documents for t in d}}
    return epsilon * math.fsum(math.log((N - n + 0.5) / (n + 0.5)) for n in df.values()) / len(df)


@pytest.fixture(scope="module", params=[*CLASSES, "BM25Okapi, k1=0.9, b=0.4", "BM25Plus, delta=0.3", "BM25L, applied"])
def subject(request: pytest.FixtureRequest) -> Subject:
    name, *more = request.param.split(", ")
    bm25 = make(name, **{key: float(value) for key, _, value in (one.partition("=") for one in more) if value})
    library = pickle.loads(pickle.dumps(bm25))
    if "applied" in more:
        apply(bm25, 0.3)
    names = list(TEXTS)

    def plain(query: str, k: int) -> list[tuple[str, float]]:
        terms = tokens(query)
        scores = library.get_scores(terms)
        holding = [i for i, counts in enumerate(library.doc_freqs) if not counts.keys().isdisjoint(terms)]
        return [(names[i], float(scores[i])) for i in sorted(holding, key=lambda i: -scores[i])[:k]]

    return Subject(RankBM25(bm25, tokens, names, list(TEXTS.values())), dict(TEXTS), frozenset(), plain)


FLOOR = floor([tokens(text) for text in TEXTS.values()])


class TestConformance(Conformance):
    """The suite of all engines; BM25Okapi's floor is added to the formula."""

    def own_idf(self, subject: Subject, term: str) -> float:
        return self.idf_q(subject, term, 1.0)

    def idf_q(self, subject: Subject, term: str, q: float) -> float:
        brute = counted(subject)
        if subject.engine.model.odds == "robertson" and 2 * brute.df[term] > brute.N:
            return FLOOR
        return brute.idf(term, q)


# At query time


def test_the_object_is_never_changed() -> None:
    bm25 = make("BM25Okapi")
    before = pickle.dumps(bm25)
    engine = RankBM25(bm25, tokens)
    hits = engine.search(QUERY)
    engine.explain(QUERY, hits[0].id)
    assert pickle.dumps(bm25) == before


@pytest.mark.parametrize("name", CLASSES)
def test_query_time_weights_and_an_applied_object_agree(name: str) -> None:
    """Up to the factor that keeps the level of the plain query's scores."""
    bm25, terms = make(name), tokens(QUERY)
    hits = RankBM25(bm25, tokens).search(QUERY, 500, q=0.3, a=1)
    apply(bm25, 0.3)
    applied = bm25.get_scores(terms)
    ratio = hits[0].score / applied[int(hits[0].id)]
    for hit in hits:
        assert hit.score == pytest.approx(ratio * applied[int(hit.id)], rel=1e-12)


def test_names_texts_and_lengths() -> None:
    engine = RankBM25(make("BM25L"), tokens, list(TEXTS), list(TEXTS.values()))
    assert engine.text("emoji") == TEXTS["emoji"]
    assert engine.length("one") == 1
    bare = RankBM25(make("BM25L"), tokens)
    assert [hit.id for hit in bare.search("twinned")] == [str(list(TEXTS).index(id)) for id in ("twin1", "twin2")]
    assert bare.text("0") is None
    with pytest.raises(KeyError):
        bare.text("emoji")


@pytest.mark.parametrize("name", CLASSES)
def test_a_filter_is_a_mask_or_a_container_of_ids(name: str) -> None:
    engine = RankBM25(make(name), tokens, list(TEXTS))
    everything = engine.search(QUERY, 500)
    allowed = {hit.id for hit in everything[3:40:5]}
    mask = np.array([id in allowed for id in TEXTS])
    expected = [(hit.id, hit.score) for hit in everything if hit.id in allowed]
    for filter in (allowed, mask):
        assert [(hit.id, hit.score) for hit in engine.search(QUERY, 500, filter=filter)] == expected
        assert [hit.id for hit in engine.search(QUERY, 2, filter=filter)] == [id for id, _ in expected[:2]]
    assert engine.search(QUERY, filter=set()) == []
    with pytest.raises(ValueError, match="filter must be bool of shape"):
        engine.search(QUERY, filter=mask[1:])
    with pytest.raises(ValueError, match="filter must be bool of shape"):
        engine.search(QUERY, filter=mask.astype(int))


def test_equal_scores_stand_in_the_order_of_the_documents() -> None:
    bm25 = rank_bm25.BM25Plus([["x", "y"]] * 40 + [["z"]] * 60)
    assert [hit.id for hit in RankBM25(bm25).search("x", 7)] == [str(i) for i in range(7)]


def test_the_analysis_is_the_callers_the_objects_or_split() -> None:
    rows = [["Getuser"], ["getuser"], ["b"]]
    bm25 = rank_bm25.BM25Plus(rows)
    assert [hit.id for hit in RankBM25(bm25).search(" Getuser ")] == ["0"]
    bm25.tokenizer = tokens
    assert [hit.id for hit in RankBM25(bm25).search("Getuser")] == ["1"]
    assert [hit.id for hit in RankBM25(bm25, str.split).search("Getuser")] == ["0"]


def test_a_lower_cased_token_keeps_the_shape_it_was_written_in() -> None:
    terms = RankBM25(make("BM25L"), tokens).query_terms("where is getUserById read")
    assert [(term.term, term.shaped) for term in terms if term.shaped] == [("getuserbyid", True)]


def test_empty_documents_at_b_1_disturb_nothing() -> None:
    """rank_bm25 divides 0 by 0 there."""
    for name in CLASSES:
        bm25 = getattr(rank_bm25, name)([["x"], [], ["y", "x"], ["z"], ["z", "v"], ["w"]], b=1.0)
        engine = RankBM25(bm25)
        assert [hit.id for hit in engine.search("x")] == ["0", "2"]
        assert all(math.isfinite(hit.score) for hit in engine.search("x"))
        assert math.isfinite(engine.explain("x", "1").score)


def test_a_floor_below_zero_weighs_nothing() -> None:
    bm25 = rank_bm25.BM25Okapi([["a", "b"], ["a", "b"], ["a", "c"]])
    assert bm25.idf["a"] < 0
    engine = RankBM25(bm25)
    assert engine.weights("a", q=1) == [("a", 0.0)]
    assert engine.search("a", q=1) == []


# apply


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("q", [0.05, 0.5, 1.5])
def test_an_applied_idf_is_the_q_logarithm(name: str, q: float) -> None:
    bm25 = make(name)
    assert apply(bm25, q) == q
    rows = [tokens(text) for text in TEXTS.values()]
    N = len(rows)
    for term, value in bm25.idf.items():
        n = sum(term in row for row in rows)
        if name == "BM25Okapi" and 2 * n > N:
            assert value == pytest.approx(floor(rows), rel=1e-12)
        else:
            assert value == pytest.approx(ln_q(odds(ODDS[name], n, N), q), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_q_1_brings_the_librarys_own_dictionary_back_bit_for_bit(name: str) -> None:
    bm25 = make(name)
    original, everything = bits(bm25.idf), {key: value for key, value in vars(bm25).items() if key != "idf"}
    apply(bm25, 1)
    assert bits(bm25.idf) == original
    apply(bm25, 0.05)
    assert bits(bm25.idf) != original
    again = pickle.loads(pickle.dumps(bm25))
    apply(again, 1.0)
    assert bits(again.idf) == original
    apply(bm25, "hapax")
    apply(bm25, 1)
    assert bits(bm25.idf) == original
    assert {key: value for key, value in vars(bm25).items() if key != "idf"} == everything


def test_hapax_is_worked_out() -> None:
    bm25 = make("BM25Okapi")
    assert apply(bm25, "hapax") == RankBM25(bm25, tokens).spectrum().q_hapax


@pytest.mark.parametrize(("q", "message"), [("auto", "how each query is written"), ("x", "q must"), (-1e6, "range")])
def test_a_q_that_fails_leaves_the_object_as_it_was(q: Any, message: str) -> None:
    bm25 = make("BM25L")
    before = bm25.idf
    with pytest.raises(ValueError, match=message):
        apply(bm25, q)
    assert bm25.idf is before


# What is no such object


def derived(name: str, **methods: Any) -> Any:
    return type(name, (rank_bm25.BM25Okapi,), methods)


def own_idf(bm25: Any, dfs: dict[str, int]) -> None:
    bm25.idf = dict.fromkeys(dfs, 1.0)


def test_a_derived_class_is_known() -> None:
    bm25 = derived("Derived")([["a", "b"], ["b"], ["c"], ["d"]])
    original = bits(bm25.idf)
    assert [hit.id for hit in RankBM25(bm25).search("a")] == ["0"]
    apply(bm25, 0.5)
    apply(bm25, 1)
    assert bits(bm25.idf) == original


class Other:
    pass


@pytest.mark.parametrize("use", [RankBM25, lambda bm25: apply(bm25, 0.5)])
def test_other_objects(use: Callable[[Any], object]) -> None:
    nameless = type("BM25L", (), {})()
    for other, message in ((Other(), "got Other"), (nameless, "got BM25L"), (None, "got NoneType")):
        with pytest.raises(EngineError, match=message):
            use(other)
    with pytest.raises(EngineError, match="OwnIdf has an idf of its own"):
        use(derived("OwnIdf", _calc_idf=own_idf)([["a"], ["b"]]))


def test_objects_that_can_not_be_searched() -> None:
    with pytest.raises(EngineError, match="str tokens, got int"):
        RankBM25(rank_bm25.BM25L([[1, 2], [3]]))
    with pytest.raises(EngineError, match="k1 = 0"):
        RankBM25(rank_bm25.BM25L([["a"]], k1=0))
    with pytest.raises(ValueError, match="ids must hold one str"):
        RankBM25(make("BM25L"), ids=["a"])
    with pytest.raises(ValueError, match="texts must hold one str"):
        RankBM25(make("BM25L"), texts=["a"])


def test_a_url_says_what_to_do() -> None:
    with pytest.raises(EngineError, match=r"no files of its own.*RankBM25\(bm25\)"):
        connect("rank_bm25:model.pickle")
