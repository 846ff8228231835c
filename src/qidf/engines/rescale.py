"""`qidf apply bm25s DIR --q Q`: change the idf in a folder that bm25s saved, in one pass; bm25s goes on loading it.

Every stored score is multiplied by idf_q / idf of its term; nothing else in the folder changes. What q a folder has
stands in a file of our own, with the checksums of the data it speaks of: saved again by bm25s, the folder's data has
another checksum, and it counts as q = 1.

At every moment the folder is a whole one. New files are written aside and made durable; then our state names the
checksums of both, old and new; then the data is renamed into place. For BM25L and BM25+ a second file follows, the
non-occurrence array: it adds the same to every document of a query, so that between the two renames only the level of
the scores is off, never a ranking; the next `apply` mends it.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from qidf import strictjson
from qidf.engines import bm25s
from qidf.engines.stored_scores import StoredScores, number
from qidf.errors import EngineError, IndexLockedError, IndexNotFoundError
from qidf.index import store

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE = "qidf.json"
LOCK = "qidf.lock"
BACKUP = "qidf-original."
"""What the name of a kept original begins with."""

_NEW = "qidf-new."
_FORMAT = "qidf, q of bm25s scores, 1"
_OURS = (STATE, LOCK, BACKUP, _NEW)
_READ = 1 << 24


class Applied(NamedTuple):
    """What `apply` did.

    Attributes
    ----------
    folder : str
        Where the scores are now.
    q, was : float
        The q of the scores, now and before.
    scores : int
        How many were rewritten; 0 if they were at that q already, or their original was put back.
    exact : bool
        Whether the scores come straight from bm25s' own: False where no original was kept and scaled scores had to be
        scaled again, which costs a last bit.
    original : str
        Where bm25s' own scores are kept; empty if nowhere.
    """

    folder: str
    q: float
    was: float
    scores: int
    exact: bool
    original: str


def apply(
    folder: str | os.PathLike[str],
    q: float | str,
    *,
    out: str | os.PathLike[str] | None = None,
    backup: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Applied:
    """Give the scores of a saved folder another q; q = 1 puts bm25s' own back.

    Parameters
    ----------
    folder : str or path
        Saved by bm25s, with any of its methods.
    q : float or "hapax"
    out : str or path, default None
        Write a copy of the folder there and leave `folder` as it is. It must not exist, or be empty.
    backup : bool, default True
        Keep bm25s' own scores beside the new ones (as much disk again), so that going back is exact.
    progress : callable, default None
        Called with (scores done, scores in all).

    Raises
    ------
    ValueError
        `"auto"`, a q that is no number or too extreme, or scores that are not what the folder says.
    EngineError, IndexNotFoundError, EngineCorruptError, IndexLockedError
        What stands in the way, and what to do. Nothing was changed.
    """
    source = Path(folder)
    if out is not None:
        return _copy(source, Path(out), q, progress)
    if not source.is_dir():
        raise IndexNotFoundError(f"no folder {source} (bm25s writes one with retriever.save)")
    with _locked(source):
        _sweep(source)
        return _apply(source, q, backup, progress)


def current_q(folder: Path) -> float:
    """Return the q of a folder's scores: 1 unless `qidf apply` changed them and nobody saved there since."""
    state = _read_state(folder)
    found = _known(folder / bm25s.DATA, state) if state else None
    return float(found["q"]) if found else 1.0


def _apply(folder: Path, q: float | str, backup: bool, progress: Callable[[int, int], None] | None) -> Applied:
    scores = _read(folder)
    was, state = scores.q, _read_state(folder)
    names = _names(scores)
    originals = {name: folder / (BACKUP + name) for name in names}
    untouched = _untouched(folder, scores, state)
    kept = untouched is not scores
    value = number(q, untouched)
    if value == was and _is_whole(folder, names, state):
        if value == 1.0:
            _forget(folder)  # of an index that was saved again since
        return Applied(str(folder), value, was, 0, kept or was == 1.0, str(originals[bm25s.DATA]) if kept else "")
    if value == 1.0 and kept:
        # Each by a second name, so that an interrupted run can begin again; the scores last, since it is by them that a
        # folder counts as q = 1, whose files are the original.
        for name in reversed(names):
            if originals[name].exists():
                _keep(originals[name], folder / name)
        _sync(folder)
        _forget(folder)
        return Applied(str(folder), 1.0, was, 0, True, "")
    try:
        files = _write(untouched, value, folder, progress)
        first = {"q": was, "files": {name: _identity(folder / name) for name in names}}
        states = [first, {"q": value, "files": files}]
        if kept and state:
            states.append(next(one for one in state["states"] if one["q"] == 1.0))
        if was == 1.0:
            for name in names:
                if backup:
                    _keep(folder / name, originals[name])
                else:
                    originals[name].unlink(missing_ok=True)  # of an index that was saved again since
        _write_state(folder, states)
        for name in names:
            os.replace(folder / (_NEW + name), folder / name)
        _sync(folder)
    except BaseException:
        _sweep(folder)
        raise
    kept = kept or (backup and was == 1.0)
    if value == 1.0:
        _forget(folder)
    return Applied(
        str(folder), value, was, len(scores.data), untouched.q == 1.0, str(originals[bm25s.DATA]) if kept else ""
    )


def _copy(source: Path, out: Path, q: float | str, progress: Callable[[int, int], None] | None) -> Applied:
    """Write a copy of a folder with the scores of another q: made aside, then renamed into place."""
    scores = _read(source)
    names, state = _names(scores), _read_state(source)
    was, untouched = scores.q, _untouched(source, scores, state)
    value = number(q, untouched)
    target = out.resolve()
    if target == source.resolve() or source.resolve() in target.parents:
        raise ValueError(f"the copy must stand outside of {source}, got {out} (leave out --out to change it in place)")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise EngineError(f"{out} exists and is not an empty folder: name another, or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f"{target.name}.{_NEW}{os.getpid()}")
    try:
        made.mkdir()
        for entry in sorted(source.iterdir()):
            ours = entry.name in names or entry.name.startswith(_OURS)
            if not ours and entry.is_file() and (entry.name in bm25s.FILES or not entry.is_symlink()):
                shutil.copyfile(entry, made / entry.name)
                _durable(made / entry.name)
        files = _write(untouched, value, made, progress)
        for name in names:
            os.replace(made / (_NEW + name), made / name)
        if value != 1.0:
            _write_state(made, [{"q": value, "files": files}])
        _sync(made)
        os.rename(made, target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    kept = BACKUP + bm25s.DATA if untouched is not scores else bm25s.DATA if was == 1.0 else ""
    original = str(source / kept) if kept else ""
    return Applied(str(out), value, was, len(scores.data), untouched.q == 1.0, original)


def _read(folder: Path) -> StoredScores:
    """Map the scores; also check what only bm25s will read, so that the folder can be loaded after."""
    scores = bm25s.read_scores(folder)
    if not (folder / bm25s.VOCABULARY).exists():
        raise EngineError(f"{folder / bm25s.VOCABULARY} is missing: save the index again with bm25s")
    if scores.model.variant != "bm25":
        array = bm25s.read_array(folder / bm25s.NONOCCURRENCE)
        if array.shape != (scores.terms,):
            raise EngineError(f"{folder / bm25s.NONOCCURRENCE} must have shape ({scores.terms},), got {array.shape}")
    return scores


def _untouched(folder: Path, scores: StoredScores, state: dict[str, Any] | None) -> StoredScores:
    """Return bm25s' own scores if they were kept, else those of the folder, checked."""
    original = folder / (BACKUP + bm25s.DATA)
    if scores.q != 1.0 and _is_original(original, state):
        return replace(scores, data=bm25s.read_array(original), q=1.0)
    scores.check()
    return scores


def _names(scores: StoredScores) -> list[str]:
    """Return the files that hold an idf, the scores first."""
    return [bm25s.DATA] if scores.model.variant == "bm25" else [bm25s.DATA, bm25s.NONOCCURRENCE]


def _write(
    scores: StoredScores, q: float, folder: Path, progress: Callable[[int, int], None] | None
) -> dict[str, dict[str, int]]:
    """Write the new files aside, durably, and return their identities."""
    factors, done = scores.factors(q), 0
    files = {}
    with _npy(folder / (_NEW + bm25s.DATA), scores.data) as write:
        for piece in scores.rescaled(factors):
            if not np.isfinite(piece).all():
                raise ValueError(f"q = {q!r} gives scores beyond what {scores.data.dtype} can hold")
            write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, len(scores.data))
    files[bm25s.DATA] = _identity(folder / (_NEW + bm25s.DATA))
    nonoccurrence = scores.nonoccurrence(q)
    if nonoccurrence is not None:
        with _npy(folder / (_NEW + bm25s.NONOCCURRENCE), nonoccurrence) as write:
            write(nonoccurrence)
        files[bm25s.NONOCCURRENCE] = _identity(folder / (_NEW + bm25s.NONOCCURRENCE))
    return files


@contextmanager
def _npy(path: Path, like: NDArray[Any]) -> Iterator[Callable[[NDArray[Any]], None]]:
    """Write an array in numpy's format piece by piece; `like` gives its shape and type."""
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(like.dtype), "fortran_order": False, "shape": like.shape}
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda piece: _write_piece(file, piece)
        file.flush()
        os.fsync(file.fileno())


def _write_piece(file: BinaryIO, piece: NDArray[Any]) -> None:
    file.write(np.ascontiguousarray(piece).view(np.uint8).data if len(piece) else b"")


# What q a folder has


def _identity(path: Path) -> dict[str, int]:
    """Return what tells a file's content, and what tells cheaply that nobody wrote to it since."""
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(_READ):
            checksum = zlib.crc32(block, checksum)
        status = os.fstat(file.fileno())
    return {"bytes": status.st_size, "crc32": checksum, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}


def _same(path: Path, identity: dict[str, int]) -> bool:
    """Return whether a file is the one of that identity: by its status, else by its content."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != identity["bytes"]:
        return False
    if (status.st_mtime_ns, status.st_ino) == (identity["mtime_ns"], identity["inode"]):
        return True
    return _identity(path)["crc32"] == identity["crc32"]


def _known(path: Path, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return which of the states that we know the scores at `path` are in."""
    return next((one for one in state["states"] if _same(path, one["files"][bm25s.DATA])), None)


def _is_original(path: Path, state: dict[str, Any] | None) -> bool:
    """Return whether kept scores are bm25s' own of the collection that the folder holds."""
    states = state["states"] if state else []
    return any(one["q"] == 1.0 and _same(path, one["files"][bm25s.DATA]) for one in states)


def _is_whole(folder: Path, names: list[str], state: dict[str, Any] | None) -> bool:
    """Return whether the files that hold an idf are all of one state."""
    found = _known(folder / bm25s.DATA, state) if state else None
    return found is None or all(name in found["files"] and _same(folder / name, found["files"][name]) for name in names)


def _read_state(folder: Path) -> dict[str, Any] | None:
    """Return our state of a folder, None where there is none. EngineError if it can't be ours."""
    path = folder / STATE
    try:
        state = strictjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        state = None
    if isinstance(state, dict) and state.get("format") == _FORMAT and isinstance(state.get("states"), list):
        wanted = ("bytes", "crc32", "mtime_ns", "inode")
        if all(
            isinstance(one, dict)
            and type(one.get("q")) in (int, float)
            and abs(one["q"]) < 1e100
            and isinstance(one.get("files"), dict)
            and bm25s.DATA in one["files"]
            and all(
                isinstance(file, dict) and all(type(file.get(key)) is int for key in wanted)
                for file in one["files"].values()
            )
            for one in state["states"]
        ):
            return state
    raise EngineError(f"{path} is not what `qidf apply` wrote: remove it if the folder's scores are bm25s' own")


def _write_state(folder: Path, states: list[dict[str, Any]]) -> None:
    with open(folder / (_NEW + STATE), "w") as file:
        json.dump({"format": _FORMAT, "states": states}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / (_NEW + STATE), folder / STATE)
    _sync(folder)


def _forget(folder: Path) -> None:
    """Remove our state and what we kept: the scores are bm25s' own again."""
    (folder / STATE).unlink(missing_ok=True)
    for name in (bm25s.DATA, bm25s.NONOCCURRENCE):
        (folder / (BACKUP + name)).unlink(missing_ok=True)


# Files


def _keep(path: Path, kept: Path) -> None:
    """Keep a file under another name; a second name of the same content where the file system can."""
    aside = kept.with_name(_NEW + kept.name)
    aside.unlink(missing_ok=True)
    try:
        os.link(path, aside)
    except OSError:
        shutil.copyfile(path, aside)
        shutil.copystat(path, aside)
        _durable(aside)
    os.replace(aside, kept)
    aside.unlink(missing_ok=True)  # rename does nothing where both names are of one file


def _sweep(folder: Path) -> None:
    """Remove what an interrupted run left half-written."""
    for name in (bm25s.DATA, bm25s.NONOCCURRENCE, STATE, BACKUP + bm25s.DATA, BACKUP + bm25s.NONOCCURRENCE):
        (folder / (_NEW + name)).unlink(missing_ok=True)


def _durable(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the names of a folder durable, where the system can."""
    with suppress(OSError):
        store.sync_directory(str(folder))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise IndexLockedError(f"another qidf apply is at work in {folder}: try again when it is done") from None
