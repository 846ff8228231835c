"""`qidf demo`: BM25 and q-IDF side by side on this Python's standard library. An illustration, not an evaluation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from qidf.cli import options
from qidf.cli.output import Style, count, fold, say, say_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qidf.index import Index

# Picked from the 71 of benchmarks/stdlib_questions.py to show every outcome: q-IDF can't gain, gains, does not, loses.
QUERIES = (
    ("heappushpop", "heapq.py"),
    ("the test runner should stop at the first error or failure, failfast option", "unittest/runner.py"),
    (
        "parse a date string of the form that is used in the header of a mail message, parsedate_tz",
        "email/_parseaddr.py",
    ),
    (
        'with open(self.path, "w") as f: f.write(self.data), if the process is killed half of the data is in the file,'
        " use NamedTemporaryFile and then os.replace",
        "tempfile.py",
    ),
    (
        "the value of x is 0.1 + 0.2 and the test x == 0.3 is false; what is the relative and the absolute tolerance,"
        " assertAlmostEqual",
        "unittest/case.py",
    ),
    (
        "self.value = value; self.lock = threading.Lock(); def get(self): with self.lock: return self.value, set by"
        " another process with shared memory and get_lock",
        "multiprocessing/sharedctypes.py",
    ),
    (
        "try: self.sock.connect(self.address) except OSError as err: self.close() raise, how do I set the source"
        " address, create_connection",
        "socket.py",
    ),
    ("wait until one of many sockets is ready to be read", "selectors.py"),
)

DEPTH = 100
"""Ranks beyond this are not looked up."""

_ANALYZERS = ("standard", "code")
_TESTS = frozenset(("test", "tests", "idle_test"))


class Row(NamedTuple):
    """One query: the rank of the file that answers it, None beyond `DEPTH`, by (analyzer, weights)."""

    query: str
    answer: str
    present: bool
    ranks: dict[tuple[str, str], int | None]


EXAMPLES = """\
qidf demo
qidf demo --json
"""


@click.command(
    "demo", short_help="Compare BM25 and q-IDF on Python's library.", epilog=options.epilog("Examples", EXAMPLES)
)
@options.json_output
def command(as_json: bool) -> None:
    """Index this Python's standard library and compare BM25 with q-IDF on eight queries. Takes a few seconds.

    Everything happens in a temporary folder, which is removed at the end.
    """
    import tempfile
    import time

    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="qidf-demo-") as folder:
        indexes = _build(folder)
        rows = [_look_up(indexes, query, answer) for query, answer in QUERIES]
        index = indexes["standard"]
        facts = {"documents": index.documents, "tokens": index.tokens, "python": sys.version.split()[0]}
    seconds = time.perf_counter() - started
    if as_json:
        say_json(
            {
                **facts,
                "seconds": round(seconds, 3),
                "queries": [
                    {
                        "query": row.query,
                        "answer": row.answer,
                        "present": row.present,
                        "ranks": {f"{analyzer}, {how}": rank for (analyzer, how), rank in row.ranks.items()},
                    }
                    for row in rows
                ],
            }
        )
        return
    style = Style(sys.stdout)
    for line in _render(rows, facts, seconds, style):
        say(line)


def _build(folder: str) -> dict[str, Index]:
    """Index the library's Python files, without tests and installed packages, once with each analyzer."""
    import os
    import sysconfig

    from qidf.index.search import Index
    from qidf.sources.files import FileSource

    source = FileSource(sysconfig.get_path("stdlib"))
    entries = [
        entry
        for entry in source.scan()  # leaves site-packages and dist-packages out
        if entry.path.endswith(".py") and _TESTS.isdisjoint(entry.path.split("/"))
    ]
    return {
        name: Index.build(source.documents(entries), os.path.join(folder, name), analyzer=name) for name in _ANALYZERS
    }


def _look_up(indexes: dict[str, Index], query: str, answer: str) -> Row:
    ranks: dict[tuple[str, str], int | None] = {}
    present = True
    for name, index in indexes.items():
        try:
            index.length(answer)
        except KeyError:
            present = False
        for how, hits in (("BM25", index.search(query, DEPTH, q=1.0)), ("q-IDF", index.search(query, DEPTH))):
            ranks[name, how] = next((hit.rank for hit in hits if hit.id == answer), None)
    return Row(query, answer, present, ranks)


def _render(rows: Sequence[Row], facts: dict[str, Any], seconds: float, style: Style) -> list[str]:
    width = min(style.columns or 80, 100)
    out = [
        f"{style('bold', 'Python ' + facts['python'] + ', the standard library')}: {count(facts['documents'], 'file')},"
        f" {count(facts['tokens'], 'token')}, indexed twice and asked in {seconds:.1f} s",
        "",
        *fold(
            "Rank of the file that answers, 1 is best. 'standard' is the analyzer of Lucene, Elasticsearch and"
            " OpenSearch: the index you may have. There q-IDF changes the query's weights and nothing else. 'code' also"
            " indexes the parts of identifiers: for those who can reindex.",
            width,
        ),
        "",
        style("dim", f"{'':<38}{'standard':^18}{'code':^18}".rstrip()),
        style("dim", f"{'':<38}{'BM25':>7}{'q-IDF':>9}  {'BM25':>7}{'q-IDF':>9}"),
    ]
    for row in rows:
        out.append(row.query if len(row.query) <= width else row.query[: width - 1].rstrip() + "…")
        name = f"  {row.answer}"
        if not row.present:
            out.append(style("bad", f"{name}  not in this Python's library: left out"))
            continue
        line = style("dim", f"{name:<38}")
        for analyzer in _ANALYZERS:
            old, new = row.ranks[analyzer, "BM25"], row.ranks[analyzer, "q-IDF"]
            color = "good" if _rank(new) < _rank(old) else "bad" if _rank(new) > _rank(old) else ""
            cell = f"{_name(new):>9}"
            line += f"{_name(old):>7}{style(color, cell) if color else cell}  "
        out.append(line.rstrip())
    out.append("")
    for analyzer in _ANALYZERS:
        out += fold(_verdict(rows, analyzer), width)
    out += [
        "",
        *(
            style("dim", line)
            for line in fold(
                "Small print: eight queries, picked to show every outcome; an illustration, not an evaluation. Where"
                " BM25 is right already, nothing moves: most of the 71 that these come from"
                " (benchmarks/stdlib_questions.py). A query of one term can't gain.",
                width,
            )
        ),
        "",
        'Now yours:  qidf search "a question about your code" PATH',
    ]
    return out


def _verdict(rows: Sequence[Row], analyzer: str) -> str:
    """Say in one sentence, from the ranks alone, what q-IDF improved and what it did not."""
    pairs = [(_rank(r.ranks[analyzer, "BM25"]), _rank(r.ranks[analyzer, "q-IDF"])) for r in rows if r.present]
    better = sum(new < old for old, new in pairs)
    worse = sum(new > old for old, new in pairs)
    same = len(pairs) - better - worse
    first = f"{sum(old == 1 for old, _ in pairs)} → {sum(new == 1 for _, new in pairs)}"
    if not pairs:
        return f"{analyzer}: no answering file was found, nothing to compare."
    before, after = (sum(1 / rank for rank in ranks) / len(pairs) for ranks in zip(*pairs, strict=True))
    if same == len(pairs):
        top = sum(old == 1 for old, _ in pairs)
        return f"{analyzer + ':':<9} no answer moved; BM25 alone has {top} of {len(pairs)} at rank 1."
    return (
        f"{analyzer + ':':<9} q-IDF ranks the answer higher in {better} of {len(pairs)}, the same in {same}, lower in"
        f" {worse}; at rank 1: {first}; mean of 1/rank: {before:.2f} → {after:.2f}."
    )


def _rank(rank: int | None) -> float:
    return float("inf") if rank is None else rank


def _name(rank: int | None) -> str:
    return f">{DEPTH}" if rank is None else str(rank)
