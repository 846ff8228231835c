"""The compiled scanner gives what the analyzers of `qidf.analysis` give, token for token."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qidf.analysis import ANALYZERS
from qidf.kernels import twin

from .compiled import scan
from .texts import PIECES, texts

SCANNERS = {name: (scan.Scanner(name), twin.Scanner(name)) for name in ANALYZERS}
each_analyzer = pytest.mark.parametrize("name", ANALYZERS)


def check(name: str, text: str) -> None:
    compiled, plain = SCANNERS[name]
    expected = plain.tokens(text)
    assert compiled.tokens(text) == expected
    assert all(type(token.part) is bool for token in compiled.tokens(text))
    bag = compiled.bag(text)
    assert bag == plain.bag(text)
    assert list(bag) == list(plain.bag(text)), "a bag keeps the order of first occurrence"


@each_analyzer
@given(texts)
@settings(max_examples=300, deadline=None)
@example("İab \ud800 cd")
@example("\ud800İab cd")
@example("ΑΣ ΑΣ. \udc00ΑΣ")
@example("")
def test_tokens_and_bag_agree(name: str, text: str) -> None:
    check(name, text)


@each_analyzer
@given(texts, st.data())
@settings(max_examples=100, deadline=None)
@example("İab \ud800 ab", None)
def test_find_agrees(name: str, text: str, data: st.DataObject | None) -> None:
    compiled, plain = SCANNERS[name]
    terms = sorted(plain.bag(text))
    chosen = terms if data is None or not terms else data.draw(st.lists(st.sampled_from(terms), unique=True))
    wanted = {term.encode(): i for i, term in enumerate(chosen)} | {b"absent": -1, b"\xff": -2, b"": -3, b"x" * 300: -4}
    expected = [(t.start, t.end, wanted[t.term.encode()]) for t in plain.tokens(text) if t.term.encode() in wanted]
    assert compiled.find(text, wanted) == expected
    assert plain.find(text, wanted) == expected
    assert compiled.find(text, {}) == plain.find(text, {}) == []


@each_analyzer
def test_every_code_point_agrees_alone_and_inside_a_word(name: str) -> None:
    compiled, plain = SCANNERS[name]
    step = 1 << 13
    # Planes 2 and 3 hold Han only, the ones up to 13 nothing.
    for first in [*range(0, 0x20000, step), 0x2A000, 0x2E000, 0x30000, 0xE0000, 0x110000 - step]:
        points = range(first, first + step)
        text = "".join(f"{chr(c)} aB{chr(c)}s1 " for c in points)
        if name == "word":  # İ makes the compiled scanner ask the definition, which would prove nothing
            text = text.replace("İ", "")
        assert compiled.tokens(text) == plain.tokens(text), f"somewhere from U+{first:04X}"


@each_analyzer
def test_long_texts_agree_across_the_borders_of_batches_and_buffers(name: str) -> None:
    rng = random.Random(7)
    text = "".join(rng.choice(PIECES) + rng.choice([" ", ""]) for _ in range(20_000))
    check(name, text)
    check(name, text.encode("ascii", "ignore").decode())
    for n in (511, 512, 513, 1023, 1024, 1025):
        check(name, "ab " * n)
        check(name, "aB1" * n)
    check(name, "x" * 200_000)
    check(name, "漢\u0301" * 70_000)


@each_analyzer
def test_a_scanner_knows_its_name_and_refuses_what_is_no_text(name: str) -> None:
    for scanner in SCANNERS[name]:
        assert scanner.name == name
        for call in (scanner.tokens, scanner.bag):
            with pytest.raises((TypeError, AttributeError)):
                call(b"bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [scan, twin])
def test_an_unknown_analyzer_is_a_value_error(module: type) -> None:
    with pytest.raises(ValueError, match=r"nope|not in"):
        module.Scanner("nope")  # type: ignore[attr-defined]
