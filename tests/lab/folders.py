"""A small collection in BEIR's layout, whose queries are found by a rare identifier that common words drown."""

from __future__ import annotations

from pathlib import Path

from qidf.lab.collection import Collection, write
from qidf.sources import Document


def make(place: Path, documents: int = 20, queries: int = 12, language: str = "go") -> Path:
    """Write the collection and return its folder."""
    collection = Collection(about={"kind": "docstrings", "language": language})
    for i in range(documents):
        words = "the file is read and the file is written by" if i % 2 else "file file the the is is read written"
        collection.documents.append(Document(f"d{i}", f"{words} rareName{i} and a of to " + "filler " * (i % 5)))
    for i in range(queries):
        collection.queries[f"q{i}"] = f"where is the file read written rareName{i} file"
        collection.relevant[f"q{i}"] = [f"d{i}"]
    write(collection, place)
    return place
