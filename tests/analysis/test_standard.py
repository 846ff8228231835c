"""`standard` is Lucene's StandardAnalyzer: golden files from Lucene 9.12.3, Unicode's own break test, the automaton."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qidf.analysis import Token, standard, unicode

GOLDEN = Path(__file__).parent / "golden"
CASES = [json.loads(line) for line in (GOLDEN / "lucene-9.12.3.jsonl").read_text().splitlines()]
EVERY: dict[str, Any] = json.loads((GOLDEN / "lucene-9.12.3-code-points.json").read_text())
CODE_POINTS = 0x110000

CLASS = bytearray(CODE_POINTS)
for first, last, number in unicode.STANDARD_CLASSES:
    CLASS[first : last + 1] = bytes([number]) * (last + 1 - first)


def spans(text: str) -> list[tuple[int, int]]:
    return [(token.start, token.end) for token in standard.analyze(text)]


def walk(text: str) -> list[tuple[int, int]]:
    """Return the spans that the automaton of `unicode.py` finds."""
    found, at = [], 0
    while at < len(text):
        state, end, units = 1, at, 0
        for i in range(at, len(text)):
            units += 1 + (text[i] > "\uffff")
            state = unicode.STANDARD_DFA[state][CLASS[ord(text[i])]]
            if not state or units > standard.WINDOW:
                break
            if unicode.STANDARD_ACCEPT[state]:
                end = i + 1
        if end > at:
            found.append((at, end))
        at = max(end, at + 1)
    return found


def golden_runs(context: str) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Return (first, last, spans) of each stretch of code points that Lucene treats alike in `context`."""
    different = [[(start, end) for start, end in some] for some in EVERY["contexts"][context]["spans"]]
    found, at = [], 0
    for length, letter in re.findall("([0-9a-f]+)([A-Z])", EVERY["contexts"][context]["runs"]):
        found.append((at, at + int(length, 16) - 1, different[ord(letter) - ord("A")]))
        at += int(length, 16)
    assert at == CODE_POINTS
    return found


def test_texts_are_tokenized_as_lucene_does() -> None:
    assert len(CASES) >= 400
    for case in CASES:
        assert standard.analyze(case["text"]) == [Token(*token) for token in case["tokens"]], ascii(case["text"])


def test_every_code_point_alone_is_treated_as_lucene_does() -> None:
    # One text for all, a line each: a line break is in no token.
    found = spans("\n".join(map(chr, range(CODE_POINTS))))
    wanted = [(2 * c, 2 * c + 1) for first, last, some in golden_runs("@") if some for c in range(first, last + 1)]
    assert found == wanted


@pytest.mark.parametrize("context", EVERY["contexts"])
def test_every_code_point_in_context_is_treated_as_lucene_does(context: str) -> None:
    # Analysis depends on a character's class alone, so each class is analyzed once and all code points are compared by
    # it; the ends of each of Lucene's stretches are analyzed for themselves.
    representative = {number: chr(c) for c, number in enumerate(CLASS)}
    by_class = {number: spans(context.replace("@", c) + " ") for number, c in representative.items()}
    for first, last, wanted in golden_runs(context):
        assert all(by_class[number] == wanted for number in set(CLASS[first : last + 1])), hex(first)
        for c in (first, last):
            assert spans(context.replace("@", chr(c)) + " ") == wanted, hex(c)


def test_the_automaton_and_the_expressions_have_the_same_classes() -> None:
    letters = "".join(map(chr, range(CODE_POINTS))).translate(standard._CLASSES)
    assert letters == "".join(standard._LETTERS[unicode.STANDARD_NAMES[number]] for number in CLASS)


def test_every_code_point_is_lowered_as_java_does() -> None:
    lower = {int(c): term for c, term in EVERY["lower"].items()}
    assert len(lower) > 1300
    for first, last, _ in golden_runs("a@"):
        for c in {first, last} | {c for c in lower if first <= c <= last}:
            tokens = standard.analyze("a" + chr(c))
            if tokens[-1].end == 2:
                assert tokens[-1].term[-1] == lower.get(c, chr(c)), hex(c)
    lowering = {c: chr(c + d) for first, last, step, d in unicode.LOWER for c in range(first, last + 1, step)}
    assert {c: term for c, term in lowering.items() if CLASS[c]} == lower


# Lucene, and so we, break after a ZWJ that stands between a letter and a pictograph, where Unicode does not.
NOT_AS_UNICODE = {"a\u200d🛑": [(0, 2), (2, 3)], "a\u200d✁": [(0, 2), (2, 3)]}


def test_words_break_as_unicode_says() -> None:
    # Unicode's file, as the crate bstr 0.2.17 ships it, with its licence beside it. A segment with something word-like
    # in it is a token.
    wordlike = {standard._LETTERS[name] for name in unicode.STANDARD_NAMES} & set("abhndtsSmpiu")
    lines = 0
    for line in (GOLDEN / "WordBreakTest-12.1.0.txt").read_text(encoding="utf-8").splitlines():
        marks = line.partition("#")[0].strip().strip("÷ ")
        if not marks:
            continue
        lines += 1
        segments = ["".join(chr(int(c, 16)) for c in part.replace("×", "").split()) for part in marks.split("÷")]
        wanted, at = [], 0
        for segment in segments:
            classes = segment.translate(standard._CLASSES)
            if wordlike & set(classes) or classes.count("r") == 2:
                wanted.append((at, at + len(segment)))
            at += len(segment)
        text = "".join(segments)
        assert spans(text) == NOT_AS_UNICODE.get(text, wanted), line
    assert lines == 1823


MEMBERS = [[" ", "-", "\u3000", "\ud800", "\udfff", "\U0010ffff"], *([] for _ in unicode.STANDARD_NAMES[1:])]
for first, last, number in unicode.STANDARD_CLASSES:
    MEMBERS[number] += [chr(first), chr(last)]
CHARACTERS = st.integers(0, len(MEMBERS) - 1).flatmap(lambda number: st.sampled_from(MEMBERS[number]))


@given(st.text(CHARACTERS, max_size=24))
@settings(max_examples=600, deadline=None)
def test_expressions_and_automaton_agree(text: str) -> None:
    assert spans(text) == walk(text)


@given(st.integers(0, 8), st.sampled_from("a1_カกא漢😀\u200d\U00010400"), st.text(CHARACTERS, max_size=10))
@example(0, "\u200d", "😀")
@settings(max_examples=200, deadline=None)
def test_expressions_and_automaton_agree_at_the_border(less: int, filler: str, text: str) -> None:
    text = filler * ((standard.WINDOW - less) // (1 + (filler > "\uffff"))) + text
    assert spans(text) == walk(text)


def test_a_text_ending_in_half_a_pair_keeps_its_tokens() -> None:
    # Lucene drops them: the one known difference.
    assert standard.analyze("a b\ud800") == [Token("a", 0, 1), Token("b", 2, 3)]


@pytest.mark.parametrize("unit", ["_", "a", "a:", "\u200d", "😀\u200d", "1\ufe0f", 'א"', "\u0301"])
def test_a_long_line_takes_linear_time(unit: str) -> None:
    began = time.perf_counter()
    standard.analyze(unit * (200_000 // len(unit)))
    assert time.perf_counter() - began < 10  # quadratic time would be minutes
