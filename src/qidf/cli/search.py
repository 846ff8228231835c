"""`qidf search`: the ranking, each hit with its best passage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, cells, clean, note, say, say_json

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Explanation, Hit, Index
    from qidf.passages import Passage

_TAB = "    "
NOT_STORED = "text not stored"
_LISTED = 8  # words or files named in a note before "and 3 more"


EXAMPLES = """\
qidf search "parse the config file"
qidf search getUserById src -k 20
qidf search "retry with backoff" --explain
qidf search "retry with backoff" --no-refresh --json
qidf search "retry with backoff" --index /tmp/idx      an index made before
qidf search "retry with backoff" src --index /tmp/idx  kept up to date there
qidf search "retry with backoff" --q 1                 plain BM25
qidf search "retry with backoff" --q 0.6 --a 0.5       steep, counts damped
qidf search "retry with backoff" --q hapax --odds robertson --k1 0.9 --b 0.4
qidf search "retry with backoff" --engine bm25s:saved  saved by bm25s
qidf search "retry with backoff" --engine tantivy:dir#body
qidf search "retry with backoff" --engine lucene:dir#contents
qidf search "retry with backoff" --engine bm25s:saved --expand off
qidf search "retry with backoff" --engine bm25s:saved --expand rank
"""


@click.command("search", short_help="Rank files for a query.", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("query")
@options.place
@click.option("-k", "k", metavar="N", type=int, default=10, show_default=True, help="How many hits.")
@options.weighting
@options.expansion
@click.option("--explain", is_flag=True, help="Show under each hit what each term adds to its score.")
@options.json_output
def command(
    query: str,
    path: str | None,
    index: str | None,
    no_refresh: bool,
    engine: str | None,
    k: int,
    q: str,
    a: float | None,
    k1: float,
    b: float,
    odds: str,
    expand: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Rank the files of PATH (default: the current directory) for QUERY.

    The index of PATH is built the first time and brought up to date before each search.
    """
    import warnings

    from qidf.cli.places import open_place, remarks, widened
    from qidf.errors import AnalyzerWarning
    from qidf.passages import passage_of

    arguments: dict[str, Any] = {**options.check(q, a, k1, b, odds, k)}
    if engine is not None:
        arguments = options.for_engine(arguments, expand)
    opened = open_place(path, index, engine, no_refresh=no_refresh)
    asked, arguments = widened(opened, arguments, expand)
    with remarks():
        hits = asked.search(query, k, **arguments)
    _tell_unknown(opened, query, bool(hits))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnalyzerWarning)  # said already
        terms = asked.weights(
            query, **{name: arguments[name] for name in ("q", "a", "odds", "expand") if name in arguments}
        )
        explanations = [asked.explain(query, hit.id, **arguments) if explain else None for hit in hits]
    if as_json:
        passages = [passage_of(opened, hit, terms) for hit in hits]
        say_json(list(map(_as_dict, hits, passages, explanations)))
    else:
        style = Style(sys.stdout)
        passages = []
        for hit, explanation in zip(hits, explanations, strict=True):
            passage = passage_of(opened, hit, terms)
            passages.append(passage)
            if hit.rank > 1 and not passage.missing:
                say()
            for line in _render(hit, passage, explanation, style):
                say(line)
    _tell_stale(hits, passages)


def _as_dict(hit: Hit, passage: Passage, explanation: Explanation | None) -> dict[str, Any]:
    shown = not passage.missing
    row: dict[str, Any] = {
        "rank": hit.rank,
        "id": hit.id,
        "path": hit.path,
        "start_line": passage.start_line if shown else None,
        "end_line": passage.end_line if shown else None,
        "score": hit.score,
        "snippet": passage.text if shown else None,
    }
    if explanation is not None:
        row["terms"] = [
            {
                "term": t.term,
                "n": t.n,
                "tf": t.tf,
                "weight": t.weight,
                "contribution": t.contribution,
                "words": list(t.words),
            }
            for t in explanation.terms
        ]
    return row


def _render(hit: Hit, passage: Passage, explanation: Explanation | None, style: Style) -> list[str]:
    where = clean(hit.path or hit.id)
    lines = ""
    if not passage.missing:
        lines = f":{passage.start_line}" + (f"-{passage.end_line}" if passage.end_line > passage.start_line else "")
    state = passage.missing or ("changed since indexed" if passage.changed else "")
    if state == NOT_STORED:
        state = ""  # the rule for such an index, and said once at the end
    head = f"{style('dim', f'{hit.rank:>2}')}  {style('path', where)}{style('dim', lines)}  {hit.score:.4f}"
    out = [head + (f"  {style('bad', f'({clean(state)})')}" if state else "")]
    if explanation is not None:
        out += [f"    {line}" for line in _contributions(explanation, style)]
    if not passage.missing:
        out += _snippet(passage, style)
    return out


def _snippet(passage: Passage, style: Style) -> list[str]:
    """Show the lines with numbers and matches marked, without their common indentation, as wide as the terminal."""
    from qidf.passages import cut_line

    rows = passage.text.split("\n")
    margin = min((len(row) - len(row.lstrip(" \t")) for row in rows if row.strip()), default=0)
    if len({row[:margin] for row in rows if row.strip()}) > 1:  # tabs here, spaces there
        margin = 0
    gutter = max(6, len(str(passage.end_line)) + 2)
    bar = "│" if style.can("│") else "|"
    out = []
    offset = 0
    for number, row in enumerate(rows, passage.start_line):
        spans = [(s - offset, e - offset) for s, e in passage.spans if offset <= s < offset + len(row)]
        offset += len(row) + 1
        cut = min(margin, len(row))
        line, spans = row[cut:], [(max(s - cut, 0), e - cut) for s, e in spans if e > cut]
        if style.columns:
            room = style.columns - gutter - 3
            line, spans = cut_line(line, spans, room)
            while (over := cells(line.replace("\t", _TAB)) - room) > 0 and len(line) > 8:
                line, spans = cut_line(line, spans, max(8, len(line) - max(1, over // 2)))
        out.append(f"{style('dim', f'{number:>{gutter}} {bar}')} {_mark(line, spans, style)}".rstrip())
    return out


def _mark(line: str, spans: list[tuple[int, int]], style: Style) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [_plain(line[at:start]), style("match", _plain(line[start:end]))]
        at = end
    return "".join((*pieces, _plain(line[at:])))


def _plain(text: str) -> str:
    return clean(text.replace("\t", _TAB))


def _contributions(explanation: Explanation, style: Style) -> list[str]:
    """Return `term +1.23` for the terms that add something, heaviest first, folded to the terminal."""
    from qidf.cli.output import fold

    times = "×" if style.can("×") else "x"
    parts = [
        f"{clean(t.term)}\u00a0+{t.contribution:.4f}" + (f"\u00a0({times}{t.tf})" if (t.tf or 0) > 1 else "")
        for t in sorted(explanation.terms, key=lambda t: -t.contribution)
        if t.contribution
    ]
    return [style("dim", line.replace("\u00a0", " ")) for line in fold("  ".join(parts), (style.columns or 120) - 4)]


def _tell_unknown(index: Index | Engine, query: str, found: bool) -> None:
    from qidf.index.search import Index

    words = [term.term for term in index.query_terms(query)]
    if not words:
        note("the query holds no word")
        return
    unknown = [word for word, n in zip(words, index.doc_freqs(words), strict=True) if not n]
    weighs = not unknown or len(unknown) < len(words)
    if weighs and not found and not isinstance(index, Index):
        note("the index gives every known word of the query an idf of 0")
    elif weighs and not found:
        note("every known word of the query weighs 0: it stands in more than half of the documents (--odds robertson)")
    if unknown:
        what = "no word of the query is" if len(unknown) == len(words) else "not"
        note(f"{what} in the index: {_list(unknown)}")


def _tell_stale(hits: list[Hit], passages: list[Passage]) -> None:
    """Name what could not be shown as it was indexed; the index as it stands may be old."""
    changed = [hit.path or hit.id for hit, passage in zip(hits, passages, strict=True) if passage.changed]
    if changed:
        note(f"changed since indexed: {_list(changed)}")
    reasons: dict[str, list[str]] = {}
    for hit, passage in zip(hits, passages, strict=True):
        if passage.missing:
            reasons.setdefault(passage.missing, []).append(hit.path or hit.id)
    for reason, names in reasons.items():
        which = "" if reason == NOT_STORED and len(names) == len(hits) else f": {_list(names)}"
        note(f"no snippet{'s' if not which else ''}, {reason}{which}")


def _list(names: list[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
