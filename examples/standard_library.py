"""Real code for the examples: the files of this Python's standard library, without tests, as (path, text)."""

from __future__ import annotations

import sysconfig
from pathlib import Path

ROOT = Path(sysconfig.get_path("stdlib"))
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages"}

FILES = [
    (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace"))
    for path in sorted(ROOT.rglob("*.py"))
    if LEFT_OUT.isdisjoint(path.relative_to(ROOT).parts)
]

# A question with two names in it. The file that answers is zipfile.py.
QUESTION = (
    "how do I get the next value and the default when the iterator of a zip file member is exhausted ZipExtFile read1"
)


def show(title: str, found: list[str]) -> None:
    """Print a ranking on one line."""
    print(f"{title:<7} {'  '.join(found)}")
