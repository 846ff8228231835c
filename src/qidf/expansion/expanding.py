"""From a query to the terms that it is widened by: a dictionary's terms, weighed by `qidf.weighting.expand`.

proposed = propose(dictionary, query, scheme)     which terms' df must be known
choose(proposed, own, N, scheme, held)            those that are added, with their weights
"""

# ruff: noqa: N803 (N is the literature's letter)
from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from qidf.weighting import EXPANSION, Scheme, expand, word_weights

if TYPE_CHECKING:
    from qidf.expansion.dictionary import Candidate, Dictionary

WORDS = 256
"""Different words of a query that are looked up, those of the largest weights: a longer text is no question."""


class Added(NamedTuple):
    """A term that a query is widened by, with its df."""

    term: str
    n: int
    weight: float
    words: tuple[str, ...]


class Proposed(NamedTuple):
    """What a dictionary knows of a query.

    Attributes
    ----------
    counts : mapping of str to int
        The query's words, identifiers taken apart.
    shares : mapping of str to float
        Of the documents that were read, how many hold each of them, alone or as a part.
    candidates : sequence of Candidate
    documents : int
        N when the dictionary was made.
    weights : mapping of str to float
        w(p) of the words then.
    """

    counts: Mapping[str, int]
    shares: Mapping[str, float]
    candidates: Sequence[Candidate]
    documents: int
    weights: Mapping[str, float]

    @property
    def terms(self) -> list[str]:
        """The terms whose df has to be known: the words themselves, then the candidates."""
        return list(dict.fromkeys([*self.counts, *(one[0] for one in self.candidates)]))


def propose(dictionary: Dictionary, query: str, scheme: Scheme, budget: int = EXPANSION) -> Proposed:
    """Return the terms of a dictionary that may be worth the most to a query: twice `budget`, and the words."""
    from qidf.expansion.spellings import take_apart

    about = dictionary.about
    read = about.read or about.documents or 1
    counts: Mapping[str, int] = Counter(take_apart(query))
    shares = {word: n / read for word, n in dictionary.dfs(counts).items() if n}
    weights = word_weights(counts, _dfs(shares, about.documents), about.documents, scheme)
    if len(weights) > WORDS:
        weights = dict(sorted(weights.items(), key=lambda item: -item[1])[:WORDS])
        counts = {word: count for word, count in counts.items() if word in weights}
    return Proposed(counts, shares, dictionary.candidates(weights, 2 * budget), about.documents, weights)


def choose(
    proposed: Proposed,
    own: Container[str],
    N: int,
    scheme: Scheme,
    held: Mapping[str, int],
    budget: int = EXPANSION,
) -> list[Added]:
    """Return the terms of the index that a query is widened by, heaviest first; each is one that the index holds.

    Parameters
    ----------
    proposed : Proposed
        Its dictionary may be older than the index: terms that went are left out, and the shares are of the documents
        there are.
    own : container of str
        The query's own terms.
    N : int
        Documents of the index.
    scheme : Scheme
    held : mapping of str to int
        df of `proposed.terms`; one that is missing counts as 0.
    """
    counts, shares, candidates, documents, weights = proposed
    plain = [word for word in counts if word not in own and held.get(word)]
    if documents != N or not shares.keys() >= set(plain):
        dfs = {**{word: held[word] for word in plain}, **_dfs(shares, N)}
        weights = word_weights(counts, dfs, N, scheme)
    words = [(word, (word,), 1) for word in plain]
    compounds = [one for one in candidates if held.get(one[0]) and one[0] not in counts]
    return [
        Added(one.term, held[one.term], one.weight, one.words)
        for one in expand(weights, [*words, *compounds], own, budget)
    ]


def _dfs(shares: Mapping[str, float], N: int) -> dict[str, int]:
    return {word: max(1, min(N, round(share * N))) for word, share in shares.items()}
