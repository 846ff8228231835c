"""`qidf index`: build or refresh an index, and say what was done."""

from __future__ import annotations

import sys

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, note, say, say_json, size

SLOWER = "the compiled kernels are not in use, which is slower (install qidf with a C compiler at hand)"
EXAMPLES = """\
qidf index
qidf index src --index /tmp/idx --json
qidf index src --analyzer standard --rebuild
qidf index docs.jsonl --store --memory 1024
qidf index src --verify
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
@options.json_output
def command(
    path: str,
    index: str | None,
    analyzer: str | None,
    rebuild: bool,
    store: bool,
    memory: int,
    verify: bool,
    as_json: bool,
) -> None:
    """Build the index of PATH (default: the current directory), or bring it up to date.

    PATH is a directory, a git work tree, or a JSON lines file (.jsonl, .ndjson, also .gz) of {"id", "text"} objects.
    """
    import os
    import time

    from qidf import kernels
    from qidf.analysis import ANALYZERS
    from qidf.cli.places import refresh
    from qidf.index.refresh import default_index
    from qidf.index.search import Index

    if analyzer is not None and analyzer not in ANALYZERS:
        raise ValueError(f"analyzer must be one of {', '.join(ANALYZERS)}, got {analyzer!r}")
    if memory < 1:
        raise ValueError(f"memory must be at least 1 (MiB), got {memory}")
    started = time.perf_counter()
    if verify:
        place = default_index(path) if index is None else index
        Index.open(place).verify()
        done = None
    else:
        done = refresh(path, index, analyzer=analyzer, store_text=store or None, rebuild=rebuild, memory=memory << 20)
        place = done.index
    opened = Index.open(place)
    seconds = time.perf_counter() - started
    size_bytes = sum(entry.stat().st_size for entry in os.scandir(place))
    facts = f"{count(opened.tokens, 'token')}, index {size(size_bytes)}, analyzer {opened.analyzer}"
    if as_json:
        say_json(
            {
                "index": place,
                "analyzer": opened.analyzer,
                "built": done is not None and done.built,
                "documents": opened.documents,
                "tokens": opened.tokens,
                "index_bytes": size_bytes,
                "seconds": round(seconds, 3),
                "added": done.added if done else 0,
                "changed": done.changed if done else 0,
                "removed": done.removed if done else 0,
                "skipped": done.summary if done else "",
                "notes": done.notes if done else [],
            }
        )
    else:
        documents = count(opened.documents, "document")
        arrow = "→" if Style(sys.stdout).can("→") else "->"
        if done is None:
            say(f"whole: {documents} ({facts}) {arrow} {clean(place)}")
        elif done.built:
            news = [f"{n:,} {what}" for n, what in ((done.changed, "changed"), (done.removed, "removed")) if n]
            if news and done.added:
                news.insert(0, f"{done.added:,} added")
            since = f": {', '.join(news)}" if news else ""
            say(f"indexed {documents} ({facts}) in {seconds:.2f} s{since} {arrow} {clean(place)}")
        else:
            say(f"up to date: {documents} ({facts}) {arrow} {clean(place)}")
    if done is not None and done.built and not kernels.COMPILED:
        note(SLOWER)
    if done is not None:
        for line in (done.summary, *done.notes):
            if line:
                note(line)
