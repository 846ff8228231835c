"""Documents to segments, and to a new index: batches to threads, full memory to a segment, segments to a manifest.

Memory stays within a setting, plus the vocabulary. It knows nothing of queries.
"""

from __future__ import annotations

import heapq
import os
import secrets
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from itertools import pairwise
from queue import Queue

from qidf import __version__
from qidf.analysis import tables
from qidf.errors import SourceError
from qidf.index import merge, store, trust
from qidf.index.container import blob
from qidf.index.segment import Segment, write
from qidf.kernels import Inverter, Scanner, invert
from qidf.sources import Document, id_bytes

MEMORY = 512 << 20
"""Default for the memory of a build, in bytes: documents in hand, their postings and vocabulary."""

_BATCH_CHARACTERS = 1 << 20
_BATCH_DOCUMENTS = 1 << 14
_DOCUMENT_OVERHEAD = 200  # bytes of Python objects for a document in hand


class _Worker:
    """One thread's inverter and the documents it was given, in its order."""

    def __init__(self, scanner: Scanner, seed: int, store_text: bool) -> None:
        self.inverter = Inverter(scanner, seed)
        self.documents: list[tuple[bytes, str, int, bytes, bytes]] = []
        self.text_bytes = 0
        self._store_text = store_text

    def add(self, batch: list[Document]) -> None:
        self.inverter.add([document.text for document in batch])
        for document in batch:
            text = document.text.encode("utf-8", "surrogatepass")
            mark = _digest(document, text)
            if self._store_text:
                self.text_bytes += len(text)
            else:
                text = b""
            self.documents.append((id_bytes(document.id), document.path, document.line, mark, text))

    @property
    def nbytes(self) -> int:
        return self.inverter.nbytes + 2 * self.text_bytes + _DOCUMENT_OVERHEAD * len(self.documents)


def digest(document: Document) -> bytes:
    """Return 16 bytes that tell whether a document of the same id has changed: BLAKE2b of text, path and line."""
    return _digest(document, document.text.encode("utf-8", "surrogatepass"))


def _digest(document: Document, text: bytes) -> bytes:
    path = id_bytes(document.path) if document.path != document.id else b"\0"
    made = blake2b(b"%d %d " % (document.line, len(path)) + path, digest_size=16)
    made.update(text)
    return made.digest()


def build(
    documents: Iterable[Document],
    path: str,
    *,
    analyzer: str,
    store_text: bool = False,
    memory: int = MEMORY,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    root: str = "",
    stamps: Sequence[tuple[str, store.Stamp]] | None = None,
    writer: store.Writer | None = None,
) -> None:
    """Build an index of `documents` at `path`; an index that stands there is replaced at the end, atomically.

    Parameters
    ----------
    documents : iterable of Document
        Read once, a batch at a time. Ids must be unique.
    path : str
        The directory of the index, made if need be.
    analyzer : str
        `code`, `standard`, `simple` or `word`.
    store_text : bool, default False
        Whether texts are kept in the index, for snippets.
    memory : int, default 512 MiB
        Bytes after which a segment is written out: documents in hand, their postings and vocabulary.
    threads : int, default as many as there are processors, at most 8
        How many threads tokenize.
    progress : callable, default None
        Called now and then with the number of documents read so far.
    root, stamps
        What the documents were read from, and what a refresh will compare; stored as given.
    writer : Writer, default None
        One that holds the lock already.

    Raises
    ------
    SourceError
        No document, or two with the same id. Nothing is changed then.
    IndexLockedError, QidfError
        See `store.writing`.
    """
    with store.writing(path) if writer is None else nullcontext(writer) as held:
        segments = write_segments(
            held,
            documents,
            analyzer=analyzer,
            store_text=store_text,
            memory=memory,
            threads=threads,
            progress=progress,
            seed=secrets.randbits(63),
        )
        if not segments:
            raise SourceError("nothing to index: no document was found")
        _check_unique(segments)
        terms = hapax = 0
        for i, segment in enumerate(segments):
            more, once = added_terms(segment, segments[:i])
            terms, hapax = terms + more, hapax + once
        segments = merge.merge_all(held, segments)
        names = [segment.name for segment in segments]
        sources = store.write_sources(held, stamps) if stamps is not None else ""
        held.commit(
            store.Manifest(
                analyzer=analyzer,
                unicode=tables(analyzer),
                documents=sum(s.documents for s in segments),
                tokens=sum(s.tokens for s in segments),
                terms=terms,
                hapax_terms=hapax,
                segments=names,
                deletes=[""] * len(names),
                generation=_next_generation(path),
                root=root,
                mark=trust.mark(root, names) if root else "",
                sources=sources,
                stored=store_text,
                written_by=__version__,
            )
        )


def write_segments(
    writer: store.Writer,
    documents: Iterable[Document],
    *,
    analyzer: str,
    store_text: bool,
    memory: int,
    threads: int | None,
    progress: Callable[[int], None] | None,
    seed: int,
) -> list[Segment]:
    """Write the segments of `documents`, as many as the memory asks for, and open them. The arguments are `build`'s.

    `seed` is that of the terms' hashes. SourceError where two documents of one segment have the same id.
    """
    crew = _Crew(threads or min(8, os.cpu_count() or 1), Scanner(analyzer), seed, store_text)
    names: list[str] = []
    read = 0
    try:
        for batch in _batches(documents):
            crew.add(batch)
            read += len(batch)
            if progress is not None:
                progress(read)
            if crew.nbytes > memory:
                names.append(_write_segment(writer, crew.collect(), seed, store_text))
        rest = crew.collect()
    finally:
        crew.stop()
    if any(worker.documents for worker in rest):
        names.append(_write_segment(writer, rest, seed, store_text))
    return [Segment(os.path.join(writer.path, name)) for name in names]


def added_terms(segment: Segment, others: Sequence[Segment]) -> tuple[int, int]:
    """Return how many terms a segment adds to those of others, and what it does to the number of those with df = 1."""
    reader = segment.reader
    if not others and segment.deletes is None:
        return segment.all_terms, segment.hapax
    dfs = array("q", map(reader.df, range(segment.all_terms)))
    numbers, before = array("I", range(segment.all_terms)), array("q", bytes(8 * segment.all_terms))
    return reader.shift(numbers, before, dfs, tuple(other.reader for other in others))


def _next_generation(path: str) -> int:
    try:
        return store.read_manifest(path).generation + 1
    except Exception:
        return 1  # none yet, or one that could not be read and is being replaced


def _batches(documents: Iterable[Document]) -> Iterable[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= _BATCH_CHARACTERS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class _Crew:
    """Threads that tokenize batches, each into an inverter of its own."""

    def __init__(self, count: int, scanner: Scanner, seed: int, store_text: bool) -> None:
        self._settings = (scanner, seed, store_text)
        self._count = count
        self._queue: Queue[list[Document] | None] = Queue(maxsize=count + 1)
        self._workers = [_Worker(*self._settings) for _ in range(count)]
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def add(self, batch: list[Document]) -> None:
        if self._count == 1:
            self._workers[0].add(batch)
            return
        if not self._threads:
            self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(self._count)]
            for thread in self._threads:
                thread.start()
        self._queue.put(batch)
        self._raise()

    def _run(self, i: int) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._workers[i].add(batch)
            except BaseException as error:  # handed to the thread that feeds us
                self._error = error
            finally:
                self._queue.task_done()
        self._queue.task_done()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    @property
    def nbytes(self) -> int:
        return sum(worker.nbytes for worker in self._workers)

    def collect(self) -> list[_Worker]:
        """Wait for the batches in hand, sort the vocabularies, and return the workers; fresh ones take their place."""
        if self._threads:
            self._queue.join()
        self._raise()
        full, self._workers = self._workers, [_Worker(*self._settings) for _ in range(self._count)]
        full = [worker for worker in full if worker.documents]
        sorters = [threading.Thread(target=worker.inverter.sort) for worker in full[1:]]
        for thread in sorters:
            thread.start()
        if full:
            full[0].inverter.sort()
        for thread in sorters:
            thread.join()
        return full

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()


def _write_segment(writer: store.Writer, workers: list[_Worker], seed: int, store_text: bool) -> str:
    documents = [document for worker in workers for document in worker.documents]
    order = sorted(range(len(documents)), key=lambda i: documents[i][0])
    for i, j in pairwise(order):
        if documents[i][0] == documents[j][0]:
            raise _duplicate(documents[i][0])
    arrays = invert([worker.inverter for worker in workers], array("I", order))
    tokens, hapax = arrays.pop("tokens"), arrays.pop("hapax")
    arrays = {f"body.{name}": array for name, array in arrays.items()}
    documents = [documents[i] for i in order]
    arrays["ids.data"], arrays["ids.offsets"] = blob([id for id, *_ in documents])
    paths = [id_bytes(path) for _, path, *_ in documents]
    paths_are_ids = all(path == document[0] for path, document in zip(paths, documents, strict=True))
    if not paths_are_ids and any(paths):
        arrays["paths.data"], arrays["paths.offsets"] = blob(paths)
    if any(line != 1 for _, _, line, *_ in documents):
        arrays["lines"] = array("I", [min(line, 0xFFFFFFFF) for _, _, line, *_ in documents])
    arrays["digests"] = b"".join(mark for _, _, _, mark, _ in documents)
    if store_text:
        arrays["text.data"], arrays["text.offsets"] = blob([text for *_, text in documents])
    footer = {
        "documents": len(documents),
        "tokens": tokens,
        "hapax": hapax,
        "terms": len(arrays["body.terms.offsets"]) - 1,
        "seed": seed,
        "paths_are_ids": paths_are_ids,
    }
    store.check_space(writer.path, sum(memoryview(values).nbytes for values in arrays.values()))
    with writer.create(".qidf") as file:
        write(file, arrays, {"name": os.path.basename(file.name), **footer})
    return os.path.basename(file.name)


def _duplicate(id: bytes) -> SourceError:
    name = id.decode("utf-8", "surrogatepass")
    return SourceError(f"two documents have the id {name!r}; ids must be unique")


def _check_unique(segments: Sequence[Segment]) -> None:
    if len(segments) < 2:
        return
    ids = heapq.merge(*(map(s.id_bytes, range(s.all_documents)) for s in segments))
    for a, b in pairwise(ids):
        if a == b:
            raise _duplicate(a)
