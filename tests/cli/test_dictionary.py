"""`qidf dictionary`: made, shown, checked; and what searches do with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qidf import Index

Run = Callable[..., subprocess.CompletedProcess[str]]

FILES = [
    ("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack() }"),
    ("proxy.go", "func newProxy(url string) { connect() }"),
    ("readme.md", "This server answers requests."),
]


@pytest.fixture
def engine(tmp_path: Path) -> str:
    Index.build(FILES, tmp_path / "index", analyzer="standard", store_text=True)
    return f"qidf:{tmp_path / 'index'}"


def test_plain_words_find_the_function(qidf: Run, engine: str) -> None:
    assert qidf("search", "upgrade a web socket", "--engine", engine).stdout == ""
    assert qidf("dictionary", "build", "--engine", engine, "--dry-run").stdout == "would read 3 documents\n"
    assert "2 identifiers of 3 documents" in qidf("dictionary", "build", "--engine", engine).stdout
    (row,) = json.loads(qidf("search", "upgrade a web socket", "--engine", engine, "--json", "--explain").stdout)
    assert row["id"] == "upgrade.go"
    assert [term["words"] for term in row["terms"] if term["words"]] == [["upgrade", "web", "socket"]]
    assert "handleWebSocketUpgrade" in row["snippet"]
    assert qidf("search", "upgrade a web socket", "--engine", engine, "--expand", "off").stdout == ""
    shown = qidf("explain", "upgrade a web socket", "upgrade.go", "--engine", engine).stdout
    assert "handlewebsocketupgrade (upgrade web socket)  added" in shown


def test_show_and_check(qidf: Run, engine: str) -> None:
    qidf("dictionary", "build", "--engine", engine, "--json")
    assert qidf("dictionary", "show", "newproxy", "--engine", engine).stdout == "newproxy = new · proxy\n"
    told = json.loads(qidf("dictionary", "show", "--engine", engine, "--json").stdout)
    assert (told["identifiers"], told["source"], told["read"]) == (2, "texts", 3)
    added = json.loads(qidf("dictionary", "show", "a new thing", "--engine", engine, "--json").stdout)["added"]
    assert [one["term"] for one in added] == ["newproxy"]
    assert "no identifier is made of" in qidf("dictionary", "show", "nothing", "--engine", engine).stderr
    assert qidf("dictionary", "check", "--engine", engine).stdout.startswith("whole: 2 identifiers")
    Index.build([*FILES, ("more", "text")], engine[5:], analyzer="standard")
    assert "now 4" in qidf("dictionary", "check", "--engine", engine).stdout


def test_errors(qidf: Run, engine: str, tmp_path: Path) -> None:
    done = qidf("dictionary", "show", "x", "--engine", engine)
    assert (done.returncode, done.stderr) == (
        2,
        f"qidf: error: {engine} has no dictionary: qidf dictionary build --engine {engine}\n",
    )
    assert qidf("dictionary", "build", "--engine", engine, "--documents", "0").returncode == 2
    assert qidf("dictionary", "build", "--engine", engine, "--spellings", tmp_path / "nowhere").returncode == 2
    qidf("dictionary", "build", "--engine", engine)
    path = Path(json.loads(qidf("dictionary", "show", "--engine", engine, "--json").stdout)["path"])
    path.write_bytes(path.read_bytes()[:100])
    done = qidf("dictionary", "check", "--engine", engine)
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    done = qidf("search", "server", "--engine", engine)
    assert done.returncode == 0
    assert "queries are not expanded" in done.stderr


def test_an_index_that_leaves_identifiers_whole_has_a_dictionary(qidf: Run, tmp_path: Path) -> None:
    code, place = tmp_path / "code", str(tmp_path / "standard")
    code.mkdir()
    for name, text in FILES:
        (code / name).write_text(text)
    told = json.loads(qidf("index", str(code), "--index", place, "--analyzer", "standard", "--json").stdout)
    assert told["identifiers"] == 2
    question = "upgrade a web socket"
    (row,) = json.loads(qidf("search", question, "--index", place, "--json", "--explain").stdout)
    assert row["path"] == "upgrade.go"
    assert [term["term"] for term in row["terms"] if term["words"]] == ["handlewebsocketupgrade"]
    assert qidf("search", question, "--index", place, "--expand", "off").stdout == ""
    assert qidf("search", question, "--index", place, "--expand", "rank").stdout == ""
    assert "added" in qidf("explain", question, "upgrade.go", "--index", place).stdout
    plain = json.loads(qidf("search", "server", "--index", place, "--json", "--expand", "off").stdout)
    assert json.loads(qidf("search", "server", "--index", place, "--json").stdout) == plain
    (code / "more.go").write_text("func readTable() {}")
    assert "2 identifiers" not in qidf("index", str(code), "--index", place).stdout
    assert "3 identifiers" in qidf("index", str(code), "--index", place).stdout
    assert "identifiers" not in json.loads(qidf("index", str(code), "--json").stdout)
    (code / "last.go").write_text("func writeTable() {}")
    qidf("search", "table", str(code), "--index", place)  # which refreshes the index, and leaves the dictionary
    done = qidf("index", str(code), "--index", place)
    assert done.stdout.startswith("up to date")
    assert "4 identifiers" in done.stdout
    again = qidf("index", str(code), "--index", place, "--analyzer", "simple", "--rebuild")
    assert (again.returncode, again.stderr) == (0, "")


def test_an_index_of_parts_needs_none(qidf: Run, tmp_path: Path) -> None:
    Index.build(FILES, tmp_path / "code")
    done = qidf("dictionary", "build", "--engine", f"qidf:{tmp_path / 'code'}")
    assert (done.returncode, "takes identifiers apart already" in done.stderr) == (2, True)


def test_a_damaged_dictionary_is_made_again_by_its_own_command(qidf: Run, engine: str, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.qidf"
    damaged.write_bytes(b"no dictionary")
    for path in (damaged, tmp_path / "none.qidf"):
        done = qidf("proxy", "--upstream", "http://localhost:1", "--listen", "127.0.0.1:0", "--dictionary", str(path))
        assert done.returncode == 2
        assert done.stderr.endswith("(make it again: qidf dictionary build)\n")
