"""Text to tokens, defined in plain Python: what each analyzer is. The compiled scanner agrees token for token.

An analyzer is a module with `NAME` and `analyze(text)`. It knows nothing of queries, weights or indexes.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, Protocol, cast

ANALYZERS = ("code", "standard", "simple", "word")


class Token(NamedTuple):
    """A term and where it stands.

    `start` and `end` are code points into the text as given, so `text[start:end]` is the original spelling. `part`
    marks a token that `code` adds for a part of an identifier it has already given whole.
    """

    term: str
    start: int
    end: int
    part: bool = False


class Analyzer(Protocol):
    """What an analyzer module offers."""

    NAME: str

    def analyze(self, text: str) -> list[Token]:
        """Return the tokens of `text` in order of their start; any string is accepted, lone surrogates too."""


def tables(name: str) -> str:
    """Return which character tables the analyzer called `name` reads: part of what an index was made with.

    Empty for a name that is none of `ANALYZERS`.
    """
    from qidf.analysis.unicode import VERSIONS

    own = VERSIONS.get(name, "")
    return f"{own}; lower case: {VERSIONS['lower']}" if name in ("standard", "code") else own


def get(name: str) -> Analyzer:
    """Return the analyzer called `name`: `code`, `standard`, `simple` or `word`.

    Raises ValueError for any other name.
    """
    if name not in ANALYZERS:
        raise ValueError(f"analyzer must be one of {', '.join(ANALYZERS)}, got {name!r}")
    return cast(Analyzer, import_module(f"qidf.analysis.{name}"))
