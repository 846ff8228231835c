"""A commit of an index, opened: its manifest and its segments. What a search needs, and no more."""

from __future__ import annotations

import os
from typing import NamedTuple

from qidf.errors import IndexCorruptError
from qidf.index import store
from qidf.index.segment import Segment


class Commit(NamedTuple):
    """An index on disk: its manifest and its segments, open."""

    manifest: store.Manifest
    segments: list[Segment]


def open_commit(path: str, known: Commit | None = None) -> Commit:
    """Open the newest commit of the index at `path`; `known`, if it is that one.

    Raises
    ------
    IndexNotFoundError, IndexCorruptError, IndexMismatchError
        There is none; a file is damaged; another version made it.
    """
    manifest = store.read_manifest(path)
    if known is not None and known.manifest == manifest:
        return known
    while True:
        try:
            segments = [
                Segment(os.path.join(path, file), os.path.join(path, deletes) if deletes else "")
                for file, deletes in zip(manifest.segments, manifest.deletes, strict=True)
            ]
            if (manifest.documents, manifest.tokens) != (
                sum(segment.documents for segment in segments),
                sum(segment.tokens for segment in segments),
            ):
                raise IndexCorruptError(f"the index at {path} holds segments of another one")
            return Commit(manifest, segments)
        except IndexCorruptError:
            newer = store.read_manifest(path)  # a commit in between removes the files that it replaced
            if newer.files == manifest.files:
                raise
            manifest = newer
