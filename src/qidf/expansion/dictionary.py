"""The identifier dictionary: terms by their parts, one mapped file. Knows bytes and parts; knows no engine.

Terms stand by the number of their different parts, then by their bytes, so that a part's list, in order of the terms'
numbers, begins with the terms that hold least besides. A term's text is kept with a mark at each cut that nothing shows
(`handle·web·socket`, `get_user·name`). Some 20 bytes an identifier beyond its text: 4 for where it begins, 4 for each
of its parts' lists, 1 for each mark.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate
from typing import Any, NamedTuple

from qidf.index.container import PAGE, WIDTHS, Container, Output, blob
from qidf.kernels import checksums

_CUT, _ODD = "\x1f", "\x1e"
_BETWEEN = re.compile(r"[\W_]+|\x1f")

READ = 1024
"""Terms of a part's list that a look-up reads."""


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
    """

    engine: str
    analyzer: str
    documents: int
    read: int
    source: str


def write(path: str, about: About, parts: Mapping[str, Sequence[str]], dfs: Mapping[str, int]) -> int:
    """Write a dictionary whole or not at all, and return its size in bytes.

    Parameters
    ----------
    path : str
    about : About
    parts : mapping of str to sequence of str
        The parts of each term, at least two different ones.
    dfs : mapping of str to int
        How many documents hold each part, alone or inside a term.
    """
    encoded = sorted(
        (len(set(own)), term.encode("utf-8", "surrogatepass"), term)
        for term, own in parts.items()
        if _CUT not in term and _ODD not in term
    )
    groups: dict[str, int] = {}
    lists: dict[str, array[int]] = {}
    texts: list[bytes] = []
    for number, (n, _, term) in enumerate(encoded):
        groups.setdefault(str(n), number)
        own = tuple(parts[term])
        texts.append(_pack(term, own).encode("utf-8", "surrogatepass"))
        for part in set(own):
            lists.setdefault(part, array("I")).append(number)
    if sum(map(len, texts)) >= 1 << 32:
        raise ValueError("a dictionary holds less than 4 GiB of terms")
    by_bytes = {part.encode("utf-8", "surrogatepass"): part for part in lists}
    names = sorted(by_bytes)
    data, offsets = blob(names)
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.")
    try:
        with os.fdopen(handle, "wb") as file:
            output = Output(file, Dictionary.magic)
            output.stream("terms.data", texts)
            output.add("terms.slots", _little(array("I", accumulate(map(len, texts), initial=0))))
            output.add("parts.data", data)
            output.add("parts.offsets", _little(offsets))
            output.add("parts.docs", _little(array("I", [min(dfs.get(by_bytes[n], 0), 2**32 - 1) for n in names])))
            sizes = (len(lists[by_bytes[name]]) for name in names)
            output.add("lists.offsets", _little(array("Q", accumulate(sizes, initial=0))))
            output.stream("lists.terms", (_little(lists[by_bytes[name]]) for name in names))
            size = output.finish({"about": about._asdict(), "groups": groups, "terms": len(texts), "parts": len(names)})
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return size


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
    IndexCorruptError
        The file is missing, half-written, damaged or something else; a page says so when it is read.
    """

    magic = b"QIDFDIC1"
    required = (
        "terms.data",
        "terms.slots",
        "parts.data",
        "parts.offsets",
        "parts.docs",
        "lists.offsets",
        "lists.terms",
    )

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path
        self.terms, self.parts = self.numbers("terms", "parts")
        try:
            self.about = About(**self.footer["about"])
            groups = sorted((int(n), int(start)) for n, start in self.footer["groups"].items())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged("its footer can't be read") from error
        self._sizes = [n for n, _ in groups]
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
        self._checked = bytearray(self.sums[1])
        self._places = {
            name: (offset, count * WIDTHS.get(name.rpartition(".")[2], 8))
            for name, (offset, count) in self.arrays.items()
        }
        self._part = lru_cache(maxsize=1 << 14)(self._find_part)

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

    def df(self, part: str) -> int:
        """Return how many documents hold a part, alone or inside a term, when the dictionary was made; 0 if unknown."""
        number = self._part(part)
        return int.from_bytes(self._bytes("parts.docs", 4 * number, 4 * number + 4), "little") if number >= 0 else 0

    def terms_of(self, part: str, most: int = READ) -> list[str]:
        """Return the terms that hold a part, those of fewest parts first."""
        return [self._term(number)[0] for number in self._list(part, most)]

    def candidates(self, weights: Mapping[str, float], most: int) -> list[tuple[str, list[str]]]:
        """Return the terms that are made of weighted words and might be among the `most` heaviest, with their parts.

        Of each word's list the first 1,024 terms are read: where a word is part of more, those with more parts, which
        weigh less, are found only through another word.
        """
        sums: dict[int, float] = {}
        counts: dict[int, int] = {}
        once: set[int] = set()
        twice: set[int] = set()
        singles: dict[int, float] = {}
        read = []
        for word, weight in weights.items():
            own = self._list(word, READ)
            if own:
                found = set(own)
                twice |= once & found
                once |= found
                singles.update(dict.fromkeys(own[:most], weight))
                read.append((found, weight))
        for found, weight in read:
            for number in found & twice:
                sums[number] = sums.get(number, 0.0) + weight
                counts[number] = counts.get(number, 0) + 1
        for number, weight in singles.items():
            if number not in twice:
                sums[number], counts[number] = weight, 1
        near = nlargest(most + most // 2, sums, key=lambda number: counts[number] * sums[number] / self._size(number))
        return [self._term(number) for number in near]

    def verify(self) -> None:
        """Read every page and every entry; IndexCorruptError where one is not what was written."""
        super().verify()
        for number in range(self.terms):
            self._term(number)

    # bytes

    def _size(self, number: int) -> int:
        return self._sizes[bisect_right(self._starts, number) - 1]

    def _find_part(self, part: str) -> int:
        wanted = part.encode("utf-8", "surrogatepass")
        low, high = 0, self.parts
        while low < high:
            middle = (low + high) // 2
            own = self._bytes("parts.data", *self._pair("parts.offsets", 8, middle))
            if own == wanted:
                return middle
            if own < wanted:
                low = middle + 1
            else:
                high = middle
        return -1

    def _list(self, part: str, most: int) -> Sequence[int]:
        number = self._part(part)
        if number < 0:
            return ()
        start, end = self._pair("lists.offsets", 8, number)
        raw = self._bytes("lists.terms", 4 * start, 4 * min(end, start + most))
        found = array("I", raw)
        found = _little(found)
        if found and not max(found) < self.terms:
            raise self.damaged("a list names a term that is not there")
        return found

    def _term(self, number: int) -> tuple[str, list[str]]:
        start, end = self._pair("terms.slots", 4, number)
        try:
            return _unpack(self._bytes("terms.data", start, end).decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise self.damaged("a term is no text") from error

    def _pair(self, name: str, width: int, number: int) -> tuple[int, int]:
        """Return a number of an array and the one behind it: where something begins and ends."""
        both = self._bytes(name, width * number, width * (number + 2))
        return int.from_bytes(both[:width], "little"), int.from_bytes(both[width:], "little")

    def _bytes(self, name: str, start: int, end: int) -> bytes:
        """Return bytes of an array, checked against their pages' checksums the first time."""
        offset, length = self._places[name]
        if not 0 <= start <= end <= length:
            raise self.damaged(f"an entry of {name} lies outside")
        checked = self._checked
        for page in range((offset + start) // PAGE, (offset + end + PAGE - 1) // PAGE):
            if not checked[page]:
                at = self.sums[0] + 8 * page
                if checksums(self.map[page * PAGE : (page + 1) * PAGE]) != self.map[at : at + 8]:
                    raise self.damaged("a page is not what was written")
                checked[page] = 1
        return self.map[offset + start : offset + end]


__all__ = ["READ", "About", "Dictionary", "write"]
