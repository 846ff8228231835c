"""Both inverters make the same segment out of the same texts, to the byte."""

from __future__ import annotations

import io
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qidf.analysis import ANALYZERS, get
from qidf.index import segment
from qidf.kernels import twin

from .compiled import inverter, scan
from .texts import texts

SCANNERS = {name: (scan.Scanner(name), twin.Scanner(name)) for name in ANALYZERS}

words = st.sampled_from(["a", "b", "getUser", "x" * 8, "y" * 9, "z" * 17, "漢", "é", "Ω", "😀"])
many = st.builds(lambda word, n: f"{word} " * n, words, st.sampled_from([1, 2, 254, 255, 256, 400]))
documents = st.lists(texts | st.lists(words, max_size=9).map(" ".join) | many, max_size=12)


def both(analyzer: str, parts: list[list[str]], order: list[int], seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the two kernels make of the same parts, one inverter each."""
    fast, slow = SCANNERS[analyzer]
    numbers = np.array(order, np.uint32)
    compiled, plain = [], []
    for part in parts:
        x, y = inverter.Inverter(fast, seed), twin.Inverter(slow, seed)
        middle = len(part) // 2
        for batch in (part[:middle], part[middle:]):
            x.add(batch)
            y.add(batch)
        assert x.documents == y.documents == len(part)
        assert x.seed == y.seed == seed
        assert x.scanner.name == y.scanner.name == analyzer
        compiled.append(x)
        plain.append(y)
    first, second = inverter.invert(compiled, numbers), twin.invert(plain, numbers)
    return as_arrays(first), as_arrays(second)


def as_arrays(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int) else np.asarray(value) for name, value in made.items()}


def check_equal(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert type(got[name]) is type(value), name
        if isinstance(value, np.ndarray):
            assert got[name].dtype == value.dtype, name
            assert got[name].shape == value.shape, name
        assert np.array_equal(got[name], value), name


@given(
    st.sampled_from(ANALYZERS),
    st.lists(documents, min_size=1, max_size=4),
    st.integers(0, 2**64 - 1),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_the_arrays_are_equal(analyzer: str, parts: list[list[str]], seed: int, random: Any) -> None:
    order = list(range(sum(map(len, parts))))
    random.shuffle(order)
    compiled, plain = both(analyzer, parts, order, seed)
    check_equal(compiled, plain)


@given(documents, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
@example(["a " * 255 + "b " * 256, "", "a " * 70_000], None)
def test_the_arrays_are_what_their_description_says(texts: list[str], random: Any) -> None:
    order = list(range(len(texts)))
    if random is not None:
        random.shuffle(order)
    arrays, _ = both("standard", [texts], order, 5)
    bags = [Counter(token.term for token in get("standard").analyze(texts[i])) for i in order]
    terms = sorted(set().union(*bags), key=str.encode)
    data, starts = arrays["terms.data"].tobytes(), arrays["terms.offsets"].tolist()
    assert [data[a:b].decode() for a, b in pairwise(starts)] == terms
    large = {int(p): int(n) for p, n in arrays["postings.large"].reshape(-1, 2)}
    offsets = arrays["postings.offsets"].tolist()
    for t, term in enumerate(terms):
        got = {}
        for p in range(offsets[t], offsets[t + 1]):
            count = int(arrays["postings.counts"][p])
            got[int(arrays["postings.docs"][p])] = large[p] if count == 255 else count
        assert got == {d: bag[term] for d, bag in enumerate(bags) if term in bag}
        assert list(got) == sorted(got)
    assert arrays["lengths"].tolist() == [bag.total() for bag in bags]
    assert arrays["tokens"] == sum(bag.total() for bag in bags)
    assert arrays["hapax"] == sum(sum(term in bag for bag in bags) == 1 for term in terms)
    slots = arrays["terms.slots"].reshape(-1, 2)
    assert len(slots) & (len(slots) - 1) == 0
    for t, term in enumerate(terms):
        h = twin.term_hash(term.encode(), 5)
        at = h % len(slots)
        while slots[at, 1] != t + 1:
            assert slots[at, 1] != 0, "a term must stand before the first empty slot from its own"
            at = (at + 1) % len(slots)
        assert slots[at, 0] == h >> 32


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_a_large_vocabulary_survives_the_growth_of_every_array(analyzer: str) -> None:
    texts = [" ".join(f"w{i * 31 % 40_009}x{'y' * (i % 23)}" for i in range(d, d + 900)) for d in range(0, 45_000, 900)]
    order = list(range(len(texts)))[::-1]
    compiled, plain = both(analyzer, [texts[:20], texts[20:]], order, 2**63)
    check_equal(compiled, plain)


def test_one_segment_or_several_inverters_give_the_same_segment_file() -> None:
    texts = [f"alpha beta{i % 3} getUser{i}" for i in range(50)]
    files = []
    for parts in ([texts], [texts[:10], texts[10:11], [], texts[11:]]):
        for arrays in both("code", parts, list(range(50)), 11):
            tokens, hapax = arrays.pop("tokens"), arrays.pop("hapax")
            file = io.BytesIO()
            segment.write(file, {f"body.{name}": a for name, a in arrays.items()}, {"tokens": tokens, "hapax": hapax})
            files.append(file.getvalue())
    assert len(set(files)) == 1


def test_memory_is_told_before_it_is_spent() -> None:
    for module, scanner in ((inverter, scan.Scanner("code")), (twin, twin.Scanner("code"))):
        one = module.Inverter(scanner, 1)
        assert one.nbytes < 1000
        sizes = []
        for i in range(3):
            one.add([f"word{i}x{j} other" for j in range(1000)])
            sizes.append(one.nbytes)
        assert sizes == sorted(sizes)
        assert sizes[0] > 1000 * 20


@pytest.mark.parametrize("module", [inverter, twin])
def test_an_order_of_another_length_is_a_value_error(module: Any) -> None:
    one = module.Inverter((scan if module is inverter else twin).Scanner("code"), 1)
    one.add(["a", "b"])
    with pytest.raises(ValueError, match="order must name 2 documents, got 1"):
        module.invert([one], np.array([0], np.uint32))


@pytest.mark.parametrize("module", [inverter, twin])
def test_no_document_makes_empty_arrays(module: Any) -> None:
    one = module.Inverter((scan if module is inverter else twin).Scanner("code"), 1)
    one.add([])
    arrays = as_arrays(module.invert([one], np.zeros(0, np.uint32)))
    assert arrays["terms.offsets"].tolist() == [0]
    assert len(arrays["postings.large"]) == 0
    assert (arrays["tokens"], arrays["hapax"]) == (0, 0)


def test_the_hash_of_a_term_is_pinned() -> None:
    """Index files live longer than a version: this may change with the format's number only."""
    assert [twin.term_hash(term, seed) for term, seed in [(b"", 0), (b"a", 0), (b"a", 1), (b"12345678", 7)]] == PINNED
    assert twin.term_hash(b"123456789", 2**64 - 1) == PINNED_NINE


PINNED = [0x0, 0x53C83C4054CC193, 0xDE8AB0AA69AF6752, 0xCB63B842B7AC09EB]
PINNED_NINE = 0xC15932B287CD62C6
