"""Searches on their way to a server, rewritten: what a client's wrapper and the proxy have in common.

    Rewriter.steps([Search(index, body), …])     the bodies to send, after what has to be asked

All of it fails open: whatever is missing or goes wrong, the body goes as it came, with the reason beside it. Knows no
client; what it asks is carried out by whoever calls (`qidf.cluster.steps`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from qidf.cluster.indices import EXPRESSION, Indices, Routing, look
from qidf.cluster.statistics import Wanted, ask
from qidf.cluster.steps import RefusedError, Steps
from qidf.engines.base import EXPAND, Expand, encodable
from qidf.errors import EngineError
from qidf.rewriting import Note, Plan, Statistics, Text, plan, rewrite
from qidf.rewriting.fields import analyzer_name, find_field
from qidf.weighting import check_count, parse_q, resolve

if TYPE_CHECKING:
    from qidf.cluster.vectors import Vectors
    from qidf.expansion.expanding import Added, Proposed
    from qidf.expansion.place import Dictionaries

T = TypeVar("T")

TTL = 60.0
"""Seconds that statistics, mappings and shards are taken for true."""

KEPT_TOKENS = 500_000
KEPT_FIELDS = 200_000
KEPT_ROUTINGS = 1_000
"""What is kept at most: tokens with their statistics, some 100 MB; fields of mappings, some 100 MB; indices' shards."""

_OF_A_TEXT = 10
"""What a text itself takes, in tokens."""

LONGEST = 100_000
"""Code points of a text that is weighed."""

REST = 5.0
"""Seconds without a request of ours after the server failed to answer one."""


class Search(NamedTuple):
    """A search to rewrite.

    Attributes
    ----------
    index : str
        The expression of its indices, escaped as in a path; empty for all.
    body : JSON
    params : mapping
        Of those of its URL, the ones that say how to read `index`.
    user : str
        Anything that differs between users with different rights: what one may know is not kept for another.
    """

    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a search
    body: Any
    params: Mapping[str, Any] = {}
    user: str = ""

    @property
    def reading(self) -> dict[str, str]:
        """The parameters that say how to read `index`."""
        return {name: str(self.params[name]) for name in EXPRESSION if name in self.params}

    @property
    def place(self) -> tuple[Any, ...]:
        """What two searches share that ask about the same indices with the same rights."""
        return self.user, self.index, *self.reading.items()


class Outcome(NamedTuple):
    """What became of a search.

    Attributes
    ----------
    body : JSON
        To be sent: the very object that came in, unless `changed`.
    changed : bool
    notes : tuple of Note
        What was left as it was, and what to look at again.
    error : str
        Why nothing could be done, where something failed; else empty.
    """

    body: Any
    changed: bool
    notes: tuple[Note, ...]
    error: str = ""


class Rewriter:
    """Rewrites searches, and remembers what it asked. Threads may share one.

    Parameters
    ----------
    fields : iterable of str, optional
        The only fields to weigh; all of type text by default.
    q : float or "auto", default "auto"
    a : float, optional
        See `qidf.weighting.resolve`. `"hapax"` can't be had here: `qidf advise` tells it as a number.
    rescore : bool, default False
        Weigh the queries of `rescore` too.
    max_clauses : int, default 1024
        See `qidf.rewriting.rewrite`.
    ttl : float, default 60
        Seconds; 0 asks each time.
    expand : {"auto", "rank", "recall", "off"}, default "auto"
        Widen matches by the identifiers that are made of their words, where there is a dictionary; `auto` is `rank`,
        so that a search finds what it found. See `qidf.engines.base.Expand`, and `qidf.rewriting.rewrite` for what
        `recall` leaves alone. With `rank` or `recall` a field without a dictionary is noted.
    dictionaries : Dictionaries, optional
        Where to look for them; nowhere by default.

    Raises
    ------
    ValueError
        A parameter makes no sense.
    """

    def __init__(
        self,
        fields: Iterable[str] | None = None,
        *,
        q: float | str = "auto",
        a: float | None = None,
        rescore: bool = False,
        max_clauses: int = 1024,
        ttl: float = TTL,
        expand: Expand = "auto",
        dictionaries: Dictionaries | None = None,
    ) -> None:
        if expand not in EXPAND:
            raise ValueError(f"expand must be one of {', '.join(EXPAND)}, got {expand!r}")
        if isinstance(fields, str):
            raise ValueError(f"fields must be a list of names, got {fields!r}")
        self._fields = None if fields is None else frozenset(fields)
        parsed = parse_q(q)
        if parsed == "hapax":
            raise ValueError("q = 'hapax' can't be worked out here: 'qidf advise' tells the number to give")
        self._scheme = resolve(parsed, a, analyzer="standard", hapax_density=0.0)
        self._rescore = rescore
        self._max_clauses = check_count("max_clauses", max_clauses)
        if not 0 <= ttl < float("inf"):
            raise ValueError(f"ttl must be seconds of at least 0, got {ttl!r}")
        self._indices: _Kept[Indices] = _Kept(KEPT_FIELDS, ttl)
        self._known: _Kept[_Known] = _Kept(KEPT_TOKENS, ttl)
        self._expand, self._dictionaries = expand, None if expand == "off" else dictionaries
        self._routing: Routing = {}
        self._resting_until = 0.0

    @property
    def idle(self) -> bool:
        """Whether the weights are BM25's own and there is no dictionary, so that nothing is rewritten."""
        return self._is_plain and not self._dictionaries

    @property
    def _is_plain(self) -> bool:
        return self._scheme.q_shaped == self._scheme.q_word == self._scheme.a == 1.0

    def steps(self, searches: Sequence[Search]) -> Steps[list[Outcome]]:
        """Return the outcome of each search. All of their texts are asked about together.

        Nothing raises but what is not an Exception, such as Ctrl-C.
        """
        if self.idle:
            return [Outcome(search.body, False, ()) for search in searches]
        prepared: list[_Prepared] = []
        for search in searches:
            prepared.append((yield from self._prepare(search)))
        try:
            yield from self._learn(prepared)
            failed = ""
        except Exception as error:
            failed = _line(error)
        return [self._finish(one, failed) for one in prepared]

    def _prepare(self, search: Search) -> Steps[_Prepared]:
        """Return the plan of a search, empty where there is nothing to do or where something went wrong."""
        body = search.body
        if not isinstance(body, dict) or (body.get("query") is None and not (self._rescore and "rescore" in body)):
            return _Prepared(search)
        if "pit" in body:
            return _Prepared(search, _left("pit", "a search in a point in time names no index"))
        try:
            indices = self._indices.get(search.place)
            if indices is None:
                if len(self._routing) > KEPT_ROUTINGS:
                    self._routing.clear()
                indices = yield from self._asking(look(search.index, search.reading, self._routing))
                self._indices.put(search.place, indices, indices.size)
            return _Prepared(search, self._plan(body, indices), indices)
        except Exception as error:
            return _Prepared(search, error=_line(error))

    def _plan(self, body: Any, indices: Indices) -> Plan:
        """Return the one plan for all indices, or an empty one."""
        plans = [
            (plan(body, one.mapping, self._fields, settings=one.settings, rescore=self._rescore), one.mapping)
            for one in indices.kinds
        ]
        first = next((one for one, _ in plans if one), plans[0][0])
        for other, mapping in plans:
            same = (other.texts, other.sites) == (first.texts, first.sites)
            if not same and any(find_field(text.field, mapping) for text in (*first.texts, *other.texts)):
                return _left("", "the indices map a field in different ways")
        if any(len(text.text) > LONGEST for text in first.texts):
            return _left("", f"a text has more than {LONGEST:,} characters")
        return first

    def _learn(self, prepared: Sequence[_Prepared]) -> Steps[None]:
        """Ask for the statistics that are not known yet."""
        needed: dict[Any, _Needed] = {}
        for one in prepared:
            for text in one.plan.texts:
                key = *one.search.place, text
                if one.indices and key not in needed and self._known.get(key) is None:
                    proposed, note = self._propose(one.search, one.indices, text)
                    if self._is_plain and not proposed:
                        self._known.put(key, _Known(Statistics((), {}, 0), (), note), _OF_A_TEXT)
                        continue
                    where = one.indices, one.search.index, one.search.reading, text.field
                    wanted = [Wanted(*where, encodable(text.text), text.analyzer)]
                    if proposed and proposed.terms:
                        wanted.append(Wanted(*where, proposed.terms, "keyword"))
                    needed[key] = _Needed(wanted, proposed, note)
        if needed:
            found = iter((yield from self._asking(ask([one for own in needed.values() for one in own.wanted]))))
            for key, (wanted, proposed, note) in needed.items():
                known = self._understood([next(found) for _ in wanted], proposed, note)
                self._known.put(key, known, _OF_A_TEXT + len(known.statistics.tokens) + len(known.added))

    def _propose(self, search: Search, indices: Indices, text: Text) -> tuple[Proposed | None, str]:
        """Return what a dictionary of the field knows of a text, and what is to be noted."""
        if self._dictionaries is None:
            return None, ""
        from qidf.expansion.expanding import propose

        names = [unquote(search.index)] if search.index else []
        names += [index.name for index in indices.all] if len(indices.all) == 1 else []
        try:
            found = self._dictionaries.find(names, text.field, analyzer_name(text.analyzer))
            if found is not None:
                return propose(found, text.text, self._scheme), ""
        except Exception as error:
            return None, f"queries are not expanded: {_line(error)}"
        missing = f"field {text.field} has no dictionary (qidf dictionary build)"
        return None, "" if self._expand == "auto" else missing

    def _understood(self, vectors: Sequence[Vectors], proposed: Proposed | None, note: str) -> _Known:
        """Return what the answers about a text, and about the terms that may be added, come to."""
        own = vectors[0]
        statistics = Statistics(own.tokens, own.dfs, own.documents)
        if proposed is None:
            return _Known(statistics, (), note)
        from qidf.expansion.expanding import choose

        held = vectors[1].dfs if len(vectors) > 1 else {}
        terms = {token.term for token in own.tokens}
        return _Known(statistics, choose(proposed, terms, own.documents, self._scheme, held), note)

    def _asking(self, steps: Steps[T]) -> Steps[T]:
        """Carry steps out, unless the server failed a moment ago: then a search had better not wait for it again."""
        if time.monotonic() < self._resting_until:
            raise EngineError("the server did not answer a moment ago")
        try:
            return (yield from steps)
        except RefusedError:
            raise
        except Exception:
            self._resting_until = time.monotonic() + REST
            raise

    def _finish(self, one: _Prepared, failed: str) -> Outcome:
        body = one.search.body
        if one.error or not one.plan:
            return Outcome(body, False, one.plan.notes, one.error)
        try:
            found = {text: self._known.get((*one.search.place, text), stale=True) for text in one.plan.texts}
            known = {text: own for text, own in found.items() if own is not None}
            if failed and len(known) < len(found):
                return Outcome(body, False, one.plan.notes, failed)
            new = rewrite(
                body,
                one.plan,
                {text: own.statistics for text, own in known.items()},
                self._scheme,
                max_clauses=self._max_clauses,
                added={text: own.added for text, own in known.items() if own.added},
                recall=self._expand == "recall",
            )
            more = tuple(Note("", note) for note in dict.fromkeys(own.note for own in known.values()) if note)
            return Outcome(new.body, new.changed, new.notes + more)
        except Exception as error:
            return Outcome(body, False, one.plan.notes, _line(error))


class _Known(NamedTuple):
    """What is known of a text: its statistics, the terms that it is widened by, and why there are none."""

    statistics: Statistics
    added: Sequence[Added]
    note: str


class _Needed(NamedTuple):
    wanted: list[Wanted]
    proposed: Proposed | None
    note: str


class _Prepared(NamedTuple):
    search: Search
    plan: Plan = Plan((), (), (), ())
    indices: Indices | None = None
    error: str = ""


def _left(path: str, why: str) -> Plan:
    return Plan((), (Note(path, f"{why}: left as it is"),), (), ())


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, EngineError) else f"{type(error).__name__}{text and ': '}{text}"


class _Kept(Generic[T]):
    """The newest values, of so much size together, each for some seconds; what is older may still be had as stale."""

    def __init__(self, most: int, ttl: float) -> None:
        self._most, self._ttl = most, ttl
        self._values: OrderedDict[Any, tuple[float, T, int]] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, key: Any, *, stale: bool = False) -> T | None:
        with self._lock:
            until, value, _ = self._values.get(key, (0.0, None, 0))
        return value if stale or until > time.monotonic() else None

    def put(self, key: Any, value: T, size: int = 1) -> None:
        with self._lock:
            _, _, old = self._values.pop(key, (0.0, None, 0))
            self._values[key] = time.monotonic() + self._ttl, value, size
            self._total += size - old
            while self._total > self._most and len(self._values) > 1:
                _, (_, _, freed) = self._values.popitem(last=False)
                self._total -= freed
