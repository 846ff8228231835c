"""`qidf similarity`: one q in the settings of an index on a server."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, note, say, say_json, table
from qidf.errors import EngineError

if TYPE_CHECKING:
    from qidf.cluster.similarity import Change

EXAMPLES = """\
qidf similarity --engine opensearch+http://localhost/code#content --q 0.6
qidf similarity --engine URL --q 0.6 --apply             after a question
qidf similarity --engine URL --q 0.6 --apply --all-fields --yes --json
qidf similarity --engine URL --revert
"""


@click.command(
    "similarity",
    short_help="Set one q in a server's settings.",
    epilog=options.epilog("Examples", EXAMPLES),
)
@click.option("--engine", "engine", metavar="URL", required=True, help="opensearch+http(s)://HOST:9200/INDEX#field.")
@click.option("--q", metavar="NUMBER", help="The q of all queries; 'qidf advise' tells which.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it: the index is closed for a moment.")
@click.option("--revert", "is_reverted", is_flag=True, help="Bring back what was there before qidf.")
@click.option("--all-fields", is_flag=True, help="Other fields that have the same similarity may change, too.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@options.json_output
def command(
    engine: str, q: str | None, is_applied: bool, is_reverted: bool, all_fields: bool, yes: bool, as_json: bool
) -> None:
    """Have the server itself score with one q, by a scripted similarity in the settings of the index.

    Without --apply or --revert it only reads, and shows what it would do. While the settings change the index is
    closed, and its searches and writes fail; if anything goes wrong, all is put back and the index opened.
    """
    from qidf.cluster import similarity

    context = click.get_current_context()
    if is_applied and is_reverted:
        raise click.UsageError("--apply and --revert at once", context)
    if (q is None) != is_reverted:
        raise click.UsageError("--revert takes no --q" if is_reverted else "say --q NUMBER, or --revert", context)
    number = similarity.checked_q(q) if q is not None else 1.0
    way, index, field = _server(engine)
    if is_reverted:
        change = similarity.propose_revert(way, index, field)
    else:
        change = similarity.propose(way, index, field, number)
    wanted = is_applied or is_reverted
    style = Style(sys.stdout)
    if not as_json:
        for line in _render(change, style):
            say(line)
    checked = None
    if wanted and change.settings:
        others = [name for name in change.fields if name != change.field]
        if others and not all_fields:
            raise EngineError(
                f"{count(len(others), 'other field')} of {change.index} would change, too: {', '.join(others)[:300]}"
                " (add --all-fields if that is right)"
            )
        if not yes and (as_json or not sys.stdin.isatty()):
            raise EngineError("nobody can be asked here: add --yes")
        similarity.try_out(way, change, note)
        if not yes and not click.confirm(f"\nClose {change.index}, change it and open it again?", err=True):
            say("nothing was changed")
            return
        checked = similarity.carry_out(way, change, note, tried=True)
    if as_json:
        say_json({**asdict(change), "changed": checked is not None, "scores_checked": checked})
    elif checked is not None:
        say()
        say(f"done: {change.index} is open, {count(checked, 'score')} checked")
        if not is_reverted:
            say(style("dim", f"back: qidf similarity --engine {clean(engine)} --revert"))
    elif change.settings:
        say()
        say(style("dim", "nothing was changed; do it: add --apply"))


def _server(engine: str) -> tuple[Any, str, str]:
    from importlib import import_module

    from qidf.engines import ENGINES, parse
    from qidf.engines.server import Place

    url = parse(engine)
    if ENGINES[url.scheme] not in ("opensearch", "elasticsearch"):
        raise ValueError(f"only the similarity of a server's index can be set, got {engine!r}")
    return import_module(f"qidf.engines.{ENGINES[url.scheme]}").connection(url), Place(url).index, url.field


def _render(change: Change, style: Style) -> list[str]:
    width = min(style.columns or 100, 100)
    what = "q = 1, as BM25" if change.q == 1 else f"q = {change.q:g}"
    name = f"{style('path', clean(change.index))}  similarity {clean(change.similarity)}"
    head = f"{name}: {what}, k1 {change.k1:g}, b {change.b:g}"
    if not change.settings:
        return [head, "is so already: nothing to do"]
    out = [head, "", style("dim", "Fields that have it, whose scores change")]
    out += [f"  {line}" for line in table([[clean(name), kind] for name, kind in change.fields.items()], set())]
    out += ["", style("dim", f"What is set while {clean(change.index)} is closed, for some seconds")]
    written = [key for key, value in change.settings.items() if value is not None]
    for key, value in change.settings.items():
        if value is not None:
            out += [f"  {key}", *(f"    {line}" for line in fold(json.dumps(value), width - 4))]
        elif not any(one.startswith(key.removesuffix("*")) for one in written):
            out.append(f"  {key.removesuffix('.*')} is removed")
    remarks = "Scores have another range afterwards: look at min_score, function scores and linear fusion."
    if change.shards > 1:
        remarks += f" Each of the {change.shards} shards takes its own df and N, as its idf did, unless searches have"
        remarks += " search_type=dfs_query_then_fetch."
    return [*out, "", *fold(remarks, width)]
