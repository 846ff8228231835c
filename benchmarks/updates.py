"""What it costs that one file, or a hundred, changed: update against building again, qidf against tantivy-py and bm25s.

    python benchmarks/updates.py [PATH] [--copies N] [--rounds N]

PATH (default: the standard library) is copied N times below a temporary folder. All is measured in one run, each round
one after the other, medians; ratios are to qidf's update. qidf and Tantivy commit durably (fsync).
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from qidf import Index
from qidf.index.refresh import refresh
from qidf.sources import Document
from qidf.sources.files import FileSource

COUNTER = itertools.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", default=sysconfig.get_path("stdlib"))
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        tree = Path(folder, "tree")
        for n in range(arguments.copies):
            copy(arguments.path, tree / str(n))
        run(Path(folder), tree, arguments.rounds)


def copy(source: str, target: Path) -> None:
    """Copy what an index would hold, and nothing else."""
    for entry in FileSource(source).scan():
        (target / entry.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.join(source, entry.path), target / entry.path)


def run(folder: Path, tree: Path, rounds: int) -> None:
    documents = {document.id: document for document in FileSource(tree).documents()}
    size = sum(len(document.text) for document in documents.values())
    print(f"{len(documents):,} files, {size / 1e6:,.0f} million characters\n")
    ids = sorted(documents)
    rng = random.Random(1)
    living = Tantivy(folder / "tantivy", documents)
    refresh(tree, folder / "shell")
    index = Index.build(documents.values(), folder / "api", analyzer="simple")  # Tantivy's default
    rows: dict[str, list[float]] = {}

    def measure(name: str, act: Callable[[], Any]) -> None:
        start = time.perf_counter()
        act()
        rows.setdefault(name, []).append(time.perf_counter() - start)

    for _ in range(rounds):
        for n in (1, 100):
            changed = [edit(documents, id) for id in rng.sample(ids, n)]
            measure(f"qidf: update {n}, commit", partial(update, index, changed))
            measure(f"tantivy-py: delete and add {n}, commit", partial(living.update, changed))
            for document in changed:
                (tree / document.id).write_text(document.text, errors="surrogatepass")
            measure(f"shell: qidf index, {n} changed", lambda: shell(tree, folder / "shell"))
        measure("shell: qidf index, nothing changed", lambda: shell(tree, folder / "shell"))
        measure("shell: qidf index --rebuild", lambda: shell(tree, folder / "shell", "--rebuild"))
        measure("qidf: build", lambda: Index.build(documents.values(), folder / "built", analyzer="simple"))
        measure("tantivy-py: build", lambda: Tantivy(folder / f"t{next(COUNTER)}", documents))
    words = ["def", "return", "import", "edit", "function", "test", *(str(n) for n in range(0, next(COUNTER), 7))]
    if (ours := index.doc_freqs(words)) != (theirs := living.doc_freqs(words)):
        sys.exit(f"the two don't hold the same: {list(zip(words, ours, theirs, strict=True))}")
    measure("bm25s: build (no other way)", lambda: bm25s_build(documents))
    base = statistics.median(rows["qidf: update 1, commit"])
    for name, times in rows.items():
        middle = statistics.median(times)
        print(f"{name:42} {1000 * middle:10,.1f} ms   {middle / base:8.1f}")
    print(f"\nsegments after it: {index.segments}, Tantivy {living.segments}")


def update(index: Index, documents: list[Document]) -> None:
    index.update(documents)
    index.commit()


def edit(documents: dict[str, Document], id: str) -> Document:
    documents[id] = Document(id, f"{documents[id].text}\n# edit {next(COUNTER)}\n", id)
    return documents[id]


def shell(tree: Path, place: Path, *more: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "qidf", "index", tree, "--index", place, *more], check=True, capture_output=True
    )


class Tantivy:
    """An index of tantivy-py with the same documents, and a writer that stays open."""

    def __init__(self, path: Path, documents: dict[str, Document]) -> None:
        import tantivy

        self._tantivy = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("body", index_option="freq")
        path.mkdir()
        self._index = tantivy.Index(builder.build(), str(path))
        self._writer = self._index.writer(256 << 20)
        for document in documents.values():
            self._add(document)
        self._writer.commit()

    def _add(self, document: Document) -> None:
        text = document.text.encode("utf-8", "replace").decode()
        self._writer.add_document(self._tantivy.Document(id=document.id, body=text))

    def update(self, documents: list[Document]) -> None:
        """Replace documents and commit."""
        for document in documents:
            self._writer.delete_documents_by_term("id", document.id)
            self._add(document)
        self._writer.commit()

    def doc_freqs(self, words: list[str]) -> list[int]:
        """In how many documents each word is found."""
        self._index.reload()
        searcher, query = self._index.searcher(), self._tantivy.Query.term_query
        schema = self._index.schema
        return [len(searcher.search(query(schema, "body", word), 1_000_000).hits) for word in words]

    @property
    def segments(self) -> int:
        """How many segments there are now."""
        self._index.reload()
        return int(self._index.searcher().num_segments)


def bm25s_build(documents: dict[str, Document]) -> None:
    import bm25s

    texts = [document.text for document in documents.values()]
    bm25s.BM25().index(bm25s.tokenize(texts, show_progress=False), show_progress=False)


if __name__ == "__main__":
    main()
