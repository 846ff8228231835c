"""Segments to fewer segments: which to merge, and how. Rankings don't change, so it may happen at any time.

Sizes are counted in postings. Segments of up to 2^16 are of level 0, those of up to 8 times as many of level 1, and so
on; when 8 of one level have come together they become one, of the next level or so. So an index of P postings has at
most 7 segments for each of log_8(P / 2^16) + 2 levels, and a posting is written once a level. A segment of which more
than a quarter was deleted is written again without it, so what was deleted takes at most a third of what is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from qidf.index import store
from qidf.index.container import Output
from qidf.index.segment import MAGIC, Segment
from qidf.kernels import Merger

FAN = 8
"""So many segments of one level are merged."""

SMALLEST = 1 << 16
"""Postings up to which a segment is of level 0."""

MOST_DELETED = 0.25
"""The share of a segment's documents that may be deleted before it is written again."""

_PIECE = 1 << 18  # postings that pass through memory at once, or as many as the most frequent term has
_SPOOL = 1 << 24  # bytes of counts that wait in memory; more wait in a temporary file
_TEXT = 1 << 22
_FORGET = 1 << 24  # postings after which the pages that were read are given back to the system


def plan(segments: Sequence[Segment]) -> list[int]:
    """Return the numbers of the segments that should become one now; empty if none should."""
    levels: dict[int, list[int]] = {}
    for i, segment in enumerate(segments):
        levels.setdefault(_level(segment), []).append(i)
    for level in sorted(levels):
        if len(levels[level]) >= FAN:
            return levels[level]
    for i, segment in enumerate(segments):
        if segment.all_documents - segment.documents > MOST_DELETED * segment.all_documents:
            return [i]
    return []


def merge_all(writer: store.Writer, segments: list[Segment]) -> list[Segment]:
    """Merge as `plan` says until nothing is left to do, and return the segments that stand then."""
    while group := plan(segments):
        segments = merge_group(writer, segments, group)
    return segments


def merge_group(writer: store.Writer, segments: list[Segment], group: Sequence[int]) -> list[Segment]:
    """Return the segments with those of the numbers `group` merged into one, at the end of the list."""
    merged = merge(writer, [segments[i] for i in group])
    for i in group:
        writer.discard(segments[i].name)  # those of a commit stay until the next one is made
    return [segment for i, segment in enumerate(segments) if i not in set(group)] + [merged]


def _level(segment: Segment) -> int:
    postings = segment.reader.postings * segment.documents // max(1, segment.all_documents)
    level, size = 0, SMALLEST
    while postings > size:
        level, size = level + 1, size * FAN
    return level


def merge(writer: store.Writer, segments: Sequence[Segment]) -> Segment:
    """Write one segment with the documents of several that were not deleted, and open it.

    It is not committed. Memory holds the vocabulary and about 40 bytes a document; postings and texts pass through.

    Raises
    ------
    IndexCorruptError
        A segment is not what was written.
    QidfError
        The disk is full (asked before the first byte), or the file can't be written.
    """
    store.check_space(writer.path, sum(segment.size for segment in segments))
    merger = Merger([segment.reader for segment in segments], [_ids(s) for s in segments], segments[0].seed)
    paths_are_ids = all(segment.paths_are_ids for segment in segments)
    with writer.create(".qidf") as file:
        output = Output(file, MAGIC)
        output.add("body.lengths", merger.column([s.arrays["body.lengths"][0] for s in segments], 4, bytes(4)))
        for name, array in merger.vocabulary.items():
            output.add(f"body.{name}", array)
        _write_postings(output, merger, segments, writer.path)
        _write_blob(output, merger, "ids", [_ids(segment) for segment in segments])
        if not paths_are_ids and any("paths.data" in s.arrays or s.paths_are_ids for s in segments):
            places = [_ids(segment) if segment.paths_are_ids else segment.place("paths") for segment in segments]
            _write_blob(output, merger, "paths", places)
        for name, width, default in (("lines", 4, (1).to_bytes(4, "little")), ("digests", 16, bytes(16))):
            columns = [segment.arrays.get(name, (-1, 0))[0] for segment in segments]
            if max(columns) >= 0:
                output.add(name, merger.column(columns, width, default))
        if all("text.data" in segment.arrays for segment in segments):
            _write_blob(output, merger, "text", [segment.place("text") for segment in segments])
        output.finish(
            {
                "name": os.path.basename(file.name),
                "documents": merger.documents,
                "tokens": merger.tokens,
                "hapax": merger.hapax,
                "terms": merger.terms,
                "seed": segments[0].seed,
                "paths_are_ids": paths_are_ids,
            }
        )
    for segment in segments:
        segment.forget()
    return Segment(file.name)


def _ids(segment: Segment) -> tuple[int, int, int]:
    place = segment.place("ids")
    if place is None:
        raise segment.damaged("it has no ids")
    return place


def _write_postings(output: Output, merger: Merger, segments: Sequence[Segment], folder: str) -> None:
    from array import array
    from tempfile import SpooledTemporaryFile

    room = max(_PIECE, merger.most)
    docs, counts = array("I", bytes(4 * room)), bytearray(room)
    with SpooledTemporaryFile(_SPOOL, dir=folder) as spool:

        def pieces() -> Iterator[Any]:
            passed = 0
            while n := merger.fill(docs, counts):
                spool.write(memoryview(counts)[:n])
                yield memoryview(docs)[:n]
                passed += n
                if passed >= _FORGET:
                    passed = 0
                    for segment in segments:
                        segment.forget()

        output.stream("body.postings.docs", pieces())
        spool.seek(0)
        output.stream("body.postings.counts", iter(lambda: spool.read(_TEXT), b""))
    output.add("body.postings.large", merger.large)


def _write_blob(output: Output, merger: Merger, name: str, places: list[tuple[int, int, int] | None]) -> None:
    offsets = merger.sizes(places)

    def pieces() -> Iterator[Any]:
        first = 0
        for n in range(1, merger.documents + 1):
            if n == merger.documents or offsets[n] - offsets[first] >= _TEXT:
                yield merger.items(places, first, n)
                first = n

    output.stream(f"{name}.data", pieces())
    output.add(f"{name}.offsets", offsets)
