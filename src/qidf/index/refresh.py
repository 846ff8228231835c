"""From a directory or JSONL file to an index that is up to date: notice what changed, build where something did."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qidf.errors import IndexCorruptError, IndexMismatchError, IndexNotFoundError, SourceError
from qidf.index import store
from qidf.index.build import MEMORY, build
from qidf.sources import FileEntry, open_source

_RACY_NS = 100_000_000  # a file touched so shortly before the scan may change again without a new time stamp


@dataclass(frozen=True)
class Refresh:
    """What a refresh did. `index` is the index's directory; `built` tells whether it was built (again).

    `added`, `changed` and `removed` count files since the last build; `summary` tells what was skipped, `notes` what
    could not be honoured.
    """

    index: str
    built: bool
    documents: int
    added: int
    changed: int
    removed: int
    summary: str
    notes: list[str]


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
    progress: Callable[[int], None] | None = None,
    total: Callable[[int], None] | None = None,
) -> Refresh:
    """Bring the index of `path` up to date.

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
    progress, total : callable, default None
        `total` is called once with the number of files before reading starts, `progress` as in `build`.

    Raises
    ------
    IndexMismatchError
        The index exists and was made with another analyzer, by another version, or from another place.
    SourceError, IndexCorruptError, IndexLockedError, QidfError
        See `open_source`, `Index.open` and `build`.
    """
    source = open_source(path)
    place = default_index(path) if index is None else os.fspath(index)
    root = str(source.root)
    old: store.Manifest | None = None
    try:
        old = store.read_manifest(place)
    except IndexNotFoundError:
        pass
    except (IndexCorruptError, IndexMismatchError):
        if not rebuild:
            raise
    if old is not None and not rebuild:
        _check_same(old, place, root, analyzer)
    scanned_ns = time.time_ns()
    entries = _outside(source.scan(), root, place)
    before = {row[0]: tuple(row[1:]) for row in _rows(store.read_sources(place, old))} if old is not None else {}
    now = {entry.path: tuple(entry[1:]) for entry in entries}
    added = sum(name not in before for name in now)
    removed = sum(name not in now for name in before)
    changed = sum(before[name] != stamp for name, stamp in now.items() if name in before)
    keep_text = store_text if store_text is not None else old is not None and old.stored
    if old is not None and not rebuild and not (added or removed or changed) and keep_text == old.stored:
        return Refresh(place, False, old.documents, 0, 0, 0, "", source.notes)
    if total is not None:
        total(len(entries))
    try:
        build(
            source.documents(entries),
            place,
            analyzer=analyzer or (old.analyzer if old is not None else "code"),
            store_text=keep_text,
            memory=memory,
            progress=progress,
            root=root,
            table={"files": [_stamp(entry, scanned_ns) for entry in entries]},
        )
    except SourceError as error:
        if not str(error).startswith("nothing to index"):
            raise
        skipped = source.summary()
        raise SourceError(f"nothing to index in {root}" + (f" ({skipped})" if skipped else "")) from error
    documents = store.read_manifest(place).documents
    return Refresh(place, True, documents, added, changed, removed, source.summary(), source.notes)


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


def _stamp(entry: FileEntry, scanned_ns: int) -> list[Any]:
    mtime = entry.mtime_ns if entry.mtime_ns < scanned_ns - _RACY_NS else 0
    return [entry.path, entry.size, mtime, entry.inode]


def _rows(table: dict[str, Any]) -> list[list[Any]]:
    rows = table.get("files", [])
    if not isinstance(rows, list):
        return []
    return [row for row in rows if isinstance(row, list) and len(row) == 4 and isinstance(row[0], str)]
