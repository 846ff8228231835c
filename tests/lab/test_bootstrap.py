"""The paired bootstrap against scipy's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.lab.bootstrap import paired
from tests.engines.required import load

values = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30)


def test_the_interval_is_scipys() -> None:
    scipy_stats = load("lab", "scipy.stats")
    numpy = load("lab", "numpy")
    chance = random.Random(3)
    first = [chance.random() for _ in range(200)]
    second = [one + chance.gauss(0.03, 0.2) for one in first]
    gains = [b - a for a, b in zip(first, second, strict=True)]
    theirs = scipy_stats.bootstrap(
        (gains,), numpy.mean, n_resamples=20_000, method="percentile", rng=numpy.random.default_rng(5)
    )
    ours = paired(first, second, 20_000, seed=1)
    interval = theirs.confidence_interval
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), abs=0.001)
    assert ours.mean == pytest.approx(sum(gains) / 200)


@given(values, st.integers(0, 5))
def test_what_holds_for_any_difference(pairs: list[tuple[float, float]], seed: int) -> None:
    first, second = ([pair[i] for pair in pairs] for i in (0, 1))
    own = paired(first, second, 200, seed)
    assert own == paired(first, second, 200, seed), "the seed decides"
    gains = [b - a for a, b in pairs]
    assert min(gains) - 1e-9 <= own.low <= own.high <= max(gains) + 1e-9
    assert own.won == sum(gain > 1e-9 for gain in gains)
    assert own.lost == sum(gain < -1e-9 for gain in gains)
    assert 0 < own.p <= 1
    assert 0 <= own.reversals <= 1


def test_no_difference_is_none() -> None:
    assert paired([0.5, 0.2], [0.5, 0.2]) == (0, 0, 0, 0, 1, 0, 0)


def test_a_sure_difference() -> None:
    own = paired([0.0] * 50, [0.1] * 50, 1000)
    assert (own.low, own.high, own.reversals) == pytest.approx((0.1, 0.1, 0))
    assert own.p == pytest.approx(1 / 1001)


def test_of_other_queries() -> None:
    with pytest.raises(ValueError, match="values of the same queries, got 1 and 2"):
        paired([1], [1, 2])
    with pytest.raises(ValueError, match="got 0 and 0"):
        paired([], [])
