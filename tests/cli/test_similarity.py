"""`qidf similarity` as a process: what it shows, what it asks for, what Ctrl-C leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.between import between
from tests.engines.opensearch_server import Server, request
from tests.engines.required import load

load("opensearch", "opensearchpy")

Run = Callable[..., subprocess.CompletedProcess[str]]
INDEX = "cli-similarity"


@pytest.fixture
def index(cluster: Server) -> Iterator[str]:
    """Return the URL of a fresh index, of two fields of which one is scored as it is by default."""
    url = f"{cluster.url}/{INDEX}"
    mapping = {"properties": {"body": {"type": "text"}, "path": {"type": "keyword"}}}
    request(url, {"mappings": mapping, "settings": {"number_of_replicas": 0}}, "PUT")
    request(f"{url}/_doc/1?refresh=true", {"body": "read the config file", "path": "a"}, "PUT")
    yield f"opensearch+{url}#body"
    request(url, None, "DELETE")


def similarity(engine: str) -> Any:
    (settings,) = request(f"{engine.removeprefix('opensearch+').partition('#')[0]}/_settings").values()
    return settings["settings"]["index"].get("similarity")


def test_alone_it_only_shows(qidf: Run, index: str) -> None:
    done = qidf("similarity", "--engine", index, "--q", "0.6")
    assert done.returncode == 0
    assert "Math.expm1(0.4" in done.stdout
    assert "  path  keyword\n" in done.stdout
    assert done.stdout.endswith("nothing was changed; do it: add --apply\n")
    assert similarity(index) is None


def test_there_and_back(qidf: Run, index: str) -> None:
    done = qidf("similarity", "--engine", index, "--q", "0.6", "--apply", "--all-fields", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"done: {INDEX} is open, 4 scores checked" in done.stdout
    assert f"qidf: closing {INDEX}" in done.stderr
    assert similarity(index)["default"]["type"] == "scripted"
    again = json.loads(qidf("similarity", "--engine", index, "--q", "0.6", "--apply", "--yes", "--json").stdout)
    assert (again["settings"], again["changed"]) == ({}, False)
    back = json.loads(qidf("similarity", "--engine", index, "--revert", "--all-fields", "--yes", "--json").stdout)
    assert (back["changed"], back["scores_checked"]) == (True, 4)
    assert similarity(index) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--q", "0.6", "--apply", "--yes"],
            "1 other field of cli-similarity would change, too: path (add --all-fields",
        ),
        (["--q", "0.6", "--apply", "--all-fields"], "nobody can be asked here: add --yes"),
        (["--q", "0.6", "--apply", "--revert"], "--apply and --revert at once"),
        (["--q", "0.6", "--revert"], "--revert takes no --q"),
        (["--apply"], "say --q NUMBER, or --revert"),
        (["--q", "hapax"], "settings know no query"),
        (["--revert"], "nothing to bring back"),
    ],
)
def test_what_is_refused(qidf: Run, index: str, options: list[str], message: str) -> None:
    done = qidf("similarity", "--engine", index, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert similarity(index) is None


def test_only_a_server_has_one(qidf: Run, tmp_path: Path) -> None:
    done = qidf("similarity", "--engine", f"bm25s:{tmp_path}", "--q", "0.6")
    assert (done.returncode, done.stdout) == (2, "")
    assert "only the similarity of a server's index can be set" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to one process there")
def test_ctrl_c_while_the_index_is_closed_opens_it_again(
    cluster: Server,
    index: str,
    environment: dict[str, str],
) -> None:
    with between(cluster.url) as middle:
        child: list[subprocess.Popen[str]] = []

        def interrupt(seen: Any) -> float:
            if seen.method == "PUT" and seen.path.endswith(f"/{INDEX}/_settings") and not interrupted:
                interrupted.append(seen)
                child[0].send_signal(signal.SIGINT)
            return 0.2 if interrupted else 0.0

        interrupted: list[Any] = []
        middle.wait = interrupt
        engine = index.replace(cluster.url, middle.url)
        command = [sys.executable, "-m", "qidf", "similarity", "--engine", engine, "--q", "0.6"]
        command += ["--apply", "--all-fields", "--yes"]
        child.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        _, err = child[0].communicate(timeout=60)
    assert interrupted
    assert child[0].returncode == 130
    assert err.endswith("qidf: bringing back what was there\nqidf: error: interrupted\n")
    assert similarity(index) is None
    rows = request(f"{cluster.url}/_cat/indices/{INDEX},qidf-scratch-*?format=json&expand_wildcards=all")
    assert [(row["index"], row["status"]) for row in rows] == [(INDEX, "open")]
