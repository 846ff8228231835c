"""The arithmetic of `qidf.weighting` against mpmath, Lucene's and bm25s' formulas, and the rules DESIGN gives it."""

# ruff: noqa: N802, N803, N806 (N is the literature's letter)
from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qidf import weighting
from qidf.weighting import (
    AUTO,
    K1,
    ODDS,
    B,
    QueryTerm,
    Scheme,
    boosts,
    check_bm25,
    count_factor,
    dph,
    idf,
    idf_power,
    ln_q,
    lucene_odds,
    parse_q,
    q_hapax,
    resolve,
    rsj_odds,
    term_weights,
)

PLAIN = Scheme(q_shaped=1.0, q_word=1.0, a=1.0)

sizes = st.integers(0, 10**9)
qs = st.floats(-2, 3)
odds_values = st.floats(1e-9, 1e12)
queries = st.lists(st.tuples(st.integers(1, 20), st.booleans(), st.integers(0, 1000)), min_size=1, max_size=12).map(
    lambda rows: ([QueryTerm(f"t{i}", c, shaped) for i, (c, shaped, _) in enumerate(rows)], [n for *_, n in rows])
)


def exact_ln_q(x: float, q: float) -> mpmath.mpf:
    """The definition, at 60 digits."""
    with mpmath.workdps(60):
        power = 1 - mpmath.mpf(q)
        return mpmath.log(x) if power == 0 else (mpmath.mpf(x) ** power - 1) / power


def relative_error(value: float, exact: mpmath.mpf) -> float:
    return float(abs(value - exact) / abs(exact)) if exact else abs(value)


# q-logarithm

NEAR_ONE = [1 + sign * step for step in (2**-53, 2**-52, 1e-15, 3e-12, 1e-9, 1e-5) for sign in (-1, 1)]


@pytest.mark.parametrize(
    "q", [-2.0, -1.3, -0.5, 0.0, 0.05, 0.3, 0.7, 0.8, 0.9, 1.0, *NEAR_ONE, 1.1, 1.5, 2.0, 2.7, 3.0]
)
def test_ln_q_is_the_definition_to_twelve_digits(q: float) -> None:
    for exponent, mantissa in itertools.product(range(-9, 12), (1.0, 1.0000001, 1.7, 9.999)):
        x = mantissa * 10.0**exponent
        assert relative_error(ln_q(x, q), exact_ln_q(x, q)) < 1e-12


@given(odds_values, qs)
def test_ln_q_is_the_definition_anywhere(x: float, q: float) -> None:
    assert relative_error(ln_q(x, q), exact_ln_q(x, q)) < 1e-12


@given(odds_values, st.sampled_from(NEAR_ONE))
def test_ln_q_passes_through_the_logarithm_without_a_step(x: float, q: float) -> None:
    # ln_q(x) = ln x · (1 + (1 − q)·ln x / 2 + …)
    log = math.log(x)
    assert ln_q(x, q) == pytest.approx(log, rel=abs(1 - q) * abs(log) + 1e-15, abs=0)


@given(odds_values)
def test_ln_q_at_one_is_math_log(x: float) -> None:
    assert ln_q(x, 1.0) == math.log(x)
    assert ln_q(x, 1) == math.log(x)


@given(odds_values, odds_values, qs)
def test_ln_q_never_falls_as_x_rises(x: float, y: float, q: float) -> None:
    x, y = sorted((x, y))
    assume(y > x * (1 + 1e-12))  # neighbouring floats may round past each other
    assert ln_q(x, q) <= ln_q(y, q)


@given(odds_values, qs, qs)
def test_ln_q_never_rises_with_q(x: float, p: float, q: float) -> None:
    p, q = sorted((p, q))
    assert ln_q(x, q) <= ln_q(x, p) * (1 + math.copysign(1e-12, ln_q(x, p)))


@given(odds_values, st.floats(1.0001, 3))
def test_ln_q_above_one_saturates(x: float, q: float) -> None:
    assert ln_q(x, q) <= 1 / (q - 1)


def test_ln_q_above_one_stays_below_its_bound_where_a_float_can_tell() -> None:
    assert ln_q(1e6, 1.5) < 2 < ln_q(1e6, 1.4)


@given(qs)
def test_ln_q_of_one_is_zero(q: float) -> None:
    assert ln_q(1.0, q) == 0


# odds and idf


def test_odds_by_hand() -> None:
    assert rsj_odds(2, 10) == 8.5 / 2.5
    assert lucene_odds(2, 10) == 1 + 8.5 / 2.5
    assert rsj_odds(0, 0) == 1
    assert rsj_odds(0.5, 1.5) == 1.5


@pytest.mark.parametrize("odds", [rsj_odds, lucene_odds])
def test_n_above_N_counts_as_N(odds: Callable[[float, float], float]) -> None:
    assert odds(12, 10) == odds(10, 10)
    assert idf(12, 10, 0.5) == idf(10, 10, 0.5) > 0


@given(sizes, sizes)
def test_idf_is_lucenes_bit_for_bit_at_one(n: int, N: int) -> None:
    n = min(n, N)
    assert idf(n, N) == math.log(1 + (N - n + 0.5) / (n + 0.5))


def test_idf_at_one_is_bm25s() -> None:
    scoring = pytest.importorskip("bm25s.scoring")
    for N in (0, 1, 2, 7, 1000, 123_457):
        for n in {0, 1, N // 3, N // 2, N // 2 + 1, N}:
            n = min(n, N)
            assert idf(n, N, odds="lucene") == scoring._score_idf_lucene(n, N)
            assert idf(n, N, odds="robertson") == scoring._score_idf_robertson(n, N)


@given(sizes, sizes, sizes, qs, st.sampled_from(ODDS))
def test_a_rarer_term_never_has_the_smaller_idf(n: int, m: int, N: int, q: float, odds: str) -> None:
    n, m, N = sorted((n, m, N))
    assert idf(n, N, q, odds) >= idf(m, N, q, odds) * (1 - 1e-12) >= 0


@given(sizes, sizes, st.floats(-100, 100))
def test_robertson_is_zero_from_half_the_collection_on(n: int, N: int, q: float) -> None:
    assume(2 * n >= N)
    assert idf(n, N, q, "robertson") == 0


@given(sizes, sizes, st.sampled_from(ODDS))
def test_idf_power_is_a_power_of_idf(n: int, N: int, odds: str) -> None:
    plain = idf(n, N, odds=odds)
    assert idf_power(n, N, 1, odds) == plain
    assert idf_power(n, N, 0, odds) == 1
    assert idf_power(n, N, 2, odds) == pytest.approx(plain * plain)


# q, a, k1, b


@pytest.mark.parametrize(
    ("h", "q"), [(0, 1.0), (0.05, 1 - 7.28 * 0.05), (0.1, 1 - 7.28 * 0.1), (0.1305, 0.05), (0.2, 0.05), (1, 0.05)]
)
def test_q_hapax_is_the_published_line_clamped(h: float, q: float) -> None:
    assert q_hapax(h) == q


@pytest.mark.parametrize(
    ("value", "q"),
    [
        (0.5, 0.5),
        (1, 1.0),
        ("0.5", 0.5),
        ("-2", -2.0),
        ("1e-1", 0.1),
        (" 1 ", 1.0),
        ("auto", "auto"),
        ("hapax", "hapax"),
    ],
)
def test_parse_q_reads_numbers_and_the_two_words(value: str | float, q: str | float) -> None:
    assert parse_q(value) == q
    assert type(parse_q(value)) is type(q)


@pytest.mark.parametrize(
    "value", ["", "x", "Auto", "nan", "inf", "0,5", math.nan, -math.inf, True, None, [0.5], 10**400]
)
def test_parse_q_refuses_everything_else(value: object) -> None:
    with pytest.raises(ValueError, match="q must be a number, 'hapax' or 'auto', got ") as error:
        parse_q(value)  # type: ignore[arg-type]
    assert str(error.value).endswith(f"got {value!r}")


def test_defaults_are_lucenes() -> None:
    assert (K1, B) == (1.2, 0.75)
    for k1, b in [(K1, B), (0, 0), (100.5, 1)]:
        check_bm25(k1, b)


@pytest.mark.parametrize(
    ("q", "a", "analyzer", "scheme"),
    [
        (0.6, None, "standard", Scheme(0.6, 0.6, 1)),
        (0.6, 0.5, "code", Scheme(0.6, 0.6, 0.5)),
        (1, 0, "code", Scheme(1, 1, 0)),
        ("hapax", None, "standard", Scheme(1 - 7.28 * 0.1, 1 - 7.28 * 0.1, 1)),
        ("hapax", 0.25, "code", Scheme(1 - 7.28 * 0.1, 1 - 7.28 * 0.1, 0.25)),
        *[("auto", None, name, Scheme(0.7, 0.8, 0.5)) for name in ("standard", "simple", "word", "english", "")],
        ("auto", None, "code", Scheme(0.9, 0.9, 0.5)),
        ("auto", 1, "code", Scheme(0.9, 0.9, 1)),
        ("auto", 0, "simple", Scheme(0.7, 0.8, 0)),
    ],
)
def test_resolve(q: weighting.Q, a: float | None, analyzer: str, scheme: Scheme) -> None:
    assert resolve(q, a, analyzer=analyzer, hapax_density=0.1) == scheme


def test_auto_knows_every_analyzer() -> None:
    analysis = pytest.importorskip("qidf.analysis")
    assert set(AUTO) == set(analysis.ANALYZERS)


def test_only_hapax_reads_the_density() -> None:
    assert resolve(0.5, analyzer="code", hapax_density=math.nan) == Scheme(0.5, 0.5, 1)
    with pytest.raises(ValueError, match=r"hapax_density must be .*, got nan"):
        resolve("hapax", analyzer="code", hapax_density=math.nan)


# weights


def test_count_factor_at_zero_one_and_between() -> None:
    assert [count_factor(c, 1) for c in (1, 3, 10**6)] == [1, 3, 10**6]
    assert [count_factor(c, 0) for c in (1, 3, 10**6)] == [1, 1, 1]
    assert [count_factor(c, 0.5) for c in (1, 4, 9)] == [1, 2, 3]


@given(queries, qs, qs, st.floats(0, 2), st.sampled_from(ODDS))
def test_term_weights_are_count_factor_times_idf_to_the_bit(
    query: tuple[list[QueryTerm], list[int]], q_shaped: float, q_word: float, a: float, odds: str
) -> None:
    terms, dfs = query
    expected = [
        count_factor(t.count, a) * idf(n, 1000, q_shaped if t.shaped else q_word, odds)
        for t, n in zip(terms, dfs, strict=True)
    ]
    assert term_weights(terms, dfs, 1000, Scheme(q_shaped, q_word, a), odds) == expected


def test_term_weights_by_hand() -> None:
    terms = [QueryTerm("getuser", 1, True), QueryTerm("the", 4, False)]
    weights = term_weights(terms, [1, 90], 100, Scheme(q_shaped=0.5, q_word=1.0, a=0.5))
    odds = 1 + 99.5 / 1.5
    assert weights == pytest.approx([2 * (math.sqrt(odds) - 1), 2 * math.log(1 + 10.5 / 90.5)], rel=1e-14)


def log2_idf(n: int, N: int) -> float:
    """An engine of another kind, negative for common terms."""
    return math.log2((N - n + 0.5) / (n + 0.5))


@given(queries, qs, qs, st.floats(0, 2), st.sampled_from(ODDS), st.sampled_from([idf, log2_idf]))
def test_boosts_follow_the_weights_and_keep_the_largest_score(
    query: tuple[list[QueryTerm], list[int]],
    q_shaped: float,
    q_word: float,
    a: float,
    odds: str,
    engine_idf: Callable[[int, int], float],
) -> None:
    N, scheme = 1000, Scheme(q_shaped, q_word, a)
    terms, dfs = query
    weights = term_weights(terms, dfs, N, scheme, odds)
    result = boosts(terms, dfs, N, scheme, engine_idf, odds)
    assert all(math.isfinite(boost) and boost >= 0 for boost in result)
    if not any(dfs):
        assert result == [t.count for t in terms]
        return
    rows = list(zip(terms, dfs, weights, result, [engine_idf(n, N) for n in dfs], strict=True))
    assert all(boost == 0 for *_, boost, theirs in rows if theirs <= 0)
    known = [row for row in rows if row[1] > 0 and row[4] > 0]
    if any(weight > 0 for _, _, weight, *_ in known):
        scored = sum(boost * theirs for *_, boost, theirs in known)
        assert scored == pytest.approx(sum(t.count * theirs for t, *_, theirs in known))
        scale = scored / sum(weight for _, _, weight, *_ in known)
        for _, _, weight, boost, theirs in rows:
            if theirs > 0:
                assert boost * theirs == pytest.approx(scale * weight)


@given(queries)
def test_boosts_are_the_counts_exactly_where_scheme_and_engine_agree(query: tuple[list[QueryTerm], list[int]]) -> None:
    terms, dfs = query
    assert boosts(terms, dfs, 1000, PLAIN, idf) == [t.count for t in terms]


def test_boosts_of_an_unknown_term_are_finite_and_outside_the_sums() -> None:
    known = [QueryTerm("a", 2, True), QueryTerm("b", 1, False)]
    scheme = Scheme(0.5, 0.9, 0.5)
    alone = boosts(known, [3, 50], 100, scheme, idf)
    *same, unknown = boosts([*known, QueryTerm("c", 1, True)], [3, 50, 0], 100, scheme, idf)
    assert same == alone
    assert 0 < unknown < math.inf


def test_boosts_where_robertson_weighs_every_known_term_zero() -> None:
    assert boosts([QueryTerm("a", 2, False)], [90], 100, PLAIN, idf, "robertson") == [0]


def test_boosts_never_ask_the_engine_for_more_documents_than_there_are() -> None:
    asked: list[tuple[int, int]] = []

    def engine_idf(n: int, N: int) -> float:
        asked.append((n, N))
        return 1.0

    boosts([QueryTerm("a", 1, False), QueryTerm("b", 1, False)], [12, 0], 10, PLAIN, engine_idf)
    assert asked == [(10, 10), (0, 10)]


def test_boosts_of_nothing_are_nothing() -> None:
    assert boosts([], [], 10, PLAIN, idf) == []
    assert term_weights([], [], 10, PLAIN) == []


# errors

ONE = [QueryTerm("t", 1, False)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rsj_odds(-1, 10), "n must be a finite number of at least 0, got -1"),
        (lambda: rsj_odds(1, -10), "N must be a finite number of at least 0, got -10"),
        (lambda: lucene_odds(math.nan, 10), "n must be .*, got nan"),
        (lambda: lucene_odds(1, math.inf), "N must be .*, got inf"),
        (lambda: idf(1, 10**400), "N must be .*, got 1000"),
        (lambda: idf("1", 10), "n must be .*, got '1'"),  # type: ignore[arg-type]
        (lambda: idf(1, 10, math.nan), "q must be a finite number, got nan"),
        (lambda: idf(1, 10, odds="bm25"), "odds must be one of lucene, robertson, atire, bm25l, bm25., got 'bm25'"),
        (lambda: idf(1, 10**9, -100), r"q must .* got q = -100"),
        (lambda: ln_q(0, 1), "x must be greater than 0, got 0"),
        (lambda: ln_q(-1.5, 0.5), "x must be greater than 0, got -1.5"),
        (lambda: ln_q(math.inf, 1), "x must be a finite number, got inf"),
        (lambda: ln_q(2, -math.inf), "q must be a finite number, got -inf"),
        (lambda: ln_q(1e12, -100), "q must .* got q = -100.0 at x = 1000000000000.0"),
        (lambda: ln_q(1e-9, 100), "q must .* got q = 100.0"),
        (lambda: ln_q(10, -1.7e308), r"q must .* got q = -1.7e\+308"),
        (lambda: idf_power(1, 10, -1), "gamma must be .* at least 0, got -1"),
        (lambda: idf_power(1, 10**9, 1000), "gamma must .* got 1000"),
        (lambda: count_factor(0, 0.5), "count must be .* at least 1, got 0"),
        (lambda: count_factor(2, -1), "a must be .* at least 0, got -1"),
        (lambda: count_factor(2, math.inf), "a must be .*, got inf"),
        (lambda: count_factor(10, 1000), "a must .* got 1000"),
        (lambda: q_hapax(-0.1), "hapax_density must be a finite number from 0 to 1, got -0.1"),
        (lambda: q_hapax(1.1), "hapax_density must be .*, got 1.1"),
        (lambda: q_hapax(math.nan), "hapax_density must be .*, got nan"),
        (lambda: check_bm25(-0.1, 0.5), "k1 must be a finite number of at least 0, got -0.1"),
        (lambda: check_bm25(math.inf, 0.5), "k1 must be .*, got inf"),
        (lambda: check_bm25(True, 0.5), "k1 must be .*, got True"),
        (lambda: check_bm25("1.2", 0.5), "k1 must be .*, got '1.2'"),  # type: ignore[arg-type]
        (lambda: check_bm25(1.2, -0.1), "b must be a finite number from 0 to 1, got -0.1"),
        (lambda: check_bm25(1.2, 1.01), "b must be .*, got 1.01"),
        (lambda: check_bm25(1.2, None), "b must be .*, got None"),  # type: ignore[arg-type]
        (lambda: resolve("magic", analyzer="code", hapax_density=0), "q must be .*, got 'magic'"),  # type: ignore[arg-type]
        (lambda: resolve("auto", -1, analyzer="code", hapax_density=0), "a must be .* at least 0, got -1"),
        (lambda: resolve(1, math.nan, analyzer="code", hapax_density=0), "a must be .*, got nan"),
        (lambda: term_weights(ONE, [1, 2], 10, PLAIN), "dfs must hold one df for each of 1 terms, got 2"),
        (lambda: boosts(ONE, [], 10, PLAIN, idf), "dfs must hold one df for each of 1 terms, got 0"),
        (lambda: boosts(ONE, [3], 10, PLAIN, lambda n, N: math.nan), r"engine_idf\(3, 10\) must be .*, got nan"),
        (lambda: boosts(ONE, [3], 10, PLAIN, lambda n, N: 5e-324), "scheme must keep .* got Scheme"),
    ],
)
def test_errors_name_the_argument_and_what_was_got(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_importing_the_method_imports_nothing_heavy() -> None:
    code = "import qidf.weighting, sys; print([m for m in ('numpy', 'click', 'qidf.analysis') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_dph_by_hand() -> None:
    # f = 0.2; log2(2 · 8/10 · 100/5) = 5; log2(2π · 2 · 0.8) = 3.32956
    assert dph(2, 10, 8, 5, 100) == pytest.approx(0.64 / 3 * (2 * 5 + 0.5 * 3.3295657), rel=1e-6)


def test_dph_of_a_document_that_is_nothing_but_the_term() -> None:
    assert dph(7, 7, 3, 20, 100) == 0.0


def test_dph_of_a_term_that_stands_everywhere_is_negative() -> None:
    assert dph(1, 100, 100, 5000, 100) < 0 < dph(1, 100, 100, 1, 100)


@pytest.mark.parametrize(
    "arguments", [(0, 1, 1, 1, 1), (1, 0, 1, 1, 1), (1, 2, 0, 1, 1), (1, 2, 1, 0, 1), (1, 2, 1, 1, 0)]
)
def test_dph_of_counts_that_are_none_is_an_error(arguments: tuple[float, float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be a finite number"):
        dph(*arguments)
