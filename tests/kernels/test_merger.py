"""Both mergers make the same segment of the same segments, to the byte: that of the documents that are left."""

from __future__ import annotations

import os
import tempfile
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import IndexCorruptError
from qidf.index.build import build
from qidf.index.segment import Segment
from qidf.kernels import twin
from qidf.sources import Document

from .compiled import merger, scorer

words = st.sampled_from(["a", "b", "c", "getUser", "漢", "y" * 9, *[f"w{i}" for i in range(9)]])
many = st.builds(lambda word, n: f"{word} " * n, words, st.sampled_from([254, 255, 256]))
texts = st.lists(words, max_size=9).map(" ".join) | many
ids = st.text(st.sampled_from("ab/é漢\ud800"), min_size=1, max_size=4)
collections = st.dictionaries(ids, st.tuples(texts, st.integers(0, 3), st.booleans()), min_size=2, max_size=30)


def segments(folder: str, documents: dict[str, tuple[str, int, bool]]) -> list[Segment]:
    """A segment for each number that documents have."""
    out = []
    for n in sorted({n for _, n, _ in documents.values()}):
        part = [Document(id, text, f"p{id}", 1) for id, (text, m, _) in documents.items() if m == n]
        build(part, os.path.join(folder, str(n)), analyzer="standard", store_text=True, threads=1)
        [name] = [name for name in os.listdir(os.path.join(folder, str(n))) if name.endswith(".qidf")]
        out.append(Segment(os.path.join(folder, str(n), name)))
    return out


def read(module: Any, segment: Segment, dead: list[int]) -> Any:
    reader = module.Reader(segment.map, segment.name, segment.all_documents, segment.seed, segment.arrays)
    reader.delete(as_array(dead), *reader.terms_of(as_array(dead)))
    return reader


def as_array(numbers: list[int]) -> Any:
    return array("I", numbers)


def merge(module: Any, of: Any, parts: list[Segment], dead: list[list[int]], room: int) -> dict[str, Any]:
    """Everything a merger says."""
    one = of([read(module, s, d) for s, d in zip(parts, dead, strict=True)], [s.place("ids") for s in parts], 77)
    out: dict[str, Any] = {name: getattr(one, name) for name in ("documents", "terms", "postings", "tokens", "hapax")}
    out |= {"most": one.most, "segments": list(one.segments), "docs": list(one.docs)}
    out |= {name: bytes(memoryview(value)) for name, value in one.vocabulary.items()}
    docs, counts = as_array([0] * (one.most + room)), bytearray(one.most + room)
    all_docs, all_counts = [], b""
    while n := one.fill(docs, counts):
        all_docs += docs[:n].tolist()
        all_counts += bytes(counts[:n])
    out |= {"postings.docs": all_docs, "postings.counts": all_counts, "large": list(one.large)}
    for name in ("ids", "paths", "text"):
        places = [segment.place(name) for segment in parts]
        out[f"{name}.offsets"] = list(one.sizes(places))
        out[name] = bytes(one.items(places, 0, one.documents))
        half = one.documents // 2
        assert bytes(one.items(places, 0, half)) + bytes(one.items(places, half, one.documents)) == out[name]
    out["nothing"] = bytes(one.items([None] * len(parts), 0, one.documents))
    out["lengths"] = bytes(one.column([s.arrays["body.lengths"][0] for s in parts], 4, bytes(4)))
    out["default"] = bytes(one.column([-1] * len(parts), 2, b"xy"))
    return out


@given(collections, st.integers(0, 50))
@settings(max_examples=120, deadline=None)
def test_both_make_the_same_and_it_is_what_a_build_makes(
    documents: dict[str, tuple[str, int, bool]], room: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = segments(folder, documents)
        dead = [[n for n in range(s.all_documents) if documents[s.id(n)][2]] for s in parts]
        left = {id: text for id, (text, _, gone) in documents.items() if not gone}
        compiled = merge(scorer, merger.Merger, parts, dead, room)
        assert compiled == merge(twin, twin.Merger, parts, dead, room)
        assert compiled["documents"] == len(left)
        if not left:
            assert compiled["terms"] == compiled["postings"] == 0
            return
        build([Document(id, text) for id, text in left.items()], f"{folder}/x", analyzer="standard", threads=1)
        [file] = Path(folder, "x").glob("*.qidf")
        fresh = Segment(str(file))
        assert compiled["ids"].decode("utf-8", "surrogatepass") == "".join(map(fresh.id, range(fresh.documents)))
        assert compiled["postings.docs"] == fresh.array("body.postings.docs", "<u4").tolist()
        assert compiled["postings.counts"] == fresh.array("body.postings.counts", "u1").tobytes()
        assert compiled["large"] == fresh.array("body.postings.large", "<u8").tolist()
        assert compiled["terms.data"] == fresh.array("body.terms.data", "u1").tobytes()
        assert compiled["postings.offsets"] == fresh.array("body.postings.offsets", "<u8").tobytes()
        assert compiled["lengths"] == fresh.array("body.lengths", "<u4").tobytes()
        assert (compiled["tokens"], compiled["hapax"], compiled["terms"]) == (
            fresh.tokens,
            fresh.hapax,
            fresh.all_terms,
        )
        reader = fresh.reader
        for part, numbers in zip(parts, dead, strict=True):
            for module in (scorer, twin):
                live = read(module, part, numbers)
                assert live.deleted == len(numbers)
                for n in range(part.all_documents):
                    id = part.id_bytes(n)
                    place = part.place("ids")
                    assert place is not None
                    assert live.is_deleted(n) == (n in numbers)
                    assert live.number(id, *place) == (-1 if n in numbers else n)
        changed = [reader.df(t) for t in range(fresh.all_terms)]
        rows = as_array(list(range(fresh.all_terms)))
        for module in (scorer, twin):
            one = read(module, fresh, [])
            others = tuple(read(module, s, d) for s, d in zip(parts, dead, strict=True))
            zero, dfs = array("q", bytes(8 * len(rows))), array("q", changed)
            assert one.shift(rows, zero, dfs, ()) == (fresh.all_terms, fresh.hapax)
            assert one.shift(rows, zero, dfs, others) == (0, -fresh.hapax), "each df doubles"


@pytest.mark.parametrize("module", [scorer, twin])
def test_deletes_that_do_not_fit_are_damage(module: Any, tmp_path: Path) -> None:
    [part] = segments(str(tmp_path), {"a": ("x y", 0, False), "b": ("y", 0, False)})
    for docs, terms, lost in (
        ([2], [0], [1]),
        ([0], [9], [1]),
        ([1, 0], [0], [1]),
        ([0], [1, 0], [1, 1]),
        ([0], [0], []),
    ):
        reader = module.Reader(part.map, part.name, part.all_documents, part.seed, part.arrays)
        with pytest.raises(IndexCorruptError, match="deletes"):
            reader.delete(as_array(docs), as_array(terms), as_array(lost))
    reader = module.Reader(part.map, part.name, part.all_documents, part.seed, part.arrays)
    reader.delete(as_array([0]), as_array([0]), as_array([5]))
    with pytest.raises(IndexCorruptError):
        reader.df(0)
    with pytest.raises(ValueError, match="already"):
        reader.delete(as_array([1]), as_array([]), as_array([]))
    with pytest.raises(ValueError, match="below"):
        reader.terms_of(as_array([7]))


@pytest.mark.parametrize(("module", "of"), [(scorer, merger.Merger), (twin, twin.Merger)])
def test_a_document_that_stands_twice_is_damage(module: Any, of: Any, tmp_path: Path) -> None:
    [part] = segments(str(tmp_path), {"a": ("x y", 0, False), "b": ("y", 0, False)})
    readers = [read(module, part, []), read(module, part, [])]
    with pytest.raises(IndexCorruptError, match="twice"):
        of(readers, [part.place("ids")] * 2, 1)
    one = of([readers[0]], [part.place("ids")], 1)
    with pytest.raises(ValueError, match="must hold"):
        one.fill(as_array([]), bytearray())
    for wrong in ((1 << 40, 0, 1), (8, 1 << 40, 1), (4, 0, 1)):
        with pytest.raises(IndexCorruptError):
            one.sizes([wrong])
    with pytest.raises(ValueError, match="documents"):
        one.items([None], 1, 9)
