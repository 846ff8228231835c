"""`lucene:DIR#field?analyzer=…&k1=…&b=…&jars=…&id=…`: a Lucene index, asked in Java through JPype.

Each weight becomes the boost of a term query, and Lucene's BM25Similarity does the rest, in 32 bits: at q = 1, a = 1 a
score is plain Lucene's bit for bit. N, df and the average length are those of the opened commit, deleted documents
included until Lucene merges them away, as in its own idf. Nothing is written and no lock taken. Knows no other engine.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from qidf.analysis import Token
from qidf.engines import jvm
from qidf.engines.base import Clause, Collection, Engine, Expand, Model, code_points, encodable, float32
from qidf.errors import EngineCorruptError, EngineError, IndexNotFoundError
from qidf.index.search import Hit
from qidf.spectrum import Spectrum, bands
from qidf.weighting import K1, B, Q, check_bm25

if TYPE_CHECKING:
    from qidf.engines import EngineURL

OPTIONS = ("analyzer", "k1", "b", "jars", "id")

ANALYZERS = {
    "standard": "org.apache.lucene.analysis.standard.StandardAnalyzer",
    "english": "org.apache.lucene.analysis.en.EnglishAnalyzer",
    "simple": "org.apache.lucene.analysis.core.SimpleAnalyzer",
    "whitespace": "org.apache.lucene.analysis.core.WhitespaceAnalyzer",
    "keyword": "org.apache.lucene.analysis.core.KeywordAnalyzer",
    "stop": "org.apache.lucene.analysis.core.StopAnalyzer",
}
"""Short names of analyzers. Any other class goes by its full name."""

IDS = ("id", "docid", "path")
"""Fields that name a document, if it stores them."""

ANSERINI_K1, ANSERINI_B, ANSERINI_ANALYZER = 0.9, 0.4, "io.anserini.analysis.DefaultEnglishAnalyzer"
"""Anserini's and Pyserini's BM25, and their analyzer: Lucene's EnglishAnalyzer under another name."""


def open_url(url: EngineURL) -> Lucene:
    """Open `lucene:DIR#field?analyzer=…&k1=…&b=…&jars=…&id=…`."""
    k1, b = (url.number(name, 0.0) if name in url.options else None for name in ("k1", "b"))
    given = {name: url.options.get(name, "") for name in ("analyzer", "jars", "id")}
    engine = Lucene(url.path, url.field, k1=k1, b=b, **given)
    engine.url = url.url
    return engine


class Lucene(Engine):
    """A text field of a Lucene index, as it was when the engine was made: later commits are not seen.

    An index with a field `contents` and ids that are both terms and doc values is taken for one of Anserini's, as
    Pyserini's are: the defaults of analyzer, k1 and b are Anserini's then. A document's id is the first value of the
    stored field `id`; without one, Lucene's document number, which a merge may change. A `filter` is a Java `Query`
    that the documents must match too; it adds nothing to a score. Equal scores stand in Lucene's order, by document
    number.

    Java runs once in a process: the first engine's jars serve the later ones, and a JVM that JPype runs already is
    used as it is (start it yourself for other options, a larger heap say). Pyserini runs a JVM of its own through
    pyjnius, which no process can have beside JPype's.

    Parameters
    ----------
    path : path
    field : str, default `contents`, else the only field that BM25 can work on
    analyzer : str, default "standard"
        A name of `ANALYZERS`, or the full name of a class that can be made without arguments. Lucene does not record
        what an index was made with.
    k1, b : float, default 1.2 and 0.75; 0.9 and 0.4 for Anserini's
    jars : str
        The folder of Lucene's jars, or one jar that holds it all; default the environment's QIDF_LUCENE_JARS, else
        those of an installed Pyserini.
    id : str, default `id`, `docid` or `path`, the first that is stored
        The stored field of the ids.

    Raises
    ------
    EngineError, IndexNotFoundError, EngineCorruptError
        JPype, Java or the jars are missing, or there is no such index or field, or BM25 can't be computed on it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        field: str = "",
        *,
        analyzer: str = "",
        k1: float | None = None,
        b: float | None = None,
        jars: str | os.PathLike[str] = "",
        id: str = "",
    ) -> None:
        where = os.fspath(path)
        if not os.path.isdir(where):  # Lucene would make it
            raise IndexNotFoundError(f"no Lucene index at {where}: no such folder")
        if not any(name.startswith("segments") for name in os.listdir(where)):
            raise EngineError(f"no Lucene index at {where}: the folder has no segments file")
        java = self._java = jvm.start(os.fspath(jars))
        self.url = f"lucene:{where}"  # until the field is known
        self._closed = False
        with self._reading():
            self._directory = java.FSDirectory.open(java.Paths.get(where))
            try:
                self.reader = java.DirectoryReader.open(self._directory)
            except BaseException:
                self._directory.close()
                raise
        try:
            self._set_up(where, field, analyzer, k1, b, id)
        except BaseException:
            self.close()
            raise

    def _set_up(self, where: str, field: str, analyzer: str, k1: float | None, b: float | None, id: str) -> None:
        java = self._java
        with self._reading():
            infos = {str(info.name): info for info in java.FieldInfos.getMergedFieldInfos(self.reader)}
            self.field = _field(infos, field, where)
            told = java.IndexSearcher(self.reader).collectionStatistics(self.field)
        self.url = f"lucene:{where}#{self.field}"
        self._anserini = self.field == "contents" and _is_anserini(infos.get("id"))
        usual = (ANSERINI_K1, ANSERINI_B) if self._anserini else (K1, B)
        k1, b = check_bm25(usual[0] if k1 is None else k1, usual[1] if b is None else b)
        self.model = Model(k1, b, byte_lengths=True, counts_deleted=True, counts_empty=False, float_bits=32)
        self._analyzer = _analyzer(analyzer or (self._anserini and "anserini") or "standard")
        name = str(self._analyzer.getClass().getSimpleName())
        self.analyzer = "standard" if name == "StandardAnalyzer" else name
        self.remedy = "Say which: ?analyzer=english, or the name of a class (Python: analyzer=)"
        self._set_id_field(id, infos)
        self.searcher = java.IndexSearcher(self.reader)
        self.searcher.setSimilarity(java.BM25Similarity(k1, b))
        N, tokens = (int(told.docCount()), int(told.sumTotalTermFreq())) if told else (0, 0)
        self._collection = Collection(N, tokens, float32(tokens / N) if N else 0.0)
        terms = java.MultiTerms.getTerms(self.reader, self.field)
        self._entry = terms.iterator() if terms is not None else None
        self._seeking = threading.Lock()
        self._doc_freq = lru_cache(maxsize=1 << 16)(self._seek)

    def analyze(self, text: str) -> list[Token]:
        java, at, out = self._java, code_points(text), []
        with self._reading():
            stream = self._analyzer.tokenStream(self.field, encodable(text))
            try:
                term, offsets = stream.addAttribute(java.CharTermAttribute), stream.addAttribute(java.OffsetAttribute)
                advance, spelled = stream.incrementToken, term.toString
                start, end = offsets.startOffset, offsets.endOffset
                stream.reset()
                while advance():
                    out.append(Token(str(spelled()), at(start()), at(end())))
                stream.end()
            finally:
                stream.close()  # the analyzer gives the same stream out again
        return out

    def collection(self) -> Collection:
        """Return N, which counts documents that have the field, the tokens, and their quotient in Lucene's 32 bits."""
        return self._collection

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        with self._reading():
            return [self._doc_freq(term) for term in terms]

    def idf(self, n: int, N: int) -> float:
        return _idf(n, N)

    def query(self, text: str, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto") -> Any:
        """Return the Java query that `search` runs, for a searcher of your own with a BM25Similarity of these k1, b."""
        with self._reading():
            return self._query(self._clauses(text, q, a, expand))

    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        java = self._java
        if not (filter is None or isinstance(filter, java.Query)):
            raise TypeError(f"filter must be a Java org.apache.lucene.search.Query, got {type(filter).__name__}")
        with self._reading():
            query = self._query(clauses)
            if filter is not None:
                builder = java.BooleanQuery.Builder()
                query = builder.add(query, java.Occur.MUST).add(filter, java.Occur.FILTER).build()
            found = self.searcher.search(query, min(k, max(1, self.reader.maxDoc()))).scoreDocs
            stored = self.searcher.storedFields()
            return [Hit(rank, self._id(at.doc, stored), "", 1, float(at.score)) for rank, at in enumerate(found, 1)]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        doc, N = self._doc(id), self.collection().documents
        out: list[tuple[float, int | None]] = []
        for term, n in zip(terms, self.doc_freqs(terms), strict=True):
            with self._reading():
                told = self.searcher.explain(self._java.TermQuery(self._term(term)), doc) if n else None
            if told is None or not told.isMatch():
                out.append((0.0, 0))
            else:
                out.append((float(told.getValue()) / self.idf(n, N), _detail(told, "freq,")))
        return out

    def spectrum(self) -> Spectrum:
        N, tokens, _ = self.collection()
        histogram: Counter[int] = Counter()
        once = 0
        with self._reading():
            terms = self._java.MultiTerms.getTerms(self.reader, self.field)
            if terms is not None:
                entry = terms.iterator()
                advance, df, count = entry.next, entry.docFreq, entry.totalTermFreq
                while advance() is not None:
                    n = df()
                    histogram[n] += 1
                    once += n == 1 and count() == 1
        return Spectrum(N, tokens or 0, histogram.total(), histogram[1], once, bands(histogram))

    def text(self, id: str) -> str | None:
        """Return the stored text of a document, the values of one with several on lines of their own.

        Of an index of Anserini's that does not store `contents` it is `raw`: the document as it was read.
        """
        doc = self._doc(id)
        with self._reading():
            stored = self.searcher.storedFields().document(doc)
            for name in (self.field, "raw") if self._anserini else (self.field,):
                if values := stored.getValues(name):
                    return "\n".join(map(str, values))
        return None

    def texts(self) -> Iterator[str]:
        java = self._java
        names = [self.field, "raw"] if self._anserini else [self.field]
        with self._reading():
            stored, live = self.searcher.storedFields(), java.MultiBits.getLiveDocs(self.reader)
            wanted = java.Set.of(*names)
        for doc in range(self.reader.maxDoc()):
            with self._reading():
                if live is not None and not live.get(doc):
                    continue
                document = stored.document(doc, wanted)
                values = next((found for name in names if (found := document.getValues(name))), None)
            if values is not None:
                yield "\n".join(map(str, values))

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        with self._reading():
            terms = self._java.MultiTerms.getTerms(self.reader, self.field)
            entry = terms.iterator() if terms is not None else None
        while entry is not None:
            with self._reading():
                term = entry.next()
                if term is None:
                    return
                told = str(term.utf8ToString()), int(entry.docFreq())
            yield told

    def length(self, id: str) -> int | None:
        """Return a document's length as BM25 has it, rounded down to one of 256 values."""
        doc = self._doc(id)
        with self._reading():
            norms = self._java.MultiDocValues.getNormValues(self.reader, self.field)
            held = norms is not None and norms.advanceExact(doc)
            return int(self._java.SmallFloat.byte4ToInt(self._java.Byte(norms.longValue()))) if held else 0

    def close(self) -> None:
        """Let go of the reader; it is closed when the searches that are running are done."""
        if not self._closed:
            self._closed = True
            self.reader.decRef()  # its files with the last reference; the directory holds none of its own

    # terms and documents, as Lucene has them

    def _query(self, boosted: Sequence[Clause]) -> Any:
        java = self._java
        room = len(boosted) + 1024 if len(boosted) > 512 else 0  # some of it is left for a filter
        if java.IndexSearcher.getMaxClauseCount() < room:
            java.IndexSearcher.setMaxClauseCount(room)
        own, whole = java.BooleanQuery.Builder(), java.BooleanQuery.Builder()
        for term, _, boost, is_optional in boosted:
            clause = java.TermQuery(self._term(term))
            builder = whole if is_optional else own
            builder.add(clause if boost == 1 else java.BoostQuery(clause, boost), java.Occur.SHOULD)
        if any(clause.optional for clause in boosted):
            return whole.add(own.build(), java.Occur.MUST).build()
        return own.build()

    def _seek(self, term: str) -> int:
        """Return df of a term. One entry for all of them: `reader.docFreq` makes one a segment each time, slowly."""
        key = self._java.BytesRef(encodable(term))
        with self._seeking:
            return int(self._entry.docFreq()) if self._entry is not None and self._entry.seekExact(key) else 0

    def _term(self, term: str) -> Any:
        return self._java.Term(self.field, encodable(term))

    def _id(self, doc: int, stored: Any) -> str:
        value = stored.document(doc, self._only_id).get(self._id_field) if self._id_field else None
        return str(doc) if value is None else str(value)

    def _doc(self, id: str) -> int:
        """Return the number of the document called `id`: looked up if ids are indexed, else all are read once."""
        java = self._java
        with self._reading():
            stored = self.searcher.storedFields()
            if self._id_indexed:
                query = java.TermQuery(java.Term(self._id_field, encodable(id)))
                for at in self.searcher.search(query, 1).scoreDocs:
                    if self._id(at.doc, stored) == id:
                        return int(at.doc)
            if re.fullmatch("0|[1-9][0-9]{0,9}", id) and int(id) < self.reader.maxDoc():
                live = java.MultiBits.getLiveDocs(self.reader)
                if (live is None or live.get(int(id))) and self._id(int(id), stored) == id:
                    return int(id)
            if not self._id_field or self._id_indexed:
                raise KeyError(id)
            return self._docs[id]

    @cached_property
    def _docs(self) -> dict[str, int]:
        stored, live = self.searcher.storedFields(), self._java.MultiBits.getLiveDocs(self.reader)
        docs = [doc for doc in range(self.reader.maxDoc()) if live is None or live.get(doc)]
        return {self._id(doc, stored): doc for doc in reversed(docs)}  # the first of equal ids stays

    def _stored_id(self, infos: dict[str, Any]) -> str:
        """Return the first usual name of an id field that documents have stored; empty if there is none."""
        with self._reading():
            stored, some = self.reader.storedFields(), range(min(100, self.reader.maxDoc()))
            for name in IDS:
                only = self._java.Set.of(name)
                if name in infos and any(stored.document(doc, only).get(name) is not None for doc in some):
                    return name
        return ""

    def _set_id_field(self, id: str, infos: dict[str, Any]) -> None:
        """Find the ids' field, and whether each id is one term of it: not counted, without norms, as a StringField."""
        self._id_field = id or self._stored_id(infos)
        info = infos.get(self._id_field)
        if id and info is None:
            raise EngineError(f"id must be a stored field of {self.url}, got {id!r}: {_listed(infos)}")
        self._id_indexed = info is not None and str(info.getIndexOptions()) == "DOCS" and info.omitsNorms()
        self._only_id = self._java.Set.of(self._id_field)
        with self._reading():
            stored, some = self.reader.storedFields(), range(min(100, self.reader.maxDoc()))
            if id and not any(stored.document(doc, self._only_id).get(id) is not None for doc in some):
                raise EngineError(f"id must be a stored field of {self.url}, got {id!r}, which is not stored")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn Java's exceptions into errors of one line, and hold the reader: who closes it meanwhile must wait, since
        Java would read from a map that is no more.
        """
        reader = getattr(self, "reader", None)
        if reader is not None and not reader.tryIncRef():
            raise EngineError(f"{self.url} is closed")
        try:
            try:
                yield
            finally:
                if reader is not None:
                    reader.decRef()
        except self._java.Throwable as error:
            name, says = jvm.told(error)
            if name in ("IndexFormatTooOldException", "IndexFormatTooNewException") or "Could not load codec" in says:
                version = self._java.Version.LATEST
                says = f"{self.url} was made by another version of Lucene than these jars' {version}. {says}"
                raise EngineError(f"{says} Needed are {jvm.JARS}") from None
            if name in ("CorruptIndexException", "EOFException", "NoSuchFileException", "FileNotFoundException"):
                raise EngineCorruptError(f"{self.url} is damaged, make it again. Lucene says: {says}") from None
            if name == "AlreadyClosedException":
                raise EngineError(f"{self.url} is closed") from None
            raise EngineError(f"{self.url} can't be read. Lucene says: {name}: {says}") from None


@lru_cache(maxsize=1 << 16)
def _idf(n: int, N: int) -> float:
    """Return ln(1 + (N − n + 0.5) / (n + 0.5)) rounded to 32 bits, as in Lucene's BM25Similarity.java."""
    return float32(math.log(1 + (N - n + 0.5) / (n + 0.5)))


def _detail(told: Any, name: str) -> int | None:
    """Return the number that an explanation has under `name`, wherever it stands."""
    if str(told.getDescription()).startswith(name):
        return int(told.getValue().doubleValue())
    return next((value for part in told.getDetails() if (value := _detail(part, name)) is not None), None)


def _field(infos: dict[str, Any], field: str, where: str) -> str:
    """Return the name of the field to search. EngineError if there is none BM25 can work on."""
    if not infos:
        raise EngineError(f"the Lucene index at {where} holds no documents")
    indexed = {name: str(info.getIndexOptions()) for name, info in infos.items()}
    able = [name for name, how in indexed.items() if how not in ("NONE", "DOCS") and infos[name].hasNorms()]
    if not field:
        if "contents" not in able and len(able) != 1:
            raise EngineError(f"name the field of {where} after a #: {_listed(able)}")
        field = "contents" if "contents" in able else able[0]
    if field not in able:
        lacks = {"": "does not exist", "NONE": "is not indexed", "DOCS": "counts no terms (IndexOptions.DOCS)"}
        what = lacks.get(indexed.get(field, ""), "has no norms")
        needed = ", which BM25 needs" if field in infos else ""
        raise EngineError(f"field {field!r} of {where} {what}{needed}: {_listed(able)}")
    return field


def _is_anserini(id: Any) -> bool:
    """Return whether the field `id` is as Anserini writes it: a term, and once more as doc values to break ties by."""
    return id is not None and str(id.getIndexOptions()) == "DOCS" and str(id.getDocValuesType()) != "NONE"


def _listed(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}" if names else "there is none"


def _analyzer(name: str) -> Any:
    """Return a new Java analyzer. `anserini` is Anserini's if it is there, else what that is made of."""
    from jpype import JClass, JException

    java = jvm.classes()
    if name == "anserini":
        try:
            return JClass(ANSERINI_ANALYZER).newDefaultInstance()
        except TypeError:
            name = "english"
    full = ANALYZERS.get(name, name)
    try:
        made = JClass(full)
        if name == "stop":
            return made(JClass(ANALYZERS["english"]).ENGLISH_STOP_WORDS_SET)
        analyzer = made.newDefaultInstance() if full == ANSERINI_ANALYZER else made()
    except (TypeError, JException) as error:  # no such class; one that can't be made
        says = " ".join(str(error).split())
        raise EngineError(
            f"analyzer must be one of {', '.join(ANALYZERS)} or the full name of a Java class that is in the jars"
            f" (lucene-analysis-common has most) and is made without arguments, got {name!r}: {says}"
        ) from None
    if not isinstance(analyzer, java.Analyzer):
        raise EngineError(f"analyzer must be an org.apache.lucene.analysis.Analyzer, got {full}")
    return analyzer
