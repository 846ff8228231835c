"""Which index a command works on, and bringing it up to date first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qidf.cli.output import count, note

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Index
    from qidf.index.refresh import Refresh

Report = Callable[[int], None]


def open_place(path: str | None, index: str | None, engine: str | None, *, no_refresh: bool = False) -> Index | Engine:
    """Open the engine of a URL, or without one the index that PATH and --index name, as `open_index` does."""
    if engine is None:
        return open_index(path, index, no_refresh=no_refresh)
    given = [name for name, value in (("PATH", path), ("--index", index), ("--no-refresh", no_refresh)) if value]
    if given:
        from click import UsageError

        raise UsageError(f"--engine names an index of its own: leave {' and '.join(given)} out")
    from qidf.engines import connect

    with remarks():
        return connect(engine)


def widened(opened: Index | Engine, arguments: dict[str, Any], expand: str) -> tuple[Index | Engine, dict[str, Any]]:
    """Return what to ask and the arguments that it takes: of an index with a dictionary, the engine that widens.

    `arguments` are those of `options.check`; an engine's are what they are.
    """
    from qidf.index.search import Index

    if not isinstance(opened, Index) or expand == "off" or opened.analyzer == "code":
        return opened, arguments
    from qidf.engines.embedded import Embedded
    from qidf.expansion.place import of_engine

    engine = Embedded(opened, **{name: arguments[name] for name in ("k1", "b", "odds")})
    with remarks():
        engine.dictionary = of_engine(engine)
    if engine.dictionary is None:
        return opened, arguments
    return engine, {"q": arguments["q"], "a": arguments["a"], "expand": expand}


@contextmanager
def remarks() -> Iterator[None]:
    """Print the warnings of engines as remarks, each once."""
    import warnings

    from qidf.errors import AnalyzerWarning, EngineWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AnalyzerWarning)
        warnings.simplefilter("always", EngineWarning)
        yield
    for message in dict.fromkeys(
        str(one.message) for one in caught if one.category in (AnalyzerWarning, EngineWarning)
    ):
        note(message)


def open_index(path: str | None, index: str | None, *, no_refresh: bool = False) -> Index:
    """Open the index that PATH and --index name.

    --index alone: that index, as it is; nothing is refreshed, and nothing but the index is imported. Else the index of
    PATH (the current directory if there is none), at --index or in the user's cache folder, is built or refreshed
    first. Where that can't be done (another process writes, no rights, disk full) an index that exists answers as it
    stands, and standard error says so.
    """
    from qidf.index.search import Index

    if index is not None and (path is None or no_refresh):
        return Index.open(index, root=path or "")
    from qidf.errors import IndexCorruptError, IndexMismatchError, IndexNotFoundError, QidfError, SourceError
    from qidf.index import store
    from qidf.index.refresh import default_index

    place = default_index(path or ".") if index is None else index
    if no_refresh:
        try:
            return Index.open(place, root=path or ".")
        except IndexNotFoundError:
            raise IndexNotFoundError(f"no index of {path or '.'} yet (leave out --no-refresh to build it)") from None
    try:
        done = refresh(path or ".", place)
        if done.built:
            news = [f"{n:,} {what}" for n, what in _news(done) if n]
            if done.summary:
                news.append(done.summary)
            note(f"indexed {count(done.documents, 'document')}" + (f" ({', '.join(news)})" if news else ""))
            for line in done.notes:
                note(line)
    except (IndexCorruptError, IndexMismatchError, SourceError):
        raise
    except (QidfError, OSError) as error:
        if not store.exists(place):
            raise
        note(f"answering from the index as it stands, it could not be refreshed: {error}")
    return Index.open(place, root=path or ".")


def _news(done: Refresh) -> list[tuple[int, str]]:
    if done.added >= done.documents and not (done.changed or done.removed):  # the first time: nothing new in that
        return []
    return [(done.added, "added"), (done.changed, "changed"), (done.removed, "removed")]


def refresh(
    path: str,
    place: str | None,
    *,
    analyzer: str | None = None,
    store_text: bool | None = None,
    rebuild: bool = False,
    memory: int | None = None,
    wait: float = 1.0,
) -> Refresh:
    """Build or refresh an index, with progress on a terminal.

    Where another process writes to it, wait that many seconds, or as long as it takes where there is no index yet.
    """
    from qidf.index import store
    from qidf.index.build import MEMORY
    from qidf.index.refresh import default_index, refresh

    with _progress() as (progress, total):
        return refresh(
            path,
            place,
            analyzer=analyzer,
            store_text=store_text,
            rebuild=rebuild,
            memory=MEMORY if memory is None else memory,
            wait=wait if store.exists(default_index(path) if place is None else place) else -1.0,
            on_wait=(lambda who: note(f"{who} writes to the index: waiting")) if wait > 1 else None,
            progress=progress,
            total=total,
        )


@contextmanager
def _progress() -> Iterator[tuple[Report | None, Report | None]]:
    """Yield `progress` and `total` of a build: a bar on standard error if that is a terminal, nothing else."""
    if not sys.stderr.isatty():
        yield None, None
        return
    from contextlib import ExitStack

    with ExitStack() as stack:
        updates: list[Callable[[int], None]] = []

        def total(number: int) -> None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            bar = Progress(
                TextColumn("indexing"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            stack.enter_context(bar)
            task = bar.add_task("indexing", total=number)

            def update(done: int) -> None:
                bar.update(task, completed=done, total=number if done <= number else None)  # JSONL: one file, many

            updates.append(update)

        def progress(done: int) -> None:
            for update in updates:
                update(done)

        yield progress, total
