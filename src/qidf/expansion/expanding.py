"""From a query to the terms that it is widened by: a dictionary's terms, weighed by `qidf.weighting.expand`."""

# ruff: noqa: N803 (N is the literature's letter)
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

from qidf.expansion.dictionary import Dictionary
from qidf.expansion.spellings import take_apart
from qidf.weighting import EXPANSION, Related, Scheme, expand, word_weights

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
        The engine's own: asked at most twice.
    """
    counts = Counter(take_apart(query))
    about = dictionary.about
    scale = N / (about.read or about.documents or 1)
    dfs = {word: min(N, round(n * scale) or 1) for word in counts if (n := dictionary.df(word))}
    lone = [word for word in counts if word not in dfs and word not in own]
    plain = [word for word in counts if word not in own]
    known = dict(zip(plain, doc_freqs(plain), strict=True)) if plain else {}
    dfs |= {word: known[word] for word in lone if known[word]}
    weights = word_weights(counts, dfs, N, scheme)
    candidates = [(term, parts) for term, parts in dictionary.candidates(weights, 2 * budget) if term not in known]
    words = [(word, [word]) for word in weights if known.get(word)]
    found = expand(weights, [*words, *candidates], own, 2 * budget)
    held = dict(known)
    compounds = [one.term for one in found if one.term not in held]
    held |= zip(compounds, doc_freqs(compounds), strict=True) if compounds else ()
    kept: list[Related] = []
    room = budget
    for one in found:
        if held[one.term]:
            is_word = one.words == (one.term,)
            if is_word or room > 0:
                kept.append(one)
            room -= not is_word
    return [Added(one.term, held[one.term], one.weight, one.words) for one in kept]
