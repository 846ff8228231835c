"""What the base class makes of any engine's answers: weights, scale, explanations, warnings, places in the text."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from qidf.analysis import Token
from qidf.engines import Collection, Engine, Model
from qidf.engines.base import Clause, code_points, missing, placed
from qidf.errors import AnalyzerWarning, EngineError
from qidf.index.search import Hit
from qidf.spectrum import Spectrum, bands
from tests.engines.brute_force import byte_length

ROWS = ["a b c d", "a b", "a", "a e getUser", "f g", "h"]


class Tiny(Engine):
    """Six documents of words; a part is tf / (tf + 1)."""

    url = "tiny:"
    analyzer = "str.split"
    remedy = "Try another."
    model = Model(k1=1.0, b=0.0)

    def __init__(self, rows: Sequence[str] = ROWS) -> None:
        self.rows = [Counter(row.split()) for row in rows]
        self.passes = 0

    def analyze(self, text: str) -> list[Token]:
        return placed(text, text.split())

    def collection(self) -> Collection:
        tokens = sum(row.total() for row in self.rows)
        return Collection(len(self.rows), tokens, tokens / len(self.rows))

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        return [sum(term in row for row in self.rows) for term in terms]

    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        N = len(self.rows)
        scores = []
        for i in range(N):
            parts = self.parts(str(i), [clause.term for clause in clauses])
            score = sum(c.boost * self.idf(c.n, N) * part for c, (part, _) in zip(clauses, parts, strict=True))
            scores.append((-score, i))
        return [Hit(rank, str(i), "", 1, -score) for rank, (score, i) in enumerate(sorted(scores)[:k], 1) if score]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        if id not in map(str, range(len(self.rows))):
            raise KeyError(id)
        return [((tf := self.rows[int(id)][term]) / (tf + 1), tf) for term in terms]

    def spectrum(self) -> Spectrum:
        self.passes += 1
        dfs = Counter(term for row in self.rows for term in row)
        histogram = Counter(dfs.values())
        N, tokens, _ = self.collection()
        return Spectrum(N, tokens or 0, len(dfs), histogram[1], None, bands(histogram))


class Floored(Tiny):
    """An engine with an idf of 1 in place of small ones, as BM25Okapi of rank_bm25 has a floor."""

    def idf_q(self, n: int, N: int, q: float) -> float:
        return 1.0 if super().idf_q(n, N, 1.0) < 1 else super().idf_q(n, N, q)


class NoOdds(Tiny):
    """Odds that are clipped: a term in most documents weighs nothing."""

    model = Model(k1=1.0, b=0.0, odds="robertson")


def lucene(n: int) -> float:
    return 1 + (6 - n + 0.5) / (n + 0.5)


# Weights


def test_plain_weights_are_count_times_idf_exactly() -> None:
    idf = Tiny().idf
    assert Tiny().weights("a b b e", q=1, a=1) == [("a", idf(4, 6)), ("b", 2 * idf(2, 6)), ("e", idf(1, 6))]


def test_weights_by_hand() -> None:
    raw = [(lucene(4) ** 0.5 - 1) / 0.5, math.sqrt(2) * (lucene(2) ** 0.5 - 1) / 0.5]
    plain = math.log(lucene(4)) + 2 * math.log(lucene(2))
    weights = Tiny().weights("a b b", q=0.5, a=0.5)
    assert [term for term, _ in weights] == ["a", "b"]
    assert [w for _, w in weights] == pytest.approx([w * plain / sum(raw) for w in raw], rel=1e-12)


@pytest.mark.parametrize("q", [0.05, 0.5, 1.5, "auto", "hapax"])
@pytest.mark.parametrize("a", [0.0, 0.5, 1.0, None])
def test_the_sum_of_weights_is_that_of_the_plain_query(q: Any, a: float | None) -> None:
    query = "a b b b getUser h"
    plain = sum(weight for _, weight in Tiny().weights(query, q=1, a=1))
    assert sum(weight for _, weight in Tiny().weights(query, q=q, a=a)) == pytest.approx(plain, rel=1e-12)


def test_identifiers_and_words_get_a_q_of_their_own_in_auto() -> None:
    rows = {row.term: row for row in Tiny().explain("getUser h", "3").terms}
    assert (rows["getUser"].shaped, rows["h"].shaped) == (True, False)
    assert (rows["getUser"].q, rows["h"].q) == (0.7, 0.8)


def test_unknown_terms_weigh_nothing() -> None:
    assert Tiny().weights("a nowhere") == Tiny().weights("a")
    assert Tiny().weights("nowhere") == Tiny().weights("") == []
    assert Tiny().search("nowhere") == []


def test_a_term_without_odds_stands_outside_the_scale() -> None:
    weights = dict(NoOdds().weights("a a e", q=0.5, a=0))
    assert weights == {"a": 0.0, "e": pytest.approx(math.log(5.5 / 1.5), rel=1e-12)}


def test_an_engine_may_have_an_idf_of_its_own_making() -> None:
    engine = Floored()
    assert engine.weights("a e", q=1) == [("a", 1.0), ("e", math.log(lucene(1)))]
    (_, floored), (_, rare) = engine.weights("a e", q=0.5)
    assert rare / floored == pytest.approx((lucene(1) ** 0.5 - 1) / 0.5, rel=1e-12)
    assert floored + rare == pytest.approx(1 + math.log(lucene(1)), rel=1e-12)
    row = engine.explain("a e", "0", q=0.5).terms[0]
    assert (row.idf, row.idf_q) == (1.0, 1.0)


def test_the_dictionary_is_read_for_hapax_only_and_once() -> None:
    engine = Tiny()
    engine.search("a b")
    engine.search("a b", q=0.5)
    assert engine.passes == 0
    engine.search("a b", q="hapax")
    engine.search("a b", q="hapax")
    assert engine.passes == 1


def test_a_query_is_a_str() -> None:
    anything: Any = b"a b"
    with pytest.raises(TypeError, match="query must be str, got bytes"):
        Tiny().search(anything)


# Warnings


def test_a_query_of_mostly_unknown_terms_warns_of_the_analyzer() -> None:
    with pytest.warns(AnalyzerWarning, match=r"tiny:: 2 of 3 words are unknown.*than str\.split\? Try another"):
        Tiny().weights("a x y")
    with pytest.warns(AnalyzerWarning):
        Tiny().search("x y z")
    with pytest.warns(AnalyzerWarning):
        Tiny().explain("a x y", "0")


@pytest.mark.parametrize("query", ["x y", "a x", "a b x y", "a x x x x", ""])
def test_half_of_the_terms_is_enough_and_two_are_too_few_to_tell(query: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tiny().search(query)


def test_the_warning_names_the_callers_line() -> None:
    engine = Tiny()
    with pytest.warns(AnalyzerWarning) as caught:
        engine.search("a x y")
    assert caught[0].filename == __file__


# Explanations


@pytest.mark.parametrize(("q", "a"), [(1.0, 1.0), (0.5, 0.5), ("auto", None), ("hapax", 0.0)])
def test_an_explanation_adds_up_to_the_score(q: Any, a: float | None) -> None:
    engine, query = Tiny(), "a b b getUser nowhere"
    for hit in engine.search(query, q=q, a=a):
        told = engine.explain(query, hit.id, q=q, a=a)
        assert told.score == pytest.approx(hit.score, rel=1e-12)
        for row in told.terms:
            assert row.weight == pytest.approx(told.scale * row.query_count**told.a * row.idf_q, rel=1e-9)
            assert row.contribution == row.weight * row.tf_part
        assert (told.terms[-1].term, told.terms[-1].n, told.terms[-1].weight) == ("nowhere", 0, 0.0)


def test_plain_weights_have_scale_1() -> None:
    assert Tiny().explain("a b b", "0", q=1, a=1).scale == 1
    assert Tiny().explain("nowhere", "0").scale == 1


def test_no_such_document() -> None:
    with pytest.raises(KeyError):
        Tiny().explain("a", "6")


# Boosts, for engines that multiply by an idf of their own


def test_boosts_are_weights_over_the_engines_idf() -> None:
    engine = Tiny()
    assert engine._boosts([("a", 3 * engine.idf(4, 6)), ("nowhere", 2.0)]) == [Clause("a", 4, 3.0)]
    assert NoOdds()._boosts([("a", 1.0)]) == []  # no boost lifts an idf of 0
    assert engine._boosts([("a", 1e300)])[0].boost > 1e300
    assert engine._boosts([("a", 0.0), ("a a", 1.0)]) == []


def test_boosts_of_an_engine_with_32_bits_are_its_floats() -> None:
    engine = Tiny()
    engine.model = engine.model._replace(float_bits=32)
    assert engine._boosts([("a", 3 * engine.idf(4, 6) * (1 + 1e-12))]) == [Clause("a", 4, 3.0)]
    assert engine._boosts([("a", 0.1 * engine.idf(4, 6))])[0].boost == np.float32(0.1)
    with pytest.raises(ValueError, match="beyond the engine's 32-bit floats"):
        engine._boosts([("a", 1e300)])


# Places


def test_placed_finds_tokens_in_order_as_written_or_in_lower_case() -> None:
    text = "𝒳 getUser GETUSER runs getuser"
    found = placed(text, ["𝒳", "getuser", "run", "getuser"])
    assert [text[token.start : token.end] for token in found] == ["𝒳", "getuser", "", ""]
    found = placed("GetUser Runs", ["getuser", "running", "runs"])
    assert [(token.start, token.end) for token in found] == [(0, 7), (7, 7), (8, 12)]
    token = Token("x", 1, 2)
    assert placed("axb", [token]) == [token]
    with pytest.raises(TypeError, match="must return str or Token, got int"):
        placed("a", [1])


@pytest.mark.parametrize("text", ["", "plain", "größe 検索", "a𝒳b🎉c", "\ud800x𠮷"])
def test_offsets_of_java_become_code_points(text: str) -> None:
    java = code_points(text)
    for i in range(len(text) + 1):
        assert java(len(text[:i].encode("utf-16-le", "surrogatepass")) // 2) == i


def test_placing_tokens_takes_time_in_proportion_to_the_text() -> None:
    """Stems that stand nowhere must not each be looked for in all of the text."""
    words = ["parsing"] * 200_000
    found = placed(" ".join(words), ["parsx"] * len(words))
    assert len(found) == len(words)
    assert {(token.start, token.end) for token in found} == {(0, 0)}
    far = "x" * 10_000 + " far"
    assert placed(far, ["far"]) == [Token("far", 10_001, 10_004)]


def test_find_tells_where_wanted_terms_stand() -> None:
    assert Tiny().find("𝒳 a b a", {b"a": 7, "𝒳".encode(): 2}) == [(0, 1, 2), (2, 3, 7), (6, 7, 7)]


def test_a_missing_library_says_how_to_install_it() -> None:
    error = missing("tantivy", "tantivy")
    assert isinstance(error, EngineError)
    assert str(error) == "tantivy is not installed: pip install 'qidf[tantivy]'"


def test_an_engine_is_a_context() -> None:
    with Tiny() as engine:
        assert repr(engine) == "<Tiny 'tiny:': 6 documents>"


def test_the_brute_force_rounds_lengths_as_lucene_and_tantivy_do() -> None:
    """256 values: exact up to 40, then three bits after the first."""
    values = sorted({byte_length(n) for n in range(10_000)})
    assert values[:41] == list(range(41))
    assert values[41:56] == [42, 44, 46, 48, 50, 52, 54, 56, 60, 64, 68, 72, 76, 80, 84]
    assert all(byte_length(value) == value for value in values)
    assert all(byte_length(n) <= n < 1.13 * byte_length(n) + 1 for n in range(1, 10_000))
    assert byte_length(2**31 - 1) == 2_013_265_944
