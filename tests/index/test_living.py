"""An index that changes: after any sequence of operations it is what a new build of the same documents is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from qidf.analysis import tables
from qidf.errors import IndexLockedError, IndexNotFoundError, QidfError, SourceError
from qidf.index import Index, merge, store
from qidf.sources import Document

from .helpers import WORDS, answer, leftovers, plain_python, texts

IDS = st.sampled_from(["a", "b", "c", "d/e", "é", "\ud800", "z", "漢", "aa", "ab", "x1", "x2"])
PATHS = st.sampled_from(["", "p", "pq", "q", "a", "é"])
documents = st.builds(Document, IDS, texts, PATHS, st.sampled_from([1, 1, 7]))
batches = st.lists(documents, min_size=1, max_size=6, unique_by=lambda document: document.id)


def same(living: Index, expected: dict[str, Document], analyzer: str) -> None:
    """The living index answers, to the last bit, as a new one of the same documents does."""
    assert living.documents == len(expected)
    if not expected:
        assert (living.tokens, living.terms, living.hapax_terms, living.search("alpha beta")) == (0, 0, 0, [])
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh = Index.build(expected.values(), os.path.join(folder, "x"), analyzer=analyzer, store_text=True)
        assert answer(living) == answer(fresh)
        for document in expected.values():
            assert living.text(document.id) == document.text.encode("utf-16", "surrogatepass").decode("utf-16")
            assert living.length(document.id) == fresh.length(document.id)
            assert living.term_freqs(document.id, WORDS) == fresh.term_freqs(document.id, WORDS)


class Living(RuleBasedStateMachine):
    """Adds, updates, deletes, commits, rolls back, merges; `committed` and `pending` are what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "index")
        self.patches = mock.patch.multiple(merge, FAN=3)
        self.patches.start()

    @initialize(batch=batches, analyzer=st.sampled_from(["code", "standard"]))
    def build(self, batch: list[Document], analyzer: str) -> None:
        self.analyzer = analyzer
        self.index = Index.build(batch, self.path, analyzer=analyzer, store_text=True)
        self.committed = {document.id: document for document in batch}
        self.pending = dict(self.committed)

    def clashes(self, batch: list[Document]) -> bool:
        return any(document.id in self.pending for document in batch)

    @rule(batch=batches, memory=st.sampled_from([1 << 29, 1]))
    def add(self, batch: list[Document], memory: int) -> None:
        try:
            assert self.index.add(batch, memory=memory) == len(batch)
        except SourceError:
            assert self.clashes(batch)
            for document in batch:
                if document.id in self.pending:
                    return
                self.pending[document.id] = document
        assert not self.clashes(batch)
        self.pending |= {document.id: document for document in batch}

    @rule(batch=batches, memory=st.sampled_from([1 << 29, 1]))
    def update(self, batch: list[Document], memory: int) -> None:
        changed = sum(self.pending.get(document.id) != document for document in batch)
        assert self.index.update(batch, memory=memory) == changed
        self.pending |= {document.id: document for document in batch}

    @rule(batch=batches, source=PATHS.filter(bool))
    def update_source(self, batch: list[Document], source: str) -> None:
        batch = [Document(d.id, d.text, source, d.line) for d in batch]
        self.index.update(batch, source=source)
        self.pending = {id: d for id, d in self.pending.items() if d.path != source}
        self.pending |= {document.id: document for document in batch}

    @rule(ids=st.lists(IDS, max_size=4))
    def delete(self, ids: list[str]) -> None:
        assert self.index.delete(ids) == len(self.pending.keys() & set(ids))
        self.pending = {id: d for id, d in self.pending.items() if id not in ids}

    @rule(source=PATHS.filter(bool))
    def delete_source(self, source: str) -> None:
        gone = [id for id, d in self.pending.items() if d.path == source]
        assert self.index.delete(source=source) == len(gone)
        for id in gone:
            del self.pending[id]

    @rule(how=st.sampled_from(["foreground", "background", "none"]))
    def commit(self, how: str) -> None:
        self.index.commit(merge=how)
        self.committed = dict(self.pending)

    @rule()
    def rollback(self) -> None:
        self.index.rollback()
        self.pending = dict(self.committed)

    @rule()
    def optimize(self) -> None:
        self.index.optimize()
        self.committed = dict(self.pending)
        assert len(self.index._segments) <= 1
        assert all(segment.deletes is None for segment in self.index._segments)

    @rule()
    def open_again(self) -> None:
        self.index.rollback()
        thread = self.index._writing.thread
        if thread is not None:
            thread.join()
        self.index = Index.open(self.path)
        self.pending = dict(self.committed)

    @rule()
    def others_are_locked_out(self) -> None:
        if self.index._writing.change is not None:
            with pytest.raises(IndexLockedError):
                Index.open(self.path).delete(["a"])

    @invariant()
    def is_what_a_build_gives(self) -> None:
        if hasattr(self, "index"):
            same(self.index, self.committed, self.analyzer)
            self.index.verify()

    def teardown(self) -> None:
        self.patches.stop()
        if hasattr(self, "index"):
            self.index.__exit__()
        shutil.rmtree(self.folder)


TestLiving = Living.TestCase
TestLiving.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


class PlainLiving(Living):
    """The same with the twin of the kernels."""

    def __init__(self) -> None:
        self.python = plain_python()
        self.python.__enter__()
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        self.python.__exit__(None, None, None)


TestPlainLiving = PlainLiving.TestCase
TestPlainLiving.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)


# Readers and writers at once


def generation(g: int) -> list[Document]:
    return [Document(f"{i}", f"generation{g} word{i} text", f"g{g}") for i in range(40)]


def seen(index: Index) -> int:
    """Which generation a search finds: one, whole."""
    hits = index.search("text", 60)
    assert len(hits) == 40
    [path] = {hit.path for hit in hits}
    return int(path.removeprefix("g"))


@pytest.mark.parametrize("how", ["foreground", "background"])
def test_sixteen_threads_search_one_index_while_it_commits(tmp_path: Path, how: str) -> None:
    index = Index.build(generation(0), tmp_path / "x", analyzer="standard")
    going = threading.Event()
    going.set()

    def search(_: int) -> list[int]:
        found = []
        while going.is_set():
            found.append(seen(index))
            ids, scores = index.search_many(["text", "word7"], 60, threads=1)
            assert (ids[0] != None).sum() == 40  # noqa: E711
            assert (scores[1] > 0).sum() == 1
            assert index.explain("text word3", "3").score > 0
            assert index.doc_freqs(["text"]) == [40]
            with index.snapshot() as one:
                assert seen(one) == seen(one)
        return found

    with ThreadPoolExecutor(16) as pool:
        results = [pool.submit(search, i) for i in range(16)]
        try:
            with mock.patch.object(merge, "FAN", 3):
                for g in range(1, 12):
                    index.update(generation(g), memory=8_000)
                    index.commit(merge=how)
        finally:
            going.clear()
        for result in results:
            found = result.result()
            assert found == sorted(found), "a commit is never unseen again"
            assert found
    assert seen(index) == 11
    index.__exit__()


READER = """
import sys
from pathlib import Path
from tests.index.test_living import seen
from qidf.index import Index
path, stop = sys.argv[1:]
kept, last, n = Index.open(path), 0, 0
first = seen(kept)
print("ready", flush=True)
while not Path(stop).exists():
    g = seen(Index.open(path))
    assert g >= last, (g, last)
    last, n = g, n + 1
    assert seen(kept) == first
    if n % 7 == 0:
        kept.reload()
        first = seen(kept)
        assert first >= g
print(n, last)
"""

ROOT = Path(__file__).parents[2]


def test_processes_read_while_another_writes(tmp_path: Path) -> None:
    path, stop = tmp_path / "x", tmp_path / "stop"
    index = Index.build(generation(0), path, analyzer="standard")
    command = [sys.executable, "-c", READER, str(path), str(stop)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(4)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    with mock.patch.object(merge, "FAN", 3):
        for g in range(1, 120):
            index.update(generation(g))
            index.commit()
    stop.touch()
    for reader in readers:
        out, _ = reader.communicate(timeout=60)
        assert reader.returncode == 0
        n, last = map(int, out.split())
        assert n > 0
        assert last <= 119
    assert leftovers(path) == set(), "nobody's files are left"


REFRESHER = """
import sys
from qidf.index.refresh import refresh
sys.stdin.readline()
done = refresh(sys.argv[1], sys.argv[2], wait=30)
print(int(done.built), done.documents)
"""


def test_of_two_refreshes_at_once_one_does_it(tmp_path: Path) -> None:
    tree, path = tmp_path / "tree", tmp_path / "x"
    tree.mkdir()
    for round in range(3):
        for i in range(300):
            file = tree / f"{i}.py"
            file.write_text(f"round{round} word{i} " * 50)
            os.utime(file, (1e9 + round, 1e9 + round))
        command = [sys.executable, "-c", REFRESHER, str(tree), str(path)]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
        ]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0].split() for process in processes]
        assert sorted(said) == [["0", "300"], ["0", "300"], ["1", "300"]]
        assert Index.open(path).doc_freqs([f"round{round}"]) == [300]


HOLDER = """
import sys
from qidf.index import Index
index = Index.open(sys.argv[1])
index.delete(["1"])
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_lock_names_its_owner_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    index = Index.build(generation(0), path, analyzer="standard")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(IndexLockedError, match=rf"another process \({holder.pid}: .*\) writes to the index"):
            index.delete(["2"])
        assert seen(index) == seen(Index.open(path)) == 0
        holder.kill()
        holder.communicate()
    assert index.delete(["2"]) == 1
    index.commit()
    assert index.documents == 39
    assert leftovers(path) == set()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"pid": "x"}', b'{"pid": 1, "command": "a\\u001b[31mb\\n"}', b"\xff" * 9000]
)
def test_an_owner_who_says_nonsense_is_just_another_process(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    index = Index.build(generation(0), path)
    other = Index.open(path)
    other.delete(["1"])
    (path / store.OWNER).write_bytes(content)
    with pytest.raises(IndexLockedError, match="another process") as caught:
        index.delete(["1"])
    assert str(caught.value).isprintable()
    other.commit()
    assert not (path / store.OWNER).exists()


def test_a_symlink_in_place_of_the_owner_is_not_followed(tmp_path: Path) -> None:
    index = Index.build(generation(0), tmp_path / "x")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "x" / store.OWNER).symlink_to(tmp_path / "precious")
    index.delete(["1"])
    index.commit()
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_change_may_begin_in_one_thread_and_end_in_another(tmp_path: Path) -> None:
    index = Index.build(generation(0), tmp_path / "x")
    for act in (lambda: index.delete(["1"]), index.commit, lambda: index.delete(["2"]), index.rollback):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    assert index.documents == 39
    Index.open(tmp_path / "x").optimize()


# What an index is like that changes


def test_segments_and_disk_stay_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    index = Index.build([(f"{i}", f"word{i} text " * 20) for i in range(200)], path)
    one = sum(file.stat().st_size for file in path.iterdir())
    for g in range(400):
        index.update([(f"{g % 200}", f"word{g} other text " * 20)])
        index.commit()
        assert index.segments <= merge.FAN
    assert sum(file.stat().st_size for file in path.iterdir()) < 2.5 * one
    index.optimize()
    assert index.segments == 1
    index.optimize()
    assert index.postings()[0].docs.size > 0


def test_many_levels_of_segments_are_merged_by_size(tmp_path: Path) -> None:
    with mock.patch.multiple(merge, SMALLEST=20, FAN=3):
        index = Index.build([("0", "w0 t")], tmp_path / "x", analyzer="standard")
        counts = []
        for g in range(1, 200):
            index.add([(f"{g}", " ".join(f"w{g}x{i}" for i in range(9)))])
            index.commit()
            counts.append(index.segments)
    assert max(counts) <= 2 * 7, "two for each level of 20, 60, 180, … postings"
    assert max(counts) > 4
    assert index.documents == 200


def test_postings_of_deleted_documents_are_not_given_out(tmp_path: Path) -> None:
    index = Index.build([(f"{i}", "alpha") for i in range(20)], tmp_path / "x")
    index.delete(["1"])
    index.commit()
    with pytest.raises(QidfError, match="optimize"):
        index.postings()
    index.optimize()
    assert len(index.postings()[0].docs) == 19


def test_nothing_to_commit_writes_nothing(tmp_path: Path) -> None:
    index = Index.build([("a", "alpha"), ("b", "beta")], tmp_path / "x")
    before = sorted(os.listdir(tmp_path / "x"))
    assert index.delete(["nobody"]) == 0
    assert index.update([("a", "alpha")]) == 0
    index.commit()
    index.commit(merge="background")
    index.__exit__()
    assert sorted(os.listdir(tmp_path / "x")) == before
    assert not index.reload()


def test_wrong_arguments_are_told_and_change_nothing(tmp_path: Path) -> None:
    index = Index.build([("a", "alpha"), ("b", "beta")], tmp_path / "x")
    wrong: Any = "a"
    with pytest.raises(TypeError, match="one str"):
        index.delete(wrong)
    wrong = [5]
    with pytest.raises(TypeError, match="an id must be str"):
        index.delete(wrong)
    with pytest.raises(SourceError, match="expected a Document"):
        index.add(wrong)
    with pytest.raises(SourceError, match="path 'p', not 'q'"):
        index.update([Document("c", "gamma", "p")], source="q")
    with pytest.raises(ValueError, match="merge must be"):
        index.commit(merge="later")
    with pytest.raises(SourceError, match="'a' already"):
        index.add([("c", "gamma"), ("a", "other")])
    with pytest.raises(QidfError, match="snapshot"):
        index.snapshot().delete(["a"])
    index.rollback()
    assert index.documents == 2
    with index:
        index.delete(["a"])
    assert Index.open(tmp_path / "x").documents == 2


def test_an_index_of_the_first_format_is_read_and_becomes_one_of_this(tmp_path: Path) -> None:
    """As version 0.1.0 wrote it: no deletes in the manifest, no digests and no name in the segment."""
    path = tmp_path / "x"
    shutil.copytree(Path(__file__).with_name("format1"), path)
    row = json.loads((path / store.MANIFEST).read_bytes().partition(b"\n")[2])
    body = json.dumps({**row, "unicode": tables("code")}).encode()  # of the Python that runs this
    head = json.dumps({"qidf index format": 1, "crc32": zlib.crc32(body)}).encode()
    (path / store.MANIFEST).write_bytes(head + b"\n" + body)
    index = Index.open(path)
    expected = [
        ("config.py", "def parse_config(path): read the config file at path"),
        ("users.py", "def getUserById(user_id): return users"),
    ]
    fresh = Index.build(expected, tmp_path / "y", store_text=True)
    assert answer(index) == answer(fresh)
    index.verify()
    index.update([*expected, ("new.py", "the new file")])
    index.commit()
    assert store.read_manifest(str(path)).deletes
    assert b'"qidf index format": 2' in (path / store.MANIFEST).read_bytes()
    fresh = Index.build([*expected, ("new.py", "the new file")], tmp_path / "z", store_text=True)
    assert answer(Index.open(path)) == answer(fresh)


def test_a_change_that_comes_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    index = Index.build([("a", "alpha"), ("b", "beta")], path)
    index.add([("c", "gamma")], memory=1)  # becomes a segment at once
    assert index.delete(["c"]) == 1
    index.commit()
    assert leftovers(path) == set()
    wrong: Any = 5
    with pytest.raises(TypeError, match="source must be str"):
        index.delete(source=wrong)
    assert Index.open(path).delete(["a"]) == 1, "the lock was not taken"


def test_an_index_that_is_gone_is_not_made_again_by_a_change(tmp_path: Path) -> None:
    index = Index.build([("a", "alpha")], tmp_path / "x")
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(IndexNotFoundError):
        index.add([("b", "beta")])
    assert os.listdir(tmp_path) == []
    assert [hit.id for hit in index.search("alpha")] == ["a"]
