"""Test collections on disk: what is read of them, and what is refused with file and line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from qidf.errors import SourceError
from qidf.lab.beir import read_corpus, read_judgments
from tests.cluster.advised import folder


def test_queries_are_drawn_where_there_are_too_many(tmp_path: Path) -> None:
    place = folder(tmp_path, {f"q{i}": "x" for i in range(50)}, "".join(f"q{i}\td\t1\n" for i in range(50)), "dev.tsv")
    drawn = [read_judgments(place, 10, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert (len(drawn[0].queries), drawn[0].judged, list(drawn[0].relevant)) == (10, 50, list(drawn[0].queries))


@pytest.mark.parametrize(("qrels", "message"), [
    ("a\td\t1\na\td\n", "line 2: expected query-id, corpus-id and score"),
    ("a\td\tone\n", "line 1: expected"),
    ("a d 1\n", "line 1: expected"),
    ("a\t\t1\n", "line 1: expected"),
    ("a\td\t1\t2\n", "line 1: expected"),
    ("\xe9", "line 1: expected"),
    ("a\td\t0\n", "calls no document relevant"),
    ("", "calls no document relevant"),
    ("b\td\t1\n", "no query of queries.jsonl has a relevant document"),
    ("a" * 100_000, "line 1: expected"),
])  # fmt: skip
def test_a_file_of_judgments_that_is_none(tmp_path: Path, qrels: str, message: str) -> None:
    place = folder(tmp_path, {"a": "needle"}, "")
    (place / "qrels" / "test.tsv").write_bytes(qrels.encode("latin-1"))
    with pytest.raises(SourceError, match=message):
        read_judgments(place)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file or directory; a BEIR folder has"):
        read_judgments(tmp_path)
    place = folder(tmp_path, {"a": "needle"}, "a\td\t1\n", "dev.tsv")
    (place / "qrels" / "train.tsv").write_text("")
    with pytest.raises(SourceError, match=r"has no test.tsv, and 2 other .tsv files"):
        read_judgments(place)
    os.mkfifo(place / "qrels" / "test.tsv")
    with pytest.raises(SourceError, match="not a file"):
        read_judgments(place)
    (place / "qrels" / "test.tsv").unlink()
    (place / "qrels" / "train.tsv").unlink()
    (place / "queries.jsonl").write_text('{"_id": "a"}\n')
    with pytest.raises(SourceError, match="line 1: no text"):
        read_judgments(place)
    with pytest.raises(ValueError, match="queries must be an integer of at least 1, got 0"):
        read_judgments(place, 0)


def test_a_query_that_stands_twice(tmp_path: Path) -> None:
    place = folder(tmp_path, {"a": "text"}, "a\td\t1\n")
    with (place / "queries.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "a", "text": "another"}) + "\n")
    with pytest.raises(SourceError, match="'a' stands there twice"):
        read_judgments(place)


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_a_corpus(tmp_path: Path, name: str) -> None:
    line = json.dumps({"_id": "d", "title": "Title", "text": "text"}).encode() + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    (document,) = read_corpus(tmp_path)
    assert (document.id, document.text) == ("d", "Title\ntext")


def test_a_folder_without_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no such file or directory: .*corpus\.jsonl"):
        list(read_corpus(tmp_path))
