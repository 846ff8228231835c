"""What fits into a budget of tokens: the share of the relevant documents that an agent would see."""

from __future__ import annotations

import numpy as np

from qidf.lab.beir import read_corpus, read_judgments
from qidf.lab.evaluation import Weights, evaluate
from qidf.lab.measures import BUDGETS, count_tokens
from qidf.lab.studies.base import Cell, Settings, Table, about
from qidf.lab.sweeping import QS, Asked, sweep
from qidf.lab.temporary import temporary_index


def measure(folder: str, settings: Settings) -> Cell:
    """Measure R@K-tokens of BM25, `hapax`, `auto` and the best q."""
    judgments = read_judgments(folder, settings.queries, settings.seed)
    documents = list(read_corpus(folder))
    tokens = {document.id: count_tokens(document.text) for document in documents}
    with temporary_index(documents, settings.analyzer) as index:
        asked = Asked(index, judgments)
        best = sweep(asked, QS, asked.by_q(1.0)).best
        choices = [Weights(1.0), Weights("hapax"), Weights("auto"), Weights(best, 1.0)]
        results = evaluate(index, judgments, choices, tokens=tokens, resamples=settings.resamples, seed=settings.seed)
    names = ("BM25", "hapax", "auto", "best q")
    return {
        "about": about(folder),
        "queries": len(judgments.queries),
        "best": best,
        "tokens": float(np.mean(list(tokens.values()))),
        "results": {
            name: {
                "means": own.means,
                "differences": {key: value._asdict() for key, value in own.differences.items()},
            }
            for name, own in zip(names, results, strict=True)
        },
    }


def tables(cells: dict[str, Cell]) -> list[Table]:
    """Return the tables of all collections."""
    rows, gains = [], []
    for name, cell in cells.items():
        for weights, own in cell["results"].items():
            label = f"q = {cell['best']:g}" if weights == "best q" else weights
            rows.append([name, label, *(f"{own['means'][f'R@{budget}-tokens']:.3f}" for budget in BUDGETS)])
    for weights in ("hapax", "auto", "best q"):
        row = [weights]
        for budget in BUDGETS:
            key = f"R@{budget}-tokens"
            own = [
                cell["results"][weights]["means"][key] - cell["results"]["BM25"]["means"][key]
                for cell in cells.values()
            ]
            row.append(f"{np.mean(own):+.3f}")
        gains.append(row)
    heads = [f"{budget:,}" for budget in BUDGETS]
    notes = ("Four bytes of UTF-8 count as a token; a document that does not fit ends the walk.",)
    return [
        Table(f"Mean gain over BM25 in so many tokens, {len(cells)} collections", ["weights", *heads], gains, notes),
        Table("Share of the relevant documents in so many tokens", ["collection", "weights", *heads], rows),
    ]
