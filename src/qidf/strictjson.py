"""JSON of strangers: parsed only where its nesting is shallow, since Python's parser takes C stack for each level.

CPython raises RecursionError for deep nesting, but from 3.12 on it may run out of stack before it does.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH = 500
"""Levels that are parsed; no file that qidf reads has more than a few."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads(data: bytes) -> Any:
    """Return what `data` says. ValueError if that is no JSON, RecursionError if it is nested deeper than `DEPTH`."""
    check(data)
    return json.loads(data)


def check(data: bytes) -> None:
    """Raise RecursionError if `data` is nested deeper than `DEPTH`."""
    if data.count(b"[") + data.count(b"{") > DEPTH and _depth(data) > DEPTH:
        raise RecursionError(f"nested deeper than {DEPTH} levels")


def _depth(data: bytes) -> int:
    depth = most = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            most = max(most, depth)
            if most > DEPTH:
                break
        elif first in b"]}":
            depth -= 1
    return most
