"""`qidf proxy` as a command: what it refuses to begin with, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.required import load
from tests.serve.running import ask, proxy, stop

for library in ("starlette", "httpcore", "uvicorn"):
    load("serve", library)

Run = Callable[..., subprocess.CompletedProcess[str]]
AWAY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--upstream", "localhost:9200"], r"upstream must be http\(s\)://HOST:PORT"),
        (["--upstream", "ftp://localhost"], r"upstream must be http\(s\)://HOST:PORT"),
        (["--upstream", "http://"], r"upstream must be http\(s\)://HOST:PORT"),
        (["--upstream", "http://localhost:99999999"], "upstream must be|[Pp]ort"),
        (["--upstream", "http://me:secret@localhost:9200"], "must be without user and password"),
        (["--upstream", AWAY, "--listen", "9201"], "--listen must be HOST:PORT, got '9201'"),
        (["--upstream", AWAY, "--listen", "127.0.0.1:99999"], "--listen must be HOST:PORT"),
        (["--upstream", AWAY, "--listen", "no.such.host.invalid:9201"], "can't listen on no.such.host.invalid:9201"),
        (["--upstream", AWAY, "--q", "hapax"], "'qidf advise' tells the number"),
        (["--upstream", AWAY, "--q", "steep"], "q must be"),
        (["--upstream", AWAY, "--a", "-1"], "a must be"),
        (["--upstream", AWAY, "--ca", "/nowhere.pem"], "--ca /nowhere.pem can't be used: No such file"),
        (["--upstream", AWAY, "--ca", __file__], "can't be used"),
    ],
)
def test_what_it_does_not_begin_with(qidf: Run, options: list[str], message: str) -> None:
    done = qidf("proxy", "--listen", "127.0.0.1:0", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(message, done.stderr)
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_port_that_is_taken(qidf: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = qidf("proxy", "--upstream", AWAY, "--listen", place)
    assert done.returncode == 2
    assert f"can't listen on {place}: Address already in use" in done.stderr


def test_without_the_extra_it_says_what_to_install(qidf: Run, tmp_path: Path) -> None:
    (tmp_path / "httpcore.py").write_text("raise ImportError('no httpcore')")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from qidf.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = qidf("proxy", "--upstream", AWAY, "--listen", "127.0.0.1:0", command=("-c", script))
    assert done.returncode == 2
    assert "pip install 'qidf[serve]'" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals to one process there")
def test_a_signal_ends_it(number: signal.Signals, status: int) -> None:
    with proxy(AWAY) as running:
        assert ask(running.url, "GET", "/_qidf").status == 200
        assert stop(running.process, number) in (status, -number)
        lines = running.log.splitlines()
    assert len(lines) <= 2
    assert lines[0].startswith("qidf: listening on http://127.0.0.1:")
    assert lines[1:] in ([], ["qidf: error: interrupted"])


def test_an_address_of_version_6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with proxy(AWAY, listen="[::1]:0") as running:
        assert running.url.startswith("http://[::1]:")
        assert ask(running.url, "GET", "/_qidf").status == 200
