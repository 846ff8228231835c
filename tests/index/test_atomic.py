"""A build that fails, wherever it fails, leaves what was there before: the old index, or nothing."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import IndexNotFoundError, QidfError
from qidf.index import Index, store
from qidf.index.build import build
from qidf.sources import Document

from .helpers import WORDS, answer, files, leftovers, many_segments

STAMPS = [("a", (1, 2, 3))]


def documents(g: int, n: int = 40) -> Iterator[Document]:
    rng = random.Random(g)
    for i in range(n):
        yield Document(f"g{g}-{i}", f"g{g} " + " ".join(rng.choices(WORDS, k=9)), f"path{i % 3}", i + 1)


def rebuild(path: Path, source: Any, threads: int = 1) -> None:
    with many_segments(9) as options:
        build(source, str(path), analyzer="code", store_text=True, threads=threads, stamps=STAMPS, **options)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    rebuild(path, documents(1))
    return path


def tree(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


class Failure(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("after", [0, 1, 20, 40])
@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_error_in_the_documents_changes_nothing(
    tmp_path: Path, old: Path, error: type[BaseException], after: int, threads: int
) -> None:
    def broken() -> Iterator[Document]:
        yield from documents(2, after)
        raise error

    before, kept, names = answer(Index.open(old)), files(old), tree(tmp_path)
    for path in (old, tmp_path / "new", tmp_path / "new" / "deeper" / "index"):
        with pytest.raises(error):
            rebuild(path, broken(), threads)
    assert files(old) == kept
    assert answer(Index.open(old)) == before
    assert tree(tmp_path) == names


def test_an_error_in_a_thread_reaches_the_caller_and_changes_nothing(
    tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qidf.index.build import _Worker

    def fail(*_: object) -> None:
        raise MemoryError("no memory for the index being built")

    kept, names = files(old), tree(tmp_path)
    monkeypatch.setattr(_Worker, "add", fail)
    for path in (old, tmp_path / "new"):
        with pytest.raises(MemoryError):
            rebuild(path, documents(2, 400), threads=3)
    assert files(old) == kept
    assert tree(tmp_path) == names


# A disk that fails


class Disk:
    """Counts the calls of one kind and fails the one whose number it was given."""

    def __init__(self, fail: int, error: Callable[[], BaseException]) -> None:
        self.calls = 0
        self._fail = fail
        self._error = error

    def call(self) -> None:
        self.calls += 1
        if self.calls == self._fail:
            raise self._error()


class File:
    """A file whose writes ask the disk first, and then write half of what they were given."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file = file
        self._disk = disk
        self.name = file.name

    def write(self, data: Any) -> int:
        try:
            self._disk.call()
        except BaseException:
            self._file.write(data[: len(data) // 2])
            raise
        written: int = self._file.write(data)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def patch(monkeypatch: pytest.MonkeyPatch, kind: str, disk: Disk) -> None:
    if kind == "write":
        monkeypatch.setattr(store, "open", lambda *a: File(open(*a), disk) if "x" in a[1] else open(*a), raising=False)  # noqa: SIM115
        return
    real = getattr(os, kind.removesuffix(" done"))

    def before(*a: Any) -> Any:
        disk.call()
        return real(*a)

    def after(*a: Any) -> Any:
        out = real(*a)
        disk.call()
        return out

    monkeypatch.setattr(os, kind.removesuffix(" done"), after if kind.endswith("done") else before)


def no_space() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [no_space, KeyboardInterrupt], ids=["full", "interrupt"])
@pytest.mark.parametrize("kind", ["write", "fsync", "fsync done", "replace", "replace done"])
def test_a_disk_that_fails_at_any_moment_leaves_the_old_index_or_the_new(
    tmp_path: Path, kind: str, error: Callable[[], BaseException]
) -> None:
    """Every write, every fsync and the rename in turn, before and after it happened."""
    fresh = tmp_path / "reference"
    rebuild(fresh, documents(1))
    first = answer(Index.open(fresh))
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(0, error)
        patch(monkeypatch, kind, disk)
        rebuild(fresh, documents(2))
    second = answer(Index.open(fresh))
    assert disk.calls >= (1 if "replace" in kind else 5)

    for fail in range(1, disk.calls + 1):
        old = tmp_path / f"old{fail}"
        new = tmp_path / f"new{fail}" / "deep"
        rebuild(old, documents(1))
        for path in (old, new):
            with pytest.MonkeyPatch.context() as monkeypatch:
                patch(monkeypatch, kind, Disk(fail, error))
                with pytest.raises((QidfError, KeyboardInterrupt)) as caught:
                    rebuild(path, documents(2))
                if error is no_space:
                    assert "disk full" in str(caught.value)
        got = answer(Index.open(old))
        assert got in (first, second), f"call {fail}"
        Index.open(old).verify()
        assert new.exists() == (got == second), "both died at the same call, before the rename or after it"
        if new.exists():
            assert answer(Index.open(new)) == second, f"call {fail}"
        else:
            assert not new.parent.exists()
        rebuild(old, documents(2))
        assert answer(Index.open(old)) == second
        assert leftovers(old) == set()


LIMITED = """
import resource, sys
from qidf import Index, QidfError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    Index.build([(str(i), f"word{i} " * 3) for i in range(20_000)], sys.argv[1])
except QidfError as error:
    print(error)
"""


def test_a_file_that_may_not_grow_is_a_message_and_changes_nothing(tmp_path: Path, old: Path) -> None:
    kept, names = files(old), tree(tmp_path)
    for path in (old, tmp_path / "new"):
        run = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
        assert "can't write the index" in run.stdout
        assert run.stderr == ""
    assert files(old) == kept
    assert tree(tmp_path) == names
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# A process that is killed

LOOP = """
import itertools, sys
import qidf.index.build as build
from qidf import Index
build._BATCH_DOCUMENTS = 10
for g in itertools.count(int(sys.argv[2])):
    Index.build([(f"{g}-{i}", f"generation{g} word{i} text") for i in range(50)], sys.argv[1], memory=-1, threads=2)
    print(g, flush=True)
"""


def test_a_killed_build_leaves_the_last_commit(tmp_path: Path) -> None:
    rng = random.Random(5)
    rounds = [(worker, rng.random() * 0.12) for worker in range(20)]

    def one(job: tuple[int, float]) -> int:
        worker, delay = job
        path = tmp_path / str(worker)
        process = subprocess.Popen([sys.executable, "-c", LOOP, path, "0"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        if worker % 4:  # the others may die in their very first build
            process.stdout.readline()
            time.sleep(delay)
        else:
            time.sleep(0.25 + delay)
        process.kill()
        said = [int(line) for line in process.communicate()[0].split()]
        try:
            index = Index.open(path)
        except IndexNotFoundError:
            assert worker % 4 == 0
            assert said == []
            return 0
        index.verify()
        [g] = {int(hit.id.split("-")[0]) for hit in index.search("text", 60)}
        assert index.documents == 50
        assert index.doc_freqs([f"generation{g}", "text"]) == [50, 50]
        assert not said or g >= max(said)
        return len(leftovers(path))

    with ThreadPoolExecutor(2) as pool:
        left = list(pool.map(one, rounds))
    assert any(left), "no kill came in the middle of a build"
    for worker, _ in rounds:
        path = tmp_path / str(worker)
        assert Index.build([("a", "text")], path).documents == 1
        assert leftovers(path) == set()


# Where an index may stand


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(QidfError, match="not empty and holds no index"):
        Index.build([("a", "text")], tmp_path)
    assert tree(tmp_path) == ["thesis.tex"]


def test_files_of_others_in_the_folder_of_an_index_survive_a_rebuild(tmp_path: Path) -> None:
    Index.build([("a", "text")], tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "0123456789abcdef.qidf").write_text("left over")
    Index.build([("a", "text")], tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert leftovers(tmp_path) == {"notes.txt"}


def test_a_file_in_the_way_is_a_message(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for path in (file, file / "below"):
        with pytest.raises(QidfError, match="give another --index DIR"):
            Index.build([("a", "text")], path)
    assert tree(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_one_may_not_write_to_is_a_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(QidfError, match="give another --index DIR"):
            Index.build([("a", "text")], tmp_path / "x")
    finally:
        tmp_path.chmod(0o700)


def test_an_empty_folder_and_one_with_leftovers_only_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "0123456789abcdef.tmp").write_text("left over")
    assert Index.build([("a", "text")], tmp_path).documents == 1
    assert leftovers(tmp_path) == set()


def test_files_that_are_not_ours_are_never_removed_nor_replaced(tmp_path: Path) -> None:
    for name in ("thesis.tmp", "notes.sources", "game.qidf"):
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / name).write_text("mine")
        with pytest.raises(QidfError, match="not empty and holds no index"):
            Index.build([("a", "b c")], tmp_path / "d")
    (tmp_path / "ext").mkdir()
    (tmp_path / "ext" / "manifest.json").write_text('{"name": "an extension"}')
    with pytest.raises(QidfError, match="not empty and holds no index"):
        Index.build([("a", "b c")], tmp_path / "ext")
    assert (tmp_path / "ext" / "manifest.json").read_text() == '{"name": "an extension"}'
    Index.build([("a", "b c")], tmp_path / "x")
    (tmp_path / "x" / "thesis.tmp").write_text("mine")
    Index.build([("a", "b c")], tmp_path / "x")
    assert (tmp_path / "x" / "thesis.tmp").read_text() == "mine"


def test_a_symlinked_lock_is_not_followed(tmp_path: Path) -> None:
    Index.build([("a", "b c")], tmp_path / "x")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "x" / "write.lock").unlink(missing_ok=True)
    (tmp_path / "x" / "write.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(QidfError, match="symbolic link"):
        Index.build([("a", "d")], tmp_path / "x")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_in_place_of_a_file_is_an_error_and_no_wait(tmp_path: Path) -> None:
    for pattern in ("manifest.json", "*.qidf"):
        Index.build([("a", "b c")], tmp_path / "x")
        [file] = (tmp_path / "x").glob(pattern)
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(QidfError):
            Index.open(tmp_path / "x")
        file.unlink()
        shutil.rmtree(tmp_path / "x")


def test_interrupted_between_making_the_lock_and_holding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    real, calls = FileLock.acquire, 0

    def acquire(lock: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            Path(lock.lock_file).touch()
            raise KeyboardInterrupt
        return real(lock, *arguments, **options)

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with pytest.raises(KeyboardInterrupt):
        build(documents(1), str(tmp_path / "a" / "idx"), analyzer="code")
    assert list(tmp_path.iterdir()) == []
    build(documents(1), str(tmp_path / "a" / "idx"), analyzer="code")
    assert Index.open(tmp_path / "a" / "idx").documents == 40


def test_a_lock_of_somebody_else_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may make the folder between our look at it and our lock."""
    from filelock import FileLock

    place = tmp_path / "idx"
    real = store._topmost_absent
    held = FileLock(place / store.LOCK)

    def then_somebody_comes(path: str) -> str:
        absent = real(path)
        place.mkdir()
        held.acquire()
        return absent

    monkeypatch.setattr(store, "_topmost_absent", then_somebody_comes)
    with pytest.raises(QidfError, match="another process writes"):
        build(documents(1), str(place), analyzer="code")
    assert held.is_locked
    assert (place / store.LOCK).exists()
    held.release()
