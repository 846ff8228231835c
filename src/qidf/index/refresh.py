"""From a directory or JSONL file to an index that is up to date: notice what changed, build where something did."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qidf.errors import IndexCorruptError, IndexMismatchError, IndexNotFoundError, SourceError
from qidf.index import store
from qidf.index.build import MEMORY, build
from qidf.index.change import Change
from qidf.sources import FileEntry, open_source
from qidf.sources.files import FileSource

if TYPE_CHECKING:
    from qidf.sources import Document
    from qidf.sources.jsonl import JsonlSource

_INODE = (1 << 63) - 1
_MOST_CHANGED = 0.5  # of the documents: above that, building anew is no slower
_FEW = 100
_SPACE = 1.5  # bytes of a new index for each byte of text, at most for anything but text in other scripts than ours
_RACY_NS = 100_000_000  # a file touched so shortly before the scan may change again without a new time stamp


@dataclass(frozen=True)
class Refresh:
    """What a refresh did. `index` is the index's directory; `built` tells whether anything in it changed.

    `added`, `changed` and `removed` count documents (files, where it was built anew over another); `summary` tells what
    was skipped, `notes` what could not be honoured; `seconds` is how long it took.
    """

    index: str
    built: bool
    documents: int
    added: int
    changed: int
    removed: int
    summary: str
    notes: list[str]
    seconds: float = 0.0


def default_index(path: str | os.PathLike[str]) -> str:
    """Return where the index of `path` stands unless told otherwise: in the user's cache folder, keyed by the path."""
    from platformdirs import user_cache_dir

    real = Path(path).resolve()
    key = hashlib.blake2b(os.fsencode(real), digest_size=8).hexdigest()
    label = "".join(c if c.isalnum() or c in "-_." else "_" for c in real.name) or "root"
    return os.path.join(user_cache_dir("qidf", appauthor=False), f"{label[:40]}-{key}")


def refresh(
    path: str | os.PathLike[str],
    index: str | os.PathLike[str] | None = None,
    *,
    analyzer: str | None = None,
    store_text: bool | None = None,
    rebuild: bool = False,
    memory: int = MEMORY,
    wait: float = 1.0,
    on_wait: Callable[[str], None] | None = None,
    progress: Callable[[int], None] | None = None,
    total: Callable[[int], None] | None = None,
) -> Refresh:
    """Bring the index of `path` up to date: what changed is read again, and built anew where that is most of it.

    Parameters
    ----------
    path, index
        What to index; where the index stands (None: `default_index`).
    analyzer : str, default None
        For a new index, `code` if None. An index that exists must have been built with the same.
    store_text : bool, default None
        Keep texts in the index; None keeps what the index has, False for a new one.
    rebuild : bool, default False
        Build anew whatever stands there: with another analyzer, by another version, damaged.
    memory : int, default 512 MiB
    wait, on_wait
        Where another process writes to the index: how many seconds to wait for it, and whom to tell (`store.writing`).
    progress, total : callable, default None
        `total` is called once with the number of files before reading starts, `progress` as in `build`.

    Raises
    ------
    IndexMismatchError
        The index exists and was made with another analyzer, by another version, or from another place.
    SourceError, IndexCorruptError, IndexLockedError, QidfError
        See `open_source`, `Index.open` and `build`.
    """
    started = time.perf_counter()
    source = open_source(path)
    place = default_index(path) if index is None else os.fspath(index)
    wanted = _Wanted(source, place, str(source.root), analyzer, store_text, rebuild)
    found = wanted.compare()
    if found.nothing_to_do:
        return Refresh(place, False, found.documents, 0, 0, 0, "", source.notes)
    with store.writing(place, wait=wait, on_wait=on_wait) as writer:
        if wanted.read_manifest() != found.manifest:  # another writer was faster
            found = wanted.compare()
            if found.nothing_to_do:
                return Refresh(place, False, found.documents, 0, 0, 0, "", source.notes)
        if total is not None:
            total(len(found.now if found.anew or not found.compared else found.read))
        if found.anew:
            _build(wanted, found, writer, memory, progress)
            done = len(found.fresh), len(found.moved), len(found.gone)
        else:
            done = _update(wanted, found, writer, memory, progress)
    documents = store.read_manifest(place).documents
    if found.manifest is None:
        done = documents, 0, 0
    built = found.anew or any(done)
    summary = source.summary() if built else ""
    return Refresh(place, built, documents, *done, summary, source.notes, time.perf_counter() - started)


class _Wanted:
    """What a refresh was asked for."""

    def __init__(
        self,
        source: FileSource | JsonlSource,
        place: str,
        root: str,
        analyzer: str | None,
        store_text: bool | None,
        rebuild: bool,
    ) -> None:
        self.source = source
        self.place = place
        self.root = root
        self.analyzer = analyzer
        self.store_text = store_text
        self.rebuild = rebuild

    def read_manifest(self) -> store.Manifest | None:
        """Return the manifest of the last commit; None if there is none, or one that will be replaced anyway."""
        try:
            return store.read_manifest(self.place)
        except IndexNotFoundError:
            return None
        except (IndexCorruptError, IndexMismatchError):
            if not self.rebuild:
                raise
            return None

    def compare(self) -> _Found:
        """Scan, and compare with what the last commit was made of."""
        manifest = self.read_manifest()
        if manifest is not None and not self.rebuild:
            _check_same(manifest, self.place, self.root, self.analyzer)
        scanned_ns = time.time_ns()
        entries = _outside(self.source.scan(), self.root, self.place)
        before = store.read_sources(self.place, manifest) if manifest is not None else {}
        stamps = [(entry.path, _stamp(entry, scanned_ns)) for entry in entries]
        fresh, changed = [], []
        for entry, (name, _) in zip(entries, stamps, strict=True):
            old = before.pop(name, None)
            if old is None:
                fresh.append(entry)
            elif old != (entry.size, entry.mtime_ns, entry.inode & _INODE):
                changed.append(entry)
        compared = bool(before) or bool(changed) or len(fresh) < len(entries)
        keep_text = self.store_text if self.store_text is not None else manifest is not None and manifest.stored
        anew = (
            manifest is None
            or self.rebuild
            or keep_text != manifest.stored
            or (
                isinstance(self.source, FileSource)
                and len(fresh) + len(changed) + len(before) > _MOST_CHANGED * manifest.documents
                and len(fresh) + len(changed) + len(before) > _FEW
            )
        )
        return _Found(manifest, entries, stamps, fresh, changed, list(before), compared, anew, keep_text)


@dataclass(frozen=True)
class _Found:
    """What a comparison found: the files of now, those that are new, that changed by their stamps, that are gone.

    `compared` is False where there was nothing to compare with: every document is then, by its digest.
    """

    manifest: store.Manifest | None
    now: list[FileEntry]
    stamps: list[tuple[str, store.Stamp]]
    fresh: list[FileEntry]
    moved: list[FileEntry]
    gone: list[str]
    compared: bool
    anew: bool
    store_text: bool

    @property
    def nothing_to_do(self) -> bool:
        return not (self.anew or self.fresh or self.moved or self.gone)

    @property
    def read(self) -> list[FileEntry]:
        return self.fresh + self.moved

    @property
    def documents(self) -> int:
        return self.manifest.documents if self.manifest is not None else 0


def _build(
    wanted: _Wanted, found: _Found, writer: store.Writer, memory: int, progress: Callable[[int], None] | None
) -> None:
    source = wanted.source
    text = sum(entry.size for entry in found.now)
    store.check_space(wanted.place, int(text * (_SPACE + found.store_text)))
    try:
        build(
            source.documents(found.now),
            wanted.place,
            analyzer=wanted.analyzer or (found.manifest.analyzer if found.manifest is not None else "code"),
            store_text=found.store_text,
            memory=memory,
            progress=progress,
            root=wanted.root,
            stamps=found.stamps,
            writer=writer,
        )
    except SourceError as error:
        if not str(error).startswith("nothing to index"):
            raise
        raise _nothing(wanted) from error


def _update(
    wanted: _Wanted, found: _Found, writer: store.Writer, memory: int, progress: Callable[[int], None] | None
) -> tuple[int, int, int]:
    """Commit what changed, and return how many files were added, changed and removed."""
    source = wanted.source
    change = Change(wanted.place, memory=memory, writer=writer)
    if not isinstance(source, FileSource) or not found.compared:
        done = change.put_all(_counted(source.documents(found.now), progress))
    else:
        fresh = {entry.path for entry in found.fresh}
        no_text = {entry.path for entry in found.read}
        added = changed = 0
        for document in _counted(source.documents(found.read), progress):
            no_text.discard(document.id)
            if change.put([document], replace=True):
                added += document.id in fresh
                changed += document.id not in fresh
        done = added, changed + change.delete(sorted(no_text)), change.delete(found.gone)
    if not change.documents:
        raise _nothing(wanted)
    change.commit(root=wanted.root, stamps=found.stamps)
    return done


def _counted(documents: Iterable[Document], progress: Callable[[int], None] | None) -> Iterator[Document]:
    for n, document in enumerate(documents, 1):
        yield document
        if progress is not None:
            progress(n)


def _nothing(wanted: _Wanted) -> SourceError:
    skipped = wanted.source.summary()
    return SourceError(f"nothing to index in {wanted.root}" + (f" ({skipped})" if skipped else ""))


def _check_same(old: store.Manifest, place: str, root: str, analyzer: str | None) -> None:
    if analyzer is not None and analyzer != old.analyzer:
        raise IndexMismatchError(
            f"the index at {place} was made with analyzer {old.analyzer}, not {analyzer}"
            " (add --rebuild to replace it, or give another --index DIR)"
        )
    if old.root and old.root != root:
        raise IndexMismatchError(
            f"the index at {place} was made from {old.root}, not {root}"
            " (add --rebuild to replace it, or give another --index DIR)"
        )


def _outside(entries: list[FileEntry], root: str, place: str) -> list[FileEntry]:
    """Leave out the index's own files where it stands inside what it indexes; they change with every build."""
    top, real = os.path.join(root, ""), os.path.join(os.path.realpath(place), "")
    if not real.startswith(top):
        return entries
    inside = real[len(top) :].replace(os.sep, "/")
    return [entry for entry in entries if not inside or not entry.path.startswith(inside)]


def _stamp(entry: FileEntry, scanned_ns: int) -> store.Stamp:
    mtime = entry.mtime_ns if entry.mtime_ns < scanned_ns - _RACY_NS else 0
    return entry.size, mtime, entry.inode & _INODE
