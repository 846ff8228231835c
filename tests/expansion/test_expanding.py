"""A query widened, by the formula computed here by hand; where dictionaries stand and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from qidf import Index, connect
from qidf.engines.embedded import Embedded
from qidf.errors import EngineError, EngineWarning
from qidf.expansion.building import build
from qidf.expansion.place import path_of
from qidf.weighting import AUTO, expand, idf, word_weights

FILES = [
    ("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack() }"),
    ("proxy.go", "func newProxy(url string) { connect() }"),
    ("users.py", "def get_user_by_id(id): return rows[id]"),
    ("ids.py", "def parse(id, user): return None"),
    ("readme.md", "This server answers requests."),
]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Index.build(FILES, tmp_path / "index", analyzer="standard", store_text=True)
    engine = connect(f"qidf:{tmp_path / 'index'}")
    assert isinstance(engine, Embedded)
    assert engine.dictionary is None
    return engine


def test_plain_words_find_the_function_that_was_glued(engine: Embedded) -> None:
    question = "websocket upgrade, where is it handled: web socket handler"
    assert "upgrade.go" not in [hit.id for hit in engine.search(question)]
    build(engine)
    assert engine.search(question)[0].id == "upgrade.go"
    assert next(hit.id for hit in connect(engine.url).search(question)) == "upgrade.go"


def test_the_weights_are_the_formula(engine: Embedded) -> None:
    build(engine)
    added = {one.term: one for one in engine.widened("user getById")}
    scheme, N = AUTO["standard"], len(FILES)  # noqa: N806
    w = {word: idf(n, N, scheme.q_word) for word, n in {"user": 2, "get": 1, "by": 1, "id": 2}.items()}
    assert added["get_user_by_id"].weight == pytest.approx(sum(w.values()))
    assert added["id"].weight == pytest.approx(w["id"])
    assert added["id"].words == ("id",)
    assert added.keys() == {"get_user_by_id", "id"}  # `user` is the query's own, `get` and `by` stand nowhere alone


def test_expand_by_hand() -> None:
    weights = {"web": 4.0, "socket": 2.0}
    terms = [("websocket", ["web", "socket"], 2), ("websocketurl", ["web", "socket"], 3), ("web", ["web"], 1)]
    terms += [("other", [], 2), ("rawsocket", ["socket"], 2)]
    assert [(one.term, one.weight) for one in expand(weights, terms)] == [
        ("websocket", 6.0),
        ("web", 4.0),
        ("websocketurl", 4.0),
        ("rawsocket", 1.0),
    ]
    assert [one.term for one in expand(weights, terms, {"websocket"}, 1)] == ["web", "websocketurl"]
    assert expand({}, terms) == [] == expand(weights, [])


def test_word_weights_leave_out_what_nothing_holds() -> None:
    scheme = AUTO["standard"]
    found = word_weights({"a": 4, "b": 1, "c": 1}, {"a": 5, "b": 0}, 100, scheme)
    assert found == {"a": pytest.approx(2 * idf(5, 100, 0.8))}


def test_a_dictionary_of_another_index_is_refused(engine: Embedded, tmp_path: Path) -> None:
    build(engine)
    Index.build(FILES, tmp_path / "other", analyzer="standard")
    other = connect(f"qidf:{tmp_path / 'other'}")
    Path(path_of(other)).write_bytes(Path(path_of(engine)).read_bytes())
    with pytest.warns(EngineWarning, match="not expanded.*is that of qidf:.*index"):
        assert connect(other.url).dictionary is None


def test_a_damaged_dictionary_leaves_the_query_as_it_is(engine: Embedded) -> None:
    build(engine)
    path = Path(path_of(engine))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(EngineWarning, match="queries are not expanded"):
        again = connect(engine.url)
    assert again.search("user") == engine.search("user", expand="off")


def test_where_no_text_is_stored_bare_terms_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = [(f"f{i}", "web socket handler upgrade") for i in range(9)] + [("glued", "webSocketUpgrade get_user")]
    Index.build(files, tmp_path / "index", analyzer="standard")
    engine = connect(f"qidf:{tmp_path / 'index'}")
    built = build(engine)
    assert "bare terms" in built.note
    assert built.dictionary.about.source == "terms"
    assert built.dictionary.parts_of("websocketupgrade") == ["web", "socket", "upgrade"]
    assert built.dictionary.parts_of("get_user") == ["get", "user"]
    for most in (0, -3, "many"):
        with pytest.raises(ValueError, match="most must be"):
            build(engine, most=most)  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(EngineError, match="no document in"):
        build(engine, spellings=str(tmp_path / "empty"))


def test_a_page_that_is_damaged_later_leaves_the_query_as_it_is(engine: Embedded) -> None:
    build(engine)
    path = Path(path_of(engine))
    data = bytearray(path.read_bytes())
    data[10] ^= 1  # in a term, which the footer does not tell
    path.write_bytes(data)
    again = connect(engine.url)
    assert again.dictionary is not None
    with pytest.warns(EngineWarning, match="queries are not expanded.*dictionary build"):
        hits = again.search("web socket upgrade handler, user by id")
    assert hits == engine.search("web socket upgrade handler, user by id", expand="off")
    assert again.dictionary is None


def test_only_documents_with_a_term_of_the_querys_own_are_ranked(tmp_path: Path) -> None:
    files = [(f"f{i:04}", f"get_user_{i % 7} common") for i in range(3000)] + [
        ("own", "rare"),
        ("both", "rare get_user"),
    ]
    engine = Embedded(Index.build(files, tmp_path / "index", analyzer="standard", store_text=True))
    build(engine, str(tmp_path / "dictionary"))
    assert {hit.id for hit in engine.search("rare get user", 5, expand="rank")} == {"own", "both"}
    assert [hit.id for hit in engine.search("rare get user", 5, expand="rank", filter={"own"})] == ["own"]
    assert engine.search("get", 5, expand="rank") == []
    assert len(engine.search("common get user", 5, expand="rank")) == 5
    assert [hit.id for hit in engine.search("common get user", 5, expand="rank", filter={"f0007"})] == ["f0007"]
