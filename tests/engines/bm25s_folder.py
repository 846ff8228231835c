"""Folders that bm25s really saved, for the tests of what qidf makes of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.engines.required import load

bm25s = load("bm25s")

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def texts(count: int = 60, seed: int = 1) -> list[str]:
    """Return texts whose words follow Zipf's law; `everywhere` stands in all of them, `common` in most."""
    chance = random.Random(seed)
    words = [f"word{i}" for i in range(300)]
    weights = [1 / (i + 1) for i in range(300)]
    out = []
    for i in range(count):
        row = chance.choices(words, weights, k=chance.randint(3, 60))
        out.append(" ".join(["everywhere", *(["common"] if i % 3 else []), *row, f"only{i}"]))
    return out


def retriever(documents: list[str], **settings: Any) -> Any:
    made = bm25s.BM25(**settings)
    made.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
    return made


def save(folder: Path, documents: list[str], *, corpus: list[Any] | None = None, **settings: Any) -> Path:
    retriever(documents, **settings).save(folder, corpus=corpus, show_progress=False)
    return folder


def ask(made: Any, query: str, k: int = 10) -> list[tuple[str, float]]:
    """Return bm25s' own ranking of a query."""
    tokens = bm25s.tokenize([query], return_ids=False, show_progress=False)
    ids, scores = made.retrieve(tokens, k=k, show_progress=False)
    return [(str(int(id)), float(score)) for id, score in zip(ids[0], scores[0], strict=True)]


def load_folder(folder: Path) -> Any:
    return bm25s.BM25.load(folder, show_progress=False)
