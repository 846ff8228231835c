"""What every study has: cells, tables, and what is said over collections. Measures nothing, prints nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from qidf.lab.bootstrap import RESAMPLES
from qidf.lab.collection import ABOUT

Cell = dict[str, Any]
Row = list[str]


@dataclass(frozen=True)
class Table:
    """A table of a study: a title, its head, its rows, and what is to be said below."""

    title: str
    head: Row
    rows: list[Row]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What a study is run with: queries of a collection at most, drawn by the seed; resamples of the bootstrap."""

    queries: int | None = None
    seed: int = 0
    resamples: int = RESAMPLES
    analyzer: str = "standard"


@dataclass(frozen=True)
class Study:
    """A study by its name.

    Attributes
    ----------
    summary : str
        What it asks, in a line.
    measure : callable
        (folder of a collection, Settings) → Cell.
    tables : callable
        {name of a collection: Cell} → tables.
    version : int
        Goes up when a cell's content changes, so that older ones are measured again.
    """

    summary: str
    measure: Callable[[str, Settings], Cell]
    tables: Callable[[dict[str, Cell]], list[Table]]
    version: int = 1


def over_collections(gains: Sequence[float], seed: int = 0) -> dict[str, float]:
    """Return the mean and the median of gains of independent collections, each with a 95 % interval by bootstrap."""
    values = np.asarray(gains, dtype=np.float64)
    drawn = values[np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))]
    mean, middle = np.percentile(drawn.mean(axis=1), [2.5, 97.5]), np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return {
        "collections": len(values),
        "mean": float(values.mean()),
        "mean_low": float(mean[0]),
        "mean_high": float(mean[1]),
        "median": median(gains),
        "median_low": float(middle[0]),
        "median_high": float(middle[1]),
        "worst": float(values.min()),
    }


def summary_row(name: str, gains: Sequence[float]) -> Row:
    """Return a row of `SUMMARY`."""
    own = over_collections(gains)
    return [
        name,
        f"{own['mean']:+.4f}",
        f"{own['mean_low']:+.4f} to {own['mean_high']:+.4f}",
        f"{own['median']:+.4f}",
        f"{own['median_low']:+.4f} to {own['median_high']:+.4f}",
        f"{own['worst']:+.4f}",
    ]


SUMMARY = ["gain of nDCG@10 over BM25", "mean", "95 %", "median", "95 %", "worst"]


def about(folder: str) -> Cell:
    """Return what collection.json says, nothing for a collection of somebody else's."""
    try:
        with open(os.path.join(folder, ABOUT), encoding="utf-8") as file:
            about = json.load(file)
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}
