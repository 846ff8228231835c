"""What identifiers bring to an index that glued them, against the same texts indexed with `code`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qidf.engines.embedded import Embedded
from qidf.expansion.building import analysis
from qidf.expansion.dictionary import About, Dictionary, in_order, write
from qidf.expansion.place import identity
from qidf.expansion.spellings import of_texts
from qidf.index import Index
from qidf.lab.beir import Judgments, read_corpus, read_judgments
from qidf.lab.bootstrap import paired
from qidf.lab.measures import measure as measured
from qidf.lab.studies.base import Cell, Settings, Table, about
from qidf.lab.sweeping import MEASURE
from qidf.lab.temporary import temporary_index

_DEPTH = 10
NAMES = ("BM25", "auto", "expanded", "kept", "code BM25", "code auto")
"""What is compared; `kept` is `expanded` without documents that hold none of the query's own terms."""


def measure(folder: str, settings: Settings) -> Cell:
    """Measure each way on the same queries, and what the widening takes."""
    judgments = read_judgments(folder, settings.queries, settings.seed)
    documents = list(read_corpus(folder))
    values: dict[str, NDArray[np.float64]] = {}
    with tempfile.TemporaryDirectory(prefix="qidf-lab-") as place:
        with temporary_index(documents, settings.analyzer) as index:
            engine = Embedded(index)
            values["BM25"] = _batch(index, judgments, q=1.0, a=1.0)
            found = of_texts((document.text for document in documents), analysis(engine))
            made_of = About(identity(engine), engine.analyzer, len(documents), len(documents), "texts")
            path = os.path.join(place, "dictionary")
            size = write(path, made_of, in_order(found.parts()), found.dfs())
            engine.dictionary = Dictionary(path)
            values["auto"], plain = _asked(judgments, lambda text: _ids(engine, text, "off"))
            values["expanded"], widened = _asked(judgments, lambda text: _ids(engine, text, "auto"))
            values["kept"], _ = _asked(judgments, lambda text: _ids(engine, text, "rank"))
            terms = [len(engine.widened(text)) for text in list(judgments.queries.values())[:200]]
            identifiers = len(engine.dictionary)
        with temporary_index(documents, "code") as index:
            values["code BM25"] = _batch(index, judgments, q=1.0, a=1.0)
            values["code auto"] = _batch(index, judgments)
    return {
        "about": about(folder),
        "queries": len(judgments.queries),
        "documents": len(documents),
        "means": {name: float(values[name].mean()) for name in NAMES},
        "differences": {
            name: paired(values["auto"].tolist(), values[name].tolist(), settings.resamples, settings.seed)._asdict()
            for name in ("expanded", "kept", "code BM25")
        },
        "terms": float(np.mean(terms)),
        "milliseconds": {"auto": plain, "expanded": widened},
        "dictionary": {"identifiers": identifiers, "bytes": size},
    }


def _batch(index: Index, judgments: Judgments, **weights: float) -> NDArray[np.float64]:
    k = min(_DEPTH, index.documents)
    ids, _ = index.search_many(list(judgments.queries.values()), k, **weights)  # type: ignore[arg-type]
    rows = zip(judgments.queries, ids.tolist(), strict=True)
    return _values(judgments, {query: [id for id in row if id is not None] for query, row in rows})


def _asked(judgments: Judgments, answer: Callable[[str], list[str]]) -> tuple[NDArray[np.float64], float]:
    """Return nDCG@10 of each query, and the mean milliseconds of one."""
    start = time.perf_counter()
    rankings = {query: answer(text) for query, text in judgments.queries.items()}
    taken = time.perf_counter() - start
    return _values(judgments, rankings), 1000 * taken / len(rankings)


def _values(judgments: Judgments, rankings: dict[str, list[str]]) -> NDArray[np.float64]:
    found = measured(rankings, judgments.relevant, (MEASURE,))[MEASURE]
    return np.array([found[query] for query in judgments.queries])


def _ids(engine: Embedded, text: str, expand: str) -> list[str]:
    return [hit.id for hit in engine.search(text, _DEPTH, expand=expand)]  # type: ignore[arg-type]


def share(cells: list[Cell], name: str) -> float:
    """Return which share of the gap between the means of BM25 and of `code BM25` is closed; NaN where there is none."""
    low, high, own = (np.mean([cell["means"][one] for cell in cells]) for one in ("BM25", "code BM25", name))
    return float((own - low) / (high - low)) if high - low > 0 else float("nan")


def tables(cells: dict[str, Cell]) -> list[Table]:
    """Return the tables of all collections."""
    rows, costs = [], []
    for collection, cell in cells.items():
        gain = cell["differences"]["expanded"]
        rows.append(
            [
                collection,
                *(f"{cell['means'][name]:.4f}" for name in NAMES),
                f"{gain['mean']:+.4f} [{gain['low']:+.4f}, {gain['high']:+.4f}]",
                f"{share([cell], 'expanded'):.2f}",
            ]
        )
        took, size = cell["milliseconds"], cell["dictionary"]
        costs.append(
            [
                collection,
                f"{cell['terms']:.1f}",
                f"{took['auto']:.2f}",
                f"{took['expanded']:.2f}",
                f"{size['identifiers']:,}",
                f"{size['bytes']:,}",
            ]
        )
    every = list(cells.values())
    means = [
        [name, f"{np.mean([cell['means'][name] for cell in every]):.4f}", f"{share(every, name):.2f}"] for name in NAMES
    ]
    below = sum(cell["differences"]["expanded"]["high"] < 0 for cell in every)
    above = sum(cell["differences"]["expanded"]["low"] > 0 for cell in every)
    notes = (
        f"Expanded is better than auto beyond its interval on {above} collections of {len(every)}, worse on {below}.",
        "Kept: only documents that hold a term of the query's own.",
    )
    head = ["collection", *NAMES, "expanded against auto [95 %]", "gap closed"]
    cost = ["collection", "terms added", "ms, auto", "ms, expanded", "identifiers", "bytes"]
    return [
        Table(f"Means over {len(every)} collections", ["weights", MEASURE, "gap closed"], means, notes),
        Table("Expansion", head, rows, ("Gap: from BM25 to the BM25 of the same texts indexed with code.",)),
        Table("Cost", cost, costs, ("Milliseconds of a query in Python, one after the other.",)),
    ]
