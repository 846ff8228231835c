"""`qidf report`: a page that says whether it helps on a collection, with the verdict on top."""

from __future__ import annotations

import os
import sys

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, fold, say, say_json
from qidf.cli.progress import bar

EXAMPLES = """\
qidf report beir/ --html report.html
qidf report go/ commits/ --html report.html --queries 2000 --seed 7
qidf report beir/ --html report.html --analyzer simple --json
"""


@click.command("report", short_help="A page: does it help here?", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option("--html", "html", metavar="FILE", required=True, type=click.Path(readable=False), help="The page.")
@options.analyzer("What your index is analyzed with.")
@options.sampled
@options.json_output
def command(folders: tuple[str, ...], html: str, analyzer: str, most: int | None, seed: int, as_json: bool) -> None:
    """Write a page about collections in BEIR's layout: keep BM25, switch on q-IDF, or reindex with code, with the
    numbers and their intervals, curves over q, the df spectrum, budgets of tokens, and the queries that moved most.

    The page is one file and loads nothing.
    """
    from datetime import date

    from qidf import __version__
    from qidf.lab.files import write
    from qidf.lab.page import VERDICTS, page
    from qidf.lab.reporting import plain, report

    reports = []
    for folder in folders:
        with bar(clean(folder)) as progress:
            reports.append(report(folder, analyzer=analyzer, queries=most, seed=seed, progress=progress))
    write(html, [page(reports, f"{date.today().isoformat()}, qidf {__version__}, seed {seed}")])
    if as_json:
        say_json([plain(own) for own in reports])
        return
    style = Style(sys.stdout)
    for own in reports:
        say(style("path", clean(own.folder)))
        say(f"  {VERDICTS[own.verdict]}")
        for line in fold(own.words, min(style.columns or 100, 100) - 2):
            say(f"  {line}")
    say(f"→ {style('path', clean(html))} ({os.path.getsize(html) / 1000:,.0f} kB)")
