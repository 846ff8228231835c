"""`code` gives an identifier whole and then its parts; the rule stands in the module, the twin here spells it out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import Token, code, unicode

CLASS = bytearray(0x110000)
for first, last, number in unicode.CODE_CLASSES:
    CLASS[first : last + 1] = bytes([number]) * (last + 1 - first)
LETTER, UPPER, DIGIT, UNDERSCORE, MARK, SINGLE = range(1, 7)


def shown(text: str) -> str:
    """Return the terms, parts in brackets."""
    return " ".join(f"[{token.term}]" if token.part else token.term for token in code.analyze(text))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getUserById", "getuserbyid [get] [user] [by] [id]"),
        ("sha256_hex", "sha256_hex [sha] [256] [hex]"),
        ("__init__", "__init__ [init]"),
        ("_private", "_private [private]"),
        ("plain", "plain"),
        ("Plain", "plain"),
        ("PLAIN", "plain"),
        ("2024", "2024"),
        ("_ __ _\u0301 \u0301", ""),
        ("HTTPServer", "httpserver [http] [server]"),
        ("parseHTTP", "parsehttp [parse] [http]"),
        ("getURLs", "geturls [get] [urls]"),
        ("IDsByName", "idsbyname [ids] [by] [name]"),
        ("URLs", "urls"),
        ("URLs2", "urls2 [urls] [2]"),
        ("URLs_x", "urls_x [urls] [x]"),
        ("URLsafe", "urlsafe [ur] [lsafe]"),
        ("HTTPserver", "httpserver [htt] [pserver]"),
        ("isAs", "isas [is] [as]"),
        ("x86_64", "x86_64 [x] [86] [64]"),
        ("V2Api", "v2api [v] [2] [api]"),
        ("foo.bar->baz::qux", "foo bar baz qux"),
        ("MAX_RETRY_COUNT", "max_retry_count [max] [retry] [count]"),
        ("don't", "don t"),
        ("größeÄndern", "größeändern [größe] [ändern]"),
        ("cafe\u0301Bar", "cafe\u0301bar [cafe\u0301] [bar]"),
        ("E\u0301A\u0301s", "e\u0301a\u0301s"),
        ("a_\u0301b", "a_\u0301b [a] [b]"),
        ("漢字", "漢 字"),
        ("漢\u0301字x", "漢\u0301 字 x"),
        ("ひらカタカナ", "ひ ら カタカナ"),
        ("get漢Name", "get 漢 name"),
        ("한국어", "한국어"),
        ("二〇二四", "二 〇 二 四"),
        ("x²", "x² [x] [²]"),
        ("İd", "id"),
        ("a\ud800b", "a b"),
    ],
)
def test_words_and_parts(text: str, terms: str) -> None:
    assert shown(text) == terms


def test_offsets_and_part_flags() -> None:
    assert code.analyze("x = getID(\n") == [
        Token("x", 0, 1),
        Token("getid", 4, 9),
        Token("get", 4, 7, part=True),
        Token("id", 7, 9, part=True),
    ]


def test_a_long_run_is_cut() -> None:
    assert [token[1:] for token in code.analyze("a" * 600)] == [(0, 255, False), (255, 510, False), (510, 600, False)]
    assert [token[1:] for token in code.analyze("a" * 255 + "\u0301b")] == [(0, 255, False), (256, 257, False)]
    assert [token[1:] for token in code.analyze("漢" + "\u0301" * 300 + "b")] == [(0, 255, False), (301, 302, False)]
    assert [token[1:] for token in code.analyze("_" * 254 + "ab")] == [
        (0, 255, False),
        (254, 255, True),
        (255, 256, False),
    ]


def twin(text: str) -> list[tuple[int, int, bool]]:
    """Return the spans as the rule says, character by character."""
    kinds = [CLASS[ord(c)] for c in text]
    found: list[tuple[int, int, bool]] = []
    at = 0
    while at < len(text):
        start, kind = at, kinds[at]
        at += 1
        if kind in (0, MARK):
            continue
        goes_on = {MARK} if kind == SINGLE else {LETTER, UPPER, DIGIT, UNDERSCORE, MARK}
        while at < len(text) and kinds[at] in goes_on and at - start < 255:
            at += 1
        parts = _twin_parts(text, kinds, start, at)
        if parts or kind == SINGLE:
            found.append((start, at, False))
        if parts != [(start, at)]:
            found += [(a, b, True) for a, b in parts]
    return found


def _twin_parts(text: str, kinds: list[int], start: int, end: int) -> list[tuple[int, int]]:
    # Bases are the characters that carry marks: (place, kind).
    bases = [(i, kinds[i]) for i in range(start, end) if kinds[i] not in (MARK, SINGLE)]
    pieces: list[list[int]] = []  # places of the bases of each part
    for n, (i, kind) in enumerate(bases):
        before = bases[n - 1][1] if n else UNDERSCORE
        after = bases[n + 1][1] if n + 1 < len(bases) else 0
        if kind == UNDERSCORE:
            continue
        if before == UNDERSCORE or (kind == DIGIT) != (before == DIGIT):
            divides = True
        elif kind == UPPER:
            # The plural's row was closed by its s; else an upper-case letter begins a part after a lower-case one, and
            # where a lower-case one follows that is no plural s.
            plural = (
                after == LETTER and text[bases[n + 1][0]] == "s" and (n + 2 >= len(bases) or bases[n + 2][1] != LETTER)
            )
            divides = before == LETTER or (before == UPPER and after == LETTER and not plural)
        else:
            divides = False
        if divides:
            pieces.append([])
        pieces[-1].append(i)
    parts = []
    for piece in pieces:
        last = piece[-1] + 1
        while last < end and kinds[last] == MARK:
            last += 1
        parts.append((piece[0], last))
    return parts


@given(st.text(st.sampled_from("asSsAUĐé9²__\u0301\u200d漢ひ .\ud800한ǅ𐐀"), max_size=30))
@settings(max_examples=1000, deadline=None)
def test_words_and_parts_follow_the_rule(text: str) -> None:
    tokens = code.analyze(text)
    assert [token[1:] for token in tokens] == twin(text)
    for token in tokens:
        assert token.term == text[token.start : token.end].translate(code._LOWER)
    assert [token.start for token in tokens if not token.part] == sorted({t.start for t in tokens if not t.part})


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_accepted(text: str) -> None:
    assert [token[1:] for token in code.analyze(text)] == twin(text)


@pytest.mark.parametrize("unit", ["_", "aB", "A", "ABs", "\u0301", "漢\u0301", "a\u0301"])
def test_a_long_line_takes_linear_time(unit: str) -> None:
    began = time.perf_counter()
    code.analyze(unit * (200_000 // len(unit)))
    assert time.perf_counter() - began < 10  # quadratic time would be minutes
