"""A ranking depends on the documents alone: not on segments, threads, kernels, or the order they came in."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import SourceError
from qidf.index import Index
from qidf.sources import Document

from .helpers import WORDS, answer, collections, files, many_segments, place, plain_python


def some(n: int, seed: int = 1) -> list[Document | tuple[str, str]]:
    rng = random.Random(seed)
    return [
        Document(f"d{i}", " ".join(rng.choices(WORDS, k=rng.randrange(12))), f"p{i % 5}", 1 + i % 3) for i in range(n)
    ]


@given(collections, st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_many_segments_answer_as_one(
    documents: list[tuple[str, str]], size: int, threads: int, rng: random.Random
) -> None:
    with place() as one, place() as many:
        expected = answer(Index.build(documents, one, threads=1))
        rng.shuffle(documents)
        with many_segments(size) as options:
            index = Index.build(documents, many, threads=threads, **options)
        assert len(index._segments) == -(-len(documents) // size)
        assert answer(index) == expected
        index.verify()


@pytest.mark.parametrize("analyzer", ["code", "standard", "simple", "word"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_the_order_of_documents_do_not_matter(tmp_path: Path, analyzer: str, threads: int) -> None:
    documents = some(400)
    expected = answer(Index.build(documents, tmp_path / "one", analyzer=analyzer, threads=1))
    random.Random(threads).shuffle(documents)
    with many_segments(37):
        index = Index.build(documents, tmp_path / "many", analyzer=analyzer, threads=threads)  # batches to all threads
    assert len(index._segments) == 1
    assert answer(index) == expected


def test_search_many_is_the_same_by_any_number_of_threads(tmp_path: Path) -> None:
    index = Index.build(some(300), tmp_path / "x")
    rng = random.Random(3)
    asked = [" ".join(rng.choices(WORDS, k=rng.randrange(6))) for _ in range(700)]
    ids, scores = index.search_many(asked, 9, threads=1)
    for threads in (2, 4, None):
        again = index.search_many(asked, 9, threads=threads)
        assert (again[0] == ids).all()
        assert (again[1] == scores).all()
    for row in range(0, 700, 50):
        hits = index.search(asked[row], 9)
        assert [hit.id for hit in hits] == [id for id in ids[row] if id is not None]
        assert [hit.score for hit in hits] == [score for score in scores[row] if score > 0]
    few = index.search_many(asked[:9], 9)  # many queries are ranked with what was computed beforehand, few are not
    assert (few[1] == scores[:9]).all()
    other = index.search_many(asked, 9, k1=0.5)
    assert (index.search_many(asked[:9], 9, k1=0.5)[1] == other[1][:9]).all()


def test_the_twin_reads_what_was_compiled_and_writes_what_is_read(tmp_path: Path) -> None:
    documents = some(120)
    with many_segments(50) as options:
        ours = Index.build(documents, tmp_path / "ours", store_text=True, threads=2, **options)
        expected = answer(ours)
        with plain_python():
            assert answer(Index.open(tmp_path / "ours")) == expected
            theirs = Index.build(documents, tmp_path / "theirs", store_text=True, threads=2, **options)
            theirs.verify()
            assert answer(theirs) == expected
    assert answer(Index.open(tmp_path / "theirs")) == expected


def test_the_environment_chooses_the_twin(tmp_path: Path) -> None:
    Index.build(some(50), tmp_path / "ours", store_text=True)
    program = """
import sys
from qidf import Index, kernels
assert not kernels.COMPILED and kernels.Reader.__module__ == "qidf.kernels.twin"
ours, theirs = sys.argv[1:]
index = Index.open(ours)
index.verify()
again = Index.build([(f"d{i}", index.text(f"d{i}")) for i in range(50)], theirs, store_text=True)
assert [h.id for h in again.search("getUser 漢字")] == [h.id for h in index.search("getUser 漢字")]
"""
    subprocess.run(
        [sys.executable, "-c", program, tmp_path / "ours", tmp_path / "theirs"],
        env={**os.environ, "QIDF_KERNELS": "python"},
        check=True,
    )
    ours, theirs = Index.open(tmp_path / "ours"), Index.open(tmp_path / "theirs")
    assert [tuple(h)[::4] for h in theirs.search("the x", 50)] == [tuple(h)[::4] for h in ours.search("the x", 50)]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("id", ["d3", "\ud800"])
def test_two_documents_of_one_id_are_refused_by_name(tmp_path: Path, split: bool, threads: int, id: str) -> None:
    path = tmp_path / "x"
    before = answer(Index.build(some(20), path))
    kept = files(path)
    documents = [*some(8), Document("\ud800", "a"), Document(id, "again")]
    for target in (path, tmp_path / "new" / "deep"):
        with many_segments(3) as options, pytest.raises(SourceError, match=f"id {id!r}".replace("\\", "\\\\")):
            Index.build(documents, target, threads=threads, **(options if split else {}))
    assert files(path) == kept
    assert answer(Index.open(path)) == before
    assert not (tmp_path / "new").exists()


def test_no_document_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing to index"):
        Index.build([], tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    before = answer(Index.build(some(5), tmp_path / "x"))
    with pytest.raises(SourceError, match="nothing to index"):
        Index.build(iter(()), tmp_path / "x")
    assert answer(Index.open(tmp_path / "x")) == before


@pytest.mark.parametrize("item", [None, "text", ("a",), ("a", None), (1, "text"), ("a", b"text"), ("a", "b", "c")])
def test_what_is_no_document_is_refused(tmp_path: Path, item: object) -> None:
    with pytest.raises(SourceError, match=r"expected a Document|must be str"):
        Index.build([("ok", "text"), item], tmp_path / "x")  # type: ignore[list-item]
    assert not (tmp_path / "x").exists()


def test_progress_counts_the_documents(tmp_path: Path) -> None:
    counts: list[int] = []
    with many_segments(7):
        Index.build(some(20), tmp_path / "x", progress=counts.append)
    assert counts == [7, 14, 20]


def test_documents_are_read_once_and_lazily(tmp_path: Path) -> None:
    taken = itertools.count()
    with many_segments(2):
        Index.build((("d%d" % i, "x", next(taken))[:2] for i in range(9)), tmp_path / "x")  # noqa: UP031
    assert next(taken) == 9


def test_strings_of_numpy_are_strings(tmp_path: Path) -> None:
    index = Index.build([(np.str_("a"), np.str_("getUser")), ("b", "user")], tmp_path / "x")
    assert [hit.id for hit in index.search(np.str_("getUser"))] == ["a", "b"]
    ids, _ = index.search_many(np.array(["getUser", "user"]), k=1)  # type: ignore[arg-type]
    assert ids[:, 0].tolist()[0] == "a"
    with pytest.raises(TypeError, match="query must be str, got bytes"):
        index.search(b"getUser")  # type: ignore[arg-type]


def test_a_failure_of_the_documents_is_the_callers_own(tmp_path: Path) -> None:
    def documents() -> Iterator[tuple[str, str]]:
        yield "a", "text"
        raise FileNotFoundError(2, "No such file or directory", "theirs.txt")

    with pytest.raises(FileNotFoundError, match=r"theirs\.txt"):
        Index.build(documents(), tmp_path / "x")
    assert not (tmp_path / "x").exists()
