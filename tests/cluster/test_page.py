"""docs/clusters.md: its commands run on a real server, and print what the page shows, but for numbers and names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.opensearch_server import Server, request
from tests.engines.required import load
from tests.serve.running import proxy

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "clusters.md").read_text()
BLOCKS = re.findall(r'^```text title="terminal"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(cluster: Server) -> Iterator[Server]:
    load("opensearch", "opensearchpy")
    request(f"{cluster.url}/qidf-example?ignore_unavailable=true", method="DELETE")
    yield cluster
    request(f"{cluster.url}/qidf-example?ignore_unavailable=true", method="DELETE")


def test_the_commands_run_in_their_order(server: Server, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QIDF", "COLUMNS"))}
    kept |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}", "PYTHONIOENCODING": "utf-8"}
    commands = [line.removeprefix("$ ") for block in BLOCKS for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 8
    (tmp_path / "search.json").write_text(re.findall(r'```json title="search.json"\n(.*?)```', PAGE, re.DOTALL)[0])
    with proxy(server.url, "--field", "content") as front:
        places = {"http://localhost:9200": server.url, "http://localhost:9201": front.url}
        for command in commands:
            for shown, real in places.items():
                command = command.replace(shown, real)
            words = shlex.split(command)
            if words[0] == "python":
                words[1] = str(ROOT / words[1])
            done = subprocess.run(words, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout, command
