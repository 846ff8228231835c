from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
KEYS = {
    "index", "analyzer", "built", "documents", "tokens", "index_bytes", "seconds", "added", "changed", "removed",
    "skipped", "notes", "segments",
}  # fmt: skip


def test_says_what_it_did_in_one_line(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    (own_tree / "a.bin").write_bytes(b"\0" * 10)
    os.utime(own_tree / "a.bin", (1_600_000_000, 1_600_000_000))
    done = qidf("index", own_tree, "--index", place)
    facts = r"4 documents \(\d+ tokens, index [\d.]+ kB, analyzer code\)"
    assert re.fullmatch(rf"indexed {facts} in \d\.\d\d s → {re.escape(str(place))}\n", done.stdout)
    assert done.stderr == "qidf: skipped 1 binary\n"
    again = qidf("index", own_tree, "--index", place)
    assert re.fullmatch(rf"up to date: {facts} → {re.escape(str(place))}\n", again.stdout)
    (own_tree / "users.py").write_text("one\n")
    (own_tree / "notes.md").unlink()
    (own_tree / "b.py").write_text("two\n")
    assert "s: 1 added, 1 changed, 1 removed → " in qidf("index", own_tree, "--index", place).stdout


def test_json_schema(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    done = qidf("index", own_tree, "--index", tmp_path / "idx", "--json", "--memory", "64")
    report = json.loads(done.stdout)
    assert set(report) == KEYS
    assert (report["documents"], report["added"], report["built"], report["analyzer"]) == (4, 4, True, "code")
    report = json.loads(qidf("index", own_tree, "--index", tmp_path / "idx", "--json").stdout)
    assert set(report) == KEYS
    assert (report["built"], report["added"]) == (False, 0)


def test_analyzer_needs_rebuild(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    refused = qidf("index", own_tree, "--index", place, "--analyzer", "standard")
    assert refused.returncode == 2
    assert "was made with analyzer code, not standard" in refused.stderr
    assert (
        "analyzer standard" in qidf("index", own_tree, "--index", place, "--analyzer", "standard", "--rebuild").stdout
    )
    assert "analyzer standard" in qidf("index", own_tree, "--index", place).stdout  # kept from then on


def test_default_is_this_directory_and_the_cache_folder(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    done = qidf("index", "--json", cwd=own_tree, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert json.loads(done.stdout)["index"].startswith(str(tmp_path / "cache" / "qidf" / "project-"))


def test_verify(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    (own_tree / "new.py").write_text("not looked at\n")
    done = qidf("index", own_tree, "--index", place, "--verify")
    assert done.stdout.startswith("whole: 4 documents")
    [segment] = place.glob("*.qidf")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    done = qidf("index", own_tree, "--index", place, "--verify")
    assert (done.returncode, done.stdout) == (2, "")
    assert "damaged" in done.stderr


def test_plain_python_says_it_is_slower(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from qidf import kernels
    from qidf.cli.group import group

    monkeypatch.setattr(kernels, "COMPILED", False)
    result = CliRunner().invoke(group, ["index", str(tree), "--index", str(tmp_path / "idx")])
    assert result.exit_code == 0
    assert result.stderr.count("slower") == 1
