"""What a collection looks like to an idf: its size, how its terms spread over document frequencies, its hapax density.

Arithmetic on counts; knows no index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from qidf.weighting import q_hapax


class Band(NamedTuple):
    """How many terms have a df from `low` to `high`, both included."""

    low: int
    high: int
    terms: int


@dataclass(frozen=True)
class Spectrum:
    """The term statistics of a collection.

    Attributes
    ----------
    documents, tokens, terms : int
        N, the sum of the documents' lengths, the size of the vocabulary.
    hapax_terms : int
        Terms with df = 1: in one document, however often. This project's hapax, as in the published predictor.
    once_terms : int
        Terms with collection frequency 1: hapax legomena as linguists count them. None where an engine can't tell.
    bands : list of Band
        The df spectrum in bands that double: 1, 2–3, 4–7, … up to N.
    """

    documents: int
    tokens: int
    terms: int
    hapax_terms: int
    once_terms: int | None
    bands: list[Band]

    @property
    def hapax_density(self) -> float:
        """h = (terms with df = 1) / (tokens): what the published predictor reads."""
        return self.hapax_terms / self.tokens if self.tokens else 0.0

    @property
    def q_hapax(self) -> float:
        """The q that the published predictor gives: 1 − 7.28·h, clamped to [0.05, 1]."""
        return q_hapax(self.hapax_density)

    @property
    def readings(self) -> dict[str, float]:
        """Other readings of "hapax density", by name; the published predictor takes `df1_per_token`."""
        tokens, terms = max(self.tokens, 1), max(self.terms, 1)
        readings = {"df1_per_token": self.hapax_terms / tokens, "df1_per_term": self.hapax_terms / terms}
        if self.once_terms is not None:
            readings |= {"cf1_per_token": self.once_terms / tokens, "cf1_per_term": self.once_terms / terms}
        return readings


def bands(histogram: dict[int, int]) -> list[Band]:
    """Gather {df: number of terms} into bands that double, without gaps from df = 1 to the largest."""
    if not histogram:
        return []
    out = []
    low = 1
    most = max(histogram)
    while low <= most:
        high = 2 * low - 1
        out.append(Band(low, high, sum(count for df, count in histogram.items() if low <= df <= high)))
        low = 2 * low
    return out
