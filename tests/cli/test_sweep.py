"""`qidf sweep` as a process."""

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
def collection(tmp_path: Path) -> Path:
    """Return a BEIR folder whose queries are found by a rare word that common ones drown."""
    return make(tmp_path / "beir")


def test_a_table_for_people(qidf: Run, collection: Path) -> None:
    done = qidf("sweep", collection)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{collection}  analyzer standard", "12 judged queries, 20 documents"]
    assert [line.split()[0] for line in lines[4:24]] == [f"{0.05 * i:g}" for i in range(1, 21)]
    assert lines[26].startswith("BM25 (q = 1, a = 1)")
    assert [line.split(",")[0].split()[0] for line in lines[27:31]] == ["q", "q", "hapax", "auto"]
    assert sum(line.count("*") for line in lines[4:24]) == 2
    assert max(map(len, lines)) <= 100


def test_json_agrees_with_evaluate(qidf: Run, collection: Path) -> None:
    told = json.loads(qidf("sweep", collection, "--q", "0.6", "--a", "0.5", "--json").stdout)
    (curve,) = told["curves"]
    assert (curve["a"], curve["q"]) == (0.5, [0.6, 1.0])
    other = json.loads(qidf("evaluate", collection, "--q", "1", "--q", "0.6", "--a", "0.5", "--json").stdout)
    assert curve["nDCG@10"] == pytest.approx([other["results"][1]["nDCG@10"], other["results"][0]["nDCG@10"]])
    plain = json.loads(qidf("evaluate", collection, "--q", "1", "--q", "auto", "--json").stdout)
    assert told["bm25"] == pytest.approx(plain["results"][0]["nDCG@10"])
    assert told["predicted"]["auto"]["nDCG@10"] == pytest.approx(plain["results"][1]["nDCG@10"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--q", "-1000"), "q must keep"),
        (("--a", "-1"), "a must be"),
        (("--q", "nan"), "q must be"),
        (("--queries", "0"), "queries"),
    ],
)
def test_what_makes_no_sense_is_an_error(qidf: Run, collection: Path, arguments: tuple[str, str], message: str) -> None:
    done = qidf("sweep", collection, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
