"""An index that changes: after any sequence of operations it is what a new build of the same documents is."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from qidf.errors import IndexLockedError, QidfError, SourceError
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
