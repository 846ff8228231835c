"""Reports as one page of HTML: nothing is loaded from elsewhere, nothing is run. Knows reports; measures nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from qidf.lab.comparing import Moved
from qidf.lab.measures import BUDGETS
from qidf.lab.plots import curves, draw, inline, scaling, spectrum
from qidf.lab.reporting import SHOWN, Report

VERDICTS = {
    "keep": "Keep BM25",
    "weights": "Switch on q-IDF",
    "both": "Switch on q-IDF, and reindex with code if you can",
    "reindex": "Reindex with code",
    "few": "Too few queries",
}
"""In words, by the name that a report has."""

_STYLE = """
:root { color-scheme: light; --ink: #1b2430; --dim: #5b6675; --line: #dfe3e8; --good: #2f6b3c; --bad: #a23b2a; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; }
.dim { color: var(--dim); font-size: .875rem; }
.verdict { margin: 1rem 0; padding: .9rem 1rem; border-left: 5px solid var(--dim); background: #f4f6f8; }
.verdict strong { display: block; font-size: 1.15rem; }
.weights, .both, .reindex { border-color: var(--good); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: 600; color: var(--dim); }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; }
figcaption { font-weight: 600; margin: 1rem 0 .25rem; }
svg { width: 100%; height: auto; font-family: system-ui, sans-serif; }
ol { padding-left: 1.25rem; } li { margin: .6rem 0; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
code { font: .85em ui-monospace, monospace; background: #f4f6f8; padding: 0 .2em; }
"""

_SIZE = (5.6, 3.6)


def page(reports: Sequence[Report], made: str) -> str:
    """Return the page; `made` says when and with what."""
    return "\n".join(_page(reports, made)) + "\n"


def _page(reports: Sequence[Report], made: str) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>q-IDF on {escape(_name(reports[0]))}</title><style>{_STYLE}</style></head><body>"
    yield "<h1>Does q-IDF help here?</h1>"
    yield f'<p class="dim">{escape(made)}</p>'
    for own in reports:
        yield f'<div class="verdict {own.verdict}"><strong>{VERDICTS[own.verdict]}</strong>'
        yield f"<span>{escape(_name(own))}: {escape(own.words)}</span></div>"
    yield (
        '<p class="dim">nDCG@10, absolute gains, 95&nbsp;% intervals by a paired bootstrap over queries. A best q is'
        " chosen with the labels: an upper bound.</p>"
    )
    for number, own in enumerate(reports):
        yield from _section(own, f"r{number}")
    yield "</body></html>"


def _section(own: Report, prefix: str) -> Iterator[str]:
    yield f"<h2>{escape(_name(own))}</h2>"
    h = own.swept["hapax_density"]
    yield (
        f'<p class="dim">{own.swept["queries"]:,} judged queries, {own.swept["documents"]:,} documents, analyzer'
        f" {escape(own.analyzer)}, hapax density {h:.3f}</p>"
    )
    rows = []
    for found in own.findings:
        change = ["", "", "", ""]
        if found.difference is not None:
            d = found.difference
            change = [f"{d.mean:+.4f}", f"{d.low:+.4f} to {d.high:+.4f}", f"{d.won:,}", f"{d.lost:,}"]
        rows.append([found.name, f"{found.mean:.4f}", *change])
    yield from _table(["", "nDCG@10", "against BM25", "95 %", "won", "lost"], rows)
    yield '<div class="plots">'
    figures = [
        ("nDCG@10 as q falls", draw(lambda axes: curves(axes, own.swept), _SIZE)),
        ("In how many documents terms stand", draw(lambda axes: spectrum(axes, own.bands), _SIZE)),
        ("What fits into a budget of tokens", draw(lambda axes: _budgets(axes, own), _SIZE)),
    ]
    if own.scaling is not None:
        figures.append(("The same queries among more documents", draw(lambda axes: _scaling(axes, own), _SIZE)))
    for number, (title, svg) in enumerate(figures):
        yield f"<figure><figcaption>{title}</figcaption>{inline(svg, f'{prefix}{number}')}</figure>"
    yield "</div>"
    compared = own.compared
    for title, moved, kind in (("Won by auto", compared.won, "good"), ("Lost by auto", compared.lost, "bad")):
        if moved:
            yield f'<h3>{title} <span class="dim">{len(moved):,} queries; those that moved most</span></h3><ol>'
            for one in moved[:SHOWN]:
                yield from _moved(one, own, kind)
            yield "</ol>"


def _moved(one: Moved, own: Report, kind: str) -> Iterator[str]:
    text = " ".join(own.texts[one.query].split())
    text = text if len(text) <= 200 else f"{text[:199]}…"
    yield f'<li><span class="{kind}">{one.change:+.3f}</span> rank {one.ranks}'
    yield f'<code>{escape(one.document)}</code><br>{escape(text)}<br><span class="dim">'
    yield ", ".join(
        f"{escape(cause.term)} (df&nbsp;{cause.df:,}) {cause.first:+.3f} → {cause.second:+.3f}"
        for cause in own.terms[one.query][:4]
    )
    yield "</span></li>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield (
        '<div class="scroll"><table><thead><tr>'
        + "".join(f"<th>{escape(cell)}</th>" for cell in head)
        + "</tr></thead><tbody>"
    )
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _scaling(axes: Any, own: Report) -> None:
    assert own.scaling is not None
    scaling(axes, {"": own.scaling})
    sizes = [one["documents"] for one in own.scaling["sizes"]]
    axes.set_title("")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()


def _budgets(axes: Any, own: Report) -> None:
    for i, (name, means) in enumerate(own.budgets.items()):
        heights = [means[f"R@{budget}-tokens"] for budget in BUDGETS]
        axes.plot(BUDGETS, heights, "o-", color=("#888888", "#588157")[i], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BUDGETS, [f"{budget / 1000:g}k" for budget in BUDGETS])
    axes.set(xlabel="tokens", ylabel="share of the relevant documents")
    axes.legend(frameon=False)


def _name(own: Report) -> str:
    return os.path.basename(os.path.abspath(own.folder))
