"""What the tests of the index share: small builds, the files of an index, and an answer to compare with another."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

import qidf.index.batch as batch_module
import qidf.index.build as build_module
import qidf.index.container as container_module
import qidf.index.merge as merge_module
import qidf.index.search as search_module
import qidf.index.segment as segment_module
from qidf.index import Index
from qidf.index.store import LOCK, MANIFEST, OWNER
from qidf.kernels import twin
from qidf.sources import Document

WORDS = ["alpha", "beta", "gamma", "the", "getUser", "getUserById", "get_user", "user", "sha256", "漢字", "naïve", "x"]
IDS = st.text(st.sampled_from("ab/.é漢😀\n\ud800\udcff"), min_size=1, max_size=6)

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
collections = st.dictionaries(IDS, texts, min_size=1, max_size=25).map(lambda d: list(d.items()))
queries = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=6).map(" ".join)

Pairs = Iterable[Document | tuple[str, str]]


@contextmanager
def place() -> Iterator[str]:
    """A path where nothing is yet, for a test that hypothesis calls many times."""
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "index")


@contextmanager
def many_segments(documents: int = 3) -> Iterator[dict[str, Any]]:
    """Batches of so few documents, each of which becomes and stays a segment with these arguments of a build."""
    with (
        mock.patch.object(build_module, "_BATCH_DOCUMENTS", documents),
        mock.patch.object(merge_module, "FAN", 1 << 30),
    ):
        yield {"memory": -1}


@contextmanager
def plain_python() -> Iterator[None]:
    """The twin in place of whatever kernels this process uses."""
    with (
        mock.patch.multiple(build_module, Scanner=twin.Scanner, Inverter=twin.Inverter, invert=twin.invert),
        mock.patch.multiple(container_module, checksums=twin.checksums),
        mock.patch.multiple(segment_module, Reader=twin.Reader),
        mock.patch.multiple(merge_module, Merger=twin.Merger),
        mock.patch.multiple(search_module, Scanner=twin.Scanner),
        mock.patch.multiple(batch_module, analyze=twin.analyze),
    ):
        search_module.scanner.cache_clear()
        try:
            yield
        finally:
            search_module.scanner.cache_clear()


def files(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """Everything in a directory, by name, but the lock and its owner."""
    return {entry.name: Path(entry.path).read_bytes() for entry in os.scandir(path) if entry.name not in (LOCK, OWNER)}


def leftovers(path: str | os.PathLike[str]) -> set[str]:
    """The files in the directory of an index that its manifest doesn't name."""
    from qidf.index.store import read_manifest

    manifest = read_manifest(os.fspath(path))
    return set(os.listdir(path)) - {MANIFEST, LOCK, *manifest.files}


OPTIONS: list[dict[str, Any]] = [
    {},
    {"q": 1.0},
    {"q": 0.3, "k1": 0.9, "b": 0.4, "odds": "robertson"},
    {"q": "hapax", "a": 0.0},
]
QUESTIONS = ["alpha beta", "getUserById sha256 sha256 the", "漢字 naïve x user", "unknown", ""]


def answer(index: Index) -> list[Any]:
    """Whatever a user can ask an index for, to compare with another's to the last bit."""
    out: list[Any] = [index.documents, index.tokens, index.terms, index.hapax_terms, index.spectrum()]
    out.append(index.doc_freqs([*WORDS, "getuser", "getuserbyid", "unknown"]))
    for query in QUESTIONS:
        for options in OPTIONS:
            hits = index.search(query, 7, **options)
            out.append(hits)
            out.append([index.explain(query, hit.id, **options) for hit in hits[:2]])
            out.append([index.length(hit.id) for hit in hits])
    ids, scores = index.search_many(QUESTIONS, 4, threads=1)
    return [*out, ids.tolist(), scores.tolist()]
