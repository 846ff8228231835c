r"""The default tokenization of bm25s 0.3, which is scikit-learn's: lower-case the text, take `\w\w+`, drop stop words.

The whole text is lower-cased at once by Python's `str.lower`, so a final Σ becomes ς and İ becomes two characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection

from . import Token, unicode

NAME = "word"

# bm25s' `stopwords="english"` (bm25s.stopwords.STOPWORDS_EN), the 33 words of Lucene's English analyzer.
# fmt: off
STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
))
# fmt: on

_RUN = re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in unicode.WORD_CHARS) + "]{2,}")
_GROWS = re.compile("\u0130")  # the one character that str.lower makes longer: i and a combining dot, no word character


def analyze(text: str, stop_words: Collection[str] = STOP_WORDS) -> list[Token]:
    """Return the tokens of `text` as `bm25s.tokenize(text)` gives them, without those of `stop_words`."""
    # Where the dots stand in the lower-cased text; a token's place in `text` is that many further to the left.
    dots = [i + grown.start() + 1 for i, grown in enumerate(_GROWS.finditer(text))]
    tokens = []
    for run in _RUN.finditer(text.lower()):
        if run.group() not in stop_words:
            shift = bisect_right(dots, run.start())
            tokens.append(Token(run.group(), run.start() - shift, run.end() - shift))
    return tokens
