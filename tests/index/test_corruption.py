"""A damaged, foreign or forged file is an error of qidf's own, or does no harm; never a crash or a wrong answer."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qidf.analysis import tables
from qidf.errors import IndexCorruptError, IndexMismatchError, IndexNotFoundError, QidfError
from qidf.index import Index, segment, store
from qidf.index.build import build
from qidf.sources import Document

from .helpers import WORDS, answer, many_segments, plain_python

DAMAGE = (IndexCorruptError, IndexMismatchError)


def documents(seed: int = 1, n: int = 150) -> Iterator[Document]:
    rng = random.Random(seed)
    for i in range(n):
        words = [*rng.choices(WORDS, k=rng.randrange(20)), f"rare{seed}x{rng.randrange(400)}"]
        yield Document(f"d{i:03}", " ".join(words + ["often"] * (300 * (i == 7))), f"path{i % 9}", 1 + i % 4)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "x"
    with many_segments(80) as options:
        stamps = [("a", (1, 2, 3))]
        build(documents(), str(path), analyzer="code", store_text=True, threads=1, stamps=stamps, root="/r", **options)
    index = Index.open(path)
    index.delete(["d003", "d101"])
    index.update([Document("d004", "the beta often came later", "path4", 2)])
    index.commit(merge="none")
    return path


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def everything(path: Path) -> list[Any]:
    """Read what there is to read, in the order of a user: search, then the whole."""
    index = Index.open(path)
    out = answer(index)
    out += [(id, index.text(id), index.length(id)) for id in (f"d{i:03}" for i in range(0, 150, 10))]
    out += [index.search("often"), index.root]
    index.verify()
    return out


@pytest.fixture(scope="module")
def expected(good: Path) -> list[Any]:
    return everything(good)


def put(file: Path, data: bytes | bytearray) -> None:
    """Replace a file by another: one that is mapped may not shrink under its reader."""
    file.with_suffix(".new").write_bytes(data)
    file.with_suffix(".new").replace(file)


def check(path: Path, expected: list[Any], what: object) -> str:
    """Either the right answer or an error of ours; returns which."""
    try:
        got = everything(path)
    except DAMAGE as error:
        return type(error).__name__
    assert got == expected, what
    return "unharmed"


def kinds(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name not in (store.LOCK, store.OWNER))


def test_the_index_has_files_of_every_kind(good: Path) -> None:
    assert sorted(file.suffix for file in kinds(good)) == [
        ".deletes",
        ".deletes",
        ".json",
        ".qidf",
        ".qidf",
        ".qidf",
        ".sources",
    ]
    arrays = {name for s in Index.open(good)._segments for name in s.arrays}
    assert {"paths.data", "lines", "text.data", "body.postings.large", "pages"} <= arrays


def test_a_truncated_file_is_an_error(copy: Path, expected: list[Any]) -> None:
    for file in kinds(copy):
        data = file.read_bytes()
        lengths = {0, 1, 19, 20, 21, 4095, 4096, 4097, 8192, len(data) // 2, len(data) - 4096, len(data) - 20}
        for length in sorted({n for n in lengths if 0 <= n < len(data)} | {len(data) - n for n in range(1, 9)}):
            put(file, data[:length])
            outcome = check(copy, expected, (file.name, length))
            assert outcome == ("unharmed" if file.suffix == ".sources" else "IndexCorruptError")
        put(file, data + b"\0")
        if file.suffix == ".qidf":
            assert check(copy, expected, file.name) == "IndexCorruptError"
        put(file, data)
    assert check(copy, expected, "whole again") == "unharmed"


@pytest.mark.parametrize("python", [False, True], ids=["kernels", "twin"])
def test_a_changed_byte_anywhere_is_an_error_or_does_no_harm(copy: Path, expected: list[Any], python: bool) -> None:
    rng = random.Random(11)
    with plain_python() if python else contextlib.nullcontext():
        for file in kinds(copy):
            data = file.read_bytes()
            places = rng.sample(range(len(data)), min(len(data), 40 if python else 300))
            places += range(len(data) - 20, len(data))
            for at in places:
                changed = bytearray(data)
                changed[at] ^= 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
                put(file, changed)
                outcome = check(copy, expected, (file.name, at, changed[at]))
                if file.suffix == ".qidf":
                    assert outcome != "unharmed", (at, "every byte of a segment is covered by a checksum")
            put(file, data)


def test_a_changed_footer_is_an_error_whatever_json_it_becomes(copy: Path, expected: list[Any]) -> None:
    """All 256 values of some bytes: `5123` may become `5e23`, a quote may vanish, a digit become a minus."""
    file = next(file for file in kinds(copy) if file.suffix == ".qidf")
    data = file.read_bytes()
    seed = data.rindex(b'"seed": ') + len(b'"seed": ')
    count = data.rindex(b'"pages": [') + len(b'"pages": [')
    for at in (seed, seed + 1, count, count + 1, seed - 4):
        for value in range(256):
            changed = bytearray(data)
            changed[at] = value
            put(file, changed)
            assert check(copy, expected, (at, value)) == ("unharmed" if value == data[at] else "IndexCorruptError")


def test_swapped_and_repeated_pages_are_errors(copy: Path, expected: list[Any]) -> None:
    for file in kinds(copy):
        if file.suffix != ".qidf":
            continue
        data = file.read_bytes()
        pages = [data[i : i + 4096] for i in range(0, len(data), 4096)]
        whole = len(pages) - 1
        for i in range(whole - 1):
            for changed in (
                [*pages[:i], pages[i + 1], pages[i], *pages[i + 2 :]],
                [*pages[:i], pages[i], pages[i], *pages[i + 2 :]],
                [*pages[:i], bytes(4096), *pages[i + 1 :]],
                [*pages[:i], *pages[i + 1 :]],
            ):
                if changed != pages:
                    put(file, b"".join(changed))
                    assert check(copy, expected, (file.name, i)) == "IndexCorruptError"
        put(file, data)


@pytest.mark.parametrize("content", [b"", b"\0" * 10_000, b"PK\x03\x04" * 3000, b"{}\n{}", b"[" * 100_000, b"\xff\xfe"])
def test_a_foreign_file_is_an_error(copy: Path, expected: list[Any], content: bytes) -> None:
    for file in kinds(copy):
        data = file.read_bytes()
        put(file, content)
        outcome = check(copy, expected, file.name)
        assert outcome == ("unharmed" if file.suffix == ".sources" else "IndexCorruptError")
        put(file, data)


def test_the_whole_segment_of_another_index_is_an_error(copy: Path, tmp_path: Path, expected: list[Any]) -> None:
    """Its checksums are right; it is not what the manifest was written for."""
    for n in (80, 79):
        other = Index.build(documents(2, n), tmp_path / f"other{n}", store_text=True)
        [foreign] = other._segments
        for file in kinds(copy):
            if file.suffix == ".qidf":
                data = file.read_bytes()
                shutil.copy(tmp_path / f"other{n}" / foreign.name, file)
                assert check(copy, expected, (file.name, n)) == "IndexCorruptError"
                put(file, data)


def test_two_segments_in_each_others_place_are_an_error(copy: Path, expected: list[Any]) -> None:
    a, b, _ = (file for file in kinds(copy) if file.suffix == ".qidf")
    one, two = a.read_bytes(), b.read_bytes()
    put(a, two)
    put(b, one)
    assert check(copy, expected, "swapped") == "IndexCorruptError"
    put(a, one)
    put(b, one)
    assert check(copy, expected, "one twice") == "IndexCorruptError"


def test_a_segment_that_is_gone_or_no_file_is_an_error(copy: Path, expected: list[Any]) -> None:
    for file in kinds(copy):
        data = file.read_bytes()
        file.unlink()
        if file.name == store.MANIFEST:
            with pytest.raises(IndexNotFoundError, match="no index at"):
                Index.open(copy)
        else:
            assert check(copy, expected, file.name) == (
                "unharmed" if file.suffix == ".sources" else "IndexCorruptError"
            )
            file.mkdir()
            with pytest.raises(QidfError) if file.suffix in (".qidf", ".deletes") else contextlib.nullcontext():
                everything(copy)
            file.rmdir()
        file.write_bytes(data)


@pytest.mark.parametrize(("at", "value", "error"), [(-8, b"qidf-not", "another file"), (-12, b"\2\0\0\0", "format 2")])
def test_wrong_magic_and_version_are_told_apart(copy: Path, at: int, value: bytes, error: str) -> None:
    file = next(file for file in kinds(copy) if file.suffix == ".qidf")
    data = file.read_bytes()
    data = data[: len(data) + at] + value + data[len(data) + at + len(value) :]
    put(file, data)
    with pytest.raises(DAMAGE, match=error):
        Index.open(copy)


# Manifests


def forge(path: Path, changes: dict[str, Any], **head: Any) -> None:
    """Write a manifest with a right checksum and other contents."""
    manifest = asdict(store.read_manifest(str(path)))
    body = json.dumps({**manifest, **changes}).encode()
    line = json.dumps({"qidf index format": 2, "crc32": zlib.crc32(body), **head}).encode()
    put(path / store.MANIFEST, line + b"\n" + body)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", ".", "", "../../../../etc/passwd"])
@pytest.mark.parametrize("kind", ["segments", "sources"])
def test_a_manifest_may_name_no_file_outside(copy: Path, name: str, kind: str) -> None:
    if kind == "sources" and name == "":
        return  # says that there is no table
    forge(copy, {kind: [name] if kind == "segments" else name})
    with pytest.raises(IndexCorruptError):
        Index.open(copy)


@pytest.mark.parametrize("version", [0, 3, 99, "1", True, 1.0, None])
def test_a_manifest_of_another_format_says_so(copy: Path, version: object) -> None:
    forge(copy, {}, **{"qidf index format": version})
    with pytest.raises(IndexMismatchError, match="format"):
        Index.open(copy)


@pytest.mark.parametrize("analyzer", ["code", "nope"])
def test_other_tables_or_an_unknown_analyzer_are_a_mismatch(copy: Path, analyzer: str) -> None:
    forge(copy, {"analyzer": analyzer, "unicode": "Unicode 99"})
    with pytest.raises(DAMAGE):
        Index.open(copy)


@pytest.mark.parametrize(
    "changes",
    [
        {"segments": 5},
        {"segments": [5]},
        {"segments": None},
        {"segments": []},
        {"documents": "many"},
        {"documents": 0},
        {"documents": 10**30},
        {"documents": 151},
        {"tokens": -1},
        {"tokens": 1},
        {"analyzer": 7},
        {"analyzer": None},
        {"sources": 7},
        {"unknown": 1},
        {"segments": ["x\0y"]},
    ],
    ids=str,
)
def test_a_manifest_of_nonsense_is_an_error(copy: Path, changes: dict[str, Any], expected: list[Any]) -> None:
    forge(copy, changes)
    assert check(copy, expected, changes) != "unharmed"


@pytest.mark.parametrize(
    "data",
    [
        b'{"qidf index format": 1}',
        b'{"qidf index format": 1, "crc32": 1e999}\n{}',
        b'{"qidf index format": 1, "crc32": 0}\n',
        b'{"qidf index format": 1, "crc32": 223132457}\n[]',
        b"[1]\n[1]",
        b"null",
        b'"x"',
        b"1\n",
    ],
)
def test_a_manifest_that_is_none_is_an_error(copy: Path, data: bytes) -> None:
    put(copy / store.MANIFEST, data)
    with pytest.raises(DAMAGE):
        Index.open(copy)


def test_a_damaged_index_can_be_built_again(copy: Path) -> None:
    for file in kinds(copy):
        put(file, b"damaged")
    assert Index.build(documents(), copy).documents == 150
    assert len(list(copy.iterdir())) == 3


# Segments whose checksums are right and whose contents are not


def segment_of(path: Path) -> Path:
    [only] = (file for file in path.iterdir() if file.suffix == ".qidf")
    return path / only


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of a segment's file as numpy sees them, and its footer."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, len(data) - 20)[0]
    footer = json.loads(data[-20 - length : -20])
    types = {
        "data": "u1",
        "counts": "u1",
        "docs": "<u4",
        "lengths": "<u4",
        "lines": "<u4",
        "slots": "<u4",
        "digests": "u1",
    }
    arrays = {
        name: np.frombuffer(
            data, types.get(name.rpartition(".")[2], "<u8"), count * (16 if name == "digests" else 1), offset
        ).copy()
        for name, (offset, count) in footer.pop("arrays").items()
        if name != "pages"
    }
    return arrays, footer


def write_arrays(path: Path, arrays: dict[str, Any], footer: dict[str, Any]) -> None:
    with open(path.with_suffix(".new"), "wb") as file:
        segment.write(file, arrays, footer)
    path.with_suffix(".new").replace(path)


Change = Callable[[dict[str, Any], dict[str, Any]], object]


def change(name: str, f: Callable[[Any], Any]) -> Change:
    def apply(arrays: dict[str, Any], footer: dict[str, Any]) -> None:
        arrays[name] = f(arrays[name])

    return apply


def foot(**values: Any) -> Change:
    return lambda arrays, footer: footer.update(values)


def set_at(i: int, value: int, array: Any) -> Any:
    array[i] = value
    return array


BIG = np.uint64(2**63)
NONSENSE: dict[str, Change] = {
    "docs beyond the last": change("body.postings.docs", lambda a: a + 1000),
    "docs of the last posting": change("body.postings.docs", partial(set_at, -1, 2**32 - 1)),
    "posting offsets fall": change("body.postings.offsets", lambda a: a[::-1].copy()),
    "posting offsets beyond": change("body.postings.offsets", lambda a: a + BIG),
    "last posting offset beyond": change("body.postings.offsets", partial(set_at, -1, 2**40)),
    "posting offsets too few": change("body.postings.offsets", lambda a: a[:-1]),
    "term offsets fall": change("body.terms.offsets", lambda a: a[::-1].copy()),
    "term offsets beyond": change("body.terms.offsets", lambda a: a + BIG),
    "term offsets too few": change("body.terms.offsets", lambda a: a[:-1]),
    "no term offsets": change("body.terms.offsets", lambda a: a[:0]),
    "slots beyond the terms": change(
        "body.terms.slots", lambda a: a + (np.arange(len(a)) % 2 * (a > 0)).astype("u4") * 10**6
    ),
    "no slots": change("body.terms.slots", lambda a: a[:0]),
    "one slot word": change("body.terms.slots", lambda a: a[:1]),
    "slots no power of two": change("body.terms.slots", lambda a: a[:6]),
    "counts too few": change("body.postings.counts", lambda a: a[:-1]),
    "docs too few": change("body.postings.docs", lambda a: a[:-1]),
    "large missing": change("body.postings.large", lambda a: a[:0]),
    "large odd": change("body.postings.large", lambda a: a[:-1]),
    "large of another posting": change("body.postings.large", lambda a: a + np.uint64(2**40)),
    "lengths too few": change("body.lengths", lambda a: a[:-1]),
    "id offsets fall": change("ids.offsets", lambda a: a[::-1].copy()),
    "id offsets beyond": change("ids.offsets", lambda a: a + BIG),
    "id offsets too few": change("ids.offsets", lambda a: a[:-1]),
    "ids no UTF-8": change("ids.data", lambda a: a | np.uint8(0x80)),
    "paths no UTF-8": change("paths.data", lambda a: a | np.uint8(0x80)),
    "path offsets fall": change("paths.offsets", lambda a: a[::-1].copy()),
    "lines too few": change("lines", lambda a: a[:-1]),
    "text offsets beyond": change("text.offsets", lambda a: a + BIG),
    "text no UTF-8": change("text.data", lambda a: a | np.uint8(0x80)),
    "missing array": lambda arrays, footer: arrays.pop("body.lengths"),
    "documents too many": foot(documents=10**6),
    "documents beyond 64 bits": foot(documents=2**64),
    "documents negative": foot(documents=-1),
    "terms wrong": foot(terms=3),
    "seed negative": foot(seed=-5),
    "seed beyond 64 bits": foot(seed=2**64),
    "seed infinite": foot(seed=float("inf")),
    "seed no number": foot(seed="x"),
    "seed missing": lambda arrays, footer: footer.pop("seed"),
}


@pytest.mark.parametrize("python", [False, True], ids=["kernels", "twin"])
@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_under_right_checksums_is_an_error(tmp_path: Path, kind: str, python: bool) -> None:
    path = tmp_path / "x"
    Index.build(documents(), path, store_text=True)
    file = segment_of(path)
    arrays, footer = read_arrays(file)
    NONSENSE[kind](arrays, footer)
    write_arrays(file, arrays, footer)
    with plain_python() if python else contextlib.nullcontext(), pytest.raises(IndexCorruptError):
        everything(path)


def test_rewriting_a_segment_unchanged_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x"
    Index.build(documents(), path, store_text=True)
    before = everything(path)
    write_arrays(segment_of(path), *read_arrays(segment_of(path)))
    assert everything(path) == before


FUZZED = ["body.postings.docs", "body.postings.offsets", "body.postings.counts", "body.postings.large"]
FUZZED += ["body.terms.offsets", "body.terms.slots", "body.terms.data", "body.lengths", "ids.offsets", "ids.data"]


@pytest.mark.parametrize("python", [False, True], ids=["kernels", "twin"])
def test_random_nonsense_under_right_checksums_never_crashes(tmp_path: Path, python: bool) -> None:
    """What no checksum can see may rank wrongly, but reads nothing outside the file and raises nothing else."""
    rng = np.random.default_rng(3)
    path = tmp_path / "x"
    Index.build(documents(), path, store_text=True)
    file = segment_of(path)
    for round in range(10 if python else 60):
        arrays, footer = read_arrays(file)
        good = {name: array.copy() for name, array in arrays.items()}
        name = FUZZED[round % len(FUZZED)]
        array = arrays[name]
        where = rng.integers(0, len(array), 1 + round % 7)
        top = np.iinfo(array.dtype).max
        array[where] = rng.choice(np.array([0, 1, 2, 254, 255, top, top // 2, top - 1], array.dtype), len(where))
        write_arrays(file, arrays, footer)
        with plain_python() if python else contextlib.nullcontext(), contextlib.suppress(IndexCorruptError):
            index = Index.open(path)
            for question in ("alpha beta the", "getUserById often", "rare1x5"):
                for k1 in (0.0, 1.2):
                    with contextlib.suppress(IndexCorruptError):
                        index.search(question, 20, k1=k1)
                    with contextlib.suppress(IndexCorruptError):
                        index.search_many([question], 20, k1=k1)
            for call in (index.spectrum, index.verify, partial(index.explain, "alpha often", "d007")):
                with contextlib.suppress(IndexCorruptError, KeyError):
                    call()
        write_arrays(file, good, footer)


def test_an_index_may_be_read_only(copy: Path, expected: list[Any]) -> None:
    for file in copy.iterdir():
        file.chmod(0o400)
    copy.chmod(0o500)
    try:
        assert everything(copy) == expected
    finally:
        copy.chmod(0o700)


def test_a_manifest_keeps_what_it_was_given(tmp_path: Path) -> None:
    manifest = store.Manifest(
        "code", tables("code"), 1, 9, 3, 2, ["a.qidf"], 5, "/r\ud800", "m", "b.sources", True, "0", ["c.deletes"]
    )
    with store.writing(str(tmp_path / "x")) as writer:
        writer.commit(manifest)
    assert store.read_manifest(str(tmp_path / "x")) == manifest
    assert replace(manifest, generation=6) != manifest
    assert os.listdir(tmp_path / "x").count(store.MANIFEST) == 1
