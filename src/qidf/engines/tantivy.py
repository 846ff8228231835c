"""`tantivy:DIR#field?id=…`: a Tantivy index, asked through tantivy-py; each weight becomes the boost of a term query.

N, df and the average length are those of the opened snapshot, deleted documents included until Tantivy merges them
away, as in its own idf. Nothing of an index is ever written. Only while opening one, Tantivy locks a file beside it
(`.tantivy-meta.lock`, made if missing), and must be allowed to.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from qidf.analysis import Token
from qidf.engines.base import Clause, Collection, Engine, Expand, Model, encodable, float32, has_surrogates, missing
from qidf.errors import EngineCorruptError, EngineError, IndexNotFoundError, QidfError
from qidf.index.search import Hit
from qidf.spectrum import Spectrum, bands
from qidf.weighting import Q

if TYPE_CHECKING:
    import tantivy

    from qidf.engines import EngineURL

OPTIONS = ("id",)

# fmt: off
STEMMERS = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}
# fmt: on
"""`en_stem` and its kin: the tokenizers beside `default`, `raw` and `whitespace` that every tantivy-py index knows."""

_NO_IDS = ("facet", "bytes", "json_object")


def open_url(url: EngineURL) -> Tantivy:
    """Open `tantivy:DIR#field?id=…`."""
    engine = Tantivy(url.path, url.field, id=url.options.get("id", ""))
    engine.url = url.url
    return engine


class Tantivy(Engine):
    """A text field of a Tantivy index, as it was when the engine was made: later commits are not seen.

    A document's id is its first value in the stored field `id`. Without such a value it is `segment:document`, the
    numbers of its DocAddress, which the next commit may give to another. A `filter` is a `tantivy.Query` that the
    documents must match too; it adds nothing to a score. Equal scores stand in Tantivy's order, by segment and document
    number. Tantivy's own query parser drops repeated terms since
    0.26, so its ranking is that of q = 1, a = 0.

    Parameters
    ----------
    index : path or tantivy.Index
    field : str, default the only text field with positions or counts, the id's aside
    id : str, default `id` or `path`, the first that is stored
    analyze : tantivy.TextAnalyzer, default what Tantivy has under the name of the field's tokenizer
        What you registered for the field, if it is one of your own.

    Raises
    ------
    EngineError, IndexNotFoundError, EngineCorruptError
        tantivy-py is missing, or there is no such index or field, or BM25 can't be computed on it.
    """

    model = Model(k1=1.2, b=0.75, k1_plus_1=True, byte_lengths=True, counts_deleted=True, float_bits=32)

    def __init__(
        self,
        index: str | os.PathLike[str] | tantivy.Index,
        field: str = "",
        *,
        id: str = "",
        analyze: tantivy.TextAnalyzer | None = None,
    ) -> None:
        _check_library()
        where = "memory"
        if isinstance(index, str | os.PathLike):
            where = os.fspath(index)
            index = _open(where)
        pickled: Any = index.schema.__reduce__()  # no other way to ask a schema what is in it
        fields = {entry["name"]: entry for entry in pickled[1][0]["inner"]}
        self._id_field, self._id_key = _id_field(fields, id, where)
        self.field, tokenizer = _text_field(fields, field, self._id_field, where)
        self._stored = bool(fields[self.field]["options"]["stored"])
        self.analyzer = "simple" if tokenizer == "default" and analyze is None else tokenizer
        self._analyze = analyze or _built_in(tokenizer, self.field, where)
        self.url = f"tantivy:{where}#{self.field}"
        self.index, self.searcher = index, index.searcher()
        self._lengths: dict[str, int] = {}

    def analyze(self, text: str) -> list[Token]:
        try:
            tokens = self._analyze.pre_tokenize(text).tokens
        except UnicodeEncodeError:  # Rust's strings hold no lone surrogates
            tokens = self._analyze.pre_tokenize(encodable(text)).tokens
        return [Token(token.text, token.char_offset_from, token.char_offset_to or 0) for token in tokens]

    def collection(self) -> Collection:
        """Return N, the tokens and their quotient, in the 32 bits that Tantivy computes with; tokens are rounded."""
        return self._collection

    @cached_property
    def _collection(self) -> Collection:
        from tantivy import Query

        # tantivy-py tells these numbers in explanations only, and those need a term that a living document holds. The
        # whole dictionary is read only if nothing begins with "the"; the filter knows what is deleted, and is slow.
        for prefix, living in (("the", None), ("", None), ("", Query.all_query())):
            with _reading(self.url):
                found = self.searcher.terms_with_prefix(self.field, prefix, living, limit=1)  # the most frequent
                hits = [hit for term, _ in found for hit in self.searcher.search(self._term(term), 1, count=False).hits]
            if hits and (told := self._explain(found[0][0], hits[0][1])):
                return Collection(told.N, round(told.average_length * told.N), told.average_length)
        return Collection(self.searcher.num_docs, 0, 0.0)  # no document has a token

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        with _reading(self.url):
            return [0 if has_surrogates(term) else self.searcher.doc_freq(self.field, term) for term in terms]

    def idf(self, n: int, N: int) -> float:
        return _idf(n, N)

    def query(
        self, text: str, *, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto"
    ) -> tantivy.Query:
        """Return the query that `search` runs, for a search of your own: sorted, paged, or beside other clauses."""
        return self._query(self._clauses(text, q, a, expand))

    def run(self, clauses: Sequence[Clause], k: int, filter: tantivy.Query | None) -> list[Hit]:
        from tantivy import Occur, Query

        if not (filter is None or isinstance(filter, Query)):
            raise TypeError(f"filter must be a tantivy.Query, got {type(filter).__name__}")
        k = min(k, self.searcher.num_docs)  # Tantivy makes room for all k
        if not k:
            return []
        query = self._query(clauses)
        if filter is not None:
            query = Query.boolean_query([(Occur.Must, query), (Occur.Must, Query.const_score_query(filter, 0.0))])
        with _reading(self.url):
            hits = self.searcher.search(query, k, count=False).hits  # counting would switch its pruning off
            return [Hit(rank, self._id(address), "", 1, score) for rank, (score, address) in enumerate(hits, 1)]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        address = self._address(id)
        out: list[tuple[float, int | None]] = []
        for term, n in zip(terms, self.doc_freqs(terms), strict=True):
            told = self._explain(term, address) if n else None
            if told:
                self._lengths = {id: told.length}
            out.append((told.part, told.tf) if told else (0.0, 0))
        return out

    def spectrum(self) -> Spectrum:
        with _reading(self.url):
            histogram = Counter(df for _, df in self.searcher.terms_with_prefix(self.field, "", limit=None))
        N, tokens, _ = self.collection()
        return Spectrum(N, tokens or 0, histogram.total(), histogram[1], None, bands(histogram))

    def text(self, id: str) -> str | None:
        """Return the stored text of a document, the values of one with several on lines of their own."""
        address = self._address(id)
        with _reading(self.url):
            return "\n".join(self.searcher.doc(address).get_all(self.field)) if self._stored else None

    def texts(self) -> Iterator[str]:
        from tantivy import Query

        if self._stored and self.searcher.num_docs:
            with _reading(self.url):
                hits = self.searcher.search(Query.all_query(), self.searcher.num_docs, count=False).hits
            for _, address in hits:
                with _reading(self.url):
                    values = self.searcher.doc(address).get_all(self.field)
                yield "\n".join(values)

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        with _reading(self.url):
            return iter(self.searcher.terms_with_prefix(self.field, "", limit=None))

    def length(self, id: str) -> int | None:
        """Return a document's length as BM25 has it, rounded down to one of 256 values.

        None if the text is not stored and `parts` has not just found one of its terms.
        """
        if (text := self.text(id)) is None:
            return self._lengths.get(id)
        tokens = self.analyze(text)
        told = self._explain(tokens[0].term, self._address(id)) if tokens else None
        return told.length if told else None if tokens else 0

    # terms and documents, as Tantivy has them

    def _query(self, boosted: Sequence[Clause]) -> tantivy.Query:
        from tantivy import Occur, Query

        own: list[tuple[Occur, tantivy.Query]] = []
        optional: list[tuple[Occur, tantivy.Query]] = []
        for term, _, boost, is_optional in boosted:
            clause = self._term(term)
            weighed = (Occur.Should, clause if boost == 1 else Query.boost_query(clause, boost))
            (optional if is_optional else own).append(weighed)
        query = Query.boolean_query(own)
        return Query.boolean_query([(Occur.Must, query), *optional]) if optional else query

    def _term(self, term: str) -> tantivy.Query:
        from tantivy import Query

        return Query.term_query(self.index.schema, self.field, term, "freq")

    def _explain(self, term: str, address: tantivy.DocAddress) -> _Told | None:
        """Return what Tantivy tells of `term` in a document, None if it does not hold it."""
        with _reading(self.url):
            try:
                told = json.loads(self._term(term).explain(self.searcher, address).to_json())
            except ValueError as error:
                if "does not match" in str(error):
                    return None
                raise
        factor, idf, quotient = told["details"]
        N = idf["details"][1]["value"]
        tf, _, _, length, average = (row["value"] for row in quotient["details"])
        return _Told(int(N), average, factor["value"] * quotient["value"], int(tf), int(length))

    def _id(self, address: tantivy.DocAddress) -> str:
        value = self.searcher.doc(address).get_first(self._id_field) if self._id_field else None
        return f"{address.segment_ord}:{address.doc}" if value is None else str(value)

    def _address(self, id: str) -> tantivy.DocAddress:
        """Return where the document called `id` is: looked up if ids are indexed, else by reading all of them once."""
        with _reading(self.url):
            query = self._id_query(id)
            hits = self.searcher.search(query, 1, count=False).hits if query else []
            return hits[0][1] if hits else self._addresses[id]

    def _id_query(self, id: str) -> tantivy.Query | None:
        from tantivy import Query

        if not self._id_key or (self._id_key == "number" and not re.fullmatch("0|-?[1-9][0-9]*", id)):
            return None
        try:
            value = int(id) if self._id_key == "number" else id
            return Query.term_query(self.index.schema, self._id_field, value, "basic")
        except (ValueError, OverflowError):  # a lone surrogate, a number beyond 64 bits
            return None

    @cached_property
    def _addresses(self) -> dict[str, tantivy.DocAddress]:
        from tantivy import Query

        hits = self.searcher.search(Query.all_query(), max(1, self.searcher.num_docs), count=False).hits
        return {self._id(address): address for _, address in reversed(hits)}  # the first of equal ids stays


class _Told(NamedTuple):
    N: int
    average_length: float
    part: float
    tf: int
    length: int


@lru_cache(maxsize=1 << 16)
def _idf(n: int, N: int) -> float:
    """Return ln(1 + (N − n + 0.5) / (n + 0.5)), each step rounded to 32 bits as in Tantivy's bm25.rs."""
    x = float32(float32(float32(N - n) + 0.5) / float32(float32(n) + 0.5))
    return float32(math.log(float32(1 + x)))


# opening


def _check_library() -> None:
    try:
        from tantivy import TextAnalyzer
    except ImportError:
        raise missing("tantivy", "tantivy") from None
    if not hasattr(TextAnalyzer, "pre_tokenize"):
        raise EngineError("this tantivy-py is older than 0.27 and tells no offsets: pip install -U 'qidf[tantivy]'")


def _open(path: str) -> tantivy.Index:
    from tantivy import Index

    if not os.path.isdir(path):
        raise IndexNotFoundError(f"no Tantivy index at {path}: no such folder")
    if not os.path.isfile(os.path.join(path, "meta.json")):
        raise EngineError(f"no Tantivy index at {path}: the folder has no meta.json")
    with _reading(path):
        return Index.open(path)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Turn what Tantivy raises into errors of one line. It panics on some damage, which is no `Exception`."""
    try:
        yield
    except (QidfError, KeyError):
        raise
    except BaseException as error:
        panic = type(error).__name__ == "PanicException"
        if not (panic or isinstance(error, ValueError | OSError)):
            raise
        what = " ".join(str(error).partition(" Content: ")[0].split())
        if found := re.search(r"IncompatibleIndex\((.*)\)", what):
            raise EngineError(f"{where} was made by another version of Tantivy. {found[1]}") from None
        damaged = re.match("Data corrupt|Failed to open file for read|An IO error", what)
        if panic or (damaged and "ermission" not in what):
            raise EngineCorruptError(f"{where} is damaged, make it again. Tantivy says: {what}") from None
        raise EngineError(f"{where} can't be read. Tantivy says: {what}") from None


def _text_field(fields: dict[str, Any], field: str, id_field: str, where: str) -> tuple[str, str]:
    """Return the names of the field to search and of its tokenizer. EngineError if there is none BM25 can work on."""
    indexed = {
        name: entry["options"]["indexing"]
        for name, entry in fields.items()
        if entry["type"] == "text" and entry["options"].get("indexing")
    }
    able = [name for name, how in indexed.items() if how["record"] != "basic" and how["fieldnorms"]]
    if not field:
        texts = [name for name in able if name != id_field] or able
        if len(texts) != 1:
            raise EngineError(f"name the field of {where} after a #: {_listed(able)}")
        field = texts[0]
    if field not in indexed:
        what = "is not an indexed text field" if field in fields else "does not exist"
        raise EngineError(f"field {field!r} of {where} {what}: {_listed(indexed)}")
    if field not in able:
        lacks = "counts no terms (record 'basic')" if indexed[field]["record"] == "basic" else "has no field norms"
        raise EngineError(f"field {field!r} of {where} {lacks}, which BM25 needs: {_listed(able)}")
    return field, indexed[field]["tokenizer"]


def _id_field(fields: dict[str, Any], id: str, where: str) -> tuple[str, str]:
    """Return the name of the ids' field, and as what one is looked up: "text", "number", or not at all."""
    plain = {name: entry["options"] for name, entry in fields.items() if entry["type"] not in _NO_IDS}
    able = [name for name, options in plain.items() if options["stored"]]
    if id and id not in able:
        raise EngineError(f"id must be a stored field of {where} that holds plain values, got {id!r}: {_listed(able)}")
    name = id or next((name for name in ("id", "path") if name in able), "")
    kind, options = (fields[name]["type"], plain[name]) if name else ("", {})
    if kind in ("u64", "i64") and options["indexed"]:
        return name, "number"
    return name, "text" if kind == "text" and (options.get("indexing") or {}).get("tokenizer") == "raw" else ""


def _listed(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}" if names else "there is none"


def _built_in(tokenizer: str, field: str, where: str) -> tantivy.TextAnalyzer:
    """Return the analyzer that Tantivy or tantivy-py registers as `tokenizer` in every index."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    language = STEMMERS.get(tokenizer.removesuffix("_stem")) if tokenizer.endswith("_stem") else None
    if tokenizer in ("raw", "whitespace"):
        return TextAnalyzerBuilder(Tokenizer.raw() if tokenizer == "raw" else Tokenizer.whitespace()).build()
    if tokenizer != "default" and language is None:
        raise EngineError(
            f"tokenizer {tokenizer!r} of field {field!r} is not one of Tantivy's own: open the index in Python with"
            f" qidf.engines.tantivy.Tantivy({where!r}, {field!r}, analyze=…), the analyzer that was registered"
        )
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(40)).filter(Filter.lowercase())
    return (builder.filter(Filter.stemmer(language)) if language else builder).build()
