"""Tantivy's `default` analyzer, here called `simple`: alphanumeric runs, lower-cased, the long ones dropped.

A token is a maximal run of what Rust's `char::is_alphanumeric` accepts. One of 40 bytes or more in UTF-8 is dropped,
measured before each character is lower-cased by itself (so a final Σ is σ, and İ becomes i and a dot above).
"""

from __future__ import annotations

import re

from . import Token, unicode

NAME = "simple"
LONG = 40  # bytes in UTF-8; a token this long is dropped

_RUN = re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in unicode.SIMPLE_ALNUM) + "]+")
_LOWER: dict[int, int | str] = {
    c: c + delta for first, last, step, delta in unicode.RUST_LOWER for c in range(first, last + 1, step)
}
_LOWER |= unicode.RUST_LOWER_MANY


def analyze(text: str) -> list[Token]:
    """Return the tokens of `text` as Tantivy's `default` tokenizer gives them."""
    return [
        Token(run.group().translate(_LOWER), run.start(), run.end())
        for run in _RUN.finditer(text)
        # A run holds no surrogate: they are not alphanumeric.
        if run.end() - run.start() < LONG and len(run.group().encode()) < LONG
    ]
