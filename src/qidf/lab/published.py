"""Published test collections, as they lie on the Hugging Face hub (CoIR, BEIR) or come from ir_datasets.

Datasets of the hub are folders of files that are told by their names: `corpus…`, `queries…`, and the split's name for
the judgments (`test-00000-of-00001.parquet`, `test.tsv`); Parquet, JSON lines or tab-separated.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qidf.engines.base import missing
from qidf.errors import SourceError
from qidf.lab.collection import Collection, safe_id
from qidf.sources import Document
from qidf.sources.jsonl import SUFFIXES, JsonlSource

HUB = {"coir": ("CoIR-Retrieval/{}-queries-corpus", "CoIR-Retrieval/{}-qrels"), "beir": ("BeIR/{}", "BeIR/{}-qrels")}
"""Where the hub has documents with queries, and judgments, by what a source begins with."""

_ROWS = 10_000  # of a Parquet file in memory at once


def read_published(sources: Sequence[str], split: str = "test") -> Collection:
    """Read a published collection.

    Parameters
    ----------
    sources : sequence of str
        `coir:NAME`, `beir:NAME` (downloaded), `ir_datasets:NAME` (its split is in the name), or the folders of datasets
        that were downloaded before.
    split : str, default "test"
        Which judgments.

    Raises
    ------
    SourceError
        Something can't be had or read, or is not there; the message says what was looked for.
    EngineError
        A library is not installed.
    """
    first = sources[0]
    kind, _, name = first.partition(":")
    if kind == "ir_datasets" and name:
        _alone(sources)
        return _of_ir_datasets(name)
    if kind in HUB and name and not os.path.isdir(first):
        _alone(sources)
        folders = [_download(where.format(name)) for where in HUB[kind]]
        collection = read_folders(folders, split)
    else:
        collection = read_folders(sources, split)
    collection.about["name"] = first if kind in HUB else os.path.basename(os.path.abspath(first))
    return collection


def _alone(sources: Sequence[str]) -> None:
    if len(sources) > 1:
        raise SourceError(f"{sources[0]} stands alone; folders may be several")


def read_folders(folders: Sequence[str], split: str = "test") -> Collection:
    """Read a collection out of the files of datasets' folders."""
    files: dict[str, list[str]] = {"corpus": [], "queries": [], split: []}
    for folder in folders:
        if not os.path.isdir(folder):
            raise SourceError(f"no such folder: {folder}")
        for base, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                stem = re.split(r"[-.]", name, maxsplit=1)[0]
                if stem in files and name.endswith((".parquet", ".tsv", *SUFFIXES)):
                    files[stem].append(os.path.join(base, name))
    for what, found in files.items():
        if not found:
            raise SourceError(
                f"{' and '.join(folders)} hold no file named {what}-….parquet, {what}.jsonl or {what}.tsv:"
                " give the folder of the judgments, too, or another --split"
            )
    collection = Collection(about={"kind": "published", "split": split})
    for path in files["corpus"]:
        collection.documents += [_document(row, path) for row in _rows(path)]
    texts = {}
    for path in files["queries"]:
        for row in _rows(path):
            texts[_field(row, "_id", path)] = str(row.get("text") or "")
    judged = (
        (_field(row, "query-id", path), _field(row, "corpus-id", path), _grade(row, path))
        for path in files[split]
        for row in _rows(path)
    )
    _judge(collection, texts, judged)
    return collection


def _judge(collection: Collection, texts: Mapping[str, str], judged: Iterator[tuple[str, str, int]]) -> None:
    """Keep the queries that have a relevant document, and count what is left out."""
    known = {document.id for document in collection.documents}
    for query, document, grade in judged:
        if grade <= 0:
            continue
        if query not in texts:
            collection.skipped["judgments of unknown queries"] += 1
        elif document not in known:
            collection.skipped["judgments of unknown documents"] += 1
        elif not texts[query].strip():
            collection.skipped["judgments of queries without a text"] += 1
        else:
            collection.queries[query] = texts[query]
            collection.relevant.setdefault(query, []).append(document)
            if grade != 1:
                collection.skipped["grades above 1, kept as 1"] += 1
    collection.skipped["queries without a relevant document"] = len(texts) - len(collection.queries)


def _rows(path: str) -> Iterator[dict[str, Any]]:
    if path.endswith(".parquet"):
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise missing("pyarrow", "hub") from None
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS):
                    yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError) as error:
            raise SourceError(f"can't read {path}: {error}") from None
    elif path.endswith(".tsv"):
        try:
            with open(path, encoding="utf-8", newline="") as lines:
                yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SourceError(f"can't read {path}: {error}") from None
    else:
        for document in JsonlSource(path).documents():
            yield {"_id": document.id, "text": document.text}


def _document(row: Mapping[str, Any], path: str) -> Document:
    title, text = str(row.get("title") or ""), str(row.get("text") or "")
    return Document(_field(row, "_id", path), f"{title}\n{text}" if title else text)


def _field(row: Mapping[str, Any], name: str, path: str) -> str:
    value = row.get(name)
    if value is None or value == "":
        raise SourceError(f"{path}: a row without {name}; expected {name} among {', '.join(map(str, row))}")
    return safe_id(str(value))


def _grade(row: Mapping[str, Any], path: str) -> int:
    try:
        return int(row.get("score", 1))
    except (TypeError, ValueError):
        raise SourceError(f"{path}: expected score to be a whole number, got {row.get('score')!r}") from None


def _download(name: str) -> str:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise missing("huggingface-hub", "hub") from None
    try:
        return str(snapshot_download(name, repo_type="dataset"))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        why = str(error).split("\n")[0]
        raise SourceError(f"can't download the dataset {name}: {why}; give the folder of one that is there") from None


def _of_ir_datasets(name: str) -> Collection:
    try:
        import ir_datasets
    except ImportError:
        raise missing("ir-datasets", "hub") from None
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        raise SourceError(f"ir_datasets has no dataset {name!r}; see https://ir-datasets.com") from None
    if not (dataset.has_docs() and dataset.has_queries() and dataset.has_qrels()):
        raise SourceError(
            f"{name} has no documents, queries or judgments: ir_datasets names those of a split NAME/test"
        )
    collection = Collection(about={"kind": "published", "name": f"ir_datasets:{name}"})
    try:
        collection.documents = [Document(safe_id(one.doc_id), one.default_text()) for one in dataset.docs_iter()]
        texts = {safe_id(one.query_id): one.default_text() for one in dataset.queries_iter()}
        judged = ((safe_id(one.query_id), safe_id(one.doc_id), int(one.relevance)) for one in dataset.qrels_iter())
        _judge(collection, texts, judged)
    except OSError as error:
        raise SourceError(f"can't read {name}: {error}") from None
    return collection
