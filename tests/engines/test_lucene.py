"""Lucene indexes as Lucene writes them: every number is held against what Lucene itself explains or ranks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qidf.analysis import standard
from qidf.engines import connect
from qidf.engines.jvm import JVM_OPTIONS
from qidf.engines.lucene import ANALYZERS, Lucene
from qidf.errors import AnalyzerWarning, EngineError, IndexCorruptError, IndexNotFoundError
from qidf.weighting import AUTO
from tests.engines import conformance, small
from tests.engines.conformance import Conformance, Subject
from tests.engines.lucene_index import jars, java, open_writer, plain, write_fields, write_index

JClass = java()
JARS = str(jars())

DOCUMENTS = [*small.DOCUMENTS[:-1], ("j", small.DOCUMENTS[-1][1] + " " + "and more " * 30)]
DELETED = small.DELETED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lucene")
    write_index(path, DOCUMENTS, DELETED)
    return path


@pytest.fixture
def engine(folder: Path) -> Iterator[Lucene]:
    with Lucene(folder, "body", jars=JARS) as engine:
        yield engine


def fields(**values: Any) -> list[Any]:
    """Java fields of a document: a text, or (text, indexed as, norms, stored)."""
    out = []
    for name, value in values.items():
        text, how, norms, stored = value if isinstance(value, tuple) else (value, "DOCS_AND_FREQS", True, True)
        kind = JClass("org.apache.lucene.document.FieldType")()
        kind.setIndexOptions(JClass("org.apache.lucene.index.IndexOptions").valueOf(how))
        kind.setOmitNorms(not norms)
        kind.setStored(stored)
        kind.setTokenized(name != "id")
        out.append(JClass("org.apache.lucene.document.Field")(name, text, kind))
    return out


def anserini(id: str, raw: str, contents: str) -> list[Any]:
    """What Anserini's DefaultLuceneDocumentGenerator makes of a document."""
    key = JClass("org.apache.lucene.util.BytesRef")(id)
    return [
        *fields(id=(id, "DOCS", False, True)),
        JClass("org.apache.lucene.document.BinaryDocValuesField")("id", key),
        JClass("org.apache.lucene.document.StoredField")("raw", raw),
        *fields(contents=(contents, "DOCS_AND_FREQS", True, False)),
    ]


def run(code: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which has no JVM yet."""
    keep = {k: v for k, v in os.environ.items() if k != "QIDF_LUCENE_JARS"}
    source = "from qidf.engines.lucene import Lucene\nfrom qidf.errors import *\n" + textwrap.dedent(code)
    command = [sys.executable, "-W", "error", "-c", source]
    return subprocess.run(command, env={**keep, **(env or {})}, capture_output=True, text=True, timeout=60)


def error_of(call: str, *, before: str = "", env: dict[str, str] | None = None) -> str:
    """Return the message of the EngineError that `call` raises in a process of its own."""
    code = f"{textwrap.dedent(before)}\ntry:\n    {call}\nexcept EngineError as error:\n    print(error)"
    done = run(code, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    message = done.stdout.strip()
    assert message
    assert "\n" not in message
    return message


@pytest.fixture(scope="module", params=["standard", "english"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    path = tmp_path_factory.mktemp("conformance")
    write_index(path, conformance.DOCUMENTS, conformance.DELETED, analyzer=request.param)
    k1, b = (1.2, 0.75) if request.param == "standard" else (0.9, 0.4)
    with connect(f"lucene:{path}#body?analyzer={request.param}&k1={k1}&b={b}&jars={JARS}") as engine:
        assert isinstance(engine, Lucene)
        yield Subject(engine, dict(conformance.DOCUMENTS), conformance.DELETED, plain(engine))


class TestConformance(Conformance):
    pass


class TestAnalysis:
    @pytest.mark.parametrize("name", ANALYZERS)
    def test_terms_are_those_in_an_index(self, name: str, tmp_path: Path) -> None:
        text = "The Running dogs' Größe, naïve café's foo_bar x9 getUser 𝒜b😀 don't"
        if name == "stop":
            write_index(tmp_path, [("1", text)], analyzer="english")
            engine = Lucene(tmp_path, analyzer=name, jars=JARS)
            assert [token.term for token in engine.analyze("The dog and x9")] == ["dog", "x"]
            return
        write_index(tmp_path, [("1", text)], analyzer=name)
        engine = Lucene(tmp_path, analyzer=name, jars=JARS)
        counts = Counter(token.term for token in engine.analyze(text))
        for (part, tf), count in zip(engine.parts("1", list(counts)), counts.values(), strict=True):
            assert tf == count
            assert part == pytest.approx(count / (count + engine.model.k1), rel=1e-6)  # its length is the average
        assert engine.spectrum().terms == len(counts)
        assert engine.analyzer == ("standard" if name == "standard" else ANALYZERS[name].rpartition(".")[2])

    def test_offsets_count_code_points(self, engine: Lucene) -> None:
        text = "naïve 𝒜b😀 e\u0301t ß.x a\0b 文字"
        tokens = engine.analyze(text)
        assert [text[token.start : token.end] for token in tokens] == [token.term for token in tokens]
        assert [token.term for token in tokens][:4] == ["naïve", "𝒜b", "😀", "e\u0301t"]

    def test_standard_is_qidfs_standard(self, engine: Lucene) -> None:
        for text in [*(text for _, text in DOCUMENTS), "don't 3.14 a.b foo:bar x_y ΑΣ 2nd 🏳️‍🌈 ไทย 한국어 カタカナ"]:
            assert engine.analyze(text) == standard.analyze(text)

    def test_lone_surrogates_are_no_letters(self, engine: Lucene) -> None:
        assert [token[:3] for token in engine.analyze("a\ud800b \udc00")] == [("a", 0, 1), ("b", 2, 3)]
        assert engine.doc_freqs(["\ud800"]) == [0]
        assert engine.parts("a", ["\ud800"]) == [(0.0, 0)]
        assert engine.search_terms([("\ud800", 1.0), ("zymurgy", 1.0)])[0].id == "h"
        with pytest.raises(KeyError):
            engine.text("\ud800")

    def test_broken_off_analysis_leaves_the_analyzer_whole(
        self, engine: Lucene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("qidf.engines.lucene.Token", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.analyze("left open")
        assert [token.term for token in engine.analyze("parse")] == ["parse"]

    def test_full_name_of_a_class(self, folder: Path) -> None:
        engine = Lucene(folder, analyzer="org.apache.lucene.analysis.de.GermanAnalyzer", jars=JARS)
        assert engine.analyzer == "GermanAnalyzer"
        assert [token.term for token in engine.analyze("die Häuser")] == ["haus"]

    @pytest.mark.parametrize(
        "name",
        ["klingon", "org.example.None", "java.lang.String", "org.apache.lucene.analysis.Analyzer", "java.util.Set",
         "org.apache.lucene.analysis.core.StopAnalyzer"],
    )  # fmt: skip
    def test_no_such_analyzer(self, folder: Path, name: str) -> None:
        with pytest.raises(EngineError, match=r"analyzer must be .*got") as caught:
            Lucene(folder, analyzer=name, jars=JARS)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_unknown_terms_warn_of_another_analyzer(self, folder: Path) -> None:
        with (
            Lucene(folder, analyzer="whitespace", jars=JARS) as engine,
            pytest.warns(AnalyzerWarning, match="2 of 3 words .*another analyzer than WhitespaceAnalyzer"),
        ):
            engine.search("Parse, Query, the")


class TestNumbers:
    def test_collection_counts_deleted_documents_and_no_empty_ones(self, engine: Lucene) -> None:
        lengths = [len(engine.analyze(text)) for _, text in DOCUMENTS]
        N = sum(length > 0 for length in lengths)
        documents, tokens, average = engine.collection()
        assert (documents, tokens) == (N, sum(lengths))
        assert average == pytest.approx(sum(lengths) / N, rel=1e-7)

    def test_doc_freqs_count_deleted_documents(self, engine: Lucene) -> None:
        held = Counter(term for _, text in DOCUMENTS for term in {token.term for token in engine.analyze(text)})
        assert engine.doc_freqs([*held, "unheard"]) == [*held.values(), 0]
        assert engine.doc_freqs(list(held)) == list(held.values())

    def test_spectrum(self, engine: Lucene) -> None:
        counts = Counter(token.term for _, text in DOCUMENTS for token in engine.analyze(text))
        held = Counter(term for _, text in DOCUMENTS for term in {token.term for token in engine.analyze(text)})
        told = engine.spectrum()
        assert (told.documents, told.tokens) == engine.collection()[:2]
        assert (told.terms, told.hapax_terms) == (len(held), list(held.values()).count(1))
        assert told.once_terms == list(counts.values()).count(1)
        assert sum(band.terms for band in told.bands) == len(held)

    @pytest.mark.parametrize("query", ["the query", "parse", "parse parse parse the query the", "zymurgy text and and"])
    def test_plain_weights_are_plain_lucene(self, engine: Lucene, query: str) -> None:
        hits = engine.search(query, q=1, a=1)
        assert [(hit.id, hit.score) for hit in hits] == plain(engine)(query, 10)  # bit for bit
        assert not {hit.id for hit in hits} & DELETED

    def test_boosts_of_plain_weights_are_counts(self, engine: Lucene) -> None:
        query = "the the the query text text zymurgy parse and and and and and"
        boosts = {term: boost for term, _, boost, _ in engine._boosts(engine.weights(query, q=1, a=1))}
        assert boosts == Counter(query.split())

    def test_idf_is_lucenes(self, engine: Lucene) -> None:
        similarity = JClass("org.apache.lucene.search.similarities.BM25Similarity")
        term = JClass("org.apache.lucene.search.TermStatistics")
        key = JClass("org.apache.lucene.util.BytesRef")("x")
        of = JClass("org.apache.lucene.search.CollectionStatistics")
        for n, N in [(1, 1), (1, 3), (7, 10), (10, 10), (3, 1_000_003), (999_999, 1_000_000), (5, 2_000_000_000)]:
            told = similarity().idfExplain(of("body", N, N, 3 * N, 2 * N), term(key, n, 2 * n))
            assert engine.idf(n, N) == float(told.getValue())

    def test_score_is_weight_times_part(self, engine: Lucene) -> None:
        query = "parse the query text schema unheard zymurgy and"
        weights = engine.weights(query)
        for hit in engine.search(query):
            parts = [part for part, _ in engine.parts(hit.id, [term for term, _ in weights])]
            score = sum(weight * part for (_, weight), part in zip(weights, parts, strict=True))
            assert hit.score == pytest.approx(score, rel=1e-6)
            assert engine.explain(query, hit.id).score == pytest.approx(hit.score, rel=1e-6)

    def test_parts_and_lengths(self, engine: Lucene) -> None:
        _, _, average = engine.collection()
        assert average is not None
        for id, text in DOCUMENTS:
            if id in DELETED:
                continue
            counts = Counter(token.term for token in engine.analyze(text))
            length = engine.length(id)
            assert length is not None
            exact = counts.total()
            assert length == exact if exact < 40 else exact * 0.93 < length <= exact  # eight bits
            norm = 1.2 * (0.25 + 0.75 * length / average)
            for (part, tf), (term, count) in zip(engine.parts(id, list(counts)), counts.items(), strict=True):
                assert tf == count, term
                assert part == pytest.approx(count / (count + norm), rel=1e-6)
        assert engine.length("c") == 0
        assert engine.parts("c", ["the"]) == engine.parts("f", ["the"]) == [(0.0, 0)]

    def test_other_constants(self, folder: Path) -> None:
        with connect(f"lucene:{folder}#body?k1=0.5&b=0&jars={JARS}") as engine:
            assert isinstance(engine, Lucene)
            assert engine.model[:2] == (0.5, 0.0)
            assert engine.parts("f", ["parse"])[0][0] == pytest.approx(3 / 3.5, rel=1e-6)
            assert [(hit.id, hit.score) for hit in engine.search("parse", q=1)] == plain(engine)("parse", 10)

    def test_auto_is_standard(self, folder: Path) -> None:
        with Lucene(folder, jars=JARS) as engine, Lucene(folder, analyzer="english", jars=JARS) as english:
            assert engine.scheme() == english.scheme() == AUTO["standard"]


class TestSearch:
    def test_ties_stand_in_document_order(self, tmp_path: Path) -> None:
        write_index(tmp_path, [(str(i), "same words") for i in range(20, 0, -1)])
        engine = Lucene(tmp_path, jars=JARS)
        assert [hit.id for hit in engine.search("words", 5)] == ["20", "19", "18", "17", "16"]

    def test_weight_0_finds_nothing(self, engine: Lucene) -> None:
        assert engine.search_terms([("zymurgy", 0.0)]) == []

    def test_nothing_to_look_for(self, engine: Lucene) -> None:
        assert engine.search("") == engine.search("unheard of".replace("of", "")) == engine.search_terms([]) == []

    def test_k_beyond_the_documents(self, engine: Lucene) -> None:
        assert {hit.id for hit in engine.search("the", 10**12)} == {"a", "d", "e", "g", "j"}

    def test_filter(self, engine: Lucene) -> None:
        term = JClass("org.apache.lucene.search.TermQuery")(JClass("org.apache.lucene.index.Term")("body", "schema"))
        scores = {hit.id: hit.score for hit in engine.search("the query")}
        kept = engine.search("the query", filter=term)
        assert {hit.id for hit in kept} == {"g", "j"}
        assert all(hit.score == scores[hit.id] for hit in kept)
        assert [hit.rank for hit in kept] == [1, 2]
        assert engine.search("zymurgy", filter=term) == []  # the filter alone finds nothing
        with pytest.raises(TypeError, match=r"filter must be a Java org.apache.lucene.search.Query, got set"):
            engine.search("the", filter={"a"})

    def test_query_for_a_searcher_of_ones_own(self, engine: Lucene) -> None:
        found = engine.searcher.search(engine.query("parse the query"), 10).scoreDocs
        assert [float(hit.score) for hit in found] == [hit.score for hit in engine.search("parse the query")]

    def test_more_terms_than_lucene_allows(self, tmp_path: Path) -> None:
        words = [f"word{i}" for i in range(3000)]
        write_index(tmp_path, [("1", " ".join(words)), ("2", "word7")])
        engine = Lucene(tmp_path, jars=JARS)
        limits = JClass("org.apache.lucene.search.IndexSearcher")
        assert {hit.id for hit in engine.search(" ".join(words))} == {"1", "2"}
        raised = int(limits.getMaxClauseCount())
        engine.search(" ".join(words[:2000]))
        assert int(limits.getMaxClauseCount()) == raised >= 3000

    def test_weights_beyond_a_float(self, engine: Lucene) -> None:
        with pytest.raises(ValueError, match="32-bit"):
            engine.search_terms([("parse", 1e39)])

    def test_threads_share_an_engine(self, engine: Lucene) -> None:
        expected = engine.search("parse the query text")
        got: list[Any] = []

        def ask() -> None:
            engine._doc_freq.cache_clear()
            got.append(engine.search("parse the query text") == expected)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [True] * 16


class TestIds:
    def test_text(self, engine: Lucene) -> None:
        assert {id: engine.text(id) for id, _ in DOCUMENTS if id not in DELETED} == {
            id: text for id, text in DOCUMENTS if id not in DELETED
        }

    @pytest.mark.parametrize("id", ["b", "unheard", "", "0", "99", "-1"])
    def test_unknown(self, engine: Lucene, id: str) -> None:
        for ask in (engine.text, engine.length, lambda id: engine.parts(id, ["the"])):
            with pytest.raises(KeyError):
                ask(id)

    def test_not_stored(self, tmp_path: Path) -> None:
        write_index(tmp_path, DOCUMENTS, stored=False)
        assert Lucene(tmp_path, jars=JARS).text("a") is None

    def test_document_numbers(self, tmp_path: Path) -> None:
        write_fields(tmp_path, [fields(body=text) for text in ("one", "one two", "one two three")])
        engine = Lucene(tmp_path, jars=JARS)
        assert [(hit.id, engine.text(hit.id)) for hit in engine.search("one")] == [
            ("0", "one"), ("1", "one two"), ("2", "one two three")
        ]  # fmt: skip
        for id in ("3", "00", "+1", " 1", "٢", "9" * 30):
            with pytest.raises(KeyError):
                engine.text(id)

    def test_ids_that_are_no_terms(self, tmp_path: Path) -> None:
        stored = JClass("org.apache.lucene.document.StoredField")
        rows = [[stored("number", 100 - i), *fields(body="word " * (i + 1), name=f"Mr {i}")] for i in range(3)]
        write_fields(tmp_path, [*rows, fields(body="word word word word word")])
        engine = Lucene(tmp_path, "body", id="number", jars=JARS)
        assert [hit.id for hit in engine.search("word")] == ["3", "98", "99", "100"]  # one has none
        assert [engine.length(id) for id in ("100", "99", "98", "3")] == [1, 2, 3, 5]
        engine = Lucene(tmp_path, "body", id="name", jars=JARS)
        assert engine.length("Mr 1") == 2
        with pytest.raises(KeyError):
            engine.text("mr")

    def test_several_values(self, tmp_path: Path) -> None:
        write_fields(tmp_path, [fields(body="one two") + fields(body="three")])
        assert Lucene(tmp_path, jars=JARS).text("0") == "one two\nthree"

    @pytest.mark.parametrize("id", ["unheard", "unstored"])
    def test_no_such_field(self, tmp_path: Path, id: str) -> None:
        write_fields(tmp_path, [fields(body="x", unstored=("y", "DOCS", False, False))])
        with pytest.raises(EngineError, match=f"id must be a stored field of .*got '{id}'"):
            Lucene(tmp_path, id=id, jars=JARS)


def test_closing_waits_for_searches_that_run(folder: Path) -> None:
    for _ in range(20):
        engine = Lucene(folder, jars=JARS)
        engine.search("the query")

        def search(engine: Lucene = engine) -> int:
            done = 0
            try:
                while done < 500:
                    engine.search("the query parse schema", 5)
                    done += 1
            except EngineError as error:
                if "is closed" not in str(error):
                    raise
            return done

        with ThreadPoolExecutor(3) as pool:
            running = [pool.submit(search) for _ in range(3)]
            engine.close()
            engine.close()
            assert all(one.result() >= 0 for one in running)


class TestAnserini:
    @pytest.fixture
    def index(self, tmp_path: Path) -> Path:
        rows = [anserini(f"d{i}", f'{{"id": "d{i}", "contents": "{text}"}}', text) for i, (_, text) in
                enumerate(DOCUMENTS)]  # fmt: skip
        write_fields(tmp_path, rows, analyzer="english")
        return tmp_path

    def test_recognized(self, index: Path) -> None:
        with connect(f"lucene:{index}?jars={JARS}") as engine:
            assert isinstance(engine, Lucene)
            assert (engine.field, engine.analyzer, *engine.model[:2]) == ("contents", "EnglishAnalyzer", 0.9, 0.4)
            assert [hit.id for hit in engine.search("the parsing, the parsers")] == ["d5", "d0"]
            assert engine.text("d8") == '{"id": "d8", "contents": "the text"}'
            assert engine.length("d8") == 1

    def test_said_otherwise(self, index: Path) -> None:
        with Lucene(index, "contents", analyzer="simple", k1=2, jars=JARS) as engine:
            assert (engine.analyzer, *engine.model[:2]) == ("SimpleAnalyzer", 2.0, 0.4)

    def test_others_are_not(self, tmp_path: Path) -> None:
        write_fields(tmp_path, [fields(contents="the texts", title="x")])
        with Lucene(tmp_path, jars=JARS) as engine:  # the field is found all the same
            assert (engine.field, engine.analyzer, *engine.model[:2]) == ("contents", "standard", 1.2, 0.75)


class TestOpen:
    def test_url(self, folder: Path) -> None:
        url = f"lucene:{folder}#body?jars={JARS}"
        with connect(url) as engine:
            assert engine.url == url
            assert repr(engine) == f"<Lucene {url!r}: 9 documents>"
            assert engine.search("zymurgy")[0].id == "h"
        assert Lucene(folder, jars=JARS).url == f"lucene:{folder}#body"

    def test_wrong_option(self, folder: Path) -> None:
        with pytest.raises(ValueError, match=r"unknown option 'similarity'.*analyzer, k1, b, jars, id"):
            connect(f"lucene:{folder}?similarity=x")
        with pytest.raises(ValueError, match="k1 must be a number"):
            connect(f"lucene:{folder}?k1=x")
        with pytest.raises(ValueError, match="b must be a finite number from 0 to 1"):
            connect(f"lucene:{folder}?b=2&jars={JARS}")

    def test_fields(self, tmp_path: Path) -> None:
        row = fields(
            title="x", body="x", id=("1", "DOCS", False, True), tag=("x", "DOCS", True, True),
            flat=("x", "DOCS_AND_FREQS", False, True), raw=("x", "NONE", False, True),
        )  # fmt: skip
        write_fields(tmp_path, [row])
        assert Lucene(tmp_path, "title", jars=JARS).field == "title"
        for field, message in {
            "": "name the field of .* after a #: one of title, body$",
            "unheard": "field 'unheard' of .* does not exist: one of title, body$",
            "tag": r"field 'tag' of .* counts no terms \(IndexOptions.DOCS\), which BM25 needs: one of title, body$",
            "flat": "field 'flat' of .* has no norms, which BM25 needs",
            "raw": "field 'raw' of .* is not indexed, which BM25 needs",
        }.items():
            with pytest.raises(EngineError, match=message):
                Lucene(tmp_path, field, jars=JARS)

    def test_no_field_at_all(self, tmp_path: Path) -> None:
        write_fields(tmp_path, [fields(id=("1", "DOCS", False, True))])
        with pytest.raises(EngineError, match="there is none"):
            Lucene(tmp_path, jars=JARS)

    def test_field_without_a_term(self, tmp_path: Path) -> None:
        write_index(tmp_path, [("1", ""), ("2", "…")])
        engine = Lucene(tmp_path, jars=JARS)
        assert engine.collection() == (0, 0, 0.0)
        assert (engine.search("x"), engine.doc_freqs(["x"]), engine.spectrum().terms) == ([], [0], 0)
        assert engine.length("1") == 0

    def test_no_documents(self, tmp_path: Path) -> None:
        write_index(tmp_path, [])
        with pytest.raises(EngineError, match="holds no documents"):
            Lucene(tmp_path, "body", jars=JARS)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(IndexNotFoundError, match="no such folder"):
            Lucene(tmp_path / "nothing", jars=JARS)
        assert not (tmp_path / "nothing").exists()
        with pytest.raises(EngineError, match="the folder has no segments file"):
            Lucene(tmp_path, jars=JARS)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("name", "kept"), [("segments", 20), (".cfs", 100), (".si", 0), (".cfe", -1)])
    def test_damaged(self, tmp_path: Path, name: str, kept: int) -> None:
        write_index(tmp_path, DOCUMENTS)
        file = next(file for file in sorted(tmp_path.iterdir()) if name in file.name)
        if kept < 0:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:kept])
        with pytest.raises(IndexCorruptError, match=r"is damaged, make it again\. Lucene says: ") as caught:
            Lucene(tmp_path, jars=JARS)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("codec", ["Lucene870", "Lucene999"])
    def test_codec_of_another_version(self, tmp_path: Path, codec: str) -> None:
        write_index(tmp_path, DOCUMENTS)
        file = next(tmp_path.glob("segments_*"))
        file.write_bytes(sealed(file.read_bytes()[:-16].replace(b"Lucene912", codec.encode())))
        with pytest.raises(EngineError, match=rf"another version of Lucene than these jars' 9\.12\.3\. .*{codec}"):
            Lucene(tmp_path, jars=JARS)

    @pytest.mark.parametrize(("version", "says"), [(4, "too old|not supported"), (99, "not supported")])
    def test_format_of_another_version(self, tmp_path: Path, version: int, says: str) -> None:
        write_index(tmp_path, DOCUMENTS)
        file = next(tmp_path.glob("segments_*"))
        data = bytearray(file.read_bytes()[:-16])
        at = data.index(b"segments") + len("segments")
        data[at : at + 4] = version.to_bytes(4, "big")
        file.write_bytes(sealed(bytes(data)))
        with pytest.raises(EngineError, match=f"made by another version of Lucene.*({says})"):
            Lucene(tmp_path, jars=JARS)

    def test_nothing_is_written(self, folder: Path) -> None:
        def state() -> dict[str, tuple[int, int]]:
            return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in [folder, *folder.iterdir()]}

        before = state()
        with Lucene(folder, jars=JARS) as engine:
            engine.explain("the query", engine.search("the query")[0].id)
            engine.spectrum()
        assert state() == before

    def test_index_that_is_being_written(self, tmp_path: Path) -> None:
        write_index(tmp_path, DOCUMENTS)
        writer = open_writer(tmp_path)
        try:
            document = JClass("org.apache.lucene.document.Document")()
            field = JClass("org.apache.lucene.document.TextField")
            document.add(field("body", "parse", JClass("org.apache.lucene.document.Field$Store").NO))
            writer.addDocument(document)
            engine = Lucene(tmp_path, jars=JARS)
            assert len(engine.search("parse")) == 2
            writer.commit()
            assert len(engine.search("parse")) == 2
        finally:
            writer.close()
        assert len(Lucene(tmp_path, jars=JARS).search("parse")) == 3

    def test_closed(self, folder: Path) -> None:
        engine = Lucene(folder, jars=JARS)
        engine.close()
        engine.close()
        with pytest.raises(EngineError, match="is closed"):
            engine.search("parse")


def sealed(data: bytes) -> bytes:
    """Return the bytes of a Lucene file with the footer that belongs to them."""
    footer = data + (~0x3FD76C17 & 0xFFFFFFFF).to_bytes(4, "big") + bytes(4)
    return footer + zlib.crc32(footer).to_bytes(8, "big")


class TestJava:
    """What can be wrong before Lucene runs; each in a process of its own, since a JVM starts once."""

    @pytest.fixture(autouse=True)
    def _in_the_index(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)

    def test_started_quietly(self, folder: Path) -> None:
        done = run(f"print([hit.id for hit in Lucene({str(folder)!r}).search('zymurgy')])",
                   env={"QIDF_LUCENE_JARS": JARS})  # fmt: skip
        assert (done.stdout, done.stderr, done.returncode) == ("['h']\n", "", 0)

    def test_module_needs_no_jpype(self) -> None:
        done = run("import sys; print('jpype' in sys.modules)")
        assert done.stdout == "False\n"

    def test_jpype_is_missing(self) -> None:
        assert error_of("Lucene('.')", before="import sys; sys.modules['jpype'] = None") == (
            "JPype is not installed: pip install 'qidf[lucene]'"
        )

    def test_no_jars(self) -> None:
        message = error_of("Lucene('.')")
        assert re.search(
            "jars=DIR or QIDF_LUCENE_JARS .*lucene-core.*lucene-analysis-common.*repo1.maven.*pyserini", message
        )

    def test_jars_without_lucene(self, tmp_path: Path) -> None:
        (tmp_path / "broken.jar").write_text("no zip")
        for place in (tmp_path, tmp_path / "broken.jar", tmp_path / "nothing"):
            message = error_of(f"Lucene('.', jars={str(place)!r})")
            assert message.startswith(f"no Lucene in {place}: put there the jars lucene-core")

    @pytest.mark.skipif(sys.platform == "win32", reason="no locales of POSIX")
    def test_jars_that_java_cannot_name(self, tmp_path: Path) -> None:
        (tmp_path / "järs").symlink_to(JARS)
        message = error_of(f"Lucene('.', jars={str(tmp_path / 'järs')!r})", env={"LC_ALL": "C", "PYTHONUTF8": "1"})
        assert message.startswith("Java can't read the jars. It says: InvalidPathException")

    def test_no_jars_are_needed_to_see_that_there_is_no_index(self, tmp_path: Path) -> None:
        assert "no segments file" in error_of(f"Lucene({str(tmp_path)!r})")

    def test_pyserinis_jars(self, folder: Path, tmp_path: Path) -> None:
        package = tmp_path / "pyserini"
        (package / "resources").mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('was imported')")
        (package / "resources" / "jars").symlink_to(JARS)
        done = run(f"print(Lucene({str(folder)!r}).search('zymurgy')[0].id)", env={"PYTHONPATH": str(tmp_path)})
        assert (done.stdout, done.stderr) == ("h\n", "")

    def test_only_lucene_core(self, folder: Path) -> None:
        jar = next(jars().glob("lucene-core-*.jar"))
        call = f"Lucene({str(folder)!r}, analyzer='english', jars={str(jar)!r})"
        assert "lucene-analysis-common has most" in error_of(call)

    def test_no_java(self) -> None:
        before = """
            import jpype._jvmfinder, jpype._core
            def none(*args): raise jpype.JVMNotFoundException('none')
            jpype._core.getDefaultJVMPath = none
        """
        assert "no Java found: install Java 17" in error_of(f"Lucene('.', jars={JARS!r})", before=before)

    def test_jars_for_a_later_java(self, tmp_path: Path) -> None:
        with (
            zipfile.ZipFile(next(jars().glob("lucene-core-*.jar"))) as of,
            zipfile.ZipFile(tmp_path / "x.jar", "w") as to,
        ):
            for entry in of.namelist():
                data = of.read(entry)
                if entry == "org/apache/lucene/util/Version.class":
                    data = data[:6] + (99).to_bytes(2, "big") + data[8:]
                to.writestr(entry, data)
        call = f"Lucene('.', jars={str(tmp_path)!r})"
        again = f"try: {call}\nexcept EngineError: pass"
        for message in (error_of(call), error_of(call, before=again)):
            assert message.startswith("this Java can't run these jars. It says: UnsupportedClassVersionError: ")

    def test_jars_of_an_old_lucene(self) -> None:
        message = error_of(f"Lucene('.', jars={str(jars('8.11.4'))!r})")
        assert re.match(r"the jars are of Lucene 8\.11\.4, .*lucene-core and lucene-analysis-common", message)

    def test_jvm_that_runs_already(self, folder: Path) -> None:
        for classpath in ([], [f"{JARS}/*"]):
            done = run(f"""
                import jpype
                jpype.startJVM(*{JVM_OPTIONS}, classpath={classpath})
                engine = Lucene({str(folder)!r}, analyzer="simple", jars={JARS!r})
                print([hit.id for hit in engine.search('zymurgy')])
            """)
            assert done.stdout == "['h']\n", done.stderr  # what Lucene logs there is its owner's affair

    def test_jvm_that_runs_without_lucene(self) -> None:
        before = f"import jpype; jpype.startJVM(*{JVM_OPTIONS}, classpath=[])"
        assert error_of("Lucene('.')", before=before).startswith("no Lucene: name with jars=DIR")

    def test_jvm_that_was_shut_down(self) -> None:
        before = f"import jpype; jpype.startJVM(*{JVM_OPTIONS}, classpath=[]); jpype.shutdownJVM()"
        message = error_of(f"Lucene('.', jars={JARS!r})", before=before)
        assert re.match("Java can't be started in this process: .*Ask in another process", message)

    @pytest.mark.skipif(importlib.util.find_spec("jnius") is None, reason="pyjnius is not installed")
    @pytest.mark.parametrize("hidden", [False, True])
    def test_jvm_of_pyjnius_for_real(self, hidden: bool) -> None:
        before = "import sys, jnius" + ("; del sys.modules['jnius_config']" if hidden else "")
        message = error_of(f"Lucene('.', jars={JARS!r})", before=before)
        assert message.startswith("Java can't be started in this process" if hidden else "pyjnius runs Java in this")

    def test_jvm_of_pyjnius(self) -> None:
        before = """
            import sys, types
            sys.modules["jnius_config"] = types.SimpleNamespace(vm_running=True)
        """
        message = error_of(f"Lucene('.', jars={JARS!r})", before=before)
        assert re.match("pyjnius runs Java in this process .*ask qidf in another process", message)

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
    @pytest.mark.parametrize("doing", ["time.sleep(20)", "while True: engine.search('parse the query text')"])
    def test_ctrl_c_is_keyboard_interrupt(self, folder: Path, doing: str) -> None:
        done = run(f"""
            import os, signal, threading, time
            engine = Lucene({str(folder)!r}, jars={JARS!r})
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                {doing}
            except KeyboardInterrupt:
                print("stopped", engine.search("zymurgy")[0].id)
        """)
        assert (done.stdout, done.stderr, done.returncode) == ("stopped h\n", "", 0)
