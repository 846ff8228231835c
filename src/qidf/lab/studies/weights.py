"""q, what predicts it, and the baselines idf^γ and DFR-DPH, on each collection and over all."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.typing import NDArray

from qidf.lab.beir import read_corpus, read_judgments
from qidf.lab.bootstrap import paired
from qidf.lab.studies.base import SUMMARY, Cell, Settings, Table, about, summary_row
from qidf.lab.sweeping import GAMMAS, MEASURE, QS, Asked, Curve, oracle, sweep, sweep_all
from qidf.lab.temporary import temporary_index
from qidf.weighting import HAPAX_RANGE, HAPAX_SLOPE


def measure(folder: str, settings: Settings) -> Cell:
    """Sweep q and γ, and measure DPH, the predictor and `auto` beside them."""
    judgments = read_judgments(folder, settings.queries, settings.seed)
    with temporary_index(read_corpus(folder), settings.analyzer) as index:
        asked = Asked(index, judgments)
        swept = sweep_all(asked, seed=settings.seed, resamples=settings.resamples)
        base = swept.curves[1.0].at(1.0)
        gammas = sweep(asked, GAMMAS, asked.by_gamma(1.0))
        best = oracle(gammas, settings.resamples, settings.seed, base)
        return {
            "about": about(folder),
            "analyzer": settings.analyzer,
            "tokens": index.tokens,
            **swept.plain(),
            "damped": swept.curves[0.5].means[-1],
            "gamma": {
                "gamma": list(GAMMAS),
                MEASURE: gammas.means,
                "best": best.setting,
                "reselected": best.reselected._asdict(),
            },
            "dph": _against(base, asked.dph(), settings),
            "rarity": _rarity(asked, swept.curves[1.0]),
        }


def _against(base: NDArray[np.float64], values: NDArray[np.float64], settings: Settings) -> Cell:
    difference = paired(base.tolist(), values.tolist(), settings.resamples, settings.seed)
    return {MEASURE: float(values.mean()), "difference": difference._asdict()}


RARITIES = ((1, 2), (3, 20), (21, 200), (201, None))
"""Bands of the df of a query's rarest identifier-shaped term."""


def _rarity(asked: Asked, curve: Curve) -> list[Cell]:
    """Return the best q of the queries by the df of their rarest identifier-shaped term."""
    terms = asked.terms
    rarest = np.full(len(terms.offsets) - 1, 0)
    for i, (start, stop) in enumerate(zip(terms.offsets, terms.offsets[1:], strict=False)):
        dfs = terms.dfs[start:stop][terms.shaped[start:stop] > 0]
        rarest[i] = dfs.min() if dfs.size else 0
    rows = []
    for low, high in ((0, 0), *RARITIES):
        chosen = (rarest >= low) & (rarest <= (high if high is not None else rarest.max()))
        if chosen.any():
            own = Curve(curve.settings, curve.values[:, chosen])
            at_1, best = float(own.at(1.0).mean()), float(own.at(own.best).mean())
            rows.append(
                {"low": low, "high": high, "queries": int(chosen.sum()), "q": own.best, "bm25": at_1, "best": best}
            )
    return rows


def tables(cells: dict[str, Cell]) -> list[Table]:
    """Return the tables of all collections."""
    head = ["collection", "documents", "queries", "h", "BM25", "best q, a = 1", "nDCG@10", "best q, a = 0.5", "nDCG@10"]
    head += ["hapax q", "nDCG@10", "recovery", "auto", "best γ", "idf^γ", "DPH"]
    rows = []
    for name, cell in cells.items():
        one, half = cell["oracles"]
        hapax, auto = cell["predicted"]["hapax"], cell["predicted"]["auto"]
        rows.append(
            [
                name,
                f"{cell['documents']:,}",
                f"{cell['queries']:,}",
                f"{cell['hapax_density']:.3f}",
                f"{cell['bm25']:.4f}",
                f"{one['q']:g}",
                f"{one[MEASURE]:.4f}",
                f"{half['q']:g}",
                f"{half[MEASURE]:.4f}",
                f"{hapax['q']:.2f}",
                f"{hapax[MEASURE]:.4f}",
                "" if hapax["recovery"] is None else f"{hapax['recovery']:.2f}",
                f"{auto[MEASURE]:.4f}",
                f"{cell['gamma']['best']:g}",
                f"{max(cell['gamma'][MEASURE]):.4f}",
                f"{cell['dph'][MEASURE]:.4f}",
            ]
        )
    notes = (
        "Best q and best γ are chosen with the labels of the queries they are measured on: upper bounds.",
        "Recovery: (nDCG(q) − nDCG(1)) / (nDCG(best q) − nDCG(1)) with a = 1.",
    )
    return [
        Table("Weights", head, rows, notes),
        _gains(cells),
        _slope(cells),
        _by_rarity(cells),
    ]


def _gains(cells: dict[str, Cell]) -> Table:
    def gains(value: Callable[[Cell], float]) -> list[float]:
        return [value(cell) - cell["bm25"] for cell in cells.values()]

    rows = [
        summary_row("hapax (the published predictor), a = 1", gains(lambda c: float(c["predicted"]["hapax"][MEASURE]))),
        summary_row("auto", gains(lambda c: float(c["predicted"]["auto"][MEASURE]))),
        summary_row("q = 1, a = 0.5 (damping alone)", gains(lambda c: float(c["damped"]))),
        summary_row("best q, a = 1 (labels)", gains(lambda c: float(c["oracles"][0][MEASURE]))),
        summary_row("best q, a = 0.5 (labels)", gains(lambda c: float(c["oracles"][1][MEASURE]))),
        summary_row("best idf^γ, a = 1 (labels)", gains(lambda c: float(max(c["gamma"][MEASURE])))),
        summary_row("DFR-DPH", gains(lambda c: float(c["dph"][MEASURE]))),
    ]
    rows += [
        summary_row(f"one q = {q:g} for all, a = 1", gains(lambda c, i=i: float(c["curves"][0][MEASURE][i])))  # type: ignore[misc]
        for i, q in enumerate(QS)
        if q in (0.4, 0.5, 0.6, 0.7, 0.8)
    ]
    notes = ("Intervals are over collections: what another collection of this kind could bring.",)
    return Table(f"Gain over {len(cells)} collections", SUMMARY, rows, notes)


def _slope(cells: dict[str, Cell]) -> Table:
    """Refit the slope of q = 1 − s·h on all groups but one, and measure it on that one."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells.values():
        groups.setdefault(str(cell["about"].get("language", cell["about"].get("kind", "other"))), []).append(cell)
    slopes = np.arange(0, 30.01, 0.25)
    gains = {
        name: [[_predicted(cell, s) - cell["bm25"] for s in slopes] for cell in own] for name, own in groups.items()
    }
    rows = []
    for name, own in groups.items():
        others = [row for other, rest in gains.items() if other != name for row in rest]
        published = [_predicted(cell, HAPAX_SLOPE) - cell["bm25"] for cell in own]
        best = [cell["oracles"][0][MEASURE] - cell["bm25"] for cell in own]
        row = [name, str(len(own)), f"{np.mean(published):+.4f}"]
        if others:
            chosen = int(np.mean(others, axis=0).argmax())
            row += [f"{slopes[chosen]:g}", f"{np.mean([gain[chosen] for gain in gains[name]]):+.4f}"]
        else:
            row += ["", ""]
        rows.append([*row, f"{np.mean(best):+.4f}"])
    head = [
        "left out",
        "collections",
        f"gain at slope {HAPAX_SLOPE:g}",
        "slope of the others",
        "its gain here",
        "labels",
    ]
    return Table("The predictor's slope, refitted without each group", head, rows)


def _predicted(cell: Cell, slope: float) -> float:
    """Return nDCG@10 at q = 1 − slope·h, between the values of the sweep."""
    low, high = HAPAX_RANGE
    q = min(high, max(low, 1 - slope * cell["hapax_density"]))
    return float(np.interp(q, cell["curves"][0]["q"], cell["curves"][0][MEASURE]))


def _by_rarity(cells: dict[str, Cell]) -> Table:
    rows = []
    for low, high in ((0, 0), *RARITIES):
        own = [row for cell in cells.values() for row in cell["rarity"] if row["low"] == low and row["queries"] >= 20]
        if not own:
            continue
        name = "none" if low == 0 else f"{low:,} to {high:,}" if high else f"over {low - 1:,}"
        gain = float(np.mean([row["best"] - row["bm25"] for row in own]))
        middle = median([row["q"] for row in own])
        rows.append([name, str(len(own)), f"{sum(row['queries'] for row in own):,}", f"{middle:g}", f"{gain:+.4f}"])
    head = ["df of the rarest identifier", "collections", "queries", "best q, median", "its mean gain"]
    return Table("Best q by the rarest identifier-shaped term of a query (a = 1)", head, rows)
