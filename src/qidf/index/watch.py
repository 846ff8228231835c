"""An index that follows a directory or a JSONL file for as long as somebody wants: events, and a scan now and then.

What changed is never taken from the events, which can be lost, come in any order, or be too many: they only say that it
is time for a refresh. So a branch switch is a few refreshes, whatever it does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from qidf.errors import QidfError
from qidf.index.refresh import Refresh, default_index, refresh
from qidf.sources.files import VENDORED

SCAN = 30.0
"""Seconds after which a refresh scans even if no event came."""

_SETTLE_MS = 150  # without an event before a refresh
_MOST_SETTLE_MS = 1500
_TICK = 1.0  # seconds between looks at whether the root is still there, and at `stop`
_POLL = 2.0  # seconds between scans where the system gives no events


def watch(
    path: str | os.PathLike[str],
    index: str | os.PathLike[str] | None = None,
    *,
    on_refresh: Callable[[Refresh], None],
    on_error: Callable[[Exception], None],
    on_note: Callable[[str], None] = lambda _: None,
    stop: threading.Event | None = None,
    **options: Any,
) -> None:
    """Keep the index of `path` up to date until `stop` is set, or an interrupt.

    Nothing that happens below `path` ends it: where `path` itself is gone it waits until it is back; a refresh that
    fails is told and tried again.

    Parameters
    ----------
    path, index, **options
        As in `refresh`.
    on_refresh : callable
        Called after each refresh that changed the index, and after the first.
    on_error : callable
        Called when a refresh fails, once for the same message in a row.
    on_note : callable
        Called with a line for the user, where the system gives no events.
    stop : Event, default None

    Raises
    ------
    QidfError
        watchfiles is not installed; or from the first refresh.
    """
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise QidfError("watchfiles is not installed: pip install 'qidf[watch]'") from error
    stop = stop or threading.Event()
    place = default_index(path) if index is None else os.fspath(index)
    root = os.path.realpath(path)  # once: it is the place that is followed, not what was there first
    on_refresh(refresh(root, place, **options))
    told = ""
    for _ in _occasions(root, os.path.realpath(place), stop, on_note):
        try:
            done = refresh(root, place, **options)
        except (QidfError, OSError) as error:
            if str(error) != told:
                on_error(error)
            told = str(error)
        else:
            told = ""
            if done.built:
                on_refresh(done)


def _occasions(root: str, place: str, stop: threading.Event, on_note: Callable[[str], None]) -> Iterator[None]:
    """Yield whenever a refresh may have something to do."""
    import watchfiles

    while not stop.is_set():
        inode = _inode(root)
        if inode is None:
            stop.wait(_TICK)
            continue
        yield  # for what happened before the events begin, or while the root was away
        last = time.monotonic()
        try:
            for changes in watchfiles.watch(
                root if os.path.isdir(root) else os.path.dirname(root),
                watch_filter=_filter(root, place),
                debounce=_MOST_SETTLE_MS,
                step=_SETTLE_MS,
                stop_event=stop,
                rust_timeout=int(1000 * _TICK),
                yield_on_timeout=True,
                recursive=os.path.isdir(root),
                raise_interrupt=True,
            ):
                if changes or time.monotonic() - last > SCAN:
                    yield
                    last = time.monotonic()
                if _inode(root) != inode:
                    break
        except FileNotFoundError:  # the root went away as the events began
            continue
        except (OSError, RuntimeError) as error:  # such as the limit of watches
            on_note(f"the system gives no events ({error}); looking every {_POLL:g} s instead")
            while not stop.wait(_POLL):
                yield


def _inode(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if os.path.isdir(root) else (status.st_dev, 0)


def _filter(root: str, place: str) -> Callable[[Any, str], bool]:
    """Return what tells whether an event may matter: not in a repository's or a tool's folders, nor in the index."""
    folder = os.path.isdir(root)
    top, own = os.path.join(root, ""), os.path.join(place, "")
    quiet = VENDORED | {".git", ".hg", ".svn"}

    def wanted(_: Any, path: str) -> bool:
        if not folder:
            return path == root
        if path.startswith(own) or path == place:
            return False
        return quiet.isdisjoint(path[len(top) :].split(os.sep)[:-1])

    return wanted
