"""From a query to the terms that it is widened by: a dictionary's terms, weighed by `qidf.weighting.expand`."""

# ruff: noqa: N803 (N is the literature's letter)
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

from qidf.expansion.dictionary import Dictionary
from qidf.expansion.spellings import take_apart
from qidf.weighting import EXPANSION, Scheme, expand, word_weights

DocFreqs = Callable[[Sequence[str]], list[int]]


class Added(NamedTuple):
    """A term that a query is widened by, with its df."""

    term: str
    n: int
    weight: float
    words: tuple[str, ...]


def widen(
    dictionary: Dictionary,
    query: str,
    own: Mapping[str, int] | Container[str],
    N: int,
    scheme: Scheme,
    doc_freqs: DocFreqs,
    budget: int = EXPANSION,
) -> list[Added]:
    """Return the terms of the index that `query` is widened by, heaviest first; each is one that the index holds.

    Parameters
    ----------
    dictionary : Dictionary
        It may be older than the index: terms that went are left out, and dfs are scaled to the documents there are.
    query : str
    own : container of str
        The query's own terms.
    N : int
        Documents of the index.
    scheme : Scheme
    doc_freqs : callable
        The engine's own: asked once.
    """
    counts = Counter(take_apart(query))
    about = dictionary.about
    scale = N / (about.read or about.documents or 1)
    dfs = {word: min(N, round(n * scale) or 1) for word in counts if (n := dictionary.df(word))}
    plain = [word for word in counts if word not in own]
    candidates = dictionary.candidates(word_weights(counts, dfs, N, scheme), 2 * budget)
    asked = list(dict.fromkeys([*plain, *(term for term, _ in candidates if term not in own)]))
    held = dict(zip(asked, doc_freqs(asked), strict=True)) if asked else {}
    dfs |= {word: held[word] for word in plain if word not in dfs}
    weights = word_weights(counts, dfs, N, scheme)
    words = [(word, [word]) for word in plain if held[word]]
    compounds = [(term, parts) for term, parts in candidates if held.get(term) and term not in counts]
    return [
        Added(one.term, held[one.term], one.weight, one.words)
        for one in expand(weights, [*words, *compounds], own, budget)
    ]
