"""Writes a test collection as BEIR lays it out, whole or not at all, and tells in collection.json how it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qidf.errors import SourceError
from qidf.lab.files import put
from qidf.sources import Document

ABOUT = "collection.json"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_FILES = ("corpus.jsonl", "queries.jsonl", "qrels", ABOUT)


@dataclass
class Collection:
    """A test collection in memory.

    Attributes
    ----------
    documents : list of Document
    queries : dict
        {id: text}.
    relevant : dict
        {id of a query: ids of its relevant documents}.
    about : dict
        What it was made from, and how.
    skipped : Counter
        What was left out, by reason.
    notes : list of str
        What else one should know.
    """

    documents: list[Document] = field(default_factory=list)
    queries: dict[str, str] = field(default_factory=dict)
    relevant: dict[str, list[str]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def safe_id(name: str) -> str:
    """Return a name as it may stand in a line of judgments: control characters and what no encoding has as %XX."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", name)


def label(path: str | os.PathLike[str]) -> str:
    """Return a repository's name by its folder: what stands before `.git`, or before a folder called `repo`."""
    parts = [part for part in os.path.realpath(path).split(os.sep) if part and part not in (".git", "repo")]
    return parts[-1].removesuffix(".git") if parts else "root"


def check_place(folder: str | os.PathLike[str], replace: bool = False) -> None:
    """Raise SourceError unless a collection may be written there.

    A folder that is empty or not there may; with `replace` also one that holds a collection and nothing else.
    """
    name = os.fspath(folder)
    if not os.path.lexists(name):
        return
    if os.path.islink(name) or not os.path.isdir(name):
        raise SourceError(f"{name} is there, and is no folder")
    held = set(os.listdir(name))
    if held - set(_FILES) or (held and ABOUT not in held):
        raise SourceError(f"{name} holds other things than a collection made by qidf: give another folder")
    if held and not replace:
        raise SourceError(f"{name} holds a collection already: give another folder, or --replace")


def write(collection: Collection, folder: str | os.PathLike[str], replace: bool = False) -> None:
    """Write corpus.jsonl, queries.jsonl, qrels/test.tsv and collection.json.

    Raises
    ------
    SourceError
        See `check_place`; or no query is left, or it can't be written.
    """
    if not collection.queries:
        left_out = "; ".join(f"{reason}: {n:,}" for reason, n in collection.skipped.most_common(6))
        raise SourceError(f"no query is left after the filters ({left_out or 'nothing was found'})")
    check_place(folder, replace)
    name = os.path.abspath(folder)
    beside = f"{name}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.join(beside, "qrels"))
        put(f"{beside}/corpus.jsonl", (json.dumps(_row(document)) + "\n" for document in collection.documents))
        queries = collection.queries.items()
        put(f"{beside}/queries.jsonl", (json.dumps({"_id": id, "text": text}) + "\n" for id, text in queries))
        put(f"{beside}/qrels/test.tsv", _qrels(collection))
        put(f"{beside}/{ABOUT}", [json.dumps(about(collection), indent=2) + "\n"])
        if os.path.isdir(name):
            old = f"{name}.{os.getpid()}.old"
            os.rename(name, old)
            os.rename(beside, name)
            shutil.rmtree(old)
        else:
            os.rename(beside, name)
    except OSError as error:
        raise SourceError(f"can't write {name}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def about(collection: Collection) -> dict[str, Any]:
    """Return what collection.json says."""
    from qidf import __version__

    return {
        **collection.about,
        "documents": len(collection.documents),
        "queries": len(collection.queries),
        "skipped": {reason: n for reason, n in collection.skipped.most_common() if n},
        "notes": collection.notes,
        "qidf": __version__,
    }


def _row(document: Document) -> dict[str, Any]:
    row: dict[str, Any] = {"_id": document.id, "title": "", "text": document.text}
    if document.path:
        row |= {"path": document.path, "line": document.line}
    return row


def _qrels(collection: Collection) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore\n"
    for query, documents in collection.relevant.items():
        for document in documents:
            yield f"{query}\t{document}\t1\n"
