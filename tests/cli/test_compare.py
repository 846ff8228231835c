"""`qidf compare` as a process, on runs that `qidf evaluate` writes and on a stranger's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.required import load
from tests.lab.folders import make

load("lab", "ir_measures")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def runs(qidf: Run, tmp_path: Path) -> Path:
    done = qidf("evaluate", make(tmp_path / "go"), "--q", "1", "--q", "0.2", "--a", "0", "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["q=0.2,a=0.run", "q=1,a=0.run"]
    reverse = [line.split() for line in (tmp_path / "runs" / "q=1,a=0.run").read_text().splitlines()]
    lines = [f"{query} Q0 {document} 1 {-float(score)} other\n" for query, _, document, _, score, _ in reverse]
    (tmp_path / "runs" / "other.run").write_text("".join(lines))
    return tmp_path / "runs"


def test_means_are_those_of_evaluate(qidf: Run, runs: Path) -> None:
    folder = runs.parent / "go"
    told = json.loads(
        qidf("compare", runs / "q=1,a=0.run", runs / "q=0.2,a=0.run", "--collection", folder, "--json").stdout
    )
    means = json.loads(qidf("evaluate", folder, "--q", "1", "--q", "0.2", "--a", "0", "--json").stdout)["results"]
    assert told["nDCG@10"] == pytest.approx([own["nDCG@10"] for own in means])
    assert told["difference"] == pytest.approx(means[1]["differences"]["nDCG@10"])


def test_what_moved_is_told_with_its_terms(qidf: Run, runs: Path) -> None:
    folder = runs.parent / "go"
    for line in (folder / "queries.jsonl").read_text().splitlines():
        assert "rareName" in line
    (runs / "bad.run").write_text((runs / "other.run").read_text().replace(" other\n", " qidf:q=1\n"))
    done = qidf("compare", runs / "bad.run", runs / "q=0.2,a=0.run", "--collection", folder, "--top", "2")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"A  {runs / 'bad.run'}  nDCG@10 ")
    assert "B wins 12, loses 0, 0 queries the same" in lines[2]
    assert lines[4] == "Won by B  the 2 that moved most of 12"
    assert "rarename" in done.stdout
    assert lines[-2].startswith("Of each term")
    assert max(map(len, lines[2:])) <= 100


def test_a_stranger_s_run_with_trec_s_judgments(qidf: Run, runs: Path) -> None:
    (runs / "qrels").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(12)))
    done = qidf("compare", runs / "q=1,a=0.run", runs / "other.run", "--qrels", runs / "qrels", "--seed", "3", "--json")
    told = json.loads(done.stdout)
    assert told["queries"] == 12
    assert told["difference"]["lost"] == 12
    assert not any(one["terms"] for one in told["moved"])


def test_what_makes_no_sense_is_an_error(qidf: Run, runs: Path) -> None:
    pair = (runs / "q=1,a=0.run", runs / "other.run")
    (runs / "others.txt").write_text("z9 0 d1 1\n")
    for arguments, message in [
        ((*pair,), "either --collection or --qrels"),
        ((*pair, "--qrels", runs / "others.txt"), "answers none of the 1 judged queries"),
        ((*pair, "--qrels", runs / "nothing"), "no such file"),
        ((*pair, "--collection", runs.parent / "go", "--top", "0"), "top must be"),
    ]:
        done = qidf("compare", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
