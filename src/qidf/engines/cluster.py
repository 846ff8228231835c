"""A search server, OpenSearch: one text field of an index, an alias or a pattern, with weights at query time.

Statistics come from term vectors of documents that do not exist: the query's text is analyzed on each shard with the
mapping's own analyzer, and comes back as tokens, with df, N and the field's tokens beside them. One request a query,
read privilege only; nothing is written, and `_analyze` is not needed. Scores are exact with `dfs_query_then_fetch`,
which makes all shards use the sums of these statistics.

Knows requests and answers; which client carries them is the business of `qidf.engines.opensearch`.
"""

from __future__ import annotations

import random
import re
import threading
import time
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from qidf.analysis import Token
from qidf.cluster.indices import Index, look
from qidf.cluster.statistics import Wanted, ask
from qidf.cluster.steps import Asked, BusyError, RefusedError, carry_out
from qidf.cluster.vectors import Vectors
from qidf.engines.base import Clause, Collection, Engine, Expand, Model, Row, encodable, has_surrogates
from qidf.errors import EngineError, EngineWarning
from qidf.index.search import Hit
from qidf.rewriting.fields import Field, analyzer_name, analyzer_of, find_field, similarity_of
from qidf.weighting import K1, B, Q, Scheme, check_count

if TYPE_CHECKING:
    from qidf.expansion.dictionary import Dictionary
    from qidf.expansion.expanding import Proposed
    from qidf.spectrum import Spectrum

TTL = 60.0
"""Seconds that df and N are kept before they are asked for again."""

KEPT = 100_000
"""Terms whose df is kept."""

CLAUSES = 1024
"""A server's own default of the most clauses of a query."""

WINDOW = 10_000
"""The deepest rank, as `index.max_result_window` has it."""

PAGE = 1000
"""Documents of a page when all are read."""

WINDOW = 10_000
"""Sequence numbers of a shard, below the last that was read, of which some may show only later."""

PAUSES = (0.1, 0.4, 1.6)
"""Seconds between two tries of a request, give or take half of each."""

_LONGEST = 8191  # code points that always fit into the 32,766 bytes of a term
_WEIGHT = re.compile(r"weight\((?P<field>.*?):(?P<term>.*) in \d+\)", re.DOTALL)


class Request(Protocol):
    """What carries a request to the server and its JSON back; EngineError where that fails."""

    def __call__(self, method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        """Return what the server answers."""


def patient(request: Request) -> Request:
    """Return `request` for a server that may be away or busy for a moment: it is tried again after each of `PAUSES`."""

    def tried(method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        for pause in PAUSES:
            try:
                return request(method, path, params, body)
            except BusyError:
                time.sleep(pause * random.uniform(0.5, 1.5))  # so that many who were sent away don't return at once
        return request(method, path, params, body)

    return tried


class Connection(NamedTuple):
    """The way to a server: requests, which product answers them, in which version, and its name in messages."""

    request: Request
    product: str
    version: tuple[int, ...]
    url: str

    @property
    def k1_plus_1(self) -> bool:
        """Whether scores carry (k1 + 1): so those of OpenSearch before 3 and of every Elasticsearch do."""
        return self.product != "opensearch" or self.version < (3,)


class Cluster(Engine):
    """A text field of an index on a server.

    A `filter` is a query of the server's own language, as a dict; it adds nothing to a score. A document's id is its
    `_id`, with its index in front (`index/id`) where several are searched.

    Parameters
    ----------
    way : Connection
        To the server.
    index : str
        An index, an alias, a data stream, or a pattern of them.
    field : str
        Of type text, with norms.
    analyzer : str, default the mapping's `search_analyzer`, else its `analyzer`
        The name of an analyzer of the index.
    exact : bool, default True
        Search with `dfs_query_then_fetch`. Without it each shard has an idf of its own, and scores are near.
    max_clauses : int, default 1024
        Terms of a query, as the server's `indices.query.bool.max_clause_count` has it; beyond, the heaviest stay.

    Raises
    ------
    EngineError
        The server is away or refuses, there is no such index or field, or BM25 can't work on the field.
    """

    def __init__(
        self,
        way: Connection,
        index: str,
        field: str,
        *,
        analyzer: str = "",
        exact: bool = True,
        max_clauses: int = CLAUSES,
    ) -> None:
        self.way, self.url = way, way.url
        self.index, self.field = index, field
        self._request = way.request
        self._exact = exact
        self._max_clauses = max_clauses
        self._indices = carry_out(look(quoted(index), {}, {}), self._send)
        found = {
            self._check(known, one)
            for one in self._indices.kinds
            if (known := find_field(field, one.mapping)) is not None
        }
        if not found:
            raise EngineError(f"field {field!r} of {self.url} does not exist")
        if len(found) > 1:
            raise EngineError(f"the indices of {self.url} analyze or score field {field!r} in different ways: name one")
        ((self.field, self._source, name, k1, b),) = found
        self._analyzer = analyzer or name
        self.analyzer = analyzer_name(self._analyzer)
        self.analyzes_remotely = self._analyzer != "standard"
        self.resumable = True
        self.model = Model(
            k1, b, k1_plus_1=way.k1_plus_1, byte_lengths=True, counts_deleted=True, counts_empty=False, float_bits=32
        )
        self._several = len(self._indices.all) > 1
        self._lock = threading.Lock()
        self._dfs: dict[str, tuple[float, int]] = {}
        self._counted: tuple[float, Collection] | None = None
        self._analyzed: tuple[str, list[Token]] = ("", [])
        self._proposed: tuple[Any, Proposed] | None = None

    def analyze(self, text: str) -> list[Token]:
        with self._lock:
            last, tokens = self._analyzed
        if text != last:  # a search, its explanation and its remarks ask for the same text
            (found,) = self._ask((encodable(text), self._analyzer))
            tokens = self._keep_tokens(text, found)
        return list(tokens)

    def collection(self) -> Collection:
        with self._lock:
            counted = self._counted
        if counted is None or counted[0] < time.monotonic():
            self._count(["a"])  # any term will do, a stop word too: the statistics are the field's
            counted = self._counted
        assert counted is not None
        return counted[1]

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        now, N = time.monotonic(), self.collection().documents
        with self._lock:
            known = {term: self._dfs[term][1] for term in terms if term in self._dfs and self._dfs[term][0] >= now}
        rest = [term for term in terms if term not in known]
        if rest:
            known |= self._count(rest)
        return [min(known[term], N) for term in terms]

    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        most = self._max_clauses
        if len(clauses) > most:
            warnings.warn(
                f"the query has {len(clauses):,} terms, and the server takes {most:,}: the lightest are left out",
                EngineWarning,
                stacklevel=4,
            )
            N = self.collection().documents
            clauses = sorted(clauses, key=lambda one: (one.optional, -one.boost * self.idf(one.n, N)))[:most]
        own = [self._term(clause.term, clause.boost) for clause in clauses if not clause.optional]
        optional = [self._term(clause.term, clause.boost) for clause in clauses if clause.optional]
        query: dict[str, Any] = {"bool": {"should": own}}
        if optional:
            query = {"bool": {"must": [query], "should": optional}}
        elif filter is not None:
            query["bool"]["minimum_should_match"] = 1
        if filter is not None:
            query["bool"]["filter"] = [filter]
        return self._hits(query, k)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        q: Q | str = "auto",
        a: float | None = None,
        filter: Any = None,
        expand: Expand = "auto",
    ) -> list[Hit]:
        """Return the k best documents. Where the server tells no statistics: for the query as it is, with a warning."""
        self.scheme(q, a)
        try:
            clauses = self._clauses(query, q, a, expand)
        except EngineError as error:
            hits = self._plain(query, check_count("k", k), filter)
            warnings.warn(f"plain BM25, for the statistics can't be had: {error}", EngineWarning, stacklevel=2)
            return hits
        return self._run(clauses, k, filter)

    def _rows(self, query: str, scheme: Scheme, expand: Expand, *, unknown: bool = False) -> list[Row]:
        if expand != "off" and isinstance(query, str) and (proposed := self._proposal(query, scheme)):
            self._ask_together(query, proposed.terms)
        return super()._rows(query, scheme, expand, unknown=unknown)

    def _ask_together(self, query: str, terms: Sequence[str]) -> None:
        """Ask for a query's tokens and for the dfs of terms that it may be widened by, in one request."""
        now = time.monotonic()
        with self._lock:
            is_analyzed = self._analyzed[0] == query
            rest = [term for term in terms if term not in self._dfs or self._dfs[term][0] < now]
            rest = list(filter(_is_askable, rest))
        if is_analyzed or not rest:
            return
        own, added = self._ask((encodable(query), self._analyzer), (rest, "keyword"))
        self._keep_tokens(query, own)
        with self._lock:
            self._dfs |= {term: (now + TTL, 0) for term in rest if term not in added.dfs}

    def _propose(self, dictionary: Dictionary, query: str, scheme: Scheme) -> Proposed:
        key = dictionary, query, scheme
        with self._lock:
            last = self._proposed
        if last is None or last[0] != key:
            last = key, super()._propose(dictionary, query, scheme)
            with self._lock:
                self._proposed = last
        return last[1]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        index, document = self._split(id)
        known = [term for term, n in zip(terms, self.doc_freqs(terms), strict=True) if n]
        told: dict[str, tuple[float, int | None]] = {}
        self._get(index, document)
        for start in range(0, len(known), self._max_clauses):
            should = [self._term(term, 1.0) for term in known[start : start + self._max_clauses]]
            bool_query = {"filter": [{"ids": {"values": [document]}}], "should": should}
            answer = self._search({"query": {"bool": bool_query}, "size": 10, "explain": True, "_source": False})
            for hit in answer["hits"]["hits"]:
                if self._id(hit) == id:
                    told |= _parts(hit["_explanation"], self.field)
        return [told.get(term, (0.0, 0)) for term in terms]

    @cached_property
    def hapax_density(self) -> float:
        """h, estimated from a random sample of documents the first time it is asked for: some dozens of requests."""
        from qidf.cluster.sampling import hapax_density

        return hapax_density(self).h

    def spectrum(self) -> Spectrum:
        """Raise EngineError: a server does not list its terms."""
        raise EngineError(
            f"the terms of {self.url} can't be worked out: a server does not list them (give q as a number)"
        )

    def text(self, id: str) -> str | None:
        index, document = self._split(id)
        return self._text_in(self._get(index, document))

    def _text_in(self, hit: dict[str, Any]) -> str | None:
        value: Any = hit.get("_source", {})
        for name in self._source.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = "\n".join(str(one) for one in value)
        return value if isinstance(value, str) else None

    def texts(self) -> Iterator[str]:
        """Yield the texts in `_source`; what is written meanwhile may come twice."""
        yield from (text for texts, _ in self.read() for text in texts)

    def read(self, checkpoint: Any = None, size: int = PAGE) -> Iterator[tuple[list[str], Any]]:
        """Yield the texts in `_source`, so many documents at a time, with the checkpoint behind them.

        Shard by shard through a point in time, which is opened anew where it expired, in the order of `_seq_no`: what
        is written later has higher ones. But a copy of a shard may show one before a lower one, so the last 10,000 are
        looked through again: a checkpoint is {"INDEX UUID": {shard: [first, last] of what was read there, …}}.
        """
        checkpoint = {name: dict(shards) for name, shards in (checkpoint or {}).items()}
        for name, key in sorted(self._uuids().items()):
            shards = checkpoint.setdefault(key, {})
            for number in map(str, self._shards(name)):
                last = max((end for _, end in shards.get(number, [])), default=-1)
                for hits in self._pages(name, number, last - WINDOW, size):
                    known = shards.get(number, [])
                    new = [hit for hit in hits if not _covers(known, hit["sort"][0])]
                    if not new:
                        continue
                    shards[number] = _joined(known, [hit["sort"][0] for hit in new])
                    texts = [text for hit in new if (text := self._text_in(hit)) is not None]
                    yield texts, {name: dict(own) for name, own in checkpoint.items()}

    def can_resume(self, checkpoint: Any) -> bool:
        try:
            for shards in checkpoint.values():
                for ranges in shards.values():
                    _joined(ranges, [])
            return set(checkpoint) <= set(self._uuids().values())
        except (AttributeError, TypeError, ValueError):  # not what `read` told
            return False

    def requests_to_read(self, documents: int) -> int:
        """Return about how many requests `read` sends for so many documents: pages, and four for each shard."""
        shards = sum(len(self._shards(index.name)) for index in self._indices.all)
        return 1 + len(self._indices.all) + -(-documents // PAGE) + 4 * shards

    def _uuids(self) -> dict[str, str]:
        """Return {index: its name and UUID}: an index that was made anew has another."""
        told = self._request("GET", f"/{self.index}/_settings", {"filter_path": "*.settings.index.uuid"})
        return {name: f"{name} {own['settings']['index']['uuid']}" for name, own in told.items()}

    def _shards(self, index: str) -> list[int]:
        answer = self._request("GET", f"/{index}/_search_shards")
        return sorted({copies[0]["shard"] for copies in answer["shards"]})

    def _pages(self, index: str, shard: str, last: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the hits of a shard behind a sequence number, some at a time. One request each."""
        pit, is_new = self._point_in_time(index, shard), True
        try:
            while True:
                body = {
                    "size": size,
                    "query": {"bool": {"filter": [{"range": {"_seq_no": {"gt": last}}}]}},
                    "sort": [{"_seq_no": "asc"}],
                    "_source": [self._source],
                    "track_total_hits": False,
                    "pit": {"id": pit, "keep_alive": "5m"},
                }
                try:
                    hits = self._request("POST", "/_search", None, body)["hits"]["hits"]
                except RefusedError:
                    if is_new:
                        raise
                    pit, is_new = self._point_in_time(index, shard), True  # it may have expired
                    continue
                is_new = False
                if not hits:
                    return
                yield hits
                last = hits[-1]["sort"][0]
        finally:
            self._forget_point_in_time(pit)

    # requests

    def _point_in_time(self, index: str, shard: str) -> str:
        mine = self.way.product == "opensearch"
        path = f"/{index}/_search/point_in_time" if mine else f"/{index}/_pit"
        params = {"keep_alive": "5m", "preference": f"_shards:{shard}"}
        return str(self._request("POST", path, params)["pit_id" if mine else "id"])

    def _forget_point_in_time(self, pit: str) -> None:
        mine = self.way.product == "opensearch"
        try:
            if mine:
                self._request("DELETE", "/_search/point_in_time", None, {"pit_id": [pit]})
            else:
                self._request("DELETE", "/_pit", None, {"id": pit})
        except EngineError:  # it ends by itself
            pass

    def _ask(self, *values: tuple[str | list[str], str]) -> list[Vectors]:
        """Return what the shards tell of texts, or of terms as they are, each with an analyzer: one request.

        Their statistics are kept.
        """
        indices, name = self._indices, quoted(self.index)
        wanted = [Wanted(indices, name, {}, self.field, value, analyzer) for value, analyzer in values]
        found = carry_out(ask(wanted), self._send)
        for vectors in found:
            self._keep(vectors)
        return found

    def _keep_tokens(self, text: str, vectors: Vectors) -> list[Token]:
        tokens = [Token(token.term, token.start, token.end) for token in vectors.tokens]
        with self._lock:
            self._analyzed = text, tokens
        return tokens

    def _send(self, asked: Asked) -> Any:
        return self._request(asked.method, unquote(asked.path), asked.params, asked.body)

    def _keep(self, vectors: Vectors) -> None:
        until = time.monotonic() + TTL
        length, documents = vectors.length, vectors.documents
        average = None if length is None else length / documents if documents else 0.0
        with self._lock:
            if vectors.dfs:  # a text without tokens has no statistics either
                self._counted = until, Collection(documents, length, average)
            elif self._counted is None:
                self._counted = until, Collection(0, 0, 0.0)
            if len(self._dfs) + len(vectors.dfs) > KEPT:
                self._dfs.clear()
            self._dfs |= {term: (until, n) for term, n in vectors.dfs.items()}

    def _count(self, terms: Sequence[str]) -> dict[str, int]:
        """Return df of terms as they are, through the one analyzer that leaves a text as it is."""
        able = list(filter(_is_askable, terms))
        dfs = self._ask((able, "keyword"))[0].dfs if able else {}
        return {term: dfs.get(term, 0) for term in terms}

    def _search(self, body: dict[str, Any]) -> Any:
        params = {"search_type": "dfs_query_then_fetch"} if self._exact else {}
        return self._request("POST", f"/{self.index}/_search", params, body)

    def _plain(self, query: str, k: int, filter: Any) -> list[Hit]:
        match = {"match": {self.field: {"query": encodable(query), "analyzer": self._analyzer}}}
        return self._hits({"bool": {"must": [match], "filter": [] if filter is None else [filter]}}, k)

    def _hits(self, query: dict[str, Any], k: int) -> list[Hit]:
        if k > WINDOW:
            raise ValueError(f"k must be at most {WINDOW:,} on a server, got {k!r}")
        hits = self._search({"query": query, "size": k, "_source": False})["hits"]["hits"]
        return [Hit(rank, self._id(hit), "", 1, float(hit["_score"])) for rank, hit in enumerate(hits, 1)]

    def _term(self, term: str, boost: float) -> dict[str, Any]:
        return {"term": {self.field: {"value": term, "boost": boost}}}

    def _get(self, index: str, document: str) -> dict[str, Any]:
        body = {"query": {"ids": {"values": [encodable(document)]}}, "size": 1}
        hits = self._request("POST", f"/{index}/_search", None, body)["hits"]["hits"]
        if not hits or has_surrogates(document):
            raise KeyError(document)
        found: dict[str, Any] = hits[0]
        return found

    def _id(self, hit: dict[str, Any]) -> str:
        return f"{hit['_index']}/{hit['_id']}" if self._several else str(hit["_id"])

    def _split(self, id: str) -> tuple[str, str]:
        if not self._several:
            return self.index, id
        index, _, document = id.partition("/")
        if index not in {one.name for one in self._indices.all}:
            raise KeyError(id)
        return index, document

    # what the index is

    def _check(self, field: Field, index: Index) -> tuple[str, str, str, float, float]:
        """Return the field's name and source, its analyzer, k1 and b. EngineError if BM25 can't work on it."""
        own = field.mapping
        name = f"field {self.field!r} of {self.url}"
        if own.get("type") not in ("text", "annotated_text"):
            raise EngineError(f"{name} is of type {own.get('type', 'object')}, not text")
        if field.nested:
            raise EngineError(f"{name} is nested: its documents are not those that a search finds")
        if own.get("norms") is False:
            raise EngineError(f"{name} has norms off, which BM25 needs")
        if own.get("index") is False:
            raise EngineError(f"{name} is not indexed")
        if own.get("index_options") == "docs":
            raise EngineError(f"{name} counts no terms (index_options docs)")
        similarity = similarity_of(own.get("similarity", "default"), index.settings)
        if similarity.get("type") != "BM25":
            raise EngineError(f"{name} is scored by {similarity.get('type')}, not BM25")
        k1, b = float(similarity.get("k1", K1)), float(similarity.get("b", B))
        return field.name, field.source, analyzer_of(field.name, index.mapping, index.settings), k1, b


def _parts(explanation: dict[str, Any], field: str) -> dict[str, tuple[float, int | None]]:
    """Return {term: (part, tf)} out of a hit's explanation."""
    found: dict[str, tuple[float, int | None]] = {}
    match = _WEIGHT.match(explanation.get("description", ""))
    if match and match["field"] == field:
        idf = next(_values(explanation, "idf"), 0.0)
        tf = next(_values(explanation, "freq, occurrences"), None)
        if idf:
            found[match["term"]] = float(explanation["value"]) / idf, None if tf is None else int(tf)
        return found
    for detail in explanation.get("details", ()):
        found |= _parts(detail, field)
    return found


def _values(explanation: dict[str, Any], begins: str) -> Iterator[float]:
    """Yield the values whose description begins so, wherever they stand."""
    if explanation.get("description", "").startswith(begins):
        yield float(explanation["value"])
    for detail in explanation.get("details", ()):
        yield from _values(detail, begins)


def _covers(ranges: list[list[int]], number: int) -> bool:
    at = bisect_right(ranges, number, key=lambda one: one[0])
    return at > 0 and number <= ranges[at - 1][1]


def _joined(ranges: list[list[int]], numbers: list[int]) -> list[list[int]]:
    """Return ascending ranges with more numbers in them, without those that lie far below the last."""
    out: list[list[int]] = []
    for first, last in sorted([*ranges, *([number, number] for number in numbers)]):
        if out and first <= out[-1][1] + 1:
            out[-1][1] = max(out[-1][1], last)
        else:
            out.append([first, last])
    return [one for one in out if one[1] > out[-1][1] - WINDOW]


def _is_askable(term: str) -> bool:
    """Return whether an index can hold a term, and so be asked about it."""
    return 0 < len(term) <= _LONGEST and not has_surrogates(term)


def quoted(path: str) -> str:
    """Return a path with what can't stand in one escaped."""
    return quote(path, safe="/_,*-.:<>+~")
