"""A dictionary from what an index holds: its texts, a folder of files, or its bare terms."""

# ruff: noqa: N806 (N is the literature's letter)

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from qidf.analysis import ANALYZERS, Token
from qidf.analysis.word import STOP_WORDS
from qidf.errors import EngineError, QidfError
from qidf.expansion.collected import Collected
from qidf.expansion.dictionary import About, Dictionary, in_order, most_bytes, write
from qidf.expansion.place import identity, path_of
from qidf.expansion.spellings import Spellings, from_terms
from qidf.index.search import scanner
from qidf.index.store import check_space
from qidf.weighting import check_count

if TYPE_CHECKING:
    from qidf.engines.base import Engine

Progress = Callable[[int, int], None]

_AT_ONCE = 500  # names that a server is asked to analyze in one request
_DROPPED = 8  # names at the end of those asked about that an analyzer may drop, stop words and the like
_HELD = 250_000  # terms and words that are held until they are written down
_BETWEEN = 20_000  # documents between two checkpoints, at most


class Built(NamedTuple):
    """What `build` made.

    Attributes
    ----------
    dictionary : Dictionary
    size : int
        Bytes of the file.
    note : str
        What was used instead where the index has no texts, or what was read before; else empty.
    """

    dictionary: Dictionary
    size: int
    note: str


def build(
    engine: Engine,
    path: str = "",
    *,
    spellings: str = "",
    most: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Make the dictionary of an engine, and give it to the engine.

    Of an engine that can go on reading where it ended (a server), what was read stands beside the dictionary: after an
    interruption the build goes on from there, and a later one reads what was written since.

    Parameters
    ----------
    engine : Engine
    path : str, default `qidf.expansion.place.path_of(engine)`
    spellings : str, default none
        A folder of files, or a file of JSON lines, to read in place of what the index stores.
    most : int, optional
        Documents to read at most. What was read is not kept then.
    fresh : bool, default False
        Read all again.
    progress : callable, optional
        Is told how many documents were read, of how many.

    Raises
    ------
    EngineError
        The index is in memory and no path is given, or it has neither texts nor terms to tell.
    QidfError
        The disk is too full, or another build of the same dictionary is at work.
    ValueError
        `most` is no integer of at least 1.
    """
    path = path or path_of(engine)
    if not path:
        raise EngineError(f"{engine.url} has no place to keep a dictionary beside: say where")
    most = None if most is None else check_count("most", most)
    N = engine.collection().documents
    # A part of what is there is no beginning to go on from: it would be counted again.
    keeps = engine.resumable and not spellings and most is None
    kept = f"{path.removesuffix('.qidf')}.read" if keeps else ""
    name = identity(engine)
    made_from = f"{name or engine.url} {engine.analyzer} {engine.analyzes_remotely}"
    source = "files" if spellings else "texts"
    with Collected(kept, made_from, fresh=fresh) as collected:
        try:
            if collected.checkpoint is not None and not engine.can_resume(collected.checkpoint):
                collected.clear()
            before = collected.documents
            _read(engine, spellings, collected, most, lambda read: progress(read, max(N, read)) if progress else None)
            if collected.documents:
                if engine.analyzes_remotely:  # each name is sent there once, and not each text
                    collected.analyze(partial(_as_terms, engine), _AT_ONCE)
                check_space(path, most_bytes(*collected.sizes()), "dictionary", "free some space")
                about = About(name, engine.analyzer, N, collected.documents, source, engine.state)
                terms = collected.terms(analyzed=engine.analyzes_remotely)
                size = write(path, about, terms, collected.dfs())
                note = f"went on after {before:,} documents that were read before (--fresh reads all again)"
                return _given(engine, path, size, note if before else "")
        except sqlite3.OperationalError as error:
            raise collected.refused(error) from error
        except sqlite3.DatabaseError as error:
            raise QidfError(f"{kept or 'what was read'} is damaged ({error}): --fresh begins anew") from error
    if spellings:
        raise EngineError(f"no document in {spellings}")
    dropped = STOP_WORDS if engine.analyzer == "word" else ()
    parts, dfs = from_terms(dict(engine.vocabulary()), N, dropped)
    if not dfs:
        raise EngineError(
            f"{engine.url} stores no texts and lists no terms: name the code it was made from (--spellings PATH)"
        )
    size = most_bytes(len(parts), sum(map(len, parts)), sum(map(len, parts.values())))
    check_space(path, size, "dictionary", "free some space")
    size = write(path, About(name, engine.analyzer, N, 0, "terms", engine.state), in_order(parts), dfs)
    note = "the index stores no texts: its bare terms were cut by its own words (--spellings PATH knows better)"
    return _given(engine, path, size, note)


def _given(engine: Engine, path: str, size: int, note: str) -> Built:
    """Give a new dictionary to its engine."""
    engine.dictionary = Dictionary(path)
    return Built(engine.dictionary, size, note)


def _read(engine: Engine, spellings: str, collected: Collected, most: int | None, tell: Callable[[int], None]) -> None:
    """Add what the texts show, from the last checkpoint on."""
    shown = Spellings(_as_spelled if engine.analyzes_remotely else analysis(engine))
    last = collected.checkpoint
    for texts, checkpoint in _files(spellings) if spellings else engine.read(last):
        read = collected.documents + shown.documents
        for text in texts if most is None else texts[: most - read]:
            shown.add(text)
        last = checkpoint
        read = collected.documents + shown.documents
        tell(read)
        if read == most:
            break
        if shown.size > _HELD or (checkpoint is not None and shown.documents >= _BETWEEN):
            shown.take(collected, checkpoint)
    if shown.documents:
        shown.take(collected, last)


def analysis(engine: Engine) -> Callable[[str], list[Token]]:
    """Return how the texts of an index become terms: by qidf's own analyzer of that name, else by the engine."""
    return scanner(engine.analyzer).tokens if engine.analyzer in ANALYZERS else engine.analyze


def _as_spelled(text: str) -> list[Token]:
    return [token._replace(term=text[token.start : token.end]) for token in scanner("standard").tokens(text)]


def _as_terms(engine: Engine, names: list[str]) -> dict[str, str]:
    """Return the terms that the engine makes of names, where it leaves them whole."""
    at, places = 0, {}
    for name in names:
        places[at, at + len(name)] = name
        at += len(name) + 1
    tokens = engine.analyze("\n".join(names))
    found = {places[token.start, token.end]: token.term for token in tokens if (token.start, token.end) in places}
    last = max((token.end for token in tokens), default=0)
    rest = [name for (start, _), name in places.items() if start >= last]
    if len(rest) == len(names) > _DROPPED:  # not one token of all of them
        half = len(names) // 2
        return _as_terms(engine, names[:half]) | _as_terms(engine, names[half:])
    if _DROPPED < len(rest) < len(names):  # the analyzer may take no more tokens of a text than so many
        found |= _as_terms(engine, rest)
    return found


def _files(spellings: str) -> Iterator[tuple[list[str], None]]:
    from qidf.sources import open_source

    for document in open_source(spellings).documents():
        yield [document.text], None
