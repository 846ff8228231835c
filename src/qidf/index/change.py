"""Changes to an index, from the first until they are committed: what is added, updated and deleted.

Added documents wait in memory, then in segments that no manifest names yet. What is deleted is a set of numbers for
each segment. A commit writes both and keeps N, the lengths, every df and the two counts of terms exact: the same as
those of a new build of the same documents. Rankings are then too, since they depend on nothing else.
"""

from __future__ import annotations

import os
import secrets
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from qidf import __version__
from qidf.analysis import tables
from qidf.errors import SourceError
from qidf.index import store, trust
from qidf.index.build import MEMORY, added_terms, digest, write_segments
from qidf.index.commit import Commit, open_commit
from qidf.index.merge import merge_all, merge_group
from qidf.index.segment import Segment, write_deletes
from qidf.sources import Document

_OVERHEAD = 400  # bytes of Python objects for a document that waits


class Change:
    """What one writer is about to commit. It holds the lock from the beginning to `commit` or `rollback`.

    Parameters
    ----------
    path : str
    memory : int, default 512 MiB
        About what the documents that wait may take, with their postings, before they become a segment.
    writer : Writer, default None
        One that holds the lock already, and goes on holding it.
    root : str, default ""
        A folder that the caller named as the root: if the index says the same, it is this user's from now on.
    known : Commit, default None
        One that is open already; used if it is still the newest.
    """

    def __init__(
        self,
        path: str,
        *,
        memory: int = MEMORY,
        writer: store.Writer | None = None,
        root: str = "",
        known: Commit | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._writer = writer or self._stack.enter_context(store.writing(path))
        self.over = False
        """Whether it was committed, rolled back, or has failed."""
        try:
            self.base = open_commit(path, known)
        except BaseException as error:
            self._close(error)
            raise
        self._memory = memory
        self._root = root
        self._segments = list(self.base.segments)  # of the commit, then those written since
        self._deleted: list[set[int]] = [set() for _ in self._segments]  # since the commit, by segment
        self._waiting: dict[str, Document] = {}
        self._by_path: dict[str, set[str]] = {}  # ids of waiting documents whose path is another string
        self._bytes = 0

    @property
    def documents(self) -> int:
        """How many documents the index will have."""
        there = sum(segment.documents for segment in self._segments)
        return there - sum(map(len, self._deleted)) + len(self._waiting)

    # what to change

    def put(self, documents: Iterable[Document], *, replace: bool) -> int:
        """Add documents; one with the id of another replaces it if `replace`, and is a SourceError else.

        Returns how many were added or replaced: one that is there already, the same to the last character, is not.
        """
        count = 0
        for document in documents:
            waiting = self._waiting.get(document.id)
            place = self._find(document.id) if waiting is None else None
            if (waiting is not None or place is not None) and not replace:
                raise SourceError(f"there is a document {document.id!r} already (update replaces it)")
            if waiting == document:
                continue
            if place is not None:
                i, number = place
                if self._segments[i].digest(number) == digest(document):
                    continue
                self._deleted[i].add(number)
            self._wait_for(document)
            count += 1
        return count

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents and return how many there were; ids that nobody has are no error."""
        count = 0
        for id in ids:
            if id in self._waiting:
                self._drop(id)
                count += 1
            elif (place := self._find(id)) is not None:
                self._deleted[place[0]].add(place[1])
                count += 1
        return count

    def ids_of(self, path: str) -> list[str]:
        """Return the ids of the documents whose path is `path`."""
        ids = [*self._by_path.get(path, ())]
        if path in self._waiting and self._waiting[path].path == path:
            ids.append(path)
        for i, segment in enumerate(self._segments):
            ids += [segment.id(n) for n in segment.numbers_of_path(path) if n not in self._deleted[i]]
        return ids

    def put_all(self, documents: Iterable[Document]) -> tuple[int, int, int]:
        """Make the index hold these documents and no others; what is the same already stays as it is.

        Returns how many were added, changed and removed. SourceError where two have the same id.
        """
        base = len(self.base.segments)
        seen = [bytearray(segment.all_documents) for segment in self.base.segments]
        added = changed = removed = 0
        for document in documents:
            place = self._find(document.id)
            if document.id in self._waiting or (place is not None and (place[0] >= base or seen[place[0]][place[1]])):
                raise SourceError(f"two documents have the id {document.id!r}; ids must be unique")
            if place is None:
                added += 1
            else:
                i, number = place
                seen[i][number] = 1
                if self._segments[i].digest(number) == digest(document):
                    continue
                self._deleted[i].add(number)
                changed += 1
            self._wait_for(document)
        for i, segment in enumerate(self.base.segments):
            for number in range(segment.all_documents):
                if not (seen[i][number] or segment.reader.is_deleted(number) or number in self._deleted[i]):
                    removed += 1
                    self._deleted[i].add(number)
        return added, changed, removed

    def _wait_for(self, document: Document) -> None:
        if document.id in self._waiting:
            self._drop(document.id)
        self._waiting[document.id] = document
        if document.path and document.path != document.id:
            self._by_path.setdefault(document.path, set()).add(document.id)
        self._bytes += len(document.text) + _OVERHEAD
        if 4 * self._bytes > self._memory:  # the text, and at most about three times as much to index it
            self._flush()

    def _drop(self, id: str) -> None:
        document = self._waiting.pop(id)
        self._bytes -= len(document.text) + _OVERHEAD
        if document.path in self._by_path:
            self._by_path[document.path].discard(id)

    def _find(self, id: str) -> tuple[int, int] | None:
        """Return the segment's and the document's number of a document that no one has deleted."""
        for i in range(len(self._segments) - 1, -1, -1):
            number = self._segments[i].number(id)
            if number >= 0 and number not in self._deleted[i]:
                return i, number
        return None

    def _flush(self) -> None:
        """Write what waits as segments. If that fails, the change is over: half of it must never be committed."""
        if not self._waiting:
            return
        documents = list(self._waiting.values())
        self._waiting.clear()
        self._by_path.clear()
        self._bytes = 0
        try:
            written = write_segments(
                self._writer,
                documents,
                analyzer=self.base.manifest.analyzer,
                store_text=self.base.manifest.stored,
                memory=self._memory,
                threads=None if len(documents) > 64 else 1,
                progress=None,
                seed=self._segments[0].seed if self._segments else secrets.randbits(63),
            )
        except BaseException as error:
            self._close(error)
            raise
        self._segments += written
        self._deleted += [set() for _ in written]

    # the end

    def commit(
        self,
        *,
        merge: bool = True,
        optimize: bool = False,
        root: str | None = None,
        stamps: Sequence[tuple[str, store.Stamp]] | None = None,
    ) -> Commit:
        """Make the changes the index, durably, and free the lock. Without any change nothing is written.

        Parameters
        ----------
        merge : bool, default True
            Merge segments where there are many.
        optimize : bool, default False
            Merge all segments into one without deleted documents.
        root, stamps
            As in `build`; None leaves them as they are.

        Raises
        ------
        QidfError
            The disk is full or fails. The last commit stands then, the changes are gone, the lock is free.
        """
        try:
            commit = self._commit(merge, optimize, root, stamps)
        except BaseException as error:
            self._close(error)
            raise
        self._close(None)
        return commit

    def rollback(self) -> None:
        """Forget the changes and free the lock."""
        self._writer.abandon()
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        self.over = True
        if error is None:
            self._stack.close()
        else:  # what was written goes, with a folder that was not there before
            self._stack.__exit__(type(error), error, error.__traceback__)

    def _commit(
        self, merge: bool, optimize: bool, root: str | None, stamps: Sequence[tuple[str, store.Stamp]] | None
    ) -> Commit:
        old = self.base.manifest
        self._flush()
        manifest = replace(old, root=old.root if root is None else root, written_by=__version__)
        manifest, segments = self._apply(manifest)
        if optimize and (len(segments) > 1 or any(segment.deletes is not None for segment in segments)):
            segments = merge_group(self._writer, segments, range(len(segments)))
        elif merge:
            segments = merge_all(self._writer, segments)
        sources = old.sources if stamps is None else store.write_sources(self._writer, stamps)
        manifest = replace(
            manifest,
            documents=sum(segment.documents for segment in segments),
            tokens=sum(segment.tokens for segment in segments),
            segments=[segment.name for segment in segments],
            deletes=[segment.deletes.name if segment.deletes is not None else "" for segment in segments],
            sources=sources,
        )
        if manifest.files == old.files and manifest.root == old.root:
            self._writer.abandon()  # such as a segment of which everything was deleted again
            return self.base
        manifest = replace(
            manifest,
            generation=old.generation + 1,
            mark=self._mark(manifest, root is not None or self._root == manifest.root) if manifest.root else "",
            unicode=tables(manifest.analyzer),
        )
        self._writer.commit(manifest)
        return Commit(manifest, segments)

    def _mark(self, manifest: store.Manifest, named: bool) -> str:
        """Return the mark of this user's indexes, if the caller named the root, or the last commit had the mark."""
        old = self.base.manifest
        if not named and not trust.made_here(old.root, old.segments, old.mark):
            return ""
        return trust.mark(manifest.root, manifest.segments)

    def _apply(self, manifest: store.Manifest) -> tuple[store.Manifest, list[Segment]]:
        """Write the deletes; return the manifest with the counts of terms, and the segments that hold any document."""
        terms, hapax = manifest.terms, manifest.hapax_terms
        base = len(self.base.segments)
        segments = list(self._segments)
        for i, numbers in enumerate(self._deleted):
            if not numbers:
                continue
            old, new = segments[i], array("I", sorted(numbers))
            found, counts = old.reader.terms_of(new)
            if i < base:
                before = array("q", map(old.reader.df, found))
                after = array("q", [df - n for df, n in zip(before, counts, strict=True)])
                others = tuple(other.reader for j, other in enumerate(segments[:base]) if j != i)
                more, once = old.reader.shift(found, before, after, others)
                terms, hapax = terms + more, hapax + once
            segments[i] = self._without(old, new, found, counts)
        for i in range(base, len(segments)):
            more, once = added_terms(segments[i], segments[:i])
            terms, hapax = terms + more, hapax + once
        return replace(manifest, terms=terms, hapax_terms=hapax), [s for s in segments if s.documents]

    def _without(self, segment: Segment, docs: array[int], terms: array[int], counts: array[int]) -> Segment:
        """Write that `docs` of a segment are deleted, whose `terms` stood in `counts` of them, and open it so."""
        lost = dict(zip(terms, counts, strict=True))
        numbers = set(docs)
        tokens = sum(segment.reader.length(doc) for doc in docs)
        if segment.deletes is not None:
            numbers.update(segment.deletes.docs)
            tokens += segment.deletes.tokens
            for term, n in zip(segment.deletes.terms, segment.deletes.lost, strict=True):
                lost[term] = lost.get(term, 0) + n
        ascending = sorted(lost)
        all_docs, all_terms = array("I", sorted(numbers)), array("I", ascending)
        all_lost = array("I", map(lost.__getitem__, ascending))
        with self._writer.create(".deletes") as file:
            write_deletes(file, segment.name, all_docs, all_terms, all_lost, tokens)
        return Segment(os.path.join(self._writer.path, segment.name), file.name)
