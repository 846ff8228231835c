"""The passage of a document that a reader should see first, and where a query's terms stand in it.

The rule, for windows of at most N lines that begin at a line with a match: the one whose distinct terms weigh most,
each term counted once; among equals the one that begins with a definition, of the heavier term (`def`, `class`, `func`,
… right before it), then the one with more occurrences, then the earliest. The lines after its last match are context;
blank ones at its end are left off. Lines end at a line feed, as editors and grep count them.

It knows text, offsets and weights; nothing of terminals, and of an index only what text it gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from qidf.errors import SourceError

if TYPE_CHECKING:
    from qidf.engines import Engine
    from qidf.index import Hit, Index

LINES = 5
"""Lines of a passage."""

WIDTH = 240
"""Code points of a line; a longer one is cut around its first match."""

_NARROWEST = 8
_FAINT = 0.1

Spans = list[tuple[int, int]]

_ELLIPSIS = "…"
_DEFINES = re.compile(
    r"(?:\b(?:def|class|fn|func|function|fun|sub|struct|enum|union|trait|interface|type|typedef|impl|module|namespace|package"
    r"|protocol|record|object|macro|macro_rules!|proc|defn|defun|const|let|var|val|static)|#[ \t]*define)[ \t]+\(?\Z"
)
_MOST = 500_000  # code points of a text that an engine analyzes for a passage: a second at most
_LOOKBACK = 24  # characters before a match that may hold such a word


class Finder(Protocol):
    """What finds terms in a text: a `Scanner`, an engine."""

    def find(self, text: str, wanted: dict[bytes, int]) -> Sequence[tuple[int, int, int]]:
        """Return (start, end, number) of each token whose term is `wanted`: {term in UTF-8: number}."""


class Passage(NamedTuple):
    """Lines of a document, with the places of the query's terms in them.

    Attributes
    ----------
    start_line, end_line : int
        The first and last line, counted from the document's own `line`. 0 if there is no text to show.
    text : str
        The lines, joined by line feeds. Long ones are cut, with `…` where something was left out.
    spans : list of (start, end)
        What to highlight: code points into `text`, in order, disjoint, none across lines. Terms that weigh less than a
        tenth of the heaviest (`the`, `is`) count for the choice, but would only distract here.
    changed : bool
        The text is not what was indexed: it has another number of tokens.
    missing : str
        Why there is no text, in a few words; empty if there is.
    """

    start_line: int
    end_line: int
    text: str
    spans: Spans
    changed: bool = False
    missing: str = ""


def best_passage(
    text: str,
    terms: Iterable[tuple[str, float]],
    scanner: Finder,
    *,
    lines: int = LINES,
    width: int = WIDTH,
    first_line: int = 1,
) -> Passage:
    """Find the lines of `text` that say most about a query.

    Parameters
    ----------
    text : str
        Any text. Without a match its first lines are returned.
    terms : iterable of (term, weight)
        As `Index.weights` gives them.
    scanner : Scanner or Engine
        Of the analyzer that gave the terms.
    lines, width : int, default 5 and 240
        The most lines of a passage, and code points of a line.
    first_line : int, default 1
        The number of the text's first line.
    """
    lines, width = max(1, lines), max(_NARROWEST, width)
    weights = dict(terms)
    least = max(weights.values(), default=0.0) * _FAINT
    order = {term.encode("utf-8", "surrogatepass"): i for i, term in enumerate(weights)}
    matches = scanner.find(text, order) if order else []
    start, line = _best_start(text, matches, list(weights.values()), lines)
    taken: Spans = []  # the window's lines, as (start, end) in text
    stop = start
    while len(taken) < lines and stop <= len(text):
        end = text.find("\n", stop)
        end = len(text) if end < 0 else end
        taken.append((stop, end))
        stop = end + 1
    while len(taken) > 1 and not text[taken[-1][0] : taken[-1][1]].strip():
        taken.pop()
    shown = [weight >= least for weight in weights.values()]
    spans = _merge((s, e) for s, e, term in matches if shown[term] and start <= s < taken[-1][1])
    pieces, placed, offset = [], [], 0
    for begin, end in taken:
        row = text[begin:end].removesuffix("\r")
        inside = [(max(s, begin) - begin, min(e, begin + len(row)) - begin) for s, e in spans if s < end and e > begin]
        row, inside = cut_line(row, [(s, e) for s, e in inside if s < e], width)
        placed += [(offset + s, offset + e) for s, e in inside]
        pieces.append(row)
        offset += len(row) + 1
    return Passage(first_line + line, first_line + line + len(taken) - 1, "\n".join(pieces), placed)


def passage_of(
    index: Index | Engine, hit: Hit, terms: Sequence[tuple[str, float]], *, lines: int = LINES, width: int = WIDTH
) -> Passage:
    """Find the best passage of a hit, in its file as it is now or in the text that the index stores.

    `terms` are the query's, as `index.weights` gives them; the other arguments are those of `best_passage`.
    Whatever became of the file, it is no exception.
    """
    from qidf.index.search import Index, scanner

    if not isinstance(index, Index):
        stored = index.text(hit.id)
        if stored is None:
            return Passage(0, 0, "", [], False, "text not stored")
        return best_passage(stored[:_MOST], terms, index, lines=lines, width=width, first_line=hit.line)
    try:
        text = index.text(hit.id)
    except SourceError as error:
        if not os.path.isdir(index.root):
            missing = "text not stored; index with --store" if index.root else "text not stored"
        elif not index.reads_files:
            missing = "index not built by you; give its PATH"
        elif not os.path.lexists(os.path.join(index.root, hit.path)):
            missing = "gone since indexed"
        else:
            missing = f"can't be read any more: {str(error).rpartition(': ')[2]}"
        return Passage(0, 0, "", [], False, missing)
    scan = scanner(index.analyzer)
    passage = best_passage(text, terms, scan, lines=lines, width=width, first_line=hit.line)
    return passage._replace(changed=sum(scan.bag(text).values()) != index.length(hit.id))


def cut_line(line: str, spans: Spans, width: int) -> tuple[str, Spans]:
    """Cut a line to `width` code points around its first span; the spans that are left, moved along with it."""
    width = max(_NARROWEST, width)
    if len(line) <= width:
        return line, spans
    first = spans[0][0] if spans else 0
    last = next((e for _, e in reversed(spans) if e - first <= width - 2), first)
    fits = max(first, last) < width  # in the beginning of the line
    begin = 0 if fits else max(0, min(first - width // 4, len(line) - width + 1))
    head = _ELLIPSIS if begin else ""
    end = begin + width - len(head)
    tail = ""
    if end < len(line):
        end, tail = end - 1, _ELLIPSIS
    shift = len(head) - begin
    kept = [(max(s, begin) + shift, min(e, end) + shift) for s, e in spans if s < end and e > begin]
    return head + line[begin:end] + tail, kept


def _best_start(
    text: str, matches: Sequence[tuple[int, int, int]], weights: Sequence[float], lines: int
) -> tuple[int, int]:
    """Return where the best window begins in `text`, and the number of its line from 0."""
    heaviest = max(weights, default=0.0)
    scale = 2.0**40 / heaviest if heaviest > 0 else 0.0
    whole = [round(weight * scale) for weight in weights]  # integers: sums that don't depend on their order
    rows: list[tuple[int, int, list[int], int]] = []  # line number, its start, the terms in it, weight defined there
    number = begin = 0
    end = -1
    for start, _, term in matches:
        if start > end:
            newline = text.rfind("\n", begin, start)
            if newline >= 0:
                number += text.count("\n", begin, newline + 1)
                begin = newline + 1
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            rows.append((number, begin, [], 0))
        number_, begin_, terms, defined = rows[-1]
        terms.append(term)
        if whole[term] > defined and _DEFINES.search(text, max(begin, start - _LOOKBACK), start):
            rows[-1] = (number_, begin_, terms, whole[term])
    best: tuple[int, int, int] = (-1, 0, 0)
    answer = (0, 0)
    counts = [0] * len(weights)
    weight = occurrences = right = 0
    for number, begin, terms, defined in rows:
        while right < len(rows) and rows[right][0] < number + lines:
            for term in rows[right][2]:
                weight += 0 if counts[term] else whole[term]
                counts[term] += 1
                occurrences += 1
            right += 1
        value = (weight, defined, occurrences)
        if value > best:
            best, answer = value, (begin, number)
        for term in terms:
            counts[term] -= 1
            weight -= 0 if counts[term] else whole[term]
            occurrences -= 1
    return answer


def _merge(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return the union of `spans`: in order, disjoint."""
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
