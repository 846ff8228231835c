"""`qidf compare`: two runs of the same queries, which of them moved most, and by which terms."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, say, say_json
from qidf.cli.progress import bar

if TYPE_CHECKING:
    from qidf.lab.comparing import Cause, Comparison
    from qidf.weighting import Q

EXAMPLES = """\
qidf compare runs/q=1.run runs/q=auto.run --collection beir/
qidf compare a.run b.run --collection beir/ --analyzer code --top 20 --json
qidf compare a.run b.run --qrels qrels.txt --seed 7
"""

_CAUSES = 4
_SHOWN = 90


@click.command("compare", short_help="Two runs, query by query.", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("first", metavar="RUN_A", type=click.Path(readable=False))
@click.argument("second", metavar="RUN_B", type=click.Path(readable=False))
@click.option("--collection", metavar="DIR", type=click.Path(readable=False), help="Judged queries, in BEIR's layout.")
@click.option("--qrels", metavar="FILE", type=click.Path(readable=False), help="TREC judgments, in its place.")
@options.analyzer("How the collection is indexed, to tell which terms decided.")
@click.option("--top", type=int, default=5, show_default=True, help="Queries of each side that are shown.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@options.json_output
def command(
    first: str,
    second: str,
    collection: str | None,
    qrels: str | None,
    analyzer: str,
    top: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare two TREC runs by nDCG@10: wins, losses, and the queries that moved most.

    With --collection, and runs that qidf wrote (evaluate --runs), also the terms that decided: of the best relevant
    document against the best one that is not, each term's part in the score, with either weights.
    """
    from qidf.lab.beir import read_judgments
    from qidf.lab.comparing import compare
    from qidf.lab.trec import read_qrels, read_run
    from qidf.weighting import check_count

    check_count("top", top)
    if (collection is None) == (qrels is None):
        raise click.UsageError("give either --collection or --qrels", click.get_current_context())
    texts: dict[str, str] = {}
    if collection is not None:
        judgments = read_judgments(collection)
        relevant, texts = judgments.relevant, judgments.queries
    else:
        assert qrels is not None
        relevant = read_qrels(qrels)
    (run_a, tag_a), (run_b, tag_b) = read_run(first), read_run(second)
    compared = compare(relevant, run_a, run_b, seed=seed)
    shown = compared.won[:top] + compared.lost[:top]
    weights = _weights(tag_a), _weights(tag_b)
    found: dict[str, list[Cause]] = {}
    if collection is not None and None not in weights and shown:
        from qidf.lab.beir import read_corpus
        from qidf.lab.comparing import causes
        from qidf.lab.temporary import temporary_index

        with bar("documents") as progress, temporary_index(read_corpus(collection), analyzer, progress) as index:
            for one in shown:
                found[one.query] = causes(index, texts[one.query], one, *weights)  # type: ignore[arg-type]
    if as_json:
        say_json(_plain(first, second, compared, found))
        return
    for line in _render(first, second, compared, top, texts, found, Style(sys.stdout)):
        say(line)


def _weights(tag: str) -> tuple[Q, float | None] | None:
    """Return (q, a) of a run's tag, None if it is none of ours."""
    from qidf.weighting import parse_q

    match = re.fullmatch(r"qidf:q=([^,]+)(?:,a=(.+))?", tag)
    if match is None:
        return None
    try:
        return parse_q(match[1]), None if match[2] is None else float(match[2])
    except ValueError:
        return None


def _plain(first: str, second: str, compared: Comparison, found: dict[str, list[Cause]]) -> dict[str, Any]:
    return {
        "first": first,
        "second": second,
        "queries": compared.queries,
        "missing": list(compared.missing),
        "nDCG@10": [compared.first, compared.second],
        "difference": compared.difference._asdict(),
        "moved": [
            {**one._asdict(), "terms": [cause._asdict() for cause in found.get(one.query, [])]}
            for one in compared.moved
        ],
    }


def _render(
    first: str,
    second: str,
    compared: Comparison,
    top: int,
    texts: dict[str, str],
    found: dict[str, list[Cause]],
    style: Style,
) -> Iterator[str]:
    own = compared.difference
    yield f"A  {style('path', clean(first))}  nDCG@10 {compared.first:.4f}"
    yield f"B  {style('path', clean(second))}  nDCG@10 {compared.second:.4f}"
    same = compared.queries - own.won - own.lost
    yield (
        f"{own.mean:+.4f}, 95 % {own.low:+.4f} to {own.high:+.4f}, p {own.p:.4f}:"
        f" B wins {own.won:,}, loses {own.lost:,}, {count(same, 'query', 'queries')} the same"
    )
    for which, missing in zip("AB", compared.missing, strict=True):
        if missing:
            yield style("dim", f"{count(missing, 'judged query', 'judged queries')} without a hit in {which}")
    for title, rows, mood in (("Won by B", compared.won, "good"), ("Lost by B", compared.lost, "bad")):
        if not rows:
            continue
        yield ""
        yield style("bold", title) + style("dim", f"  the {min(top, len(rows))} that moved most of {len(rows):,}")
        for one in rows[:top]:
            yield f"{style(mood, f'{one.change:+.4f}')}  rank {one.ranks}  {clean(one.document)}"
            text = " ".join(texts.get(one.query, one.query).split())
            yield "  " + clean(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
            if found.get(one.query):
                causes = ", ".join(
                    f"{clean(cause.term)} (df {cause.df:,}) {cause.first:+.3f} → {cause.second:+.3f}"
                    for cause in found[one.query][:_CAUSES]
                )
                for line in fold(causes, min(style.columns or 100, 100) - 2):
                    yield "  " + style("dim", line)
    if found:
        yield ""
        text = "Of each term: what it gives the document less what it gives its best rival, as a share of the largest"
        text += " score, in A → B."
        for line in fold(text, min(style.columns or 100, 100)):
            yield style("dim", line)
