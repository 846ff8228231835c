"""What reaches the terminal: colors, widths, and nothing a file could use to drive it. JSON too.

Knows strings and streams, nothing of search.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# C0 and DEL as their control pictures; C1, and what reorders or breaks a line, as a replacement character.
_CONTROLS = {
    **{c: 0x2400 + c for c in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(
        (*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF), 0xFFFD
    ),
}

_CODES = {"bold": "1", "dim": "2", "match": "1;31", "path": "1;36", "good": "32", "bad": "31"}


def clean(text: str) -> str:
    """Replace what could drive a terminal or can't be encoded; every code point stays one, so offsets hold."""
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_CONTROLS)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair: a byte of a file name that is no UTF-8
        text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


class Style:
    """Colors for one stream: none if it is no terminal, is dumb, or NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream.isatty()
        self.color = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.encoding = stream.encoding or "ascii"
        self.columns = columns() if self.terminal else 0

    def __call__(self, name: str, text: str) -> str:
        """Return `text` in the style called `name`."""
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.color and text else text

    def can(self, text: str) -> bool:
        """Return whether the stream's encoding has these characters."""
        try:
            text.encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True


def columns() -> int:
    """Return the width of the terminal, 80 if it can't be told."""
    try:
        return max(20, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        pass
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and (width := os.get_terminal_size(stream.fileno()).columns) > 0:
                return max(20, width)
        except (OSError, ValueError):
            continue
    return 80


def say(text: str = "") -> None:
    """Print a line, already clean, on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print a dim line on standard error: something worth knowing that is no result."""
    sys.stderr.write(Style(sys.stderr)("dim", f"qidf: {clean(text)}") + "\n")
    sys.stderr.flush()


def say_json(value: Any, *, line: bool = False) -> None:
    """Print JSON in ASCII: any file name can be written so. `line`: without a line break in it."""
    import json

    say(json.dumps(value, indent=None if line else 2, allow_nan=False))


def cells(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def fold(text: str, width: int) -> Iterator[str]:
    """Break `text` at spaces into lines of at most `width` columns; a longer word gets a line of its own."""
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def table(rows: list[list[str]], right: set[int]) -> list[str]:
    """Align rows in columns with two spaces between; those in `right` to the right."""
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        padded = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cells(cell))
            padded.append(space + cell if i in right else cell + space)
        lines.append("  ".join(padded).rstrip())
    return lines


def count(number: int, singular: str, plural: str = "") -> str:
    """Return `1 file`, `1,234 files`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size(number: float) -> str:
    """Return a number of bytes as `12.3 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
