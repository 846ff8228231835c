"""Build and search speed beside tantivy-py and bm25s: the same texts, in one process, in turn, as paired ratios.

    make bench                                  this Python's standard library, repeated to 20 MB if need be
    python benchmarks/speed.py PATH… --rounds 9 --json

Every round runs each system once, in rotating order; a ratio is peer / qidf of the same round, so a slow moment of the
machine hits both. Work is made the same: qidf uses `simple` (Tantivy's default tokenizer; bm25s gets its own default),
every index is written to disk, no system stores the texts. Searches are checked to give the same scores.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import tantivy

import qidf
from qidf.sources import Document
from qidf.sources.files import FileSource

K = 10


def corpus(paths: list[str], least: int) -> list[tuple[str, str]]:
    """Read the files below `paths`; repeat them under other ids until they hold `least` bytes."""
    found = [(f"{path}/{d.id}", d.text) for path in paths for d in FileSource(path).documents()]
    size = sum(len(text) for _, text in found)
    if not found:
        sys.exit(f"no text below {', '.join(paths)}")
    copies = -(-least // size)
    return [(f"{copy}/{id}", text) for copy in range(copies) for id, text in found]


def questions(texts: list[tuple[str, str]], count: int) -> list[str]:
    """Take every so-manieth docstring-like line as a query: 4 to 12 words, what a person could type."""
    lines = []
    for _, text in texts:
        for line in text.splitlines():
            words = line.split()
            if 4 <= len(words) <= 12 and sum(word.isalpha() for word in words) >= len(words) - 1:
                lines.append(line.strip())
    step = max(1, len(lines) // count)
    return lines[::step][:count]


def rounds(systems: dict[str, Callable[[], Any]], count: int) -> dict[str, list[float]]:
    """Time each system once a round, in rotating order, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    names = list(systems)
    for i in range(count + 1):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            gc.collect()
            start = time.perf_counter()
            systems[name]()
            if i:
                times[name].append(time.perf_counter() - start)
    return times


def ratios(times: dict[str, list[float]], ours: str) -> dict[str, dict[str, float]]:
    """Return seconds, and the paired ratios peer / ours, as minimum and median."""
    out = {}
    for name, seconds in times.items():
        paired = [a / b for a, b in zip(seconds, times[ours], strict=True)]
        out[name] = {
            "seconds_min": min(seconds),
            "seconds_median": statistics.median(seconds),
            "ratio_min": min(paired),
            "ratio_median": statistics.median(paired),
        }
    return out


def build_qidf(texts: list[tuple[str, str]], analyzer: str, threads: int | None) -> Callable[[], None]:
    def run() -> None:
        folder = tempfile.mkdtemp(prefix="qidf-bench-")
        try:
            qidf.Index.build((Document(id, text) for id, text in texts), folder, analyzer=analyzer, threads=threads)
        finally:
            shutil.rmtree(folder)

    return run


def build_tantivy(texts: list[tuple[str, str]], threads: int) -> Callable[[], None]:
    def run() -> None:
        folder = tempfile.mkdtemp(prefix="qidf-bench-")
        try:
            schema = tantivy.SchemaBuilder()
            schema.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
            schema.add_text_field("body", stored=False, tokenizer_name="default", index_option="freq")
            index = tantivy.Index(schema.build(), path=folder)
            writer = index.writer(heap_size=512_000_000, num_threads=threads)
            for id, text in texts:
                writer.add_document(tantivy.Document(id=id, body=text))
            writer.commit()
            writer.wait_merging_threads()
        finally:
            shutil.rmtree(folder)

    return run


def build_bm25s(texts: list[tuple[str, str]]) -> Callable[[], None]:
    bodies = [text for _, text in texts]

    def run() -> None:
        folder = tempfile.mkdtemp(prefix="qidf-bench-")
        try:
            tokens = bm25s.tokenize(bodies, show_progress=False)
            retriever = bm25s.BM25(method="lucene")
            retriever.index(tokens, show_progress=False)
            retriever.save(folder)
        finally:
            shutil.rmtree(folder)

    return run


def search_systems(
    texts: list[tuple[str, str]], queries: list[str], folder: str
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """Return each system's search of all queries, tokenizing included, and the largest score difference to bm25s."""
    index = qidf.Index.build((Document(id, text) for id, text in texts), folder, analyzer="word", threads=None)
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    retriever.index(bm25s.tokenize([text for _, text in texts], show_progress=False), show_progress=False)

    def with_bm25s(threads: int) -> Any:
        tokens = bm25s.tokenize(queries, show_progress=False, return_ids=False)
        return retriever.retrieve(tokens, k=K, show_progress=False, n_threads=threads)

    def with_bm25s_only_retrieve(threads: int) -> Callable[[], Any]:
        tokens = bm25s.tokenize(queries, show_progress=False, return_ids=False)
        return lambda: retriever.retrieve(tokens, k=K, show_progress=False, n_threads=threads)

    _, theirs = with_bm25s(1)
    _, ours = index.search_many(queries, k=K, q=1, threads=1)
    gaps = {"largest relative score difference": float(np.max(np.abs(theirs - ours) / np.maximum(ours, 1e-9)))}
    return {
        "qidf, 1 thread": lambda: index.search_many(queries, k=K, q=1, threads=1),
        "bm25s numba, 1 thread": lambda: with_bm25s(1),
        "bm25s numba, 1 thread, tokens ready": with_bm25s_only_retrieve(1),
        "qidf, 2 threads": lambda: index.search_many(queries, k=K, q=1, threads=2),
        "bm25s numba, 2 threads": lambda: with_bm25s(2),
        "qidf auto, 1 thread": lambda: index.search_many(queries, k=K, q="auto", threads=1),
    }, gaps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=[sysconfig.get_path("stdlib")])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["build", "search"])
    options = parser.parse_args()
    texts = corpus(options.paths, options.megabytes * 1_000_000)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for _, text in texts)
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "versions": {"qidf": qidf.__version__, "bm25s": bm25s.__version__, "tantivy": version("tantivy")},
        "corpus": {"documents": len(texts), "megabytes": round(size / 1e6, 1)},
    }
    if options.only != "search":
        systems: dict[str, Callable[[], Any]] = {
            "qidf simple": build_qidf(texts, "simple", None),
            "qidf standard": build_qidf(texts, "standard", None),
            "qidf code": build_qidf(texts, "code", None),
            "tantivy freq, 1 thread": build_tantivy(texts, 1),
            "tantivy freq, 2 threads": build_tantivy(texts, 2),
            "bm25s": build_bm25s(texts),
        }
        report["build"] = ratios(rounds(systems, options.rounds), "qidf simple")
    if options.only != "build":
        small = list(documents_of(texts))
        queries = questions(texts, options.queries)
        for name, collection in (("files", texts), ("functions", small)):
            folder = tempfile.mkdtemp(prefix="qidf-bench-")
            try:
                systems, gaps = search_systems(collection, queries, folder)
                times = rounds(systems, options.rounds)
            finally:
                shutil.rmtree(folder)
            report[f"search {name}"] = {
                "documents": len(collection),
                "queries": len(queries),
                **gaps,
                "1 thread": ratios(times, "qidf, 1 thread"),
                "2 threads": ratios(times, "qidf, 2 threads"),
            }
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)


def documents_of(texts: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Cut files into pieces of a function's size: a new one at each `def` or `class`."""
    for id, text in texts:
        piece: list[str] = []
        number = 0
        for line in text.splitlines(keepends=True):
            if piece and line.lstrip().startswith(("def ", "class ", "async def ")):
                yield f"{id}:{number}", "".join(piece)
                number += len(piece)
                piece = []
            piece.append(line)
        yield f"{id}:{number}", "".join(piece)


def version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def show(report: dict[str, Any]) -> None:
    print(report["machine"], report["versions"], report["corpus"])
    for part in ("build", "search files", "search functions"):
        if part not in report:
            continue
        tables: dict[str, Any] = {part: report[part]}
        if part != "build":
            data = report[part]
            gap = data["largest relative score difference"]
            print(f"\n{part}: {data['documents']:,} documents, {data['queries']:,} queries, scores within {gap:.1e}")
            tables = {f"{part}, ratios to qidf with 1 thread": data["1 thread"], "to 2 threads": data["2 threads"]}
        for title, rows in tables.items():
            print(f"\n{title}")
            print(f"  {'':36} {'median s':>9} {'min s':>8} {'peer/qidf median':>17} {'min':>6}")
            for name, row in rows.items():
                print(
                    f"  {name:36} {row['seconds_median']:9.3f} {row['seconds_min']:8.3f}"
                    f" {row['ratio_median']:17.2f} {row['ratio_min']:6.2f}"
                )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
