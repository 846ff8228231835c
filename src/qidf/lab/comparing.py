"""Two runs of the same queries: who won, which queries moved most, and by which of their terms. Prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from qidf.errors import SourceError
from qidf.lab.bootstrap import RESAMPLES, Difference, paired
from qidf.lab.measures import measure
from qidf.lab.sweeping import MEASURE
from qidf.lab.trec import Run
from qidf.weighting import Q

if TYPE_CHECKING:
    from qidf.index import Index


class Moved(NamedTuple):
    """A query that two runs answer differently.

    Attributes
    ----------
    query : str
    first, second : float
        The measure in each run.
    document : str
        The relevant document that stands highest in either.
    first_rank, second_rank : int or None
        Where it stands in each; None where it is no hit.
    rival : str
        The best document that is not relevant, of the run in which the query does worse; empty if there is none.
    """

    query: str
    first: float
    second: float
    document: str
    first_rank: int | None
    second_rank: int | None
    rival: str

    @property
    def change(self) -> float:
        """What the second run has more."""
        return self.second - self.first

    @property
    def ranks(self) -> str:
        """Where the document stands in the first and in the second run, as one reads it."""
        return f"{self.first_rank or 'none'} → {self.second_rank or 'none'}"


@dataclass(frozen=True)
class Comparison:
    """The second run against the first.

    Attributes
    ----------
    first, second : float
        Means of the measure.
    difference : Difference
    moved : list of Moved
        Queries with another value, those that moved most first.
    queries : int
    missing : tuple of int
        Judged queries without a hit in the first and in the second run; they count with 0.
    """

    first: float
    second: float
    difference: Difference
    moved: list[Moved]
    queries: int
    missing: tuple[int, int]

    @property
    def won(self) -> list[Moved]:
        """Queries that the second run answers better, those that moved most first."""
        return [one for one in self.moved if one.change > 0]

    @property
    def lost(self) -> list[Moved]:
        """Queries that it answers worse, those that moved most first."""
        return [one for one in self.moved if one.change < 0]


def compare(
    relevant: Mapping[str, Mapping[str, int]],
    first: Run,
    second: Run,
    *,
    name: str = MEASURE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two runs on judged queries.

    Raises
    ------
    SourceError
        A run answers none of the judged queries.
    """
    for which, run in (("first", first), ("second", second)):
        if not run.keys() & relevant.keys():
            raise SourceError(
                f"the {which} run answers none of the {len(relevant):,} judged queries: compare their ids"
            )
    runs = [{query: [id for id, _ in run.get(query, [])] for query in relevant} for run in (first, second)]
    values = [measure({query: ids for query, ids in run.items() if ids}, relevant, (name,))[name] for run in runs]
    lists = [[own[query] for query in relevant] for own in values]
    moved = []
    for query, own in relevant.items():
        a, b = values[0][query], values[1][query]
        if abs(a - b) > 1e-9:
            ranks = [{id: rank for rank, id in enumerate(run[query], 1)} for run in runs]
            document = min(own, key=lambda id: (min(rank.get(id, len(rank) + 1) for rank in ranks), id))
            worse = runs[0 if a < b else 1][query]
            rival = next((id for id in worse if id not in own), "")
            moved.append(Moved(query, a, b, document, ranks[0].get(document), ranks[1].get(document), rival))
    moved.sort(key=lambda one: (-abs(one.change), one.query))
    return Comparison(
        first=sum(lists[0]) / len(lists[0]),
        second=sum(lists[1]) / len(lists[1]),
        difference=paired(lists[0], lists[1], resamples, seed),
        moved=moved,
        queries=len(relevant),
        missing=(sum(not ids for ids in runs[0].values()), sum(not ids for ids in runs[1].values())),
    )


class Cause(NamedTuple):
    """What a term did for a document against its rival.

    Attributes
    ----------
    term : str
    df : int
    first, second : float
        Its part of the document's score less its part of the rival's, with the weights of each run, as a share of the
        largest score that the query could have.
    """

    term: str
    df: int
    first: float
    second: float

    @property
    def change(self) -> float:
        """What the second weights have more."""
        return self.second - self.first


def causes(
    index: Index, text: str, moved: Moved, first: tuple[Q, float | None], second: tuple[Q, float | None]
) -> list[Cause]:
    """Return the terms that decided between the relevant document and its rival, the one that changed most first.

    Parameters
    ----------
    index : Index
    text : str
        The query.
    moved : Moved
    first, second : tuple
        (q, a) of the two runs.
    """
    parts: list[dict[str, tuple[int, float]]] = []
    for q, a in (first, second):
        weights = index.weights(text, q=q, a=a)
        most = sum(weight for _, weight in weights) or 1.0
        shares: dict[str, tuple[int, float]] = {}
        for document, sign in ((moved.document, 1.0), (moved.rival, -1.0)):
            try:
                rows = index.explain(text, document, q=q, a=a).terms if document else []
            except KeyError:
                rows = []
            for row in rows:
                df, sum_ = shares.get(row.term, (row.n, 0.0))
                shares[row.term] = df, sum_ + sign * row.contribution / most
        parts.append(shares)
    found = [
        Cause(
            term,
            (parts[0].get(term) or parts[1][term])[0],
            parts[0].get(term, (0, 0.0))[1],
            parts[1].get(term, (0, 0.0))[1],
        )
        for term in parts[0] | parts[1]
    ]
    return sorted((one for one in found if abs(one.change) > 1e-9), key=lambda one: (-abs(one.change), one.term))
