"""`qidf:DIR`: an index of qidf's own, asked as any other engine is. Its scores are those of `qidf.Index`, unscaled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as Container
from functools import partial
from typing import TYPE_CHECKING

from qidf.engines.base import Clause, Collection, Engine, Expand, Model
from qidf.errors import SourceError
from qidf.index.explain import Explanation, explain_term
from qidf.index.search import Hit, Index, scanner
from qidf.weighting import K1, B, Q, QueryTerm, check_bm25, check_count, check_odds

if TYPE_CHECKING:
    from qidf.analysis import Token
    from qidf.engines import EngineURL
    from qidf.spectrum import Spectrum

OPTIONS = ("k1", "b", "odds")

_FEW = 2000  # documents that are sooner listed than met in a ranking

Filter = Callable[[str], bool] | Container[str] | None


def open_url(url: EngineURL) -> Embedded:
    """Open `qidf:DIR?k1=…&b=…&odds=…`."""
    if url.field:
        raise ValueError(f"qidf's indexes have one field: write qidf:{url.path}, got {url.url!r}")
    k1, b = check_bm25(url.number("k1", K1), url.number("b", B))
    return Embedded(Index.open(url.path), k1=k1, b=b, odds=url.options.get("odds", "lucene"))


class Embedded(Engine):
    """An `Index` as an engine. A `filter` is a set of ids, or a function from an id to whether it may be found."""

    def __init__(self, index: Index, *, k1: float = K1, b: float = B, odds: str = "lucene") -> None:
        check_odds(odds)
        k1, b = check_bm25(k1, b)
        self.index = index
        self.url = f"qidf:{index.path}"
        self.analyzer = index.analyzer
        self.model = Model(k1, b, odds=odds)

    @property
    def state(self) -> str:  # type: ignore[override]
        return self.index.state

    def analyze(self, text: str) -> list[Token]:
        return scanner(self.analyzer).tokens(text)

    def collection(self) -> Collection:
        return Collection(self.index.documents, self.index.tokens, self.index.average_length)

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        return self.index.doc_freqs(terms)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        q: Q | str = "auto",
        a: float | None = None,
        filter: Filter = None,
        expand: Expand = "auto",
    ) -> list[Hit]:
        own, added = self._weighted(query, q, a, expand)
        k = check_count("k", k)
        if expand == "rank" and added:
            return self._rank_held(own + added, [term for term, weight in own if weight > 0], k, filter)
        return self._rank(own + added, k, filter)

    def search_terms(self, terms: Iterable[tuple[str, float]], k: int = 10, *, filter: Filter = None) -> list[Hit]:
        return self._rank(list(terms), check_count("k", k), filter)

    def run(self, clauses: Sequence[Clause], k: int, filter: Filter) -> list[Hit]:
        N = self.index.documents
        weighted = [(term, boost * self.idf(n, N)) for term, n, boost, _ in clauses]
        if any(clause.optional for clause in clauses):
            return self._rank_held(weighted, [clause.term for clause in clauses if not clause.optional], k, filter)
        return self._rank(weighted, k, filter)

    def _rank_held(self, weighted: list[tuple[str, float]], own: list[str], k: int, filter: Filter) -> list[Hit]:
        """Rank the documents alone that hold one of `own`: those are listed if they are few, else each hit is asked."""
        allows = _allows(filter)
        most = sum(self.index.doc_freqs(own))
        if most <= _FEW:
            held = {hit.id for hit in self.index.search_terms([(term, 1.0) for term in own], most)} if most else set()
            found = {id for id in held if allows is None or allows(id)}
            return self._rank(weighted, min(k, len(found)), found) if found else []

        def holds(id: str) -> bool:
            return (allows is None or allows(id)) and any(self.index.term_freqs(id, own))

        return self._rank(weighted, k, holds)

    def _rank(self, weighted: list[tuple[str, float]], k: int, filter: Filter) -> list[Hit]:
        most = self.index.documents
        allows = _allows(filter)
        depth = k
        while True:  # deeper until enough of the ranking passes the filter
            hits = self.index.search_terms(weighted, depth, k1=self.model.k1, b=self.model.b)
            kept = hits if allows is None else [hit for hit in hits if allows(hit.id)]
            if allows is None or len(kept) >= k or len(hits) < depth or depth >= most:
                return [hit._replace(rank=rank) for rank, hit in enumerate(kept[:k], 1)]
            depth = min(4 * depth, most)

    def weights(
        self, query: str, *, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto"
    ) -> list[tuple[str, float]]:
        own, added = self._weighted(query, q, a, expand)
        return own + added

    def _weighted(
        self, query: str, q: Q | str, a: float | None, expand: Expand
    ) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """Return the query's own terms and those that it is widened by, with their weights."""
        own = self.index.weights(query, q=q, a=a, odds=self.model.odds)
        added = self._widen(query, [term for term, _ in own], self.scheme(q, a), expand)
        return own, [(one.term, one.weight) for one in added]

    def explain(
        self, query: str, id: str, *, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto"
    ) -> Explanation:
        model = self.model
        told = self.index.explain(query, id, q=q, a=a, k1=model.k1, b=model.b, odds=model.odds)
        scheme, N = self.scheme(q, a), self.index.documents
        added = self._widen(query, [row.term for row in told.terms], scheme, expand)
        rows, score = list(told.terms), told.score
        for (term, n, weight, words), (part, tf) in zip(
            added, self.parts(id, [one.term for one in added]), strict=True
        ):
            own = QueryTerm(term, 0, False)
            rows.append(explain_term(own, n, N, scheme.q_word, partial(self.idf_q, n, N), weight, tf, part, words))
            score += weight * part
        return told._replace(score=score, terms=rows)

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        length, average = self.index.length(id), self.index.average_length or 1.0
        norm = self.model.k1 * ((1 - self.model.b) + self.model.b * (length / average))
        return [(tf / (tf + norm) if tf else 0.0, tf) for tf in self.index.term_freqs(id, terms)]

    def spectrum(self) -> Spectrum:
        return self.index.spectrum()

    def text(self, id: str) -> str | None:
        try:
            return self.index.text(id)
        except SourceError:
            return None

    def texts(self) -> Iterator[str]:
        for id in self.index.ids():
            if (text := self.text(id)) is not None:
                yield text

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        return self.index.vocabulary()

    def length(self, id: str) -> int | None:
        return self.index.length(id)


def _allows(filter: Filter) -> Callable[[str], bool] | None:
    """Return whether a filter lets an id through; None where there is no filter."""
    return filter if callable(filter) or filter is None else filter.__contains__
