"""A dictionary from what an index holds: its texts, a folder of files, or its bare terms."""

# ruff: noqa: N806 (N is the literature's letter)

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from qidf.analysis import ANALYZERS, Token
from qidf.errors import EngineError, QidfError
from qidf.expansion.dictionary import About, Dictionary, write
from qidf.expansion.place import identity, path_of
from qidf.expansion.spellings import Spellings, from_terms
from qidf.index.search import scanner

if TYPE_CHECKING:
    from qidf.engines.base import Engine

Progress = Callable[[int, int], None]

_AT_ONCE = 500  # names that a server is asked to analyze in one request


class Built(NamedTuple):
    """What `build` made.

    Attributes
    ----------
    dictionary : Dictionary
    size : int
        Bytes of the file.
    note : str
        What was used instead where the index has no texts; else empty.
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
    progress: Progress | None = None,
) -> Built:
    """Make the dictionary of an engine, and give it to the engine.

    Parameters
    ----------
    engine : Engine
    path : str, default `qidf.expansion.place.path_of(engine)`
    spellings : str, default none
        A folder of files, or a file of JSON lines, to read in place of what the index stores.
    most : int, optional
        Documents to read at most.
    progress : callable, optional
        Is told how many documents were read, of how many.

    Raises
    ------
    EngineError
        The index is in memory and no path is given, it has neither texts nor terms to tell, or the disk is too full.
    """
    path = path or path_of(engine)
    if not path:
        raise EngineError(f"{engine.url} has no place to keep a dictionary beside: say where")
    N = engine.collection().documents
    collected = Spellings(_as_spelled if engine.analyzes_remotely else analysis(engine))
    for text in _texts(engine, spellings):
        if most is not None and collected.documents >= most:
            break
        collected.add(text)
        if progress and not collected.documents % 64:
            progress(collected.documents, max(N, collected.documents))
    note = ""
    parts, dfs = collected.parts(), collected.dfs()
    if engine.analyzes_remotely:  # each name is sent there once, and not each text
        parts = _as_terms(engine, parts)
    source = "files" if spellings else "texts"
    if not collected.documents:
        if spellings:
            raise EngineError(f"no document in {spellings}")
        source = "terms"
        parts, dfs = from_terms(dict(engine.vocabulary()), N)
        if not dfs:
            raise EngineError(
                f"{engine.url} stores no texts and lists no terms: name the code it was made from (--spellings PATH)"
            )
        note = "the index stores no texts: its bare terms were cut by its own words (--spellings PATH knows better)"
    check_space(path, parts)
    about = About(identity(engine), engine.analyzer, N, collected.documents, source)
    size = write(path, about, parts, dfs)
    engine.dictionary = Dictionary(path)
    return Built(engine.dictionary, size, note)


def analysis(engine: Engine) -> Callable[[str], list[Token]]:
    """Return how the texts of an index become terms: by qidf's own analyzer of that name, else by the engine."""
    return scanner(engine.analyzer).tokens if engine.analyzer in ANALYZERS else engine.analyze


def _as_spelled(text: str) -> list[Token]:
    return [token._replace(term=text[token.start : token.end]) for token in scanner("standard").tokens(text)]


def _as_terms(engine: Engine, parts: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the terms that the engine makes of spellings, where it leaves them whole."""
    found: dict[str, tuple[str, ...]] = {}
    names = sorted(parts, key=lambda name: (len(parts[name]), name))  # the spelling of more parts stays
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        at, places = 0, {}
        for name in batch:
            places[at, at + len(name)] = name
            at += len(name) + 1
        for token in engine.analyze("\n".join(batch)):
            if (token.start, token.end) in places:
                found[token.term] = parts[places[token.start, token.end]]
    return found


def _texts(engine: Engine, spellings: str) -> Iterator[str]:
    if not spellings:
        yield from engine.texts()
        return
    from qidf.sources import open_source

    for document in open_source(spellings).documents():
        yield document.text


def check_space(path: str, parts: dict[str, tuple[str, ...]]) -> None:
    """Raise QidfError if a dictionary of these terms does not fit beside what is there."""
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    needed = sum(len(term) + 5 * len(own) + 4 for term, own in parts.items()) * 5 // 4 + (1 << 20)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise QidfError(f"a dictionary takes {needed:,} bytes, and {folder} has {free:,} free")
