"""From texts, or from bare terms, to terms and their parts. Knows analyzers; knows no engine and no file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from qidf.analysis import Token

if TYPE_CHECKING:
    from qidf.expansion.collected import Collected

MOST_PARTS = 12
"""A term of more parts is a data blob, not a name."""

LONGEST = 255
"""Code points of a term."""

_RUN = re.compile(r"[^\W_]+")


def apart(text: str) -> list[Token]:
    """Return the tokens of a text as the `code` analyzer gives them, without the identifiers that have parts."""
    from qidf.index.search import scanner

    tokens = scanner("code").tokens(text)
    out = []
    for token, following in zip_longest(tokens, tokens[1:]):
        is_whole = following is not None and following.part and following.start < token.end
        if token.part or not is_whole:
            out.append(token)
    return out


def take_apart(text: str) -> list[str]:
    """Return the words of a text in lower case, each identifier in its parts."""
    return [token.term for token in apart(text)]


class Spellings:
    """What documents show of their terms: the parts of each, and in how many documents each part stands.

    Parameters
    ----------
    analyze : callable
        From a text to its tokens, as the index has them.

    Attributes
    ----------
    documents : int
        How many were added.
    """

    def __init__(self, analyze: Callable[[str], list[Token]]) -> None:
        self._analyze = analyze
        self._parts: dict[str, dict[tuple[str, ...], int]] = {}
        self._known: dict[str, tuple[str, ...]] = {}  # by spelling: one is met again and again
        self._between: dict[str, tuple[str, ...]] = {}
        self._dfs: Counter[str] = Counter()
        self.documents = 0

    def add(self, text: str) -> None:
        """Read a document."""
        self.documents += 1
        words: set[str] = set()
        last = 0
        for token in self._analyze(text):
            if token.start > last:  # what the index drops, such as stop words, an index of parts would hold
                words.update(self._dropped(text[last : token.start]))
            last = max(last, token.end)
            spelling = text[token.start : token.end]
            parts = self._known.get(spelling)
            if parts is None:
                if len(self._known) > 1 << 20:
                    self._known.clear()
                parts = self._known[spelling] = tuple(take_apart(spelling)) if len(spelling) <= LONGEST else ()
            words.update(parts)
            if 1 < len(parts) <= MOST_PARTS and len(set(parts)) > 1:
                spelled = self._parts.setdefault(token.term, {})
                spelled[parts] = spelled.get(parts, 0) + 1
        words.update(self._dropped(text[last:]))
        self._dfs.update(words)

    def _dropped(self, between: str) -> tuple[str, ...]:
        """Return the words between two tokens."""
        words = self._between.get(between)
        if words is None:
            if len(self._between) > 1 << 16:
                self._between.clear()
            words = tuple(take_apart(between))
            if len(between) <= LONGEST:
                self._between[between] = words
        return words

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Return {term: its parts}: where it is spelled in several ways, by the one that is met most often."""
        return {term: max(spelled, key=lambda parts: (spelled[parts], parts)) for term, spelled in self._parts.items()}

    def dfs(self) -> Mapping[str, int]:
        """Return {word: number of documents that hold it}, alone or as a part."""
        return self._dfs

    @property
    def size(self) -> int:
        """How many terms and words are held."""
        return len(self._parts) + len(self._dfs)

    def take(self, collected: Collected, checkpoint: Any) -> None:
        """Add what was shown to what was collected before, and begin anew."""
        collected.add(self._parts, self._dfs, self.documents, checkpoint)
        self._parts, self._dfs, self.documents = {}, Counter(), 0


class Segmentation:
    """Cuts glued words apart by the words that an index holds: `handlewebsocket` → handle web socket.

    A cut is the most probable sequence of words, a unigram model over the index's own terms (Norvig 2009, "Natural
    Language Corpus Data"), where each is a term that stands in enough documents, and only if the whole is rarer than
    its pieces by far. What can't be told is left whole.

    Parameters
    ----------
    dfs : mapping of str to int
        The terms of an index with their df.
    documents : int
    """

    SHORTEST = 3

    def __init__(self, dfs: Mapping[str, int], documents: int) -> None:
        least = max(3, documents // 2000)
        self._costs = {
            word: math.log(max(2.0, 2.0 * documents / n))
            for word, n in dfs.items()
            if n >= least and self.SHORTEST <= len(word) <= 20 and word.isalpha()
        }
        self._dfs = dfs

    def cut(self, term: str) -> tuple[str, ...]:
        """Return the parts of a term: at underscores, dots and digits, and where words are glued."""
        out: list[str] = []
        for run in _RUN.findall(term):
            for piece in re.findall(r"\d+|\D+", run):
                out += self._cut_word(piece)
        return tuple(out)

    def _cut_word(self, word: str) -> list[str]:
        length = len(word)
        if length < 2 * self.SHORTEST or length > LONGEST or not word.isalpha():
            return [word]
        n = self._dfs.get(word, 0)
        best: list[tuple[float, int]] = [(0.0, 0)] + [(math.inf, 0)] * length
        for end in range(self.SHORTEST, length + 1):
            for start in range(max(0, end - 20), end - self.SHORTEST + 1):
                cost = self._costs.get(word[start:end]) if (start, end) != (0, length) else None
                if cost is not None and best[start][0] + cost < best[end][0]:
                    best[end] = best[start][0] + cost, start
        if math.isinf(best[length][0]):
            return [word]
        pieces, at = [], length
        while at:
            pieces.append(word[best[at][1] : at])
            at = best[at][1]
        if n and min(self._dfs[piece] for piece in pieces) < 2 * n:  # a word of its own, as `understand` is
            return [word]
        return pieces[::-1]


def from_terms(
    dfs: Mapping[str, int], documents: int, dropped: Iterable[str] = ()
) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """Return the parts of bare terms, and the df of each part, of terms that lost their case.

    A part's df is estimated as if the terms that hold it stood in documents independently of each other; that of words
    `dropped` by the analyzer, stop words, as if all documents held them.
    """
    segmentation = Segmentation(dfs, documents)
    parts: dict[str, tuple[str, ...]] = {}
    absent: dict[str, float] = {}  # ln of the share of documents without it
    for term, n in dfs.items():
        own = segmentation.cut(term) if len(term) <= LONGEST else ()
        if 1 < len(own) <= MOST_PARTS and len(set(own)) > 1:
            parts[term] = own
        rest = math.log1p(-min(n / documents, 1 - 1e-9)) if documents else 0.0
        for part in {*own, term}:
            absent[part] = absent.get(part, 0.0) + rest
    counted = {part: max(1, round(-documents * math.expm1(value))) for part, value in absent.items()}
    return parts, counted | dict.fromkeys((word for word in dropped if word in counted), documents)


def of_texts(texts: Iterable[str], analyze: Callable[[str], list[Token]]) -> Spellings:
    """Return what texts show of their terms."""
    spellings = Spellings(analyze)
    for text in texts:
        spellings.add(text)
    return spellings
