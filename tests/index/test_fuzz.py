"""Ten thousand damaged indexes (QIDF_LONG=1; else a thousand): an error or the right answer, never anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 10_000 if os.environ.get("QIDF_LONG") == "1" else 1_000


@pytest.mark.parametrize("kernels", ["", "python"], ids=["kernels", "twin"])
def test_damage_is_an_error_or_does_no_harm(kernels: str) -> None:
    cases = CASES // 20 if kernels else CASES
    run = subprocess.run(
        [sys.executable, "-m", "tests.index.fuzz", "--cases", str(cases), "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "QIDF_KERNELS": kernels},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    counts = {line.split()[1]: int(line.split()[0].replace(",", "")) for line in run.stdout.splitlines()}
    assert sum(counts.values()) == cases
    assert counts["IndexCorruptError"] > cases / 2
    assert counts["right"] > 0, "a table of sources, or the zeros that fill a page, may be anything"
