"""Both readers say the same of the same segment, to the last bit of a score; and both refuse the same nonsense."""

from __future__ import annotations

import io
import json
import random
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import ANALYZERS
from qidf.errors import IndexCorruptError
from qidf.index import segment
from qidf.index.container import blob
from qidf.kernels import twin
from qidf.weighting import identifier_spans, query_terms

from .compiled import scan, scorer
from .texts import texts

SEED = 0x123456789ABCDEF
READERS = pytest.mark.parametrize("cls", [scorer.Reader, twin.Reader], ids=["compiled", "twin"])

counts = st.integers(1, 4) | st.sampled_from([254, 255, 256, 70_000])
collections = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh") | st.sampled_from(["漢", "x" * 30]), counts, max_size=5),
    min_size=1,
    max_size=20,
).flatmap(
    # Many documents without any term make the branch of few postings.
    lambda bags: st.tuples(st.just(bags), st.sampled_from([0, 0, 7, 200])).map(lambda x: x[0] + [{}] * x[1])
)


class Counted(twin.Scanner):
    """Takes bags for texts: nobody has to tokenize 70,000 times the same word."""

    def bag(self, text: Any) -> dict[str, int]:
        bag: dict[str, int] = text
        return bag


def make(bags: list[dict[str, int]], **wrong: Any) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """A segment's file as the bytes and the places of its arrays; `wrong` replaces arrays (dots as underscores)."""
    one: Any = twin.Inverter(Counted("standard"), SEED)
    one.add(bags)
    arrays = twin.invert([one], np.arange(len(bags), dtype=np.uint32))
    arrays.pop("tokens")
    arrays.pop("hapax")
    for name, change in wrong.items():
        key = name.replace("_", ".")
        arrays[key] = change(arrays[key].copy() if key in arrays else None)
    file = io.BytesIO()
    segment.write(file, {f"body.{name}": a for name, a in arrays.items()}, {})
    data = file.getvalue()
    length = int.from_bytes(data[-20:-16], "little")
    footer = json.loads(data[-20 - length : -20])
    return data, {name: (offset, count) for name, (offset, count) in footer["arrays"].items()}


def read(cls: Any, data: bytes, places: dict[str, tuple[int, int]], documents: int) -> Any:
    return cls(data, "test", documents, SEED, places)


def rank(
    reader: Any,
    rows: list[list[tuple[int, float]]],
    k: int,
    norms: Any,
    first: int = 0,
    last: int | None = None,
    parts: Any = None,
) -> tuple[list[int], list[float]]:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    ordinals = np.array([t for row in rows for t, _ in row], np.int64)
    weights = np.array([w for row in rows for _, w in row], np.float64)
    docs, scores = np.full(len(rows) * k, -7, np.int64), np.full(len(rows) * k, -7.0)
    last = len(rows) if last is None else last
    reader.score(offsets, ordinals, weights, norms, k, docs, scores, first, last, parts)
    return docs.tolist(), scores.tolist()


@given(collections, st.data())
@settings(max_examples=300, deadline=None)
def test_look_up_and_ranking_agree_to_the_bit(bags: list[dict[str, int]], data: st.DataObject) -> None:
    file, places = make(bags)
    compiled, plain = (read(cls, file, places, len(bags)) for cls in (scorer.Reader, twin.Reader))
    assert (compiled.documents, compiled.terms, compiled.name) == (plain.documents, plain.terms, plain.name)
    terms = sorted(set().union(*bags), key=str.encode)
    for term in [*terms, "absent", "", "z" * 300, "\ud800", "a\0"]:
        expected = terms.index(term) if term in terms else -1
        assert compiled.ordinal(term) == plain.ordinal(term) == expected
    for t, term in enumerate(terms):
        assert compiled.df(t) == plain.df(t) == sum(term in bag for bag in bags)
        for d in range(min(len(bags), 25)):
            assert compiled.count(t, d) == plain.count(t, d) == bags[d].get(term, 0)
        assert compiled.count(t, 2**32 - 1) == plain.count(t, 2**32 - 1) == 0
    assert [compiled.length(d) for d in range(len(bags))] == [plain.length(d) for d in range(len(bags))]
    assert [plain.length(d) for d in range(len(bags))] == [sum(bag.values()) for bag in bags]

    k1 = data.draw(st.sampled_from([0.0, 0.9, 1.2, 1e9]), "k1")
    b = data.draw(st.sampled_from([0.0, 0.4, 0.75, 1.0]), "b")
    average = sum(sum(bag.values()) for bag in bags) / len(bags) or 1.0
    norms: list[Any] = [np.empty(len(bags)), array("d", bytes(8 * len(bags)))]
    compiled.norms(k1, b, average, norms[0])
    plain.norms(k1, b, average, norms[1])
    assert norms[0].tolist() == norms[1].tolist()

    weight = st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1e300]) | st.floats(0, 50)
    row = st.lists(st.tuples(st.integers(-1, len(terms) - 1), weight), max_size=6)
    rows = data.draw(st.lists(row, max_size=4), "rows")
    k = data.draw(st.sampled_from([1, 2, 3, 10, len(bags), len(bags) + 3]), "k")
    assert rank(compiled, rows, k, norms[0]) == rank(plain, rows, k, norms[1])
    if len(rows) > 2:
        assert rank(compiled, rows, k, norms[0], 1, 2) == rank(plain, rows, k, norms[1], 1, 2)
    # Nothing is left over from one query to the next, and parts computed beforehand change nothing.
    assert compiled.postings == plain.postings == sum(map(len, bags))
    parts = np.empty(compiled.postings), np.empty(compiled.postings)
    compiled.parts(norms[0], parts[0])
    plain.parts(norms[1], parts[1])
    assert np.array_equal(*parts, equal_nan=True)
    ranked = rank(plain, rows, k, norms[1])
    assert rank(compiled, rows, k, norms[0], parts=parts[0]) == ranked
    assert rank(plain, rows, k, norms[0], parts=parts[1]) == ranked
    assert rank(compiled, rows, k, norms[0]) == ranked


@given(
    st.lists(collections, min_size=1, max_size=3),
    st.lists(texts | st.lists(st.sampled_from(["a", "b", "c", "aB", "漢", "ü", "x" * 30]), max_size=9).map(" ".join)),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_analyze_agrees(parts: list[list[dict[str, int]]], queries: list[str], shapes: bool) -> None:
    files = [(*make(bags), len(bags)) for bags in parts]
    spans = [identifier_spans(query) or None for query in queries] if shapes else None
    ours: Any = [read(scorer.Reader, *file) for file in files]
    theirs: Any = [read(twin.Reader, *file) for file in files]
    for name in ANALYZERS:
        got = scorer.analyze(scan.Scanner(name), ours, queries, spans)
        expected = twin.analyze(twin.Scanner(name), theirs, queries, spans)
        for x, y in zip(got, expected, strict=True):
            assert x.dtype == y.dtype
            assert x.shape == y.shape
            assert (x == y).all()
        # and with the definition
        for i, query in enumerate(queries):
            rows = slice(expected[0][i], expected[0][i + 1])
            known = [
                (t.count, t.shaped and shapes)
                for t in query_terms(query, twin.Scanner(name).tokens(query))
                if any(reader.ordinal(t.term) >= 0 for reader in theirs)
            ]
            assert list(zip(expected[3][rows].tolist(), expected[4][rows].tolist(), strict=True)) == known


@READERS
def test_ids_are_read_back(cls: Any) -> None:
    ids = ["a", "", "é", "\ud800", "x" * 5000, "\n"]
    data, offsets = blob([id.encode("utf-8", "surrogatepass") for id in ids])
    file, places = make([{}] * 6, ids_data=lambda _: data, ids_offsets=lambda _: offsets)
    where = places["body.ids.offsets"][0], *places["body.ids.data"]
    reader = read(cls, file, places, 6)
    assert reader.ids(array("q", [5, 4, -1, 0, 1, 2, 3, -1]), *where) == [
        "\n",
        "x" * 5000,
        None,
        "a",
        "",
        "é",
        "\ud800",
        None,
    ]
    assert reader.ids(np.zeros(0, np.int64), *where) == []
    for docs, *wrong in (([6], *where), ([0], where[0] + 1, *where[1:]), ([0], 1 << 30, *where[1:])):
        with pytest.raises(IndexCorruptError, match="damaged ids"):
            reader.ids(np.array(docs, np.int64), *wrong)
    with pytest.raises(IndexCorruptError, match="damaged ids"):
        reader.ids(np.array([5], np.int64), where[0], where[1], 3)
    bad = offsets[::-1]
    file, places = make([{}] * 6, ids_data=lambda _: data, ids_offsets=lambda _: bad)
    with pytest.raises(IndexCorruptError, match="damaged ids"):
        read(cls, file, places, 6).ids(np.array([0], np.int64), *where)


@READERS
def test_ties_come_in_the_order_of_the_documents_whatever_k(cls: Any) -> None:
    for others in (0, 500):  # both branches of the top k
        bags = [{"a": 1 + d % 2, "b": 1} if d < 60 else {"c": 3 - d % 2} for d in range(60 + others)]
        reader = read(cls, *make(bags), len(bags))
        norms = np.full(len(bags), 1.2)
        best = [*range(1, 60, 2), *range(0, 60, 2)]
        for k in (1, 2, 29, 30, 31, 59, 60, 61, 700):
            docs, scores = rank(reader, [[(reader.ordinal("a"), 1.0)]], k, norms)
            assert docs == (best + [-1] * k)[:k]
            assert scores[: min(k, 60)] == [2 / 3.2] * min(k, 30) + [1 / 2.2] * (min(k, 60) - min(k, 30))
            assert scores[60:] == [0.0] * max(0, k - 60)


@READERS
def test_a_score_is_the_float64_sum_in_the_order_of_the_query(cls: Any) -> None:
    reader = read(cls, *make([{"a": 1, "b": 1, "c": 1}]), 1)
    a, b, c = (reader.ordinal(term) for term in "abc")
    norms = np.array([0.0])
    assert rank(reader, [[(a, 1e16), (b, 1.0), (c, 1.0)]], 1, norms)[1] == [1e16 + 1.0 + 1.0]
    assert rank(reader, [[(b, 1.0), (c, 1.0), (a, 1e16)]], 1, norms)[1] == [1.0 + 1.0 + 1e16]


@READERS
def test_rows_outside_first_and_last_are_left_alone(cls: Any) -> None:
    reader = read(cls, *make([{"a": 1}, {"a": 2}]), 2)
    docs, scores = rank(reader, [[(0, 1.0)]] * 3, 2, np.ones(2), 1, 2)
    assert docs == [-7, -7, 1, 0, -7, -7]
    assert scores == [-7.0, -7.0, 2 / 3, 0.5, -7.0, -7.0]


@READERS
def test_sizes_that_do_not_fit_are_value_errors(cls: Any) -> None:
    reader = read(cls, *make([{"a": 1}, {"a": 2}]), 2)

    def score(**wrong: Any) -> None:
        arguments = {
            "offsets": np.array([0, 1]),
            "ordinals": np.array([0]),
            "weights": np.ones(1),
            "norms": np.ones(2),
            "k": 2,
            "out_docs": np.empty(2, np.int64),
            "out_scores": np.empty(2),
            "first": 0,
            "last": 1,
            "parts": None,
        }
        reader.score(*(arguments | wrong).values())

    score()
    for wrong in (
        {"norms": np.ones(1)},
        {"norms": np.ones(3)},
        {"k": 0},
        {"k": 3},
        {"out_docs": np.empty(1, np.int64)},
        {"out_scores": np.empty(1)},
        {"first": -1},
        {"last": 2},
        {"weights": np.ones(2)},
        {"offsets": np.array([0, 2])},
        {"offsets": np.array([1, 0])},
        {"offsets": np.array([-1, 1])},
        {"offsets": np.zeros(0, np.int64)},
        {"parts": np.ones(3)},
    ):
        with pytest.raises(ValueError, match=r"sizes|offsets"):
            score(**wrong)
    with pytest.raises(ValueError, match="out must have 2 items, got 3"):
        reader.norms(1.2, 0.75, 1.0, np.empty(3))
    for norms, out in ((1, 2), (2, 1), (2, 3)):
        with pytest.raises(ValueError, match="must have 2 and 2 items"):
            reader.parts(np.empty(norms), np.empty(out))


@READERS
def test_numbers_out_of_range_are_damage(cls: Any) -> None:
    reader = read(cls, *make([{"a": 1}, {"a": 2}]), 2)
    for call in (
        lambda: reader.df(1),
        lambda: reader.df(-1),
        lambda: reader.count(1, 0),
        lambda: reader.length(2),
        lambda: reader.check(0, 1 << 20),
        lambda: reader.check(1 << 20, 1),
        lambda: rank(reader, [[(1, 1.0)]], 1, np.ones(2)),
    ):
        with pytest.raises(IndexCorruptError, match="test: damaged"):
            call()
    assert rank(reader, [[(0, 1.0)]], 1, np.ones(2))[0] == [1], "a failed query leaves no scores behind"


@READERS
def test_an_index_of_empty_documents_has_no_hits(cls: Any) -> None:
    reader = read(cls, *make([{}, {}, {}]), 3)
    assert (reader.terms, reader.ordinal("a")) == (0, -1)
    assert rank(reader, [[], [(-1, 1.0)]], 2, np.ones(3)) == ([-1] * 4, [0.0] * 4)


@READERS
def test_no_document_at_all(cls: Any) -> None:
    reader = read(cls, *make([]), 0)
    assert rank(reader, [[(-1, 1.0)]], 2, np.ones(0)) == ([-1, -1], [0.0, 0.0])


@READERS
@pytest.mark.parametrize("name", ["lengths", "terms.data", "terms.offsets", "terms.slots", "postings.docs"])
def test_a_changed_page_is_met_when_it_is_touched(cls: Any, name: str) -> None:
    bags = [{f"w{d}x{i}": 1 for i in range(8)} | {"common": 1} for d in range(1500)]
    file, places = make(bags)
    offset, _ = places[f"body.{name}"]
    page = (offset + 4096) // 4096
    data = bytearray(file)
    data[4096 * page + 9] ^= 4
    reader = read(cls, bytes(data), places, len(bags))

    def use() -> None:
        for bag in bags:
            for term in bag:
                assert reader.ordinal(term) >= 0
        norms = np.empty(len(bags))
        reader.norms(1.2, 0.75, 9.0, norms)
        rank(reader, [[(reader.ordinal("common"), 1.0)]], 10, norms)

    with pytest.raises(IndexCorruptError, match="test: damaged"):
        use()
    with pytest.raises(IndexCorruptError, match="test: damaged"):
        reader.check(4096 * page, 4096)
    reader.check(4096 * (page + 1), 4096)


CRAFTED: dict[str, dict[str, Any]] = {
    "documents beyond the last": {"postings_docs": lambda a: a + 1000},
    "postings that fall": {"postings_offsets": lambda a: a[::-1].copy()},
    "postings beyond the last": {"postings_offsets": lambda a: a + np.uint64(1 << 40)},
    "terms that fall": {"terms_offsets": lambda a: a[::-1].copy()},
    "terms beyond the last": {"terms_offsets": lambda a: a + np.uint64(2**63)},
    "slots that name no term": {"terms_slots": lambda a: np.where(a > 0, np.uint32(2**32 - 1), a)},
    "a count of 255 without its number": {"postings_large": lambda a: a[:0]},
    "a count of 255 with another's number": {"postings_large": lambda a: a + np.uint64(1)},
}


@READERS
@pytest.mark.parametrize("kind", CRAFTED)
def test_nonsense_under_right_checksums_is_damage(cls: Any, kind: str) -> None:
    bags = [{"a": 300, "b": 1}, {"b": 255, "c": 2}, {"c": 1}]
    file, places = make(bags, **CRAFTED[kind])
    if kind == "slots that name no term":  # keep the tags, so that the slot is believed
        good = make(bags)
        offset, count = good[1]["body.terms.slots"]
        slots = np.frombuffer(good[0], "<u4", count, offset).copy()
        slots[1::2][slots[1::2] > 0] = 2**32 - 1
        file, places = make(bags, terms_slots=lambda _: slots)
    reader = read(cls, file, places, 3)

    def use() -> None:
        for term in "abc":
            reader.ordinal(term)
        for t in range(3):
            reader.df(t)
            rank(reader, [[(t, 1.0)]], 3, np.ones(3))

    with pytest.raises(IndexCorruptError, match="test: damaged"):
        use()
    if kind.startswith(("doc", "a count")):
        with pytest.raises(IndexCorruptError, match="test: damaged"):
            reader.parts(np.ones(3), np.empty(reader.postings))


@READERS
def test_a_forged_count_of_0_leaves_nothing_behind_for_the_next_query(cls: Any) -> None:
    bags: list[dict[str, int]] = [{"a": 1, "b": 1}, {"b": 1}] + [{}] * 30
    file, places = make(bags, postings_counts=lambda a: np.array([0, 1, 1], np.uint8))
    reader = read(cls, file, places, len(bags))
    assert rank(reader, [[(0, 1.0)]], 1, np.zeros(32)) == ([-1], [0.0])  # 0 / (0 + 0)
    assert rank(reader, [[(1, 1.0)]], 2, np.ones(32)) == ([0, 1], [0.5, 0.5])


@READERS
def test_a_full_table_without_the_term_ends_the_look_up(cls: Any) -> None:
    file, places = make([{"a": 1}], terms_slots=lambda a: np.array([1, 1] * (len(a) // 2), np.uint32))
    assert read(cls, file, places, 1).ordinal("absent") == -1


@READERS
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("body.terms.slots", (64, 0)),
        ("body.terms.slots", (64, 1)),
        ("body.terms.slots", (64, 6)),
        ("body.terms.offsets", (64, 0)),
        ("body.terms.offsets", (4, 2)),
        ("body.postings.docs", (64, 1 << 40)),
        ("body.postings.docs", (-64, 1)),
        ("body.postings.counts", (64, 2)),
        ("body.postings.large", (64, 3)),
        ("body.lengths", (64, 2)),
        ("pages", (0, 1 << 30)),
    ],
)
def test_arrays_that_do_not_fit_are_refused_at_opening(cls: Any, name: str, place: tuple[int, int]) -> None:
    file, places = make([{"a": 1}])
    with pytest.raises(IndexCorruptError, match="test: "):
        read(cls, file, places | {name: place}, 1)


@given(st.integers(0, 3), st.integers(0, 2**32))
@settings(deadline=None)
def test_checksums_agree(pages: int, seed: int) -> None:
    data = random.Random(seed).randbytes(4096 * pages)
    expected = twin.checksums(data)
    assert len(expected) == 8 * pages
    assert scorer.checksums(data) == expected
    assert scorer.checksums(memoryview(bytearray(data))) == twin.checksums(memoryview(bytearray(data))) == expected


def test_checksums_are_pinned_and_see_every_word() -> None:
    page = bytes(range(256)) * 16
    for module in (scorer, twin):
        assert module.checksums(page).hex() == PINNED
        assert module.checksums(bytes(4096)) == bytes(8)
        sums = {module.checksums(page[:i] + bytes([page[i] ^ 1]) + page[i + 1 :]) for i in range(0, 4096, 8)}
        assert len(sums) == 512
        for size in (1, 4095, 4097):
            with pytest.raises(ValueError, match="whole pages"):
                module.checksums(bytes(size))


PINNED = "b02d6140249d6a1f"
