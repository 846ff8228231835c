from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.errors import SourceError
from qidf.sources import Document, FileEntry, Source, id_bytes, open_source
from qidf.sources.files import REASONS, FileSource
from qidf.sources.text import UnfitError, decode

from .conftest import Tree


def read(root: Path, **options: int) -> tuple[dict[str, str], dict[str, int]]:
    source = FileSource(root, **options)
    documents = {document.id: document.text for document in source.documents()}
    return documents, dict(source.skipped)


def test_documents_carry_path_and_text_in_the_order_of_id_bytes(tree: Tree) -> None:
    root = tree({"b.py": "two\r\n", "a/z.py": "one", "a.py": "three", "é.py": "four"})
    assert list(FileSource(root).documents()) == [
        Document("a.py", "three", "a.py"),
        Document("a/z.py", "one", "a/z.py"),
        Document("b.py", "two\r\n", "b.py"),
        Document("é.py", "four", "é.py"),
    ]


def test_scan_tells_what_stat_tells(tree: Tree) -> None:
    root = tree({"a/b.py": "12345"})
    status = (root / "a/b.py").stat()
    assert FileSource(root).scan() == [FileEntry("a/b.py", 5, status.st_mtime_ns, status.st_ino)]


def test_reads_just_the_entries_it_is_given(tree: Tree) -> None:
    source = FileSource(tree({"a.py": "1", "b.py": "2", "c.py": "3"}))
    chosen = source.scan()[::-2]
    assert [document.id for document in source.documents(chosen)] == ["c.py", "a.py"]
    assert not list(source.documents([]))


def test_any_file_name_works_and_leads_back_to_its_file(tree: Tree) -> None:
    root = tree({})
    names = [b"caf\xe9.py", b"new\nline.py", b"\xff\xfe", b"back\\slash", b" ", b"-", "é".encode(), b"e\xcc\x81", b'"']
    for name in names:
        with open(os.fsencode(root) + b"/" + name, "wb") as file:
            file.write(b"x" + name)
    source = FileSource(root)
    ids = [document.id for document in source.documents()]
    assert sorted(map(os.fsencode, ids)) == sorted(names)
    assert ids == sorted(ids, key=id_bytes)
    for id in ids:
        assert os.fsencode(source.locate(id) or "").endswith(b"/" + os.fsencode(id))
        assert source.read_text(id) == decode(b"x" + os.fsencode(id))


@given(st.lists(st.text(st.characters(codec=None)), max_size=5))
def test_id_bytes_tell_all_strings_apart(ids: list[str]) -> None:
    assert len({id_bytes(id) for id in ids}) == len(set(ids))


def test_every_reason_is_counted_and_told(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(
        {
            "kept.py": "x",
            "image.py": b"\x89PNG\0",
            "late.bin": b"x" * 8191 + b"\0",
            "lib.min.js": "x",
            "lib.js.map": "{}",
            "blob.js": "var a=1;" * 1000,
            "node_modules/a/b.js": "x",
            "d/__pycache__/b.pyc": "x",
            "big.py": "x\n" * 5000,
            "blank.py": " \n\t\n",
            "zero.py": "",
        }
    )
    os.symlink("kept.py", root / "link.py")
    os.symlink("/etc/passwd", root / "out.py")
    os.symlink("..", root / "d" / "up")
    os.symlink("nowhere", root / "dangling")
    os.mkfifo(root / "fifo.py")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(root)  # a socket's name is short
        listening.bind("socket.py")
    source = FileSource(root, max_bytes=8200)
    entries = source.scan()
    (root / "gone.py").write_text("x")
    entries.append(FileEntry("gone.py", 1, 1, 1))
    (root / "gone.py").unlink()
    assert [document.id for document in source.documents(entries)] == ["kept.py"]
    assert dict(source.skipped) == {
        "binary": 2,
        "minified": 3,
        "vendored": 2,
        "too large": 1,
        "empty": 2,
        "unreadable": 1,
        "symlink": 4,
        "not a file": 2,
    }
    assert set(source.skipped) == set(REASONS)
    assert source.summary() == (
        "skipped 2 binary, 3 minified, 2 vendored folders, 1 too large, 2 empty, 1 unreadable, 4 symlinks, 2 not a file"
    )
    assert not list(source.documents([]))
    assert source.skipped["binary"] == 0, "counts are of the last run"


def test_nothing_skipped_nothing_told(tree: Tree) -> None:
    source = FileSource(tree({"a.py": "x"}))
    assert list(source.documents())
    assert source.summary() == ""


def test_hidden_files_are_read_but_repositories_are_not(tree: Tree) -> None:
    documents, skipped = read(
        tree({".github/workflows/ci.yml": "x", ".eslintrc": "x", ".git/config": "x", ".hg/a": "x"})
    )
    assert list(documents) == [".eslintrc", ".github/workflows/ci.yml"]
    assert skipped == {}


def test_vendored_folders_below_the_root_only(tree: Tree) -> None:
    root = tree(
        {
            "site-packages/foo/a.py": "x",
            "site-packages/foo/vendor/b.py": "x",
            "rust/Cargo.toml": "x",
            "rust/target/c.rs": "x",
            "target/d.py": "x",
            "env/pyvenv.cfg": "x",
            "env/bin/activate": "x",
            "vendor": "a file",
        }
    )
    documents, skipped = read(root)
    assert list(documents) == ["rust/Cargo.toml", "target/d.py", "vendor"]
    assert skipped == {"vendored": 3}
    assert list(read(root / "site-packages/foo")[0]) == ["a.py"]
    assert list(read(root / "env")[0]) == ["bin/activate", "pyvenv.cfg"]


def test_ignored_folders_are_not_counted_as_vendored(tree: Tree) -> None:
    assert read(tree({".gitignore": "node_modules", "node_modules/a.js": "x"}))[1] == {}


def test_qidfignore_brings_a_vendored_folder_back_but_gitignore_does_not(tree: Tree) -> None:
    root = tree({".gitignore": "!vendor/\n!third_party/\n", ".qidfignore": "!third_party/\n"})
    tree({"vendor/a.c": "x", "third_party/b.c": "x"})
    assert [id for id in read(root)[0] if id.endswith(".c")] == ["third_party/b.c"]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x\n" * 3000,
        "x = 1\n" * 500 + "DATA = '" + "A" * 2500 + "'\n" + "y = 2\n" * 500,  # a blob in code
        ("word " * 200 + "\n\n") * 50,  # prose, a paragraph a line
        '{"one": "line"}' * 200,  # short
        "x = 1\r" * 2000,  # ends of line of an old Mac
    ],
)
def test_normal_text_is_not_minified(tree: Tree, text: str) -> None:
    assert read(tree({"a.txt": text})) == ({"a.txt": text}, {})


@pytest.mark.parametrize(
    "text",
    [
        "/* licence */\n" * 20 + "function a(b){return b}" * 1000 + "\n//# sourceMappingURL=a.js.map\n",
        ("var a=function(){};" * 200 + "\n") * 10,
        "[" + "0.125," * 5000 + "0]",
    ],
)
def test_bundles_and_blobs_are_minified(tree: Tree, text: str) -> None:
    assert read(tree({"a.js": text})) == ({}, {"minified": 1})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve ☃".encode(), "naïve ☃"),
        ("naïve".encode("utf-8-sig"), "naïve"),
        ("naïve ☃".encode("utf-16"), "naïve ☃"),
        ("\ufeffnaïve".encode("utf-16-be"), "naïve"),
        ("naïve".encode("utf-32"), "naïve"),
        ("\ufeffnaïve".encode("utf-32-be"), "naïve"),
        ("naïve “café”".encode("cp1252"), "naïve “café”"),
        ("größe ☃ ".encode() + b"caf\xe9 \xff", "größe ☃ café ÿ"),  # one stray line in a UTF-8 file
        (b"cut \xe2\x98", "cut â˜"),
        (b"\x81", "\ufffd"),
        ("odd".encode("utf-16") + b"x", "odd\ufffd"),
        (b"\xff\xfe\x00\xd8a\x00", "\ufffda"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert decode(data) == text


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda tail: b"\xff\xfe" + tail))
def test_any_bytes_are_binary_or_text_that_utf8_can_hold(data: bytes) -> None:
    with suppress(UnfitError):
        decode(data).encode("utf-8")


@given(st.text(st.characters(exclude_characters="\0\ufeff", codec="utf-8")))
def test_utf8_is_read_as_it_is(text: str) -> None:
    assert decode(text.encode()) == text


def test_deep_nesting(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    chain = [here]
    for _ in range(300):
        os.mkdir("d", dir_fd=chain[-1])
        chain.append(os.open("d", os.O_RDONLY, dir_fd=chain[-1]))
    os.close(os.open("x.py", os.O_CREAT | os.O_WRONLY, dir_fd=chain[-1]))
    for fd in chain:
        os.close(fd)
    assert [entry.path.count("/") for entry in FileSource(tmp_path).scan()] == [300]
    shutil.rmtree(tmp_path / "d")


def test_a_path_longer_than_the_system_takes_is_unreadable(tmp_path: Path) -> None:
    name = "d" * 200
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir(name, dir_fd=fd)
        deeper = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    source = FileSource(tmp_path)
    assert source.scan() == []
    assert source.summary() == "skipped 1 unreadable"
    shutil.rmtree(tmp_path / name)


def test_folders_and_files_without_rights_are_counted(
    open_folder: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    for name in ("secret.py", "shut/a.py", "open/a.py", "open/.gitignore"):
        (open_folder / name).parent.mkdir(exist_ok=True)
        (open_folder / name).write_text("*.py")
    for name in ("secret.py", "shut", "open/.gitignore"):
        (open_folder / name).chmod(0)
    with unprivileged():
        source = FileSource(open_folder)
        assert [document.id for document in source.documents()] == ["open/a.py"]
        assert source.skipped == {"unreadable": 3}
        assert source.notes == [f"ignore rules in {open_folder}/open/.gitignore are not used: Permission denied"]
        with pytest.raises(SourceError, match=r"can't read .*secret.py: Permission denied"):
            source.read_text("secret.py")
        with pytest.raises(SourceError, match=r"can't list the directory .*shut: Permission denied; check"):
            FileSource(open_folder / "shut")
    (open_folder / "shut").chmod(0o755)


def test_folders_that_vanish_during_the_walk_are_counted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a/x.py": "x", "b/x.py": "x"})
    source = FileSource(root)
    scandir = os.scandir
    other = {root / "a": root / "b", root / "b": root / "a"}

    def vanishing(path: str) -> object:
        if Path(path) in other and not (root.parent / "away").exists():  # the first of the two moves the other away
            other[Path(path)].rename(root.parent / "away")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert len(source.scan()) == 1
    assert source.skipped == {"unreadable": 1}
    monkeypatch.undo()
    shutil.rmtree(root)
    with pytest.raises(SourceError, match="no such file or directory"):
        source.scan()


def test_a_file_swapped_for_something_else_after_the_scan(tree: Tree) -> None:
    root = tree({"fifo": "x", "link": "x", "folder": "x", "grown": "x", "changed": "x"})
    source = FileSource(root, max_bytes=100)
    entries = source.scan()
    for name in ("fifo", "link", "folder"):
        (root / name).unlink()
    os.mkfifo(root / "fifo")
    os.symlink("/etc/passwd", root / "link")
    (root / "folder").mkdir()
    (root / "grown").write_text("x" * 101)
    (root / "changed").write_text("y" * 50)
    assert [document.text for document in source.documents(entries)] == ["y" * 50]
    assert source.skipped == {"not a file": 2, "symlink": 1, "too large": 1}


def test_a_symlink_as_root_is_followed(tree: Tree, tmp_path: Path) -> None:
    root = tree({"a.py": "x"})
    os.symlink(root, tmp_path / "link")
    source = FileSource(tmp_path / "link")
    assert source.root == root.resolve()
    assert source.read_text("a.py") == "x"


@pytest.mark.parametrize(
    "id",
    [
        *("../secret", "a/../../secret", "a/../b.py", "./b.py", "a//b.py", "b.py/", "", ".", "..", "/etc/passwd"),
        *("b.py\0", "\0", "\ud800", "link/passwd", "passwd", "fifo", "a", "missing", ".git/config", "sub/.git/config"),
        *("b.py/x", "x" * 5000, "/".join("x" * 3000), "loop/b.py", "up/b.py"),
    ],
)
def test_an_id_from_a_stranger_reads_nothing(tree: Tree, tmp_path: Path, id: str) -> None:
    root = tree({"a/x.py": "x", "b.py": "x", ".git/config": "x", "sub/.git/config": "x"})
    (tmp_path / "secret").write_text("x")
    os.symlink("/etc", root / "link")
    os.symlink("/etc/passwd", root / "passwd")
    os.symlink(".", root / "up")
    os.symlink("loop", root / "loop")
    os.mkfifo(root / "fifo")
    source = FileSource(root)
    assert source.locate(id) is None
    with pytest.raises(SourceError, match="there is no such file below"):
        source.read_text(id)


def test_read_text_reads_as_documents_do_and_says_why_it_cannot(tree: Tree) -> None:
    source = FileSource(tree({"a.py": b"caf\xe9", "b.py": b"\0", "c.py": "x" * 200}), max_bytes=100)
    assert source.locate("a.py") == source.root / "a.py"
    assert source.read_text("a.py") == "café"
    with pytest.raises(SourceError, match=r"b\.py: it is binary"):
        source.read_text("b.py")
    with pytest.raises(SourceError, match=r"c\.py: it is larger than 100 bytes"):
        source.read_text("c.py")


def test_open_source(tree: Tree) -> None:
    root = tree({"d/a.py": "x", "x.jsonl": "", "x.ndjson": "", "a.py": "x", "d.jsonl/a.py": "x"})
    sources: list[Source] = [
        open_source(root / "d"),
        open_source(str(root / "x.jsonl")),
        open_source(root / "x.ndjson"),
    ]
    assert [type(source).__name__ for source in sources] == ["FileSource", "JsonlSource", "JsonlSource"]
    assert sources[0].root == root / "d"
    assert isinstance(open_source(root / "d.jsonl", max_bytes=7), FileSource)
    with pytest.raises(SourceError, match=r"a.py: give a directory, or a file named .jsonl, .ndjson, .jsonl.gz"):
        open_source(root / "a.py")
    for name in ("missing", "missing.jsonl"):
        with pytest.raises(SourceError, match=f"^no such file or directory: .*{name}$"):
            open_source(root / name)
    with pytest.raises(SourceError, match=r"not a directory: .*a.py"):
        FileSource(root / "a.py")
    with pytest.raises(SourceError, match=r"embedded null"):
        FileSource("a\0b")


def test_scan_is_fast(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("".join(f"ignored_{i}/\n*.skip{i}\n" for i in range(30)) + "docs/_build\n")
    for i in range(20):
        folder = tmp_path / f"package_{i}" / "deeper"
        folder.mkdir(parents=True)
        (folder.parent / ".gitignore").write_text("*.log\n!keep.log\n")
        for j in range(100):
            (folder / f"module_{j}.py").touch()
    source = FileSource(tmp_path)
    source.scan()
    start = time.process_time()
    assert len(source.scan()) == 20 * 101 + 1
    assert time.process_time() - start < 0.5, "about 0.015 s on an idle machine"
