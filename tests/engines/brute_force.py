"""BM25 by the book: every document is scored from its tokens, in float64. Shares no code with qidf."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from qidf.engines import Model


class BruteForce:
    """A collection as an engine with these constants sees it.

    Attributes
    ----------
    living : list of str
        The documents that may be found, in the order they came.
    N, tokens, average, df
        N, Σ dl, avgdl and {term: n}, over the documents that the model counts.
    counts : dict of Counter
        {id: {term: tf}}.
    """

    def __init__(self, tokens: Mapping[str, Sequence[str]], deleted: Collection[str], model: Model) -> None:
        self.model = model
        self.counts = {id: Counter(terms) for id, terms in tokens.items()}
        self.living = [id for id in tokens if id not in deleted]
        counted = [
            id
            for id, terms in tokens.items()
            if (model.counts_deleted or id not in deleted) and (model.counts_empty or terms)
        ]
        self.N = len(counted)
        self.tokens = sum(len(tokens[id]) for id in counted)
        self.average = self.tokens / self.N if self.N else 0.0
        self.df = Counter(term for id in counted for term in self.counts[id])
        self.lengths = {
            id: byte_length(len(terms)) if model.byte_lengths else len(terms) for id, terms in tokens.items()
        }

    def idf(self, term: str, q: float = 1.0) -> float:
        """Return idf_q of a term that the collection holds."""
        return ln_q(odds(self.model.odds, self.df[term], self.N), q)

    def part(self, id: str, term: str) -> float:
        """Return what a weight of 1 adds to the document's score."""
        k1, b, delta = self.model.k1, self.model.b, self.model.delta
        tf = self.counts[id][term]
        norm = (1 - b) + b * self.lengths[id] / self.average
        match self.model.variant:
            case "bm25":
                return tf / (tf + k1 * norm) * (k1 + 1 if self.model.k1_plus_1 else 1) if tf else 0.0
            case "bm25+":
                return delta + (k1 + 1) * tf / (k1 * norm + tf)
            case "bm25l":
                return (k1 + 1) * (tf / norm + delta) / (k1 + tf / norm + delta)
            case "bm25l-tf":
                return tf * (k1 + 1) * (tf / norm + delta) / (k1 + tf / norm + delta)
        raise AssertionError(self.model.variant)

    def finds(self, id: str, weights: Mapping[str, float]) -> bool:
        """Return whether a document is a hit: it holds a term that weighs something.

        BM25L and BM25+ give the others a score too, the same one to all: that ranks nothing, so they are no hits.
        """
        return any(weight > 0 and self.counts[id][term] for term, weight in weights.items())

    def scores(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return the score of each hit."""
        known = {term: weight for term, weight in weights.items() if self.df[term]}
        return {
            id: math.fsum(weight * self.part(id, term) for term, weight in known.items())
            for id in self.living
            if self.finds(id, known)
        }


def ln_q(x: float, q: float) -> float:
    """Return the q-logarithm by its definition, in extended precision where the machine has it."""
    wide = np.longdouble(x)
    return float(np.log(wide) if q == 1 else (wide ** np.longdouble(1 - q) - 1) / np.longdouble(1 - q))


def odds(name: str, n: int, N: int) -> float:
    """Return what the idf called `name` takes the logarithm of."""
    match name:
        case "lucene":
            return 1 + (N - n + 0.5) / (n + 0.5)
        case "robertson":
            return max(1.0, (N - n + 0.5) / (n + 0.5))
        case "atire":
            return N / n
        case "bm25l":
            return (N + 1) / (n + 0.5)
        case "bm25+":
            return (N + 1) / n
    raise AssertionError(name)


def byte_length(length: int) -> int:
    """Return a document's length after a byte has held it: Lucene's SmallFloat.intToByte4, then byte4ToInt."""
    return _from_byte(_to_byte(length))


_FREE = 24  # 255 − the code of the largest int: so many small values are their own codes


def _to_byte(value: int) -> int:
    if value < _FREE:
        return value
    value -= _FREE
    shift = value.bit_length() - 4
    return _FREE + (value if shift < 0 else (value >> shift) & 7 | (shift + 1) << 3)


def _from_byte(code: int) -> int:
    if code < _FREE:
        return code
    code -= _FREE
    shift = (code >> 3) - 1
    return _FREE + (code & 7 if shift < 0 else (code & 7 | 8) << shift)
