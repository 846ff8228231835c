"""`qidf index`: build or refresh an index, and say what was done."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, note, say, say_json, size

if TYPE_CHECKING:
    from qidf.index import Index
    from qidf.index.refresh import Refresh

SLOWER = "the compiled kernels are not in use, which is slower (install qidf with a C compiler at hand)"
EXAMPLES = """\
qidf index
qidf index src --index /tmp/idx --json
qidf index src --analyzer standard --rebuild
qidf index docs.jsonl --store --memory 1024
qidf index src --verify
qidf index src --optimize
qidf index src --watch
"""


@click.command(
    "index", short_help="Build an index, or bring it up to date.", epilog=options.epilog("Examples", EXAMPLES)
)
@click.argument("path", metavar="[PATH]", default=".", type=click.Path(readable=False))
@click.option(
    "--index",
    metavar="DIR",
    type=click.Path(readable=False),
    help="Where the index stands. [default: in your cache folder]",
)
@click.option(
    "--analyzer",
    metavar="code|standard|simple|word",
    help="How text becomes terms: code (identifiers and their parts), or as Lucene's standard, Tantivy's default"
    " (simple), bm25s (word) do it. [default: what the index has; code for a new one]",
)
@click.option("--rebuild", is_flag=True, help="Build anew, whatever stands there.")
@click.option("--store", is_flag=True, help="Keep the texts in the index, for snippets of JSONL documents.")
@click.option("--memory", metavar="MiB", type=int, default=512, show_default=True, help="Memory for building.")
@click.option("--verify", is_flag=True, help="Don't build: read every byte of the index and check it.")
@click.option(
    "--optimize",
    is_flag=True,
    help="Merge all segments into one afterwards, without what was deleted. Rankings stay the same.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Go on: follow PATH and bring the index up to date, until interrupted; with --json, a line for each time.",
)
@options.json_output
def command(
    path: str,
    index: str | None,
    analyzer: str | None,
    rebuild: bool,
    store: bool,
    memory: int,
    verify: bool,
    optimize: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Build the index of PATH (default: the current directory), or bring it up to date.

    PATH is a directory, a git work tree, or a JSON lines file (.jsonl, .ndjson, also .gz) of {"id", "text"} objects.
    Only what changed since the last time is read again.
    """
    import time

    from qidf.analysis import ANALYZERS
    from qidf.cli.places import refresh
    from qidf.index.refresh import default_index
    from qidf.index.search import Index

    if analyzer is not None and analyzer not in ANALYZERS:
        raise ValueError(f"analyzer must be one of {', '.join(ANALYZERS)}, got {analyzer!r}")
    if memory < 1:
        raise ValueError(f"memory must be at least 1 (MiB), got {memory}")
    if verify and (optimize or watch or rebuild):
        raise click.UsageError("--verify changes nothing: leave --optimize, --watch and --rebuild out")
    started = time.perf_counter()
    if verify:
        place = default_index(path) if index is None else index
        opened = Index.open(place)
        opened.verify()
        _tell(None, opened, time.perf_counter() - started, as_json)
        return
    settings: dict[str, Any] = {"analyzer": analyzer, "store_text": store or None, "memory": memory << 20}
    done = refresh(path, index, rebuild=rebuild, wait=10.0, **settings)
    opened = Index.open(done.index)
    if optimize:
        opened.optimize()
    identifiers = _identifiers(opened, path)
    _tell(done, opened, time.perf_counter() - started, as_json, line=watch, identifiers=identifiers)
    if watch:
        _watch(path, done.index, as_json, settings)


def _identifiers(opened: Index, path: str) -> int | None:
    """Make the dictionary of an index whose analyzer leaves identifiers whole, and return how many it holds."""
    if opened.analyzer == "code" or not opened.documents:
        return None
    import warnings

    from qidf.cli.progress import bar
    from qidf.engines.embedded import Embedded
    from qidf.errors import EngineWarning, QidfError
    from qidf.expansion.building import build
    from qidf.expansion.place import of_engine

    engine = Embedded(opened)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EngineWarning)  # whatever is wrong with it, it is made again
        dictionary = of_engine(engine)
    if dictionary is None or dictionary.about.state != opened.state:
        try:
            with bar("identifiers") as progress:
                stored = next(engine.texts(), None) is not None  # not of JSON lines, unless --store
                built = build(engine, spellings="" if stored else path, progress=progress)
        except (QidfError, OSError) as error:  # the index is whole without
            note(f"no dictionary of its identifiers: {error}")
            return None
        if built.note:
            note(built.note)
        dictionary = built.dictionary
    return len(dictionary)


def _watch(path: str, place: str, as_json: bool, settings: dict[str, Any]) -> None:
    """Tell of each refresh, until interrupted."""
    from qidf.index.search import Index
    from qidf.index.watch import watch

    first = True

    def tell(done: Refresh) -> None:
        nonlocal first
        if first and not done.built:
            note(f"watching {clean(os.path.realpath(path))} (stop with Ctrl-C)")
        else:
            _tell(done, Index.open(done.index), done.seconds, as_json, line=True)
        first = False

    watch(
        path, place, on_refresh=tell, on_error=lambda error: note(f"not refreshed: {error}"), on_note=note, **settings
    )


def _tell(
    done: Refresh | None,
    opened: Index,
    seconds: float,
    as_json: bool,
    *,
    line: bool = False,
    identifiers: int | None = None,
) -> None:
    """Say what was done; None: the index was verified. `line`: at once, and in one line."""
    from qidf import kernels

    size_bytes = sum(entry.stat().st_size for entry in os.scandir(opened.path))
    facts = f"{count(opened.tokens, 'token')}, index {size(size_bytes)}, analyzer {opened.analyzer}"
    if identifiers is not None:
        facts += f", {count(identifiers, 'identifier')}"
    if as_json:
        say_json(
            {
                "index": opened.path,
                "analyzer": opened.analyzer,
                "built": done is not None and done.built,
                "documents": opened.documents,
                "tokens": opened.tokens,
                "segments": opened.segments,
                **({} if identifiers is None else {"identifiers": identifiers}),
                "index_bytes": size_bytes,
                "seconds": round(seconds, 3),
                "added": done.added if done else 0,
                "changed": done.changed if done else 0,
                "removed": done.removed if done else 0,
                "skipped": done.summary if done else "",
                "notes": done.notes if done else [],
            },
            line=line,
        )
    else:
        documents = count(opened.documents, "document")
        arrow = "→" if Style(sys.stdout).can("→") else "->"
        place = clean(opened.path)
        if done is None:
            say(f"whole: {documents} ({facts}) {arrow} {place}")
        elif done.built:
            news = [f"{n:,} {what}" for n, what in ((done.changed, "changed"), (done.removed, "removed")) if n]
            if done.added and (news or done.added < opened.documents):
                news.insert(0, f"{done.added:,} added")
            since = f": {', '.join(news)}" if news else ""
            say(f"indexed {documents} ({facts}) in {seconds:.2f} s{since} {arrow} {place}")
        else:
            say(f"up to date: {documents} ({facts}) {arrow} {place}")
    if done is not None and done.built and not kernels.COMPILED:
        note(SLOWER)
    if done is not None:
        for remark in filter(None, (done.summary, *done.notes)):
            note(remark)
    if line:
        sys.stdout.flush()
