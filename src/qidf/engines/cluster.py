"""A search server, OpenSearch: one text field of an index, an alias or a pattern, with weights at query time.

Statistics come from term vectors of documents that do not exist: the query's text is analyzed on each shard with the
mapping's own analyzer, and comes back as tokens, with df, N and the field's tokens beside them. One request a query,
read privilege only; nothing is written, and `_analyze` is not needed. Scores are exact with `dfs_query_then_fetch`,
which makes all shards use the sums of these statistics.

Knows requests and answers; which client carries them is the business of `qidf.engines.opensearch`.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from qidf.analysis import Token
from qidf.engines.base import Clause, Collection, Engine, Model, code_points, encodable, has_surrogates
from qidf.errors import EngineError, EngineWarning
from qidf.index.search import Hit
from qidf.weighting import K1, B

if TYPE_CHECKING:
    from qidf.spectrum import Spectrum

TTL = 60.0
"""Seconds that df and N are kept before they are asked for again."""

KEPT = 100_000
"""Terms whose df is kept."""

CLAUSES = 1024
"""A server's own default of the most clauses of a query."""

WINDOW = 10_000
"""The deepest rank, as `index.max_result_window` has it."""

_LONGEST = 8191  # code points that always fit into the 32,766 bytes of a term
_WEIGHT = re.compile(r"weight\((?P<field>.*?):(?P<term>.*) in \d+\)", re.DOTALL)


class Request(Protocol):
    """What carries a request to the server and its JSON back; EngineError where that fails."""

    def __call__(self, method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        """Return what the server answers."""


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


class Shard(NamedTuple):
    """A shard, and a routing value that leads to it."""

    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a shard
    routing: str


class Vectors(NamedTuple):
    """What the shards tell of a text: its tokens, {term: n}, N and the sum of the lengths."""

    tokens: list[Token]
    dfs: dict[str, int]
    documents: int
    length: int


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
        mapping = self._mapping()
        self._analyzer = analyzer or mapping.get("search_analyzer", "")
        name = self._analyzer or mapping.get("analyzer", "standard")
        self.analyzer = name if name in ("standard", "default") else f"{name} of the index"
        self.analyzer = "standard" if self.analyzer == "default" else self.analyzer
        k1, b = self._similarity(mapping.get("similarity", "default"))
        self.model = Model(
            k1, b, k1_plus_1=way.k1_plus_1, byte_lengths=True, counts_deleted=True, counts_empty=False, float_bits=32
        )
        self._shards = self._find_shards()
        self._several = len({shard.index for shard in self._shards}) > 1
        self._lock = threading.Lock()
        self._dfs: dict[str, tuple[float, int]] = {}
        self._counted: tuple[float, Collection] | None = None
        self._analyzed: tuple[str, list[Token]] = ("", [])

    def analyze(self, text: str) -> list[Token]:
        with self._lock:
            last, tokens = self._analyzed
        if text != last:  # a search, its explanation and its remarks ask for the same text
            tokens = self._ask(encodable(text), self._analyzer).tokens
            with self._lock:
                self._analyzed = text, tokens
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
        if k > WINDOW:
            raise ValueError(f"k must be at most {WINDOW:,} on a server, got {k!r}")
        most = self._max_clauses
        if len(clauses) > most:
            warnings.warn(
                f"the query has {len(clauses):,} terms, and the server takes {most:,}: the lightest are left out",
                EngineWarning,
                stacklevel=4,
            )
            N = self.collection().documents
            clauses = sorted(clauses, key=lambda clause: -clause.boost * self.idf(clause.n, N))[:most]
        query: dict[str, Any] = {"bool": {"should": [self._term(term, boost) for term, _, boost in clauses]}}
        if filter is not None:
            query["bool"] |= {"filter": [filter], "minimum_should_match": 1}
        answer = self._search({"query": query, "size": k, "_source": False})
        hits = answer["hits"]["hits"]
        return [Hit(rank, self._id(hit), "", 1, float(hit["_score"])) for rank, hit in enumerate(hits, 1)]

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

    def spectrum(self) -> Spectrum:
        """Raise EngineError: a server does not list its terms."""
        raise EngineError(
            f"the terms of {self.url} can't be worked out: a server does not list them (give q as a number)"
        )

    def text(self, id: str) -> str | None:
        index, document = self._split(id)
        value: Any = self._get(index, document).get("_source", {})
        for name in self.field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, list):
            value = "\n".join(str(one) for one in value)
        return value if isinstance(value, str) else None

    # requests

    def _ask(self, value: str | list[str], analyzer: str) -> Vectors:
        """Return what the shards tell of a text, or of terms as they are, and keep their statistics: one request."""
        docs = [self._artificial(shard, value, analyzer) for shard in self._shards]
        vectors = self._sum(value, self._request("POST", "/_mtermvectors", None, {"docs": docs})["docs"])
        self._keep(vectors)
        return vectors

    def _artificial(self, shard: Shard, value: str | list[str], analyzer: str) -> dict[str, Any]:
        """Return the request for the vectors of a document that is not there, on one shard."""
        request: dict[str, Any] = {
            "_index": shard.index,
            "doc": {self.field: value},
            "fields": [self.field],
            "routing": shard.routing,
            "positions": True,
            "offsets": True,
            "payloads": False,
            "term_statistics": True,
            "field_statistics": True,
        }
        if analyzer:
            request["per_field_analyzer"] = {self.field: analyzer}
        return request

    def _sum(self, value: str | list[str], answers: Sequence[dict[str, Any]]) -> Vectors:
        """Add the shards' statistics up; the tokens of a text are the same on each."""
        dfs: dict[str, int] = {}
        tokens: list[tuple[int, Token]] = []
        documents = length = 0
        at = code_points(value) if isinstance(value, str) else None
        for number, answer in enumerate(answers):
            if "error" in answer:
                raise EngineError(f"{self.url} can't be read. The server says: {_reason(answer['error'])}")
            vectors = answer.get("term_vectors", {}).get(self.field, {})
            statistics = vectors.get("field_statistics", {})
            documents += max(0, statistics.get("doc_count", 0))
            length += max(0, statistics.get("sum_ttf", 0))
            for term, entry in vectors.get("terms", {}).items():
                dfs[term] = dfs.get(term, 0) + entry.get("doc_freq", 0)
                if not number and at is not None:
                    tokens += [
                        (one["position"], Token(term, at(one["start_offset"]), at(one["end_offset"])))
                        for one in entry["tokens"]
                    ]
        tokens.sort(key=lambda token: (token[0], token[1].start))
        return Vectors([token for _, token in tokens], dfs, documents, length)

    def _keep(self, vectors: Vectors) -> None:
        until = time.monotonic() + TTL
        average = vectors.length / vectors.documents if vectors.documents else 0.0
        with self._lock:
            if vectors.dfs:  # a text without tokens has no statistics either
                self._counted = until, Collection(vectors.documents, vectors.length, average)
            elif self._counted is None:
                self._counted = until, Collection(0, 0, 0.0)
            if len(self._dfs) + len(vectors.dfs) > KEPT:
                self._dfs.clear()
            self._dfs |= {term: (until, n) for term, n in vectors.dfs.items()}

    def _count(self, terms: Sequence[str]) -> dict[str, int]:
        """Return df of terms as they are, through the one analyzer that leaves a text as it is."""
        able = [term for term in terms if term and len(term) <= _LONGEST and not has_surrogates(term)]
        dfs = self._ask(able, "keyword").dfs if able else {}
        return {term: dfs.get(term, 0) for term in terms}

    def _search(self, body: dict[str, Any]) -> Any:
        params = {"search_type": "dfs_query_then_fetch"} if self._exact else {}
        return self._request("POST", f"/{self.index}/_search", params, body)

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
        if index not in {shard.index for shard in self._shards}:
            raise KeyError(id)
        return index, document

    # what the index is

    def _mapping(self) -> dict[str, Any]:
        """Return the field's mapping. EngineError if there is none that BM25 can work on."""
        answer = self._request("GET", f"/{self.index}/_mapping/field/{self.field}")
        found: list[dict[str, Any]] = []
        for index in answer.values():
            for entry in index["mappings"].values():
                found += entry.get("mapping", {}).values()
        if not answer:
            raise EngineError(f"no index {self.index} on the server ({self.url})")
        if not found:
            raise EngineError(f"field {self.field!r} of {self.url} does not exist")
        for mapping in found:
            if mapping.get("type") not in ("text", "annotated_text"):
                raise EngineError(f"field {self.field!r} of {self.url} is of type {mapping.get('type')}, not text")
            if mapping.get("norms") is False:
                raise EngineError(f"field {self.field!r} of {self.url} has norms off, which BM25 needs")
            if mapping.get("index") is False:
                raise EngineError(f"field {self.field!r} of {self.url} is not indexed")
            if mapping.get("index_options") == "docs":
                raise EngineError(f"field {self.field!r} of {self.url} counts no terms (index_options docs)")
        return found[0]

    def _similarity(self, name: str) -> tuple[float, float]:
        """Return k1 and b of the field's similarity. EngineError if that is no BM25."""
        answer = self._request("GET", f"/{self.index}/_settings/index.similarity.*")
        for index in answer.values():
            similarities = index.get("settings", {}).get("index", {}).get("similarity", {})
            chosen = similarities.get(name) or (similarities.get("default") if name in ("default", "BM25") else None)
            if chosen:
                if chosen.get("type") != "BM25":
                    raise EngineError(f"field {self.field!r} of {self.url} is scored by {chosen.get('type')}, not BM25")
                return float(chosen.get("k1", K1)), float(chosen.get("b", B))
        if name not in ("default", "BM25"):
            raise EngineError(f"field {self.field!r} of {self.url} is scored by {name}, not BM25")
        return K1, B

    def _find_shards(self) -> list[Shard]:
        """Return all shards, each with a routing value that leads to it."""
        answer = self._request("GET", f"/{self.index}/_search_shards")
        wanted = {(copy["index"], copy["shard"]) for copies in answer["shards"] for copy in copies[:1]}
        found: list[Shard] = []
        for index in sorted({index for index, _ in wanted}):
            missing = {shard for name, shard in wanted if name == index}
            for routing in range(64 * len(missing)):
                if not missing:
                    break
                copies = self._request("GET", f"/{index}/_search_shards", {"routing": str(routing)})["shards"]
                for shard in {copy[0]["shard"] for copy in copies} & missing:
                    missing.discard(shard)
                    found.append(Shard(index, str(routing)))
            if missing:
                raise EngineError(f"no routing leads to shard {min(missing)} of {index} ({self.url})")
        if not found:
            raise EngineError(f"no index {self.index} on the server ({self.url})")
        return found


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


def _reason(error: Any) -> str:
    """Return why a server refused, on one line."""
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        return " ".join(f"{causes[0].get('type', '')}: {causes[0].get('reason', '')}".split())
    return " ".join(str(error).split())
