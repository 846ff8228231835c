from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf import Index
from qidf.index.refresh import refresh
from qidf.index.search import scanner
from qidf.passages import Passage, best_passage, cut_line, passage_of

CODE = scanner("code")


def find(text: str, *terms: tuple[str, float], lines: int = 3, width: int = 240, first_line: int = 1) -> Passage:
    return best_passage(text, terms, CODE, lines=lines, width=width, first_line=first_line)


def marked(passage: Passage) -> list[str]:
    return [passage.text[start:end] for start, end in passage.spans]


def test_window_whose_distinct_terms_weigh_most() -> None:
    text = "common common common\n\n\n\nrare common\n\n\n\ncommon common common\n"
    passage = find(text, ("common", 1.0), ("rare", 5.0))
    assert (passage.start_line, passage.end_line) == (5, 5)
    assert marked(passage) == ["rare", "common"]


def test_many_occurrences_of_one_term_do_not_outweigh_two_terms() -> None:
    assert find("alpha alpha alpha alpha\n\n\n\nalpha\nbeta\n", ("alpha", 1.0), ("beta", 0.1)).start_line == 5


def test_ties_go_to_more_occurrences_then_to_the_earliest() -> None:
    assert find("alpha\n\n\n\nalpha alpha\n", ("alpha", 1.0)).start_line == 5
    assert find("alpha\n\n\n\nalpha\n", ("alpha", 1.0)).start_line == 1


@pytest.mark.parametrize(
    "definition",
    [
        "def load(x):",
        "class load:",
        "    async def load():",
        "pub fn load() {",
        "func load() {",
        "#define load 1",
        "(defn load",
    ],
)
def test_ties_go_to_a_definition_first(definition: str) -> None:
    text = f"load load load\n\n\n\n{definition}\n  body\n"
    assert find(text, ("load", 1.0)).start_line == 5


def test_definition_does_not_outweigh_a_term() -> None:
    assert find("load quickly\n\n\n\ndef load():\n", ("load", 1.0), ("quickly", 0.5)).start_line == 1


def test_context_follows_and_blank_lines_at_the_end_are_left_off() -> None:
    assert find("x\ndef load():\n    one\n    two\n    three\n", ("load", 1.0)).text == "def load():\n    one\n    two"
    assert find("load\n\n  \nmore\n", ("load", 1.0)).text == "load"


def test_lines_count_from_where_the_document_begins() -> None:
    passage = find("one\ntwo\n", ("two", 1.0), first_line=100)
    assert (passage.start_line, passage.end_line) == (101, 101)


def test_line_numbers_are_those_of_editors() -> None:
    text = "a\r\nb\x0cb\u2028b\x85b\rb\r\nload\r\n"  # form feed and friends break no line
    passage = find(text, ("load", 1.0))
    assert (passage.start_line, passage.text) == (3, "load")


def test_only_the_part_of_an_identifier_is_marked() -> None:
    passage = find("x = getUserById(1)\n", ("user", 1.0))
    assert marked(passage) == ["User"]
    assert marked(find("x = getUserById(1)\n", ("user", 1.0), ("getuserbyid", 1.0))) == ["getUserById"]


def test_spans_are_code_points() -> None:
    passage = find("😀 größe = getSize(漢)\n", ("size", 1.0), ("größe", 1.0))
    assert marked(passage) == ["größe", "Size"]


def test_faint_terms_are_not_marked() -> None:
    assert marked(find("the cat\n", ("the", 0.05), ("cat", 1.0))) == ["cat"]
    assert marked(find("the dog\n", ("the", 0.5), ("cat", 1.0))) == ["the"]


def test_equal_sums_of_unlike_terms_are_a_tie() -> None:
    weights = ("a", 1.0), ("b", 2.0), ("c", 4.0), ("d", 3.0)
    assert find("a b c\nc c c d", *weights, lines=1).start_line == 2


def test_without_a_match_the_first_lines() -> None:
    for terms in ((), (("absent", 1.0),)):
        passage = find("one\ntwo\nthree\nfour\n", *terms)
        assert (passage.start_line, passage.end_line, passage.text, passage.spans) == (1, 3, "one\ntwo\nthree", [])
    assert find("").text == ""
    assert find("load", ("load", 0.0)).text == "load"


def test_long_lines_are_cut_around_the_match() -> None:
    passage = find("a " * 500_000 + "needle" + " b" * 500_000, ("needle", 1.0), width=60)
    assert len(passage.text) == 60
    assert passage.text[0] == passage.text[-1] == "…"
    assert marked(passage) == ["needle"]


def test_cut_line_shows_what_it_can() -> None:
    assert cut_line("short", [(0, 5)], 10) == ("short", [(0, 5)])
    assert cut_line("0123456789abcdef", [], 10) == ("012345678…", [])
    assert cut_line("0123456789abcdef", [(14, 16)], 10) == ("…789abcdef", [(8, 10)])
    assert cut_line("0123456789abcdef", [(2, 4)], 10) == ("012345678…", [(2, 4)])
    assert cut_line("0123456789abcdef", [(2, 4)], 0)[0] == "0123456…"  # never narrower than 8


PIECES = st.sampled_from(
    [
        "getUser",
        "foo",
        "def ",
        "\n",
        "\r\n",
        " ",
        "\t",
        "bar_baz",
        "İ",
        "\ud800",
        "é",
        "漢",
        "\0",
        "\u2028",
        "x" * 300,
        "1",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join)


@settings(deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 6), st.integers(1, 60), st.sampled_from(["code", "standard", "simple", "word"]))
def test_any_text(text: str, query: str, lines: int, width: int, analyzer: str) -> None:
    scan = scanner(analyzer)
    terms = [(term, float(i)) for i, term in enumerate(dict.fromkeys(token.term for token in scan.tokens(query)))]
    passage = best_passage(text, terms, scan, lines=lines, width=width)
    rows = passage.text.split("\n")
    assert len(rows) == passage.end_line - passage.start_line + 1 <= lines
    assert max(map(len, rows)) <= max(8, width)
    last = 0
    for start, end in passage.spans:
        assert last <= start < end <= len(passage.text)
        assert "\n" not in passage.text[start:end]
        last = end


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=4), max_size=12), st.integers(1, 4))
def test_choice_against_brute_force(rows: list[list[str]], lines: int) -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 3.0}
    best, answer = (-1.0, 0), 0
    for start, row in enumerate(rows):
        window = [term for line in rows[start : start + lines] for term in line]
        value = (sum(weights[term] for term in set(window)), len(window))
        if row and value > best:
            best, answer = value, start
    passage = find("\n".join(map(" ".join, rows)), *weights.items(), lines=lines)
    assert passage.start_line == answer + 1


# hits of an index


@pytest.fixture
def hits(tmp_path: Path) -> tuple[Path, Index]:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("import x\n\n\ndef load():\n    pass\n")
    refresh(root, tmp_path / "idx")
    return root, Index.open(tmp_path / "idx")


def show(index: Index) -> Passage:
    [hit] = index.search("load")
    return passage_of(index, hit, index.weights("load"))


def test_passage_of_a_hit(hits: tuple[Path, Index]) -> None:
    _, index = hits
    assert show(index) == Passage(4, 5, "def load():\n    pass", [(4, 8)], False, "")


def test_changed_file_is_shown_as_it_is_now(hits: tuple[Path, Index]) -> None:
    root, index = hits
    (root / "a.py").write_text("def load(): return more\n")
    assert show(index) == Passage(1, 1, "def load(): return more", [(4, 8)], True, "")
    (root / "a.py").write_text("")
    assert show(index) == Passage(1, 1, "", [], True, "")


def test_file_that_is_gone_or_unreadable_gives_no_text(hits: tuple[Path, Index]) -> None:
    root, index = hits
    (root / "a.py").write_bytes(b"\0")
    assert show(index).missing.startswith("can't be read any more")
    (root / "a.py").unlink()
    assert show(index) == Passage(0, 0, "", [], False, "gone since indexed")


def test_stored_and_not_stored_texts(tmp_path: Path) -> None:
    documents = [("one", "alpha\nload beta")]
    assert show(Index.build(documents, tmp_path / "a")).missing == "text not stored"
    assert show(Index.build(documents, tmp_path / "b", store_text=True)) == Passage(2, 2, "load beta", [(0, 4)])
