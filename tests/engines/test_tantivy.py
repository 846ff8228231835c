"""Tantivy indexes as tantivy-py writes them: every number is held against what Tantivy itself explains or ranks."""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import simple
from qidf.engines import connect
from qidf.engines.tantivy import STEMMERS, Tantivy
from qidf.errors import EngineError, IndexCorruptError, IndexNotFoundError
from tests.engines.conformance import DELETED, DOCUMENTS, Conformance, Subject
from tests.engines.required import absent
from tests.engines.small import DELETED as GONE
from tests.engines.small import DOCUMENTS as TEXTS

try:
    import tantivy
except ImportError as error:
    absent("tantivy", f"{error} (pip install 'qidf[tantivy]')")

from tests.engines.tantivy_index import SEGMENTS, altered, fill, found, plain, schema, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tantivy")
    write(path, TEXTS, deleted=GONE)
    return path


@pytest.fixture
def engine(folder: Path) -> Iterator[Tantivy]:
    with Tantivy(folder, "body") as engine:
        yield engine


def explained(engine: Tantivy, term: str, id: str) -> dict[str, Any]:
    """What Tantivy tells of a term in a document."""
    query = tantivy.Query.term_query(engine.index.schema, "body", term)
    by_id = tantivy.Query.term_query(engine.index.schema, "id", id)
    (_, address), *_ = engine.searcher.search(by_id, 1).hits
    told: dict[str, Any] = json.loads(query.explain(engine.searcher, address).to_json())
    return told


def ulps(x: float, y: float) -> int:
    """How many 32-bit floats lie between two of them."""
    a, b = struct.unpack("ii", struct.pack("ff", x, y))
    return abs(int(a) - int(b))


@pytest.fixture(scope="module", params=["default", "whitespace", "en_stem"])
def subject_of_tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    path = tmp_path_factory.mktemp("conformance")
    index = write(path, DOCUMENTS, tokenizer=request.param, deleted=DELETED)
    engine = Tantivy(path, "body")

    def own(query: str, k: int) -> list[tuple[str, float]]:
        return plain(index, [token.term for token in engine.analyze(query)], k)

    return Subject(engine, dict(DOCUMENTS), DELETED, own)


class TestConformance(Conformance):
    @pytest.fixture
    def subject(self, subject_of_tokenizer: Subject) -> Subject:
        return subject_of_tokenizer

    @pytest.mark.parametrize("query", ["", "   ", "… !!!", "nosuchterm norsuchthis"])
    def test_nothing_known_is_nothing_found(self, subject: Subject, query: str) -> None:
        if subject.engine.analyzer == "whitespace" and "…" in query:
            assert [hit.id for hit in subject.engine.search(query)] == ["punctuation"]  # a word like any other
        else:
            super().test_nothing_known_is_nothing_found(subject, query)


class TestAnalysis:
    TEXT = "Running Größe cafés ΑΣ naturellement häuser книги كتب foo_bar x9 don't getUser " + (
        "a" * 39 + " " + "b" * 40 + " " + "é" * 20
    )

    @pytest.mark.parametrize("tokenizer", ["default", "whitespace", "raw", *(f"{code}_stem" for code in STEMMERS)])
    def test_terms_are_those_in_an_index(self, tokenizer: str) -> None:
        index = write(None, [("1", self.TEXT)], tokenizer=tokenizer)
        engine = Tantivy(index, "body")
        held = index.searcher().terms_with_prefix("body", "", limit=None)
        assert {token.term for token in engine.analyze(self.TEXT)} == {term for term, _ in held}
        assert engine.analyzer == ("simple" if tokenizer == "default" else tokenizer)

    def test_no_other_name_is_registered(self) -> None:
        # a stemmer that tantivy-py began to register would be missing here
        for code in sorted({a + b for a in "abcdefghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz"}):
            if code not in STEMMERS:
                with pytest.raises(ValueError, match="tokenizer"):
                    write(None, [("1", "x")], tokenizer=f"{code}_stem")

    def test_offsets_count_code_points(self, engine: Tantivy) -> None:
        text = "naïve 𝒜b😀 e\u0301t ß.x"
        tokens = engine.analyze(text)
        assert [text[token.start : token.end] for token in tokens] == ["naïve", "𝒜b", "e", "t", "ß", "x"]
        assert [token.term for token in tokens] == ["naïve", "𝒜b", "e", "t", "ß", "x"]

    def test_lone_surrogates_are_no_letters(self, engine: Tantivy) -> None:
        assert engine.analyze("a\ud800b") == simple.analyze("a\ud800b")
        assert engine.doc_freqs(["\ud800"]) == [0]
        assert engine.parts("a", ["\ud800"]) == [(0.0, 0)]

    def test_stems(self) -> None:
        index = write(None, [("1", "x")], tokenizer="en_stem")
        assert [token[:3] for token in Tantivy(index, "body").analyze("Reading cafés")] == [
            ("read", 0, 7),
            ("café", 8, 13),
        ]

    def test_own_tokenizer(self) -> None:
        own = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex("[a-z]+")).build()
        index = tantivy.Index(schema("mine"))
        index.register_tokenizer("mine", own)
        writer = index.writer(15_000_000, 1)
        writer.add_document(tantivy.Document(id="1", body="abc1def"))
        writer.commit()
        index.reload()
        with pytest.raises(EngineError, match=r"'mine' of field 'body' is not one of Tantivy's own.*analyze="):
            Tantivy(index, "body")
        engine = Tantivy(index, "body", analyze=own)
        assert engine.analyzer == "mine"
        assert [hit.id for hit in engine.search("def!")] == ["1"]

    def test_own_tokenizer_called_default_is_not_simple(self) -> None:
        own = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        assert Tantivy(write(None, TEXTS), "body", analyze=own).analyzer == "default"


ANALYZED = Tantivy(write(None, [("1", "x")]), "body")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | st.text(alphabet="aZ é_ΣİſǅK9²①𝒜\ud800\u0345ⅷ", max_size=60))
def test_default_is_simple(text: str) -> None:
    assert ANALYZED.analyze(text) == simple.analyze(text)


def test_default_is_simple_on_every_character() -> None:
    text = " ".join(map(chr, range(sys.maxunicode + 1)))
    assert ANALYZED.analyze(text) == simple.analyze(text)


class TestStatistics:
    def test_deleted_documents_count(self, engine: Tantivy) -> None:
        told = explained(engine, "text", "j")["details"]
        n, N = (row["value"] for row in told[1]["details"])
        average = told[2]["details"][4]["value"]
        assert engine.searcher.num_segments == SEGMENTS
        assert engine.searcher.num_docs == len(TEXTS) - len(GONE)
        tokens = sum(len(simple.analyze(text)) for _, text in TEXTS)
        assert engine.collection() == (len(TEXTS), tokens, average)
        assert (engine.doc_freqs(["text"]), N) == ([n], len(TEXTS))

    def test_doc_freqs(self, engine: Tantivy) -> None:
        held = Counter(term for _, text in TEXTS for term in {token.term for token in simple.analyze(text)})
        assert engine.doc_freqs([*held, "unheard"]) == [*held.values(), 0]

    def test_spectrum(self, engine: Tantivy) -> None:
        held = Counter(term for _, text in TEXTS for term in {token.term for token in simple.analyze(text)})
        spectrum = engine.spectrum()
        assert (spectrum.documents, spectrum.tokens) == engine.collection()[:2]
        assert (spectrum.terms, spectrum.once_terms) == (len(held), None)
        assert spectrum.hapax_terms == sum(df == 1 for df in held.values())
        assert sum(band.terms for band in spectrum.bands) == len(held)
        assert engine.search("query", q="hapax")

    def test_idf_is_what_tantivy_computes(self) -> None:
        N = 300
        documents = [(str(i), " ".join(f"w{n}" for n in range(i + 1, N + 1))) for i in range(N)]  # wn is in n documents
        engine = Tantivy(write(None, documents))
        for n in range(1, N + 1):
            assert engine.doc_freqs([f"w{n}"]) == [n]
            assert ulps(engine.idf(n, N), explained(engine, f"w{n}", "0")["details"][1]["value"]) <= 1

    def test_nothing_begins_with_the(self) -> None:
        assert Tantivy(write(None, [("1", "x y"), ("2", "x")])).collection() == (2, 3, 1.5)

    def test_most_frequent_term_is_deleted(self) -> None:
        texts = ["gone", "kept one", "", "gone gone", "", ""]  # Tantivy drops a segment once all of it is deleted
        index = fill(None, schema(), [{"id": str(i), "body": text} for i, text in enumerate(texts)])
        writer = index.writer(15_000_000, 1)
        writer.delete_documents_by_term("id", "0")
        writer.delete_documents_by_term("id", "3")
        writer.commit()
        index.reload()
        engine = Tantivy(index)
        assert engine.doc_freqs(["gone", "kept"]) == [2, 1]
        _, address = engine.searcher.search(tantivy.Query.term_query(index.schema, "body", "kept"), 1).hits[0]
        told = json.loads(
            tantivy.Query.term_query(index.schema, "body", "kept").explain(engine.searcher, address).to_json()
        )
        assert engine.collection().documents == told["details"][1]["details"][1]["value"]
        assert engine.collection().average_length == told["details"][2]["details"][4]["value"]

    @pytest.mark.parametrize("documents", [[], [("1", ""), ("2", "")]])
    def test_no_tokens(self, documents: list[tuple[str, str]]) -> None:
        engine = Tantivy(write(None, documents))
        assert engine.collection() == (len(documents), 0, 0.0)
        assert engine.search("anything") == []
        assert engine.spectrum().terms == 0

    def test_engine_is_a_snapshot(self) -> None:
        index = write(None, TEXTS)
        engine = Tantivy(index)
        before = engine.collection(), engine.doc_freqs(["parse"]), engine.search("parse")
        writer = index.writer(15_000_000, 1)
        writer.add_document(tantivy.Document(id="new", body="parse"))
        writer.commit()
        index.reload()
        assert (engine.collection(), engine.doc_freqs(["parse"]), engine.search("parse")) == before
        assert Tantivy(index).collection().documents == len(TEXTS) + 1


@given(st.integers(1, 1 << 24).flatmap(lambda N: st.tuples(st.integers(0, N), st.just(N))))
def test_idf_rounds_each_step_to_32_bits(counts: tuple[int, int]) -> None:
    n, N = counts
    half, one = np.float32(0.5), np.float32(1)
    x = (np.float32(N - n) + half) / (np.float32(n) + half)
    assert ulps(ANALYZED.idf(n, N), float(np.float32(np.log(np.float64(one + x))))) <= 1


class TestSearch:
    @pytest.mark.parametrize("query", ["the query", "parse parse the text", "zymurgy", "schema planner reader query"])
    def test_plain_weights_give_plain_scores(self, engine: Tantivy, query: str) -> None:
        expected = plain(engine.index, query.split())
        hits = engine.search(query, q=1.0)
        assert [hit.id for hit in hits] == [id for id, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], rel=3e-7)

    @pytest.mark.parametrize("query", ["the query", "parse parse the text", "schema planner reader query"])
    def test_each_term_once_is_what_tantivy_parses(self, engine: Tantivy, query: str) -> None:
        # since 0.26 its query parser drops repeated terms
        expected = found(engine.searcher, engine.index.parse_query(query, ["body"]))
        assert expected == plain(engine.index, list(dict.fromkeys(query.split())))
        terms = [(term, weight) for term, weight in engine.weights(" ".join(dict.fromkeys(query.split())), q=1.0)]
        assert [(hit.id, hit.score) for hit in engine.search_terms(terms)] == expected
        assert [hit.id for hit in engine.search(query, q=1.0, a=0.0)] == [id for id, _ in expected]

    def test_plain_boosts_are_the_counts(self, engine: Tantivy) -> None:
        weights = engine.weights("parse the query, parse the the text", q=1.0)
        assert [(term, boost) for term, _, boost, _ in engine._boosts(weights)] == [
            ("parse", 2.0),
            ("the", 3.0),
            ("query", 1.0),
            ("text", 1.0),
        ]

    def test_deleted_documents_are_not_found(self, engine: Tantivy) -> None:
        hits = engine.search("the query text", 100)
        assert not GONE & {hit.id for hit in hits}
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))

    def test_filter_leaves_scores_alone(self, engine: Tantivy) -> None:
        terms = engine.weights("the query text")
        every = {hit.id: hit.score for hit in engine.search_terms(terms, 100)}
        wanted = ["c", "d", "h", "j"]  # c and h hold no term
        filter = tantivy.Query.term_set_query(engine.index.schema, "id", wanted)
        hits = engine.search_terms(terms, 100, filter=filter)
        assert {hit.id: hit.score for hit in hits} == {id: every[id] for id in wanted if id in every}
        assert {"d", "j"} == {hit.id for hit in hits}
        assert [hit.id for hit in engine.search("the query text", 1, filter=filter)] == ["j"]

    def test_filter_is_a_query(self, engine: Tantivy) -> None:
        with pytest.raises(TypeError, match=r"filter must be a tantivy\.Query, got set"):
            engine.search("the", filter={"a"})

    def test_query_runs_in_a_search_of_ones_own(self, engine: Tantivy) -> None:
        query = engine.query("parse the query")
        hits = engine.search("parse the query", 100)
        assert found(engine.searcher, query, 100) == [(hit.id, hit.score) for hit in hits]
        assert engine.searcher.search(engine.query("unheard"), 10).hits == []
        assert engine.searcher.search(engine.query(""), 10).hits == []

    def test_nothing_to_search_for(self, engine: Tantivy) -> None:
        assert engine.search_terms([]) == []
        assert engine.search_terms([("unheard", 1.0)]) == []

    def test_weight_0_finds_nothing(self, engine: Tantivy) -> None:
        assert [hit.id for hit in engine.search_terms([("zymurgy", 0.0), ("planner", 1.0)])] == ["e"]

    def test_k_beyond_the_documents(self, engine: Tantivy) -> None:
        assert len(engine.search("the", 10**12)) == 5

    def test_thousands_of_terms(self, tmp_path: Path) -> None:
        words = [f"w{i}" for i in range(2_000)]
        engine = Tantivy(write(tmp_path, [(str(i), " ".join(words[i:])) for i in range(0, 2_000, 100)]))
        hits = engine.search_terms([(word, 1.0) for word in words], 3)
        assert [hit.rank for hit in hits] == [1, 2, 3]
        assert len(hits) == len({hit.id for hit in hits})

    def test_equal_scores_stand_in_the_index_order(self, tmp_path: Path) -> None:
        engine = Tantivy(write(tmp_path, [(str(i), "same text") for i in range(12)]))
        hits = engine.search("same", 12)
        assert [hit.id for hit in hits] == [id for id, _ in plain(engine.index, ["same"], 12)]

    def test_most_terms_unknown_is_no_reason_to_doubt_the_schemas_tokenizer(self, engine: Tantivy) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.search("query unheard unseen")


class TestDocument:
    def test_parts_are_what_tantivy_multiplies(self, engine: Tantivy) -> None:
        told = explained(engine, "parse", "a")
        (part, tf), other = engine.parts("a", ["parse", "zymurgy"])
        assert (tf, other) == (3, (0.0, 0))
        assert part == pytest.approx(told["value"] / told["details"][1]["value"], rel=3e-7)
        assert engine.length("a") == told["details"][2]["details"][3]["value"]

    @pytest.mark.parametrize("q", ["auto", 1.0, 0.3])
    def test_explanation_adds_up_to_the_score(self, engine: Tantivy, q: float) -> None:
        for hit in engine.search("parse the query text", 100, q=q):
            told = engine.explain("parse the query text", hit.id, q=q)
            assert told.score == pytest.approx(hit.score, rel=1e-6)
            assert told.length == engine.length(hit.id)

    def test_text_and_length(self, engine: Tantivy) -> None:
        assert engine.text("d") == dict(TEXTS)["d"]
        assert engine.length("e") == 5
        assert (engine.text("c"), engine.length("c")) == ("", 0)

    def test_length_is_one_of_256(self) -> None:
        engine = Tantivy(write(None, [("1", "x " * 1000)]))
        length = engine.length("1")
        assert length is not None
        assert 900 < length < 1000

    @pytest.mark.parametrize("id", ["b", "unheard", "\ud800", "0:0", ""])
    def test_no_such_document(self, engine: Tantivy, id: str) -> None:  # b is deleted
        for ask in (engine.text, engine.length, lambda id: engine.parts(id, ["the"])):
            with pytest.raises(KeyError):
                ask(id)

    def test_text_is_not_stored(self) -> None:
        engine = Tantivy(write(None, TEXTS, stored=False))
        assert engine.text("a") is None
        assert engine.length("a") is None
        assert engine.explain("parse", "a").length == 11
        assert engine.length("a") == 11
        assert engine.length("b") is None

    def test_several_values(self) -> None:
        engine = Tantivy(fill(None, schema(), [{"id": "1", "body": ["one two", "three"]}]))
        assert engine.text("1") == "one two\nthree"
        assert engine.length("1") == 3


def ids_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", stored=True)
    builder.add_text_field("path", stored=True, tokenizer_name="raw")
    builder.add_text_field("words", stored=True, index_option="basic")
    builder.add_text_field("unstored", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("unsigned", stored=True, indexed=True)
    builder.add_integer_field("integer", stored=True, indexed=True)
    builder.add_integer_field("unindexed", stored=True)
    builder.add_float_field("float", stored=True)
    builder.add_json_field("json", stored=True)
    return builder.build()


@pytest.fixture(scope="module")
def index() -> tantivy.Index:
    one = {"path": "src/a.py", "words": "A b", "unsigned": 7, "integer": -3, "unindexed": 5, "float": 0.5}
    two = {"path": "src/b.py", "words": "C", "unsigned": 8, "integer": 0, "unindexed": 6, "float": 2.0}
    return fill(None, ids_schema(), [{"body": "one"} | one, {"body": "one two"} | two, {"body": "one two three"}])


class TestIds:
    @pytest.mark.parametrize(
        ("id", "names"),
        [
            ("", ["src/a.py", "src/b.py"]),
            ("path", ["src/a.py", "src/b.py"]),
            ("words", ["A b", "C"]),
            ("unsigned", ["7", "8"]),
            ("integer", ["-3", "0"]),
            ("unindexed", ["5", "6"]),
            ("float", ["0.5", "2.0"]),
        ],
    )
    def test_kinds(self, index: tantivy.Index, id: str, names: list[str]) -> None:
        engine = Tantivy(index, "body", id=id)
        hits = engine.search("one")
        assert [hit.id for hit in hits[:2]] == names
        assert re.fullmatch(r"\d+:\d+", hits[2].id)  # no value in any of the fields
        assert [engine.text(hit.id) for hit in hits] == ["one", "one two", "one two three"]

    @pytest.mark.parametrize("id", ["07", "+7", "7_0", "7 ", "99999999999999999999999", "-1", "٧"])
    def test_other_spellings_of_a_number(self, index: tantivy.Index, id: str) -> None:
        with pytest.raises(KeyError):
            Tantivy(index, "body", id="unsigned").text(id)

    def test_no_id_field(self) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("body", stored=True)
        engine = Tantivy(fill(None, builder.build(), [{"body": "x"}, {"body": "x y"}]))
        assert sorted(engine.text(hit.id) or "" for hit in engine.search("x")) == ["x", "x y"]

    @pytest.mark.parametrize("id", ["unstored", "json", "unheard"])
    def test_no_such_field(self, index: tantivy.Index, id: str) -> None:
        with pytest.raises(EngineError, match=r"id must be a stored field.*one of body, path, words, uns"):
            Tantivy(index, "body", id=id)


class TestOpen:
    def test_url(self, folder: Path) -> None:
        url = f"tantivy:{folder}#body?id=id"
        with connect(url) as engine:
            assert engine.url == url
            assert repr(engine) == f"<Tantivy {url!r}: 10 documents>"
            assert engine.search("zymurgy")[0].id == "h"

    def test_only_field_is_found(self, folder: Path) -> None:
        engine = Tantivy(folder)
        assert (engine.field, engine.url) == ("body", f"tantivy:{folder}#body")
        assert Tantivy(write(None, TEXTS)).url == "tantivy:memory#body"

    def test_id_field_is_not_the_text(self) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        assert Tantivy(tantivy.Index(builder.build())).field == "id"
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("body")
        assert Tantivy(tantivy.Index(builder.build())).field == "body"

    def test_several_fields(self) -> None:
        builder = tantivy.SchemaBuilder()
        for name in ("title", "body"):
            builder.add_text_field(name)
        builder.add_text_field("tag", index_option="basic")
        with pytest.raises(EngineError, match=r"name the field of memory after a #: one of title, body$"):
            Tantivy(tantivy.Index(builder.build()))

    def test_no_text_field(self) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("n", indexed=True)
        with pytest.raises(EngineError, match="there is none"):
            Tantivy(tantivy.Index(builder.build()))

    @pytest.mark.parametrize(("field", "what"), [("unheard", "does not exist"), ("integer", "is not an indexed text")])
    def test_no_such_field(self, field: str, what: str) -> None:
        with pytest.raises(EngineError, match=f"'{field}' of memory {what}.*one of body, path, words, unstored"):
            Tantivy(tantivy.Index(ids_schema()), field)

    def test_field_bm25_cannot_work_on(self) -> None:
        with pytest.raises(EngineError, match=r"counts no terms.*which BM25 needs"):
            Tantivy(tantivy.Index(schema(record="basic")), "body")
        with pytest.raises(EngineError, match="has no field norms, which BM25 needs"):
            Tantivy(tantivy.Index(altered(schema(), "body", fieldnorms=False)), "body")
        with pytest.raises(EngineError, match=r"is not an indexed text field: one of id$"):
            Tantivy(tantivy.Index(altered(schema(), "body")), "body")

    def test_counts_without_positions_are_enough(self) -> None:
        engine = Tantivy(write(None, TEXTS, record="freq"))
        assert engine.search("parse")[0].id == "f"

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(IndexNotFoundError, match="no such folder"):
            Tantivy(tmp_path / "nothing")
        with pytest.raises(EngineError, match=r"has no meta\.json"):
            Tantivy(tmp_path)

    def test_library_is_missing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tantivy", None)
        with pytest.raises(EngineError, match=r"tantivy is not installed: pip install 'qidf\[tantivy\]'"):
            Tantivy(folder)

    def test_library_is_old(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tantivy, "TextAnalyzer", object)
        with pytest.raises(EngineError, match=r"older than 0\.27"):
            Tantivy(folder)

    def test_other_version(self, folder: Path, tmp_path: Path) -> None:
        copy = shutil.copytree(folder, tmp_path / "copy")
        for file in copy.iterdir():
            data = file.read_bytes()
            file.write_bytes(re.sub(rb'"index_format_version":\d', b'"index_format_version":2', data))
        with pytest.raises(EngineError, match=r"made by another version of Tantivy\. .*index version: 2") as caught:
            Tantivy(copy)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["meta.json", ".idx", ".term", ".store", ".fieldnorm"])
    @pytest.mark.parametrize("damage", ["cut", "empty"])
    def test_damaged(self, folder: Path, tmp_path: Path, name: str, damage: str) -> None:
        copy = shutil.copytree(folder, tmp_path / "copy")
        file = next(file for file in copy.iterdir() if file.name.endswith(name))
        file.write_bytes(file.read_bytes()[: 100 if damage == "cut" else 0])
        with pytest.raises(IndexCorruptError, match=r"is damaged, make it again\. Tantivy says: ") as caught:
            Tantivy(copy)
        assert "\n" not in str(caught.value)

    def test_damage_found_while_searching(self, folder: Path, tmp_path: Path) -> None:
        copy = shutil.copytree(folder, tmp_path / "copy")
        for file in copy.glob("*.store"):
            data = file.read_bytes()
            file.write_bytes(bytes(255 - byte for byte in data[:40]) + data[40:])
        with pytest.raises(IndexCorruptError):
            Tantivy(copy).search("the query text")

    def test_folder_that_cannot_be_locked(self, folder: Path, tmp_path: Path) -> None:
        copy = shutil.copytree(folder, tmp_path / "copy")
        lock = copy / ".tantivy-meta.lock"
        lock.unlink(missing_ok=True)
        lock.mkdir()
        with pytest.raises(EngineError, match="can't be read"):
            Tantivy(copy)

    def test_nothing_is_written(self, folder: Path) -> None:
        def state() -> dict[str, tuple[int, int]]:
            return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in [folder, *folder.iterdir()]}

        before = state()
        with Tantivy(folder) as engine:
            engine.explain("the query", engine.search("the query")[0].id)
            engine.spectrum()
        assert state() == before

    def test_index_that_is_being_written(self, tmp_path: Path) -> None:
        index = write(tmp_path, TEXTS)
        writer = index.writer(15_000_000, 1)
        writer.add_document(tantivy.Document(id="new", body="parse"))
        assert len(Tantivy(tmp_path).search("parse")) == 2
        writer.rollback()
