"""Dictionaries of a server's fields, as a wrapped client and the proxy find them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import DictionaryCorruptError
from qidf.expansion.dictionary import About, Dictionary, write
from qidf.expansion.place import Dictionaries, _path

TERMS = [("getuser", ("get", "user"))]


def made(path: str, engine: str = "opensearch+http://host:9200/code#body", **more: Any) -> str:
    about = About(engine, "standard", 9, 9, "texts")._replace(**more)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, about, TERMS, {"get": 3, "user": 4})
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_field_has_the_dictionary_made_through_this_address() -> None:
    found = Dictionaries(["opensearch+http://user:secret@host:9200/", "opensearch+https://other"])
    assert not found
    made(_path("opensearch+http://host:9200/code#body"))
    assert found
    assert found.find(["code"], "body", "standard") is not None
    assert found.find(["alias", "code"], "body", "standard") is not None
    for names, field, analyzer in (
        (["docs"], "body", "standard"),
        (["code"], "title", "standard"),
        (["code"], "body", "x"),
    ):
        assert found.find(names, field, analyzer) is None
    assert Dictionaries(["opensearch+http://elsewhere:9200"]).find(["code"], "body", "standard") is None
    made(_path("opensearch+https://other:443/code#body"), "opensearch+http://third:1/code#body")
    with pytest.raises(ValueError, match=r"is that of opensearch\+http://third"):
        Dictionaries(["opensearch+https://other"]).find(["code"], "body", "standard")


def test_a_file_goes_by_its_index_and_field_and_comes_first(tmp_path: Path) -> None:
    path = made(str(tmp_path / "code.qidf"), "elasticsearch+https://far:9200/code#body")
    found = Dictionaries(["opensearch+http://host:9200"], [path])
    assert found.find(["code"], "body", "standard") is not None
    assert found.find(["other"], "body", "standard") is None


def test_whoever_cuts_a_file_short_does_no_harm(tmp_path: Path) -> None:
    path = made(str(tmp_path / "code.qidf"))
    found = Dictionaries(files=[path]).find(["code"], "body", "standard")
    assert found is not None
    os.truncate(path, 10)
    assert found.candidates({"get": 1.0}, 9) == [("getuser", ("get",), 2)]


@pytest.mark.parametrize(
    "odd", [{"documents": None}, {"read": "x"}, {"documents": -1}, {"engine": 3}, {"read": 1 << 70}]
)
def test_a_footer_that_makes_no_sense_is_damage(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = made(str(tmp_path / "odd.qidf"), **odd)
    with pytest.raises(DictionaryCorruptError):
        Dictionary(path)


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    old, young = tmp_path / ".d.old", tmp_path / ".d.young"
    for one in (old, young):
        one.write_text(json.dumps("half"))
    os.utime(old, (0, 0))
    made(str(tmp_path / "d"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".d.young", "d"]


def test_one_file_is_no_list_of_files(tmp_path: Path) -> None:
    path = made(str(tmp_path / "code.qidf"))
    for one in (path, Path(path)):
        with pytest.raises(ValueError, match="dictionaries must be a list of files"):
            Dictionaries(files=one)  # type: ignore[arg-type]
