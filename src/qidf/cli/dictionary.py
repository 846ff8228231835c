"""`qidf dictionary`: what the identifiers of an engine's index are made of, so that plain words reach them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, note, say, say_json, size
from qidf.cli.progress import bar

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.expansion.dictionary import Dictionary

BUILD = """\
qidf dictionary build --engine opensearch+https://HOST:9200/code#body
qidf dictionary build --engine tantivy:dir#body
qidf dictionary build --engine bm25s:saved --spellings src
qidf dictionary build --engine lucene:dir#contents --documents 100000
qidf dictionary build --engine opensearch+https://HOST/code#body --dry-run
qidf dictionary build --engine opensearch+https://HOST/code#body --fresh
qidf dictionary build --engine qidf:idx --json
"""
SHOW = """\
qidf dictionary show --engine tantivy:dir#body
qidf dictionary show handlewebsocketupgrade --engine tantivy:dir#body
qidf dictionary show "websocket upgrade handler" --engine tantivy:dir#body
qidf dictionary show upgrade --engine tantivy:dir#body --json
"""
CHECK = """\
qidf dictionary check --engine tantivy:dir#body
qidf dictionary check --engine bm25s:saved --json
"""

_engine = click.option("--engine", metavar="URL", required=True, help="The index; docs/engines.md lists URLs.")


@click.group("dictionary", short_help="Identifiers of a frozen index by their parts.")
def command() -> None:
    """Make, look into or check the identifier dictionary of an engine.

    An analyzer made for prose leaves handleWebSocketUpgrade one term. The dictionary tells what such terms are made
    of; with it, searches of the engine are widened by those that the query's words make up. It stands in your cache
    folder; the index is only read.
    """


@command.command("build", short_help="Make it, from what the index holds.", epilog=options.epilog("Examples", BUILD))
@_engine
@click.option(
    "--spellings", metavar="PATH", type=click.Path(readable=False), help="Read this code, not what the index stores."
)
@click.option("--documents", "most", type=int, help="The most documents to read. [default: all]")
@click.option("--fresh", is_flag=True, help="Read all of a server again, not only what was written since.")
@click.option("--dry-run", is_flag=True, help="Say what would be read, and make nothing.")
@options.json_output
def build(engine: str, spellings: str | None, most: int | None, fresh: bool, dry_run: bool, as_json: bool) -> None:
    """Read the texts that an index stores, and keep what its identifiers are made of.

    A server is read through a point in time, 1,000 documents a request. Interrupted, it goes on where it was the next
    time; later, it reads what was written since. Where an index stores no texts, its bare terms are cut by its own
    words, and you are told.
    """
    from qidf.expansion.building import build as make
    from qidf.expansion.place import check_needed
    from qidf.weighting import check_count

    if fresh and spellings:
        raise click.UsageError("--spellings is read whole each time: leave --fresh out")
    opened = _connect(engine)
    check_needed(opened)
    limit = None if most is None else check_count("documents", most)
    if dry_run:
        _tell_plan(opened, spellings or "", limit, as_json)
        return
    with bar("documents") as progress:
        built = make(opened, spellings=spellings or "", most=limit, fresh=fresh, progress=progress)
    if built.note:
        note(built.note)
    if as_json:
        say_json({**_about(built.dictionary), "size": built.size})
        return
    style, about = Style(sys.stdout), built.dictionary.about
    what = "its terms" if about.source == "terms" else count(about.read, "document")
    say(
        f"→ {style('path', clean(built.dictionary.path))}: {count(len(built.dictionary), 'identifier')}"
        f" of {what}, {size(built.size)}"
    )


@command.command("show", short_help="What it tells of a query.", epilog=options.epilog("Examples", SHOW))
@click.argument("query", required=False)
@_engine
@options.json_output
def show(query: str | None, engine: str, as_json: bool) -> None:
    """Show the parts of a term, or the terms that QUERY would be widened by; without QUERY, what it was made from."""
    from qidf.expansion.place import required

    opened = _connect(engine)
    dictionary = required(opened)
    style = Style(sys.stdout)
    if query is None:
        if as_json:
            say_json(_about(dictionary))
            return
        for name, value in _about(dictionary).items():
            say(f"{style('dim', f'{name:<12}')} {clean(str(value))}")
        return
    parts = dictionary.parts_of(query)
    added = opened.widened(query)
    if as_json:
        say_json({"parts": parts, "added": [one._asdict() for one in added]})
        return
    if parts:
        say(f"{clean(query)} = {' · '.join(map(clean, parts)) if style.can('·') else ' + '.join(map(clean, parts))}")
    for one in added:
        say(f"{one.weight:>8.3f}  {clean(one.term)}  {style('dim', clean(' '.join(one.words)))}")
    if not parts and not added:
        note("no identifier is made of these words")


@command.command("check", short_help="Whether it is whole, and how old.", epilog=options.epilog("Examples", CHECK))
@_engine
@options.json_output
def check(engine: str, as_json: bool) -> None:
    """Read the whole dictionary, and compare it with the index as it is now."""
    from qidf.expansion.place import required

    opened = _connect(engine)
    dictionary = required(opened)
    dictionary.verify()
    documents = opened.collection().documents
    if as_json:
        say_json({**_about(dictionary), "now": documents})
        return
    then = dictionary.about.documents
    age = "as many as now" if then == documents else f"now {documents:,}: build it again where names came or went"
    say(f"whole: {count(len(dictionary), 'identifier')}, made at {count(then, 'document')}, {age}")


def _connect(engine: str) -> Engine:
    from qidf.cli.places import remarks
    from qidf.engines import connect

    with remarks():
        return connect(engine)


def _about(dictionary: Dictionary) -> dict[str, Any]:
    return {
        **dictionary.about._asdict(),
        "identifiers": len(dictionary),
        "parts": dictionary.parts,
        "path": dictionary.path,
    }


def _tell_plan(engine: Engine, spellings: str, most: int | None, as_json: bool) -> None:
    """Say how much would be read: of a server by its first page, of others by their number of documents."""
    from qidf.engines.cluster import Cluster

    documents = engine.collection().documents
    plan: dict[str, Any] = {"documents": min(documents, most or documents), "requests": 0, "bytes": None}
    if isinstance(engine, Cluster) and not spellings:
        first = next(engine.read(size=100), ([], None))[0]
        plan["requests"] = engine.requests_to_read(plan["documents"])
        plan["bytes"] = round(sum(map(len, first)) / len(first) * plan["documents"]) if first else 0
    if as_json:
        say_json(plan)
        return
    what = f"the files of {spellings}" if spellings else count(plan["documents"], "document")
    told = f"would read {clean(what)}"
    if plan["bytes"] is not None:
        told += f" in {count(plan['requests'], 'request')}, about {size(plan['bytes'])} of text"
    say(told)
