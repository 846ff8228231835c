"""The index as its users see it: open, search, explain, statistics.

A query is a list of weighted terms; the weights come from `qidf.weighting`, the ranking from the kernels. Imports are
light: a search from the command line must not wait for numpy.
"""

from __future__ import annotations

import heapq
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from qidf.errors import QidfError, SourceError
from qidf.index import store
from qidf.index.explain import Explanation, explain
from qidf.index.segment import Segment
from qidf.kernels import Scanner
from qidf.sources import id_bytes
from qidf.weighting import (
    K1,
    B,
    Q,
    QueryTerm,
    Scheme,
    check_bm25,
    check_count,
    check_odds,
    check_weights,
    parse_q,
    query_terms,
    resolve,
    term_weights,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qidf.index.batch import Batch, Terms
    from qidf.index.change import Change
    from qidf.index.commit import Commit
    from qidf.sources import Document
    from qidf.spectrum import Spectrum


MOST_THREADS = 64
"""More are never started, whatever is asked for."""


class Hit(NamedTuple):
    """A document of a ranking. `rank` counts from 1; `path` is empty if the document has none, `line` is where in it
    the document begins.
    """

    rank: int
    id: str
    path: str
    line: int
    score: float


class Postings(NamedTuple):
    """The postings of a segment, its terms one after the other.

    Attributes
    ----------
    docs, counts : array, shape (postings,)
        The document's number in the segment, and how often the term stands there.
    offsets : array, shape (terms + 1,)
        Where each term's postings begin.
    lengths : array, shape (documents,)
        Tokens of each document.
    """

    docs: NDArray[np.uint32]
    counts: NDArray[np.uint64]
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint32]


@dataclass
class _State:
    """One commit, open, and what was computed for it."""

    manifest: store.Manifest
    segments: list[Segment]
    norms: dict[tuple[float, float], list[Any]] = field(default_factory=dict)
    batch: Batch | None = None  # made by the first search_many: it takes numpy


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _of_one_commit(method: Callable[Concatenate[Index, _P], _R]) -> Callable[Concatenate[Index, _P], _R]:
    """Let a method see one commit from beginning to end, whatever another thread commits meanwhile."""

    @wraps(method)
    def run(self: Index, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(self.snapshot(), *args, **kwargs)

    return run


class _Writing:
    """What the changes of an index have in common: who may make them now, and what they are."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.change: Change | None = None
        self.thread: threading.Thread | None = None  # that merges


class Index:
    """An index on disk, as of the commit it was opened at, or that it made itself, or that `reload` found.

    Get one from `Index.build`, `Index.open` or `Index.from_path`. Threads may share it: each search sees one commit,
    whole. Changes (`add`, `update`, `delete`) are seen by nobody until `commit`; the first of them takes the lock that
    keeps other writers out, and `commit` or `rollback` frees it.
    """

    def __init__(self, path: str, manifest: store.Manifest, segments: list[Segment], root: str = "") -> None:
        self.path = path
        self._state = _State(manifest, segments)
        self._root = root
        self._is_mine: dict[str, bool] = {}  # by mark: whether this user built the index
        self._frozen = False
        self._writing = _Writing()

    @property
    def analyzer(self) -> str:
        """The analyzer it was built with."""
        return self._state.manifest.analyzer

    @property
    def documents(self) -> int:
        """N, the number of documents."""
        return self._state.manifest.documents

    @property
    def tokens(self) -> int:
        """The number of tokens of all documents."""
        return self._state.manifest.tokens

    @property
    def terms(self) -> int:
        """The number of terms."""
        return self._state.manifest.terms

    @property
    def hapax_terms(self) -> int:
        """The number of terms with df = 1."""
        return self._state.manifest.hapax_terms

    @property
    def segments(self) -> int:
        """How many segments it consists of."""
        return len(self._state.segments)

    @property
    def state(self) -> str:
        """A name of what the index holds: another one after each change."""
        import hashlib

        manifest = self._state.manifest
        files = "\n".join((*manifest.segments, *manifest.deletes)).encode()
        return f"{manifest.documents} {hashlib.blake2b(files, digest_size=12).hexdigest()}"

    @property
    def root(self) -> str:
        """The directory or file that the texts of documents are read from; empty if there is none."""
        return self._root or self._state.manifest.root

    @property
    def _segments(self) -> list[Segment]:
        return self._state.segments

    @classmethod
    def build(
        cls,
        documents: Iterable[Document | tuple[str, str]],
        path: str | os.PathLike[str],
        *,
        analyzer: str = "code",
        store_text: bool = False,
        memory: int = 512 << 20,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """Build an index and open it.

        Parameters
        ----------
        documents : iterable of Document or of (id, text)
            Read once, in bounded memory. Ids must be unique.
        path : str or path
            The directory of the index. One that stands there is replaced when the new one is whole.
        analyzer : {"code", "standard", "simple", "word"}, default "code"
            See `qidf.analysis`.
        store_text : bool, default False
            Keep the texts in the index, for snippets.
        memory : int, default 512 MiB
            Bytes a build may hold (documents in hand, their postings and vocabulary) before it writes a segment out.
        threads : int, default the number of processors, at most 8
        progress : callable, default None
            Called now and then with the number of documents read so far.

        Raises
        ------
        SourceError
            No document, two with the same id, or an item that is no document.
        QidfError
            The directory can't be written, is in use by another process, or holds other things.
        """
        from qidf.index.build import build

        build(
            _as_documents(documents),
            os.fspath(path),
            analyzer=analyzer,
            store_text=store_text,
            memory=memory,
            threads=None if threads is None else min(check_count("threads", threads), MOST_THREADS),
            progress=progress,
        )
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, root: str | os.PathLike[str] = "") -> Self:
        """Open the index at `path` by memory map.

        Parameters
        ----------
        path : str or path
        root : str or path, default the folder that the index was built from, if this user built it
            Where the texts of documents are read from, if the index does not store them.

        Raises
        ------
        IndexNotFoundError, IndexCorruptError, IndexMismatchError
            There is none; a file is damaged; another version made it.
        """
        from qidf.index.commit import open_commit

        name = os.fspath(path)
        return cls(name, *open_commit(name), os.path.realpath(root) if root else "")

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str] = ".",
        index: str | os.PathLike[str] | None = None,
        *,
        analyzer: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """Open the index of a directory or JSONL file, after building or refreshing it where something changed.

        Parameters
        ----------
        path : str or path, default "."
            A directory, a git work tree, or a file of JSON lines.
        index : str or path, default None
            The directory of the index; by default one in the user's cache folder, keyed by `path`.
        analyzer : str, default None
            What a new index is built with, `code` if None; an index that exists must agree.
        progress : callable, default None
            As in `build`.
        """
        from qidf.index.refresh import refresh

        return cls.open(refresh(path, index, analyzer=analyzer, progress=progress).index, root=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Drop what was not committed, and wait for a merge in the background."""
        self.rollback()
        if self._writing.thread is not None:
            self._writing.thread.join()

    def __len__(self) -> int:
        return self.documents

    def __repr__(self) -> str:
        return f"<qidf.Index {self.path!r}: {self.documents:,} documents, analyzer {self.analyzer}>"

    # statistics

    @property
    def average_length(self) -> float:
        """The mean number of tokens of a document."""
        manifest = self._state.manifest
        return manifest.tokens / manifest.documents if manifest.documents else 0.0

    @property
    def hapax_density(self) -> float:
        """h = (terms with df = 1) / (tokens)."""
        manifest = self._state.manifest
        return manifest.hapax_terms / manifest.tokens if manifest.tokens else 0.0

    @_of_one_commit
    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        """Return in how many documents each of `terms` stands, as the analyzer gives them (lowercase)."""
        dfs = [0] * len(terms)
        for segment in self._segments:
            find, df = segment.reader.ordinal, segment.reader.df
            for i, term in enumerate(terms):
                if (ordinal := find(term)) >= 0:
                    dfs[i] += df(ordinal)
        return dfs

    @_of_one_commit
    def spectrum(self) -> Spectrum:
        """Return the term statistics: one pass over the dictionary."""
        from qidf.spectrum import Spectrum, bands

        histogram: dict[int, int] = {}
        once = 0
        if len(self._segments) == 1 and self._segments[0].deletes is None:
            import numpy as np

            one = self._segments[0]
            offsets = one.array("body.postings.offsets", "<u8")
            dfs, counts = np.unique(offsets[1:] - offsets[:-1], return_counts=True)
            histogram = dict(zip(dfs.tolist(), counts.tolist(), strict=True))
            once = int((one.collection_frequencies() == 1).sum())
        else:
            last, df, cf = b"", 0, 0
            for term, n, frequency in heapq.merge(*(s.vocabulary() for s in self._segments), [(b"\xff", 0, 0)]):
                if term != last:
                    if df:
                        histogram[df] = histogram.get(df, 0) + 1
                        once += cf == 1
                    last, df, cf = term, 0, 0
                df += n
                cf += frequency
        return Spectrum(self.documents, self.tokens, self.terms, self.hapax_terms, once, bands(histogram))

    # queries

    def query_terms(self, query: str) -> list[QueryTerm]:
        """Return the unique terms of `query`, with their counts, and whether each was written as an identifier."""
        query = _as_text(query, "query")
        return query_terms(query, scanner(self.analyzer).tokens(query))

    @_of_one_commit
    def scheme(self, q: Q | str = "auto", a: float | None = None) -> Scheme:
        """Return what `q` and `a` mean for this index."""
        return resolve(parse_q(q), a, analyzer=self.analyzer, hapax_density=self.hapax_density)

    @_of_one_commit
    def weights(
        self, query: str, *, q: Q | str = "auto", a: float | None = None, odds: str = "lucene"
    ) -> list[tuple[str, float]]:
        """Return the weighted terms that `query` stands for, in its order; unknown terms are left out."""
        check_odds(odds)
        terms = self.query_terms(query)
        dfs = self.doc_freqs([t.term for t in terms])
        known = [(term, n) for term, n in zip(terms, dfs, strict=True) if n]
        scheme = self.scheme(q, a)
        weights = term_weights([t for t, _ in known], [n for _, n in known], self.documents, scheme, odds)
        return [(term.term, weight) for (term, _), weight in zip(known, weights, strict=True)]

    @_of_one_commit
    def search(
        self,
        query: str,
        k: int = 10,
        *,
        q: Q | str = "auto",
        a: float | None = None,
        k1: float = K1,
        b: float = B,
        odds: str = "lucene",
    ) -> list[Hit]:
        """Return the k documents with the highest BM25 scores, exactly; ties in order of their ids.

        score = Σ w(t) · tf / (tf + k1·((1 − b) + b·dl/avgdl)), over the query's terms, w(t) = c^a · idf_q(t).

        Parameters
        ----------
        query : str
            Any text. Without a known term there are no hits.
        k : int, default 10
        q : float, "hapax" or "auto", default "auto"
            At 1 (with a = 1) it is plain BM25; see `qidf.weighting.resolve`.
        a : float, default None
            Exponent of a term's count in the query; None takes what goes with `q`.
        k1, b : float, default 1.2 and 0.75
        odds : {"lucene", "robertson"}, default "lucene"

        Raises
        ------
        ValueError
            An argument makes no sense.
        IndexCorruptError
            A page that was read is not what was written.
        """
        return self.search_terms(self.weights(query, q=q, a=a, odds=odds), k, k1=k1, b=b)

    @_of_one_commit
    def search_terms(
        self, terms: Iterable[tuple[str, float]], k: int = 10, *, k1: float = K1, b: float = B
    ) -> list[Hit]:
        """Rank by weighted terms: (term as the analyzer gives it, weight ≥ 0). A term may stand once."""
        weighted = check_weights(terms)
        k = check_count("k", k)
        norms = self._get_norms(k1, b)
        weights = array("d", [weight for _, weight in weighted])
        found = self._find([term for term, _ in weighted])
        offsets = array("q", [0, len(weighted)])
        ranked: list[tuple[float, str, str, int]] = []
        for i, segment in enumerate(self._segments):
            ordinals = array("q", [row[i] for row in found])
            room = min(k, segment.documents)
            docs, scores = array("q", bytes(8 * room)), array("d", bytes(8 * room))
            segment.reader.score(offsets, ordinals, weights, norms[i], room, docs, scores, 0, 1)
            for doc, id, score in zip(docs, segment.ids(docs), scores, strict=True):
                if id is None:
                    break
                ranked.append((score, id, id if segment.paths_are_ids else segment.path(doc), segment.line(doc)))
        if len(self._segments) > 1:
            ranked = heapq.nsmallest(k, ranked, key=lambda hit: (-hit[0], id_bytes(hit[1])))
        return [Hit(rank, id, path, line, score) for rank, (score, id, path, line) in enumerate(ranked, 1)]

    @_of_one_commit
    def search_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        q: Q | str = "auto",
        a: float | None = None,
        k1: float = K1,
        b: float = B,
        odds: str = "lucene",
        threads: int | None = None,
    ) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        """Rank many queries at once, without the GIL: what `search` gives, as arrays.

        Parameters
        ----------
        queries : sequence of str
        k, q, a, k1, b, odds
            As in `search`.
        threads : int, default the number of processors, at most 8
            No more than 64 are started.

        Returns
        -------
        ids : array of str, shape (queries, k)
            None where a query has fewer hits.
        scores : array of float64, shape (queries, k)
            0 where a query has fewer hits.
        """
        k = check_count("k", k)
        check_odds(odds)
        k1, b = check_bm25(k1, b)
        if threads is not None:
            threads = min(check_count("threads", threads), MOST_THREADS)
        queries = _as_queries(queries)
        scheme, batch = self.scheme(q, a), self._get_batch()
        terms = batch.analyze(queries, with_shapes=scheme.q_shaped != scheme.q_word)
        weights = batch.weigh(terms, scheme, odds)
        return batch.rank(terms, weights, k, self._get_norms(k1, b), settings=(k1, b), threads=threads)

    @_of_one_commit
    def analyze_many(self, queries: Sequence[str]) -> Terms:
        """Return the known terms of many queries, to be weighed and ranked again and again (see `qidf.lab`)."""
        return self._get_batch().analyze(_as_queries(queries))

    @_of_one_commit
    def weigh_many(
        self, terms: Terms, *, q: Q | str = "auto", a: float | None = None, odds: str = "lucene"
    ) -> NDArray[np.float64]:
        """Return the weight of each of `terms`, as `weights` gives them."""
        check_odds(odds)
        return self._get_batch().weigh(terms, self.scheme(q, a), odds)

    @_of_one_commit
    def rank_many(
        self,
        terms: Terms,
        weights: NDArray[np.float64],
        k: int = 10,
        *,
        k1: float = K1,
        b: float = B,
        parts: list[NDArray[np.float64]] | None = None,
    ) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        """Rank analyzed queries by weights of your own, each finite and ≥ 0; the arrays are those of `search_many`.

        `parts` stands in for BM25's part of a score: for each segment what each of its postings adds for a unit of
        weight (see `postings`). A document is a hit if its score is above 0.
        """
        import numpy as np

        k1, b = check_bm25(k1, b)
        weights = np.ascontiguousarray(weights, np.float64)
        if weights.shape != terms.dfs.shape or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"weights must hold {terms.dfs.size} finite numbers of at least 0")
        if parts is not None and len(parts) != len(self._segments):
            raise ValueError(f"parts must hold an array for each of {len(self._segments)} segments, got {len(parts)}")
        sizes = [segment.all_terms for segment in self._segments]
        if terms.numbers.shape[1:] != (len(sizes),) or (terms.numbers >= sizes).any():
            raise ValueError("terms are those of another index: analyze the queries with this one")
        norms = self._get_norms(k1, b)
        return self._get_batch().rank(terms, weights, check_count("k", k), norms, settings=(k1, b), parts=parts)

    def postings(self) -> list[Postings]:
        """Return all postings of each segment, term by term: for weights on the documents' side (see `qidf.lab`).

        Raises
        ------
        QidfError
            Documents were deleted since, and their postings are still there.
        """
        if any(segment.deletes is not None for segment in self._segments):
            raise QidfError("postings of deleted documents are still there (call optimize first: it takes them out)")
        return [
            Postings(
                s.array("body.postings.docs", "<u4"),
                s.counts(),
                s.array("body.postings.offsets", "<u8"),
                s.array("body.lengths", "<u4"),
            )
            for s in self._segments
        ]

    @_of_one_commit
    def explain(
        self,
        query: str,
        id: str,
        *,
        q: Q | str = "auto",
        a: float | None = None,
        k1: float = K1,
        b: float = B,
        odds: str = "lucene",
    ) -> Explanation:
        """Tell what each query term adds to the score of the document called `id`; the sum is the score of `search`.

        Raises
        ------
        KeyError
            There is no such document.
        """
        check_odds(odds)
        k1, b = check_bm25(k1, b)
        i, doc = self._locate(id)
        terms = self.query_terms(query)
        return explain(
            id,
            self._segments[i].reader,
            doc,
            list(zip(terms, self.doc_freqs([t.term for t in terms]), strict=True)),
            self.scheme(q, a),
            documents=self.documents,
            average_length=self.average_length,
            k1=k1,
            b=b,
            odds=odds,
        )

    # documents

    @_of_one_commit
    def text(self, id: str) -> str:
        """Return the text of a document: as stored, else from its file below `root`, read again.

        Files are read where this user built the index, or where `open` was given the root: somebody else's index may
        name any folder.

        Raises
        ------
        KeyError
            There is no such document.
        SourceError
            The text is not stored, and the file is gone, can't be read, or may not be.
        """
        i, doc = self._locate(id)
        stored = self._segments[i].text(doc)
        if stored is not None:
            return stored
        if not os.path.isdir(self.root):
            raise SourceError(f"the text of {id!r} is not stored (index it with --store)")
        if not self.reads_files:
            raise SourceError(
                f"the text of {id!r} is in {self.root}, as an index says that you did not build: name that folder"
                " yourself if it is right (Python: Index.open(path, root=FOLDER), shell: PATH)"
            )
        from qidf.sources.files import FileSource

        return FileSource(self.root).read_text(self._segments[i].path(doc))

    @_of_one_commit
    def ids(self) -> Iterator[str]:
        """Return the ids of all documents, as an iterator, in no order that means anything."""
        return (
            segment.id(number)
            for segment in self._segments
            for number in range(segment.all_documents)
            if not segment.reader.is_deleted(number)
        )

    @_of_one_commit
    def vocabulary(self) -> Iterator[tuple[str, int]]:
        """Return all terms with their df, as an iterator, in order of their bytes."""
        rows = heapq.merge(*(segment.vocabulary() for segment in self._segments))
        return (
            (term.decode("utf-8", "surrogatepass"), sum(n for _, n, _ in own))
            for term, own in groupby(rows, key=lambda row: row[0])
        )

    @property
    def reads_files(self) -> bool:
        """Whether texts may be read from files below `root`: the caller named it, or this user built the index."""
        if self._root:
            return True
        manifest = self._state.manifest
        if manifest.mark not in self._is_mine:
            from qidf.index import trust

            self._is_mine[manifest.mark] = trust.made_here(manifest.root, manifest.segments, manifest.mark)
        return self._is_mine[manifest.mark]

    @_of_one_commit
    def length(self, id: str) -> int:
        """Return the number of tokens of a document. KeyError if there is none called `id`."""
        i, doc = self._locate(id)
        return self._segments[i].reader.length(doc)

    @_of_one_commit
    def term_freqs(self, id: str, terms: Sequence[str]) -> list[int]:
        """Return how often each of `terms` stands in a document. KeyError if there is none called `id`."""
        i, doc = self._locate(id)
        reader = self._segments[i].reader
        return [reader.count(row[i], doc) if row[i] >= 0 else 0 for row in self._find(terms)]

    @_of_one_commit
    def verify(self) -> None:
        """Read every byte of the index; IndexCorruptError where one is not what was written."""
        for segment in self._segments:
            segment.verify()

    # changes

    def add(self, documents: Iterable[Document | tuple[str, str]], *, memory: int = 512 << 20) -> int:
        """Add documents at the next `commit`, and return how many.

        Parameters
        ----------
        documents : iterable of Document or of (id, text)
        memory : int, default 512 MiB
            As in `build`; counts at the first change after a commit.

        Raises
        ------
        SourceError
            An id that another document has, or an item that is no document. What came before it in `documents` is
            still added at the next commit: `rollback` forgets it.
        IndexLockedError
            Another writer is at it.
        QidfError
            The disk is full or fails. The last commit stands then, and all changes since are gone.
        """
        with self._writing.lock:
            return self._change(memory).put(_as_documents(documents), replace=False)

    def update(
        self,
        documents: Iterable[Document | tuple[str, str]],
        *,
        source: str | None = None,
        memory: int = 512 << 20,
    ) -> int:
        """Replace documents by their ids at the next `commit`, and add those whose ids are new.

        Parameters
        ----------
        documents : iterable of Document or of (id, text)
        source : str, default None
            A path. All documents of this path that are not among `documents` are deleted: a file that has become other
            documents is updated at once. Those given must have this path.
        memory : int, default 512 MiB

        Returns
        -------
        int
            How many were added, replaced or deleted. A document that is there already, the same to the last character,
            is none of them.

        Raises
        ------
        SourceError, IndexLockedError, QidfError
            As in `add`; for documents of another path than `source` nothing is changed.
        """
        with self._writing.lock:
            if source is None:
                return self._change(memory).put(_as_documents(documents), replace=True)
            given = list(_as_documents(documents))
            for document in given:
                if document.path != source:
                    raise SourceError(f"document {document.id!r} has the path {document.path!r}, not {source!r}")
            change = self._change(memory)
            kept = {document.id for document in given}
            gone = change.delete([id for id in change.ids_of(source) if id not in kept])
            return gone + change.put(given, replace=True)

    def delete(self, ids: Iterable[str] = (), *, source: str | None = None) -> int:
        """Delete documents at the next `commit`: those of `ids`, and all whose path is `source`. Return how many.

        Ids that no document has are no error.
        """
        if isinstance(ids, str):
            raise TypeError("ids must be an iterable of str, got one str")
        wanted = [_as_text(id, "an id") for id in ids]
        path = None if source is None else _as_text(source, "source")
        with self._writing.lock:
            change = self._change()
            found = change.ids_of(path) if path is not None else []
            return change.delete([*wanted, *found])

    def commit(self, *, merge: str = "foreground") -> None:
        """Make the changes since the last commit durable, and see them. Without any, nothing is written.

        Parameters
        ----------
        merge : {"foreground", "background", "none"}, default "foreground"
            Whether segments are merged where there are many: before the commit, in a thread after it, or not now. A
            thread that merges keeps other writers out, but no reader; the next change waits for it.

        Raises
        ------
        QidfError
            The disk is full or fails. The last commit stands then, and the changes are gone.
        """
        if merge not in ("foreground", "background", "none"):
            raise ValueError(f"merge must be foreground, background or none, got {merge!r}")
        with self._writing.lock:
            change, self._writing.change = self._writing.change, None
            if change is not None and not change.over:
                self._state = _State(*change.commit(merge=merge == "foreground"))
            if merge == "background":
                thread = threading.Thread(target=self._merge_quietly, name="qidf-merge", daemon=True)
                self._writing.thread = thread
                thread.start()

    def rollback(self) -> None:
        """Forget the changes since the last commit."""
        with self._writing.lock:
            change, self._writing.change = self._writing.change, None
            if change is not None and not change.over:
                change.rollback()

    def optimize(self) -> None:
        """Commit, with all segments merged into one and nothing left of what was deleted. Rankings stay the same."""
        with self._writing.lock:
            change = self._change()
            self._writing.change = None
            self._state = _State(*change.commit(optimize=True))

    def reload(self) -> bool:
        """See the newest commit of any process; return whether it is another than before."""
        from qidf.index.commit import open_commit

        with self._writing.lock:
            commit = open_commit(self.path, self._commit)
            if commit.manifest == self._state.manifest:
                return False
            self._state = _State(*commit)
            return True

    @property
    def _commit(self) -> Commit:
        from qidf.index.commit import Commit

        return Commit(self._state.manifest, self._state.segments)

    def snapshot(self) -> Self:
        """Return an index that stays at this commit, whatever this one commits or reloads."""
        if self._frozen:
            return self
        frozen = copy(self)
        frozen._frozen = True
        frozen._writing = _Writing()
        return frozen

    def _change(self, memory: int = 512 << 20) -> Change:
        from qidf.index.change import Change

        if self._frozen:
            raise QidfError("a snapshot can't be changed (change the index it was taken from)")
        thread = self._writing.thread
        if thread is not None:
            self._writing.thread = None
            thread.join()
        if self._writing.change is None or self._writing.change.over:
            self._writing.change = Change(self.path, memory=memory, root=self._root, known=self._commit)
        return self._writing.change

    def _merge_quietly(self) -> None:
        """Merge where there are many segments; a disk that is full, or another writer, leaves them as they are."""
        from qidf.index.change import Change

        try:
            commit = Change(self.path, root=self._root, known=self._commit).commit()
        except QidfError:
            return
        if commit.manifest.generation > self._state.manifest.generation:
            self._state = _State(*commit)

    # inside

    def _locate(self, id: str) -> tuple[int, int]:
        for i, segment in enumerate(self._segments):
            doc = segment.number(id)
            if doc >= 0:
                return i, doc
        raise KeyError(id)

    def _find(self, terms: Sequence[str]) -> list[list[int]]:
        """Return each term's number in each segment, −1 where it doesn't stand."""
        return [[segment.reader.ordinal(term) for segment in self._segments] for term in terms]

    def _get_batch(self) -> Batch:
        if self._state.batch is None:
            from qidf.index.batch import Batch

            self._state.batch = Batch(self._segments, scanner(self.analyzer))
        return self._state.batch

    def _get_norms(self, k1: float, b: float) -> list[Any]:
        k1, b = check_bm25(k1, b)
        norms = self._state.norms.get((k1, b))
        if norms is None:
            norms = []
            for segment in self._segments:
                norm = array("d", bytes(8 * segment.all_documents))
                segment.reader.norms(k1, b, self.average_length or 1.0, norm)
                norms.append(norm)
            if len(self._state.norms) >= 4:
                self._state.norms.clear()
            self._state.norms[k1, b] = norms
        return norms


@lru_cache(maxsize=4)
def scanner(analyzer: str) -> Scanner:
    """Return the scanner of `analyzer`, made once: its tables take a few megabytes."""
    return Scanner(analyzer)


def _as_documents(items: Iterable[Document | tuple[str, str]]) -> Iterable[Document]:
    from qidf.sources import Document

    for item in items:
        if isinstance(item, Document):
            document = item
        else:
            try:
                id, text = item
            except (TypeError, ValueError):
                raise SourceError(f"expected a Document or (id, text), got {type(item).__name__}") from None
            document = Document(id, text)
        if not type(document.id) is type(document.text) is type(document.path) is str:
            try:
                document = Document(
                    _as_text(document.id, "a document's id"),
                    _as_text(document.text, "a document's text"),
                    _as_text(document.path, "a document's path"),
                    document.line,
                )
            except TypeError as error:
                raise SourceError(str(error)) from None
        yield document


def _as_queries(queries: Sequence[str]) -> list[str]:
    if isinstance(queries, str):
        raise TypeError("queries must be a sequence of str, got one str")
    return [_as_text(query, "query") for query in queries]


def _as_text(value: object, name: str) -> str:
    """Return a str, also for a subclass such as numpy's; TypeError for anything else."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, got {type(value).__name__}")
    return str(value)
