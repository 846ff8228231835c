"""Docstring → function over Python's standard library: BM25 and q-IDF on the same index, with intervals.

    python benchmarks/stdlib_docstrings.py [--json]
    python benchmarks/stdlib_docstrings.py --beir DIR      write both forms as BEIR folders, for `qidf evaluate`

Every function with a docstring of at least three words is a query (its first paragraph) and a document (its source
without the docstring); functions without one are documents too. Tests and installed packages are left out. Each
comparison is made twice: with the query as written, and with the function's own name taken out of it, since a docstring
that names its function is easier than a question. None of the weights was chosen on this collection.

nDCG@10 with one relevant document is 1/log2(1 + rank); the interval of the difference to BM25 is a paired bootstrap
over queries, 10,000 resamples, seeded.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qidf
from qidf.sources.files import FileSource

WEIGHTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("BM25", {"q": 1}),
    ("BM25, a = 0.5", {"q": 1, "a": 0.5}),
    ("hapax", {"q": "hapax"}),
    ("q = 0.6", {"q": 0.6}),
    ("auto, a = 1", {"q": "auto", "a": 1}),
    ("auto", {"q": "auto"}),
)


def functions(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, first paragraph of the docstring or "", source without the docstring) of each function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
            continue
        body = lines[node.lineno - 1 : node.end_lineno]
        doc = ast.get_docstring(node) or ""
        if doc:
            first = node.body[0]
            if len(node.body) < 2 or first.end_lineno is None or first.lineno == node.lineno:
                continue
            del body[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
        yield node.name, doc.split("\n\n")[0], "".join(body)


def collection() -> tuple[list[qidf.Document], list[tuple[str, str, str]]]:
    """Return the documents and the queries: (id of the answer, the function's name, text)."""
    documents, queries, seen = [], [], set()
    source = FileSource(sysconfig.get_path("stdlib"))
    tests = {"test", "tests", "idle_test"}
    for entry in source.scan():
        if not entry.path.endswith(".py") or not tests.isdisjoint(entry.path.split("/")):
            continue
        for document in source.documents([entry]):
            for i, (name, doc, body) in enumerate(functions(document.text)):
                if body in seen:
                    continue
                seen.add(body)
                id = f"{document.id}:{name}:{i}"
                documents.append(qidf.Document(id, body))
                if len(doc.split()) >= 3:
                    queries.append((id, name, doc))
    return documents, queries


def gains(index: qidf.Index, queries: list[tuple[str, str]], weights: dict[str, Any]) -> NDArray[np.float64]:
    """Return nDCG@10 of each query."""
    ids, _ = index.search_many([text for _, text in queries], k=10, **weights)
    out = np.zeros(len(queries))
    for row, (answer, _) in enumerate(queries):
        found = np.flatnonzero(ids[row] == answer)
        if found.size:
            out[row] = 1 / np.log2(2 + found[0])
    return out


def interval(difference: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of the mean by bootstrap over queries."""
    rng = np.random.default_rng(0)
    means = [difference[rng.integers(0, difference.size, difference.size)].mean() for _ in range(10_000)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def write_beir(folder: Path, documents: list[qidf.Document], queries: list[tuple[str, str]]) -> None:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    numbered = [(f"q{i}", answer, text) for i, (answer, text) in enumerate(queries, 1)]
    files = {
        "corpus.jsonl": [json.dumps({"_id": document.id, "text": document.text}) for document in documents],
        "queries.jsonl": [json.dumps({"_id": id, "text": text}) for id, _, text in numbered],
        "qrels/test.tsv": ["query-id\tcorpus-id\tscore", *(f"{id}\t{answer}\t1" for id, answer, _ in numbered)],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(documents):,} functions, {len(numbered):,} queries → {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--beir", metavar="DIR", type=Path)
    options = parser.parse_args()
    documents, queries = collection()
    asked = {
        "as written": [(answer, text) for answer, _, text in queries],
        "name taken out": [
            (answer, re.sub(rf"\b{re.escape(name)}\b", " ", text, flags=re.IGNORECASE))
            for answer, name, text in queries
        ],
    }
    if options.beir:
        for form, texts in asked.items():
            write_beir(options.beir / form.replace(" ", "-"), documents, texts)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for analyzer in ("standard", "simple", "word", "code"):
            index = qidf.Index.build(documents, Path(folder) / analyzer, analyzer=analyzer)
            for form, texts in asked.items():
                plain = gains(index, texts, {"q": 1})
                for name, weights in WEIGHTS:
                    values = gains(index, texts, weights)
                    low, high = interval(values - plain) if name != "BM25" else (0.0, 0.0)
                    rows.append(
                        {
                            "analyzer": analyzer,
                            "queries": form,
                            "weights": name,
                            "nDCG@10": round(float(values.mean()), 4),
                            "difference": round(float((values - plain).mean()), 4),
                            "low": round(low, 4),
                            "high": round(high, 4),
                        }
                    )
    report = {
        "python": sys.version.split()[0],
        "documents": len(documents),
        "queries": len(queries),
        "results": rows,
    }
    if options.json:
        print(json.dumps(report, indent=1))
        return
    print(f"Python {report['python']}: {len(documents):,} functions, {len(queries):,} queries; nDCG@10")
    for row in rows:
        change = (
            "" if row["weights"] == "BM25" else f"{row['difference']:+.4f}  [{row['low']:+.4f}, {row['high']:+.4f}]"
        )
        print(f"{row['analyzer']:9} {row['queries']:15} {row['weights']:14} {row['nDCG@10']:.4f}  {change}")


if __name__ == "__main__":
    main()
