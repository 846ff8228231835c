"""`qidf advise`: what q-IDF would do to an index on a server, before anything is switched on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from qidf.cli import options
from qidf.cli.output import Style, clean, count, fold, say, say_json, table
from qidf.cli.progress import bar

if TYPE_CHECKING:
    from qidf.cluster.advice import Advice, BodyReport, Example, Sharding, Way
    from qidf.cluster.evaluation import Choice, Evaluation

SHOWN = 3
"""Queries that are made from the sample and shown."""

ROWS = 8
"""Terms of a query that are shown."""

LARGEST_BODY = 10_000_000
"""Bytes of a search body."""

EXAMPLES = """\
qidf advise --engine opensearch+http://localhost:9200/code#content
qidf advise --engine URL --query "who calls parse_config" --query getUser
qidf advise --engine URL --body search.json
qidf advise --engine URL --evaluate beir/ --queries 300
qidf advise --engine URL --sample 1000 --seed 7 --json
"""


@click.command(
    "advise",
    short_help="Tell what q-IDF would do to an index on a server.",
    epilog=options.epilog("Examples", EXAMPLES),
)
@click.option(
    "--engine",
    "url",
    metavar="URL",
    required=True,
    help="A field of an index: opensearch+http://HOST:9200/INDEX#FIELD.",
)
@click.option("--sample", type=int, default=300, show_default=True, help="Documents to draw at random, at most 2000.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything drawn at random.")
@click.option("--query", "queries", metavar="TEXT", multiple=True, help="Show this query; may be given again.")
@click.option(
    "--body",
    "body",
    metavar="FILE",
    type=click.Path(readable=False),
    help="A search body as your application sends it (JSON): what would be rewritten.",
)
@click.option(
    "--evaluate",
    "folder",
    metavar="DIR",
    type=click.Path(readable=False),
    help="Measure BM25 against q-IDF with a BEIR folder: queries.jsonl and qrels/test.tsv, with the index's _ids.",
)
@click.option(
    "--queries", "most", type=int, default=1000, show_default=True, help="Of --evaluate, at most; drawn at random."
)
@options.json_output
def command(
    url: str,
    sample: int,
    seed: int,
    queries: tuple[str, ...],
    body: str | None,
    folder: str | None,
    most: int,
    as_json: bool,
) -> None:
    """Tell what q-IDF would do to an index on a search server, and how to switch it on. Only reads.

    It estimates the hapax density from a random sample of documents, shows what each q does to queries, looks for what
    would suffer, and takes a few seconds and less than 500 requests (--evaluate takes more).
    """
    from qidf.cluster import advice
    from qidf.engines import connect
    from qidf.engines.cluster import Cluster
    from qidf.lab.beir import read_judgments

    content = None if body is None else _read(body)
    judgments = None if folder is None else read_judgments(folder, most, seed)
    engine = connect(url)
    if not isinstance(engine, Cluster):
        engine.close()
        raise click.UsageError(f"advise asks a server, such as opensearch+http://HOST:9200/INDEX#FIELD, not {url!r}")
    with bar("queries") as progress:
        found = advice.advise(
            engine,
            sample=sample,
            seed=seed,
            queries=queries,
            body=content,
            judgments=judgments,
            progress=progress,
        )
    ways = advice.ways(_without_credentials(url), found.product, "auto" if found.q == 1 else found.q)
    if as_json:
        say_json(_plain({**asdict(found), "ways": ways}))
        return
    for line in _render(found, ways, Style(sys.stdout)):
        say(line)


def _read(path: str) -> Any:
    """Return the JSON object in a file; ValueError if it holds none."""
    from qidf import strictjson

    with open(path, "rb") as file:
        data = file.read(LARGEST_BODY + 1)
    if len(data) > LARGEST_BODY:
        raise ValueError(f"{path} is larger than {LARGEST_BODY:,} bytes: give one search body")
    try:
        content = strictjson.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no search body: expected an object such as {{'query': …}}")
    return content


def _without_credentials(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}"


def _plain(value: Any) -> Any:
    """Return a value with objects in place of named tuples."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# Lines


def _render(found: Advice, ways: tuple[Way, ...], style: Style) -> Iterator[str]:
    width = min(style.columns or 100, 100)

    def paragraph(text: str, indent: str = "") -> Iterator[str]:
        for number, line in enumerate(fold(clean(text), width - len(indent))):
            yield (indent if not number else " " * len(indent)) + line

    product = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}.get(found.product, found.product)
    yield style("path", clean(found.url))
    yield style("dim", clean(", ".join((f"{product} {found.version}".strip(), f"analyzer {found.analyzer}"))))
    yield ""
    yield from table(_facts(found), {1})
    yield ""
    yield style("bold", "Advice")
    yield from paragraph(found.why)
    for example in _shown(found.examples):
        yield ""
        yield from _example(example, found.choices, width, style)
    if found.examples:
        yield ""
        yield from paragraph(_kept(found))
    if found.evaluation:
        yield ""
        yield from _evaluation(found.evaluation, style)
        yield from paragraph(_judged(found.evaluation))
    if found.body:
        yield ""
        yield style("bold", "Your search body")
        for line in _body(found.body):
            yield from paragraph(line, "  ")
    yield ""
    yield style("bold", "Before you switch it on")
    for caution in (_sharding(found.sharding), *found.cautions):
        yield from paragraph(caution, "- ")
    yield ""
    yield style("bold", "Ways to switch it on")
    for number, way in enumerate(ways, 1):
        yield from paragraph(way.title, f"{number}  ")
        yield from (f"   {style('good', clean(line))}" for line in way.lines)
    yield ""
    yield style("dim", f"{count(found.requests, 'request')}, all of them reading")


def _facts(found: Advice) -> list[list[str]]:
    own = found.estimate
    hidden = f"; {own.hidden:,} more, deleted or hidden, still count" if own.hidden else ""
    drawn = "all" if own.documents == own.population else f"{own.documents:,} random"
    skipped = f", {own.skipped:,} too large to read" if own.skipped else ""
    partly = f"; df of {own.checked:,} of {own.candidates:,} checked" if own.checked < own.candidates else ""
    of = "document" if drawn == "all" and own.documents == 1 else "documents"
    return [
        ["documents", f"{own.population:,}", f"{found.average_length:,.0f} tokens each{hidden}"],
        [
            "hapax density",
            f"{own.h:.4f}",
            f"{own.low:.4f} to {own.high:.4f} (95 %), from {drawn} {of}{skipped}{partly}",
        ],
        ["", "", "a hapax is a term in one document; density is hapaxes per token"],
        [
            "q, predicted",
            f"{found.q_hapax:.2f}",
            f"{found.q_low:.2f} to {found.q_high:.2f}, by 1 - 7.28 x density within 0.05 and 1",
        ],
    ]


def _shown(examples: tuple[Example, ...]) -> list[Example]:
    """Return the queries that were given; some of those made where none was."""
    return [one for one in examples if not one.made] or list(examples[:SHOWN])


def _example(example: Example, choices: tuple[Choice, ...], width: int, style: Style) -> Iterator[str]:
    heads = [_name(choice) for choice in choices]
    rarest = sorted(example.terms, key=lambda term: term.df)[:ROWS]
    terms = [term for term in example.terms if term in rarest]
    longest = max(16, width - 12 - sum(len(head) + 4 for head in heads))
    rows = [["share of the weight", "df", *heads]]
    rows += [
        [
            ("  " + _short(clean(term.term), longest)) + (" *" if term.shaped else ""),
            f"{term.df:,}",
            *(f"{100 * share:.0f} %" for share in term.shares),
        ]
        for term in terms
    ]
    if len(terms) < len(example.terms):
        rows.append([f"  {len(example.terms) - len(terms)} more frequent", ""])
        rows[-1] += [f"{100 * (1 - sum(t.shares[i] for t in terms)):.0f} %" for i in range(len(choices))]
    rows.append([f"of BM25's top {example.found} stay", "", *map(str, example.kept)])
    made = "  (made from the sample)" if example.made else ""
    yield style("bold", _short(clean(f'"{example.query}"'), width - len(made))) + style("dim", made)
    if not example.terms:
        yield "  the index holds none of its words"
        return
    head, *rest = table(rows, set(range(1, len(choices) + 2)))
    yield style("dim", head)
    yield from rest


def _name(choice: Choice) -> str:
    return f"hapax {choice.q:.2f}" if choice.name == "hapax" else choice.name


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 3)] + "..."


def _kept(found: Advice) -> str:
    means = ", ".join(
        f"{_name(choice)} {kept:.1f}" for choice, kept in list(zip(found.choices, found.kept, strict=True))[1:]
    )
    hits = sum(one.found for one in found.examples) / len(found.examples)
    return (
        f"* written as an identifier. Of BM25's first {hits:.1f} hits stay, on average of"
        f" {count(len(found.examples), 'query', 'queries')}: {means}. BM25 is q = 1."
    )


def _sharding(sharding: Sharding) -> str:
    if sharding.shards == 1:
        return "One shard: its idf is the index's, and dfs_query_then_fetch makes no difference."
    off = (
        f"{sharding.shards} shards: an idf of their own is {100 * sharding.idf_difference:.1f} % off on average and"
        f" changes {sharding.differ:.1f} of the first 10 hits (ties count)."
    )
    if sharding.matters:
        return f"{off} That matters: search with search_type=dfs_query_then_fetch, a round trip more."
    return f"{off} That does not matter: the default search type will do."


def _body(report: BodyReport) -> Iterator[str]:
    for path in report.rewritten:
        yield f"rewritten: {path}"
    for name, notes in (("left", report.left), ("look at", report.cautions)):
        for path, reason in notes:
            yield f"{name}: {f'{path}: ' if path else ''}{reason}"
    if not (report.rewritten or report.left or report.cautions):
        yield "nothing in it is weighed: no match on this field scores"


def _evaluation(found: Evaluation, style: Style) -> Iterator[str]:
    yield style("bold", f"Measured on {count(found.queries, 'judged query', 'judged queries')}")
    rows = [["", "nDCG@10", "MRR@10", "Recall@100", "nDCG@10 against BM25, 95 %", "won", "lost"]]
    for own in found.rows:
        against = f"{own.difference:+.4f}  {own.low:+.4f} to {own.high:+.4f}" if own is not found.rows[0] else ""
        won = [f"{own.won:,}", f"{own.lost:,}"] if against else ["", ""]
        rows.append(
            [_name(own.choice), f"{own.ndcg_10:.4f}", f"{own.mrr_10:.4f}", f"{own.recall_100:.4f}", against, *won]
        )
    head, *rest = table(rows, {1, 2, 3, 5, 6})
    yield style("dim", head)
    yield from rest


def _judged(found: Evaluation) -> str:
    left = found.judged - found.missing - found.queries
    parts = [
        f"Intervals are of the paired difference, by bootstrap over queries; {found.relevant:,} relevant documents"
    ]
    if found.unknown:
        parts.append(f"not in the index, and so not found: {found.unknown:,} of them")
    if found.missing:
        parts.append(f"judged queries without a text that can be run: {found.missing:,}")
    if left:
        parts.append(f"judged queries not drawn: {left:,}")
    return "; ".join(parts) + "."
