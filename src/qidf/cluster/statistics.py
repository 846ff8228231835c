"""Tokens, n and N of texts: by term vectors of documents that do not exist, else by counting hits.

    ask([Wanted(…), …])     one request for all of them

Where a server gives no term vectors, or an index spreads a routing value over several shards, `_analyze` tells a
text's tokens and one `_msearch` of searches for no hits (`size` 0, `track_total_hits`) counts. What is counted so are
the documents that are not deleted, N with those whose text has no token, and of the lengths nothing is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from qidf.cluster.indices import Indices
from qidf.cluster.steps import Asked, RefusedError, Steps
from qidf.cluster.vectors import Vectors, reason, summed
from qidf.engines.base import code_points
from qidf.errors import EngineError
from qidf.rewriting import Placed
from qidf.rewriting.fields import find_field

AT_ONCE = 500
"""Documents, or searches, that are asked about in one request."""


class Wanted(NamedTuple):
    """A text, or terms as they are, of which statistics are wanted.

    Attributes
    ----------
    indices : Indices
    expression : str
        Of the indices, escaped; empty for all.
    params : mapping
        Those that say how to read it.
    field : str
    text : str or list of str
        All of it can be written as UTF-8.
    analyzer : str
        The name of one that the indices have; for terms as they are, `keyword`.
    """

    indices: Indices
    expression: str
    params: Mapping[str, str]
    field: str
    text: str | list[str]
    analyzer: str


def ask(wanted: Sequence[Wanted]) -> Steps[list[Vectors]]:
    """Return what the server tells of each text.

    Raises
    ------
    EngineError
        It tells nothing, in one way or the other.
    """
    found: dict[int, Vectors] = {}
    told = {i: one for i, one in enumerate(wanted) if one.indices.vectors}
    for numbers, docs in _batches(told):
        try:
            answers = (yield Asked("POST", "/_mtermvectors", {}, {"docs": docs}))["docs"]
        except RefusedError:
            for i in numbers:
                wanted[i].indices.vectors = False
            continue
        if len(answers) != len(docs):
            raise EngineError("the server answered about other documents than were asked about")
        for i, own in numbers.items():
            found[i] = summed(wanted[i].field, wanted[i].text, answers[own])
    rest = [i for i in range(len(wanted)) if i not in found]
    if rest:
        found |= zip(rest, (yield from _counted([wanted[i] for i in rest])), strict=True)
    return [found[i] for i in range(len(wanted))]


def _batches(wanted: Mapping[int, Wanted]) -> Iterator[tuple[dict[int, slice], list[dict[str, Any]]]]:
    """Yield artificial documents, as many as go into one request, and which of them are whose."""
    numbers: dict[int, slice] = {}
    docs: list[dict[str, Any]] = []
    for i, one in wanted.items():
        own = one.indices.artificial(one.field, one.text, one.analyzer)
        if docs and len(docs) + len(own) > AT_ONCE:
            yield numbers, docs
            numbers, docs = {}, []
        numbers[i] = slice(len(docs), len(docs) + len(own))
        docs += own
    if numbers:
        yield numbers, docs


def _counted(wanted: Sequence[Wanted]) -> Steps[list[Vectors]]:
    every: list[list[Placed]] = []
    lines: list[str] = []
    for one in wanted:
        every.append((yield from _tokens(one)))
        header = json.dumps({**one.params, **({"index": unquote(one.expression)} if one.expression else {})})
        queries: list[dict[str, Any]] = [{"exists": {"field": one.field}}]
        queries += [{"term": {one.field: {"value": term}}} for term in _terms(one, every[-1])]
        for query in queries:
            lines += [header, json.dumps({"size": 0, "track_total_hits": True, "query": query})]
    totals: list[int] = []
    for start in range(0, len(lines), 2 * AT_ONCE):
        body = "".join(f"{line}\n" for line in lines[start : start + 2 * AT_ONCE])
        for answer in (yield Asked("POST", "/_msearch", {}, body))["responses"]:
            if "error" in answer:
                raise EngineError(f"documents can't be counted. The server says: {reason(answer['error'])}")
            totals.append(answer["hits"]["total"]["value"])
    told = []
    for one, tokens in zip(wanted, every, strict=True):
        terms = _terms(one, tokens)
        documents, *dfs = totals[: 1 + len(terms)]
        del totals[: 1 + len(terms)]
        told.append(Vectors(tokens, dict(zip(terms, dfs, strict=True)), documents, None))
    return told


def _terms(one: Wanted, tokens: Sequence[Placed]) -> list[str]:
    return list(dict.fromkeys(one.text if isinstance(one.text, list) else (token.term for token in tokens)))


def _tokens(one: Wanted) -> Steps[list[Placed]]:
    if isinstance(one.text, list):
        return []
    names = (index.name for index in one.indices.all if find_field(one.field, index.mapping))
    path = f"/{quote(next(names), safe='')}/_analyze"
    answer = yield Asked("POST", path, {}, {"analyzer": one.analyzer, "text": one.text})
    at = code_points(one.text)
    return [
        Placed(token["token"], token["position"], at(token["start_offset"]), at(token["end_offset"]))
        for token in answer["tokens"]
    ]
