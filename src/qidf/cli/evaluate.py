"""`qidf evaluate`: does it help on these queries? A test collection, several weights, intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, say, say_json, table
from qidf.cli.progress import bar
from qidf.engines.base import EXPAND, Expand

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Index
    from qidf.lab.beir import Judgments
    from qidf.lab.evaluation import Result
    from qidf.sources import Document

EXAMPLES = """\
qidf evaluate beir/
qidf evaluate beir/ --analyzer code --q 1 --q hapax --q auto --json
qidf evaluate beir/ --q 1 --q 0.6 --a 0.5 --queries 500 --seed 7
qidf evaluate beir/ --engine lucene:/srv/index#body --output values.jsonl
qidf evaluate beir/ --engine lucene:/srv/index#body --expand recall
qidf evaluate beir/ --overflow skip --bytes-per-token 3.5
qidf evaluate beir/ --q 1 --q auto --runs runs
qidf evaluate beir/ --tokenizer tokenizer.json
"""


@click.command("evaluate", short_help="Measure weights on judged queries.", epilog=options.epilog("Examples", EXAMPLES))
@click.argument("folder", metavar="DIR", type=click.Path(readable=False))
@options.analyzer("How corpus.jsonl is indexed.")
@click.option(
    "--engine",
    "url",
    metavar="URL",
    help="Ask an index of the corpus in place of building one.",
)
@click.option(
    "--q", "qs", metavar="auto|hapax|NUMBER", multiple=True, help="Weights; several times. [default: 1, hapax, auto]"
)
@click.option("--a", type=float, help="Exponent of a term's count in the query, for each --q. [default: goes with it]")
@click.option(
    "--expand",
    type=click.Choice(EXPAND),
    default="off",
    show_default=True,
    help="With --engine: measure the last --q once more, widened by identifiers; see 'qidf search --help'.",
)
@options.sampled
@click.option(
    "--overflow",
    type=click.Choice(("stop", "skip", "truncate")),
    default="stop",
    show_default=True,
    help="What a document does that does not fit into a budget any more.",
)
@click.option(
    "--bytes-per-token", type=float, default=4.0, show_default=True, help="How tokens of a document are counted."
)
@click.option(
    "--tokenizer",
    metavar="FILE",
    type=click.Path(readable=False),
    help="Count tokens by a tokenizer.json (BPE and others) in place of bytes.",
)
@click.option(
    "--output", metavar="FILE", type=click.Path(readable=False), help="Write each query's values, as JSON lines."
)
@click.option(
    "--runs", metavar="DIR", type=click.Path(readable=False), help="Write each ranking (100 hits) as a TREC run."
)
@options.json_output
def command(
    folder: str,
    analyzer: str,
    url: str | None,
    qs: tuple[str, ...],
    a: float | None,
    expand: Expand,
    most: int | None,
    seed: int,
    overflow: Any,
    bytes_per_token: float,
    tokenizer: str | None,
    output: str | None,
    runs: str | None,
    as_json: bool,
) -> None:
    """Measure weights on the judged queries of DIR, a test collection as BEIR lays it out: corpus.jsonl,
    queries.jsonl, qrels/test.tsv.

    Each --q is compared with the first, by a paired bootstrap over queries.
    """
    from qidf.expansion.place import required
    from qidf.lab.beir import read_judgments
    from qidf.lab.evaluation import Weights, evaluate
    from qidf.weighting import parse_q, resolve

    choices = [Weights(parse_q(q), a) for q in qs or ("1", "hapax", "auto")]
    if expand != "off":
        if url is None:
            raise click.UsageError("--expand needs --engine: code, the default elsewhere, takes identifiers apart")
        choices.append(choices[-1]._replace(expand=expand))
    for weights in choices:
        resolve(weights.q, weights.a, analyzer=analyzer, hapax_density=0.0)
    if not 0.1 <= bytes_per_token <= 100:
        raise ValueError(f"bytes-per-token must be from 0.1 to 100, got {bytes_per_token!r}")
    counter = _counter(tokenizer, bytes_per_token)
    judgments = read_judgments(folder, most, seed)
    with _opened(folder, analyzer, url, counter) as (index, tokens), bar("weights") as progress:
        if expand != "off":
            required(index)  # type: ignore[arg-type]  # an engine: without --engine it is refused above
        results = evaluate(index, judgments, choices, tokens=tokens, overflow=overflow, seed=seed, progress=progress)
        name = index.analyzer
    if output is not None:
        _write(output, judgments, results)
    if runs is not None:
        _write_runs(runs, results)
    if as_json:
        say_json(_plain(judgments, name, results, tokens))
        return
    for line in _render(
        judgments, name, results, tokens, tokenizer or f"{bytes_per_token:g} bytes each", Style(sys.stdout)
    ):
        say(line)


def _counter(tokenizer: str | None, bytes_per_token: float) -> Callable[[str], int]:
    """Return what counts a document's tokens; UsageError where both rules are given."""
    from functools import partial

    from click.core import ParameterSource

    from qidf.lab import measures

    if tokenizer is None:
        return partial(measures.count_tokens, bytes_per_token=bytes_per_token)
    context = click.get_current_context()
    if context.get_parameter_source("bytes_per_token") == ParameterSource.COMMANDLINE:
        raise click.UsageError("give either --tokenizer or --bytes-per-token", context)
    return measures.tokenizer(tokenizer)


@contextmanager
def _opened(
    folder: str, analyzer: str, url: str | None, counter: Callable[[str], int]
) -> Iterator[tuple[Index | Engine, dict[str, int] | None]]:
    """Yield the index, and the tokens of each document if there is a corpus to count them in."""
    from qidf.lab.beir import read_corpus
    from qidf.lab.temporary import temporary_index

    tokens: dict[str, int] = {}

    def counted(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            tokens[document.id] = counter(document.text)
            yield document

    with ExitStack() as stack:
        if url is not None:
            from qidf.engines import connect

            engine = stack.enter_context(connect(url))
            yield engine, None
            return
        with bar("documents") as progress:
            index = stack.enter_context(temporary_index(counted(read_corpus(folder)), analyzer, progress))
        yield index, tokens


def _write(path: str, judgments: Judgments, results: list[Result]) -> None:
    """Write a line a query and choice, whole or not at all."""
    import json

    from qidf.lab.files import write

    lines = []
    for result in results:
        for id in judgments.queries:
            values = {name: own[id] for name, own in result.values.items()}
            row = {"query": id, **result.weights._asdict(), **values}
            lines.append(json.dumps(row) + "\n")
    write(path, lines)


def _write_runs(folder: str, results: list[Result]) -> None:
    """Write a run for each choice, by a name that `compare` can read the weights from."""
    import os

    from qidf.lab.trec import write_run

    os.makedirs(folder, exist_ok=True)
    for result in results:
        q, a, expand = result.weights
        name = f"q={_short(q)}" + ("" if a is None else f",a={_short(a)}")
        name += "" if expand == "off" else f",expand={expand}"
        write_run(os.path.join(folder, f"{name}.run"), result.run, name)


def _short(value: float | str) -> str:
    """Return a number without a useless `.0`."""
    return str(value).removesuffix(".0")


def _plain(judgments: Judgments, analyzer: str, results: list[Result], tokens: dict[str, int] | None) -> dict[str, Any]:
    from qidf.lab.beir import unknown_documents

    return {
        "collection": judgments.folder,
        "analyzer": analyzer,
        "queries": len(judgments.queries),
        "judged": judgments.judged,
        "missing": judgments.missing,
        "unknown_documents": None if tokens is None else unknown_documents(judgments, tokens),
        "results": [
            {
                **result.weights._asdict(),
                **result.means,
                "differences": {name: own._asdict() for name, own in result.differences.items()},
            }
            for result in results
        ],
    }


def _render(
    judgments: Judgments,
    analyzer: str,
    results: list[Result],
    tokens: dict[str, int] | None,
    rule: str,
    style: Style,
) -> Iterator[str]:
    from qidf.lab.beir import unknown_documents
    from qidf.lab.measures import MEASURES

    width = min(style.columns or 100, 100)
    missing = f"; {judgments.missing:,} more have no text that can be run" if judgments.missing else ""
    yield style("path", clean(judgments.folder)) + style("dim", f"  analyzer {clean(analyzer)}")
    yield f"{count(len(judgments.queries), 'judged query', 'judged queries')}{missing}"
    if tokens is not None and (unknown := unknown_documents(judgments, tokens)):
        text = f"{count(unknown, 'relevant document is', 'relevant documents are')} not in the corpus: never found"
        yield style("dim", text)
    yield ""
    rows = [["", *MEASURES, f"{MEASURES[0]} against the first, 95 %", "p", "won", "lost"]]
    for result in results:
        own = result.differences.get(MEASURES[0])
        against = ["", "", "", ""]
        if own:
            against = [
                f"{own.mean:+.4f}  {own.low:+.4f} to {own.high:+.4f}",
                f"{own.p:.4f}",
                f"{own.won:,}",
                f"{own.lost:,}",
            ]
        rows.append([_name(result), *(f"{result.means[name]:.4f}" for name in MEASURES), *against])
    yield from _table(rows, set(range(1, 5)) | {6, 7, 8}, style)
    budgets = [name for name in results[0].means if name.endswith("-tokens")]
    if budgets:
        yield ""
        yield style("dim", f"Share of the relevant documents in so many tokens ({clean(rule)})")
        rows = [["", *(f"{int(name[2:-7]):,}" for name in budgets)]]
        rows += [[_name(result), *(f"{result.means[name]:.4f}" for name in budgets)] for result in results]
        yield from _table(rows, set(range(1, len(budgets) + 1)), style)
    elif tokens is None:
        yield ""
        yield from fold("Budgets of tokens are measured where the index is built from corpus.jsonl.", width)


def _table(rows: list[list[str]], right: set[int], style: Style) -> Iterator[str]:
    head, *rest = table(rows, right)
    yield style("dim", head)
    yield from rest


def _name(result: Result) -> str:
    q, a, expand = result.weights
    name = (f"q = {q:g}" if isinstance(q, float) else q) + ("" if a is None else f", a = {a:g}")
    return name if expand == "off" else f"{name}, expand {expand}"
