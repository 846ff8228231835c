"""The proxy as a process, in front of the real server and of one that refuses, waits and dies."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from qidf.engines import connect
from qidf.expansion.building import build
from qidf.expansion.place import path_of
from tests.cluster.between import Between, between, certificate
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server, request
from tests.engines.required import load
from tests.serve.running import Answer, Proxy, ask, begin, proxy

for library in ("starlette", "httpcore", "uvicorn"):
    load("serve", library)

INDEX = "proxied"
QUERY = "read the config file everywhere"
BODY = {"query": {"match": {"body": QUERY}}, "size": 100, "_source": False}
JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
DFS = "search_type=dfs_query_then_fetch"


@pytest.fixture(scope="module")
def server(cluster: Server) -> Iterator[Server]:
    request(f"{cluster.url}/{INDEX}?ignore_unavailable=true", method="DELETE")
    mapping = {"properties": {"body": {"type": "text"}, "title": {"type": "text"}}}
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    request(f"{cluster.url}/{INDEX}", {"mappings": mapping, "settings": settings}, "PUT")
    lines = [line for id, text in DOCUMENTS for line in ({"index": {"_id": id}}, {"body": text, "title": text[:20]})]
    ask(cluster.url, "POST", f"/{INDEX}/_bulk?refresh=true", joined(lines), LINES)
    yield cluster
    request(f"{cluster.url}/{INDEX}?ignore_unavailable=true", method="DELETE")


@pytest.fixture(scope="module")
def front(server: Server) -> Iterator[Proxy]:
    """Run a proxy right in front of the server."""
    with proxy(server.url, "--field", "body") as running:
        yield running


@pytest.fixture
def middle(server: Server) -> Iterator[Between]:
    with between(server.url) as told:
        yield told


@pytest.fixture
def wayward(middle: Between) -> Iterator[Proxy]:
    """Run a proxy in front of what refuses, waits and dies as it is told."""
    with proxy(middle.url, "--field", "body") as running:
        yield running


def joined(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def search(url: str, body: Any = BODY, path: str = f"/{INDEX}/_search", **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(url, "POST", path, data, {**JSON, **headers})


def scores(answer: Any) -> dict[str, float]:
    found = json.loads(answer.body) if isinstance(answer, Answer) else answer
    return {hit["_id"]: hit["_score"] for hit in found["hits"]["hits"]}


def counts(front: Proxy) -> Any:
    return json.loads(ask(front.url, "GET", "/_qidf").body)


@pytest.fixture(scope="module")
def expected(server: Server) -> dict[str, float]:
    with connect(f"opensearch+{server.url}/{INDEX}#body") as engine:
        return {hit.id: hit.score for hit in engine.search(QUERY, 100)}


@pytest.fixture(scope="module")
def plain(server: Server) -> dict[str, float]:
    return scores(search(server.url))


# What is rewritten


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_search_has_the_engines_weights(front: Proxy, expected: dict[str, float], method: str) -> None:
    answer = ask(front.url, method, f"/{INDEX}/_search?{DFS}", json.dumps(BODY).encode(), JSON)
    assert answer.header("x-qidf") == "rewritten"
    assert scores(answer) == pytest.approx(expected, rel=1e-5)


def test_an_msearch_is_rewritten_search_by_search(front: Proxy, server: Server, expected: dict[str, float]) -> None:
    lines = joined([{"index": INDEX}, BODY, {}, {"query": {"match_all": {}}, "size": 1}])
    answer = ask(front.url, "POST", f"/{INDEX}/_msearch?{DFS}", lines, LINES)
    first, second = json.loads(answer.body)["responses"]
    assert scores(first) == pytest.approx(expected, rel=1e-5)
    assert second["hits"]["total"]["value"] == len(DOCUMENTS)


@pytest.mark.parametrize(
    "path", [f"/{INDEX}/_async_search", f"/_plugins/_asynchronous_search?index={INDEX}", f"/{INDEX}/_search"]
)
def test_searches_of_every_kind_are_rewritten(middle: Between, wayward: Proxy, path: str) -> None:
    """Asynchronous ones this server does not know: what it is sent is looked at."""
    search(wayward.url, path=path)
    assert any(b'"boost"' in seen.body for seen in middle.searches())


def test_a_body_in_gzip(front: Proxy, expected: dict[str, float]) -> None:
    data = gzip.compress(json.dumps(BODY).encode())
    answer = search(front.url, data, f"/{INDEX}/_search?{DFS}", **{"content-encoding": "gzip"})
    assert answer.header("x-qidf") == "rewritten"
    assert scores(answer) == pytest.approx(expected, rel=1e-5)


def test_a_body_in_pieces(front: Proxy, expected: dict[str, float]) -> None:
    data = json.dumps(BODY).encode()
    pieces = iter([data[:10], data[10:11], data[11:]])
    headers = JSON | {"transfer-encoding": "chunked"}
    answer = ask(front.url, "POST", f"/{INDEX}/_search?{DFS}", pieces, headers, chunked=True)
    assert scores(answer) == pytest.approx(expected, rel=1e-5)


def test_an_answer_in_gzip_passes_as_it_came(front: Proxy, server: Server) -> None:
    here, there = (search(url, **{"accept-encoding": "gzip"}) for url in (front.url, server.url))
    assert here.header("content-encoding") == there.header("content-encoding") == "gzip"
    assert gzip.decompress(here.body)


# What passes as it came

PASSING = [
    ("GET", "/", b""),
    ("HEAD", f"/{INDEX}", b""),
    ("HEAD", "/nowhere", b""),
    ("GET", f"/{INDEX}/_doc/doc1?pretty&filter_path=_id,found", b""),
    ("GET", f"/{INDEX}/_doc/a%2Fb%20c%3F", b""),
    ("GET", f"/{INDEX}/_doc/a+b//c", b""),
    ("PUT", f"/{INDEX}-new/_doc/1?refresh=true", b'{"body": "text"}'),
    ("DELETE", f"/{INDEX}-new", b""),
    ("POST", f"/{INDEX}/_count", json.dumps({"query": BODY["query"]}).encode()),
    ("POST", f"/{INDEX}/_validate/query", json.dumps({"query": BODY["query"]}).encode()),
    ("POST", f"/{INDEX}/_delete_by_query?conflicts=proceed", b'{"query": {"match": {"body": "nowhere at all"}}}'),
    ("POST", f"/{INDEX}/_update_by_query", b'{"query": {"match": {"body": "nowhere at all"}}}'),
    ("POST", f"/{INDEX}/_search/template", b'{"source": {"query": {"match": {"body": "{{text}}"}}}}'),
    ("POST", f"/{INDEX}/_explain/doc1", json.dumps({"query": BODY["query"]}).encode()),
    ("GET", f"/{INDEX}/_search?q=body:config%20file&size=1", b""),
    ("POST", "/_search/scroll", b'{"scroll_id": "nothing"}'),
    ("OPTIONS", f"/{INDEX}", b""),
    ("POST", f"/{INDEX}/_search", b"this is no JSON"),
    ("POST", f"/{INDEX}/_search", b'{"query": {"match": {"body": "a", "body": "b"}}}'),
    ("POST", f"/{INDEX}/_search", b'{"query": {"nothing": {}}}'),
    ("POST", f"/{INDEX}/_search", b'{"query": {"match": {"body": "config file"}}} trailing'),
    ("POST", f"/{INDEX}/_msearch", b'{}\n{"size": 0}'),
    ("POST", "/nowhere/_search", json.dumps(BODY).encode()),
]


@pytest.mark.parametrize(("method", "path", "body"), PASSING)
def test_it_answers_as_the_server_does(
    server: Server, middle: Between, wayward: Proxy, method: str, path: str, body: bytes
) -> None:
    here = ask(wayward.url, method, path, body, JSON)
    own = middle.seen[-1]
    assert (own.method, own.path, own.body) == (method, path, body)
    if method in ("PUT", "DELETE"):  # which can't be done twice
        assert here.status in (200, 201)
        return
    there = ask(server.url, method, path, body, JSON)
    assert here.status == there.status
    assert settled(here.body) == settled(there.body)
    assert here.header("content-type") == there.header("content-type")


def settled(body: bytes) -> bytes:
    return re.sub(rb'"took" ?: ?\d+', b'"took":0', body)


def test_headers_pass_both_ways(middle: Between, wayward: Proxy) -> None:
    headers = {"X-Opaque-Id": "mine", "Authorization": "Basic bWU6cGFzcw==", "X-Custom": "a, b", "Accept": "*/*"}
    answer = ask(wayward.url, "GET", f"/{INDEX}/_doc/doc1", None, headers)
    seen = middle.seen[-1]
    assert {name: seen.header(name.lower()) for name in headers} == headers
    assert seen.header("host") == urlsplit(middle.url).netloc
    assert answer.header("x-opaque-id") == "mine"


class Odd(BaseHTTPRequestHandler):
    """A server with odd answers, by the path."""

    protocol_version = "HTTP/1.1"
    release = threading.Event()
    gone = threading.Event()
    received = 0

    def do_GET(self) -> None:
        if self.path == "/twice":
            self.send_response(200)
            for value in ("a=1", "b=2"):
                self.send_header("Set-Cookie", value)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/slow":
            self._head("chunked")
            self._piece(b"first")
            self.release.wait(10)
            self._piece(b"last")
            self._piece(b"")
        elif self.path == "/broken":
            self._head("chunked")
            self._piece(b"half of it")
            self.close_connection = True
        elif self.path == "/wait":
            self.connection.settimeout(10)
            try:
                while self.connection.recv(1):
                    pass
                self.gone.set()
            except OSError:
                self.gone.set()
            self.close_connection = True
        elif self.path == "/large":
            self.send_response(200)
            self.send_header("Content-Length", str(200 * 2**20))
            self.end_headers()
            for _ in range(200):
                self.wfile.write(bytes(2**20))

    def do_POST(self) -> None:
        digest, size = sha256(), int(self.headers.get("content-length", 0))
        while size:
            data = self.rfile.read(min(size, 2**20))
            digest.update(data)
            size -= len(data)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _head(self, encoding: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", encoding)
        self.end_headers()

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def odd() -> Iterator[Proxy]:
    Odd.release.clear()
    Odd.gone.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        with proxy(f"http://127.0.0.1:{server.server_port}") as running:
            yield running
    finally:
        server.shutdown()
        server.server_close()


def test_several_headers_of_a_name_stay_several() -> None:
    with odd() as front:
        answer = ask(front.url, "GET", "/twice")
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["a=1", "b=2"]


def test_an_answer_streams_as_it_comes() -> None:
    with odd() as front:
        connection, response = begin(front.url, "GET", "/slow")
        with closing(connection):
            assert response.read(5) == b"first"
            Odd.release.set()
            assert response.read() == b"last"


def test_an_answer_that_breaks_off_breaks_off_here_too() -> None:
    with odd() as front:
        connection, response = begin(front.url, "GET", "/broken")
        with closing(connection), pytest.raises((HTTPException, OSError)):
            response.read()
        assert ask(front.url, "GET", "/twice").status == 200


def test_a_client_that_leaves_is_not_waited_for() -> None:
    """The server hears of it, and can cancel the search."""
    with odd() as front:
        place = urlsplit(front.url)
        with socket.create_connection((place.hostname, place.port)) as raw:
            raw.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            time.sleep(0.3)
        assert Odd.gone.wait(5)


@pytest.mark.parametrize("path", ["/_bulk", f"/{INDEX}/_search"])
def test_long_bodies_pass_without_being_kept(path: str) -> None:
    data = bytes(200 * 2**20)
    with odd() as front:
        ask(front.url, "GET", "/twice")
        before = front.memory()
        answer = ask(front.url, "POST", path, data, JSON)
        assert answer.body == sha256(data).hexdigest().encode()
        assert len(ask(front.url, "GET", "/large").body) == 200 * 2**20
        assert front.memory() - before < 64 * 2**20
    if path.endswith("_search"):
        assert answer.header("x-qidf") == "unchanged; a body of more than 8388608 bytes"


@pytest.mark.parametrize(
    "data",
    [
        zlib.compress(b"x"),
        gzip.compress(json.dumps(BODY).encode())[:-9],
        gzip.compress(bytes(100 * 2**20)),
        gzip.compress(b"{}") + b"more",
        b"",
    ],
    ids=["zlib", "cut off", "bomb", "with a tail", "empty"],
)
def test_a_gzip_body_that_is_none_is_the_servers_to_refuse(front: Proxy, server: Server, data: bytes) -> None:
    here, there = (search(url, data, **{"content-encoding": "gzip"}) for url in (front.url, server.url))
    assert here.status == there.status
    assert front.memory() < 200 * 2**20


# Failing open


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_refused_body_is_followed_by_the_original(
    middle: Between, wayward: Proxy, plain: dict[str, float], status: int
) -> None:
    middle.status = lambda seen: status if b'"boost"' in seen.body else 0
    answer = search(wayward.url)
    assert scores(answer) == plain
    assert answer.header("x-qidf") == f"failed open; the server refused the rewritten body: status {status}"
    assert f"went without q-IDF: the server refused the rewritten body: status {status}" in wayward.log
    assert [json.loads(seen.body) for seen in middle.searches()][1:] == [BODY]


def test_a_server_that_dies_over_a_rewritten_body_gets_the_original(
    middle: Between, wayward: Proxy, plain: dict[str, float]
) -> None:
    middle.status = lambda seen: -1 if b'"boost"' in seen.body else 0
    answer = search(wayward.url)
    assert scores(answer) == plain
    assert (answer.header("x-qidf") or "").startswith("failed open")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, status) for path in ("_mapping", "_settings") for status in (401, 403, 500, -1)),
        *((path, status) for path in ("_search_shards", "_mtermvectors") for status in (429, 500, -1)),
        ("_mtermvectors|_analyze", 403),
    ],
)
def test_without_statistics_the_plain_query_runs(
    middle: Between, wayward: Proxy, plain: dict[str, float], path: str, status: int
) -> None:
    middle.status = lambda seen: status if re.search(path, seen.path) else 0
    answer = search(wayward.url)
    assert scores(answer) == plain
    assert (answer.header("x-qidf") or "").startswith("failed open")
    assert "went without q-IDF" in wayward.log
    assert counts(wayward)["failed_open"] == 1


def test_statistics_that_take_too_long_are_done_without(
    middle: Between, wayward: Proxy, plain: dict[str, float]
) -> None:
    middle.wait = lambda seen: 4.0 if "_mtermvectors" in seen.path else 0.0
    begun = time.monotonic()
    answer = search(wayward.url)
    assert scores(answer) == plain
    assert time.monotonic() - begun < 4
    assert answer.header("x-qidf") == "failed open; _mtermvectors was not answered within 2 s"


def test_a_refused_item_of_many_is_followed_by_the_original(
    middle: Between, wayward: Proxy, server: Server, plain: dict[str, float]
) -> None:
    """A query that only the rewritten form makes too deep is not known, so the server's answer is made to refuse it."""
    refusal = json.dumps({"responses": [{"error": {"type": "x"}, "status": 400}, {"hits": {"hits": []}}]}).encode()
    middle.instead = lambda seen: refusal if b'"boost"' in seen.body else None
    lines = joined([{}, BODY, {}, {"query": {"match_all": {}}, "size": 0}])
    answer = ask(wayward.url, "POST", f"/{INDEX}/_msearch", lines, LINES)
    assert scores(json.loads(answer.body)["responses"][0]) == plain
    assert answer.header("x-qidf") == "failed open; the server refused the rewritten body: status 400"


def test_the_callers_errors_are_its_own(front: Proxy) -> None:
    answer = search(front.url, {"query": {"match": {"body": {"query": "config file", "no_such": 1}}}})
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["root_cause"][0]["type"] == "parsing_exception"


# Users


SIGNATURE = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu/es/aws4_request, SignedHeaders=host, Signature=0"


def test_signed_requests_pass_as_they_are_and_are_told(middle: Between, wayward: Proxy) -> None:
    headers = {"Authorization": SIGNATURE, "Host": "search.example:9200"}
    answer = search(wayward.url, **headers)
    assert answer.header("x-qidf") == "signed; passed as it came"
    by_query = search(wayward.url, path=f"/{INDEX}/_search?X-Amz-Signature=0")
    assert by_query.header("x-qidf") == "signed; passed as it came"
    assert len(middle.seen) == 2
    assert middle.seen[0].header("host") == "search.example:9200"
    assert all(json.loads(seen.body) == BODY for seen in middle.seen)
    assert counts(wayward)["signed"] == 2


def test_credentials_go_with_the_statistics_and_are_kept_from_others(middle: Between, wayward: Proxy) -> None:
    secrets = ["Basic bWU6cGFzcw==", "ApiKey b3RoZXI="]
    for secret in secrets:
        search(wayward.url, Authorization=secret)
    for secret in secrets:
        own = [seen.path.partition("?")[0] for seen in middle.seen if seen.header("authorization") == secret]
        for path in (f"/{INDEX}/_mapping", f"/{INDEX}/_settings", "/_mtermvectors", f"/{INDEX}/_search"):
            assert own.count(path) == 1, "what one user may know is not kept for another"
    number = len(middle.seen)
    search(wayward.url, Authorization=secrets[0], **{"X-Opaque-Id": "7", "User-Agent": "another"})
    assert len(middle.seen) == number + 1, "but no user asks twice"
    middle.status = lambda seen: 500
    search(wayward.url, {"query": {"match": {"body": "new words"}}}, Authorization=secrets[0])
    assert not any(part in wayward.log for part in ("bWU6cGFzcw", "b3RoZXI", "Basic", "ApiKey"))


# A server that is away


def test_a_server_that_is_away_and_comes_back(server: Server) -> None:
    place = urlsplit(server.url)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with proxy(f"http://127.0.0.1:{port}", "--field", "body") as front:
        for answer in (search(front.url), ask(front.url, "GET", "/")):
            assert answer.status == 502
            assert f"http://127.0.0.1:{port} does not answer" in json.loads(answer.body)["error"]["reason"]
        with forwarding(port, place.hostname or "", place.port or 0):
            assert search(front.url).status == 200


@contextmanager
def forwarding(port: int, host: str, target: int) -> Iterator[None]:
    """Forward connections to a server, for as long as the block lasts."""
    listener = socket.create_server(("127.0.0.1", port))
    open_sockets: list[socket.socket] = []

    def pump(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection((host, target))
            open_sockets.extend((here, there))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for one in open_sockets:
            one.close()


def test_tls_to_the_server(server: Server, tmp_path: Any) -> None:
    made = certificate(tmp_path)
    with between(server.url, made) as middle:
        with proxy(middle.url) as front:
            assert search(front.url).status == 502
            assert middle.seen == []
        for option in (["--ca", str(made.file)], ["--insecure"]):
            with proxy(middle.url, *option) as front:
                assert search(front.url).header("x-qidf") == "rewritten"


# Many, and anything


def test_many_clients_at_once(front: Proxy, expected: dict[str, float]) -> None:
    def one(i: int) -> bool:
        answer = search(front.url, path=f"/{INDEX}/_search?{DFS}")
        return scores(answer) == pytest.approx(expected, rel=1e-5)

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(one, range(300)))


def test_counts_add_up(server: Server) -> None:
    with proxy(server.url, "--field", "body") as front:
        search(front.url)
        search(front.url, {"query": {"match_all": {}}})
        search(front.url, {"query": {"query_string": {"query": "config"}}})
        told = counts(front)
        ask(front.url, "GET", "/_cat/indices")
        assert {name: told[name] for name in ("searches", "rewritten", "failed_open", "signed")} == {
            "searches": 3,
            "rewritten": 1,
            "failed_open": 0,
            "signed": 0,
        }
        assert told["reasons"] == {"query_string is left as it is": 1}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
matching = st.builds(
    lambda text, extra: {"query": {"match": {"body": {"query": text, **extra}}}, "size": 3, "_source": False},
    st.sampled_from(["config file", "read the file", "", "nowhere", "a" * 50]),
    st.dictionaries(st.sampled_from(["operator", "boost", "fuzziness", "analyzer", "x"]), values, max_size=2),
)
methods = st.sampled_from(["GET", "POST", "HEAD", "PATCH"])  # those that leave the server as it is
parts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).map(lambda part: quote(part, safe=""))
paths = st.one_of(
    st.sampled_from([f"/{INDEX}/_search", "/_search", f"/{INDEX}/_msearch", f"/{INDEX}/_count", "/nowhere/_search"]),
    st.lists(parts, max_size=4).map(lambda some: "/nowhere/" + "/".join(some)),
)
bodies = st.one_of(values.map(json.dumps), matching.map(json.dumps), st.text(max_size=20)).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(methods, paths, bodies, st.booleans())
@example("POST", f"/{INDEX}/_search", b'{"query": 7}', True)
@example("GET", "/", b"", False)
def test_anything_is_answered_as_the_server_does(
    front: Proxy, server: Server, method: str, path: str, body: bytes, declared: bool
) -> None:
    headers = JSON if declared else {}
    here, there = (ask(url, method, path, body or None, headers) for url in (front.url, server.url))
    assert here.status == there.status, (here, there)
    if here.header("x-qidf") != "rewritten" and "_search" not in path:
        assert settled(here.body) == settled(there.body)


def test_a_reason_makes_no_header_of_its_own(front: Proxy) -> None:
    answer = search(front.url, {"query": {"match": {"a\r\nx-evil: 1\r\n\r\n<b>é": "config file"}}})
    assert answer.header("x-evil") is None
    assert answer.status == 200
    assert "x-evil: 1" in (answer.header("x-qidf") or "")


def test_a_connection_goes_on_after_errors(front: Proxy) -> None:
    place = urlsplit(front.url)
    connection, _ = begin(front.url, "GET", "/")
    connection.close()
    with socket.create_connection((place.hostname, place.port), timeout=10) as raw:
        for _ in range(3):
            raw.sendall(b"GET /nowhere/_doc/1 HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n")
        data = b""
        while data.count(b"HTTP/1.1 ") < 6:
            piece = raw.recv(65536)
            assert piece
            data += piece
    assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", data)] == [404, 200] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_running_searches_are_answered_before_it_ends(
    middle: Between, wayward: Proxy, plain: dict[str, float], number: signal.Signals
) -> None:
    begun = threading.Event()

    def wait(seen: Any) -> float:
        if seen.path.endswith("/_search"):
            begun.set()
            return 1.0
        return 0.0

    middle.wait = wait
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(search, wayward.url)
        assert begun.wait(10)
        wayward.process.send_signal(number)
        assert running.result().status == 200
    assert wayward.process.wait(timeout=20) in (130, 0, 143, -signal.SIGTERM)
    assert "Traceback" not in wayward.log


def test_headers_between_neighbours_are_not_passed_on(middle: Between, wayward: Proxy) -> None:
    headers = {"Connection": "X-Between, close", "X-Between": "us", "Keep-Alive": "timeout=5", "TE": "trailers"}
    ask(wayward.url, "GET", "/", None, headers)
    assert all(middle.seen[-1].header(name.lower()) is None for name in headers)


def test_a_body_has_one_length(middle: Between, wayward: Proxy) -> None:
    """Of two the server behind could take the other one, and read the rest as a request of its own."""
    place = urlsplit(wayward.url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as raw:
        raw.sendall(
            b"POST /_bulk HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{}\n{}\n\r\n0\r\n\r\n"
        )
        data = b""
        while piece := raw.recv(65536):
            data += piece
    if data.startswith(b"HTTP/1.1 400") and not middle.seen:
        return  # refused at the door, which is as well
    assert (middle.seen[-1].header("content-length"), middle.seen[-1].body) == (None, b"{}\n{}\n")


def test_matches_are_widened_by_identifiers(
    server: Server, middle: Between, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the dictionary made of the server it stands before; another address has to be told of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    index, question = "glued-proxied", "upgrade of a web socket, row1"
    request(f"{server.url}/{index}?ignore_unavailable=true", method="DELETE")
    texts = [(f"f{i}", f"func readTable{i}(w Writer) {{ return row{i} }}") for i in range(25)]
    texts += [("upgrade.go", "func handleWebSocketUpgrade(w Writer) { hijack(w) }")]
    lines = [line for id, text in texts for line in ({"index": {"_id": id}}, {"body": text})]
    ask(server.url, "POST", f"/{index}/_bulk?refresh=true", joined(lines), LINES)
    engine = connect(f"opensearch+{server.url}/{index}#body")
    build(engine)
    body = {"query": {"match": {"body": question}}, "size": 100}
    file = ("--dictionary", path_of(engine))
    for upstream, options, expand in (
        (server.url, (), "rank"),
        (server.url, ("--expand", "recall"), "recall"),
        (server.url, ("--expand", "off"), "off"),
        (middle.url, (), "off"),
        (middle.url, ("--expand", "recall", *file), "recall"),
    ):
        with proxy(upstream, *options) as running:
            found = scores(search(running.url, body, f"/{index}/_search?{DFS}"))
        wanted = engine.search(question, 100, expand=expand)  # type: ignore[arg-type]
        assert found == pytest.approx({hit.id: hit.score for hit in wanted}, rel=1e-5), options
        assert ("upgrade.go" in found) == (expand == "recall")
    request(f"{server.url}/{index}", method="DELETE")
