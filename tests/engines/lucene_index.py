"""Real Lucene indexes, as Lucene itself writes them in this process's JVM, and what Lucene itself finds in one."""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from qidf.engines import Engine, jvm
from qidf.engines.lucene import ANALYZERS, Lucene
from qidf.errors import EngineError
from tests.engines.required import absent, load

VERSION = "9.12.3"


@cache
def jars(version: str = VERSION) -> Path:
    """Return the folder of Lucene's jars, fetched once from Maven Central; skips where Java or Maven are missing."""
    load("lucene", "jpype")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        absent("lucene", "Java is not installed")
    folder = Path(sys.prefix) / f"lucene-{version}"
    for name in ("lucene-core", "lucene-analysis-common" if version >= "9" else "lucene-analyzers-common"):
        if not (folder / f"{name}-{version}.jar").is_file():
            _fetch(f"org.apache.lucene:{name}:{version}", folder)
    return folder


def _fetch(artifact: str, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        absent("lucene", f"Maven can't fetch {artifact}: {error}")
    if done.returncode:
        absent("lucene", f"Maven can't fetch {artifact}: {done.stdout[-300:]}")


def java() -> Callable[[str], Any]:
    """Return the function from the name of a Java class to the class, in a running JVM with Lucene."""
    folder = jars()
    # The JVM raises SIGSEGV to itself and handles it. pytest's faulthandler, taken down after the JVM came, would take
    # the JVM's handler down too, and the process would die of the next one.
    faulthandler.disable()
    try:
        jvm.start(str(folder))
    except EngineError as error:
        absent("lucene", str(error))
    import jpype

    found: Callable[[str], Any] = jpype.JClass
    return found


def write_index(
    folder: Path,
    documents: Sequence[tuple[str, str]],
    deleted: Iterable[str] = (),
    *,
    analyzer: str = "standard",
    field: str = "body",
    stored: bool = True,
    segments: int = 3,
) -> None:
    """Write an index of (id, text), then mark some documents deleted. No segment is ever merged."""
    JClass = java()
    store = JClass("org.apache.lucene.document.Field$Store")
    string, text = (JClass(f"org.apache.lucene.document.{name}Field") for name in ("String", "Text"))
    rows = [
        [string("id", id, store.YES), text(field, content, store.YES if stored else store.NO)]
        for id, content in documents
    ]
    write_fields(folder, rows, deleted, analyzer=analyzer, segments=segments)


def write_fields(
    folder: Path,
    rows: Sequence[Sequence[Any]],
    deleted: Iterable[str] = (),
    *,
    analyzer: str = "standard",
    segments: int = 3,
) -> None:
    """Write an index of documents given as lists of Java fields."""
    JClass = java()
    writer = open_writer(folder, analyzer)
    step = max(1, -(-len(rows) // segments))
    for i in range(0, len(rows), step):
        for fields in rows[i : i + step]:
            document = JClass("org.apache.lucene.document.Document")()
            for one in fields:
                document.add(one)
            writer.addDocument(document)
        writer.commit()
    for id in deleted:
        writer.deleteDocuments([JClass("org.apache.lucene.index.Term")("id", id)])
    writer.close()


def open_writer(folder: Path, analyzer: str = "standard") -> Any:
    """Return a Java IndexWriter, which locks the folder until it is closed."""
    JClass = java()
    config = JClass("org.apache.lucene.index.IndexWriterConfig")(JClass(ANALYZERS[analyzer])())
    config.setMergePolicy(JClass("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    directory = JClass("org.apache.lucene.store.FSDirectory").open(JClass("java.nio.file.Paths").get(str(folder)))
    return JClass("org.apache.lucene.index.IndexWriter")(directory, config)


def plain(engine: Engine) -> Callable[[str, int], list[tuple[str, float]]]:
    """Return the function (query, k) → [(id, score)] of Lucene's own ranking: a clause for each token, repeats too."""
    assert isinstance(engine, Lucene)
    JClass = java()
    limits = JClass("org.apache.lucene.search.IndexSearcher")
    searcher = limits(engine.reader)
    similarity = JClass("org.apache.lucene.search.similarities.BM25Similarity")
    searcher.setSimilarity(similarity(engine.model.k1, engine.model.b))

    def search(query: str, k: int) -> list[tuple[str, float]]:
        room = len(engine.analyze(query))
        if limits.getMaxClauseCount() < room:
            limits.setMaxClauseCount(room)
        parser = JClass("org.apache.lucene.util.QueryBuilder")(engine._analyzer)
        parsed = parser.createBooleanQuery(engine.field, query)
        if parsed is None:  # no term is left
            return []
        stored = searcher.storedFields()
        return [
            (str(stored.document(hit.doc).get("id")), float(hit.score)) for hit in searcher.search(parsed, k).scoreDocs
        ]

    return search
