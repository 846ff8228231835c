"""`bm25s:DIR`: a folder that bm25s saved, or a retriever in memory. bm25s itself is not needed to read a folder.

bm25s stores finished scores, so a query's weights are carried by the stored columns: each is multiplied by weight / idf
and added. Exact but for the rounding of what is stored. What it does not store are the analyzer, the number
of tokens and the term counts; `qidf.engines.stored_scores` works the latter two out where they are asked for.

`apply` changes the stored scores themselves: of a retriever in memory here, of a folder in `qidf.engines.rescale`.
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qidf import strictjson
from qidf.analysis import ANALYZERS, Token
from qidf.analysis.word import STOP_WORDS
from qidf.analysis.word import analyze as words
from qidf.engines.base import Clause, Collection, Engine, best, placed
from qidf.engines.stored_scores import StoredScores, model_of, number, part0
from qidf.errors import EngineCorruptError, EngineError, EngineWarning, IndexNotFoundError
from qidf.index.search import Hit, scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qidf.engines import EngineURL
    from qidf.spectrum import Spectrum

OPTIONS = ("analyzer", "stemmer", "id", "q")

DATA = "data.csc.index.npy"
INDICES = "indices.csc.index.npy"
INDPTR = "indptr.csc.index.npy"
NONOCCURRENCE = "nonoccurrence_array.index.npy"
VOCABULARY = "vocab.index.json"
PARAMETERS = "params.index.json"
CORPUS = "corpus.jsonl"
OFFSETS = "corpus.mmindex.json"
TOKENIZER = "vocab.tokenizer.json"

FILES = (
    DATA,
    INDICES,
    INDPTR,
    NONOCCURRENCE,
    VOCABULARY,
    PARAMETERS,
    CORPUS,
    OFFSETS,
    TOKENIZER,
    "stopwords.tokenizer.json",
)
"""What bm25s writes."""

_APPLIED = "_qidf_applied"
_TEXTS = ("text", "content", "contents", "body", "code")  # where an entry of a corpus may hold its document


def open_url(url: EngineURL) -> Bm25s:
    """Open `bm25s:DIR?analyzer=…&stemmer=…&id=…&q=…`."""
    if url.field:
        raise ValueError(f"bm25s has one field: write bm25s:{url.path}, got {url.url!r}")
    options = url.options
    return Bm25s(
        url.path,
        analyze=options.get("analyzer", "word"),
        stemmer=options.get("stemmer", ""),
        id=options.get("id", "id"),
        stored_q=url.number("q", 1.0) if "q" in options else None,
    )


class Bm25s(Engine):
    """A folder that `bm25s.BM25.save` wrote, or a `bm25s.BM25` in memory, with weights at query time.

    Only documents that hold a term of the query are hits; bm25s itself fills its list up with others. A `filter` is
    an array of bool, shape (N,), or a container of document numbers.

    Parameters
    ----------
    source : str, path or bm25s.BM25
    analyze : {"word", "standard", "simple", "code"} or callable, default "word"
        How the documents were tokenized, since bm25s does not store it; `word` is `bm25s.tokenize` as it comes. A
        function gets a text and returns tokens (str), or `Token`s with their places. Stop words of `word` count where
        the vocabulary holds them.
    stemmer : str, default none
        A language of PyStemmer that terms are stemmed with, as `bm25s.tokenize(…, stemmer=Stemmer.Stemmer("english"))`.
    id : str, default "id"
        The key in an entry of the saved corpus that names the document; its number where there is none.
    stored_q : float, default what `apply` left there
        The q of the stored scores, where that is not known any more: of a retriever that was loaded from a folder which
        `qidf apply` changed, or of a folder that such a retriever saved. What `apply` did makes no difference here:
        q = 1 is bm25s' own idf.

    Raises
    ------
    IndexNotFoundError, EngineError, EngineCorruptError
        There is no such folder, or bm25s did not save it, or it is damaged. The message names the file.

    Warns
    -----
    EngineWarning
        The stored scores do not look like those of q = 1: all weights would be wrong. Not where `stored_q` is given.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Any,
        *,
        analyze: str | Callable[[str], Sequence[Any]] = "word",
        stemmer: str = "",
        id: str = "id",
        stored_q: float | None = None,
    ) -> None:
        if isinstance(source, (str, os.PathLike)):
            self.url = f"bm25s:{os.fspath(source)}"
            folder = Path(source)
            self._scores = read_scores(folder)
            if stored_q is not None:
                self._scores = replace(self._scores, q=stored_q)
            self._vocabulary: Mapping[str, int] = read_vocabulary(folder)
            self._corpus: Sequence[Any] | None = _Corpus.open(folder)
        else:
            self.url = "bm25s:(in memory)"
            applied = _applied(source)
            self._scores = applied["original"][2] if applied else scores_of(source, q=stored_q or 1.0)
            self._vocabulary = source.vocab_dict
            self._corpus = source.corpus
        if stored_q is None:
            try:
                self._scores.check()
            except ValueError as doubt:
                warnings.warn(f"{self.url}: {doubt}", EngineWarning, stacklevel=2)
        if _is_numbers(self._vocabulary):
            raise EngineError(
                f"{self.url} has numbers in place of terms, as bm25s' Tokenizer makes them: index its tuples"
                " (return_as='tuple'), or save its vocabulary beside the index (tokenizer.save_vocab)"
            )
        self._id = id
        self.model, self.stored_q = self._scores.model, self._scores.q
        self.remedy = "" if callable(analyze) else "Say which: ?analyzer=… and ?stemmer=… (Python: analyze=, stemmer=)"
        self.analyzer = analyze if isinstance(analyze, str) else "a function"
        self._tokens = _analysis(analyze, stemmer, self._vocabulary)
        self._documents = Collection(self._scores.documents, None, None)
        self._recent: dict[str, int] = {}

    def analyze(self, text: str) -> list[Token]:
        return self._tokens(text)

    def collection(self) -> Collection:
        return self._documents

    def doc_freqs(self, terms: Sequence[str]) -> list[int]:
        offsets = self._scores.indptr
        return [int(offsets[t + 1]) - int(offsets[t]) if t >= 0 else 0 for t in map(self._column, terms)]

    def run(self, clauses: Sequence[Clause], k: int, filter: Any) -> list[Hit]:
        stored = self._scores
        scores = stored.sum((self._column(clause.term), clause.boost) for clause in clauses if not clause.optional)
        found = np.flatnonzero(scores)
        if any(clause.optional for clause in clauses):
            scores = stored.sum((self._column(clause.term), clause.boost) for clause in clauses)
        constant = sum(clause.boost * self.idf(clause.n, stored.documents) for clause in clauses) * self._part0
        if filter is not None:
            found = found[_mask(filter, stored.documents)[found]]
        order = best(scores, found, k)
        numbers, totals = order.tolist(), (scores[order] + constant).tolist()
        names = [self._name(number, self._entry(number)) for number in numbers]
        self._recent = dict(zip(reversed(names), reversed(numbers), strict=True))
        return [Hit(rank, name, "", 1, score) for rank, (name, score) in enumerate(zip(names, totals, strict=True), 1)]

    def parts(self, id: str, terms: Sequence[str]) -> list[tuple[float, int | None]]:
        document, N = self._number(id), self._scores.documents
        out: list[tuple[float, int | None]] = []
        for term, n in zip(terms, self.doc_freqs(terms), strict=True):
            own = self.idf(n, N) if n else 0.0
            if not own:
                out.append((0.0, None))
                continue
            documents, column = self._scores.column(self._column(term))
            mine = column[documents == document]
            out.append((float(mine[0]) / own + self._part0, None) if len(mine) else (self._part0, 0))
        return out

    def spectrum(self) -> Spectrum:
        return self._scores.spectrum()

    def text(self, id: str) -> str | None:
        return _text_of(self._entry(self._number(id)))

    def texts(self) -> Iterator[str]:
        for entry in self._corpus if self._corpus is not None else ():
            if (text := _text_of(entry)) is not None:
                yield text

    def vocabulary(self) -> Iterator[tuple[str, int]]:
        terms = [term for term in self._vocabulary if isinstance(term, str)]
        return zip(terms, self.doc_freqs(terms), strict=True)

    @cached_property
    def _part0(self) -> float:
        return part0(self.model)

    def _column(self, term: str) -> int:
        """Return a term's column, −1 if it has none: bm25s gives the empty token a number that may lie outside."""
        column = self._vocabulary.get(term, -1)
        return column if 0 <= column < self._scores.terms else -1

    def _entry(self, number: int) -> Any:
        """Return what the corpus holds of a document, None if nothing."""
        return self._corpus[number] if self._corpus is not None else None

    def _name(self, number: int, entry: Any) -> str:
        return str(entry.get(self._id, number)) if isinstance(entry, dict) else str(number)

    def _number(self, id: str) -> int:
        if not isinstance(id, str):
            raise TypeError(f"id must be str, got {type(id).__name__}")
        if id in self._recent:  # of the last ranking, which is what is mostly asked for
            return self._recent[id]
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 16 else self._scores.documents
        if number < self._scores.documents and self._name(number, self._entry(number)) == id:
            return number
        return self._numbers[id]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each document by its name, the first of equal ones: one pass over the corpus."""
        numbers: dict[str, int] = {}
        for document, entry in enumerate(self._corpus if self._corpus is not None else ()):
            numbers.setdefault(self._name(document, entry), document)
        return numbers


def apply(retriever: Any, q: float | str, *, stored_q: float | None = None) -> float:
    """Give a `bm25s.BM25` in memory the scores of another q; return that q as a number.

    Everything else of bm25s goes on as it was: `retrieve`, its backends, masks. The scores at q = 1 are kept beside the
    new ones (twice the memory): `apply(retriever, q=1)` brings them back bit for bit. An index made anew is at q = 1.

    Parameters
    ----------
    retriever : bm25s.BM25
        Indexed or loaded, of any method of bm25s; `idf_method` may differ.
    q : float or "hapax"
    stored_q : float, default 1
        The q of the scores it holds, where they came from a folder that `qidf apply` changed. Where it is given it is
        believed; else the scores must look like those of q = 1.

    Raises
    ------
    ValueError
        `"auto"`, a q that is no number or too extreme for the scores' floats, or scores that are not at `stored_q`.
    EngineError
        That is no retriever of bm25s with an index.
    """
    state = _applied(retriever)
    if state is not None:
        scores, nonoccurrence, untouched = state["original"]
    else:
        untouched = scores_of(retriever, q=1.0 if stored_q is None else stored_q)
        if stored_q is None:
            untouched.check()
        scores, nonoccurrence = retriever.scores, retriever.nonoccurrence_array
    value = number(q, untouched)
    if value == untouched.q:
        retriever.scores, retriever.nonoccurrence_array = scores, nonoccurrence
        retriever.__dict__.pop(_APPLIED, None)
        return value
    pieces = list(untouched.rescaled(untouched.factors(value)))
    data = np.concatenate(pieces) if pieces else untouched.data
    retriever.__dict__[_APPLIED] = {"data": data, "original": (scores, nonoccurrence, untouched)}
    retriever.nonoccurrence_array = untouched.nonoccurrence(value)
    retriever.scores = {**scores, "data": data}
    return value


def _applied(retriever: Any) -> dict[str, Any] | None:
    """Return what `apply` keeps of a retriever, None where its scores are not those that `apply` made."""
    state: dict[str, Any] | None = getattr(retriever, "__dict__", {}).get(_APPLIED)
    return state if state is not None and state["data"] is retriever.scores.get("data") else None


def scores_of(retriever: Any, *, q: float = 1.0) -> StoredScores:
    """Return the matrix of a `bm25s.BM25` in memory. EngineError if it is none, or has no index yet."""
    try:
        scores = retriever.scores
        model = model_of(
            retriever.method, retriever.idf_method, retriever.k1, retriever.b, retriever.delta, scores["data"].dtype
        )
        arrays = scores["data"], scores["indices"], scores["indptr"]
        return StoredScores(*arrays, documents=int(scores["num_docs"]), model=model, q=q)
    except (AttributeError, KeyError, TypeError) as error:
        raise EngineError(
            f"expected a bm25s.BM25 with an index (after .index or .load), got {type(retriever).__name__}: {error}"
        ) from None


def read_scores(folder: Path) -> StoredScores:
    """Map the matrix of a saved folder; its q is what `qidf apply` left there.

    Raises
    ------
    IndexNotFoundError, EngineError, EngineCorruptError
        There is no such folder, or bm25s did not save it, or a file is damaged.
    """
    from qidf.engines import rescale

    parameters = read_parameters(folder)
    while True:  # `apply` may put other scores there in between
        before = _stamp(folder / DATA)
        data, indices, indptr = (read_array(folder / name) for name in (DATA, INDICES, INDPTR))
        q = rescale.current_q(folder)
        if _stamp(folder / DATA) == before:
            break
    model = model_of(
        parameters["method"],
        parameters.get("idf_method") or parameters["method"],
        parameters["k1"],
        parameters["b"],
        parameters.get("delta", 0.5),
        data.dtype,
    )
    try:
        return StoredScores(data, indices, indptr, int(parameters["num_docs"]), model, q)
    except EngineCorruptError as error:
        raise EngineCorruptError(f"{folder}: {error} (index and save it again with bm25s)") from None


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what tells whether a file is still the same, also from one that went away and came back (by ctime)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def read_parameters(folder: Path) -> dict[str, Any]:
    """Return what bm25s saved of its settings. Errors as in `read_scores`."""
    if not folder.is_dir():
        raise IndexNotFoundError(f"no folder {folder} (bm25s writes one with retriever.save)")
    path = folder / PARAMETERS
    if not path.exists():
        raise EngineError(f"{folder} is not a folder that bm25s saved: it has no {PARAMETERS}")
    parameters = read_json(path)
    wanted = ("method", "k1", "b", "num_docs")
    if not isinstance(parameters, dict) or any(name not in parameters for name in wanted):
        raise EngineError(f"{path} is not of a version of bm25s that qidf knows: it must hold {', '.join(wanted)}")
    for name in ("method", "idf_method"):
        if not isinstance(parameters.get(name) or "", str):
            raise EngineCorruptError(f"{path}: {name} must be a name, got {parameters[name]!r}")
    for name in ("k1", "b", "delta", "num_docs"):
        value = parameters.get(name, 0.5)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e15:
            raise EngineCorruptError(f"{path}: {name} must be a number of at least 0, got {value!r}")
    if parameters["b"] > 1 or parameters["num_docs"] != int(parameters["num_docs"]):
        raise EngineCorruptError(f"{path}: b must be in [0, 1] and num_docs whole, got {parameters}")
    return parameters


def read_vocabulary(folder: Path) -> dict[str, int]:
    """Return the number of each term. Errors as in `read_scores`."""
    vocabulary = read_json(folder / VOCABULARY)
    if _is_numbers(vocabulary) and (folder / TOKENIZER).exists():
        words = read_json(folder / TOKENIZER)
        vocabulary = (words.get("stem_to_sid") or words.get("word_to_id")) if isinstance(words, dict) else None
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise EngineCorruptError(f"{folder / VOCABULARY} must map terms to numbers")
    return vocabulary


def _text_of(entry: Any) -> str | None:
    """Return the text in an entry of a corpus, None if there is none."""
    if isinstance(entry, dict):
        entry = next((entry[key] for key in _TEXTS if isinstance(entry.get(key), str)), None)
    return entry if isinstance(entry, str) else None


def _is_numbers(vocabulary: Any) -> bool:
    """Return whether the terms of a vocabulary are numbers: ids, which bm25s' JSON turns into strings."""
    some = list(vocabulary)[:100] if isinstance(vocabulary, Mapping) else []
    return bool(some) and all(isinstance(term, int) or (term.isdigit() and term.isascii()) or not term for term in some)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. EngineError if it is missing, EngineCorruptError if it is damaged."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        return strictjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise EngineError(f"{path} is missing: save the index again with bm25s") from None
    except (ValueError, RecursionError) as error:
        raise EngineCorruptError(f"{path} is damaged: {error}") from None


def read_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers that numpy saved. Never a pickle. Errors as in `read_json`."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        if path.stat().st_size < 4096:  # an array of no items can't be mapped
            with open(path, "rb") as file:
                array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        else:
            array = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise EngineError(f"{path} is missing: save the index again with bm25s") from None
    except (ValueError, EOFError, OverflowError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise EngineCorruptError(f"{path} is damaged or no array of numbers: {error}") from None
    if array.dtype.hasobject:
        raise EngineCorruptError(f"{path} is damaged or no array of numbers: it holds Python objects")
    return np.asarray(array)  # a plain view: slices of a memmap cost ten times as much


class _Corpus(Sequence[Any]):
    """The entries of a saved corpus, read one at a time: bm25s keeps the offset of each line beside it."""

    def __init__(self, path: Path, offsets: list[int]) -> None:
        self._path = path
        self._offsets = offsets

    @classmethod
    def open(cls, folder: Path) -> _Corpus | None:
        if not (folder / CORPUS).is_file():
            return None
        if (folder / OFFSETS).exists():
            offsets = read_json(folder / OFFSETS)
        else:
            with open(folder / CORPUS, "rb") as lines:
                offsets, at = [], 0
                for line in lines:
                    offsets.append(at)
                    at += len(line)
        if not isinstance(offsets, list) or not all(
            type(offset) is int and 0 <= offset < 1 << 63 for offset in offsets
        ):
            raise EngineCorruptError(f"{folder / OFFSETS} must hold a list of offsets")
        return cls(folder / CORPUS, offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < len(self._offsets):
            return None  # bm25s leaves out what it can't serialize
        with open(self._path, "rb") as lines:
            lines.seek(self._offsets[number])
            return self._parse(number, lines.readline())

    def _parse(self, number: int, line: bytes) -> Any:
        try:
            return strictjson.loads(line)
        except (ValueError, RecursionError):
            raise EngineCorruptError(f"{self._path}: entry {number} is damaged") from None

    def __iter__(self) -> Iterator[Any]:
        with open(self._path, "rb") as lines:
            for number, offset in enumerate(self._offsets):
                lines.seek(offset)
                yield self._parse(number, lines.readline())


def _analysis(
    analyze: str | Callable[[str], Sequence[Any]], stemmer: str, vocabulary: Mapping[str, int]
) -> Callable[[str], list[Token]]:
    """Return the function from a text to its tokens."""
    if not isinstance(analyze, str):
        tokens: Callable[[str], list[Token]] = lambda text: placed(text, analyze(text))  # noqa: E731
    elif analyze == "word":
        # Where the index has no stop words they are left out; where it has some, they are terms like others.
        left_out = {word for word in STOP_WORDS if word not in vocabulary}
        tokens = lambda text: words(text, left_out)  # noqa: E731
    elif analyze in ANALYZERS:
        tokens = scanner(analyze).tokens
    else:
        raise ValueError(f"analyzer must be one of {', '.join(ANALYZERS)}, got {analyze!r}")
    if not stemmer:
        return tokens
    try:
        import Stemmer
    except ImportError:
        raise EngineError("PyStemmer is not installed: pip install PyStemmer") from None
    try:
        stem = Stemmer.Stemmer(stemmer).stemWord
    except KeyError:
        raise ValueError(f"stemmer must be one of {', '.join(Stemmer.algorithms())}, got {stemmer!r}") from None
    return lambda text: [token._replace(term=stem(token.term)) for token in tokens(text)]


def _mask(filter: Any, documents: int) -> NDArray[np.bool_]:
    """Return which documents may be found, as an array of bool. ValueError if the filter's shape is another."""
    if isinstance(filter, np.ndarray) and filter.dtype == bool:
        if filter.shape != (documents,):
            raise ValueError(f"filter must have one value for each of {documents:,} documents, got {filter.shape}")
        return filter
    mask = np.zeros(documents, dtype=bool)
    try:
        mask[[number for number in map(operator.index, filter) if 0 <= number < documents]] = True
    except TypeError:
        raise TypeError("filter must be an array of bool or a container of document numbers (int)") from None
    return mask


__all__ = ["OPTIONS", "Bm25s", "apply", "open_url"]
