"""The method: what a query term weighs. Arithmetic on counts and on the query's text; knows no engine, index or file.

Letters: N documents, n of them hold the term (its df), c occurrences of the term in the query, δ = 0.5.

    odds(n, N)   x = (N − n + δ) / (n + δ), or 1 + x as Lucene has it
    ln_q(x)      (x^(1−q) − 1) / (1 − q), and ln x at q = 1
    idf_q        ln_q(odds(n, N)): at q = 1 BM25's own idf; below 1 it grows as a power of rarity
    w            c^a · idf_q: the query term weight

An argument that is no such number is a ValueError that names it and what was got.
"""

# ruff: noqa: N803 (N is the literature's letter)
from __future__ import annotations

import math
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

DELTA = 0.5
"""δ: half a document added to each side of the odds, so that n = 0 and n = N stay finite."""

HAPAX_SLOPE = 7.28
HAPAX_RANGE = (0.05, 1.0)
"""The published predictor q = 1 − 7.28·h and the range it is clamped to."""

ODDS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
"""What an idf is the logarithm of, by the BM25 that has it; the formulas stand at `idf`."""

K1 = 1.2
B = 0.75
"""BM25's saturation and length normalization (Robertson & Zaragoza 2009), with Lucene's defaults."""

Q: TypeAlias = float | Literal["auto", "hapax"]
"""What a caller may ask for: one q for every term, or a rule that finds it."""


class QueryTerm(NamedTuple):
    """A unique term of a query: how often it stands there, and whether it was written as an identifier."""

    term: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a term
    shaped: bool


class Scheme(NamedTuple):
    """How a query's terms are weighted: q of identifier-shaped terms, q of words, and the exponent a of the count."""

    q_shaped: float
    q_word: float
    a: float

    def q(self, term: QueryTerm) -> float:
        """Return the q that `term` gets."""
        return self.q_shaped if term.shaped else self.q_word


AUTO = {
    "standard": Scheme(q_shaped=0.7, q_word=0.8, a=0.5),
    "simple": Scheme(q_shaped=0.7, q_word=0.8, a=0.5),
    "word": Scheme(q_shaped=0.7, q_word=0.8, a=0.5),
    "code": Scheme(q_shaped=0.9, q_word=0.9, a=0.5),
}
"""What `"auto"` means, by the analyzer the index was built with. An analyzer not listed is taken for `standard`."""


# Numbers


def rsj_odds(n: float, N: float) -> float:
    """Return x = (N − n + δ) / (n + δ), the odds of Robertson & Spärck Jones (1976) without relevance information.

    `n` above `N` counts as `N`: the statistics of a live index are never quite consistent. Both are finite and ≥ 0.
    """
    total = _number("N", N, low=0)
    df = min(_number("n", n, low=0), total)
    return (total - df + DELTA) / (df + DELTA)


def lucene_odds(n: float, N: float) -> float:
    """Return 1 + `rsj_odds(n, N)`, never below 1: Lucene's BM25Similarity (Elasticsearch, OpenSearch), Tantivy."""
    return 1 + rsj_odds(n, N)


def ln_q(x: float, q: float) -> float:
    """Return the q-logarithm (x^(1−q) − 1) / (1 − q), and ln x at q = 1 (Tsallis 1994).

    It is Box & Cox's (1964) power transform with λ = 1 − q. It rises with x from ln_q(1) = 0, faster the smaller q is;
    for q > 1 it stays below 1 / (q − 1). Computed as expm1((1 − q)·ln x) / (1 − q), which goes through q = 1
    without a step.

    `x` is finite and > 0, `q` finite; a result beyond the largest float is a ValueError as well.
    """
    x, q = _number("x", x), _number("q", q)
    if x <= 0:
        raise ValueError(f"x must be greater than 0, got {x!r}")
    if q == 1:
        return math.log(x)
    try:
        value = math.expm1((1 - q) * math.log(x)) / (1 - q)
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(f"q must keep ln_q(x) within a float's range, got q = {q!r} at x = {x!r}")
    return value


def idf(n: float, N: float, q: float = 1.0, odds: str = "lucene") -> float:
    """Return idf_q = ln_q(odds(n, N)), never negative.

    - `lucene`: 1 + x, never below 1. At q = 1 it is Lucene's ln(1 + (N − n + 0.5) / (n + 0.5)) bit for bit (before
      Lucene rounds it to 32 bits)
    - `robertson`: x, clipped at 1, so that the idf is 0 where n > N/2, as in bm25s
    - `atire`: N / n (Trotman, Jia & Crane 2012)
    - `bm25l`: (N + 1) / (n + 0.5) (Lv & Zhai 2011a)
    - `bm25+`: (N + 1) / n (Lv & Zhai 2011b)

    The last three are what bm25s and rank_bm25 take the logarithm of (Kamphuis et al. 2020 list them). Where they
    divide by n, n = 0 counts as n = 1.
    """
    if odds == "lucene":
        return ln_q(lucene_odds(n, N), q)
    if odds == "robertson":
        return ln_q(max(1.0, rsj_odds(n, N)), q)
    check_odds(odds)
    total = _number("N", N, low=0)
    df = min(_number("n", n, low=0), total)
    if odds == "bm25l":
        return ln_q((total + 1) / (df + DELTA), q)
    return ln_q(max(1.0, (total + (odds == "bm25+")) / max(df, 1.0)), q)


def idf_power(n: float, N: float, gamma: float, odds: str = "lucene") -> float:
    """Return idf^γ, a baseline that sharpens rarity too but keeps the logarithm. `gamma` is finite and ≥ 0."""
    return _power(idf(n, N, odds=odds), "gamma", gamma)


def dph(tf: float, dl: float, average: float, cf: float, N: float) -> float:
    """Return what a term adds to a document's score in DFR-DPH (Amati 2006; Terrier's DPH): no parameters.

    With f = tf/dl, dl the document's length, `average` the documents' mean length, cf the term's occurrences in the
    collection:

        (1 − f)² / (tf + 1) · (tf · log2(tf · average/dl · N/cf) + ½ · log2(2π · tf · (1 − f)))

    0 where the term is all that the document holds. It is negative for a term that stands everywhere.
    """
    tf, dl = _number("tf", tf, low=1), _number("dl", dl, low=1)
    average, cf, total = _number("average", average, low=1e-9), _number("cf", cf, low=1), _number("N", N, low=1)
    f = tf / dl
    if f >= 1:
        return 0.0
    information = tf * math.log2(tf * average / dl * total / cf) + 0.5 * math.log2(2 * math.pi * tf * (1 - f))
    return (1 - f) ** 2 / (tf + 1) * information


def count_factor(count: float, a: float) -> float:
    """Return count^a: the count itself at a = 1 (plain BM25), exactly 1 at a = 0 (each term once).

    `count` is finite and ≥ 1, `a` finite and ≥ 0. The BM25 of TREC-3 (Robertson et al. 1994) damps the same count by
    saturation, with its constant k3.
    """
    return _power(_number("count", count, low=1), "a", a)


# What the user asks for


def q_hapax(hapax_density: float) -> float:
    """Return 1 − 7.28·h clamped to [0.05, 1], h = (terms with df = 1) / (tokens) in [0, 1]."""
    low, high = HAPAX_RANGE
    return min(high, max(low, 1 - HAPAX_SLOPE * _number("hapax_density", hapax_density, low=0, high=1)))


def parse_q(value: str | float) -> Q:
    """Return a finite number, or a string that spells one, as a float; `"auto"` and `"hapax"` as they are."""
    if isinstance(value, str):
        if value == "auto":
            return "auto"
        if value == "hapax":
            return "hapax"
    try:
        return _number("q", float(value) if isinstance(value, str) else value)
    except ValueError:
        raise ValueError(f"q must be a number, 'hapax' or 'auto', got {value!r}") from None


def check_bm25(k1: float, b: float) -> tuple[float, float]:
    """Return k1 and b as floats, or raise ValueError: k1 is finite and ≥ 0, b in [0, 1]; strings and bools are not."""
    return _number("k1", k1, low=0), _number("b", b, low=0, high=1)


def check_odds(odds: str) -> None:
    """Raise ValueError unless `odds` is one of `ODDS`."""
    if odds not in ODDS:
        raise ValueError(f"odds must be one of {', '.join(ODDS)}, got {odds!r}")


def check_count(name: str, value: int) -> int:
    """Return a whole number of at least 1, also numpy's; ValueError for anything else."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return number


def check_weights(terms: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return weighted terms with exact types, or raise ValueError (weights, repeats) or TypeError (terms)."""
    weighted = []
    for term, weight in terms:
        try:
            number = float(weight)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (number >= 0 and math.isfinite(number)):
            raise ValueError(f"weight of {term!r} must be finite and at least 0, got {weight!r}")
        if not isinstance(term, str):
            raise TypeError(f"term must be str, got {type(term).__name__}")
        weighted.append((str(term), number))
    if len({term for term, _ in weighted}) != len(weighted):
        raise ValueError("terms must be unique: add up the weights of one that stands twice")
    return weighted


def resolve(q: Q, a: float | None = None, *, analyzer: str, hapax_density: float) -> Scheme:
    """Return the weights' scheme for what a user asked of an index.

    A number is the q of every term, with a = 1; `"hapax"` is `q_hapax(hapax_density)`, with a = 1; `"auto"` looks the
    `analyzer` up in `AUTO`. `a`, where given, overrides: finite and ≥ 0. `hapax_density` is read by `"hapax"` only.
    """
    q = parse_q(q)
    if q == "auto":
        scheme = AUTO.get(analyzer, AUTO["standard"])
    else:
        one = q_hapax(hapax_density) if q == "hapax" else q
        scheme = Scheme(q_shaped=one, q_word=one, a=1.0)
    return scheme if a is None else scheme._replace(a=_number("a", a, low=0))


# Weights


def term_weights(
    terms: Sequence[QueryTerm],
    dfs: Sequence[int],
    N: int,
    scheme: Scheme,
    odds: str = "lucene",
) -> list[float]:
    """Return w = c^a · idf_q of each term; `dfs` holds their n in the same order.

    Exactly `count_factor(count, a) * idf(n, N, q, odds)`, so a batch that keeps idf by n arrives at the same bits.
    """
    _check_lengths(terms, dfs)
    weights = [
        count_factor(term.count, scheme.a) * idf(n, N, scheme.q(term), odds) for term, n in zip(terms, dfs, strict=True)
    ]
    return _finite(weights, scheme)


def boosts(
    terms: Sequence[QueryTerm],
    dfs: Sequence[int],
    N: int,
    scheme: Scheme,
    engine_idf: Callable[[int, int], float],
    odds: str = "lucene",
    idf_q: Callable[[int, int, float], float] | None = None,
) -> list[float]:
    """Return the boost of each term for an engine that multiplies by an idf of its own, `engine_idf(n, N)`.

    boost = s · w / engine_idf, for a query of one boosted clause per unique term: the count is already in w. s makes
    Σ boost·engine_idf over the known terms (n > 0) what it is in the plain query, Σ count·engine_idf, so the
    largest attainable score stays where it was; each document's own score does not.

    A term whose engine idf is ≤ 0 gets boost 0 and stands outside both sums; so does an unknown term, with a finite
    boost. Without any known term all boosts are the counts, and where scheme and engine agree (q = 1, a = 1, the same
    idf) they are the counts exactly. `engine_idf` is asked for n = 0 too, never for n > N. `idf_q(n, N, q)` stands in
    for `idf` with `odds`, for an engine whose idf is not a logarithm of odds everywhere.
    """
    _check_lengths(terms, dfs)
    if not any(n > 0 for n in dfs):
        return [float(term.count) for term in terms]
    raw, plain, weighted = [], 0.0, 0.0
    for term, n in zip(terms, dfs, strict=True):
        n = min(n, N)
        factor, q = count_factor(term.count, scheme.a), scheme.q(term)
        own = idf_q(n, N, q) if idf_q else idf(n, N, q, odds)
        theirs = _number(f"engine_idf({n}, {N})", engine_idf(n, N))
        raw.append(factor * (own / theirs) if theirs > 0 else 0.0)  # equal idfs divide to exactly 1
        if n > 0 and theirs > 0:
            plain += term.count * theirs
            weighted += factor * own
    scale = plain / weighted if weighted > 0 else 1.0  # robertson odds may weigh every term 0
    return _finite([scale * boost for boost in raw], scheme)


EXPANSION = 32
"""Terms of several parts that a query gets beside its own at most: those of the largest weights."""


class Related(NamedTuple):
    """A term of the index that is made of words of the query: its weight, and which words brought it."""

    term: str
    weight: float
    words: tuple[str, ...]


def word_weights(counts: Mapping[str, int], dfs: Mapping[str, int], N: int, scheme: Scheme) -> dict[str, float]:
    """Return w(p) = c^a · idf_q(n) of each word of a query that anything holds, with the q of words.

    `counts` are the words' counts in the query, identifiers taken apart, and `dfs` the documents that hold each word,
    alone or inside an identifier: what an index with the `code` analyzer would have as its df.
    """
    return {
        word: count_factor(count, scheme.a) * idf(dfs[word], N, scheme.q_word)
        for word, count in counts.items()
        if dfs.get(word, 0) > 0
    }


def expand(
    weights: Mapping[str, float],
    candidates: Iterable[tuple[str, Sequence[str], int]],
    without: Container[str] = (),
    budget: int = EXPANSION,
) -> list[Related]:
    """Return the terms of an index that a query is best widened by, heaviest first, ties in order of the terms.

    A term t whose n different parts hold k words of the query weighs

        w(t) = k/n · Σ w(p) over these k words

    It stands for what an index of parts would add for the same words, and less the more of t is something else. A word
    itself that the index has as a term (a part of one of the query's identifiers) is the case k = n = 1.

    Parameters
    ----------
    weights : mapping of str to float
        w(p) of the query's words; see `word_weights`.
    candidates : iterable of (term, words, n)
        Each term once, with those of its parts that are words of the query, and its number of different parts.
    without : container of str
        The query's own terms, which have weights already.
    budget : int, default 32
        Terms of several parts at most; the words themselves, no more than the query has, are not counted.
    """
    found = []
    for term, words, n in candidates:
        weight = 0.0
        for word in words:
            weight += weights.get(word, 0.0)
        if weight > 0 and term not in without:
            found.append((-len(words) / n * weight, term, words, n))
    found.sort()
    compounds = iter(range(budget))
    return [
        Related(term, -weight, tuple(words))
        for weight, term, words, n in found
        if n == 1 or next(compounds, None) is not None
    ]


# The query's text


def query_terms(text: str, tokens: Iterable[tuple[str, int, int, bool]]) -> list[QueryTerm]:
    """Return the unique terms of a query in order of first occurrence.

    `tokens` are (term, start, end, part) as an analyzer gives them (`qidf.analysis.Token`), offsets into `text` in code
    points. A term is shaped if any of its occurrences overlaps an identifier of the text (`getUser's` may be one token)
    and is not a `part`, which only the `code` analyzer adds.
    """
    spans = identifier_spans(text)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    counts: dict[str, int] = {}
    shaped: set[str] = set()
    for term, start, end, part in tokens:
        counts[term] = counts.get(term, 0) + 1
        if spans and not part:
            i = bisect_right(ends, start)  # the first span that ends after the token's start
            if i < len(starts) and starts[i] < end:
                shaped.add(term)
    return [QueryTerm(term, count, term in shaped) for term, count in counts.items()]


def identifier_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end), in code points, of each identifier-shaped run of `text`, in order.

    A run is maximal in word characters and `.` `:` `>` `-`; those four are cut from its ends.
    """
    folded = _fold(text)
    if _SHAPE.search(folded) is None:  # most questions; only for speed
        return []
    return [match.span() for match in _RUN.finditer(folded) if _has_shape(match.group())]


def is_identifier(run: str) -> bool:
    """Return whether one run of word characters and `.` `:` `>` `-` is shaped as an identifier.

    Shaped is what holds, anywhere in the run, one of

    - an inner hump: `getUser`, `HTTPServer`, `IOError`; not `JSON`, not `Parser`
    - an underscore beside letters: `get_user`, `MAX_SIZE`, `_private`, `__init__`
    - letters, then digits: `sha256`, `x86`
    - letters on both sides of `.`, `::` or `->`: `os.path`, `std::vector`, `self->ptr`; `end.Next` is taken for one

    and is not ordinary writing: abbreviations (`e.g.`, any single letters with dots), versions (`v1.2`), domains,
    units (`kHz`), plurals of capitals (`URLs`). No language lets a name begin with a digit, so ordinals, numbers with
    units, hex literals, times and decades (`1st`, `10ms`, `0x1F`, `1990s`) are none, humps or not. A hyphen joins a run
    but makes no identifier: `utf8` is one, `utf-8` and `well-known` are not, `getUser-like` is.

    Letters are those of any script with case: `größeMax`, `имяФайла`. The other scripts write words without spaces, so
    digits and dots beside their letters are prose; an underscore counts there too (`文件_名`).
    """
    return _has_shape(_fold(run).strip(".:>-"))


_RUN = re.compile(r"\w(?:[\w.:>-]*\w)?")  # without the punctuation at its ends

# Both patterns see folded text, where [A-Z] and [a-z] stand for every cased letter. Each alternative is tried only at
# the start of a word or looks at a few characters, and repeats are disjoint or possessive: linear in the text.
_SHAPE = re.compile(
    r"""
      (?<! [A-Za-z\d_] ) (?:                # at the start of a word, which is no digit:
          [A-Z]*+ [a-z]++ [A-Z]             #   getUser, GetUser
        | [A-Z]{2,}+ [a-z]                  #   HTTPServer, IOError
        | [A-Za-z]++ \d                     #   sha256
      )
    | [^\W\d_] _ | _ [^\W\d_]               # get_user, __init__, MAX_SIZE
    | (?<! \w ) _++ \d++ [^\W\d_]           # _0x1a
    | [A-Za-z] (?: \. | :: | -> ) [A-Za-z]  # os.path, std::vector, self->ptr
    """,
    re.VERBOSE,
)

# What has such a shape in ordinary writing and is no identifier. Only between boundaries: `a.b` is an abbreviation,
# `a.b.size`, `self->a.b` and `v1::Pod` are left alone.
_PROSE = re.compile(
    r"""
    (?<! [\w.] ) (?<! :: ) (?<! -> )
    (?:
        [A-Za-z] (?: \. [A-Za-z] )++                                # e.g  i.e  a.m  U.S.A
      | Ph\.?Ds? | [BMD]\.?Sc | Ed\.?D                              # degrees
      | [A-Z]{2,}+ s                                                # URLs, IDs
      | [kKMGTP]? (?: Hz | iB | B | Wh | eV | [Bb]ps ) | dBm? | mAh? | pH   # 10 kHz; 10kHz begins with a digit
      | [vV]? \d++ (?: \. (?: \d++ | x ) )*+                        # v2  v1.2  1.0.x
        (?: [.-]? (?i: a | alpha | b | beta | rc | pre | preview | dev | post | snapshot | release | final )
            [.-]? \d*+ )?                                           # 3.11rc1  2.0.0-beta1
      | (?<! - ) (?: www \. [\w.-]++                                # domains: www.anything
          | (?: [\w-]++ \. )+ (?: com | org | edu | gov | mil       # example.com; net and io are packages too often
              | (?: ac | co | com | edu | gov | org ) \. (?: au | br | cn | in | jp | kr | nz | uk | za )
              | (?: github | gitlab | readthedocs ) \. io ) )
    )
    (?! \w | \.\w | :: | -> )
    """,
    re.VERBOSE,
)


def _has_shape(run: str) -> bool:
    """Return whether a run of folded text has an identifier's shape that is not ordinary writing."""
    if run.isalpha() and run.islower():  # most runs of a question; only for speed
        return False
    return _SHAPE.search(run) is not None and _SHAPE.search(_PROSE.sub(" ", run)) is not None


class _Fold(dict[int, str]):
    """Case of every script in ASCII, for `str.translate`: É → Q, é → q (no word of `_PROSE` has a q); 名 stays 名."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char.isascii():
            self[code] = char
        else:
            self[code] = "Q" if char != char.lower() else "q" if char != char.upper() else char
        return self[code]


_FOLD = _Fold()


def _fold(text: str) -> str:
    """Return `text` with cased letters in ASCII, code point for code point."""
    return text if text.isascii() else text.translate(_FOLD)


# Checks


def _number(name: str, value: float, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a float, or raise ValueError unless it is a finite number from `low` to `high`."""
    try:
        number = float(value) if math.isfinite(value) and not isinstance(value, bool) else math.nan
    except (TypeError, OverflowError):  # not a number; an int beyond float
        number = math.nan
    if low <= number <= high:
        return number
    bounds = f" from {low:g} to {high:g}" if high < math.inf else f" of at least {low:g}" if low > -math.inf else ""
    raise ValueError(f"{name} must be a finite number{bounds}, got {value!r}")


def _power(base: float, name: str, exponent: float) -> float:
    """Return base^exponent, exact at exponents 0 and 1; the exponent goes by `name` in errors."""
    exponent = _number(name, exponent, low=0)
    if exponent in (0, 1):
        return base if exponent else 1.0
    try:
        return math.pow(base, exponent)
    except OverflowError:
        raise ValueError(f"{name} must keep {base!r}^{name} within a float's range, got {exponent!r}") from None


def _check_lengths(terms: Sequence[QueryTerm], dfs: Sequence[int]) -> None:
    if len(terms) != len(dfs):
        raise ValueError(f"dfs must hold one df for each of {len(terms)} terms, got {len(dfs)}")


def _finite(weights: list[float], scheme: Scheme) -> list[float]:
    if not all(map(math.isfinite, weights)):
        raise ValueError(f"scheme must keep every weight within a float's range, got {scheme!r}")
    return weights
