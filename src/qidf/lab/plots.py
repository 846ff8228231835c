"""The plots of the studies, as SVG text. Knows cells; measures nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qidf.engines.base import missing
from qidf.lab.measures import BUDGETS
from qidf.lab.studies import Cell
from qidf.lab.studies.analyzers import ANALYZED
from qidf.lab.sweeping import MEASURE

_COLORS = ("#1f6f8b", "#c8553d", "#588157", "#8e6c8a", "#b08900", "#4a4e69", "#2a9d8f", "#e76f51", "#6d597a", "#577590")


def plot(name: str, cells: dict[str, Cell]) -> str:
    """Return the plot of a study.

    Raises
    ------
    EngineError
        matplotlib is not installed.
    """
    return draw(lambda axes: _DRAWN[name](axes, cells))


def draw(fill: Callable[[Any], None], size: tuple[float, float] = (9, 5)) -> str:
    """Return the SVG of one pair of axes that `fill` draws into; `size` is in inches."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("matplotlib", "lab") from None
    look: Any = {
        "svg.hashsalt": "qidf",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.axisbelow": True,
    }
    with matplotlib.rc_context(look):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        fill(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def inline(svg: str, prefix: str) -> str:
    """Return an SVG as it may stand within a page beside others: without prologue and metadata, ids of its own."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)


def curves(axes: Any, swept: Cell) -> None:
    """Draw one collection's nDCG@10 against q, with BM25, `hapax` and `auto` beside."""
    for i, own in enumerate(swept["curves"]):
        axes.plot(own["q"], own[MEASURE], "o-", markersize=3, color=_COLORS[i], label=f"a = {own['a']:g}")
    axes.axhline(swept["bm25"], color="#888888", linewidth=1, label="BM25")
    axes.axhline(swept["predicted"]["auto"][MEASURE], color=_COLORS[2], linewidth=1.5, linestyle="--", label="auto")
    hapax = swept["predicted"]["hapax"]
    axes.plot([hapax["q"]], [hapax[MEASURE]], "s", color="black", label="hapax")
    axes.set(xlabel="q (1 is BM25)", ylabel=MEASURE)
    axes.legend(frameon=False)


def spectrum(axes: Any, bands: Sequence[tuple[int, int, int]]) -> None:
    """Draw how many terms have a df in each band (low, high, terms)."""
    labels = [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high, _ in bands]
    axes.bar(range(len(bands)), [terms for _, _, terms in bands], color=_COLORS[0])
    axes.set_xticks(range(len(bands)), labels, rotation=60, ha="right", fontsize="small")
    axes.set_yscale("log")
    axes.set(xlabel="documents that hold the term (df)", ylabel="terms")


def _weights(axes: Any, cells: dict[str, Cell]) -> None:
    """Draw the gain over BM25 as q falls, a line a collection, their mean on top."""
    rows = []
    for cell in cells.values():
        curve = cell["curves"][0]
        gain = np.array(curve[MEASURE]) - cell["bm25"]
        rows.append(gain)
        axes.plot(curve["q"], gain, color=_COLORS[_group(cell) % len(_COLORS)], alpha=0.35, linewidth=1)
    qs = next(iter(cells.values()))["curves"][0]["q"]
    axes.plot(qs, np.mean(rows, axis=0), color="black", linewidth=2.5, label="mean, a = 1")
    half = [np.array(cell["curves"][1][MEASURE]) - cell["bm25"] for cell in cells.values()]
    axes.plot(qs, np.mean(half, axis=0), color="black", linewidth=2, linestyle="--", label="mean, a = 0.5")
    for name in ("hapax", "auto"):
        gain = float(np.mean([cell["predicted"][name][MEASURE] - cell["bm25"] for cell in cells.values()]))
        axes.axhline(
            gain, color=_COLORS[1 if name == "auto" else 0], linewidth=1.2, linestyle=":", label=f"{name}, mean"
        )
    axes.axhline(0, color="#888888", linewidth=1)
    axes.set(xlabel="q (1 is BM25)", ylabel=f"gain of {MEASURE} over BM25", title=f"{len(cells)} collections")
    axes.legend(frameon=False)


def _group(cell: Cell) -> int:
    about = cell["about"]
    key = str(about.get("language", about.get("kind", "")))
    return sum(map(ord, key))


def _analyzers(axes: Any, cells: dict[str, Cell]) -> None:
    """Draw the means of each analyzer: BM25, auto, and the best q."""
    kinds: tuple[tuple[str, Callable[[Cell], float]], ...] = (
        ("BM25", lambda own: own["bm25"]),
        ("auto", lambda own: own["predicted"]["auto"][MEASURE]),
        ("best q, a = 1 (labels)", lambda own: own["oracles"][0][MEASURE]),
    )
    places = np.arange(len(ANALYZED))
    for i, (label, value) in enumerate(kinds):
        heights = [float(np.mean([value(cell[name]) for cell in cells.values()])) for name in ANALYZED]
        axes.bar(places + 0.27 * (i - 1), heights, 0.25, color=_COLORS[i], label=label)
    axes.set_xticks(places, ANALYZED)
    axes.set(ylabel=f"mean {MEASURE}", title=f"{len(cells)} collections")
    axes.legend(frameon=False)


def scaling(axes: Any, cells: dict[str, Cell]) -> None:
    """Draw the gains over BM25 against the number of documents."""
    for i, (name, cell) in enumerate(cells.items()):
        sizes = [own["documents"] for own in cell["sizes"]]
        best = [own["oracles"][0][MEASURE] - own["bm25"] for own in cell["sizes"]]
        auto = [own["predicted"]["auto"][MEASURE] - own["bm25"] for own in cell["sizes"]]
        color = _COLORS[i % len(_COLORS)]
        axes.plot(sizes, best, "o-", color=color, label=f"{name}, best q".removeprefix(", "))
        axes.plot(sizes, auto, "D--", color=color, label=f"{name}, auto".removeprefix(", "))
    axes.set_xscale("log")
    axes.axhline(0, color="#888888", linewidth=1)
    axes.set(xlabel="documents", ylabel=f"gain of {MEASURE} over BM25", title="The same queries among more documents")
    axes.legend(frameon=False, fontsize="small")


def _budgets(axes: Any, cells: dict[str, Cell]) -> None:
    """Draw the mean share of the relevant documents against the budget."""
    for i, name in enumerate(("BM25", "hapax", "auto", "best q")):
        means = [
            float(np.mean([cell["results"][name]["means"][f"R@{budget}-tokens"] for cell in cells.values()]))
            for budget in BUDGETS
        ]
        axes.plot(BUDGETS, means, "o-", color=_COLORS[i], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BUDGETS, [f"{budget:,}" for budget in BUDGETS])
    axes.set(xlabel="tokens", ylabel="share of the relevant documents", title=f"{len(cells)} collections")
    axes.legend(frameon=False)


def _expansion(axes: Any, cells: dict[str, Cell]) -> None:
    """Draw each collection's auto and expanded against the BM25 of the reindexed texts."""
    for i, name in enumerate(("BM25", "auto", "expanded")):
        points = [(cell["means"]["code BM25"], cell["means"][name]) for cell in cells.values()]
        axes.plot(*zip(*points, strict=True), "o", color=_COLORS[i], label=name, alpha=0.7)
    most = max(max(cell["means"].values()) for cell in cells.values())
    axes.plot([0, most], [0, most], color="#888888", linewidth=1)
    axes.set(xlabel=f"{MEASURE} of BM25, reindexed with code", ylabel=f"{MEASURE} on the frozen index")
    axes.set_title(f"{len(cells)} collections")
    axes.legend(frameon=False)


_DRAWN = {
    "weights": _weights,
    "analyzers": _analyzers,
    "scaling": scaling,
    "budgets": _budgets,
    "expansion": _expansion,
}
