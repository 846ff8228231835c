"""From matches and statistics to the body that is sent: one boosted clause for each position of a text."""

# ruff: noqa: N803, N806 (N is the literature's letter)
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from qidf.rewriting.body import (
    LARGEST,
    OF_ANALYSIS,
    Json,
    LeftError,
    Match,
    Note,
    Path,
    Placed,
    Plan,
    Rewritten,
    Site,
    Statistics,
    Text,
    at,
    replaced,
    shown,
)
from qidf.weighting import Scheme, boosts, check_count, count_factor, idf, query_terms

if TYPE_CHECKING:
    from qidf.expansion.expanding import Added

CLAUSES = 1024
"""A server's own default of the most clauses of a query."""

_PLAIN = Scheme(q_shaped=1.0, q_word=1.0, a=1.0)


class _Stack(NamedTuple):
    """The terms of one position, and what they were written as: text[start:end]."""

    terms: tuple[str, ...]
    start: int
    end: int


class _Clause(NamedTuple):
    """A position with its boost and the engine's own idf, 0 where no document holds it."""

    stack: _Stack
    boost: float
    idf: float


def rewrite(
    body: Json,
    plan: Plan,
    statistics: Mapping[Text, Statistics],
    scheme: Scheme,
    *,
    max_clauses: int = CLAUSES,
    added: Mapping[Text, Sequence[Added]] | None = None,
    recall: bool = False,
) -> Rewritten:
    """Weigh the matches of a body; at q = 1, a = 1, with nothing added, it is the body as it came.

    Parameters
    ----------
    body : JSON
        What `plan` was made of. It is not changed: the new body shares all that is not on the way to a match.
    statistics : mapping of Text to Statistics
        For `plan.texts`; a match without them stays as it is.
    scheme : Scheme
        See `qidf.weighting.resolve`.
    max_clauses : int, default 1024
        Of one match. Beyond, the heaviest stay single and the rest is one plain match, but only where any word may
        match; else the match stays as it is.
    added : mapping of Text to sequence of Added, optional
        The terms that a text is widened by (`qidf.expansion.expanding`), heaviest first; as many as there is room for.
        They add to the scores of documents that the match finds, and find none.
    recall : bool, default False
        They find documents too, but only where any word may match: `operator` and `minimum_should_match` stay what
        they are.

    Raises
    ------
    ValueError
        `max_clauses` is less than 1. Nothing else raises.
    """
    max_clauses = check_count("max_clauses", max_clauses)
    if scheme == _PLAIN and not added:
        return Rewritten(body, (), False)
    weighing = _Weighing(statistics, scheme, max_clauses, added or {}, recall)
    notes = list(plan.notes)
    new: dict[Path, Json] = {}
    for site in plan.sites:
        if at(body, site.path) != site.node:
            notes.append(Note(shown(site.path), "the body is not the one planned"))
            continue
        query, told = _weigh_site(site, weighing)
        notes += [Note(shown(site.path), reason) for reason in told]
        if query is not None:
            new[site.path] = query
    if not new:
        return Rewritten(body, tuple(notes), False)
    around = {path[:i] for path in new for i in range(len(path))}
    notes += [note for path, note in plan.cautions if path in around]
    return Rewritten(replaced(body, new), tuple(notes), True)


class _Weighing(NamedTuple):
    """What all matches of a body are weighed with."""

    statistics: Mapping[Text, Statistics]
    scheme: Scheme
    max_clauses: int
    added: Mapping[Text, Sequence[Added]]
    recall: bool


def _weigh_site(site: Site, weighing: _Weighing) -> tuple[Json, list[str]]:
    """Return what stands in a site's place, None to leave it, and what is to be told."""
    queries, told, weighed = [], [], False
    for match in site.matches:
        query = None
        if match.text:
            try:
                query, more = _weigh(match, match.text, weighing)
                told += more
            except (LeftError, ValueError, OverflowError) as left:
                told.append(str(left))
        weighed = weighed or query is not None
        queries.append(query or {"match": {match.field: dict(match.options)}})
    if not weighed:
        return None, told
    return (queries[0] if site.around is None else {"dis_max": {"queries": queries, **site.around}}), told


def _weigh(match: Match, source: Text, weighing: _Weighing) -> tuple[Json, list[str]]:
    """Return a match as a bool with weights, None where it would be as it is, and what is to be told of it."""
    known, text = weighing.statistics.get(source), source.text
    if weighing.scheme == _PLAIN and not weighing.added.get(source):
        return None, []
    if known is None:
        raise LeftError(f"no statistics of field {match.field[:80]}")
    clauses, scale = _clauses(text, _stacks(text, known.tokens), known, weighing.scheme)
    if not clauses:
        raise LeftError(f"no token for field {match.field[:80]}")
    query: Json = None
    told: list[str] = []
    if len(clauses) > 1 and not all(math.isclose(clause.boost, 1.0, rel_tol=1e-9) for clause in clauses):
        query, told = _weighed(match, text, clauses, weighing.max_clauses)
    added = _added(match, weighing.added.get(source, ()), scale, known.documents)
    added = added[: max(0, weighing.max_clauses - len(clauses))]
    if added and (weighing.recall or any(clause.idf for clause in clauses)):
        query = _widened(match, query, added, weighing.recall)
    return query, told


def _added(match: Match, terms: Sequence[Added], scale: float, N: int) -> list[Json]:
    """Return the clauses of the terms that a match is widened by; they have the factor of the match's own."""
    found = []
    for one in terms:
        own = idf(min(one.n, N), N)
        boost = scale * one.weight / own if own > 0 else 0.0
        if boost > LARGEST:
            raise LeftError("a boost is beyond the engine's 32-bit floats")
        if boost > 0:
            found.append({"term": {match.field: {"value": one.term, "boost": boost}}})
    return found


def _widened(match: Match, query: Json, added: list[Json], recall: bool) -> Json:
    """Return a match, as it is or weighed already, with terms beside it; what matches stays, unless it is to grow."""
    outer = {name: match.options[name] for name in ("boost", "_name") if name in match.options}
    if query is None:
        query = {"match": {match.field: {name: value for name, value in match.options.items() if name not in outer}}}
    else:
        query = {"bool": {name: value for name, value in query["bool"].items() if name not in outer}}
    any_word = match.options.get("operator", "or").lower() == "or" and "minimum_should_match" not in match.options
    if not (recall and any_word):
        return {"bool": {"must": [query], "should": added, **outer}}
    own = query["bool"]["should"] if "bool" in query else [query]
    return {"bool": {"should": [*own, *added], **outer}}


def _weighed(match: Match, text: str, clauses: list[_Clause], max_clauses: int) -> tuple[Json, list[str]]:
    """Return a match as a bool of its positions, and what is to be told of it."""
    if max(clause.boost for clause in clauses) > LARGEST:
        raise LeftError("a boost is beyond the engine's 32-bit floats")
    options = match.options
    required = options.get("operator", "or").lower() == "and"
    single, rest = clauses, []
    if len(clauses) > max_clauses:
        if required or "minimum_should_match" in options or max_clauses < 2:
            raise LeftError(f"more than {max_clauses:,} clauses")
        order = sorted(range(len(clauses)), key=lambda i: -clauses[i].boost * clauses[i].idf)
        single = [clauses[i] for i in sorted(order[: max_clauses - 1])]
        rest = [clauses[i] for i in sorted(order[max_clauses - 1 :])]
    queries = [_query(match, text, clause) for clause in single]
    if rest:
        plain = sum(clause.idf for clause in rest)
        boost = sum(clause.boost * clause.idf for clause in rest) / plain if plain else 1.0
        queries.append(_part(match, " ".join(text[clause.stack.start : clause.stack.end] for clause in rest), boost))
    inner: dict[str, Json] = {"must" if required else "should": queries}
    # Of a single position minimum_should_match may mean nothing (Lucene's QueryBuilder makes no BooleanQuery of one
    # token); of several it counts the clauses, there as here.
    inner |= {name: options[name] for name in ("minimum_should_match", "boost", "_name") if name in options}
    told = f"the lightest {len(rest):,} of {len(clauses):,} clauses have one boost"
    return {"bool": inner}, [told] if rest else []


def _clauses(text: str, stacks: Sequence[_Stack], known: Statistics, scheme: Scheme) -> tuple[list[_Clause], float]:
    """Return the positions with their boosts, and the factor s in all of them.

    A term of the formula is what stands at a position; the n of several terms is the largest, as Lucene's SynonymQuery
    has it. The boost of c equal positions is shared among them, and an unknown term keeps boost 1.
    """
    names: dict[tuple[str, ...], str] = {}
    placed = [(names.setdefault(s.terms, str(len(names))), s.start, s.end, False) for s in stacks]
    N = known.documents
    dfs = [min(N, max(known.dfs.get(term, 0) for term in terms)) for terms in names]
    terms = query_terms(text, placed)  # in the order of `names`
    weighed = {}
    plain = raw = 0.0
    for term, n, boost in zip(terms, dfs, boosts(terms, dfs, N, scheme, idf), strict=True):
        weighed[term.term] = (boost / term.count, idf(n, N)) if n > 0 else (1.0, 0.0)
        if n > 0:
            plain += boost * idf(n, N)
            raw += count_factor(term.count, scheme.a) * idf(n, N, scheme.q(term))
    clauses = [_Clause(stack, *weighed[name]) for stack, (name, *_) in zip(stacks, placed, strict=True)]
    return clauses, plain / raw if raw > 0 else 1.0


def _query(match: Match, text: str, clause: _Clause) -> Json:
    """Return the query of a position: of its term, or of its text where several terms stand there."""
    terms, start, end = clause.stack
    if len(terms) == 1:
        return {"term": {match.field: {"value": terms[0], "boost": clause.boost}}}
    return _part(match, text[start:end], clause.boost)


def _part(match: Match, text: str, boost: float) -> Json:
    """Return a plain match on a part of the text, analyzed as the whole."""
    own = {name: match.options[name] for name in OF_ANALYSIS if name in match.options}
    return {"match": {match.field: {"query": text, "boost": boost, **own}}}


def _stacks(text: str, tokens: Sequence[Placed]) -> list[_Stack]:
    """Return the tokens by position, in order.

    Term vectors tell no position's length, so a graph (a synonym of several words, a word beside its parts) is known
    by tokens of different positions that overlap in the text; a server reads a graph in a way of its own.
    """
    by_position: dict[int, list[Placed]] = {}
    for token in sorted(tokens, key=lambda token: (token.position, token.start)):
        if not 0 <= token.start <= token.end <= len(text):
            raise LeftError("a token is not in the text")
        by_position.setdefault(token.position, []).append(token)
    stacks = [
        _Stack(tuple(token.term for token in one), min(t.start for t in one), max(t.end for t in one))
        for one in by_position.values()
    ]
    last = 0
    for stack in sorted(stacks, key=lambda stack: stack[1:]):
        if stack.start < last:
            raise LeftError("words that overlap, as synonyms of several words do, are left as they are")
        last = stack.end
    if any(len(stack.terms) > 1 and not text[stack.start : stack.end].strip() for stack in stacks):
        raise LeftError("words without a place in the text are left as they are")
    return stacks
