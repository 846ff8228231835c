"""The analyzer made for source code, `code`: each identifier whole, then its parts.

A word begins with a letter, an upper-case letter, a digit or `_` and goes on through these and marks, for at most 255
code points; then the scan goes on as if it began there. A Han or Hiragana character is a token of its own, with the
marks that follow it (255 code points in all), and ends a word. Whatever else stands between, marks included, is passed
over. A word with no letter and no digit gives nothing.

The word, lower-cased code point by code point, is a token. Unless the word is its own only part, each of its parts
follows as a token with `part=True`:

- `_` divides and belongs to no part; marks right after it are left out;
- a lower-case or uncased letter followed by an upper-case one divides: get|User;
- in a row of upper-case letters followed by a lower-case or uncased one, the last begins the next part: HTTP|Server;
- but a row of upper-case letters, one `s`, and then no lower-case or uncased letter is a plural and stays whole:
  get|URLs, IDs|By|Name;
- letter and digit divide, both ways: sha|256|hex;
- any other mark belongs to the character before it and is looked through.

    getUserById → getuserbyid get user by id      __init__ → __init__ init      sha256_hex → sha256_hex sha 256 hex

Words are found in the text translated to one letter a character, its class: `a` letter, `s` the letter s, `U`
upper-case letter, `d` digit, `_`, `m` mark, `1` single.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from . import Token, unicode

NAME = "code"

_LETTERS = dict(zip(unicode.CODE_NAMES, " aUd_m1", strict=True))
_WORD = re.compile(r"(?P<single>1m{0,254})|[asUd_][asUd_m]{0,254}")
_PART = re.compile(
    r"(?:Um*+)++sm*+(?![as])"  # URLs
    r"|(?:Um*+)+(?=Um*+[as])"  # HTTP before Server
    r"|(?:Um*+)?(?:[as]m*+)+"  # Server, server
    r"|(?:Um*+)+"
    r"|(?:dm*+)+"
)


class _Classes(dict[int, str]):
    """Code point → its class letter, for str.translate; remembers what it was asked."""

    def __missing__(self, c: int) -> str:
        at = bisect_right(unicode.CODE_CLASSES, (c, 0x110000, 0)) - 1
        _, last, number = unicode.CODE_CLASSES[at] if at >= 0 else (0, -1, 0)
        letter = "s" if c == ord("s") else _LETTERS[unicode.CODE_NAMES[number if c <= last else 0]]
        self[c] = letter
        return letter


_CLASSES = _Classes()
_LOWER = {c: c + delta for first, last, step, delta in unicode.LOWER for c in range(first, last + 1, step)}


def analyze(text: str) -> list[Token]:
    """Return each word of `text` and, after it, its parts."""
    classes = text.translate(_CLASSES)
    tokens = []
    for word in _WORD.finditer(classes):
        whole = word.span()
        parts = [part.span() for part in _PART.finditer(classes, *whole)]
        if parts or word["single"]:
            tokens.append(_token(text, whole, part=False))
        if parts != [whole]:
            tokens += [_token(text, span, part=True) for span in parts]
    return tokens


def _token(text: str, span: tuple[int, int], *, part: bool) -> Token:
    start, end = span
    return Token(text[start:end].translate(_LOWER), start, end, part)
