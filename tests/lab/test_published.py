"""Published collections, on small files of the same layouts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import SourceError
from qidf.lab.published import read_published
from tests.engines.required import load

DOCUMENTS = [
    {"_id": "d1", "title": "", "text": "func add(a, b)", "partition": "test", "language": "go"},
    {"_id": "d2", "title": "A title", "text": "func remove(a)", "partition": "test", "language": "go"},
]
QUERIES = [
    {"_id": "q1", "text": "add two"},
    {"_id": "q2", "text": "remove one"},
    {"_id": "q3", "text": "nobody judged it"},
]
QRELS: list[dict[str, Any]] = [
    {"query-id": "q1", "corpus-id": "d1", "score": 1},
    {"query-id": "q2", "corpus-id": "d2", "score": 2},
    {"query-id": "q2", "corpus-id": "d1", "score": 0},
    {"query-id": "q9", "corpus-id": "d1", "score": 1},
    {"query-id": "q1", "corpus-id": "d9", "score": 1},
]


def check(collection: Any) -> None:
    assert [(document.id, document.text) for document in collection.documents] == [
        ("d1", "func add(a, b)"),
        ("d2", "A title\nfunc remove(a)"),
    ]
    assert collection.queries == {"q1": "add two", "q2": "remove one"}
    assert collection.relevant == {"q1": ["d1"], "q2": ["d2"]}
    assert collection.skipped["judgments of unknown queries"] == 1
    assert collection.skipped["judgments of unknown documents"] == 1
    assert collection.skipped["queries without a relevant document"] == 1


@pytest.fixture
def coir(tmp_path: Path) -> list[str]:
    """Return the two datasets of a CoIR task, in Parquet."""
    pyarrow, parquet = load("lab", "pyarrow"), load("lab", "pyarrow.parquet")
    for name, stem, rows in [
        ("go-queries-corpus", "corpus", DOCUMENTS),
        ("go-queries-corpus", "queries", QUERIES),
        ("go-qrels", "test", QRELS),
        ("go-qrels", "train", QRELS[:1]),
    ]:
        place = tmp_path / name / "data"
        place.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), place / f"{stem}-00000-of-00001.parquet")
    return [str(tmp_path / "go-queries-corpus"), str(tmp_path / "go-qrels")]


def test_coir_s_two_datasets(coir: list[str]) -> None:
    check(read_published(coir))
    assert read_published(coir, "train").relevant == {"q1": ["d1"]}


def test_beir_s_two_datasets(tmp_path: Path) -> None:
    (tmp_path / "scifact").mkdir()
    for stem, rows in [("corpus", DOCUMENTS), ("queries", QUERIES)]:
        with gzip.open(tmp_path / "scifact" / f"{stem}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "scifact-qrels").mkdir()
    lines = ["\t".join(QRELS[0]), *("\t".join(map(str, row.values())) for row in QRELS)]
    (tmp_path / "scifact-qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    check(read_published([str(tmp_path / "scifact"), str(tmp_path / "scifact-qrels")]))


def test_a_dataset_of_ir_datasets(tmp_path: Path) -> None:
    ir_datasets = load("lab", "ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\tfunc add(a, b)\nd2\tA title func remove(a)\n")
    (tmp_path / "queries.tsv").write_text("".join(f"{row['_id']}\t{row['text']}\n" for row in QUERIES))
    (tmp_path / "qrels").write_text("".join(f"{a} 0 {b} {n}\n" for a, b, n in (row.values() for row in QRELS)))
    dataset = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "docs.tsv"),
        queries_tsv=str(tmp_path / "queries.tsv"),
        qrels_trec=str(tmp_path / "qrels"),
    )
    ir_datasets.registry.register("qidf-own/test", dataset)
    collection = read_published(["ir_datasets:qidf-own/test"])
    assert [document.text for document in collection.documents] == ["func add(a, b)", "A title func remove(a)"]
    assert collection.relevant == {"q1": ["d1"], "q2": ["d2"]}
    with pytest.raises(SourceError, match="has no dataset 'qidf-other'"):
        read_published(["ir_datasets:qidf-other"])


def test_what_is_not_there_is_an_error(coir: list[str], tmp_path: Path) -> None:
    for sources, split, message in [
        (coir[:1], "test", "hold no file named test-"),
        (coir, "dev", "hold no file named dev-"),
        ([str(tmp_path / "nowhere")], "test", "no such folder"),
        (["coir:a", "coir:b"], "test", "stands alone"),
    ]:
        with pytest.raises(SourceError, match=message):
            read_published(sources, split)


def test_files_that_are_damaged_are_errors(coir: list[str]) -> None:
    pyarrow, parquet = load("lab", "pyarrow"), load("lab", "pyarrow.parquet")
    place = Path(coir[1]) / "data" / "test-00000-of-00001.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{"query-id": "q1", "corpus-id": "d1", "score": "much"}]), place)
    with pytest.raises(SourceError, match="expected score to be a whole number, got 'much'"):
        read_published(coir)
    parquet.write_table(pyarrow.Table.from_pylist([{"query": "q1"}]), place)
    with pytest.raises(SourceError, match="a row without query-id"):
        read_published(coir)
    place.write_bytes(b"PAR1 nothing")
    with pytest.raises(SourceError, match="can't read"):
        read_published(coir)


def test_without_a_network_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load("lab", "huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        SourceError, match=r"can't download the dataset CoIR-Retrieval/none-queries-corpus: .*give the folder"
    ):
        read_published(["coir:none"])
