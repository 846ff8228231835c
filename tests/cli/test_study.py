"""`qidf study` as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qidf.cli.study import NAMES
from qidf.lab.studies import STUDIES
from tests.engines.required import load
from tests.lab.folders import make

load("lab", "matplotlib")

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_studies_of_the_lab_are_those_of_the_command() -> None:
    assert tuple(STUDIES) == NAMES


def test_tables_for_people_and_files(qidf: Run, tmp_path: Path) -> None:
    done = qidf("study", "weights", make(tmp_path / "go"), "-o", tmp_path / "out", "--queries", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "Weights"
    assert done.stdout.splitlines()[-1] == f"→ {tmp_path / 'out'}: weights.json, weights.md, weights.svg"
    assert json.loads((tmp_path / "out" / "weights.json").read_text())["collections"]["go"]["queries"] == 5


def test_json(qidf: Run, tmp_path: Path) -> None:
    done = qidf("study", "scaling", make(tmp_path / "go"), "--output", tmp_path / "out", "--seed", "3", "--json")
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "out" / "scaling.json").read_text())
    assert told["settings"]["seed"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weights", "nowhere"), "no such folder"),
        (("nothing", "."), "nothing"),
        (("weights", ".", "--queries", "0"), "queries"),
    ],
)
def test_what_makes_no_sense_is_an_error(qidf: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = qidf("study", *arguments, "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
