"""Why a document has its score: what each query term adds, in BM25's letters. Knows one document, ranks nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from qidf.kernels import Reader
from qidf.weighting import QueryTerm, Scheme, idf, term_weights


class TermExplanation(NamedTuple):
    """What one query term adds to a document's score, in BM25's letters.

    Attributes
    ----------
    term, query_count, shaped : the term, its count c in the query, whether it was written as an identifier
    n, N : documents that hold it, documents in all
    q, idf, idf_q : the q it got, its idf at q = 1, and at that q
    weight : c^a · idf_q · scale; 0, as the idfs are, for a term that the index does not hold
    tf, tf_part : its count in the document, and tf / (tf + k1·((1 − b) + b·dl/avgdl)) or what the engine has there; tf
        is None where an engine does not tell
    contribution : weight · tf_part
    words : of a term that the query was widened by (`qidf.weighting.expand`), its words in the query; else empty
    """

    term: str
    query_count: int
    shaped: bool
    n: int
    N: int
    q: float
    idf: float
    idf_q: float
    weight: float
    tf: int | None
    tf_part: float
    contribution: float
    words: tuple[str, ...] = ()


def explain_term(
    term: QueryTerm,
    n: int,
    documents: int,
    q: float,
    idf_q: Callable[[float], float],
    weight: float,
    tf: int | None,
    part: float,
    words: tuple[str, ...] = (),
) -> TermExplanation:
    """Put together what one term adds; `idf_q` gives its idf at a q, and is asked only where the term is known."""
    return TermExplanation(
        term=term.term,
        query_count=term.count,
        shaped=term.shaped,
        n=n,
        N=documents,
        q=q,
        idf=idf_q(1.0) if n else 0.0,
        idf_q=idf_q(q) if n else 0.0,
        weight=weight,
        tf=tf,
        tf_part=part,
        contribution=weight * part,
        words=words,
    )


class Explanation(NamedTuple):
    """Why a document has its score: the sum of its terms' contributions, in the query's order, is the score.

    `length` and `average_length` are None where an engine does not tell. `scale` is the factor in all weights that
    keeps the largest attainable score of an engine where its own BM25 has it; 1 for an index of qidf's own.
    """

    id: str
    score: float
    length: int | None
    average_length: float | None
    documents: int
    k1: float
    b: float
    a: float
    terms: list[TermExplanation]
    scale: float = 1.0


def explain(
    id: str,
    reader: Reader,
    doc: int,
    terms: Sequence[tuple[QueryTerm, int]],
    scheme: Scheme,
    *,
    documents: int,
    average_length: float,
    k1: float,
    b: float,
    odds: str,
) -> Explanation:
    """Explain the score of document number `doc` of `reader`'s segment, called `id`.

    `terms` are the query's with their df; `documents` and `average_length` are the index's. The sum runs in the query's
    order with the kernels' arithmetic, so it is the score of `search` to the last bit.
    """
    length = reader.length(doc)
    norm = k1 * ((1.0 - b) + b * (length / (average_length or 1.0)))
    known = [(term, n) for term, n in terms if n]
    weights = term_weights([term for term, _ in known], [n for _, n in known], documents, scheme, odds)
    by_term = {term.term: weight for (term, _), weight in zip(known, weights, strict=True)}
    score = 0.0
    rows = []
    for term, n in terms:
        weight = by_term.get(term.term, 0.0)
        ordinal = reader.ordinal(term.term)
        tf = reader.count(ordinal, doc) if ordinal >= 0 else 0
        part = tf / (tf + norm) if tf else 0.0
        score += weight * part
        idf_q = partial(idf, n, documents, odds=odds)
        rows.append(explain_term(term, n, documents, scheme.q(term), idf_q, weight, tf, part))
    return Explanation(id, score, length, average_length, documents, k1, b, scheme.a, rows)
