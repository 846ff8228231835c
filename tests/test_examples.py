"""The programs in `examples/` run, and show what the README says: the file that answers moves to the front."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.opensearch_server import Server
from tests.engines.required import load

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("engine", ["bm25s", "tantivy"])
def test_before_and_after(engine: str) -> None:
    load(engine)
    check(EXAMPLES / f"{engine}_before_after.py")


def test_before_and_after_on_a_server(cluster: Server) -> None:
    load("opensearch", "opensearchpy")
    check(EXAMPLES / "opensearch_before_after.py", cluster.url)


def test_identifiers_on_a_server(cluster: Server) -> None:
    load("opensearch", "opensearchpy")
    program = EXAMPLES / "opensearch_identifiers.py"
    done = subprocess.run([sys.executable, program, cluster.url], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [word for word, _ in rows] == ["before"] * 3 + ["after"] * 3 + ["added"] * 3
    assert not any("getElementsByTagName" in rest for word, rest in rows if word == "before")
    assert "getElementsByTagName" in rows[3][1]
    assert rows[6][1].startswith("getelementsbytagname for elements by tag name")


def check(program: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, check=True)
    (before, *old), (after, *new) = (line.split() for line in done.stdout.splitlines())
    assert (before, after) == ("before", "after")
    answer = "zipfile.py" if sys.version_info < (3, 12) else "zipfile/__init__.py"
    assert new[0] == answer != old[0]


def test_the_readme_has_the_lines_of_the_examples() -> None:
    """What the README shows is what the examples do, but for progress bars and how results are printed."""
    readme = (EXAMPLES.parent / "README.md").read_text()
    for engine in ("bm25s", "tantivy"):
        program = (EXAMPLES / f"{engine}_before_after.py").read_text()
        for line in program[program.index("# before") :].splitlines():
            if line and not line.startswith(("#", "show(")):
                shown = line.replace(", show_progress=False", "").replace("QUESTION", "question")
                assert shown in readme, shown
