"""`qidf sweep`: a measure as q goes from 0.05 to 1, and what the best choice, the predicted and `auto` come to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, say, say_json, table
from qidf.cli.progress import bar

if TYPE_CHECKING:
    from qidf.lab.bootstrap import Difference
    from qidf.lab.sweeping import Sweep

EXAMPLES = """\
qidf sweep beir/
qidf sweep beir/ --analyzer code --a 1 --queries 1000 --seed 7
qidf sweep beir/ --q 0.5 --q 0.7 --q 1 --json
"""

_BAR = 16


@click.command("sweep", short_help="A measure as q goes from 0.05 to 1.", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("folder", metavar="DIR", type=click.Path(readable=False))
@options.analyzer("How corpus.jsonl is indexed.")
@click.option("--q", "qs", metavar="NUMBER", type=float, multiple=True, help="Values; several times. [default: 20]")
@click.option("--a", "exponents", type=float, multiple=True, help="Exponents of counts. [default: 1 and 0.5]")
@options.sampled
@options.json_output
def command(
    folder: str,
    analyzer: str,
    qs: tuple[float, ...],
    exponents: tuple[float, ...],
    most: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure nDCG@10 of the judged queries of DIR (BEIR's layout) for many values of q.

    The best value is chosen with the labels, so it is an upper bound (an oracle), not what you would get. Its
    interval chooses anew in each resample of the queries.
    """
    from qidf.lab.beir import read_corpus, read_judgments
    from qidf.lab.sweeping import QS, Asked, sweep_all
    from qidf.lab.temporary import temporary_index
    from qidf.weighting import resolve

    settings = tuple(sorted({*qs, 1.0})) if qs else QS
    chosen = tuple(dict.fromkeys(exponents)) or (1.0, 0.5)
    for q in settings:
        for a in chosen:
            resolve(q, a, analyzer=analyzer, hapax_density=0.0)
    judgments = read_judgments(folder, most, seed)
    with (
        bar("documents") as building,
        temporary_index(read_corpus(folder), analyzer, building) as index,
        bar("values") as progress,
    ):
        swept = sweep_all(Asked(index, judgments), settings, chosen, seed=seed, progress=progress)
    if as_json:
        say_json({"collection": folder, "analyzer": analyzer, **swept.plain()})
        return
    for line in _render(folder, analyzer, swept, Style(sys.stdout)):
        say(line)


def _render(folder: str, analyzer: str, swept: Sweep, style: Style) -> Iterator[str]:
    yield style("path", clean(folder)) + style("dim", f"  analyzer {clean(analyzer)}")
    yield f"{count(swept.queries, 'judged query', 'judged queries')}, {count(swept.documents, 'document')}"
    yield ""
    means = [mean for curve in swept.curves.values() for mean in curve.means]
    low, high = min(means), max(means)
    rows = [["q", *(text for a in swept.curves for text in (f"a = {a:g}", "nDCG@10 "))]]
    for i, q in enumerate(swept.settings):
        row = [f"{q:g}"]
        for curve in swept.curves.values():
            share = (curve.means[i] - low) / (high - low) if high > low else 0.0
            row += [_bar(share, style), f"{curve.means[i]:.4f}" + ("*" if q == curve.best else " ")]
        rows.append(row)
    yield from _table(rows, {0}, style)
    yield ""
    rows = [["", "nDCG@10", "against BM25, 95 %", "p", "won", "lost"]]
    rows.append(["BM25 (q = 1, a = 1)", f"{swept.bm25:.4f}", "", "", "", ""])
    for a, best in swept.oracles.items():
        rows.append([f"q = {best.setting:g}, a = {a:g}*", f"{best.mean:.4f}", *_against(best.reselected)])
    for name, own in swept.predicted.items():
        label = name if own.q is None else f"{name}, q = {own.q:.3g}"
        label += "" if own.recovery is None else f" ({own.recovery:.0%} of *)"
        rows.append([label, f"{own.mean:.4f}", *_against(own.difference)])
    yield from _table(rows, {3, 4, 5}, style)
    yield ""
    text = "* chosen with the labels of these queries: an upper bound. Its interval chooses anew in each resample."
    for line in fold(text, min(style.columns or 100, 100)):
        yield style("dim", line)


def _table(rows: list[list[str]], right: set[int], style: Style) -> Iterator[str]:
    head, *rest = table(rows, right)
    yield style("dim", head)
    yield from rest


def _against(own: Difference) -> list[str]:
    return [f"{own.mean:+.4f}  {own.low:+.4f} to {own.high:+.4f}", f"{own.p:.4f}", f"{own.won:,}", f"{own.lost:,}"]


def _bar(share: float, style: Style) -> str:
    mark = "█" if style.can("█") else "#"
    return (mark * round(share * _BAR)).ljust(_BAR)
