"""`refresh`: an index that follows a directory or a JSONL file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import (
    IndexCorruptError,
    IndexLockedError,
    IndexMismatchError,
    QidfError,
    SourceError,
)
from qidf.index import Index, store
from qidf.index.refresh import Refresh, default_index, refresh


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    for name, text in {"a.py": "alpha", "src/b.py": "beta", "src/c.md": "gamma"}.items():
        write(root / name, text)
    return root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "index"


def write(file: Path, text: str, age: float = 60) -> None:
    """Write a file that was last changed `age` seconds ago."""
    file.write_text(text)
    then = time.time() - age
    os.utime(file, (then, then))


def ids(place: Path, query: str) -> list[str]:
    return [hit.id for hit in Index.open(place).search(query)]


def counts(done: Refresh) -> tuple[bool, int, int, int, int]:
    return done.built, done.documents, done.added, done.changed, done.removed


def test_the_first_refresh_builds_and_the_second_does_nothing(tree: Path, place: Path) -> None:
    done = refresh(tree, place)
    assert counts(done) == (True, 3, 3, 0, 0)
    assert done.index == str(place)
    before = sorted(os.listdir(place))
    again = refresh(tree, place)
    assert counts(again) == (False, 3, 0, 0, 0)
    assert sorted(os.listdir(place)) == before
    assert ids(place, "beta") == ["src/b.py"]
    assert Index.open(place).text("src/b.py") == "beta"


def test_added_changed_removed_and_replaced_files_are_noticed(tree: Path, place: Path) -> None:
    refresh(tree, place)
    write(tree / "new.py", "delta")
    assert counts(refresh(tree, place)) == (True, 4, 1, 0, 0)
    write(tree / "a.py", "alpha omega")
    assert counts(refresh(tree, place)) == (True, 4, 0, 1, 0)
    assert ids(place, "omega") == ["a.py"]
    (tree / "src" / "c.md").unlink()
    assert counts(refresh(tree, place)) == (True, 3, 0, 0, 1)
    assert ids(place, "gamma") == []
    (tree / "a.py").rename(tree / "z.py")
    assert counts(refresh(tree, place)) == (True, 3, 1, 0, 1)
    # a file of the same size and time put in the place of another is told by its inode
    status = (tree / "z.py").stat()
    write(tree / "z.new", "alpha OMEGB")
    os.utime(tree / "z.new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tree / "z.new").replace(tree / "z.py")
    assert counts(refresh(tree, place)) == (True, 3, 0, 1, 0)
    assert ids(place, "omegb") == ["z.py"]
    # an older time is a change too
    write(tree / "z.py", "alpha OMEGC", age=600)
    assert counts(refresh(tree, place)) == (True, 3, 0, 1, 0)
    assert counts(refresh(tree, place)) == (False, 3, 0, 0, 0)


def test_an_edit_right_after_the_scan_is_noticed_though_size_and_time_are_the_same(tree: Path, place: Path) -> None:
    write(tree / "a.py", "alpha", age=0)
    status = (tree / "a.py").stat()
    refresh(tree, place)
    (tree / "a.py").write_text("omega")
    os.utime(tree / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    done = refresh(tree, place)
    assert (done.built, done.changed) == (True, 1)
    assert ids(place, "omega") == ["a.py"]


def test_an_edit_while_documents_are_read_is_noticed_next_time(tree: Path, place: Path) -> None:
    def edit(_: int) -> None:
        write(tree / "a.py", "omega")
        write(tree / "late.py", "late")

    refresh(tree, place, total=edit)
    done = refresh(tree, place)
    assert (done.built, done.added, done.changed) == (True, 1, 0), "a.py was read after its edit"
    assert ids(place, "omega") == ["a.py"]
    assert not refresh(tree, place).built


def test_a_file_that_becomes_no_text_drops_out(tree: Path, place: Path) -> None:
    refresh(tree, place)
    (tree / "a.py").write_bytes(b"\0\1\2")
    done = refresh(tree, place)
    assert (done.built, done.documents, done.changed, done.summary) == (True, 2, 1, "skipped 1 binary")
    assert ids(place, "alpha") == []


def test_names_that_are_not_utf_8_and_hold_newlines(tree: Path, place: Path) -> None:
    for name in (b"caf\xe9.py", b"new\nline.py"):
        file = os.path.join(os.fsencode(tree), name)
        with open(file, "w") as f:
            f.write("odd")
        os.utime(file, (1e9, 1e9))
    assert refresh(tree, place).documents == 5
    assert not refresh(tree, place).built
    assert sorted(map(os.fsencode, ids(place, "odd"))) == [b"caf\xe9.py", b"new\nline.py"]
    assert Index.open(place).text(os.fsdecode(b"caf\xe9.py")) == "odd"


def test_another_analyzer_or_root_is_a_mismatch_until_rebuilt(tree: Path, place: Path, tmp_path: Path) -> None:
    refresh(tree, place, analyzer="standard")
    assert Index.open(place).analyzer == "standard"
    assert not refresh(tree, place).built, "no analyzer asked for: the index's own will do"
    assert not refresh(tree, place, analyzer="standard").built
    with pytest.raises(IndexMismatchError, match=r"made with analyzer standard, not code.*--rebuild"):
        refresh(tree, place, analyzer="code")
    other = tmp_path / "other"
    other.mkdir()
    write(other / "x.py", "xylophone")
    with pytest.raises(IndexMismatchError, match=r"made from .*tree, not .*other.*--rebuild"):
        refresh(other, place)
    assert ids(place, "alpha") == ["a.py"]
    assert refresh(other, place, rebuild=True).documents == 1
    assert Index.open(place).analyzer == "standard", "a rebuild keeps what it is not told to change"
    refresh(other, place, analyzer="word", rebuild=True)
    assert Index.open(place).analyzer == "word"
    assert ids(place, "xylophone") == ["x.py"]


def test_a_rebuild_builds_where_nothing_changed_and_over_anything(tree: Path, place: Path) -> None:
    refresh(tree, place)
    assert refresh(tree, place, rebuild=True).built
    (place / store.MANIFEST).write_text("damaged")
    with pytest.raises(IndexCorruptError, match="--rebuild"):
        refresh(tree, place)
    assert refresh(tree, place, rebuild=True).built
    (place / store.MANIFEST).write_text('{"qidf index format": 99, "crc32": 0}\n{}')
    with pytest.raises(IndexMismatchError, match="--rebuild"):
        refresh(tree, place)
    assert refresh(tree, place, rebuild=True).built
    assert ids(place, "alpha") == ["a.py"]


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"[]", b'{"files": 5}', b'{"files": [5, ["a"]]}', b"[" * 10**5, None]
)
def test_a_damaged_table_of_sources_means_that_every_file_is_compared(
    tree: Path, place: Path, content: bytes | None
) -> None:
    refresh(tree, place)
    name = store.read_manifest(str(place)).sources
    (place / name).unlink() if content is None else (place / name).write_bytes(content)
    write(tree / "a.py", "omega")
    (tree / "src" / "c.md").unlink()
    assert counts(refresh(tree, place)) == (True, 2, 0, 1, 1)
    assert not refresh(tree, place).built
    assert ids(place, "alpha gamma") == []


def test_a_changed_byte_in_the_table_of_sources_is_no_error(tree: Path, place: Path) -> None:
    refresh(tree, place)
    for step in range(40):
        name = store.read_manifest(str(place)).sources
        data = bytearray((place / name).read_bytes())
        data[step * len(data) // 40] ^= 1 << step % 7
        (place / name).write_bytes(data)
        assert refresh(tree, place).documents == 3
        assert ids(place, "alpha") == ["a.py"]


def test_texts_are_kept_when_asked_for_and_then_go_on_being_kept(tree: Path, place: Path) -> None:
    refresh(tree, place)
    assert refresh(tree, place, store_text=True).built
    (tree / "a.py").unlink()
    assert Index.open(place).text("a.py") == "alpha"
    assert refresh(tree, place).built
    (tree / "src" / "b.py").unlink()
    assert Index.open(place).text("src/b.py") == "beta"
    assert refresh(tree, place, store_text=False).built
    assert not refresh(tree, place).built


def test_a_file_that_is_gone_can_not_be_read_back(tree: Path, place: Path) -> None:
    refresh(tree, place)
    (tree / "a.py").unlink()
    with pytest.raises(SourceError, match=r"'a\.py'"):
        Index.open(place).text("a.py")


def test_the_default_place_is_in_the_users_cache_by_the_path(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = refresh(tree)
    assert done.index == default_index(tree)
    assert Path(done.index).parent == tmp_path / "cache" / "qidf"
    assert Path(done.index).name.startswith("tree-")
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert default_index(link) == default_index(str(tree) + "/") == done.index
    monkeypatch.chdir(tree)
    assert default_index(".") == done.index
    assert default_index(tree / "src") != done.index
    assert not refresh(".").built
    assert Index.from_path(link).search("alpha")[0].id == "a.py"
    assert [hit.id for hit in Index.from_path().search("beta")] == ["src/b.py"]
    assert not (tree / ".qidf").exists()
    odd = tmp_path / ("x y/ü".replace("/", "_") + "n" * 100)
    assert len(Path(default_index(odd)).name) < 64
    assert default_index("/") != default_index("/usr")


def test_an_index_inside_the_tree_does_not_index_itself(tree: Path) -> None:
    """Its files are binary or its own; what matters is that a refresh comes to rest."""
    place = tree / "index"
    refresh(tree, place)
    for _ in range(2):
        refresh(tree, place)
    assert {hit.id for hit in Index.open(place).search("alpha beta gamma", 99)} == {"a.py", "src/b.py", "src/c.md"}


def lines(file: Path, *rows: dict[str, Any]) -> Path:
    write(file, "".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_file_of_json_lines_is_followed_too(tmp_path: Path, place: Path) -> None:
    file = lines(
        tmp_path / "docs.jsonl", {"id": "1", "text": "alpha", "path": "p", "line": 7}, {"id": 2, "text": "beta"}
    )
    assert counts(refresh(file, place)) == (True, 2, 2, 0, 0)
    assert not refresh(file, place).built
    [hit] = Index.open(place).search("alpha")
    assert (hit.id, hit.path, hit.line) == ("1", "p", 7)
    lines(file, {"id": "1", "text": "omega"})
    assert counts(refresh(file, place, store_text=True)) == (True, 1, 0, 1, 0)
    assert Index.open(place).text("1") == "omega"
    lines(file, {"id": "1", "text": "a"}, {"id": "1", "text": "b"})
    with pytest.raises(SourceError, match="id '1'"):
        refresh(file, place)
    write(file, '{"id": "1", "text": "fine"}\nno json\n')
    with pytest.raises(SourceError, match="line 2"):
        refresh(file, place)
    assert ids(place, "omega") == ["1"]


def test_nothing_to_index_says_what_was_skipped_and_leaves_nothing(tmp_path: Path, place: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    with pytest.raises(SourceError, match="nothing to index in"):
        refresh(root, place)
    (root / "x.bin").write_bytes(b"\0")
    with pytest.raises(SourceError, match=r"nothing to index in .*skipped 1 binary"):
        refresh(root, place)
    assert not place.exists()
    with pytest.raises(SourceError, match="no such file"):
        refresh(tmp_path / "absent", place)


def test_a_place_that_can_not_be_an_index_is_a_message(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tree):
        with pytest.raises(QidfError):
            refresh(tree, place)
    assert sorted(os.listdir(tree)) == ["a.py", "src"]


def test_a_locked_index_is_told_apart_and_still_answers(tree: Path, place: Path) -> None:
    refresh(tree, place)
    write(tree / "new.py", "delta")
    with store.writing(str(place)), pytest.raises(IndexLockedError):
        refresh(tree, place)
    assert ids(place, "alpha") == ["a.py"]
    assert refresh(tree, place).added == 1


def test_progress_and_total_are_told(tree: Path, place: Path) -> None:
    totals: list[int] = []
    seen: list[int] = []
    refresh(tree, place, total=totals.append, progress=seen.append)
    assert (totals, seen) == ([3], [3])
    refresh(tree, place, total=totals.append, progress=seen.append)
    assert (totals, seen) == ([3], [3])
