"""An index that somebody else made does not say which of your files are read."""

from __future__ import annotations

import json
import os
import stat
import zlib
from pathlib import Path

import pytest

from qidf import Index
from qidf.errors import SourceError
from qidf.index import store, trust
from qidf.index.refresh import refresh


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "qidf"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("def parse(): pass\n")
    return tmp_path / "tree"


def forge(index: Path, **changes: object) -> None:
    """Change a manifest as somebody would who knows the format."""
    path = index / store.MANIFEST
    body = {**json.loads(path.read_bytes().partition(b"\n")[2]), **changes}
    data = json.dumps(body, sort_keys=True, indent=1).encode()
    head = {"qidf index format": store.FORMAT, "crc32": zlib.crc32(data)}
    path.write_bytes(json.dumps(head).encode() + b"\n" + data)


def test_the_files_of_an_index_built_here_are_read(tree: Path, tmp_path: Path) -> None:
    refresh(tree, tmp_path / "idx")
    assert Index.open(tmp_path / "idx").text("a.py") == "def parse(): pass\n"
    os.rename(tmp_path / "idx", tmp_path / "moved")
    assert Index.open(tmp_path / "moved").text("a.py") == "def parse(): pass\n"


@pytest.mark.parametrize("keeps_mark", [True, False])
def test_a_forged_root_is_not_read(tree: Path, tmp_path: Path, keeps_mark: bool) -> None:
    refresh(tree, tmp_path / "idx")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.py").write_text("parse the password")
    forge(tmp_path / "idx", root=str(secret), **({} if keeps_mark else {"mark": ""}))
    with pytest.raises(SourceError, match="that you did not build: name that folder yourself"):
        Index.open(tmp_path / "idx").text("a.py")
    assert Index.open(tmp_path / "idx", root=tree).text("a.py") == "def parse(): pass\n"


def test_somebody_elses_mark_is_not_mine(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    refresh(tree, tmp_path / "idx")
    assert Index.open(tmp_path / "idx").reads_files
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert not Index.open(tmp_path / "idx").reads_files
    assert Index.from_path(tree, tmp_path / "idx").reads_files


def test_an_index_that_stores_its_texts_needs_no_trust(tree: Path, tmp_path: Path) -> None:
    refresh(tree, tmp_path / "idx", store_text=True)
    forge(tmp_path / "idx", root="/", mark="")
    assert Index.open(tmp_path / "idx").text("a.py") == "def parse(): pass\n"


def test_the_key_is_this_users_alone(home: Path) -> None:
    first = trust.mark("/root", ["a"])
    assert stat.S_IMODE((home / "key").stat().st_mode) == 0o600
    assert trust.made_here("/root", ["a"], first)
    assert not trust.made_here("/root", ["b"], first)
    assert not trust.made_here("/", ["a"], first)
    assert not trust.made_here("/root", ["a"], "ü" + first[1:])
    assert {path.name for path in home.iterdir()} == {"key"}


def test_without_a_key_nothing_is_trusted(tmp_path: Path, home: Path) -> None:
    home.parent.write_text("a file where the folder should be")
    assert trust.mark("/root", ["a"]) == ""
    assert not trust.made_here("/root", ["a"], "")
    home.parent.unlink()
    home.mkdir(parents=True)
    (home / "key").write_text("short")
    assert trust.mark("/root", ["a"]) == ""


def test_a_change_makes_nobodys_index_mine_but_naming_its_root_does(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    refresh(tree, tmp_path / "idx")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    index = Index.open(tmp_path / "idx")
    index.add([("new", "parse something")])
    index.commit()
    assert not index.reads_files
    assert not Index.open(tmp_path / "idx").reads_files
    (tree / "b.py").write_text("def other(): pass\n")
    refresh(tree, tmp_path / "idx")
    mine = Index.open(tmp_path / "idx")
    assert mine.reads_files
    mine.delete(["new"])
    mine.optimize()
    assert Index.open(tmp_path / "idx").reads_files
    assert mine.text("b.py") == "def other(): pass\n"
