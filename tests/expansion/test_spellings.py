"""From texts and bare terms to parts."""

from __future__ import annotations

import pytest

from qidf.analysis.word import STOP_WORDS
from qidf.expansion.spellings import LONGEST, Segmentation, Spellings, from_terms, of_texts, take_apart
from qidf.index.search import scanner


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("handleWebSocketUpgrade", "handle web socket upgrade"),
        ("get_user by-id os.path HTTPServer x", "get user by id os path http server x"),
        ("sha256_hex getURLs", "sha 256 hex get urls"),
        ("getUser getUser", "get user get user"),
        ("", ""),
    ],
)
def test_take_apart(text: str, words: str) -> None:
    assert take_apart(text) == words.split()


def test_the_parts_of_a_term_are_its_commonest_spelling_with_several() -> None:
    spellings = Spellings(scanner("standard").tokens)
    for text in ("setUp setUp SetUp setup setup setup setup", "fileName filename fileNAME", "plain words", "aA" * 200):
        spellings.add(text)
    parts = spellings.parts()
    assert parts["setup"] == ("set", "up")
    assert parts["filename"] == ("file", "name")
    assert "plain" not in parts
    assert all(len(term) <= LONGEST for term in parts)
    dfs = spellings.dfs()
    assert (dfs["set"], dfs["up"], dfs["setup"], dfs["file"], dfs["plain"]) == (1, 1, 1, 1, 1)


def test_glued_words_are_cut_by_the_indexs_own_words() -> None:
    dfs = {"handle": 90, "web": 60, "socket": 70, "upgrade": 40, "stand": 9, "under": 12, "understand": 30, "xyz": 1}
    dfs |= {"handlewebsocketupgrade": 2, "get_user": 3, "qqsocket": 2, "websocket": 5, "sha256": 2}
    segmentation = Segmentation(dfs, 1000)
    assert segmentation.cut("handlewebsocketupgrade") == ("handle", "websocket", "upgrade")
    assert segmentation.cut("websocket") == ("web", "socket")
    assert segmentation.cut("get_user") == ("get", "user")
    assert segmentation.cut("understand") == ("understand",)  # a word of its own
    assert segmentation.cut("qqsocket") == ("qqsocket",)  # nobody knows qq
    assert segmentation.cut("sha256") == ("sha", "256")
    parts, estimated = from_terms(dfs, 1000)
    assert parts["get_user"] == ("get", "user")
    assert "understand" not in parts
    assert 70 < estimated["socket"] <= 70 + 5 + 2 + 2  # at most the sum, at least the largest
    assert from_terms({}, 0) == ({}, {})


def test_words_that_an_index_drops_are_counted_as_an_index_of_parts_would() -> None:
    """`the` stands in every text, and in one identifier: it must not pass for rare."""
    texts = ["the parser of theEnd", "the x file", "a file of the user (the)"]
    spellings = of_texts(texts, scanner("word").tokens)
    whole = of_texts(texts, scanner("standard").tokens)
    assert spellings.dfs() == whole.dfs()
    assert spellings.dfs()["the"] == 3
    assert spellings.dfs()["x"] == 1
    _, dfs = from_terms({"the_end": 1, "end": 4}, 9, STOP_WORDS)
    assert dfs == {"the": 9, "end": 5, "the_end": 1}
