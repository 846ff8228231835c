from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
QUERIES = (
    "getUserById",
    "parse the config file the file",
    "retries with exponential backoff zorglub",
    "users.get json",
)
OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("--q", "1", "--a", "1"),
    ("--q", "hapax"),
    ("--q", "0.05", "--k1", "0", "--b", "1"),
    ("--odds", "robertson", "--q", "0.6", "--a", "0"),
)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("analyzer", ["code", "standard"])
def test_sum_is_the_score_of_search_to_the_bit(
    tree: Path, tmp_path: Path, options: tuple[str, ...], analyzer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from qidf.cli import main
    from qidf.index.refresh import refresh

    place = str(tmp_path / "idx")
    refresh(tree, place, analyzer=analyzer)

    def run(*arguments: str) -> object:
        assert main([*arguments, "--index", place, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    compared = 0
    for query in QUERIES:
        hits = run("search", query)
        assert isinstance(hits, list)
        for hit in hits:
            explanation = run("explain", query, hit["id"])
            assert isinstance(explanation, dict)
            total = 0.0
            for term in explanation["terms"]:
                total += term["contribution"]
            assert total == explanation["score"] == hit["score"]
            compared += 1
    assert compared >= 3  # robertson odds weigh common terms 0


def test_json_schema(qidf: Run, index: Path) -> None:
    done = qidf("explain", "config zorglub", "config.py", "--index", index, "--json")
    explanation = json.loads(done.stdout)
    assert set(explanation) == {
        "id", "score", "length", "average_length", "documents", "k1", "b", "a", "scale", "terms",
    }  # fmt: skip
    assert (explanation["documents"], explanation["scale"]) == (4, 1.0)
    known, unknown = explanation["terms"]
    assert set(known) == {
        "term", "query_count", "shaped", "n", "N", "q", "idf", "idf_q", "weight", "tf", "tf_part", "contribution",
        "words",
    }  # fmt: skip
    assert (unknown["n"], unknown["tf"], unknown["contribution"]) == (0, 0, 0)
    assert known["N"] == 4


def test_table(qidf: Run, index: Path) -> None:
    done = qidf("explain", "getUserById in the config zorglub", "users.py", "--index", index)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("users.py  score ")
    assert lines[3].split() == ["term", "shape", "c", "n", "q", "idf", "idf_q", "weight", "tf", "tf", "part", "adds"]
    assert lines[-1].split() == ["sum", lines[0].split()[-1]]
    assert next(line for line in lines if line.startswith("zorglub")).split() == [
        "zorglub",
        "word",
        "1",
        "none",
        "0.0000",
    ]
    assert next(line for line in lines if line.startswith("getuserbyid")).split()[1] == "ident"
    assert max(map(len, lines)) <= 80


def test_query_without_words(qidf: Run, index: Path) -> None:
    done = qidf("explain", "?", "users.py", "--index", index)
    assert done.returncode == 0
    assert "the query holds no word" in done.stdout


def test_path_is_refreshed_first(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    (own_tree / "new.py").write_text("quuxify\n")
    assert qidf("explain", "quuxify", "new.py", own_tree, "--index", place, "--no-refresh").returncode == 2
    assert "quuxify" in qidf("explain", "quuxify", "new.py", own_tree, "--index", place).stdout
