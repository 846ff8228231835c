"""Is a difference between two systems more than the queries' chance? The paired bootstrap over queries.

Efron & Tibshirani (1993), chapter 13, for intervals; Sakai (2006) for its use on rankings.
"""

# ruff: noqa: N806 (B is the literature's letter)
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000

_AT_ONCE = 2_000_000  # numbers drawn at once: some 16 MB


class Difference(NamedTuple):
    """Of the second system's mean to the first's.

    Attributes
    ----------
    mean : float
    low, high : float
        95% interval: percentiles 2.5 and 97.5 of the resampled means.
    reversals : float
        Share of the resamples whose mean has not the sign of `mean`.
    p : float
        2 · min(share of means ≤ 0, share of means ≥ 0) + 1/(B + 1), at most 1.
    won, lost : int
        Queries.
    """

    mean: float
    low: float
    high: float
    reversals: float
    p: float
    won: int
    lost: int


def paired(first: Sequence[float], second: Sequence[float], resamples: int = RESAMPLES, seed: int = 0) -> Difference:
    """Return the difference of two systems on the same queries, in the same order.

    Raises
    ------
    ValueError
        The two have not as many values, or none.
    """
    import numpy as np

    if len(first) != len(second) or not len(first):
        raise ValueError(f"two systems need values of the same queries, got {len(first)} and {len(second)}")
    gains = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    generator = np.random.default_rng(seed)
    means = []
    at_once = max(1, _AT_ONCE // len(gains))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start), len(gains)
        means.append(gains[generator.integers(len(gains), size=size)].mean(axis=1))
    return _difference(gains, np.concatenate(means))


def reselected(
    first: Sequence[float], others: NDArray[np.float64], resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return the difference of the best of several systems, chosen with the labels, to the first.

    The interval knows of the choice: each resample of queries chooses its own best. `mean` is that of the best on all
    queries; `won` and `lost` are its.

    Parameters
    ----------
    first : sequence of float
        Values of the queries.
    others : array, shape (systems, queries)
    """
    import numpy as np

    base = np.asarray(first, dtype=np.float64)
    if others.ndim != 2 or others.shape[1] != len(base) or not others.size:
        raise ValueError(f"systems need values of the same {len(base)} queries, got an array of shape {others.shape}")
    gains = others - base
    queries, generator, drawn = len(base), np.random.default_rng(seed), []
    at_once = max(1, _AT_ONCE // queries)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        picked = generator.integers(queries, size=(rows, queries)) + np.arange(rows)[:, None] * queries
        times = np.bincount(picked.reshape(-1), minlength=rows * queries).reshape(rows, queries)
        drawn.append((times @ gains.T).max(axis=1) / queries)
    return _difference(gains[gains.mean(axis=1).argmax()], np.concatenate(drawn))


def _difference(gains: NDArray[np.float64], drawn: NDArray[np.float64]) -> Difference:
    import numpy as np

    B = len(drawn)
    low, high = np.percentile(drawn, [2.5, 97.5])
    mean = float(gains.mean())
    below, above = float((drawn <= 0).mean()), float((drawn >= 0).mean())
    reversed_sign = below if mean > 0 else above if mean < 0 else 0.0
    return Difference(
        mean=mean,
        low=float(low),
        high=float(high),
        reversals=reversed_sign,
        p=min(1.0, 2 * min(below, above) + 1 / (B + 1)),
        won=int((gains > 1e-9).sum()),
        lost=int((gains < -1e-9).sum()),
    )
