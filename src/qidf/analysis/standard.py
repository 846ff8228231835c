"""The `standard` analyzer of Lucene, Elasticsearch and OpenSearch, as Lucene 9.12 does it, without stop words.

Words are those of Unicode's UAX #29 (version 12.1), written as a grammar in which the longest match wins:

- letters and digits belong together (`sha256`); a mid character joins two letters (`don't`, `foo.bar`, `foo:bar`) or
  two digits (`1,000.5`); `_` joins letters, digits and Katakana, and may open or close a word but not be one;
- a Hebrew letter may be followed by `'`, or by `"` and another Hebrew letter;
- Katakana runs, runs of South East Asian scripts (no dictionary), each Han character, each Hiragana character;
- emoji: pictographs, their ZWJ sequences, modifiers, keycaps, flags by pairs, tag sequences;
- marks, format characters and joiners stay with what they follow.

Anything else is passed over. The scanner looks at 255 UTF-16 units from a token's start, so a longer run is cut there.
Every code point is then lower-cased by itself, by Java 17's table. One thing is not as in Lucene: a
lone high surrogate at the end of a text, or where Lucene's buffer happens to end, makes Lucene lose or garble tokens;
here it is a character like any other that is in no word.

The text is translated to one letter a character, its class, and the grammar is a few expressions over these letters.
The compiled scanner walks the automaton in `unicode.py`; this module must not use it, so that one checks the other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from . import Token, unicode

NAME = "standard"
WINDOW = 255  # UTF-16 units

_LETTERS = dict(
    zip(
        unicode.STANDARD_NAMES,
        " abhndkt_:.,qQxsSzcefmgGrpiu",  # in the order of STANDARD_NAMES; the expressions below are written in these
        strict=True,
    )
)

# Marks stay with what they follow. No expression follows `_X` with one of its letters: it never has to give any back.
_X = "[xSzcefmgG]*+"
_LETTER = f"[abh]{_X}"
_HEBREW_WORD = f"h{_X}(?:q{_X}|Q{_X}h{_X})"  # before _JOINED: it leaves the next letter free to be one again
_JOINED = f"{_LETTER}(?:[:.q]{_X}{_LETTER})*+"
_NUMBER = f"[nd]{_X}(?:[,.q]{_X}[nd]{_X})*+"
_PART = f"(?:(?:{_HEBREW_WORD}|{_JOINED}|{_NUMBER})++|(?:t{_X})++)"
_CONNECTORS = f"(?:_{_X})"
_WORD = f"{_CONNECTORS}*+{_PART}(?:{_CONNECTORS}++{_PART})*+{_CONNECTORS}*+"

# Inside emoji a style selector has a place of its own, so marks are fewer.
_Y = "[xSzcmgG]*+"
_PICTURES = f"[bp]{_Y}(?:(?<=z)[bp]{_Y})*+"
_MODIFIER_AND_ZWJ = f"m{_Y}(?<=z)"
_SEQUENCE = f"(?:{_MODIFIER_AND_ZWJ}|z*+){_PICTURES}(?:f(?:z{_MODIFIER_AND_ZWJ}|z++){_PICTURES})*+(?:f(?:zm{_Y})?+)?+"

# The longest of these at a position is the token.
_KINDS = tuple(
    re.compile(kind)
    for kind in (
        _WORD,
        "[sS][xSzcefmgGs]*+",
        f"[iu]{_X}",
        f"r{_X}r{_X}",
        f"[dk]{_Y}fc{_Y}",
        "[dk][xSzmgG]*+c[xSzcmgG]*+",
        _SEQUENCE,
        f"m{_Y}",
        f"z*+[bp]{_Y}fg++G",
    )
)
# Where one may begin. `_` and ZWJ are looked through, else a long row of them would be tried from each of its places.
_START = re.compile("[abhndktsSmrpiu]|_(?=[_xSzcefmgG]{0,253}+[abhndt])|z(?=z{0,253}+[bp])")


class _Classes(dict[int, str]):
    """Code point → its class letter, for str.translate; remembers what it was asked."""

    def __missing__(self, c: int) -> str:
        at = bisect_right(unicode.STANDARD_CLASSES, (c, 0x110000, 0)) - 1
        _, last, number = unicode.STANDARD_CLASSES[at] if at >= 0 else (0, -1, 0)
        letter = _LETTERS[unicode.STANDARD_NAMES[number if c <= last else 0]]
        self[c] = letter
        return letter


_CLASSES = _Classes()


_LOWER = {c: c + delta for first, last, step, delta in unicode.LOWER for c in range(first, last + 1, step)}


def analyze(text: str) -> list[Token]:
    """Return the tokens of `text` as Lucene's StandardAnalyzer with an empty stop set gives them."""
    classes = text.translate(_CLASSES)
    # units[i]: UTF-16 units before code point i; needed only where some character has two.
    units = list(accumulate((1 + (c > "\uffff") for c in text), initial=0)) if text and max(text) > "\uffff" else None
    tokens = []
    at = 0
    while found := _START.search(classes, at):
        start = found.start()
        border = bisect_right(units, units[start] + WINDOW) - 1 if units else start + WINDOW
        end = max((match.end() for kind in _KINDS if (match := kind.match(classes, start, border))), default=start)
        if end > start:
            tokens.append(Token(text[start:end].translate(_LOWER), start, end))
        at = max(end, start + 1)
    return tokens
