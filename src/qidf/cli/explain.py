"""`qidf explain`: why one document has its score."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, cells, clean, count, say, say_json, table

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Explanation, Index
    from qidf.index.explain import TermExplanation


COLUMNS = """\
c        count in the query           n        documents that hold the term
idf      at q = 1                     idf_q    at the term's q
weight   c^a · idf_q                  tf       count in the document
s        with --engine, in all weights: Σ weight stays what the engine has
tf part  tf / (tf + k1·((1 − b) + b·dl/avgdl)); what an engine has there
adds     weight · tf part; the sum is the score
"""
EXAMPLES = """\
qidf explain "parse the config file" src/config.py
qidf explain getUserById users.py src --json
qidf explain getUserById users.py --index /tmp/idx
qidf explain getUserById users.py --no-refresh --q 1 --a 1
qidf explain getUser users.py --q hapax --odds robertson --k1 0.9 --b 0.4
qidf explain getUserById 17 --engine bm25s:saved
qidf explain getUserById users.py --engine tantivy:dir#body
qidf explain "user by id" users.py --engine bm25s:saved --expand off
"""


@click.command(
    "explain",
    short_help="Show what each term adds to a file's score.",
    epilog=options.epilog("Columns, in BM25's letters", COLUMNS, "Examples", EXAMPLES),
)
@click.argument("query")
@click.argument("id", metavar="ID")
@options.place
@options.weighting
@options.expansion
@options.json_output
def command(
    query: str,
    id: str,
    path: str | None,
    index: str | None,
    no_refresh: bool,
    engine: str | None,
    q: str,
    a: float | None,
    k1: float,
    b: float,
    odds: str,
    expand: str,
    as_json: bool,
) -> None:
    """Show what each term of QUERY adds to the score of the document ID (a path below PATH, as search prints it)."""
    from qidf.cli.places import open_place, remarks, widened
    from qidf.errors import QidfError

    arguments: dict[str, Any] = {**options.check(q, a, k1, b, odds)}
    if engine is not None:
        arguments = options.for_engine(arguments, expand)
    opened = open_place(path, index, engine, no_refresh=no_refresh)
    asked, arguments = widened(opened, arguments, expand)
    try:
        with remarks():
            explanation = asked.explain(query, id, **arguments)
    except KeyError:
        raise QidfError(f"no document {id!r} in {_where(opened)}") from None
    if as_json:
        say_json({**explanation._asdict(), "terms": [term._asdict() for term in explanation.terms]})
        return
    for line in _render(explanation, Style(sys.stdout)):
        say(line)


def _where(opened: Index | Engine) -> str:
    from qidf.index.search import Index

    if not isinstance(opened, Index):
        return f"{opened.url}; IDs are as search --engine prints them"
    return f"the index at {opened.path}" + (f"; IDs are paths below {opened.root}" if opened.root else "")


def _render(explanation: Explanation, style: Style) -> list[str]:
    e = explanation
    length = "not told" if e.length is None else count(e.length, "token")
    average = "not told" if e.average_length is None else f"{e.average_length:,.1f}"
    out = [
        f"{style('path', clean(e.id))}  score {style('bold', f'{e.score:.4f}')}",
        style(
            "dim",
            f"N {e.documents:,}; dl {length}, avgdl {average}; k1 {e.k1:g}, b {e.b:g}, a {e.a:g}"
            + (f", s {e.scale:.4g}" if e.scale != 1 else ""),
        ),
        "",
    ]
    if not e.terms:
        return [*out, "the query holds no word"]
    rows = [["shape", "c", "n", "q", "idf", "idf_q", "weight", "tf", "tf part", "adds"]]
    terms = [t for t in e.terms if t.contribution or not t.words]  # of what widens the query, what is in the document
    for t in terms:
        numbers = [
            f"{t.q:g}",
            _short(t.idf),
            _short(t.idf_q),
            _short(t.weight),
            "" if t.tf is None else f"{t.tf:,}",
            f"{t.tf_part:.4f}",
        ]
        if not t.n:
            numbers = [""] * len(numbers)
        shape = "added" if t.words else "ident" if t.shaped else "word"
        rows.append([shape, f"{t.query_count:,}", f"{t.n:,}" if t.n else "none", *numbers, f"{t.contribution:.4f}"])
    rows.append([*[""] * 8, "sum", f"{e.score:.4f}"])
    numbered = table(rows, set(range(1, 10)))
    room = max(8, (style.columns or 120) - 2 - max(map(len, numbered)))
    dots = "…" if style.can("…") else "~"
    names = [name if cells(name) <= room else name[: room - 1] + dots for name in map(_name, terms)]
    lines = table([[name, line] for name, line in zip(["term", *names, ""], numbered, strict=True)], set())
    return [*out, style("dim", lines[0]), *lines[1:-1], style("bold", lines[-1])]


def _name(term: TermExplanation) -> str:
    return clean(f"{term.term} ({' '.join(term.words)})" if term.words else term.term)


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 1000 else f"{value:.3g}" if value >= 1e6 else f"{value:,.0f}"
