"""What an engine must answer, and what is the same for every engine: weights, ranking, explanation.

A query is a list of weighted terms. An engine analyzes text, tells document frequencies and runs weighted terms, with
whatever library its index needs; the weights come from `qidf.weighting` alone. Knows no engine by name.
"""

from __future__ import annotations

import math
import re
import struct
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from qidf.errors import AnalyzerWarning, DictionaryCorruptError, EngineError
from qidf.index.explain import Explanation, explain_term
from qidf.index.search import Hit
from qidf.weighting import (
    Q,
    QueryTerm,
    Scheme,
    boosts,
    check_count,
    check_weights,
    count_factor,
    idf,
    parse_q,
    q_hapax,
    query_terms,
    resolve,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qidf.analysis import Token
    from qidf.expansion.dictionary import Dictionary
    from qidf.expansion.expanding import Added, Proposed
    from qidf.spectrum import Spectrum

Expand: TypeAlias = Literal["auto", "rank", "recall", "off"]
"""Whether a query is widened by the identifiers that are made of its words, where there is a dictionary.

`recall`: they find documents too. `rank`: they add to the scores of documents that the query's own terms find, and find
none. `auto`: `recall` in a search of an engine; in a client's or a proxy's searches, which are someone else's, `rank`.
"""

EXPAND: tuple[Expand, ...] = ("auto", "rank", "recall", "off")


class Collection(NamedTuple):
    """The statistics that an engine's BM25 reads; None where the engine does not keep them.

    Attributes
    ----------
    documents : int
        N, as the engine's idf has it. Tantivy and Lucene go on counting deleted documents.
    tokens : int
        The sum of the documents' lengths.
    average_length : float
        avgdl, as the engine's length normalization has it.
    """

    documents: int
    tokens: int | None
    average_length: float | None


class Model(NamedTuple):
    """The constants of an engine's BM25: what someone who computes its scores again must know.

    Attributes
    ----------
    k1, b, delta : float
        `delta` is of BM25L and BM25+ only.
    odds : str
        What its own idf is the logarithm of: one of `qidf.weighting.ODDS`.
    variant : {"bm25", "bm25l", "bm25+", "bm25l-tf"}
        Which formula the term's count goes through; `bm25l-tf` is rank_bm25's L, which multiplies by tf once more.
    k1_plus_1 : bool
        Whether a score carries the factor (k1 + 1).
    byte_lengths : bool
        Whether a document's length is rounded down to one of 256 values (Lucene's SmallFloat, Tantivy's field norms).
    counts_deleted : bool
        Whether N, df and the average length count documents that are deleted and not merged away yet.
    counts_empty : bool
        Whether N and the average length count documents without a token; Lucene leaves them out.
    float_bits : {32, 64}
        The width of a score.
    """

    k1: float
    b: float
    delta: float = 0.0
    odds: str = "lucene"
    variant: str = "bm25"
    k1_plus_1: bool = False
    byte_lengths: bool = False
    counts_deleted: bool = False
    counts_empty: bool = True
    float_bits: int = 64


class Clause(NamedTuple):
    """A known term as an engine runs it: its df, and the factor in front of the engine's own idf.

    An `optional` one adds to the score of a document that another finds, and finds none itself.
    """

    term: str
    n: int
    boost: float
    optional: bool = False


class Engine(ABC):
    """An index that someone else's library made and ranks.

    A subclass answers the abstract methods; everything else follows from them. Terms are strings as the engine's
    analyzer gives them, offsets are code points, and a weight stands where the engine's BM25 has count · idf:
    score(d) = Σ weight(t) · part(t, d).

    Attributes
    ----------
    url : str
        What `qidf.connect` was given, or a name of the same form for an object in memory.
    analyzer : str
        How the engine analyzes, in its own words. Where it is one of qidf's analyzers, `q="auto"` goes by it.
    model : Model
        The constants of its BM25.
    stored_q : float
        The q of the idf that it multiplies by; 1 but where `qidf apply` changed it. Weights and scores are the same
        for any.
    remedy : str
        What to try where most terms of a query are unknown; empty where the analyzer can't be wrong.
    analyzes_remotely : bool
        Whether `analyze` asks a server, and nothing here does the same.
    resumable : bool
        Whether `read` tells checkpoints to go on from.
    state : str
        A name of what the index holds, another one after each change; empty where an engine does not tell.
    dictionary : Dictionary or None
        What identifiers of the index are made of (`qidf.expansion`); `connect` takes the one that `qidf dictionary
        build` made, and an engine made otherwise has none until you give it one.
    """

    url: str
    analyzer: str
    model: Model
    stored_q: float = 1.0
    remedy: str = ""
    dictionary: Dictionary | None = None
    analyzes_remotely: bool = False
    resumable: bool = False
    state: str = ""

    # what an engine answers

    @abstractmethod
    def analyze(self, text: str) -> list[Token]:
        """Return the tokens of `text` as the index's analyzer gives them, with offsets in code points."""

    @abstractmethod
    def collection(self) -> Collection:
        """Return the statistics of the collection. Cheap: each query asks."""

    @abstractmethod
    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        """Return the number of documents that hold each of `terms`, as the engine's idf counts them; 0 if unknown."""

    def idf(self, n: int, N: int) -> float:
        """Return the idf that the engine itself multiplies by, in the engine's own precision."""
        return self.idf_q(n, N, self.stored_q)

    def idf_q(self, n: int, N: int, q: float) -> float:
        """Return the idf_q that weights are made of: ln_q of what the engine's own idf is the logarithm of."""
        return idf(n, N, q, self.model.odds)

    @abstractmethod
    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        """Return the k documents with the highest Σ boost · idf · part, best first.

        `clauses` are known terms, at least one of them not optional.
        """

    @abstractmethod
    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        """Return (part, tf) of each of `terms` in the document `id`: what the engine multiplies a weight by, and the
        term's count in the document, None where the engine does not tell.

        Raises
        ------
        KeyError
            There is no such document.
        """

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return the term statistics of the collection: one pass over the dictionary."""

    def text(self, id: str) -> str | None:
        """Return the text of a document, None where the index does not store it. KeyError if there is no such one."""
        return None

    def texts(self) -> Iterator[str]:
        """Yield the texts that the index stores, those of deleted documents perhaps too; none where it stores none."""
        return iter(())

    def read(self, checkpoint: Any = None) -> Iterator[tuple[list[str], Any]]:
        """Yield what `texts` yields, some at a time, with the checkpoint behind them: JSON, None if there are none.

        With a checkpoint only what stands behind it is yielded: documents that were written later, too.
        """
        for text in self.texts():
            yield [text], None

    def can_resume(self, checkpoint: Any) -> bool:
        """Return whether all that was read up to a checkpoint is of the index that is there now."""
        return False

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        """Yield (term, df) of all terms; none where an engine does not list them."""
        return iter(())

    def length(self, id: str) -> int | None:
        """Return the number of tokens of a document as the engine counts them, None where it does not tell."""
        return None

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Let go of files and readers."""

    # what follows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url!r}: {self.collection().documents:,} documents>"

    @cached_property
    def hapax_density(self) -> float:
        """h = (terms with df = 1) / (tokens)."""
        return self.spectrum().hapax_density

    def query_terms(self, query: str) -> list[QueryTerm]:
        """Return the unique terms of `query`, with their counts, and whether each was written as an identifier."""
        if not isinstance(query, str):
            raise TypeError(f"query must be str, got {type(query).__name__}")
        return query_terms(query, self.analyze(query))

    def scheme(self, q: Q | str = "auto", a: float | None = None) -> Scheme:
        """Return what `q` and `a` mean for this index."""
        q = parse_q(q)
        density = self.hapax_density if q == "hapax" else 0.0  # a pass over the dictionary: only where it is read
        return resolve(q, a, analyzer=self.analyzer, hapax_density=density)

    def weights(
        self, query: str, *, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto"
    ) -> list[tuple[str, float]]:
        """Return the weighted terms that `query` stands for, in its order; unknown terms are left out.

        Behind them stand those that the query is widened by, heaviest first: with a `dictionary`, and unless `expand`
        is "off" (`qidf.weighting.expand`). They come with the same s.

        A weight is s · c^a · idf_q, with idf_q = ln_q of what the engine's own idf is the logarithm of, and one s for
        the query that keeps Σ weight at Σ c · idf of the engine (`qidf.weighting.boosts`). At q = 1, a = 1 it is
        c · idf: the engine's own BM25.

        Warns
        -----
        AnalyzerWarning
            Most terms of the query are unknown.
        """
        return [(row.term.term, row.weight) for row in self._rows(query, self.scheme(q, a), expand)]

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
        """Return the k best documents for `query`; what `weights` and `search_terms` give together.

        A document that holds none of the query's own terms is found by those that the query was widened by, unless
        `expand` is "rank"; `filter` holds for it as for any other.
        """
        return self._run(self._clauses(query, q, a, expand), k, filter)

    def search_terms(self, terms: Iterable[tuple[str, float]], k: int = 10, *, filter: Any = None) -> list[Hit]:
        """Return the k documents with the highest Σ weight · part, best first.

        Parameters
        ----------
        terms : iterable of (term, weight)
            Weights are finite and at least 0; a term stands once. A term of weight 0, or one that the index does not
            hold, finds nothing.
        k : int, default 10
        filter : default None
            Which documents may be found, in the engine's own terms; its module says which.
        """
        return self._run(self._boosts(terms), k, filter)

    def _run(self, clauses: list[Clause], k: int, filter: Any) -> list[Hit]:
        k = check_count("k", k)
        return self.run(clauses, k, filter) if any(not clause.optional for clause in clauses) else []

    def _clauses(self, query: str, q: Q | str, a: float | None, expand: Expand = "auto") -> list[Clause]:
        """Return what `search` runs: the known terms of a query, and those it is widened by, with their boosts."""
        rows = self._rows(query, self.scheme(q, a), expand)
        keeps = expand == "rank"
        return [Clause(row.term.term, row.n, row.boost, keeps and bool(row.words)) for row in rows if row.boost > 0]

    def explain(
        self, query: str, id: str, *, q: Q | str = "auto", a: float | None = None, expand: Expand = "auto"
    ) -> Explanation:
        """Tell what each query term adds to the score of the document called `id`, and each that widens the query.

        Raises
        ------
        KeyError
            There is no such document.
        """
        scheme = self.scheme(q, a)
        N, _, average = self.collection()
        rows = self._rows(query, scheme, expand, unknown=True)
        parts = self.parts(id, [row.term.term for row in rows])
        scale = self._scale([row for row in rows if not row.words], N, scheme)
        explained = [
            explain_term(term, n, N, scheme.q(term), partial(self.idf_q, n, N), weight, tf, part, words)
            for (term, n, _, weight, words), (part, tf) in zip(rows, parts, strict=True)
        ]
        score = math.fsum(row.contribution for row in explained)
        model = self.model
        return Explanation(
            id, score, self.length(id), average, N, model.k1, model.b, scheme.a, explained, round(scale, 12)
        )

    def doubt(self, terms: int, known: int) -> str:
        """Return what to say of a query with so many terms, so many of them known; empty where nothing looks wrong."""
        if not self.remedy or terms < 3 or 2 * known >= terms:
            return ""
        return (
            f"{terms - known} of {terms} words are unknown: was the index made with another analyzer than"
            f" {self.analyzer}? {self.remedy}"
        )

    def find(self, text: str, wanted: dict[bytes, int]) -> list[tuple[int, int, int]]:
        """Return (start, end, number) of each token of `text` whose term is `wanted`: {term in UTF-8: number}."""
        return [
            (token.start, token.end, wanted[key])
            for token in self.analyze(text)
            if (key := token.term.encode("utf-8", "surrogatepass")) in wanted
        ]

    def _rows(self, query: str, scheme: Scheme, expand: Expand, *, unknown: bool = False) -> list[Row]:
        """Return the query's terms, and behind them those that it is widened by."""
        rows = self._weigh(query, scheme, unknown=unknown)
        added = self._widen(query, [row.term.term for row in rows], scheme, expand)
        if not added:
            return rows
        N = self.collection().documents
        scale = self._scale(rows, N, scheme)
        for term, n, weight, words in added:
            own = self.idf(min(n, N), N)
            if own > 0:
                rows.append(Row(QueryTerm(term, 0, False), n, scale * weight / own, scale * weight, words))
        return rows

    def _widen(self, query: str, own: Sequence[str], scheme: Scheme, expand: Expand) -> list[Added]:
        if expand not in EXPAND:
            raise ValueError(f"expand must be one of {', '.join(EXPAND)}, got {expand!r}")
        if expand == "off" or self.dictionary is None:
            return []
        from qidf.expansion.expanding import choose

        proposed, mine = self._proposal(query, scheme), set(own)
        if proposed is None:
            return []
        asked = [term for term in proposed.terms if term not in mine]
        held = dict(zip(asked, self.doc_freqs(asked), strict=True)) if asked else {}
        return choose(proposed, mine, self.collection().documents, scheme, held)

    def _proposal(self, query: str, scheme: Scheme) -> Proposed | None:
        """Return what the dictionary knows of a query; None if there is none, or, with a warning, if it is damaged."""
        if self.dictionary is None:
            return None
        try:
            return self._propose(self.dictionary, query, scheme)
        except DictionaryCorruptError as error:
            from qidf.expansion.place import warn

            self.dictionary = None
            warn(self, error, stacklevel=7)
            return None

    def _propose(self, dictionary: Dictionary, query: str, scheme: Scheme) -> Proposed:
        """Return what the dictionary knows of a query."""
        from qidf.expansion.expanding import propose

        return propose(dictionary, query, scheme)

    def widened(self, query: str, *, q: Q | str = "auto", a: float | None = None) -> list[Added]:
        """Return the terms that `query` is widened by, heaviest first, their weights before the factor s."""
        return self._widen(query, [term.term for term in self.query_terms(query)], self.scheme(q, a), "auto")

    def _scale(self, rows: Sequence[Row], N: int, scheme: Scheme) -> float:
        """Return s, the factor in all weights of a query."""
        raw = sum(
            count_factor(row.term.count, scheme.a) * self.idf_q(row.n, N, scheme.q(row.term)) for row in rows if row.n
        )
        return sum(row.weight for row in rows) / raw if raw else 1.0

    def _weigh(self, query: str, scheme: Scheme, *, unknown: bool = False) -> list[Row]:
        """Return the query's terms with n, boost and weight; without the unknown ones unless asked for."""
        terms = self.query_terms(query)
        N = self.collection().documents
        dfs = [min(n, N) for n in self.doc_freqs([term.term for term in terms])]
        known = [(term, n) for term, n in zip(terms, dfs, strict=True) if n]
        if doubt := self.doubt(len(terms), len(known)):
            warnings.warn(f"{self.url}: {doubt}", AnalyzerWarning, stacklevel=5)
        # Against the plain idf before the engine rounds it, so that plain weights have the counts as boosts.
        factors = boosts(
            [term for term, _ in known],
            [n for _, n in known],
            N,
            scheme,
            lambda n, N: self.idf_q(n, N, 1.0),
            idf_q=self.idf_q,
        )
        rows = {}
        for (term, n), factor in zip(known, factors, strict=True):
            own = self.idf(n, N)
            boost = factor if self.stored_q == 1 else factor * self.idf_q(n, N, 1.0) / own if own else 0.0
            rows[term.term] = Row(term, n, boost, boost * own)
        if not unknown:
            return list(rows.values())
        return [rows.get(term.term, Row(term, n, 0.0, 0.0)) for term, n in zip(terms, dfs, strict=True)]

    def _boosts(self, terms: Iterable[tuple[str, float]]) -> list[Clause]:
        """Return weighted terms as clauses, for an engine that multiplies by its own idf: boost = weight / idf.

        Left out are unknown terms, those of weight 0, and those of idf 0, which no boost can lift. In 32 bits a boost
        is the engine's float, so that one whose division was exact but for the last bits of 64 comes out exact.
        """
        weighted = check_weights(terms)
        N = self.collection().documents
        clauses = []
        for (term, weight), n in zip(weighted, self.doc_freqs([term for term, _ in weighted]), strict=True):
            own = self.idf(min(n, N), N) if n and weight else 0.0
            if own > 0:
                boost = weight / own
                if self.model.float_bits == 32:
                    if not boost < _LARGEST:
                        raise ValueError(f"weight of {term!r} is beyond the engine's 32-bit floats: {weight!r}")
                    boost = float32(boost)
                if boost:
                    clauses.append(Clause(term, n, boost))
        return clauses


class Row(NamedTuple):
    """A term that a query stands for, as it is weighed; of one that widens the query, the words that brought it."""

    term: QueryTerm
    n: int
    boost: float
    weight: float
    words: tuple[str, ...] = ()


_LARGEST = 3.4e38
_F32 = struct.Struct("f")


def float32(x: float) -> float:
    """Return `x` rounded to 32 bits."""
    value: float = _F32.unpack(_F32.pack(x))[0]
    return value


def missing(library: str, extra: str) -> EngineError:
    """Return the error for a library that is not installed, with the command that installs it."""
    return EngineError(f"{library} is not installed: pip install 'qidf[{extra}]'")


def fixed_q(q: float | str, hapax_density: Callable[[], float], instead: str) -> float:
    """Return the q that stored weights can get, for all queries alike: a number, or `"hapax"` worked out.

    ValueError for `"auto"`, which names `instead` as the way to search with it.
    """
    parsed = parse_q(q)
    if parsed == "auto":
        raise ValueError(
            "q = 'auto' goes by how each query is written, so it can't be stored: give a number or 'hapax', or search"
            f" with {instead}, which weighs at query time"
        )
    return q_hapax(hapax_density()) if parsed == "hapax" else float(parsed)


def best(scores: NDArray[np.float64], found: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k documents of `found` with the highest scores, best first; ties go by document number."""
    import numpy as np

    if len(found) > k:  # also ties at the cut, whatever the partition does
        least = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= least]
    return found[np.argsort(-scores[found], kind="stable")[:k]]


_SURROGATE = re.compile("[\ud800-\udfff]")


def has_surrogates(text: str) -> bool:
    """Return whether `text` holds a lone surrogate, which UTF-8 can't encode: no index holds it either."""
    return _SURROGATE.search(text) is not None


def encodable(text: str) -> str:
    """Return `text` with U+FFFD in place of each lone surrogate, as most libraries write them in an index."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def placed(text: str, tokens: Iterable[Any]) -> list[Token]:
    """Return the tokens of a caller's own analysis with their places in `text`.

    A `Token` is taken as it is. A str is looked for after the one before it, as written, then in lower case; where it
    isn't found (a stem, say) it takes the place where the search stood, so that it may miss an identifier's shape.
    """
    from qidf.analysis import Token

    out, at, lower = [], 0, text.lower()
    lower = lower if len(lower) == len(text) else text
    patience = _PATIENCE
    for token in tokens:
        if isinstance(token, Token):
            out.append(token)
            continue
        if not isinstance(token, str):
            raise TypeError(f"an analysis must return str or Token, got {type(token).__name__}")
        near = at + len(token) + _NEAR
        start = text.find(token, at, near)
        if start < 0:
            start = lower.find(token.lower(), at, near)
        if start < 0 and patience:  # far away, or nowhere: too slow to find out for each stem of a long text
            start = lower.find(token.lower(), at)
            patience -= start < 0
        end = start + len(token) if start >= 0 else at
        out.append(Token(token, start if start >= 0 else at, end))
        at = end
    return out


_NEAR = 2000  # code points that are looked through for the next token
_PATIENCE = 100  # tokens that may be looked for in all of a text, in vain


def code_points(text: str) -> Callable[[int], int]:
    """Return the function from offsets in UTF-16 units, as Java counts, to code points of `text`."""
    if text.isascii() or max(text) <= "\uffff":
        return lambda offset: offset
    table: list[int] = []
    for i, char in enumerate(text):
        table += [i] * (2 if char > "\uffff" else 1)
    table.append(len(text))
    return table.__getitem__
