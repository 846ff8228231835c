"""`word` is bm25s' default tokenization: golden file from bm25s 0.3.16, and the installed one."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import Token, unicode, word

GOLDEN = Path(__file__).parent / "golden"
same_unicode = pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the table is Python 3.11's Unicode")


def terms(text: str) -> list[str]:
    tokens = word.analyze(text)
    for token in tokens:
        # A term holds no dot of İ, for that is no word character; whether Σ is final depends on what follows.
        spelling = text[token.start : token.end].lower().replace("i\u0307", "i")
        assert token.term.replace("ς", "σ") == spelling.replace("ς", "σ")
    return [token.term for token in tokens]


def test_texts_are_tokenized_as_bm25s_does() -> None:
    for line in (GOLDEN / "bm25s-0.3.16.jsonl").read_text().splitlines():
        case = json.loads(line)
        assert terms(case["text"]) == case["tokens"], ascii(case["text"])


@same_unicode
@given(st.text(st.one_of(st.characters(), st.sampled_from("abİiΣ _9é.")), max_size=40))
@settings(max_examples=300, deadline=None)
def test_the_installed_bm25s_agrees(text: str) -> None:
    bm25s = pytest.importorskip("bm25s")
    assert terms(text) == bm25s.tokenize([text], return_ids=False, show_progress=False)[0]


@same_unicode
def test_word_characters_are_those_of_python() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    found = [(run.start(), run.end() - 1) for run in re.finditer(r"\w+", every)]
    assert found == list(unicode.WORD_CHARS)


def test_stop_words_are_those_of_bm25s() -> None:
    stopwords = pytest.importorskip("bm25s.stopwords")
    assert frozenset(stopwords.STOPWORDS_EN) == word.STOP_WORDS
    assert len(word.STOP_WORDS) == 33


def test_one_character_alone_grows_in_lower_case() -> None:
    assert [c for c in range(sys.maxunicode + 1) if len(chr(c).lower()) != 1] == [0x130]
    assert "\u0130".lower() == "i\u0307"
    assert re.match(r"\w", "\u0307") is None


def test_offsets_point_into_the_text_before_lower_case() -> None:
    text = "İİab xİ The İstanbul ΑΣ"
    assert word.analyze(text) == [
        Token("ab", 2, 4),
        Token("xi", 5, 7),
        Token("stanbul", 13, 20),
        Token("ας", 21, 23),
    ]


def test_short_words_and_stop_words_are_dropped() -> None:
    assert terms("a b The x1 _ __ \ud800ab") == ["x1", "__", "ab"]
