"""`qidf report` as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.engines.required import load
from tests.lab.folders import make

load("lab", "matplotlib")

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_page_and_the_verdict(qidf: Run, tmp_path: Path) -> None:
    done = qidf("report", make(tmp_path / "go", 50, 40), "--html", tmp_path / "a.html")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{tmp_path / 'go'}"
    assert lines[-1].startswith(f"→ {tmp_path / 'a.html'} (")
    text = (tmp_path / "a.html").read_text()
    assert text.startswith("<!doctype html>")
    assert f"<strong>{lines[1].strip()}</strong>" in text


def test_json(qidf: Run, tmp_path: Path) -> None:
    done = qidf("report", make(tmp_path / "go"), "--html", tmp_path / "a.html", "--queries", "5", "--json")
    (told,) = json.loads(done.stdout)
    assert told["verdict"] == "few"
    assert told["sweep"]["queries"] == 5


def test_nothing_is_written_where_a_collection_is_none(qidf: Run, tmp_path: Path) -> None:
    done = qidf("report", tmp_path / "nothing", "--html", tmp_path / "a.html")
    assert done.returncode == 2
    assert "a BEIR folder has queries.jsonl" in done.stderr
    assert list(tmp_path.iterdir()) == []
