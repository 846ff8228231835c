"""`qidf apply`: what it says, and that the folder is changed as `rescale.apply` changes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.bm25s_folder import load_folder, save, texts

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tmp_path / "saved", texts())


def test_there_and_back(qidf: Run, saved: Path) -> None:
    before = load_folder(saved).scores["data"]
    done = qidf("apply", "bm25s", saved, "--q", "0.05")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == f"{saved}  q 1 → 0.05: {len(before):,} scores rewritten"
    assert second.endswith(f"back: qidf apply bm25s {saved} --q 1")
    assert "is at q = 0.05 already, nothing to do" in qidf("apply", "bm25s", saved, "--q", "0.05").stdout
    assert "bm25s' own scores are back" in qidf("apply", "bm25s", saved, "--q", "1").stdout
    assert (load_folder(saved).scores["data"] == before).all()


def test_json_out_and_no_backup(qidf: Run, saved: Path) -> None:
    done = qidf("apply", "bm25s", saved, "--q", "hapax", "--out", saved.parent / "copy", "--json")
    report = json.loads(done.stdout)
    assert set(report) == {"folder", "q", "was", "scores", "exact", "original"}
    assert report["folder"] == str(saved.parent / "copy")
    assert 0.05 <= report["q"] < 1
    done = qidf("apply", "bm25s", saved, "--q", "0.5", "--no-backup")
    assert len(done.stdout.splitlines()) == 1
    assert "but for a last bit" in qidf("apply", "bm25s", saved, "--q", "1").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bm25s", "saved", "--q", "auto"], "how each query is written"),
        (["bm25s", "saved", "--q", "steep"], "q must be a number"),
        (["bm25s", "nowhere", "--q", "0.5"], "no folder nowhere"),
        (["bm25s", ".", "--q", "0.5"], "not a folder that bm25s saved"),
        (["bm25s", "saved", "--q", "0.5", "--out", "."], "not an empty folder"),
        (["bm25s", "saved"], "missing option '--q'"),
        (["tantivy", "saved", "--q", "1"], "'tantivy' is not 'bm25s'"),
    ],
)
def test_errors(qidf: Run, saved: Path, arguments: list[str], message: str) -> None:
    done = qidf("apply", *arguments, cwd=saved.parent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
