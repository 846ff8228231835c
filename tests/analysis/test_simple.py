"""`simple` is Tantivy's `default` tokenizer: golden files from tantivy-py 0.27.0, and the installed one."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import Token, simple, unicode

GOLDEN = Path(__file__).parent / "golden"
EVERY = " ".join(chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)


def terms(text: str) -> list[str]:
    tokens = simple.analyze(text)
    for token in tokens:
        assert token.term == text[token.start : token.end].translate(simple._LOWER)
    return [token.term for token in tokens]


def test_texts_are_tokenized_as_tantivy_does() -> None:
    for line in (GOLDEN / "tantivy-0.27.0.jsonl").read_text().splitlines():
        case = json.loads(line)
        assert terms(case["text"]) == case["tokens"], ascii(case["text"])


def test_every_code_point_is_treated_as_tantivy_does() -> None:
    wanted = []
    for term in json.loads((GOLDEN / "tantivy-0.27.0-code-points.json").read_text()):
        wanted += [chr(c) for c in range(ord(term[0]), ord(term[2]) + 1)] if term[1:2] == "-" else [term]
    assert terms(EVERY) == wanted


@given(st.lists(st.text(max_size=12), max_size=8))
@settings(max_examples=300, deadline=None)
def test_the_installed_tantivy_agrees(parts: list[str]) -> None:
    tantivy = pytest.importorskip("tantivy")
    if not tantivy.__version__.startswith("tantivy v0.27."):
        pytest.skip("another Rust may know another Unicode")
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    default = builder.filter(tantivy.Filter.remove_long(40)).filter(tantivy.Filter.lowercase()).build()
    text = "".join(parts)
    assert terms(text) == default.analyze(text)


def test_forty_bytes_are_too_many() -> None:
    assert terms("a" * 39) == ["a" * 39]
    assert terms("a" * 40) == []
    assert terms("é" * 19) == ["é" * 19]
    assert terms("é" * 20) == []
    assert terms("İ" * 19) == ["i\u0307" * 19]  # measured before it is lower-cased


def test_each_character_is_lowered_by_itself() -> None:
    assert terms("ΑΣ İa") == ["ασ", "i\u0307a"]


def test_surrogates_divide() -> None:
    assert simple.analyze("a\ud800B") == [Token("a", 0, 1), Token("b", 2, 3)]


def test_ranges_ascend_and_do_not_touch() -> None:
    for ranges in (unicode.SIMPLE_ALNUM, unicode.WORD_CHARS):
        assert all(first <= last for first, last in ranges)
        assert all(a[1] + 1 < b[0] for a, b in pairwise(ranges))
