"""The dictionary's file: what comes back, what damage does, what a look-up finds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import IndexCorruptError, IndexMismatchError
from qidf.expansion.dictionary import READ, About, Dictionary, in_order, write
from qidf.expansion.spellings import take_apart

ABOUT = About("qidf:/somewhere", "standard", 100, 90, "texts")
PARTS = {
    "getuserbyid": ("get", "user", "by", "id"),
    "get_user_by_id": ("get", "user", "by", "id"),
    "websocket": ("web", "socket"),
    "os.path": ("os", "path"),
    "gotogo": ("go", "to", "go"),
    "usersid": ("user", "id"),  # an analyzer that stems what it was spelled
    "größemax": ("größe", "max"),
}


def made(path: Path, parts: Mapping[str, tuple[str, ...]] = PARTS) -> Dictionary:
    write(str(path), ABOUT, in_order(parts), {part: 7 for own in parts.values() for part in own})
    return Dictionary(str(path))


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    dictionary = made(tmp_path / "d")
    assert len(dictionary) == len(PARTS)
    assert dictionary.about == ABOUT
    for term, parts in PARTS.items():
        assert dictionary.parts_of(term) == list(parts)
        for part in parts:
            assert term in dictionary.terms_of(part)
            assert dictionary.dfs([part, "nothing"]) == {part: 7}
    assert dictionary.parts_of("get") == [] == dictionary.parts_of("") == dictionary.terms_of("nothing")
    assert dictionary.terms_of("user")[0] == "usersid"  # of fewest parts
    dictionary.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


WORDS = st.text(st.characters(exclude_categories=["Cc"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(WORDS, st.lists(WORDS, min_size=2, max_size=5, unique=True), max_size=12))
def test_any_terms_and_parts_come_back(tmp_path_factory: pytest.TempPathFactory, parts: dict[str, list[str]]) -> None:
    path = tmp_path_factory.mktemp("any") / "d"
    dictionary = made(path, {term: tuple(own) for term, own in parts.items()})
    for term, own in parts.items():
        assert dictionary.parts_of(term) == own
        assert all(term in dictionary.terms_of(part) for part in own)


def test_candidates_are_those_of_a_brute_force(tmp_path: Path) -> None:
    chance = random.Random(5)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(60)]
    parts = {}
    for _ in range(3000):
        own = tuple(chance.sample(words, chance.randint(2, 5)))
        parts["_".join(own)] = own
    dictionary = made(tmp_path / "d", parts)
    for size in (1, 3, 12):
        weights = {word: chance.uniform(1, 9) for word in chance.sample(words, size)}

        def weight(own: tuple[str, ...] | list[str], weights: dict[str, float] = weights) -> float:
            held = [part for part in set(own) if part in weights]
            return len(held) / len(set(own)) * sum(weights[part] for part in held)

        best = sorted((weight(own) for own in parts.values()), reverse=True)[:32]
        found = dictionary.candidates(weights, 32)
        assert [weight(parts[term]) for term, _, _ in found] == pytest.approx(best)
        for term, held, n in found:
            assert set(held) == weights.keys() & set(parts[term])
            assert n == len(parts[term])


def test_a_long_list_is_read_in_part(tmp_path: Path) -> None:
    parts = {f"common_w{i}": ("common", f"w{i}") for i in range(3 * READ)}
    dictionary = made(tmp_path / "d", parts)
    assert len(dictionary.terms_of("common")) == READ
    assert dictionary.candidates({"common": 1.0, "w3000": 5.0}, 8)[0] == ("common_w3000", ("common", "w3000"), 2)


def test_damage_is_an_error_and_never_a_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "d"
    whole = made(path)
    expected = {term: whole.parts_of(term) for term in PARTS}
    data, chance = path.read_bytes(), random.Random(3)
    for case in range(400):
        damaged = bytearray(data)
        if case % 4 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        else:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            dictionary = Dictionary(str(path))
            assert {term: dictionary.parts_of(term) for term in PARTS} == expected
            dictionary.candidates({"user": 1.0, "id": 2.0}, 4)
        except (IndexCorruptError, IndexMismatchError):
            continue


def test_no_half_written_file(tmp_path: Path) -> None:
    made(tmp_path / "d")
    before = (tmp_path / "d").read_bytes()
    with pytest.raises(AttributeError):
        write(str(tmp_path / "d"), None, in_order(PARTS), {})  # type: ignore[arg-type]
    assert (tmp_path / "d").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_take_apart_and_file_agree(tmp_path: Path) -> None:
    names = ["handleWebSocketUpgrade", "sha256_hex", "__init__file", "XMLHttpRequest", "a.b.cD"]
    parts = {name.lower(): tuple(take_apart(name)) for name in names}
    dictionary = made(tmp_path / "d", parts)
    assert {term: tuple(dictionary.parts_of(term)) for term in parts} == parts
