"""`qidf apply`: change the idf inside an index that keeps finished scores."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, say, say_json
from qidf.cli.progress import bar

if TYPE_CHECKING:
    from qidf.engines.rescale import Applied

EXAMPLES = """\
qidf apply bm25s saved --q 0.05
qidf apply bm25s saved --q hapax --out saved-qidf
qidf apply bm25s saved --q 0.5 --no-backup --json
qidf apply bm25s saved --q 1                         back to bm25s' own
"""


@click.command(
    "apply", short_help="Change the idf in a folder that bm25s saved.", epilog=options.epilog("Examples", EXAMPLES)
)
@click.argument("kind", metavar="bm25s", type=click.Choice(["bm25s"]))
@click.argument("folder", metavar="DIR", type=click.Path(readable=False))
@click.option("--q", metavar="hapax|NUMBER", required=True, help="The q of the new scores; 1 puts bm25s' own back.")
@click.option("--out", metavar="DIR", type=click.Path(readable=False), help="Write a copy there and leave DIR alone.")
@click.option(
    "--no-backup", is_flag=True, help="Keep no original (one kept before stays): going back costs a last bit."
)
@options.json_output
def command(kind: str, folder: str, q: str, out: str | None, no_backup: bool, as_json: bool) -> None:
    """Multiply every score in DIR by idf_q / idf of its term, in one pass; bm25s loads the folder as before.

    The folder is whole at every moment: the new scores are written aside and renamed into place. bm25s' own are kept
    beside them, so that --q 1 brings them back bit for bit.
    """
    from qidf.engines import rescale

    with bar("scores") as progress:
        done = rescale.apply(folder, q, out=out, backup=not no_backup, progress=progress)
    if as_json:
        say_json(done._asdict())
        return
    style = Style(sys.stdout)
    say(f"{style('path', clean(done.folder))}  {_what(done)}")
    if done.original and out is None:
        say(
            style(
                "dim", f"the original is kept in {clean(done.original)}; back: qidf apply bm25s {clean(folder)} --q 1"
            )
        )


def _what(done: Applied) -> str:
    if done.q == done.was and not done.scores:
        return f"is at q = {done.q:g} already, nothing to do"
    if not done.scores:
        return f"q {done.was:g} → {done.q:g}: bm25s' own scores are back"
    last_bit = "" if done.exact else ", from scores scaled before: exact but for a last bit"
    return f"q {done.was:g} → {done.q:g}: {count(done.scores, 'score')} rewritten{last_bit}"
