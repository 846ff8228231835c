"""The suite that every engine passes: its own BM25 at q = 1, a = 1, and a brute force with any other weights.

`class TestX(Conformance)` with a fixture `subject`, a real index of DOCUMENTS without those of DELETED where the engine
knows deletion.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from qidf.engines import Engine
from qidf.errors import AnalyzerWarning, EngineError
from qidf.expansion.building import build
from qidf.expansion.dictionary import About, Dictionary, write
from qidf.expansion.place import identity
from qidf.weighting import AUTO
from tests.engines.brute_force import BruteForce

Ranking = Sequence[tuple[str, float]]

GAP = 1e-5
"""Relative difference of scores below which an order means nothing."""


WORDS = """the of file read config parse value user count index search return while lock getUserById parse_config
    std::vector http2 self.data IOError utf8 RetryPolicy MAX_SIZE"""


def _documents() -> list[tuple[str, str]]:
    chance = random.Random(11)
    words = [
        *WORDS.split(),
        *(f"w{i}" for i in range(200)),
    ]
    weights = [1 / (i + 1) for i in range(len(words))]
    out = []
    for i in range(70):
        row = chance.choices(words, weights, k=chance.randint(2, 80))
        out.append((f"doc{i}", " ".join(["everywhere", *row, f"only{i}"])))
    out += [
        ("emoji", "everywhere 𝒳 𠮷野家 getUserById 🎉🎉 parse 𝔘nicode"),
        ("cjk", "everywhere 検索 エンジン 한국어 поиск größe café naïve İstanbul ΣΊΣΥΦΟΣ"),
        ("combining", "everywhere cafe\u0301 nai\u0308ve re\u0301sume\u0301"),
        ("empty", ""),
        ("punctuation", "… --- !!! ()[]{}"),
        ("one", "everywhere"),
        ("long", "everywhere " + " ".join(chance.choices(words, weights, k=2500))),
        ("wide", "everywhere " + " ".join(f"x{i}" for i in range(1600))),
        ("twin1", "everywhere two documents of the same words twinned"),
        ("twin2", "everywhere two documents of the same words twinned"),
        ("repeats", "everywhere " + "retry " * 50),
        ("gone1", "everywhere parse_config gone deleted w3 w5"),
        ("gone2", "everywhere getUserById gone onlygone1 retry retry"),
    ]
    return out


DOCUMENTS: list[tuple[str, str]] = _documents()
DELETED: frozenset[str] = frozenset({"gone1", "gone2", "doc3", "doc40"})

QUERIES = [
    "everywhere",
    "config",
    "parse_config",
    "read the config file",
    "getUserById getUserById the user user user",
    "where is std::vector used in self.data",
    "𠮷野家 🎉 𝔘nicode 検索",
    "café größe İstanbul ΣΊΣΥΦΟΣ",
    "only7 only8 everywhere",
    "gone deleted retry",
    "two documents twinned",
    "unknownterm config",
    "w3 w5 w7 w11 w13 w17 w19 w23 w29 w31",
]
LONG_QUERY = " ".join(
    [f"x{i}" for i in range(1600)]
    + [f"w{i}" for i in range(200)]
    + [f"nothing{i}" for i in range(250)]
    + ["config"] * 2
)
"""2,051 terms, 1,801 of them known: more than Lucene takes as it comes."""


@dataclass(frozen=True)
class Subject:
    """What is tested: an engine, what its index was made of, and the library's own BM25."""

    engine: Engine
    documents: dict[str, str]
    deleted: frozenset[str]
    plain: Callable[[str, int], Ranking]


def assert_same_ranking(got: Ranking, expected: Ranking, relative: float = GAP) -> None:
    """Compare scores rank by rank, and the documents where a gap says that their order means something."""
    assert len(got) == len(expected)
    assert len({id for id, _ in got}) == len(got)
    scores = dict(expected)
    last = expected[-1][1] if expected else 0.0
    for (id, score), (_, other) in zip(got, expected, strict=True):
        assert score == pytest.approx(other, rel=relative, abs=1e-9)
        if id in scores:
            assert score == pytest.approx(scores[id], rel=max(relative, GAP), abs=1e-9)
        else:  # only a tie at the cut may be another document
            assert score == pytest.approx(last, rel=max(relative, GAP), abs=1e-9)


@lru_cache(maxsize=32)
def _counted(engine: Engine, documents: tuple[tuple[str, str], ...], deleted: frozenset[str]) -> BruteForce:
    tokens = {id: [token.term for token in engine.analyze(text)] for id, text in documents}
    return BruteForce(tokens, deleted, engine.model)


def counted(subject: Subject) -> BruteForce:
    return _counted(subject.engine, tuple(subject.documents.items()), subject.deleted)


def ranked(scores: dict[str, float], k: int) -> Ranking:
    return sorted(((id, score) for id, score in scores.items() if score > 0), key=lambda hit: -hit[1])[:k]


def found(subject: Subject, terms: Sequence[tuple[str, float]], k: int) -> Ranking:
    return [(hit.id, hit.score) for hit in subject.engine.search_terms(terms, k) if hit.score > 0]


@pytest.mark.filterwarnings(f"ignore::{AnalyzerWarning.__module__}.{AnalyzerWarning.__name__}")
class Conformance:
    """Inherit, and give the fixture `subject`."""

    @pytest.mark.parametrize("query", QUERIES)
    @pytest.mark.parametrize("k", [1, 10, 500])
    def test_plain_weights_are_the_librarys_own_bm25(self, subject: Subject, query: str, k: int) -> None:
        hits = subject.engine.search(query, k, q=1, a=1)
        relative = 1e-12 if subject.engine.model.float_bits == 64 else 2e-6
        assert_same_ranking([(hit.id, hit.score) for hit in hits], subject.plain(query, k), relative)
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))

    def test_plain_weights_of_two_thousand_terms(self, subject: Subject) -> None:
        hits = subject.engine.search(LONG_QUERY, 20, q=1, a=1)
        relative = 1e-11 if subject.engine.model.float_bits == 64 else 5e-5  # 1,800 additions in 32 bits
        assert_same_ranking([(hit.id, hit.score) for hit in hits], subject.plain(LONG_QUERY, 20), relative)

    @pytest.mark.parametrize("seed", range(12))
    def test_any_weights_are_a_brute_force_with_these_weights(self, subject: Subject, seed: int) -> None:
        chance, brute = random.Random(seed), counted(subject)
        known = [term for term in sorted(brute.df) if brute.idf(term) > 0]
        terms = chance.sample(known, min(len(known), chance.choice([1, 3, 10, 150])))
        weights = {term: 10 ** chance.uniform(-3, 3) for term in terms}
        weights[terms[0]] = 0.0 if len(terms) > 1 else 1.0
        weights["no such term"] = 5.0
        assert_same_ranking(found(subject, list(weights.items()), 20), ranked(brute.scores(weights), 20))

    @pytest.mark.parametrize("q", [0.05, 0.5, 0.9, 1.5])
    @pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("query", QUERIES[3:7])
    def test_weights_are_the_formula(self, subject: Subject, q: float, a: float, query: str) -> None:
        self.check_weights(subject, q, a, query)

    def test_weights_of_two_thousand_terms_are_the_formula(self, subject: Subject) -> None:
        self.check_weights(subject, 0.5, 0.5, LONG_QUERY)

    def check_weights(self, subject: Subject, q: float, a: float, query: str) -> None:
        brute, engine = counted(subject), subject.engine
        counts: dict[str, int] = {}
        for token in engine.analyze(query):
            counts[token.term] = counts.get(token.term, 0) + 1
        known = {term: c for term, c in counts.items() if brute.df[term] and self.own_idf(subject, term) > 0}
        raw = {term: c**a * self.idf_q(subject, term, q) for term, c in known.items()}
        plain = sum(c * self.own_idf(subject, term) for term, c in known.items())
        scale = plain / sum(raw.values()) if plain and self.scaled else 1.0
        expected = {term: scale * weight for term, weight in raw.items()}
        weights = dict(engine.weights(query, q=q, a=a))
        for term, weight in weights.items():
            assert weight == pytest.approx(expected.get(term, 0.0), rel=1e-5)
        assert weights.keys() >= expected.keys()
        hits = [(hit.id, hit.score) for hit in engine.search(query, 20, q=q, a=a) if hit.score > 0]
        assert_same_ranking(hits, ranked(brute.scores(expected), 20), 1e-5 if len(query) < 500 else 5e-5)

    def tells_tokens(self, subject: Subject) -> bool:
        """Whether the number of tokens is known, or can be worked out."""
        return True

    scaled = True
    """Whether all weights of a query carry the factor that keeps the plain query's level."""

    def own_idf(self, subject: Subject, term: str) -> float:
        return counted(subject).idf(term)

    def carries(self, subject: Subject, term: str) -> bool:
        """Whether a term can have a weight: an engine that multiplies by an idf of 0 gives it none."""
        return not self.scaled or self.own_idf(subject, term) > 0

    def idf_q(self, subject: Subject, term: str, q: float) -> float:
        return counted(subject).idf(term, q)

    @pytest.mark.parametrize("q", ["auto", "hapax"])
    def test_auto_and_hapax(self, subject: Subject, q: str) -> None:
        brute, engine = counted(subject), subject.engine
        if q == "hapax":
            density = sum(n == 1 for n in brute.df.values()) / brute.tokens
            expected = min(1.0, max(0.05, 1 - 7.28 * density))
            if self.tells_tokens(subject):
                assert engine.scheme(q).q_word == pytest.approx(expected, rel=1e-5)
            return
        for query in QUERIES:
            terms = [term for term in engine.query_terms(query) if brute.df[term.term]]
            terms = [term for term in terms if self.own_idf(subject, term.term) > 0]
            scheme = AUTO.get(engine.analyzer, AUTO["standard"])
            raw = {
                t.term: t.count**scheme.a * self.idf_q(subject, t.term, scheme.q_shaped if t.shaped else scheme.q_word)
                for t in terms
            }
            plain = sum(t.count * self.own_idf(subject, t.term) for t in terms)
            scale = plain / sum(raw.values()) if self.scaled and plain else 1.0
            weights = {term: scale * weight for term, weight in raw.items()}
            hits = [(hit.id, hit.score) for hit in engine.search(query, 20, q=q) if hit.score > 0]
            assert_same_ranking(hits, ranked(brute.scores(weights), 20))

    def test_statistics_are_those_of_the_tokens(self, subject: Subject) -> None:
        brute = counted(subject)
        documents, tokens, average = subject.engine.collection()
        assert documents == brute.N
        if tokens is not None and average is not None:
            assert tokens == pytest.approx(brute.tokens, rel=1e-6)
            assert average == pytest.approx(brute.average, rel=1e-6)
        terms = [*sorted(brute.df), "no such term"]
        assert subject.engine.doc_freqs(terms) == [brute.df[term] for term in terms]

    def test_the_engines_own_idf(self, subject: Subject) -> None:
        brute = counted(subject)
        for term in sorted(brute.df):
            own = subject.engine.idf(brute.df[term], brute.N)
            assert own == pytest.approx(self.own_idf(subject, term), rel=2e-6, abs=1e-9)

    def test_spectrum(self, subject: Subject) -> None:
        if not self.tells_tokens(subject):
            with pytest.raises(EngineError, match="can't be worked out"):
                subject.engine.spectrum()
            return
        brute, spectrum = counted(subject), subject.engine.spectrum()
        assert (spectrum.documents, spectrum.terms) == (brute.N, len(brute.df))
        assert spectrum.tokens == pytest.approx(brute.tokens, rel=1e-6)
        assert spectrum.hapax_terms == sum(n == 1 for n in brute.df.values())
        counted_ids = [id for id in brute.counts if brute.model.counts_deleted or id not in subject.deleted]
        once = Counter(term for id in counted_ids for term in brute.counts[id].elements())
        assert spectrum.once_terms in (None, sum(n == 1 for n in once.values()))
        assert {(band.low, band.high): band.terms for band in spectrum.bands if band.terms} == Counter(
            (1 << n.bit_length() - 1, (1 << n.bit_length()) - 1) for n in brute.df.values()
        )

    def test_deleted_documents_are_not_found(self, subject: Subject) -> None:
        for query in ("everywhere", "gone deleted retry onlygone1", "only3 only40"):
            assert not {hit.id for hit in subject.engine.search(query, 500)} & subject.deleted

    def test_offsets_are_code_points(self, subject: Subject) -> None:
        text = "𝒳𠮷 getUser 🎉 parse"
        tokens = [token for token in subject.engine.analyze(text) if token.term.casefold() in ("getuser", "getus")]
        assert [text[token.start : token.end] for token in tokens] == ["getUser"]
        for text in subject.documents.values():
            for token in subject.engine.analyze(text):
                assert 0 <= token.start <= token.end <= len(text)

    def test_lone_surrogates_are_no_crash(self, subject: Subject) -> None:
        subject.engine.search("\ud800 config \udfff", 5)
        assert subject.engine.doc_freqs(["\ud800"]) == [0]

    @pytest.mark.parametrize("query", ["", "   ", "… !!!", "nosuchterm norsuchthis"])
    def test_nothing_known_is_nothing_found(self, subject: Subject, query: str) -> None:
        assert subject.engine.search(query, 10) == []

    def test_impossible_arguments(self, subject: Subject) -> None:
        engine = subject.engine
        for k in (0, -1, 1.5, True):
            with pytest.raises(ValueError, match="k must be"):
                engine.search_terms([("config", 1.0)], k)  # type: ignore[arg-type]
        for weight in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="weight of 'config'"):
                engine.search_terms([("config", weight)])
        with pytest.raises(ValueError, match="unique"):
            engine.search_terms([("config", 1.0), ("config", 2.0)])
        with pytest.raises(TypeError, match="query must be str"):
            engine.search(3)  # type: ignore[arg-type]

    def test_explanations_add_up_to_the_score(self, subject: Subject) -> None:
        for query in QUERIES[3:8]:
            for q, a in ((1.0, 1.0), ("auto", None)):
                for hit in subject.engine.search(query, 3, q=q, a=a):
                    explanation = subject.engine.explain(query, hit.id, q=q, a=a)
                    assert explanation.score == pytest.approx(hit.score, rel=1e-5)
                    brute = counted(subject)
                    for row in explanation.terms:
                        assert row.n == brute.df[row.term]
                        assert row.contribution == pytest.approx(row.weight * row.tf_part)
                        if row.tf is not None and row.n:
                            assert row.tf == brute.counts[hit.id][row.term]

    @pytest.fixture
    def with_dictionary(self, subject: Subject, tmp_path: Path) -> Iterator[Engine]:
        code = tmp_path / "documents.jsonl"
        rows = ({"id": id, "text": text} for id, text in subject.documents.items() if text.strip())
        code.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        build(subject.engine, str(tmp_path / "dictionary"), spellings=str(code))
        yield subject.engine
        subject.engine.dictionary = None

    @pytest.mark.parametrize("query", ["id of a user", "config parse w3", "retry policy", "userById readConfig"])
    def test_a_query_is_widened_by_identifiers(self, subject: Subject, with_dictionary: Engine, query: str) -> None:
        engine, brute = with_dictionary, counted(subject)
        own, every = engine.weights(query, expand="off"), engine.weights(query)
        assert every[: len(own)] == own
        added = dict(every[len(own) :])
        every_told = {one.term: one for one in engine.widened(query)}
        told = {term: one for term, one in every_told.items() if self.carries(subject, term)}
        assert added.keys() == told.keys()
        assert all(weight > 0 for weight in added.values())
        if engine.analyzer != "code":  # where identifiers are taken apart already
            assert added
        for term, one in told.items():
            assert one.n == brute.df[term]
            assert one.words
        hits = engine.search(query, 20)
        got = [(hit.id, hit.score) for hit in hits if hit.score > 0]
        assert_same_ranking(got, found(subject, every, 20))
        plain = [(hit.id, hit.score) for hit in engine.search(query, 20, expand="off") if hit.score > 0]
        assert_same_ranking(plain, found(subject, own, 20))
        for hit in hits[:3]:
            explanation = engine.explain(query, hit.id)
            assert explanation.score == pytest.approx(hit.score, rel=1e-5)
            assert {row.term for row in explanation.terms if row.words} == told.keys()
            assert not any(row.words for row in engine.explain(query, hit.id, expand="off").terms)

    def test_an_identifier_is_found_by_its_words_alone(self, subject: Subject, with_dictionary: Engine) -> None:
        """`policy` stands nowhere by itself."""
        if with_dictionary.analyzer == "code":
            pytest.skip("it is a term there")
        assert not with_dictionary.search("policy", expand="off")
        holding = {id for id, text in subject.documents.items() if "RetryPolicy" in text}
        assert {hit.id for hit in with_dictionary.search("policy", 500)} == holding

    @pytest.mark.parametrize("query", ["id of a user", "config parse w3", "retry policy", "userById readConfig"])
    def test_added_terms_may_rank_without_finding(self, subject: Subject, with_dictionary: Engine, query: str) -> None:
        """Of what `recall` finds, those stay that a term of the query's own finds, with the scores they had."""
        own = [term for term, weight in with_dictionary.weights(query, expand="off") if weight > 0]
        counts = counted(subject).counts
        every = [(hit.id, hit.score) for hit in with_dictionary.search(query, 500, expand="recall") if hit.score > 0]
        held = [(id, score) for id, score in every if any(counts[id][term] for term in own)]
        ranked = with_dictionary.search(query, 500, expand="rank")
        assert_same_ranking([(hit.id, hit.score) for hit in ranked if hit.score > 0], held)
        least = with_dictionary.search(query, 3, expand="rank")
        assert [hit.score for hit in least] == pytest.approx([hit.score for hit in ranked[:3]], rel=1e-5)
        assert not with_dictionary.search("xyzzyq", expand="rank")
        if with_dictionary.analyzer != "code":
            assert not with_dictionary.search("policy", expand="rank")

    def test_a_dictionary_may_be_older_than_the_index(self, subject: Subject, tmp_path: Path) -> None:
        engine = subject.engine
        about = About(identity(engine), engine.analyzer, 10, 10, "files")
        write(str(tmp_path / "old"), about, [("configfile", ("config", "file"))], {"config": 9, "file": 10})
        engine.dictionary = Dictionary(str(tmp_path / "old"))
        try:
            assert engine.weights("the config file") == engine.weights("the config file", expand="off")
        finally:
            engine.dictionary = None
        with pytest.raises(ValueError, match="expand must be one of auto, rank, recall, off"):
            engine.search("config", expand="on")  # type: ignore[arg-type]

    def test_a_document_that_is_not_there(self, subject: Subject) -> None:
        for id in ("no such document", "gone1" if subject.deleted else "nope", "\ud800", "99999999999999999999"):
            with pytest.raises(KeyError):
                subject.engine.explain("config", id)

    def test_threads_may_share_an_engine(self, subject: Subject) -> None:
        queries = QUERIES * 4
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda query: subject.engine.search(query, 10), queries))
        assert together == [subject.engine.search(query, 10) for query in queries]
