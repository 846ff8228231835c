"""Options that several commands share, named as in the Python API, and their check before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Weighting(TypedDict):
    """The arguments that `Index.search` and `Index.explain` share."""

    q: float | str
    a: float | None
    k1: float
    b: float
    odds: str


def epilog(*sections: str) -> str:
    """Return the end of a help: titles and their lines, in turn, shown as they are."""
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return "\n\n".join(
        "\n".join(("\b", f"{title}:", *(f"  {line}" for line in text.splitlines()))) for title, text in pairs
    )


def place(function: F) -> F:
    """Add PATH, --index, --no-refresh and --engine: which index is asked, see `places.open_place`."""
    for decorate in (
        click.option(
            "--engine",
            "engine",
            metavar="URL",
            help="Ask an index that another library made, in place of PATH: bm25s:DIR, tantivy:DIR#field,"
            " lucene:DIR#field; qidf:DIR is one of qidf's own.",
        ),
        click.option("--no-refresh", is_flag=True, help="Use the index as it stands; don't look for changed files."),
        click.option(
            "--index",
            "index",
            metavar="DIR",
            type=click.Path(readable=False),
            help="The index's directory. Alone, that index is used as it is; with PATH, PATH is kept indexed there."
            " [default: in your cache folder, one for each PATH]",
        ),
        click.argument("path", metavar="[PATH]", required=False, type=click.Path(readable=False)),
    ):
        function = decorate(function)
    return function


def weighting(function: F) -> F:
    """Add --q, --a, --k1, --b and --odds."""
    from qidf.weighting import K1, ODDS, B

    for decorate in (
        click.option(
            "--odds",
            type=click.Choice(ODDS),
            default=ODDS[0],
            show_default=True,
            help="Which odds the idf takes the logarithm of.",
        ),
        click.option("--b", type=float, default=B, show_default=True, help="BM25's length normalization, 0 to 1."),
        click.option("--k1", type=float, default=K1, show_default=True, help="BM25's saturation, 0 or more."),
        click.option("--a", type=float, help="Exponent of a term's count in the query. [default: goes with --q]"),
        click.option(
            "--q",
            metavar="auto|hapax|NUMBER",
            default="auto",
            show_default=True,
            help="How steeply weights rise with rarity: 1 is plain BM25, smaller is steeper; hapax predicts one number"
            " from the collection; auto goes by each term's shape.",
        ),
    ):
        function = decorate(function)
    return function


def for_engine(arguments: dict[str, Any], expand: str) -> dict[str, Any]:
    """Return what an engine takes of the weighting's arguments; UsageError where its own k1, b or odds were given."""
    from click.core import ParameterSource

    context = click.get_current_context()
    for name in ("k1", "b", "odds"):
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is the engine's own with --engine (some take it in their URL)", context)
    return {"q": arguments["q"], "a": arguments["a"], "expand": expand}


def expansion(function: F) -> F:
    """Add --expand."""
    from qidf.engines.base import EXPAND

    return click.option(
        "--expand",
        type=click.Choice(EXPAND),
        default="auto",
        show_default=True,
        help="Also search identifiers made of the query's words, where there is a dictionary (qidf dictionary build)."
        " With rank they find nothing by themselves; auto is recall here.",
    )(function)


def analyzer(help: str) -> Callable[[F], F]:
    """Add --analyzer, what a collection is indexed with; `standard` by default."""
    from qidf.analysis import ANALYZERS

    choices = click.Choice(sorted(ANALYZERS))
    return click.option("--analyzer", type=choices, default="standard", show_default=True, help=help)


def sampled(function: F) -> F:
    """Add --queries and --seed: how many of the judged queries are asked, and what is drawn at random."""
    for decorate in (
        click.option("--seed", type=int, default=0, show_default=True, help="Of everything drawn at random."),
        click.option(
            "--queries",
            "most",
            type=int,
            help="The most queries of a collection; of more, so many at random. [default: all]",
        ),
    ):
        function = decorate(function)
    return function


def json_output(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (ASCII) on standard output.")(function)


def check(q: str, a: float | None, k1: float, b: float, odds: str, k: int = 1) -> Weighting:
    """Return the weighting's arguments; ValueError if one makes no sense, before anything is built."""
    from qidf.weighting import check_bm25, parse_q, resolve

    parsed = parse_q(q)
    resolve(parsed, a, analyzer="code", hapax_density=0.0)
    check_bm25(k1, b)
    if k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")
    return {"q": parsed, "a": a, "k1": k1, "b": b, "odds": odds}
