"""What an index keeps of its documents, and sizes nobody expects."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import SourceError
from qidf.index import Index
from qidf.sources import Document, id_bytes

from .helpers import many_segments, place

any_text = st.text(st.characters() | st.sampled_from("\ud800\udfff\0\n\r漢😀"), max_size=30)
documents = st.lists(
    st.builds(Document, any_text.filter(bool), any_text, any_text, st.integers(1, 2**32 - 1)),
    min_size=1,
    max_size=8,
    unique_by=lambda document: document.id,
)


@given(documents, st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_ids_paths_lines_and_texts_come_back_as_given(found: list[Document], store: bool, split: bool) -> None:
    found = [Document(d.id, d.text + " common", d.path, d.line) for d in found]
    with place() as path:
        if split:
            with many_segments(2) as options:
                index = Index.build(found, path, store_text=store, threads=1, **options)
        else:
            index = Index.build(found, path, store_text=store, threads=1)
        hits = {hit.id: hit for hit in index.search("common", 10)}
        assert hits.keys() == {d.id for d in found}
        for d in found:
            assert (hits[d.id].path, hits[d.id].line) == (d.path, d.line)
            if store:
                assert index.text(d.id) == d.text
            else:
                with pytest.raises(SourceError, match="not stored"):
                    index.text(d.id)
        ids, _ = index.search_many(["common"], 10)
        assert [id for id in ids[0] if id is not None] == [hit.id for hit in index.search("common", 10)]


@pytest.mark.parametrize(
    "id",
    [
        "a\nb",
        os.fsdecode(b"caf\xe9.py"),
        "\ud800",
        "\udfff\ud800",
        "x" * 10_000,
        "漢" * 10_000,
        "\0",
        " ",
        "",
        "../../etc",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("same_path", [False, True])
def test_an_odd_id_is_found_explained_and_read(tmp_path: Path, id: str, same_path: bool) -> None:
    found = [Document(id, "needle in hay", id if same_path else ""), Document("other", "hay", "other")]
    index = Index.build(found, tmp_path / "x", store_text=True)
    [hit] = index.search("needle")
    assert (hit.id, hit.path) == (id, id if same_path else "")
    assert index.text(id) == "needle in hay"
    assert index.explain("needle", id).score == hit.score
    assert index.length(id) == 3
    for absent in (id + "x", id[:-1] + "~", "\U0010ffff"):
        with pytest.raises(KeyError):
            index.length(absent)


def test_paths_equal_to_the_ids_are_not_kept_twice(tmp_path: Path) -> None:
    index = Index.build([Document(f"src/{i}.py", "text", f"src/{i}.py") for i in range(9)], tmp_path / "x")
    assert "paths.data" not in index._segments[0].arrays
    assert [hit.path for hit in index.search("text")] == [f"src/{i}.py" for i in range(9)]


def test_lines_beyond_32_bits_are_cut_and_the_others_kept(tmp_path: Path) -> None:
    index = Index.build([Document("a", "x", "p", 2**40), Document("b", "x", "p", 7)], tmp_path / "x")
    assert [hit.line for hit in index.search("x")] == [2**32 - 1, 7]


def test_empty_texts_count_as_documents_and_are_never_hits(tmp_path: Path) -> None:
    index = Index.build([("a", ""), ("b", " \n"), ("c", "word"), ("d", "!?")], tmp_path / "x", store_text=True)
    assert (index.documents, index.tokens, index.average_length) == (4, 1, 0.25)
    assert [hit.id for hit in index.search("word")] == ["c"]
    assert index.search("word", q=1)[0].score == pytest.approx(math.log(1 + 3.5 / 1.5) / (1 + 1.2 * (0.25 + 0.75 * 4)))
    assert index.text("a") == ""
    assert index.explain("word", "a").score == 0


def test_nothing_but_empty_texts(tmp_path: Path) -> None:
    index = Index.build([("a", ""), ("b", "")], tmp_path / "x", store_text=True)
    index.verify()
    assert index.search("word") == []
    assert index.explain("word", "a").score == 0
    assert index.spectrum().bands == []
    assert (index.average_length, index.hapax_density) == (0, 0)
    assert index.search_many(["word"] * 300)[0].tolist() == [[None] * 10] * 300


def test_one_document(tmp_path: Path) -> None:
    index = Index.build([("only", "getUserById")], tmp_path / "x")
    assert [hit.id for hit in index.search("user")] == ["only"]
    assert index.search("user", q=1)[0].score == pytest.approx(math.log(1 + 0.5 / 1.5) / 2.2)
    assert index.search("user", odds="robertson") == []
    assert len(index) == 1
    assert repr(index).endswith("1 documents, analyzer code>")


def test_a_hundred_thousand_tiny_documents(tmp_path: Path) -> None:
    with many_segments(1 << 14) as options:
        index = Index.build(((f"{i:06}", f"w{i % 1000} x") for i in range(100_000)), tmp_path / "x", **options)
    assert len(index._segments) == 7
    assert (index.documents, index.tokens) == (100_000, 400_000)  # `code` adds the parts w and 7 to w7
    assert [hit.id for hit in index.search("w7", 3)] == ["000007", "001007", "002007"]
    assert index.doc_freqs(["w7", "x", "w"]) == [100, 100_000, 100_000]
    assert [hit.id for hit in index.search("x", 2)] == ["000000", "000001"]
    assert index.search_terms([("w999", 1.0)], 200)[-1].id == "099999"


def test_a_count_far_beyond_a_byte(tmp_path: Path) -> None:
    index = Index.build([("many", "again " * 70_000), ("one", "again"), ("none", "")], tmp_path / "x")
    told = index.explain("again", "many", q=1)
    assert told.terms[0].tf == told.length == 70_000
    assert told.score == index.search("again", q=1)[0].score
    assert index.search("again", b=0)[0].id == "many"
    assert index.spectrum().once_terms == 0


def test_a_long_text_on_one_line(tmp_path: Path) -> None:
    text = "a_b1 " * 1_000_000 + "x" * 300 + "\u0301" * 1000 + " end"
    index = Index.build([("long", text), ("short", "end")], tmp_path / "x", store_text=True, memory=1 << 20)
    assert index.length("long") > 4_000_000
    assert index.text("long") == text
    assert [hit.id for hit in index.search("end")] == ["short", "long"]


def test_ids_order_by_their_bytes_not_by_utf_16(tmp_path: Path) -> None:
    ids = ["\uffff", "\U00010000", "\ud800", "z", "Z"]
    index = Index.build([(id, "same") for id in ids], tmp_path / "x")
    assert [hit.id for hit in index.search("same")] == sorted(ids, key=id_bytes)


# Memory

BUILD = """
import random, sys
from qidf import Index
def most():
    with open("/proc/self/status") as file:  # not ru_maxrss: that one counts the process which started this one
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
rng = random.Random(1)
words = [f"word{i}" for i in range(3000)]
pool = " ".join(rng.choices(words, k=140_000))
def documents():
    for i in range(2000):
        at = (i * 7919) % (len(pool) - 100_000)
        yield f"d{i}", pool[at : at + 100_000]
before = most()
index = Index.build(documents(), sys.argv[1], analyzer="simple", memory=64 << 20, threads=2)
assert index.documents == 2000
print(len(index._segments), before, most())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_a_build_is_bounded_by_its_setting(tmp_path: Path) -> None:
    """200 MB of text with memory=64 MiB: the process holds less than 160 MiB in all, Python and numpy included.

    Beside the 64 MiB of postings there are the batches in hand (three a thread of 1 MiB) and, while a segment is
    written, its arrays once more.
    """
    run = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path / "x"], capture_output=True, text=True, check=True, timeout=120
    )
    segments, before, most = map(int, run.stdout.split())
    assert before < 60 * 1024
    assert most < 160 * 1024, f"{most // 1024} MiB, of which {before // 1024} before the build"
    assert segments > 1, "else the setting did not matter"
