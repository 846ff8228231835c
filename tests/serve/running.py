"""`qidf proxy` as a process of its own, in front of a server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """An answer read to its end."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one.lower() == name), None)


class Proxy(NamedTuple):
    """A running proxy."""

    url: str
    process: subprocess.Popen[bytes]
    file: Path

    @property
    def log(self) -> str:
        return self.file.read_text()

    def memory(self) -> int:
        """Return the most bytes it has held so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


@contextmanager
def proxy(upstream: str, *options: str, listen: str = "127.0.0.1:0") -> Iterator[Proxy]:
    """Run `qidf proxy` for as long as the block lasts."""
    command = [sys.executable, "-m", "qidf", "proxy", "--upstream", upstream, "--listen", listen, *options]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log")
        with file.open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
        try:
            yield Proxy(_listening(process, file), process, file)
        finally:
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("QIDF_")}


def _listening(process: subprocess.Popen[bytes], file: Path) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        if match := re.search(r"listening on (http://\S+),", file.read_text()):
            return match[1]
        time.sleep(0.01)
    raise AssertionError(f"the proxy does not listen: {file.read_text()}")


def ask(
    url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, chunked: bool = False
) -> Answer:
    """Send one request as it is, with nothing escaped, and return the answer."""
    with_connection = begin(url, method, path, body, headers, chunked=chunked)
    connection, response = with_connection
    try:
        return Answer(response.status, response.getheaders(), response.read())
    finally:
        connection.close()


def begin(
    url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, chunked: bool = False
) -> tuple[HTTPConnection, HTTPResponse]:
    """Send one request, and return where its answer can be read."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port or 80, timeout=30)
    connection.request(method, path, body, headers or {}, encode_chunked=chunked)
    return connection, connection.getresponse()


def stop(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal, and return the exit status."""
    process.send_signal(number)
    return process.wait(timeout=30)
