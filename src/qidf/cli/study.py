"""`qidf study`: one of the lab's studies over collections, as tables, a plot and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, say, say_json, table
from qidf.cli.progress import bar

NAMES = ("weights", "analyzers", "scaling", "budgets", "expansion")

EXAMPLES = """\
qidf study weights go/ java/ commits/ --output results
qidf study scaling go/ -o results --queries 500 --seed 7
qidf study analyzers go/ java/ -o results --json
qidf study budgets go/ --analyzer simple -o results
"""


@click.command("study", short_help="A study over collections.", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("name", metavar="|".join(NAMES), type=click.Choice(NAMES))
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(readable=False),
    help="Where NAME.json, NAME.md and NAME.svg are written.",
)
@options.analyzer("How collections are indexed; analyzers compares all.")
@options.sampled
@options.json_output
def command(
    name: str, folders: tuple[str, ...], output: str, analyzer: str, most: int | None, seed: int, as_json: bool
) -> None:
    r"""Run a study over collections in BEIR's layout.

    \b
    weights    q from 0.05 to 1, the hapax predictor, auto, idf^γ, DFR-DPH
    analyzers  standard, simple, word, parts only, code: BM25, best q, auto
    scaling    the same queries among more and more documents
    budgets    the share of the answers that fits into a budget of tokens
    expansion  BM25, auto, auto widened by identifiers, reindexed with code

    What was measured of a collection is kept in .cells of the output: interrupted, a study goes on from there.
    """
    from qidf.lab.running import run
    from qidf.lab.studies import Settings, Table
    from qidf.weighting import check_count

    settings = Settings(None if most is None else check_count("queries", most), seed, analyzer=analyzer)
    with bar("collections") as progress:
        result, tables = run(name, folders, output, settings, progress)
    if as_json:
        say_json(result)
        return
    style = Style(sys.stdout)

    def lines(own: Table) -> Iterator[str]:
        yield style("bold", clean(own.title))
        head, *rest = table([own.head, *own.rows], set(range(1, len(own.head))))
        yield style("dim", clean(head))
        yield from map(clean, rest)
        yield ""

    for own in tables:
        for line in lines(own):
            say(line)
    say(f"→ {style('path', clean(output))}: {name}.json, {name}.md, {name}.svg")
