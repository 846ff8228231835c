"""Both look-ups say the same of the same dictionary, in the same order; both refuse the same nonsense."""

from __future__ import annotations

import random
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import IndexCorruptError
from qidf.expansion.dictionary import About, Dictionary, in_order, varints, write
from qidf.kernels import twin

from .compiled import lookup

BOTH = (lookup.Lookup, twin.Lookup)
LOOKUPS = pytest.mark.parametrize("cls", BOTH, ids=["compiled", "twin"])


def made(path: Path, parts: dict[str, tuple[str, ...]]) -> tuple[bytes, dict[str, Any]]:
    """Return a dictionary's bytes, and what a look-up is told of them."""
    write(
        str(path),
        About("", "standard", 1, 1, "texts"),
        in_order(parts),
        {part: 3 for own in parts.values() for part in own},
    )
    whole = Dictionary(str(path))
    groups = sorted((int(n), start) for n, start in whole.footer["groups"].items())
    told = {"arrays": whole.arrays, "starts": [start for _, start in groups], "sizes": [n for n, _ in groups]}
    return path.read_bytes(), told


def opened(cls: Any, data: bytes, told: dict[str, Any]) -> Any:
    return cls(data, "d", told["arrays"], told["starts"], told["sizes"])


WORDS = [f"w{chr(97 + i)}" for i in range(20)] + ["größe", "\ud800"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=2, max_size=5), max_size=60),
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([0.1, 1.0, 2.5, 7.3])), max_size=8),
    st.sampled_from([0, 1, 2, 5, 1000]),
    st.sampled_from([0, 1, 3, 64]),
)
def test_both_find_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    terms: list[list[str]],
    query: list[tuple[str, float]],
    read: int,
    most: int,
) -> None:
    parts = {"_".join(own): tuple(own) for own in terms if len(set(own)) > 1}
    data, told = made(tmp_path_factory.mktemp("lookup") / "d", parts)
    ours, plain = (opened(cls, data, told) for cls in BOTH)
    words = [word.encode("utf-8", "surrogatepass") for word in [*WORDS, "nothing", ""]]
    assert ours.ordinals(words) == plain.ordinals(words)
    known = [n for n in ours.ordinals(words) if n >= 0]
    assert [ours.df(n) for n in known] == [plain.df(n) for n in known]
    for n in known:
        assert ours.terms_of(n, read) == plain.terms_of(n, read)
    for number in range(len(parts)):
        assert ours.packed(number) == plain.packed(number)
    weights = dict(query)
    found = [
        (word, n, weight)
        for (word, weight), n in zip(
            weights.items(), ours.ordinals([word.encode("utf-8", "surrogatepass") for word in weights]), strict=True
        )
        if n >= 0
    ]
    asked = [word for word, _, _ in found], [n for _, n, _ in found], [weight for _, _, weight in found], read, most
    told_by_both = ours.related(*asked)
    assert told_by_both == plain.related(*asked)
    if read == 1000:  # against the formula, in words
        score = {
            term: len(held := [word for word in weights if word in own])
            / len(set(own))
            * sum(weights[word] for word in held)
            for term, own in parts.items()
        }
        best = sorted((value for value in score.values() if value > 0), reverse=True)[:most]
        assert [score[term] for term, *_ in told_by_both] == pytest.approx(best)


@LOOKUPS
def test_a_damaged_page_is_found_when_it_is_touched(cls: Any, tmp_path: Path) -> None:
    chance = random.Random(4)
    words = [f"w{i}" for i in range(300)]
    parts = {"_".join(own): tuple(own) for own in (chance.sample(words, chance.randint(2, 4)) for _ in range(3000))}
    data, told = made(tmp_path / "d", parts)
    whole = opened(cls, data, told)
    asked = ["w1", "w2", "w3"], whole.ordinals([b"w1", b"w2", b"w3"]), [1.0, 2.0, 3.0], 1024, 64
    expected = whole.related(*asked)
    refused = 0
    for page in range(told["arrays"]["pages"][1]):
        damaged = bytearray(data)
        damaged[page * 4096 + chance.randrange(4096)] ^= 1 << chance.randrange(8)
        one = opened(cls, bytes(damaged), told)
        try:
            assert one.ordinals([b"w1", b"w2", b"w3"]) == asked[1]
            assert one.related(*asked) == expected
        except IndexCorruptError:
            refused += 1
    assert refused > 3


@LOOKUPS
def test_numbers_that_do_not_fit_are_refused(cls: Any, tmp_path: Path) -> None:
    data, told = made(tmp_path / "d", {"a_b": ("a", "b"), "a_c": ("a", "c")})
    one = opened(cls, data, told)
    for method, *arguments in (
        ("df", -1),
        ("df", 3),
        ("packed", 2),
        ("terms_of", 3, 5),
        ("related", ["x"], [3], [1.0], 5, 5),
    ):
        with pytest.raises(IndexCorruptError):
            getattr(one, str(method))(*arguments)
    for name in ("terms.data", "lists.data", "parts.docs"):
        offset, count = told["arrays"][name]
        with pytest.raises(IndexCorruptError, match="not fit"):
            opened(cls, data, {**told, "arrays": {**told["arrays"], name: (offset, count + len(data))}})


@given(st.lists(st.integers(0, 2**32 - 2), max_size=80, unique=True).map(sorted))
def test_gaps_are_written_alike_however_many(numbers: list[int]) -> None:
    got, at, last = varints(array("I", numbers)), 0, -1
    for number in numbers:
        gap = number - last - 1
        while gap > 127:
            assert got[at] == gap & 127 | 128
            gap, at = gap >> 7, at + 1
        assert got[at] == gap
        at, last = at + 1, number
    assert at == len(got)
