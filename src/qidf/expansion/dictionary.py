"""The identifier dictionary: terms by their parts, one mapped file. Knows bytes and parts; knows no engine.

Terms stand by the number of their different parts, then by their bytes, so that a part's list, in order of the terms'
numbers, begins with the terms that hold least besides. A term's text is kept with a mark at each cut that nothing shows
(`handle·web·socket`, `get_user·name`). Some 12 bytes an identifier beyond its text: 4 for where it begins, 1 for each
mark, and in each of its parts' lists the gap to the term before, 1 to 3.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from qidf.errors import DictionaryCorruptError
from qidf.index.container import Container, Output, blob
from qidf.kernels import Lookup

_CUT, _ODD = "\x1f", "\x1e"
_BETWEEN = re.compile(r"[\W_]+|\x1f")

_MOST_PARTS = 1 << 16

READ = 4096
"""Terms of a part's list that a look-up reads."""

Candidate: TypeAlias = tuple[str, tuple[str, ...], int]
"""A term that is made of words of a query: (term, those words, how many different parts it has)."""


class About(NamedTuple):
    """What a dictionary was made from.

    Attributes
    ----------
    engine : str
        The URL of the index, without options and credentials.
    analyzer : str
        As the engine told it.
    documents : int
        N of the index then.
    read : int
        Documents whose texts were read; 0 where there were none and bare terms were cut.
    source : {"texts", "files", "terms"}
        The index's own texts, a folder of files, or its terms.
    state : str
        As the engine named what it held; empty where it does not.
    """

    engine: str
    analyzer: str
    documents: int
    read: int
    source: str
    state: str = ""


def _about(**told: Any) -> About:
    """Return what a footer tells; TypeError or ValueError if it can't be."""
    about = About(**told)
    if not all(isinstance(value, str) for value in (about.engine, about.analyzer, about.source, about.state)):
        raise TypeError("a name is no text")
    for value in (about.documents, about.read):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise ValueError("a number is out of range")
    return about


def most_bytes(terms: int, size: int, parts: int) -> int:
    """Return how many bytes a dictionary takes at most: of so many terms, with bytes and parts together."""
    return (size + 4 * terms + 5 * parts) * 5 // 4 + (1 << 20)


def in_order(parts: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield terms with their parts in a dictionary's order: by the number of different parts, then by the bytes."""
    for term in sorted(parts, key=lambda term: (len(set(parts[term])), term.encode("utf-8", "surrogatepass"))):
        yield term, tuple(parts[term])


def write(path: str, about: About, terms: Iterable[tuple[str, Sequence[str]]], dfs: Mapping[str, int]) -> int:
    """Write a dictionary whole or not at all, and return its size in bytes.

    Parameters
    ----------
    path : str
    about : About
    terms : iterable of (term, parts)
        As `in_order` gives them, each with at least two different parts. In memory 4 bytes are kept of each, and of
        each of its parts.
    dfs : mapping of str to int
        How many documents hold each part, alone or inside a term.
    """
    groups: dict[str, int] = {}
    lists: dict[str, array[int]] = {}
    slots = array("I", [0])
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    _sweep(folder, prefix := f".{os.path.basename(path)}.")
    handle, aside = tempfile.mkstemp(dir=folder, prefix=prefix)
    try:
        with os.fdopen(handle, "wb") as file:
            output = Output(file, Dictionary.magic)
            output.stream("terms.data", _packed(terms, groups, lists, slots))
            output.add("terms.slots", _little(slots))
            by_bytes = {part.encode("utf-8", "surrogatepass"): part for part in lists}
            names = sorted(by_bytes)
            data, offsets = blob(names)
            output.add("parts.data", data)
            output.add("parts.offsets", _little(offsets))
            output.add("parts.docs", _little(array("I", [min(dfs.get(by_bytes[n], 0), 2**32 - 1) for n in names])))
            ends = array("Q", [0])
            output.stream("lists.data", _counted((varints(lists[by_bytes[name]]) for name in names), ends))
            output.add("lists.offsets", _little(ends))
            size = output.finish(
                {"about": about._asdict(), "groups": groups, "terms": len(slots) - 1, "parts": len(names)}
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return size


def _sweep(folder: str, prefix: str) -> None:
    """Remove what writers that were killed left behind; one that is at work is younger."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with suppress(OSError):
                    if entry.stat().st_mtime < time.time() - _OLD:
                        os.unlink(entry.path)


_OLD = 3600.0  # seconds


def varints(numbers: array[int]) -> bytes:
    """Return ascending numbers as the gaps between them, in bytes of 7 bits, low bits first (LEB128)."""
    if len(numbers) < _FEW:
        out, last = bytearray(), -1
        for number in numbers:
            gap, last = number - last - 1, number
            while gap > 127:
                out.append(gap & 127 | 128)
                gap >>= 7
            out.append(gap)
        return bytes(out)
    import numpy as np

    places = np.frombuffer(numbers, np.uint32).astype(np.int64)
    gaps = places - np.concatenate([[-1], places[:-1]]) - 1
    pieces = gaps[:, None] >> np.arange(0, 35, 7)
    more = pieces > 127
    keep = np.concatenate([np.ones((len(gaps), 1), bool), more[:, :-1]], axis=1)
    encoded: bytes = (pieces & 127 | np.where(more, 128, 0)).astype(np.uint8)[keep].tobytes()
    return encoded


def _packed(
    terms: Iterable[tuple[str, Sequence[str]]],
    groups: dict[str, int],
    lists: dict[str, array[int]],
    slots: array[int],
) -> Iterator[bytes]:
    """Yield terms as they stand in the file, and note each group's begin, each part's terms and each term's end."""
    last = (0, b"")
    for term, parts in terms:
        if _CUT in term or _ODD in term:
            continue
        different = set(parts)
        key = len(different), term.encode("utf-8", "surrogatepass")
        if key <= last:
            raise ValueError(f"terms must come in order, and {term!r} does not")
        last, number = key, len(slots) - 1
        groups.setdefault(str(len(different)), number)
        for part in different:
            lists.setdefault(part, array("I")).append(number)
        text = _pack(term, parts).encode("utf-8", "surrogatepass")
        if slots[-1] + len(text) >= 1 << 32:
            raise ValueError("a dictionary holds less than 4 GiB of terms")
        slots.append(slots[-1] + len(text))
        yield text


_FEW = 32  # numbers of a list that are sooner encoded one by one


def _counted(pieces: Iterable[bytes], ends: array[int]) -> Iterator[bytes]:
    """Yield pieces, and note where each ends."""
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
        yield piece


def _little(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _pack(term: str, parts: Sequence[str]) -> str:
    """Return a term with marks where its parts end, or with the parts behind it where marks can't tell them."""
    out, at = "", 0
    for part in parts:
        found = term.find(part, at)
        if found < 0:
            break
        out += term[at:found] + (_CUT if out and found == at else "") + part
        at = found + len(part)
    else:
        out += term[at:]
        if _unpack(out) == (term, list(parts)):
            return out
    return f"{term}{_ODD}{_CUT.join(parts)}"


def _unpack(packed: str) -> tuple[str, list[str]]:
    term, odd, rest = packed.partition(_ODD)
    if odd:
        return term, rest.split(_CUT)
    return packed.replace(_CUT, ""), [part for part in _BETWEEN.split(packed) if part]


class Dictionary(Container):
    """A dictionary on disk, opened by memory map.

    Raises
    ------
    DictionaryCorruptError
        The file is missing, half-written, damaged or something else; a page says so when it is read.
    """

    magic = b"QIDFDIC2"
    required = (
        "terms.data",
        "terms.slots",
        "parts.data",
        "parts.offsets",
        "parts.docs",
        "lists.offsets",
        "lists.data",
    )

    def __init__(self, path: str, *, in_memory: bool = False) -> None:
        super().__init__(path, in_memory=in_memory)
        self.path = path
        self.terms, self.parts = self.numbers("terms", "parts")
        try:
            self.about = _about(**self.footer["about"])
            groups = sorted((int(n), int(start)) for n, start in self.footer["groups"].items())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged("its footer can't be read") from error
        if not all(0 < n <= _MOST_PARTS and 0 <= start <= self.terms for n, start in groups):
            raise self.damaged("its groups do not fit")
        sizes = [n for n, _ in groups]
        self._starts = [start for _, start in groups]
        counts = {name: count for name, (_, count) in self.arrays.items()}
        if (
            counts["terms.slots"] != self.terms + 1
            or counts["parts.offsets"] != self.parts + 1
            or counts["lists.offsets"] != self.parts + 1
            or counts["parts.docs"] != self.parts
            or self._starts != sorted(self._starts)
            or (self.terms and self._starts[:1] != [0])
        ):
            raise self.damaged("its arrays do not fit each other")
        self._lookup = Lookup(self.map, self.name, self.arrays, self._starts, sizes)

    def damaged(self, why: str) -> DictionaryCorruptError:
        """Return the error that says so of this file."""
        return DictionaryCorruptError(f"{self.name} is damaged: {why}")

    def __len__(self) -> int:
        return self.terms

    def parts_of(self, term: str) -> list[str]:
        """Return the parts of a term; of one that the dictionary does not hold, none."""
        wanted = term.encode("utf-8", "surrogatepass")
        for group, low in enumerate(self._starts):
            high = self._starts[group + 1] if group + 1 < len(self._starts) else self.terms
            while low < high:
                middle = (low + high) // 2
                own, parts = self._term(middle)
                key = own.encode("utf-8", "surrogatepass")
                if key == wanted:
                    return parts
                if key < wanted:
                    low = middle + 1
                else:
                    high = middle
        return []

    def dfs(self, parts: Iterable[str]) -> dict[str, int]:
        """Return how many documents held each part, alone or inside a term, when it was made; the known ones alone."""
        return {part: self._lookup.df(ordinal) for part, ordinal in self._ordinals(parts).items()}

    def terms_of(self, part: str, most: int = READ) -> list[str]:
        """Return the terms that hold a part, those of fewest parts first."""
        found = self._ordinals([part]).values()
        return [self._term(number)[0] for ordinal in found for number in self._lookup.terms_of(ordinal, most)]

    def candidates(self, weights: Mapping[str, float], most: int) -> list[Candidate]:
        """Return the `most` terms with the highest k/n · Σ w(p), best first (`qidf.weighting.expand`).

        Of each word's list the first `READ` terms are looked at: where a word is part of more, those with more parts,
        which weigh less, are found only through another word, and stand where that word alone puts them.
        """
        found = self._ordinals(weights)
        words = list(found)
        out = []
        ordinals, own = list(found.values()), [weights[word] for word in words]
        for term, held, n, number in self._lookup.related(words, ordinals, own, READ, most):
            if number >= 0:  # a list that was read in part may name it further on
                parts = self._term(number)[1]
                held = tuple([word for word in words if word in parts])
            out.append((term, held, n))
        return out

    def verify(self) -> None:
        """Read every page and every entry; IndexCorruptError where one is not what was written."""
        super().verify()
        for number in range(self.terms):
            self._term(number)
        for ordinal in range(self.parts):
            self._lookup.terms_of(ordinal, self.terms)

    def _ordinals(self, parts: Iterable[str]) -> dict[str, int]:
        """Return the number of each known part."""
        parts = list(parts)
        found = self._lookup.ordinals([part.encode("utf-8", "surrogatepass") for part in parts])
        return {part: ordinal for part, ordinal in zip(parts, found, strict=True) if ordinal >= 0}

    def _term(self, number: int) -> tuple[str, list[str]]:
        try:
            return _unpack(self._lookup.packed(number).decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise self.damaged("a term is no text") from error


__all__ = ["READ", "About", "Candidate", "Dictionary", "in_order", "most_bytes", "write"]
