"""How good a ranking is: trec_eval's measures by ir-measures, and how much of the answer fits into a token budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from qidf.engines.base import missing
from qidf.errors import SourceError

MEASURES = ("nDCG@10", "R@100", "MRR", "Success@5")
"""By their names in ir-measures. MRR is the mean of its reciprocal rank (RR)."""

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
"""Tokens of a coding agent's context that may be filled with documents."""

BYTES_PER_TOKEN = 4.0
"""How a document's tokens are counted unless a vocabulary is given: bytes of its UTF-8 / 4, rounded up."""

Overflow: TypeAlias = Literal["stop", "skip", "truncate"]
Ranking: TypeAlias = Sequence[str]
PerQuery: TypeAlias = dict[str, dict[str, float]]
"""{measure: {id of a query: value}}."""


class Walked(NamedTuple):
    """What came of filling a budget: the share of the relevant documents in it, and whether the ranking sufficed."""

    recall: float
    is_full: bool


def measure(
    rankings: Mapping[str, Ranking],
    relevant: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = MEASURES,
) -> PerQuery:
    """Return the measures of each query; one without a hit counts with zeros.

    Parameters
    ----------
    rankings : mapping of str to sequence of str
        {id of a query: ids of documents, best first}.
    relevant : mapping of str to mapping of str to int
        {id of a query: {id of a document: grade}}.
    measures : sequence of str, default `MEASURES`
        Some of them.

    Raises
    ------
    EngineError
        ir-measures is not installed.
    """
    try:
        import ir_measures
    except ImportError:
        raise missing("ir-measures", "lab") from None
    names = {("RR" if name == "MRR" else name): name for name in measures}
    parsed = [ir_measures.parse_measure(name) for name in names]
    # trec_eval sorts by score, and breaks ties by id: distinct scores keep the order as it is.
    run = {query: {id: -float(rank) for rank, id in enumerate(ranking)} for query, ranking in rankings.items()}
    found: PerQuery = {name: dict.fromkeys(relevant, 0.0) for name in measures}
    for one in ir_measures.iter_calc(parsed, {query: dict(own) for query, own in relevant.items()}, run):
        found[names[str(one.measure)]][one.query_id] = float(one.value)
    return found


def fill(
    ranking: Ranking,
    relevant: Mapping[str, int],
    tokens: Mapping[str, int],
    budget: int,
    overflow: Overflow = "stop",
) -> Walked:
    """Walk down a ranking until a budget of tokens is full.

    Parameters
    ----------
    tokens : mapping of str to int
        Of each document; one that is not there takes none.
    overflow : {"stop", "skip", "truncate"}
        What happens to a document that does not fit any more: it ends the walk; it is passed over, and the walk goes
        on; it is cut to what fits, counts as found, and ends the walk.

    Returns
    -------
    Walked
        `is_full` is False where the ranking ended before the budget did: with more hits there may be more found.
    """
    left, found = budget, 0
    for id in ranking:
        size = tokens.get(id, 0)
        if size > left:
            if overflow == "skip":
                continue
            found += overflow == "truncate" and left > 0 and id in relevant
            return Walked(found / len(relevant), True)
        left -= size
        found += id in relevant
    return Walked(found / len(relevant), left <= 0)


def count_tokens(text: str, bytes_per_token: float = BYTES_PER_TOKEN) -> int:
    """Return the tokens of a text by the rule of so many bytes each, rounded up."""
    return -int(-len(text.encode("utf-8", "surrogatepass")) // bytes_per_token)


def tokenizer(path: str | os.PathLike[str]) -> Callable[[str], int]:
    """Return what counts tokens by a vocabulary: a tokenizer.json of Hugging Face's tokenizers (BPE and others).

    Raises
    ------
    SourceError
        The file is none.
    EngineError
        tokenizers is not installed.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise SourceError(f"no such file: {name}; give a tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing("tokenizers", "hub") from None
    try:
        loaded = Tokenizer.from_file(name)
    except Exception as error:  # the library has no type of its own
        raise SourceError(f"{name} is no tokenizer.json: {error}") from None
    loaded.no_truncation()
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)
