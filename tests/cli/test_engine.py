"""`--engine`: search, explain and profile on an index that another library made."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.bm25s_folder import save

Run = Callable[..., subprocess.CompletedProcess[str]]

ROWS = [
    ("src/users.py", "def getUserById(user_id):\n    return users.get(user_id)\n"),
    ("src/config.py", "def parse_config(path):\n    read the config file at path\n"),
    ("notes.md", "the config file names the users; read it first\n"),
]
QUERY = "who calls parse_config to read the file"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tmp_path / "saved", [text for _, text in ROWS], corpus=[{"id": id, "text": text} for id, text in ROWS])


def test_search(qidf: Run, saved: Path) -> None:
    done = qidf("search", QUERY, "--engine", f"bm25s:{saved}", "-k", "2", "--explain")
    assert (done.returncode, done.stderr) == (0, "qidf: not in the index: who, calls\n")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(" 1  src/config.py:1-2  ")
    assert "parse_config +" in lines[1]
    assert "def parse_config(path):" in lines[2]


def test_search_as_json(qidf: Run, saved: Path) -> None:
    rows = json.loads(qidf("search", QUERY, "--engine", f"bm25s:{saved}", "--json", "--explain").stdout)
    assert [row["id"] for row in rows] == ["src/config.py", "notes.md"]
    assert rows[0]["snippet"].startswith("def parse_config")
    assert rows[0]["terms"][2] == {
        "term": "parse_config",
        "n": 1,
        "tf": None,
        "words": [],
        **{key: pytest.approx(rows[0]["terms"][2][key]) for key in ("weight", "contribution")},
    }
    assert sum(term["contribution"] for term in rows[0]["terms"]) == pytest.approx(rows[0]["score"], rel=1e-6)


def test_a_corpus_that_is_not_saved_leaves_snippets_out(qidf: Run, saved: Path) -> None:
    for path in saved.glob("corpus*"):
        path.unlink()
    done = qidf("search", "parse_config", "--engine", f"bm25s:{saved}")
    assert done.stdout.startswith(" 1  1  ")
    assert done.stdout.count("\n") == 1
    assert "qidf: no snippets, text not stored\n" in done.stderr


def test_explain(qidf: Run, saved: Path) -> None:
    done = qidf("explain", QUERY, "src/config.py", "--engine", f"bm25s:{saved}")
    assert done.stdout.splitlines()[1].startswith("N 3; dl not told, avgdl not told; k1 1.5, b 0.75, a 0.5, s 0.")
    assert (
        json.loads(qidf("explain", "file", "notes.md", "--engine", f"bm25s:{saved}", "--json").stdout)["length"] is None
    )
    done = qidf("explain", QUERY, "nope.py", "--engine", f"bm25s:{saved}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no document 'nope.py' in bm25s:" in done.stderr


def test_explain_doubts_the_analyzer_in_a_remark(qidf: Run, saved: Path) -> None:
    done = qidf("explain", "nothing of this stands there, file", "notes.md", "--engine", f"bm25s:{saved}", "--json")
    assert json.loads(done.stdout)["id"] == "notes.md"
    assert done.stderr.startswith("qidf: 3 of 4 words are unknown: ") or "words are unknown" in done.stderr
    assert "Warning" not in done.stderr


def test_profile(qidf: Run, saved: Path) -> None:
    report = json.loads(qidf("profile", "--engine", f"bm25s:{saved}", "--json").stdout)
    assert (report["documents"], report["tokens"]) == (3, 20)
    assert qidf("profile", "--engine", f"bm25s:{saved}").stdout.startswith(f"bm25s:{saved}  analyzer word\n")


def test_an_index_of_our_own(qidf: Run, index: Path) -> None:
    for command in (["search", "config"], ["explain", "config", "config.py"]):
        own = qidf(*command, "--index", index, "--json").stdout
        engine = json.loads(qidf(*command, "--engine", f"qidf:{index}", "--json").stdout)
        assert json.loads(own) == engine or [row["score"] for row in json.loads(own)] == [r["score"] for r in engine]


def test_most_words_unknown(qidf: Run, saved: Path) -> None:
    done = qidf("search", "nothing of this stands there, file", "--engine", f"bm25s:{saved}")
    assert "was the index made with another analyzer than word?" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "bm25"], "an engine is named by a URL such as bm25s:DIR"),
        (["--engine", "bm25s:"], "no folder in 'bm25s:'"),
        (["--engine", "bm25s:saved?x=1"], "unknown option 'x'"),
        (["--engine", "bm25s:saved", "."], "leave PATH out"),
        (["--engine", "bm25s:saved", "--index", "i", "--no-refresh"], "leave --index and --no-refresh out"),
        (["--engine", "bm25s:saved", "--k1", "2"], "--k1 is the engine's own"),
        (["--engine", "bm25s:saved", "--odds", "robertson"], "--odds is the engine's own"),
        (["--engine", "bm25s:nowhere"], "no folder nowhere"),
        (["--engine", "rank_bm25:saved"], "rank_bm25"),
        (["--engine", "tantivy:saved#body"], "saved"),
        (["--engine", "lucene:nowhere#body"], "nowhere"),
    ],
)
def test_errors(qidf: Run, saved: Path, arguments: list[str], message: str) -> None:
    done = qidf("search", "x", *arguments, cwd=saved.parent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize("damage", ["vocab.index.json", "corpus.jsonl", "indices.csc.index.npy"])
def test_a_damaged_index_of_another_library_is_not_ours_to_rebuild(qidf: Run, saved: Path, damage: str) -> None:
    content = (saved / damage).read_bytes()
    (saved / damage).write_bytes(content[: len(content) // 3] + b"\xff" * 20)
    done = qidf("search", QUERY, "--engine", f"bm25s:{saved}")
    assert (done.returncode, done.stderr.count("qidf: error: ")) == (2, 1)
    assert "--rebuild" not in done.stderr
