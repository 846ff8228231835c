"""A server between a test and the real one, that can be told to refuse, to wait and to die."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.engines.required import absent


class Seen(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one.lower() == name), None)


class Between:
    """What a test says of the next requests, and what came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[Seen] = []
        self.status: Callable[[Seen], int] = lambda seen: 0
        self.wait: Callable[[Seen], float] = lambda seen: 0.0
        self.instead: Callable[[Seen], bytes | None] = lambda seen: None
        self.dropped: set[str] = set()

    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.seen]

    def searches(self) -> list[Seen]:
        return [one for one in self.seen if "search" in one.path and "_search_shards" not in one.path]


class Certificate(NamedTuple):
    """A certificate for 127.0.0.1 that nobody but itself has signed, and its key: two PEM files."""

    file: Path
    key: Path


def certificate(folder: Path) -> Certificate:
    """Make a certificate, or skip where there is no openssl."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    if not shutil.which("openssl"):
        absent("openssl", "no openssl on the path")
    # fmt: off
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", made.file, "-keyout", made.key],
        check=True, capture_output=True,
    )
    # fmt: on
    return made


@contextmanager
def between(upstream: str, certificate: Certificate | None = None) -> Iterator[Between]:
    """Forward each request to `upstream`; 0 as `status` forwards, -1 closes the connection, else that is answered.

    With a certificate it speaks TLS.
    """
    target = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            if self.headers.get("transfer-encoding") == "chunked":
                body = b"".join(iter(self._chunk, b""))
            else:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
            seen = Seen(self.command, self.path, list(self.headers.items()), body)
            told.seen.append(seen)
            time.sleep(told.wait(seen))
            status = told.status(seen)
            if status < 0:
                self.close_connection = True
                return
            if status:
                self._answer(status, [("content-type", "application/json")], b'{"error": "as told"}')
                return
            if (answered := told.instead(seen)) is not None:
                self._answer(200, [("content-type", "application/json")], answered)
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
            with closing(HTTPConnection(target.hostname or "", target.port or 80, timeout=30)) as connection:
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                data = answer.read()
            left_out = {"transfer-encoding", "content-length", *told.dropped}
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in left_out]
            self._answer(answer.status, kept, data)

        def _chunk(self) -> bytes:
            size = int(self.rfile.readline().split(b";")[0], 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            return data

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in [*headers, ("content-length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do  # noqa: N815 (http.server's names)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # who asked is gone

    server = Server(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.file, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    told = Between(f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
