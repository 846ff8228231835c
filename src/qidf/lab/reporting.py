"""What a report says of a collection: measured here, and the verdict in words. `qidf.lab.page` makes it a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qidf.lab.beir import read_corpus, read_judgments
from qidf.lab.bootstrap import RESAMPLES, Difference, paired
from qidf.lab.comparing import Cause, Comparison, causes, compare
from qidf.lab.evaluation import Weights, evaluate
from qidf.lab.measures import count_tokens
from qidf.lab.studies import STUDIES, Cell, Settings
from qidf.lab.sweeping import MEASURE, Asked, sweep_all
from qidf.lab.temporary import temporary_index

SHOWN = 5
"""Queries of each side that moved most."""

_FEW = 30  # queries below which no verdict is given

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """A way to weigh or index, on one collection.

    Attributes
    ----------
    name : str
    mean : float
        nDCG@10.
    difference : Difference or None
        To BM25 on the index as it is; None for that itself.
    """

    name: str
    mean: float
    difference: Difference | None


@dataclass(frozen=True)
class Report:
    """Everything that a report says of one collection.

    Attributes
    ----------
    folder, analyzer : str
    verdict : str
        "keep", "weights", "both", "reindex" or "few".
    words : str
        The verdict in a sentence or two.
    findings : list of Finding
    swept, scaling, budgets : Cell
        As the studies measure them; scaling is None for a small collection.
    bands : list of tuple
        (low, high, terms) of the df spectrum.
    compared : Comparison
        `auto` against BM25.
    texts : dict
        {id: text} of the queries that are shown.
    terms : dict
        {id: terms that decided}.
    """

    folder: str
    analyzer: str
    verdict: str
    words: str
    findings: list[Finding]
    swept: Cell
    scaling: Cell | None
    budgets: Cell
    bands: list[tuple[int, int, int]]
    compared: Comparison
    texts: dict[str, str]
    terms: dict[str, list[Cause]]


def report(
    folder: str,
    *,
    analyzer: str = "standard",
    queries: int | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
) -> Report:
    """Measure a collection for a report.

    Parameters
    ----------
    folder : str
        In BEIR's layout.
    analyzer : str, default "standard"
        What the index is analyzed with as it is.
    queries : int, optional
        The most; of more, so many at random by `seed`.
    progress : callable, optional
        Is told how many steps are done, of how many.
    """
    steps = 4

    def told(done: int) -> None:
        if progress:
            progress(done, steps)

    judgments = read_judgments(folder, queries, seed)
    documents = list(read_corpus(folder))
    tokens = {document.id: count_tokens(document.text) for document in documents}
    with temporary_index(documents, analyzer) as index:
        asked = Asked(index, judgments)
        swept = sweep_all(asked, seed=seed, resamples=resamples)
        told(1)
        choices = [Weights(1.0), Weights("auto")]
        results = evaluate(index, judgments, choices, tokens=tokens, resamples=resamples, seed=seed)
        compared = compare(judgments.relevant, results[0].run, results[1].run, resamples=resamples, seed=seed)
        texts = {one.query: judgments.queries[one.query] for one in compared.won[:SHOWN] + compared.lost[:SHOWN]}
        terms = {
            one.query: causes(index, texts[one.query], one, (1.0, None), ("auto", None))
            for one in compared.moved
            if one.query in texts
        }
        bands = [(band.low, band.high, band.terms) for band in index.spectrum().bands]
        told(2)
    base, auto = _values(results[0].values), _values(results[1].values)
    findings = [
        Finding(f"BM25, {analyzer}", float(base.mean()), None),
        Finding(f"q-IDF (auto), {analyzer}", compared.second, compared.difference),
    ]
    best = max(swept.oracles.values(), key=lambda own: own.mean)
    label = f"best single q for these labels, {analyzer}"
    findings.append(Finding(label, best.mean, best.reselected))
    again = None
    if analyzer != "code":
        with temporary_index(documents, "code") as index:
            other = Asked(index, judgments)
            plain = other.values(index.weigh_many(other.terms, q=1.0))
            weighed = other.values(index.weigh_many(other.terms, q="auto"))
        findings += [
            _finding("BM25, reindexed with code", base, plain, resamples, seed),
            _finding("q-IDF (auto), reindexed with code", base, weighed, resamples, seed),
        ]
        again = paired(auto.tolist(), weighed.tolist(), resamples, seed)
    told(3)
    scaling = None
    if len(documents) > 3_000:
        scaling = STUDIES["scaling"].measure(folder, Settings(queries, seed, resamples, analyzer))
    told(4)
    verdict, words = judge(len(judgments.queries), findings, again)
    return Report(
        folder=folder,
        analyzer=analyzer,
        verdict=verdict,
        words=words,
        findings=findings,
        swept=swept.plain(),
        scaling=scaling,
        budgets={name: own.means for name, own in zip(("BM25", "auto"), results, strict=True)},
        bands=bands,
        compared=compared,
        texts=texts,
        terms=terms,
    )


def judge(queries: int, findings: list[Finding], again: Difference | None) -> tuple[str, str]:
    """Return the verdict and its words.

    `again` is what reindexing with `code` brings beyond `auto` on the index as it is; None if it is `code`'s already.
    """
    auto = findings[1].difference
    assert auto is not None
    if queries < _FEW:
        return "few", f"Too few queries to tell: {queries}. Judge {_FEW} or more before you decide."
    gain = f"{auto.mean:+.3f} nDCG@10 ({auto.low:+.3f} to {auto.high:+.3f})"
    more = f"{again.mean:+.3f} ({again.low:+.3f} to {again.high:+.3f})" if again is not None and again.low > 0 else ""
    if auto.low > 0:
        words = f"q-IDF brings {gain} on the index as it is."
        if more:
            return "both", f"{words} Reindexed with the analyzer code, it brings {more} more."
        return "weights", words + ("" if again is None else " Reindexing with code brings no more that can be told.")
    own = f"it loses: {gain}" if auto.high < 0 else f"it can't be told from BM25: {gain}"
    if more:
        words = f"With q-IDF on the index as it is, {own}. Reindexed with the analyzer code, it brings {more} more."
        return "reindex", words
    return "keep", f"With q-IDF, {own}."


def _finding(name: str, base: NDArray[np.float64], values: NDArray[np.float64], resamples: int, seed: int) -> Finding:
    return Finding(name, float(values.mean()), paired(base.tolist(), values.tolist(), resamples, seed))


def _values(values: dict[str, dict[str, float]]) -> NDArray[np.float64]:
    return np.array(list(values[MEASURE].values()))


def plain(own: Report) -> dict[str, Any]:
    """Return what JSON can hold."""
    return {
        "collection": own.folder,
        "analyzer": own.analyzer,
        "verdict": own.verdict,
        "words": own.words,
        "findings": [
            {"name": one.name, MEASURE: one.mean, "difference": one.difference and one.difference._asdict()}
            for one in own.findings
        ],
        "sweep": own.swept,
        "scaling": own.scaling,
        "budgets": own.budgets,
        "won": own.compared.difference.won,
        "lost": own.compared.difference.lost,
    }
