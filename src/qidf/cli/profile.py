"""`qidf profile`: what a collection looks like to an idf."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, fold, say, say_json, table

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Index
    from qidf.spectrum import Band, Spectrum

_EIGHTHS = " ▏▎▍▌▋▊▉█"


EXAMPLES = """\
qidf profile
qidf profile src --json
qidf profile src --index /tmp/idx
qidf profile --index /tmp/idx --no-refresh
qidf profile --engine tantivy:/srv/index#body
"""


@click.command(
    "profile", short_help="Show the term statistics of a collection.", epilog=options.epilog("Examples", EXAMPLES)
)
@options.place
@options.json_output
def command(path: str | None, index: str | None, no_refresh: bool, engine: str | None, as_json: bool) -> None:
    """Show the term statistics of PATH (default: the current directory), and the q that its hapaxes predict.

    A hapax here is a term that stands in one document (df = 1), as in the published predictor q = 1 − 7.28·h, with h
    the hapaxes per token, clamped to 0.05 … 1.
    """
    from qidf.cli.places import open_place

    opened = open_place(path, index, engine, no_refresh=no_refresh)
    spectrum = opened.spectrum()
    if as_json:
        say_json(
            {
                "documents": spectrum.documents,
                "tokens": spectrum.tokens,
                "terms": spectrum.terms,
                "hapax_terms": spectrum.hapax_terms,
                "hapax_density": spectrum.hapax_density,
                "q_hapax": spectrum.q_hapax,
                "df_spectrum": [band._asdict() for band in spectrum.bands],
                "hapax_density_readings": spectrum.readings,
            }
        )
        return
    for line in _render(opened, spectrum, Style(sys.stdout)):
        say(line)


def _render(index: Index | Engine, spectrum: Spectrum, style: Style) -> list[str]:
    from qidf.index.search import Index

    width = min(style.columns or 100, 100)
    share = 100 * spectrum.hapax_terms / max(spectrum.terms, 1)
    facts = [
        ["documents", f"{spectrum.documents:,}", ""],
        ["tokens", f"{spectrum.tokens:,}", f"{spectrum.tokens / max(spectrum.documents, 1):,.0f} a document"],
        ["terms", f"{spectrum.terms:,}", ""],
        ["hapaxes", f"{spectrum.hapax_terms:,}", f"terms in one document only: {share:.0f} % of the terms"],
        ["hapax density", f"{spectrum.hapax_density:.5f}", "hapaxes per token"],
        ["q, predicted", f"{spectrum.q_hapax:.3f}", "by 1 - 7.28 x density, within 0.05 and 1"],
    ]
    name = index.root or index.path if isinstance(index, Index) else index.url
    head = f"{style('path', clean(name))}  {style('dim', f'analyzer {index.analyzer}')}"
    out = [head, "", *table(facts, {1}), ""]
    out += [style("dim", "How many terms stand in how many documents (bars grow with the logarithm)"), ""]
    out += _bars(spectrum.bands, width, style)
    return [*out, "", *fold(_meaning(index, spectrum), width)]


def _bars(bands: list[Band], width: int, style: Style) -> list[str]:
    blocks = style.can(_EIGHTHS)
    dash = "–" if style.can("–") else "-"
    names = [f"{band.low:,}" if band.low == band.high else f"{band.low:,}{dash}{band.high:,}" for band in bands]
    left = max((len(name) for name in names), default=0)
    middle = max((len(f"{band.terms:,}") for band in bands), default=0)
    room = max(8, width - left - middle - 4)
    most = math.log1p(max((band.terms for band in bands), default=1))
    out = []
    for name, band in zip(names, bands, strict=True):
        eighths = round(8 * room * math.log1p(band.terms) / most) if most else 0
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip() if blocks else "#" * ((eighths + 4) // 8)
        out.append(f"{name:>{left}}  {band.terms:>{middle},}  {style('good', bar)}".rstrip())
    return out


def _meaning(index: Index | Engine, spectrum: Spectrum) -> str:
    from qidf.weighting import AUTO

    auto = AUTO.get(index.analyzer, AUTO["standard"])
    rule = f"{auto.q_word:g} for every term"
    if auto.q_shaped != auto.q_word:
        rule = f"{auto.q_shaped:g} for identifiers, {auto.q_word:g} for words"
    return (
        f"--q hapax would give every term q = {spectrum.q_hapax:.2f}; q = 1 is plain BM25, smaller makes rare terms"
        " weigh more. The predictor reads the collection only: it can't see the queries, and the density falls as a"
        f" collection grows. The default is therefore --q auto: {rule}, with each term's count in the query to the"
        f" power {auto.a:g} (analyzer {index.analyzer})."
    )
