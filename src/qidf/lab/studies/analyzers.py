"""Analyzers, each with BM25, the best q and auto: what weights bring to each, and what reindexing would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qidf.expansion.spellings import apart
from qidf.lab.beir import Judgments, read_corpus, read_judgments
from qidf.lab.studies.base import Cell, Settings, Table, about
from qidf.lab.sweeping import MEASURE, Asked, sweep_all
from qidf.lab.temporary import temporary_index

if TYPE_CHECKING:
    from qidf.sources import Document

ANALYZED = ("standard", "simple", "word", "parts", "code")
"""What is compared; `parts` is `code` without the whole identifiers."""


def measure(folder: str, settings: Settings) -> Cell:
    """Sweep q for an index of each analyzer."""
    judgments = read_judgments(folder, settings.queries, settings.seed)
    cell: Cell = {"about": about(folder), "queries": len(judgments.queries)}
    for name in ANALYZED:
        own = judgments
        documents: Iterable[Document] = read_corpus(folder)
        if name == "parts":
            documents = (_in_parts(document) for document in documents)
            own = _with_texts(judgments, {id: parts_only(text) for id, text in judgments.queries.items()})
        with temporary_index(documents, "code" if name == "parts" else name) as index:
            swept = sweep_all(Asked(index, own), seed=settings.seed, resamples=settings.resamples)
        cell[name] = swept.plain()
    return cell


def parts_only(text: str) -> str:
    """Return the parts of a text's identifiers, as `code` finds them, without the identifiers."""
    return " ".join(text[token.start : token.end] for token in apart(text))


def _in_parts(document: Document) -> Document:
    return replace(document, text=parts_only(document.text))


def _with_texts(judgments: Judgments, texts: dict[str, str]) -> Judgments:
    return replace(judgments, queries=texts)


def tables(cells: dict[str, Cell]) -> list[Table]:
    """Return the tables of all collections."""
    head = ["collection", *(f"{name} {what}" for name in ANALYZED for what in ("BM25", "best q", "auto"))]
    rows = []
    for collection, cell in cells.items():
        row = [collection]
        for name in ANALYZED:
            own = cell[name]
            best = own["oracles"][0]
            row += [
                f"{own['bm25']:.4f}",
                f"{best[MEASURE]:.4f} ({best['q']:g})",
                f"{own['predicted']['auto'][MEASURE]:.4f}",
            ]
        rows.append(row)
    gains = []
    for name in ANALYZED:
        own = [cell[name] for cell in cells.values()]
        auto = [one["predicted"]["auto"][MEASURE] - one["bm25"] for one in own]
        reindexed = [one["bm25"] - cell["standard"]["bm25"] for one, cell in zip(own, cells.values(), strict=True)]
        gains.append(
            [
                name,
                f"{np.mean([one['bm25'] for one in own]):.4f}",
                f"{np.mean(reindexed):+.4f}",
                f"{np.mean([one['predicted']['auto'][MEASURE] for one in own]):.4f}",
                f"{np.mean(auto):+.4f}",
                f"{np.mean([one['oracles'][0][MEASURE] for one in own]):.4f}",
                f"{np.mean([one['oracles'][1][MEASURE] for one in own]):.4f}",
            ]
        )
    summary = ["analyzer", "BM25", "against standard", "auto", "its gain", "best q, a = 1", "best q, a = 0.5"]
    return [
        Table(f"Means over {len(cells)} collections", summary, gains),
        Table("Analyzers", head, rows, ("Best q is chosen with the labels, with a = 1.",)),
    ]
