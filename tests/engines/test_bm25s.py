"""The bm25s engine on folders and retrievers, and `apply` on a retriever in memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qidf
from qidf.engines import bm25s as engine
from qidf.engines import connect, rescale
from qidf.errors import EngineError, EngineWarning, IndexCorruptError
from tests.engines.bm25s_folder import METHODS, ask, bm25s, load_folder, retriever, save, texts
from tests.engines.conformance import DOCUMENTS, Conformance, Subject

QUERY = "word1 word5 word5 word17 only7 everywhere common"
ROWS = [("a.py", "def getUserById(id): return find(id)"), ("b.py", "class Parser: def parse(self)"), ("c.py", "parse")]


@pytest.fixture(scope="module", params=[*METHODS, "lucene, idf of atire", "lucene, float64", "lucene, in memory"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    method, _, more = request.param.partition(", ")
    options: dict[str, Any] = {"method": method}
    if more.startswith("idf of "):
        options["idf_method"] = more.removeprefix("idf of ")
    if more == "float64":
        options["dtype"] = "float64"
    documents = dict(DOCUMENTS)
    corpus = [{"id": id, "text": text} for id, text in documents.items()]
    made = retriever(list(documents.values()), **options)
    if more == "in memory":
        made.corpus = corpus
        source: Any = made
    else:
        source = tmp_path_factory.mktemp("bm25s") / "saved"
        made.save(source, corpus=corpus, show_progress=False)
    names = list(documents)

    def plain(query: str, k: int) -> list[tuple[str, float]]:
        tokens = bm25s.tokenize([query], return_ids=False, show_progress=False)
        tokens = [[token for token in tokens[0] if token in made.vocab_dict]]
        if not tokens[0]:
            return []
        touched = set()
        for token in tokens[0]:
            start, stop = made.scores["indptr"][made.vocab_dict[token] : made.vocab_dict[token] + 2]
            touched |= set(made.scores["indices"][start:stop][made.scores["data"][start:stop] != 0].tolist())
        ids, scores = made.retrieve(tokens, corpus=list(range(len(names))), k=len(names), show_progress=False)
        ranked = [(names[int(i)], float(s)) for i, s in zip(ids[0], scores[0], strict=True) if int(i) in touched]
        return ranked[:k]

    return Subject(engine.Bm25s(source), documents, frozenset(), plain)


class TestConformance(Conformance):
    """The suite of all engines; `subject` above gives each method of bm25s."""

    def tells_tokens(self, subject: Subject) -> bool:
        return subject.engine.model.odds != "robertson"  # there `everywhere` scores 0


# Folders


def test_a_folder_needs_no_bm25s(tmp_path: Path) -> None:
    import subprocess
    import sys

    save(tmp_path / "saved", texts())
    program = (
        "import sys; sys.modules['bm25s'] = None\n"
        "import qidf; print(len(qidf.connect('bm25s:' + sys.argv[1]).search('word5')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "saved"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "10\n"


@pytest.mark.parametrize("q", [0.05, 0.5])
def test_query_time_weights_and_applied_scores_agree(q: float, tmp_path: Path) -> None:
    """Up to the factor that keeps the level of the plain query's scores."""
    folder = save(tmp_path / "saved", texts())
    at_query_time = connect(f"bm25s:{folder}").search(QUERY, 60, q=q, a=1)
    rescale.apply(folder, q)
    applied = ask(load_folder(folder), QUERY, 60)
    ratio = at_query_time[0].score / applied[0][1]
    for hit, (_, score) in zip(at_query_time, applied, strict=False):
        assert hit.score == pytest.approx(ratio * score, rel=1e-5)


def test_an_applied_folder_is_known_for_what_it_is(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    plain = connect(f"bm25s:{folder}")
    rescale.apply(folder, 0.05)
    steep = connect(f"bm25s:{folder}")
    N = steep.collection().documents
    assert steep.idf(1, N) > 2 * plain.idf(1, N)
    for q in (1.0, 0.3, "auto"):
        old, new = (one.search(QUERY, 20, q=q, a=1) for one in (plain, steep))
        assert [hit.id for hit in old] == [hit.id for hit in new]
        assert [hit.score for hit in old] == pytest.approx([hit.score for hit in new], rel=1e-5)
    assert steep.spectrum() == plain.spectrum()


def test_what_apply_did_to_a_retriever_makes_no_difference() -> None:
    made = retriever(texts(), method="bm25+")
    before = engine.Bm25s(made).search(QUERY, 20)
    engine.apply(made, 0.3)
    assert engine.Bm25s(made).search(QUERY, 20) == before


def test_scores_of_another_q_are_not_weighed_twice(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    before = connect(f"bm25s:{folder}").search(QUERY, 20)
    rescale.apply(folder, 0.3)
    loaded = load_folder(folder)
    loaded.save(tmp_path / "again", show_progress=False)  # without what tells its q
    for source in (loaded, tmp_path / "again"):
        with pytest.warns(EngineWarning, match=r"If qidf scaled them, say so \(bm25s:DIR\?q=Q"):
            engine.Bm25s(source)
        hits = engine.Bm25s(source, stored_q=0.3).search(QUERY, 20)
        assert [hit.id for hit in hits] == [hit.id for hit in before]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in before], rel=1e-5)
    assert len(connect(f"bm25s:{tmp_path / 'again'}?q=0.3").search(QUERY, 20)) == len(before)


def test_documents_have_the_names_of_the_saved_corpus(tmp_path: Path) -> None:
    corpus = [{"id": id, "path": f"src/{id}", "text": text} for id, text in ROWS]
    folder = save(tmp_path / "saved", [text for _, text in ROWS], corpus=corpus)
    found = connect(f"bm25s:{folder}").search("getUserById find")
    assert [hit.id for hit in found] == ["a.py"]
    other = connect(f"bm25s:{folder}?id=path")
    assert [hit.id for hit in other.search("parse")] == ["src/c.py", "src/b.py"]
    assert other.text("src/c.py") == "parse"
    assert other.explain("parse", "src/b.py").score > 0
    with pytest.raises(KeyError):
        other.explain("parse", "b.py")
    (folder / engine.OFFSETS).unlink()
    assert connect(f"bm25s:{folder}").text("b.py") == ROWS[1][1]
    (folder / engine.CORPUS).unlink()
    assert [hit.id for hit in connect(f"bm25s:{folder}").search("parse")] == ["2", "1"]


def test_a_name_that_no_ranking_showed_is_found(tmp_path: Path) -> None:
    corpus = [{"id": f"doc-{i % 50}", "text": text} for i, text in enumerate(texts())]
    opened = connect(f"bm25s:{save(tmp_path / 'saved', texts(), corpus=corpus)}")
    assert opened.text("doc-49") == texts()[49]
    assert opened.text("doc-3") == texts()[3]  # of equal names the first
    hit = opened.search("only53", 1)[0]
    assert (hit.id, opened.text(hit.id)) == ("doc-3", texts()[53])  # but of a ranking the one it showed
    with pytest.raises(KeyError):
        opened.text("doc-77")
    with pytest.raises(KeyError):
        opened.explain("common", "1" * 5000)


def test_a_corpus_of_plain_texts(tmp_path: Path) -> None:
    rows = [text for _, text in ROWS]
    folder = save(tmp_path / "saved", rows, corpus=rows)
    opened = connect(f"bm25s:{folder}")
    assert [hit.id for hit in opened.search("getUserById")] == ["0"]
    assert opened.text("0") == rows[0]


def test_stop_words_count_where_the_index_has_them(tmp_path: Path) -> None:
    rows = ["the parser of the file", "a file", "parser of no file"]
    tokens = bm25s.tokenize(rows, stopwords=None, show_progress=False)
    made = bm25s.BM25()
    made.index(tokens, show_progress=False)
    kept = engine.Bm25s(made)
    assert [term.term for term in kept.query_terms("the parser and the lexer")] == ["the", "parser", "lexer"]
    assert [term.term for term in engine.Bm25s(retriever(rows)).query_terms("the parser and")] == ["parser"]


def test_stemmed_terms(tmp_path: Path) -> None:
    stemmer_library = pytest.importorskip("Stemmer")
    rows = ["parsing files", "the parser parses", "nothing"]
    made = bm25s.BM25()
    stemmer = stemmer_library.Stemmer("english")
    made.index(bm25s.tokenize(rows, stemmer=stemmer, show_progress=False), show_progress=False)
    made.save(tmp_path / "saved", show_progress=False)
    opened = connect(f"bm25s:{tmp_path / 'saved'}?stemmer=english")
    assert [hit.id for hit in opened.search("parsed")] == ["0", "1"]
    assert [(t.term, t.start, t.end) for t in opened.analyze("the parsers 𝒳 filing")] == [
        ("parser", 4, 11),
        ("file", 14, 20),
    ]
    with pytest.raises(ValueError, match="stemmer must be one of"):
        connect(f"bm25s:{tmp_path / 'saved'}?stemmer=klingon")


def test_another_analysis(tmp_path: Path) -> None:
    rows = [text for _, text in ROWS]
    from qidf.analysis import get

    made = bm25s.BM25()
    made.index([[token.term for token in get("code").analyze(row)] for row in rows], show_progress=False)
    made.save(tmp_path / "saved", show_progress=False)
    assert [hit.id for hit in connect(f"bm25s:{tmp_path / 'saved'}?analyzer=code").search("user by id")] == ["0"]
    calls: list[Callable[[str], list[str]]] = [str.split, lambda text: text.lower().split()]
    for analyze in calls:
        own = bm25s.BM25()
        own.index([analyze(row) for row in rows], show_progress=False)
        opened = engine.Bm25s(own, analyze=analyze)
        assert [hit.id for hit in opened.search("getUserById(id): what")] == ["0"]
        assert [term.shaped for term in opened.query_terms("what getUserById(id): is")] == [False, True, False]
    with pytest.raises(ValueError, match="analyzer must be one of"):
        connect(f"bm25s:{tmp_path / 'saved'}?analyzer=nope")


def test_filters(tmp_path: Path) -> None:
    opened = connect(f"bm25s:{save(tmp_path / 'saved', texts())}")
    everything = opened.search(QUERY, 60, q=1, a=1)
    mask = np.zeros(60, dtype=bool)
    mask[10:30] = True
    kept = [(hit.id, hit.score) for hit in everything if 10 <= int(hit.id) < 30]
    for filter in (mask, range(10, 30), set(range(10, 30))):
        assert [(hit.id, hit.score) for hit in opened.search(QUERY, 60, q=1, a=1, filter=filter)] == kept
    with pytest.raises(ValueError, match="one value for each of 60"):
        opened.search(QUERY, filter=mask[:5])
    with pytest.raises(TypeError, match="document numbers"):
        opened.search(QUERY, filter=["0"])


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        (engine.VOCABULARY, None, EngineError, "missing"),
        (engine.VOCABULARY, b"[1]", IndexCorruptError, "map terms to numbers"),
        (engine.VOCABULARY, b'{"a": "b"}', IndexCorruptError, "map terms to numbers"),
        (engine.VOCABULARY, b"[" * 100_000, IndexCorruptError, "damaged"),
        (engine.OFFSETS, b'{"a": 1}', IndexCorruptError, "list of offsets"),
    ],
)
def test_damaged_folders(name: str, content: bytes | None, error: type, message: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), corpus=texts())
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(error, match=message):
        connect(f"bm25s:{folder}")


def test_a_damaged_corpus_is_a_clear_error(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), corpus=texts())
    (folder / engine.CORPUS).write_bytes(b"{" * 5000)
    with pytest.raises(IndexCorruptError, match=r"entry \d+ is damaged"):
        connect(f"bm25s:{folder}").search("everywhere")


def test_terms_of_a_forged_vocabulary_are_unknown(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    (folder / engine.VOCABULARY).write_text(json.dumps({"word1": 10**9, "word2": -1, "word3": 0}))
    opened = connect(f"bm25s:{folder}")
    assert opened.doc_freqs(["word1", "word2"]) == [0, 0]
    assert opened.doc_freqs(["word3"])[0] > 0


def test_a_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one field"):
        connect(f"bm25s:{save(tmp_path / 'saved', texts())}#body")


# A retriever in memory


@pytest.mark.parametrize("method", METHODS)
def test_apply_in_memory_is_what_apply_on_disk_is(method: str, tmp_path: Path) -> None:
    made = retriever(texts(), method=method)
    made.save(tmp_path / "saved", show_progress=False)
    before = {name: np.array(value) for name, value in made.scores.items()}
    nonoccurrence = made.nonoccurrence_array
    plain = ask(made, QUERY)
    assert engine.apply(made, 0.05) == 0.05
    rescale.apply(tmp_path / "saved", 0.05)
    loaded = load_folder(tmp_path / "saved")
    np.testing.assert_array_equal(made.scores["data"], loaded.scores["data"])
    assert ask(made, QUERY) == ask(loaded, QUERY) != plain
    engine.apply(made, 0.3)
    engine.apply(made, 1)
    for name, value in before.items():
        np.testing.assert_array_equal(made.scores[name], value)
    assert made.nonoccurrence_array is nonoccurrence
    assert ask(made, QUERY) == plain


def test_apply_after_indexing_again_starts_from_the_new_scores() -> None:
    made = retriever(texts())
    engine.apply(made, 0.05)
    made.index(bm25s.tokenize(texts(seed=3), show_progress=False), show_progress=False)
    fresh = made.scores["data"]
    engine.apply(made, 0.05)
    engine.apply(made, 1)
    assert made.scores["data"] is fresh


def test_apply_on_scores_that_are_not_at_q_1(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    rescale.apply(folder, 0.05)
    loaded = load_folder(folder)
    with pytest.raises(ValueError, match="not the scores of bm25s' 'lucene' idf at q = 1"):
        engine.apply(loaded, 0.05)
    engine.apply(loaded, 1, stored_q=0.05)
    rescale.apply(folder, 1)
    np.testing.assert_allclose(loaded.scores["data"], load_folder(folder).scores["data"], rtol=3e-7)


def test_apply_on_a_mapped_retriever_leaves_the_folder_alone(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    content = (folder / engine.DATA).read_bytes()
    engine.apply(bm25s.BM25.load(folder, mmap=True, show_progress=False), 0.05)
    assert (folder / engine.DATA).read_bytes() == content


def test_apply_with_the_numba_backend() -> None:
    pytest.importorskip("numba")
    made = retriever(texts(), backend="numba")
    plain = retriever(texts())
    for one in (made, plain):
        engine.apply(one, 0.05)
    tokens = bm25s.tokenize([QUERY], return_ids=False, show_progress=False)
    _, scores = made.retrieve(tokens, k=5, show_progress=False)
    expected = ask(plain, QUERY, 5)
    assert scores[0].tolist() == pytest.approx([score for _, score in expected], rel=1e-6)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (object(), "got object"),
        (None, "got NoneType"),
        (bm25s.BM25(), "got BM25"),
        (bm25s.BM25(method="x"), "got BM25"),
    ],
)
def test_what_is_no_retriever(made: Any, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        engine.apply(made, 0.5)
    with pytest.raises(EngineError, match=message):
        engine.Bm25s(made)


def test_apply_refuses_auto() -> None:
    made = retriever(texts())
    with pytest.raises(ValueError, match="how each query is written"):
        engine.apply(made, "auto")


def test_numbers_in_place_of_terms() -> None:
    made = bm25s.BM25()
    made.index([[0, 1, 2], [2, 3]], show_progress=False)
    with pytest.raises(EngineError, match="numbers in place of terms"):
        engine.Bm25s(made)
    engine.apply(made, 0.5)  # this works: it needs no words


def test_a_tokenizer_saved_beside_the_index_gives_the_words_back(tmp_path: Path) -> None:
    rows = [text for _, text in ROWS]
    tokenizer = bm25s.tokenization.Tokenizer(stopwords="en")
    made = bm25s.BM25()
    made.index(tokenizer.tokenize(rows, return_as="ids", show_progress=False), show_progress=False)
    made.save(tmp_path / "saved", show_progress=False)
    with pytest.raises(EngineError, match=r"numbers in place of terms.*save_vocab"):
        connect(f"bm25s:{tmp_path / 'saved'}")
    tokenizer.save_vocab(tmp_path / "saved")
    hits = connect(f"bm25s:{tmp_path / 'saved'}").search("getUserById find", q=1, a=1)
    ids = tokenizer.tokenize(["getUserById find"], update_vocab=False, return_as="ids", show_progress=False)
    _, scores = made.retrieve(ids, k=1, show_progress=False)
    assert [hit.id for hit in hits] == ["0"]
    assert hits[0].score == pytest.approx(float(scores[0][0]), rel=1e-6)


def test_an_id_that_is_no_text() -> None:
    number: Any = 3
    opened = engine.Bm25s(retriever(texts()))
    for question in (opened.text, lambda id: opened.explain("common", id)):
        with pytest.raises(TypeError, match="id must be str, got int"):
            question(number)


def test_ties_at_the_cut_go_by_number() -> None:
    rows = ["same text here"] * 50
    random.Random(1).shuffle(rows)
    hits = engine.Bm25s(retriever(rows)).search("text", 7)
    assert [hit.id for hit in hits] == list("0123456")


def test_connect_is_offered_by_the_package(tmp_path: Path) -> None:
    with qidf.connect(f"bm25s:{save(tmp_path / 'saved', texts())}") as opened:
        assert isinstance(opened, qidf.Engine)
        assert repr(opened).endswith("60 documents>")
