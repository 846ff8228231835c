"""Test collections as BEIR lays them out (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/test.tsv.

Knows files; measures nothing. Files are data: every line is checked, and none is kept longer than it must be.
"""

from __future__ import annotations

import os
import random
from collections.abc import Container, Iterator
from dataclasses import dataclass

from qidf.errors import SourceError
from qidf.sources import Document
from qidf.sources.jsonl import JsonlSource
from qidf.weighting import check_count

LONGEST_QUERY = 100_000
"""Code points of a query; a longer one is left out, and counted."""

LARGEST_QRELS = 5_000_000
"""Lines of a file of judgments."""

_LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class Judgments:
    """Queries with their relevant documents.

    Attributes
    ----------
    folder : str
    queries : dict
        {id: text}, those that are run.
    relevant : dict
        {id of a query: {id of a document: grade above 0}}.
    judged, missing : int
        Queries with a relevant document, and those of them that have no text, or one that is too long.
    """

    folder: str
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]
    judged: int
    missing: int


def read_judgments(folder: str | os.PathLike[str], queries: int | None = None, seed: int = 0) -> Judgments:
    """Read queries.jsonl and qrels/test.tsv; without a test.tsv, qrels must hold one file.

    Parameters
    ----------
    folder : str or path
    queries : int, optional
        The most that are kept; of more, so many at random by `seed`.

    Raises
    ------
    ValueError
        `queries` is less than 1.
    SourceError
        A file is missing or can't be read; the message names the file and the line.
    """
    most = None if queries is None else check_count("queries", queries)
    name = os.fspath(folder)
    relevant = _qrels(_qrels_file(name))
    texts: dict[str, str] = {}
    for document in JsonlSource(os.path.join(name, "queries.jsonl")).documents():
        if document.id in texts:
            raise SourceError(f"{name}/queries.jsonl: the query {document.id!r} stands there twice")
        if document.id in relevant and len(document.text) <= LONGEST_QUERY:
            texts[document.id] = document.text
    if not texts:
        raise SourceError(f"{name}: no query of queries.jsonl has a relevant document in qrels; compare their ids")
    chosen = sorted(texts)
    if most is not None and len(chosen) > most:
        chosen = sorted(random.Random(seed).sample(chosen, most))
    kept = {id: relevant[id] for id in chosen}
    return Judgments(name, {id: texts[id] for id in chosen}, kept, len(relevant), len(relevant) - len(texts))


def unknown_documents(judgments: Judgments, known: Container[str]) -> int:
    """Return how many of the relevant documents are none of `known`: they can't be found, and count as not found."""
    return sum(document not in known for own in judgments.relevant.values() for document in own)


def read_corpus(folder: str | os.PathLike[str]) -> Iterator[Document]:
    """Yield the documents of corpus.jsonl, or of corpus.jsonl.gz.

    Raises
    ------
    SourceError
        There is none, or a line of it is no document.
    """
    plain = os.path.join(os.fspath(folder), "corpus.jsonl")
    path = plain if os.path.exists(plain) or not os.path.exists(f"{plain}.gz") else f"{plain}.gz"
    return JsonlSource(path).documents()


def _qrels_file(folder: str) -> str:
    place = os.path.join(folder, "qrels")
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".tsv"))
    except OSError as error:
        raise SourceError(
            f"can't read {place}: {error.strerror}; a BEIR folder has queries.jsonl and qrels/test.tsv"
        ) from None
    if "test.tsv" not in names and len(names) != 1:
        raise SourceError(f"{place} has no test.tsv, and {len(names)} other .tsv files: leave one")
    path = os.path.join(place, "test.tsv" if "test.tsv" in names else names[0])
    if not os.path.isfile(path):  # asked before opening: a FIFO would wait for a writer
        raise SourceError(f"not a file: {path}")
    return path


def _qrels(path: str) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} of the grades above 0."""
    found: dict[str, dict[str, int]] = {}
    expected = "expected query-id, corpus-id and score (a whole number), separated by tabs"
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE), b""), 1):
                if number > LARGEST_QRELS:
                    raise SourceError(f"{path} has more than {LARGEST_QRELS:,} lines")
                try:
                    fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                    if fields == [""] or (number == 1 and fields[-1].strip() == "score"):
                        continue
                    query, document, grade = fields[0], fields[1], int(fields[2])
                    if len(fields) != 3 or not query or not document:
                        raise ValueError
                except (ValueError, IndexError):
                    raise SourceError(f"{path}, line {number}: {expected}") from None
                if grade > 0:
                    found.setdefault(query, {})[document] = grade
    except OSError as error:
        raise SourceError(f"can't read {path}: {error.strerror or error}") from None
    if not found:
        raise SourceError(f"{path} calls no document relevant: {expected}")
    return found
