"""TREC's files: runs and judgments, in and out. Knows lines; ranks and measures nothing.

A run has lines of `query Q0 document rank score tag`, judgments lines of `query 0 document grade`, separated by white
space (trec_eval's README). As in trec_eval the rank is not read: documents stand in the order of their scores, those of
one score in the order of their ids, last first.

Ids with white space fit into no such line. In runs that qidf writes they stand as %20 and so on, and its tag, which
begins with `qidf:`, says so to the one who reads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote, unquote

import numpy as np

from qidf.errors import SourceError
from qidf.lab.files import write

Run: TypeAlias = dict[str, list[tuple[str, float]]]
"""{id of a query: (id of a document, score) of its hits, best first}."""

TAG = "qidf:"
"""How the tag of our runs begins."""

MOST_LINES = 50_000_000
_LONGEST_LINE = 64 * 1024


def read_run(path: str | os.PathLike[str]) -> tuple[Run, str]:
    """Return a run and its tag, that of its first line.

    Raises
    ------
    SourceError
        It can't be read, a line is none of a run, or a document stands twice for a query.
    """
    found: dict[str, dict[str, float]] = {}
    tag = ""
    expected = "expected query, Q0, document, rank, score (a number) and tag, separated by white space"
    for number, fields in _lines(path):
        try:
            query, _, document, _, text, name = fields
            score = float(text)
        except ValueError:
            raise SourceError(f"{os.fspath(path)}, line {number}: {expected}") from None
        if not math.isfinite(score):
            raise SourceError(f"{os.fspath(path)}, line {number}: {expected}")
        tag = tag or name
        if tag.startswith(TAG):
            query, document = unquote(query), unquote(document)
        own = found.setdefault(query, {})
        if document in own:
            raise SourceError(f"{os.fspath(path)}, line {number}: {document!r} stands twice for the query {query!r}")
        own[document] = score
    if not found:
        raise SourceError(f"{os.fspath(path)} holds no run: {expected}")
    return {query: _ordered(own) for query, own in found.items()}, tag


def write_run(path: str | os.PathLike[str], run: Mapping[str, Sequence[tuple[str, float]]], name: str) -> None:
    """Write a run, whole or not at all, with the tag `qidf:name`.

    trec_eval reads scores in 32 bits, and puts hits of one score in the order of their ids. So scores are written in 32
    bits, and where two tie the second is the largest number below the first.

    Raises
    ------
    SourceError
        It can't be written.
    """
    lines = []
    for query, hits in run.items():
        last = np.float32(np.inf)
        for rank, (document, score) in enumerate(hits, 1):
            own = np.float32(score)
            last = own if own < last else np.nextafter(last, np.float32(-np.inf))
            lines.append(f"{_field(query)} Q0 {_field(document)} {rank} {float(last)!r} {TAG}{_field(name)}\n")
    write(path, lines)


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} of the grades above 0.

    Raises
    ------
    SourceError
        It can't be read, a line is none of judgments, or none is above 0.
    """
    found: dict[str, dict[str, int]] = {}
    expected = "expected query, 0, document and grade (a whole number), separated by white space"
    for number, fields in _lines(path):
        try:
            query, _, document, text = fields
            grade = int(text)
        except ValueError:
            raise SourceError(f"{os.fspath(path)}, line {number}: {expected}") from None
        if grade > 0:
            found.setdefault(query, {})[document] = grade
    if not found:
        raise SourceError(f"{os.fspath(path)} calls no document relevant: {expected}")
    return found


def write_qrels(path: str | os.PathLike[str], relevant: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgments, whole or not at all.

    Raises
    ------
    SourceError
        An id has white space, or it can't be written.
    """
    lines = []
    for query, own in relevant.items():
        for document, grade in own.items():
            if len(query.split()) != 1 or len(document.split()) != 1:
                raise SourceError(f"TREC's judgments have no ids with white space: {query!r}, {document!r}")
            lines.append(f"{query} 0 {document} {grade}\n")
    write(path, lines)


def _ordered(own: dict[str, float]) -> list[tuple[str, float]]:
    by_id = sorted(own.items(), key=lambda hit: hit[0], reverse=True)
    return sorted(by_id, key=lambda hit: -hit[1])


def _field(text: str) -> str:
    """Return a name as one field: white space, `%`, controls and lone surrogates as %XX."""
    return "".join(c if c.isprintable() and not c.isspace() and c != "%" else _quoted(c) for c in text) or "%20"


def _quoted(char: str) -> str:
    return quote(char, safe="", errors="replace")


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    name = os.fspath(path)
    if not os.path.exists(name):
        raise SourceError(f"no such file: {name}")
    if not os.path.isfile(name):  # asked before opening: a FIFO would wait for a writer
        raise SourceError(f"not a file: {name}")
    try:
        with open(name, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                if number > MOST_LINES:
                    raise SourceError(f"{name} has more than {MOST_LINES:,} lines")
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").split()
                if fields:
                    yield number, fields
    except OSError as error:
        raise SourceError(f"can't read {name}: {error.strerror or error}") from None
