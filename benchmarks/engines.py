"""What qidf adds to a query on indexes that others made, and how fast stored scores are rewritten.

    python benchmarks/engines.py                        this Python's standard library, all engines that are installed
    python benchmarks/engines.py --scores 100000000     also `qidf apply` on so many stored scores (1.3 GB of disk)
    QIDF_LUCENE_JARS=DIR python benchmarks/engines.py   Lucene too: lucene-core and lucene-analysis-common of 9.x

"Added" is the time of `engine.weights(query)`: analysis, look-ups of df and weights, everything but the engine's own
search. "Plain" is the engine's own search as its users write it, its analysis included. Queries have ten words or more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qidf
from qidf.engines import Engine
from qidf.sources.files import FileSource

LEFT_OUT = {"test", "tests", "idle_test"}
TARGET_MS = 0.2


def corpus() -> list[tuple[str, str]]:
    """Return (path, text) of the standard library's Python files, without tests."""
    found = FileSource(sysconfig.get_path("stdlib")).documents()
    return [(d.id, d.text) for d in found if d.id.endswith(".py") and LEFT_OUT.isdisjoint(d.id.split("/"))]


def questions(texts: list[tuple[str, str]], count: int, words: int = 10) -> list[str]:
    """Return queries of `words` words: runs of words out of the texts themselves, one in so many."""
    rows = [
        row for _, text in texts for row in text.splitlines() if sum(word.isalnum() for word in row.split()) >= words
    ]
    step = max(1, len(rows) // count)
    return [" ".join([word for word in row.split() if word.isalnum()][:words]) for row in rows[::step]][:count]


def open_qidf(texts: list[tuple[str, str]], folder: Path) -> tuple[Engine, Callable[[str], Any]]:
    """Return the embedded engine, and its plain search."""
    index = qidf.Index.build(texts, folder, analyzer="standard")
    return qidf.connect(f"qidf:{folder}"), lambda query: index.search(query, 10, q=1.0, a=1.0)


def open_bm25s(texts: list[tuple[str, str]], folder: Path) -> tuple[Engine, Callable[[str], Any]]:
    """Return the bm25s engine, and bm25s' own search."""
    import bm25s

    made = bm25s.BM25()
    made.index(bm25s.tokenize([text for _, text in texts], show_progress=False), show_progress=False)
    made.save(folder, show_progress=False)

    def plain(query: str) -> Any:
        tokens = bm25s.tokenize([query], return_ids=False, show_progress=False)
        return made.retrieve(tokens, k=10, show_progress=False)

    return qidf.connect(f"bm25s:{folder}"), plain


def open_rank_bm25(texts: list[tuple[str, str]], folder: Path) -> tuple[Engine, Callable[[str], Any]]:
    """Return the rank_bm25 engine, and rank_bm25's own search."""
    from rank_bm25 import BM25Okapi

    from qidf.engines.rank_bm25 import RankBM25

    names = [id for id, _ in texts]
    made = BM25Okapi([text.lower().split() for _, text in texts])
    engine = RankBM25(made, analyze=lambda text: text.lower().split(), ids=names)
    return engine, lambda query: made.get_top_n(query.lower().split(), names, n=10)


def open_tantivy(texts: list[tuple[str, str]], folder: Path) -> tuple[Engine, Callable[[str], Any]]:
    """Return the Tantivy engine, and Tantivy's own search."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("path", stored=True, tokenizer_name="raw")
    schema.add_text_field("body")
    folder.mkdir()
    index = tantivy.Index(schema.build(), str(folder))
    writer = index.writer()
    for id, text in texts:
        writer.add_document(tantivy.Document(path=id, body=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def plain(query: str) -> Any:
        parsed = index.parse_query(query.lower(), ["body"])  # in capitals, OR is an operator
        found = searcher.search(parsed, limit=10).hits
        return [searcher.doc(address)["path"] for _, address in found]

    return qidf.connect(f"tantivy:{folder}#body"), plain


def open_lucene(texts: list[tuple[str, str]], folder: Path) -> tuple[Engine, Callable[[str], Any]]:
    """Return the Lucene engine, and the same query at q = 1 in Lucene's own classes."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.engines.lucene_index import plain, write_index

    write_index(folder, texts, set(), analyzer="standard", field="body")
    engine = qidf.connect(f"lucene:{folder}#body")
    own = plain(engine)
    return engine, lambda query: own(query, 10)


ENGINES = {
    "qidf": open_qidf,
    "bm25s": open_bm25s,
    "rank_bm25": open_rank_bm25,
    "tantivy": open_tantivy,
    "lucene": open_lucene,
}


def timed(function: Callable[[str], Any], queries: list[str]) -> float:
    """Return the median milliseconds of a call."""
    seconds = []
    for query in queries:
        start = time.perf_counter()
        function(query)
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def measure(name: str, texts: list[tuple[str, str]], folder: Path, rounds: int) -> dict[str, float]:
    """Return milliseconds: the weights, the plain search, the search with weights; medians over rounds in turn."""
    engine, plain = ENGINES[name](texts, folder / name)
    queries = questions(texts, 100)
    calls = {"added": engine.weights, "plain": plain, "with qidf": lambda query: engine.search(query, 10)}
    for call in calls.values():
        timed(call, queries)
    times: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(rounds):
        for what, call in calls.items():
            times[what].append(timed(call, queries))
    out = {what: statistics.median(values) for what, values in times.items()}
    return {**out, "worst round": max(times["added"])}


# Stored scores


def write_scores(folder: Path, count: int) -> None:
    """Write a folder as bm25s would have saved it: `count` scores, document frequencies after Zipf."""
    documents, chance = max(1000, count // 100), np.random.default_rng(0)
    weights = 1 / np.arange(1, max(100, count // 50) + 1) ** 0.9
    df = np.clip(np.ceil(1.03 * weights * count / weights.sum()).astype(np.int64), 1, documents)
    indptr = np.concatenate([[0], np.cumsum(df)])
    lengths = chance.integers(50, 150, documents)
    norm = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())
    idf = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    data, indices = np.empty(indptr[-1], "f4"), np.empty(indptr[-1], "i4")
    for start in range(0, len(data), 1 << 22):
        stop = min(start + (1 << 22), len(data))
        term = np.searchsorted(indptr, np.arange(start, stop), side="right") - 1
        indices[start:stop] = chance.integers(0, documents, stop - start)
        tf = chance.integers(1, 4, stop - start)
        data[start:stop] = idf[term] * tf / (tf + norm[indices[start:stop]])
    folder.mkdir()
    for name, values in (("data", data), ("indices", indices), ("indptr", indptr)):
        np.save(folder / f"{name}.csc.index.npy", values)
    parameters = {"k1": 1.5, "b": 0.75, "delta": 0.5, "method": "lucene", "idf_method": "lucene", "num_docs": documents}
    (folder / "params.index.json").write_text(json.dumps(parameters))
    (folder / "vocab.index.json").write_text("{}")


def rewrite(folder: Path, q: float) -> dict[str, float]:
    """Apply a q in a process of its own; return seconds, scores and the most memory beyond mapped files."""
    done = subprocess.run(
        [sys.executable, __file__, "--rewrite", str(folder), str(q)], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def rewrite_here(folder: str, q: float) -> None:
    """Apply a q and print what it took: the anonymous memory is looked at every few milliseconds (Linux)."""
    from qidf.engines import rescale

    def anonymous() -> int:
        rows = Path("/proc/self/status").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("RssAnon"))

    before, most, running = anonymous(), [0], True

    def watch() -> None:
        while running:
            most[0] = max(most[0], anonymous())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    done = rescale.apply(folder, q)
    seconds = time.perf_counter() - start
    running = False
    watcher.join()
    print(json.dumps({"seconds": seconds, "scores": done.scores, "MiB": (most[0] - before) / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scores", type=int, default=0, help="also rewrite so many stored scores")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rewrite", nargs=2, metavar=("DIR", "Q"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rewrite:
        rewrite_here(options.rewrite[0], float(options.rewrite[1]))
        return
    texts = corpus()
    report: dict[str, Any] = {"python": platform.python_version(), "processors": os.cpu_count(), "files": len(texts)}
    say = (lambda line: None) if options.json else print
    say(f"Python {report['python']}, {report['processors']} processors, {len(texts):,} files; milliseconds a query\n")
    say(f"{'engine':<12}{'qidf adds':>10}{'worst':>8}{'plain search':>14}{'with qidf':>11}")
    with tempfile.TemporaryDirectory(prefix="qidf-engines-") as folder:
        for name in options.engine or ENGINES:
            try:
                report[name] = row = measure(name, texts, Path(folder), options.rounds)
            except (ImportError, qidf.EngineError) as error:
                say(f"{name:<12}left out: {error}")
                continue
            beyond = "" if row["added"] < TARGET_MS else f"  above {TARGET_MS}"
            say(
                f"{name:<12}{row['added']:>10.3f}{row['worst round']:>8.3f}{row['plain']:>14.3f}"
                f"{row['with qidf']:>11.3f}{beyond}"
            )
        if options.scores:
            write_scores(Path(folder) / "scores", options.scores)
            report["apply"] = []
            say(f"\n{'qidf apply':<12}{'scores':>14}{'seconds':>9}{'MiB':>6}  (memory beyond mapped files)")
            for q in (0.05, 0.5, 0.05, 1.0):
                row = rewrite(Path(folder) / "scores", q)
                report["apply"].append({"q": q, **row})
                back = "" if row["scores"] else "  the original put back"
                say(f"q = {q:<8g}{row['scores']:>14,}{row['seconds']:>9.2f}{row['MiB']:>6.0f}{back}")
    if options.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
