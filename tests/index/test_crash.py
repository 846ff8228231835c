"""Whatever happens while an index changes, its last commit is there and right, and the next run goes on.

Processes are killed at random moments; every write, fsync and rename in turn meets a full disk or an input error.
QIDF_LONG=1 makes it 300 kills.
"""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import QidfError
from qidf.index import Index, merge, store
from qidf.index.refresh import refresh
from qidf.sources import Document

from .helpers import answer, leftovers
from .test_atomic import Disk, no_space, patch

KILLS = 300 if os.environ.get("QIDF_LONG") == "1" else 20

# Each child says `begin N` before the commit of generation N and `done N` after it. A generation's documents all hold
# the term generationN; what a commit should hold can so be told from what is there.

START = """
import sys, itertools
from qidf import Index
from qidf.index import merge
merge.FAN = 3
path, tree, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
def say(word, g): print(f"{word} {g}", flush=True)
"""

BUILD = (
    START
    + """
for g in itertools.count(first):
    say("begin", g)
    documents = [(f"{i}", f"generation{g} word{i} text " * 5) for i in range(50)]
    Index.build(documents, path, analyzer="standard", memory=1, threads=2)
    say("done", g)
"""
)

UPDATE = (
    START
    + """
index = Index.open(path)
for g in itertools.count(first):
    say("begin", g)
    for i in range(50):
        index.update([(f"{i}", f"generation{g} word{i} text " * 5)], memory=40_000)
    index.commit(merge=["foreground", "background", "none"][g % 3])
    say("done", g)
"""
)

MERGE = (
    START
    + """
index = Index.open(path)
for g in itertools.count(first):
    say("begin", g)
    index.delete([str(i) for i in range(50)])
    index.add([(f"{i}", f"generation{g} word{i} text " * 5) for i in range(50)], memory=8_000)
    index.optimize()
    say("done", g)
"""
)

REFRESH = (
    START
    + """
import os
from qidf.index.refresh import refresh
for g in itertools.count(first):
    for i in range(50):
        with open(os.path.join(tree, "aside"), "w") as file:
            file.write(f"generation{g} word{i} text " * 5)
        os.replace(os.path.join(tree, "aside"), os.path.join(tree, f"{i}"))
    say("begin", g)
    refresh(tree, path)
    say("done", g)
"""
)

PROGRAMS = {"build": BUILD, "update": UPDATE, "merge": MERGE, "refresh": REFRESH}


def generation(index: Index) -> int:
    """Check that an index holds one generation, whole, and return which."""
    index.verify()
    assert index.documents == 50
    hits = index.search("text", 60)
    assert sorted(hit.id for hit in hits) == sorted(str(i) for i in range(50))
    assert index.tokens == 750
    assert index.doc_freqs(["text", "word7"]) == [50, 1]
    found = [g for g in range(1000) if index.doc_freqs([f"generation{g}"]) == [50]]
    assert len(found) == 1
    assert (index.terms, index.hapax_terms) == (52, 50)
    return found[0]


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_killed_process_leaves_the_last_commit_or_the_next(tmp_path: Path, what: str) -> None:
    rng = random.Random(what)
    rounds = [(n, rng.random()) for n in range(KILLS // len(PROGRAMS))]

    def one(job: tuple[int, float]) -> int:
        n, chance = job
        path, tree = tmp_path / f"{n}", tmp_path / f"{n}tree"
        tree.mkdir()
        for i in range(50):
            (tree / f"{i}").write_text(f"generation0 word{i} text " * 5)
        refresh(tree, path, analyzer="standard") if what == "refresh" else Index.build(
            [(f"{i}", f"generation0 word{i} text " * 5) for i in range(50)], path, analyzer="standard"
        )
        left = 0
        first = 1
        for _ in range(2):  # the second run goes on where the first was killed
            command = [sys.executable, "-c", PROGRAMS[what], str(path), str(tree), str(first)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance * 0.15)
            process.kill()
            whole = process.communicate()[0].split("\n")[:-1]  # a kill may come in the middle of a line
            said = [f"begin {first}", *whole]
            begun = max(int(line.split()[1]) for line in said if line.startswith("begin"))
            done = max((int(line.split()[1]) for line in said if line.startswith("done")), default=0)
            found = generation(Index.open(path))
            assert (done or first - 1) <= found <= begun, said
            left += len(leftovers(path) - {store.OWNER})
            first = found + 1
        index = Index.open(path)
        index.update([("0", "the end")])
        index.commit()
        assert leftovers(path) == set(), "what the dead left behind is gone"
        assert [hit.id for hit in index.search("end")] == ["0"]
        return left

    with ThreadPoolExecutor(2) as pool:
        left = list(pool.map(one, rounds))
    assert any(left) or len(rounds) < 20, "no kill came in the middle of a write"


# A disk that fails at each moment in turn


def input_error() -> OSError:
    return OSError(errno.EIO, "Input/output error")


def update(path: Path, _: Path) -> None:
    index = Index.open(path)
    index.update([(f"{i}", f"generation1 word{i} text " * 5) for i in range(50)], memory=8_000)
    index.commit(merge="none")


def merging(path: Path, tree: Path) -> None:
    index = Index.open(path)
    index.update([(f"{i}", f"generation1 word{i} text " * 5) for i in range(50)], memory=8_000)
    index.commit()


def optimize(path: Path, tree: Path) -> None:
    index = Index.open(path)
    index.update([(f"{i}", f"generation1 word{i} text " * 5) for i in range(50)])
    index.optimize()


def refreshing(path: Path, tree: Path) -> None:
    for i in range(50):
        (tree / f"{i}").write_text(f"generation1 word{i} text " * 5)
    refresh(tree, path)


@pytest.mark.parametrize("error", [no_space, input_error, KeyboardInterrupt], ids=["full", "error", "interrupt"])
@pytest.mark.parametrize("kind", ["write", "fsync", "fsync done", "replace", "replace done"])
@pytest.mark.parametrize("act", [update, merging, optimize, refreshing], ids=lambda act: act.__name__)
def test_a_disk_that_fails_at_any_moment_leaves_the_last_commit_or_the_next(
    tmp_path: Path, act: Callable[[Path, Path], None], kind: str, error: Callable[[], BaseException]
) -> None:
    def prepare(name: str) -> tuple[Path, Path]:
        path, tree = tmp_path / name, tmp_path / f"{name}tree"
        tree.mkdir()
        for i in range(50):
            (tree / f"{i}").write_text(f"generation0 word{i} text " * 5)
        refresh(tree, path, analyzer="standard")
        return path, tree

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(merge, "FAN", 3)
        paths = prepare("reference")
        disk = Disk(0, error)
        with pytest.MonkeyPatch.context() as inner:
            patch(inner, kind, disk)
            act(*paths)
        assert generation(Index.open(paths[0])) == 1
        for fail in range(1, disk.calls + 1):
            path, tree = prepare(str(fail))
            with pytest.MonkeyPatch.context() as inner:
                patch(inner, kind, Disk(fail, error))
                with pytest.raises((QidfError, KeyboardInterrupt)) as caught:
                    act(path, tree)
            if error is no_space:
                assert "disk full" in str(caught.value)
            assert generation(Index.open(path)) in (0, 1), f"call {fail}"
            assert not os.path.exists(path / store.OWNER)
            act(path, tree)
            assert generation(Index.open(path)) == 1
            if act is not refreshing or leftovers(path):  # a refresh with nothing to do writes nothing
                index = Index.open(path)
                index.update([("0", "the end")])
                index.commit()
                assert leftovers(path) == set()


def test_a_change_that_fails_frees_the_lock_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.build([("a", "alpha"), ("b", "beta")], tmp_path / "x")
    before = answer(index)
    index.delete(["a"])
    with pytest.MonkeyPatch.context() as inner:
        patch(inner, "fsync", Disk(1, no_space))
        with pytest.raises(QidfError, match="disk full"):
            index.commit()
    assert answer(index) == before
    assert Index.open(tmp_path / "x").documents == 2
    other = Index.open(tmp_path / "x")
    assert other.delete(["b"]) == 1
    other.commit()
    assert index.reload()
    assert [hit.id for hit in index.search("alpha beta")] == ["a"]
    assert index.delete(["a"]) == 1
    index.commit()
    assert (index.documents, index.search("alpha")) == (0, [])
    index.add([("c", "gamma")])
    index.commit()
    assert [hit.id for hit in index.search("gamma")] == ["c"]


def test_a_full_disk_is_noticed_before_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    index = Index.build([(f"{i}", f"word{i}") for i in range(100)], tmp_path / "x")
    usage: Any = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(QidfError, match="not enough disk"):
        Index.build([("a", "alpha")], tmp_path / "y")
    assert not (tmp_path / "y").exists()
    index.update([("1", "other")])
    with pytest.raises(QidfError, match="not enough disk"):
        index.commit()
    index.delete(["1"])
    with pytest.raises(QidfError, match="not enough disk"):
        index.optimize()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("alpha")
    with pytest.raises(QidfError, match="not enough disk"):
        refresh(tree, tmp_path / "z")
    assert Index.open(tmp_path / "x").documents == 100
    assert leftovers(tmp_path / "x") == set()


def test_documents_given_as_such_survive_too(tmp_path: Path) -> None:
    index = Index.build([Document("a", "alpha", "p", 3)], tmp_path / "x")
    index.update([Document("b", "beta", "p", 4)])
    index.commit()
    assert [(hit.id, hit.path, hit.line) for hit in index.search("alpha beta")] == [("a", "p", 3), ("b", "p", 4)]
