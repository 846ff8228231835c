"""Many readers and one writer: threads of one process, and processes."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qidf.errors import IndexLockedError
from qidf.index import Index, store

from .helpers import WORDS, answer, files, leftovers, many_segments


def generation(g: int, n: int = 60) -> list[tuple[str, str]]:
    rng = random.Random(g)
    return [(f"g{g}-{i}", f"g{g} " + " ".join(rng.choices(WORDS, k=8))) for i in range(n)]


def test_eight_threads_may_search_one_index_at_once(tmp_path: Path) -> None:
    Index.build(generation(1, 3000), tmp_path / "x")
    expected = answer(Index.open(tmp_path / "x"))
    index = Index.open(tmp_path / "x")  # untouched pages and no norms yet: the threads meet there
    start = threading.Barrier(8)

    def run(_: int) -> bool:
        start.wait()
        return all(answer(index) == expected for _ in range(3))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def test_a_reader_goes_on_with_what_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with many_segments(25) as options:
        old = Index.build(generation(1), path, store_text=True, **options)
        before, texts = answer(old), [old.text(id) for id, _ in generation(1)]
        unread = Index.open(path)  # nothing of its postings was read before they were replaced
        for g in (2, 3):
            new = Index.build(generation(g), path, **options)
            assert new.search("getUser")[0].id.startswith(f"g{g}")
            assert answer(old) == before
    assert answer(unread) == before
    assert [old.text(id) for id, _ in generation(1)] == texts
    old.verify()


def test_opening_while_it_is_rebuilt_finds_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "x"
    Index.build(generation(0), path)
    done = threading.Event()
    failures: list[Exception] = []

    def build() -> None:
        try:
            for g in range(1, 25):
                Index.build(generation(g), path, threads=1)
        except Exception as error:
            failures.append(error)
        finally:
            done.set()

    builder = threading.Thread(target=build)
    builder.start()
    seen = set()
    try:
        while not done.is_set():
            index = Index.open(path)
            hits = index.search("the", 60)
            [only] = {hit.id.split("-")[0] for hit in hits}
            assert index.doc_freqs([only]) == [60]
            seen.add(only)
    finally:
        builder.join()
    assert failures == []
    assert len(seen) > 1


def test_a_reader_that_meets_a_removed_segment_reads_the_manifest_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    Index.build(generation(1), path)
    real = store.read_manifest
    stale = real(str(path))
    Index.build(generation(2), path)
    answers = iter([stale])  # what a reader had read just before the commit
    monkeypatch.setattr(store, "read_manifest", lambda name: next(answers, None) or real(name))
    assert Index.open(path).search("getUser")[0].id.startswith("g2")


HOLD = """
import sys
from qidf import Index
def documents():
    yield "new", "held by another"
    print("building", flush=True)
    sys.stdin.readline()
Index.build(documents(), sys.argv[1])
"""


@pytest.mark.parametrize("exists", [True, False])
def test_two_processes_cannot_build_at_once(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "x"
    if exists:
        Index.build(generation(1), path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "building\n"
        kept = files(path)
        with pytest.raises(IndexLockedError, match="another process"):
            Index.build(generation(2), path)
        assert files(path) == kept
        if exists:  # readers need no lock
            assert Index.open(path).documents == 60
        holder.communicate("go on\n")
        assert holder.returncode == 0
    assert [hit.id for hit in Index.open(path).search("held")] == ["new"]
    Index.build(generation(2), path)
    assert leftovers(path) == set()


def test_two_threads_cannot_build_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def inner() -> Iterator[tuple[str, str]]:
        yield "a", "outer"
        with pytest.raises(IndexLockedError):
            Index.build([("b", "inner")], path)
        yield "c", "outer"

    assert Index.build(inner(), path).documents == 2
    assert [hit.id for hit in Index.open(path).search("outer")] == ["a", "c"]
