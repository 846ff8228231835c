"""`qidf collection`: test collections out of what people have, functions with comments and commits with changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, say, say_json
from qidf.cli.progress import bar
from qidf.lab.languages import LANGUAGES

if TYPE_CHECKING:
    from qidf.lab.collection import Collection

DOCSTRINGS = """\
qidf collection docstrings src --lang python --queries docs -o beir
qidf collection docstrings a.git --lang go --drop-name --queries code -o go
qidf collection docstrings . --lang rust --output beir --replace
qidf collection docstrings . --lang c -o beir --json
"""

COMMITS = """\
qidf collection commits . -o beir
qidf collection commits repo.git --commits 200 --output beir --replace
qidf collection commits . -o beir --json
"""

PUBLISHED = """\
qidf collection published coir:CodeSearchNet-go --split test -o go
qidf collection published beir:scifact --output scifact --replace
qidf collection published ir_datasets:cranfield -o cranfield --json
qidf collection published go-queries-corpus go-qrels -o go
"""

BOTH = """\
qidf collection docstrings src --lang python -o beir
qidf collection commits . -o beir
qidf evaluate beir
"""


@click.group("collection", short_help="Make a test collection of code.", epilog=options.epilog("Examples", BOTH))
def command() -> None:
    """Make a test collection of code, in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/test.tsv; collection.json
    tells how it was made.
    """


def _written(function: Any) -> Any:
    for decorate in (
        options.json_output,
        click.option("--replace", is_flag=True, help="Replace a collection that stands there."),
        click.option(
            "-o", "--output", metavar="DIR", required=True, type=click.Path(readable=False), help="Where it is written."
        ),
    ):
        function = decorate(function)
    return function


@command.command(
    "docstrings", short_help="Functions and their doc comments.", epilog=options.epilog("Examples", DOCSTRINGS)
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option("--lang", type=click.Choice(tuple(LANGUAGES)), required=True, help="Files of which language are read.")
@click.option(
    "--queries",
    type=click.Choice(("code", "docs")),
    default="docs",
    show_default=True,
    help="What asks: docstrings, of functions without them; or the functions, of docstrings.",
)
@click.option("--drop-name", is_flag=True, help="Take the function's own name out of the query.")
@_written
def docstrings(
    paths: tuple[str, ...], lang: str, queries: Any, drop_name: bool, output: str, replace: bool, as_json: bool
) -> None:
    """Make a test collection of the functions below PATHs that have a doc comment: folders, work trees, bare clones.

    The filters are CodeSearchNet's: a comment's first paragraph, three words or more; three lines of code or more; no
    tests, constructors, standard methods, generated files or duplicates.
    """
    from qidf.lab.collection import check_place
    from qidf.lab.docstrings import collect

    check_place(output, replace)
    with bar("files") as progress:
        collection = collect(paths, lang, queries, drop_name=drop_name, progress=progress)
    _finish(collection, output, replace, as_json)


@command.command("commits", short_help="Commits and what they changed.", epilog=options.epilog("Examples", COMMITS))
@click.argument("repository", metavar="REPO", type=click.Path(readable=False))
@click.option("--commits", "most", type=int, default=500, show_default=True, help="The most queries.")
@_written
def commits(repository: str, most: int, output: str, replace: bool, as_json: bool) -> None:
    """Make a test collection of a git repository's last commits: each message asks for the one to four source files
    that it changed, in the tree as it was before all of them.

    Left out are tests, merges, reverts, releases, bumps of dependencies, trailers and numbers of issues.
    """
    from qidf.lab.collection import check_place
    from qidf.lab.commits import collect

    check_place(output, replace)
    with bar("files") as progress:
        collection = collect(repository, commits=most, progress=progress)
    _finish(collection, output, replace, as_json)


@command.command("published", short_help="CoIR, BEIR, ir_datasets.", epilog=options.epilog("Examples", PUBLISHED))
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--split", default="test", show_default=True, help="Which judgments.")
@_written
def published(sources: tuple[str, ...], split: str, output: str, replace: bool, as_json: bool) -> None:
    """Make a published test collection one in BEIR's layout.

    SOURCE is coir:NAME or beir:NAME of the Hugging Face hub, ir_datasets:NAME, or the folders of a dataset that was
    downloaded before: corpus and queries, and judgments.
    """
    from qidf.lab.collection import check_place
    from qidf.lab.published import read_published

    check_place(output, replace)
    _finish(read_published(sources, split), output, replace, as_json)


def _finish(collection: Collection, output: str, replace: bool, as_json: bool) -> None:
    from qidf.lab.collection import about, write

    write(collection, output, replace)
    if as_json:
        say_json(about(collection))
        return
    style = Style(sys.stdout)
    judgments = sum(map(len, collection.relevant.values()))
    say(
        f"{count(len(collection.queries), 'query', 'queries')}, {count(len(collection.documents), 'document')},"
        f" {count(judgments, 'judgment')} → {style('path', clean(output))}"
    )
    left_out = ", ".join(f"{clean(reason)} {n:,}" for reason, n in collection.skipped.most_common() if n)
    lines = [f"left out: {left_out}"] if left_out else []
    for line in lines + collection.notes:
        for part in fold(line, min(style.columns or 100, 100)):
            say(style("dim", part))
