"""The same queries among more and more documents: what a collection's size does to BM25, to q and to its predictor."""

from __future__ import annotations

import random

from qidf.lab.beir import read_corpus, read_judgments
from qidf.lab.studies.base import Cell, Settings, Table, about
from qidf.lab.sweeping import MEASURE, Asked, sweep_all
from qidf.lab.temporary import temporary_index

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
_SCALED_QUERIES = 500


def measure(folder: str, settings: Settings) -> Cell:
    """Measure the same queries in growing samples of the documents, each holding the one before."""
    judgments = read_judgments(folder, min(settings.queries or _SCALED_QUERIES, _SCALED_QUERIES), settings.seed)
    documents = list(read_corpus(folder))
    needed = {id for own in judgments.relevant.values() for id in own}
    first = [document for document in documents if document.id in needed]
    rest = [document for document in documents if document.id not in needed]
    random.Random(settings.seed).shuffle(rest)
    sizes = [size for size in SIZES if len(first) <= size < len(documents)]
    cell: Cell = {"about": about(folder), "queries": len(judgments.queries), "sizes": []}
    for size in [*sizes, len(documents)]:
        with temporary_index((first + rest)[:size], settings.analyzer) as index:
            swept = sweep_all(Asked(index, judgments), seed=settings.seed, resamples=settings.resamples)
        cell["sizes"].append(swept.plain())
    return cell


def tables(cells: dict[str, Cell]) -> list[Table]:
    """Return the tables of all collections."""
    head = ["collection", "documents", "h", "BM25", "best q, a = 1", "gain", "hapax q", "gain", "auto's gain"]
    rows = []
    for name, cell in cells.items():
        for own in cell["sizes"]:
            best, hapax, auto = own["oracles"][0], own["predicted"]["hapax"], own["predicted"]["auto"]
            rows.append(
                [
                    name,
                    f"{own['documents']:,}",
                    f"{own['hapax_density']:.3f}",
                    f"{own['bm25']:.4f}",
                    f"{best['q']:g}",
                    f"{best[MEASURE] - own['bm25']:+.4f}",
                    f"{hapax['q']:.2f}",
                    f"{hapax[MEASURE] - own['bm25']:+.4f}",
                    f"{auto[MEASURE] - own['bm25']:+.4f}",
                ]
            )
    notes = ("The same queries in samples of the documents, each holding the smaller ones and all that is relevant.",)
    return [Table("Scaling", head, rows, notes)]
