"""`qidf collection` as a process, and that `qidf evaluate` reads what it writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.required import load
from tests.lab.history import Work

load("lab", "tree_sitter")

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = "".join(
    f'def {name}(values):\n    """{doc}"""\n    first = values[0]\n    return {name}({doc.split()[-1]}, first)\n\n\n'
    for name, doc in [
        ("add", "Sum the given values"),
        ("get_user", "Look the user up"),
        ("parse", "Read a config file"),
    ]
)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path / "work")
    work.commit("Begin the little shop", {"shop.py": SOURCE, "other.py": "nothing = 1\n"})
    work.commit("Sum values faster than before", {"shop.py": SOURCE.replace("first", "one")})
    return work


def test_functions_become_a_collection_that_can_be_evaluated(qidf: Run, work: Work, tmp_path: Path) -> None:
    done = qidf("collection", "docstrings", work.path, "--lang", "python", "-o", tmp_path / "beir")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"3 queries, 3 documents, 3 judgments → {tmp_path / 'beir'}"
    about = json.loads((tmp_path / "beir" / "collection.json").read_text())
    assert (about["language"], about["queries from"], about["queries"]) == ("python", "docs", 3)
    told = json.loads(qidf("evaluate", tmp_path / "beir", "--json").stdout)
    assert told["queries"] == 3
    assert told["results"][0]["R@100"] == 1.0


def test_commits_become_a_collection_that_can_be_evaluated(qidf: Run, work: Work, tmp_path: Path) -> None:
    done = qidf("collection", "commits", work.path, "--output", tmp_path / "beir", "--commits", "5", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads((tmp_path / "beir" / "collection.json").read_text())
    told = json.loads(qidf("evaluate", tmp_path / "beir", "--q", "1", "--json").stdout)
    assert (told["queries"], told["results"][0]["Success@5"]) == (1, 1.0)


def test_a_collection_is_replaced_only_when_asked(qidf: Run, work: Work, tmp_path: Path) -> None:
    place = tmp_path / "beir"
    command = ("collection", "docstrings", work.path, "--lang", "python", "-o", place)
    assert qidf(*command).returncode == 0
    again = qidf(*command)
    assert (again.returncode, again.stdout) == (2, "")
    assert "--replace" in again.stderr
    assert qidf(*command, "--queries", "code", "--drop-name", "--replace").returncode == 0
    assert json.loads((place / "collection.json").read_text())["queries from"] == "code"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beir", "work"]


def test_a_folder_of_other_things_is_left_alone(qidf: Run, work: Work, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "letter.txt").write_text("dear")
    done = qidf("collection", "commits", work.path, "-o", place, "--replace")
    assert done.returncode == 2
    assert "other things" in done.stderr
    assert (place / "letter.txt").read_text() == "dear"


def test_nothing_left_is_an_error_that_says_why(qidf: Run, work: Work, tmp_path: Path) -> None:
    work.commit(
        "Keep only a short comment", {"shop.py": '"""x"""\ndef f():\n    """Too short"""\n    a\n    b\n    c\n'}
    )
    done = qidf("collection", "docstrings", work.path, "--lang", "python", "-o", tmp_path / "beir")
    assert done.returncode == 2
    assert "no query is left after the filters (docstrings of fewer than 3 words: 1)" in done.stderr
    assert not (tmp_path / "beir").exists()
