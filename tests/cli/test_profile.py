from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_json_schema_and_sums(qidf: Run, index: Path) -> None:
    profile = json.loads(qidf("profile", "--index", index, "--json").stdout)
    assert set(profile) == {
        "documents", "tokens", "terms", "hapax_terms", "hapax_density", "q_hapax", "df_spectrum",
        "hapax_density_readings",
    }  # fmt: skip
    assert sum(band["terms"] for band in profile["df_spectrum"]) == profile["terms"]
    assert profile["df_spectrum"][0] == {"low": 1, "high": 1, "terms": profile["hapax_terms"]}
    assert profile["hapax_density"] == profile["hapax_terms"] / profile["tokens"]
    assert profile["hapax_density"] == profile["hapax_density_readings"]["df1_per_token"]
    assert profile["q_hapax"] == max(0.05, 1 - 7.28 * profile["hapax_density"])


def test_terminal_text(qidf: Run, tree: Path, index: Path) -> None:
    out = qidf("profile", "--index", index).stdout
    assert str(tree) in out
    assert "█" in out
    assert "can't see the queries" in out
    assert max(map(len, out.splitlines())) <= 100


def test_ascii_where_the_encoding_has_no_blocks(qidf: Run, index: Path) -> None:
    out = qidf("profile", "--index", index, env={"PYTHONIOENCODING": "ascii"}).stdout
    assert "##" in out
    assert "?" not in out


@pytest.mark.parametrize("options", [(), ("--no-refresh",)])
def test_path_or_index(qidf: Run, tree: Path, index: Path, options: tuple[str, ...]) -> None:
    assert qidf("profile", tree, "--index", index, *options).stdout == qidf("profile", "--index", index).stdout
