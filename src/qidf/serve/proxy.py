"""A proxy in front of OpenSearch or Elasticsearch: searches are rewritten on their way, all else passes as it came.

It fails open. Whatever is no search in JSON streams through; a search that can't be rewritten goes as its bytes came;
where the server refuses a rewritten one, or fails, the original is sent once. The header `x-qidf` of an answer tells
which. Credentials come and go with their request: nothing is kept of them but a hash, nothing goes elsewhere.

Knows HTTP; what to rewrite is `qidf.cluster`'s business.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from qidf.cluster.flow import Report, Sent, flow, refused_items
from qidf.cluster.rewriter import Outcome, Rewriter
from qidf.cluster.searches import Sought, bodies, sought
from qidf.cluster.steps import Asked, RefusedError, carry_out_async
from qidf.errors import EngineError

MOST = 8 * 2**20
"""Bytes of a body that is looked into; a longer one streams through."""

TIMEOUT = 2.0
"""Seconds that a search waits for its statistics."""

CONNECT_SECONDS = 5.0
"""Until a server that takes no connection counts as away. For an answer to come it has the time it needs."""

STATUS_PATH = "/_qidf"
"""Where the proxy tells what it did; no server has such a path."""

_log = logging.getLogger("qidf")

Headers: TypeAlias = list[tuple[bytes, bytes]]
T = TypeVar("T")

_HOPS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade expect".split()
)
"""Headers between two neighbours, which are not passed on (RFC 9110, 7.6.1). Transfer-Encoding is: bodies stream."""

_OF_BODY = frozenset(
    b"content-length transfer-encoding content-encoding content-type accept accept-encoding host".split()
)
_OF_NOBODY = frozenset(b"user-agent x-opaque-id traceparent tracestate x-request-id".split())
"""Headers that differ between requests of the same user."""


class Proxy:
    """The ASGI application.

    Parameters
    ----------
    upstream : str
        The server's URL, `http(s)://HOST:PORT`, perhaps with a path; without credentials.
    rewriter : Rewriter
    transport : httpx.AsyncBaseTransport
        Carries requests to the server; whoever made it closes it.

    Raises
    ------
    ValueError
        That is no such URL.
    """

    def __init__(self, upstream: str, rewriter: Rewriter, transport: httpx.AsyncBaseTransport) -> None:
        self._url, self._prefix = checked_upstream(upstream)
        self._rewriter, self._transport = rewriter, transport
        self.counts = Counts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} here")
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except httpx.HTTPError as error:
            answer = _unreachable(self._url, error)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
        if path == STATUS_PATH:
            return JSONResponse(self.counts.told())
        query = request.scope["query_string"].decode("latin-1")
        target = f"{self._prefix}{path}{query and '?'}{query}".encode("latin-1")
        headers: Headers = [(name, value) for name, value in request.scope["headers"] if name not in _HOPS]
        signed = _is_signed(headers, query)
        if not signed:
            headers = [(b"host", self._url.netloc), *(one for one in headers if one[0] != b"host")]
        call = Call(request.method, target, headers)
        ended = asyncio.Event()
        found = sought(request.method, path, dict(parse_qsl(query))) if _is_json(headers) else None
        if found and not self._rewriter.idle and not signed:
            return await self._search(request, call, found, query)
        answer = await _unless_gone(request, ended, self._send(call, _stream(request, ended)))
        if not found:
            return _streamed(answer)
        self.counts.signed += signed
        return _streamed(answer, "signed; passed as it came" if signed else "unchanged")

    async def _search(self, request: Request, call: Call, found: Sought, query: str) -> Response:
        """Answer a request that searches and that may be rewritten."""
        ended = asyncio.Event()
        begin, rest = await _begin(request, ended)
        if rest is not None:
            told = f"unchanged; a body of more than {MOST} bytes"
            return _streamed(await self._send(call, _chained(begin, rest)), told)
        try:
            params = dict(parse_qsl(query))
            parts = bodies(found, _inflated(begin, call.headers), params, _user(call.headers))
        except (ValueError, RecursionError) as error:  # the server says what is wrong with it
            answer = await _unless_gone(request, ended, self._send(call, begin))
            return _streamed(answer, f"unchanged; {error}")
        reports: list[Report] = []
        refused: list[httpx.Response] = []

        async def send(step: Asked | Sent) -> httpx.Response | Any:
            if isinstance(step, Asked):
                return await self._ask(step, call.headers)
            for response in refused:
                await response.aclose()
            if step.body is None:
                return await self._send(call, begin)
            plain = [one for one in call.headers if one[0] != b"content-encoding"]
            response = await self._send(call._replace(headers=plain), step.body)
            refused.append(response)
            if found.many:
                await _buffer(response)
            return response

        steps = flow(self._rewriter, found.index, parts, None, _refusal, reports.append)
        answer = await _unless_gone(request, ended, carry_out_async(steps, send))
        for report in reports:
            self.counts.add(report)
        return _streamed(answer, _told(reports[0]) if reports else "")

    async def _send(self, call: Call, body: bytes | AsyncIterator[bytes] | None) -> httpx.Response:
        """Return the server's answer, with its body still to come."""
        framing = (b"content-length", b"transfer-encoding") if isinstance(body, bytes) else ()
        request = httpx.Request(
            call.method,
            self._url,
            headers=[one for one in call.headers if one[0] not in framing],
            content=body,
            extensions={"target": call.target, "timeout": {"connect": CONNECT_SECONDS, "pool": CONNECT_SECONDS}},
        )
        try:
            return await self._transport.handle_async_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not isinstance(body, bytes):
                raise
            # A connection that was kept open may have been closed on the other side just now.
            return await self._transport.handle_async_request(request)

    async def _ask(self, asked: Asked, headers: Headers) -> Any:
        """Return the JSON that the server answers to a request of ours, made with the user's own rights."""
        query = urlencode(asked.params)
        target = f"{self._prefix}{asked.path}{query and '?'}{query}".encode("latin-1")
        own = [(b"host", self._url.netloc), (b"accept", b"application/json"), (b"content-type", b"application/json")]
        own += [one for one in headers if one[0] not in _OF_BODY]
        body = asked.body
        content = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        name = asked.path.rpartition("/")[2]
        try:
            async with asyncio.timeout(TIMEOUT):
                response = await self._send(Call(asked.method, target, own), content)
                try:
                    data = await response.aread()
                finally:
                    await response.aclose()
        except TimeoutError:
            raise EngineError(f"{name} was not answered within {TIMEOUT:g} s") from None
        if response.status_code >= 400:
            kind = RefusedError if response.status_code < 500 and response.status_code != 429 else EngineError
            raise kind(f"{name} was answered with status {response.status_code}")
        return json.loads(data)


class Call(NamedTuple):
    """A request as it is to be sent: method, path with query, headers."""

    method: str
    target: bytes
    headers: Headers


class Counts:
    """What became of the searches since the proxy began; failures and their reasons go to the log, too."""

    def __init__(self) -> None:
        self.searches = self.rewritten = self.failed = self.signed = 0
        self.reasons: Counter[str] = Counter()
        self._began = time.time()
        self._logged: dict[str, float] = {}

    def add(self, report: Report) -> None:
        """Count a search."""
        self.searches += 1
        self.rewritten += report.rewritten
        self.failed += bool(report.error)
        for reason in ({report.error} | {note.reason for note in report.notes}) - {""}:
            if reason in self.reasons or len(self.reasons) < _REASONS:
                self.reasons[reason] += 1
        now = time.monotonic()
        if report.error and now - self._logged.get(report.error, -_LOG_SECONDS) >= _LOG_SECONDS:
            if len(self._logged) >= _REASONS:
                self._logged.clear()
            self._logged[report.error] = now
            _log.warning("%s", report)

    def told(self) -> dict[str, Any]:
        """Return the counts as JSON has them."""
        return {
            "seconds": round(time.time() - self._began, 1),
            "searches": self.searches,
            "rewritten": self.rewritten,
            "failed_open": self.failed,
            "signed": self.signed,
            "reasons": dict(self.reasons.most_common()),
        }


_REASONS = 100
"""Reasons that are counted each by itself."""

_LOG_SECONDS = 10.0
"""Between two lines in the log with the same reason."""


def checked_upstream(url: str) -> tuple[httpx.URL, str]:
    """Return the server of a URL and the path in front of its own; ValueError if that is no such URL."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("upstream must be without user and password: those who search send their own")
    try:
        made = httpx.URL(url)
        _ = parts.port  # a number that is no port raises
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"upstream must be http(s)://HOST:PORT, got {url!r}: {error}") from None
    if made.scheme not in ("http", "https") or not made.host or parts.query or parts.fragment:
        raise ValueError(f"upstream must be http(s)://HOST:PORT, got {url!r}")
    return made.copy_with(path="/"), parts.path.rstrip("/")


def _is_json(headers: Headers) -> bool:
    kinds = [value.lower() for name, value in headers if name == b"content-type"]
    return all(b"json" in kind for kind in kinds)


def _is_signed(headers: Headers, query: str) -> bool:
    """Return whether a change of the body or the host would break the request's signature (AWS Signature Version 4)."""
    return "X-Amz-Signature=" in query or any(
        name == b"authorization" and value.lstrip().startswith(b"AWS4-") for name, value in headers
    )


def _user(headers: Headers) -> str:
    """Return what differs between users: a hash of all headers that may say who asks."""
    who = sorted(one for one in headers if one[0] not in _OF_BODY and one[0] not in _OF_NOBODY)
    return sha256(repr(who).encode()).hexdigest()


def _inflated(body: bytes, headers: Headers) -> bytes:
    """Return a body without its compression; ValueError if it is longer than `MOST` then, or compressed otherwise."""
    encodings = [value.strip().lower() for name, value in headers if name == b"content-encoding"]
    if not encodings or encodings == [b"identity"]:
        return body
    if encodings != [b"gzip"]:
        raise ValueError("a body compressed in another way than gzip")
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = inflater.decompress(body, MOST + 1)
    except zlib.error:
        raise ValueError("a damaged gzip body") from None
    if len(plain) > MOST or not inflater.eof or inflater.unused_data:
        raise ValueError(f"a gzip body cut off, or of more than {MOST} bytes")
    return plain


def _stream(request: Request, ended: asyncio.Event) -> AsyncIterator[bytes] | None:
    """Return a request's body as it comes, None if it has none."""
    if "content-length" in request.headers or "transfer-encoding" in request.headers:
        return _until(request.stream(), ended)
    ended.set()
    return None


async def _until(chunks: AsyncIterator[bytes], ended: asyncio.Event) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk
    ended.set()


async def _begin(request: Request, ended: asyncio.Event) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Return a request's body, or its begin and the rest where it has more than `MOST` bytes."""
    chunks, size = [], 0
    stream = request.stream()
    async for chunk in stream:
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST:
            return b"".join(chunks), stream
    ended.set()
    return b"".join(chunks), None


async def _chained(begin: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for chunk in rest:
        yield chunk


async def _unless_gone(request: Request, ended: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` comes to, given up when who asked is gone, so that the server stops, too."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request, ended))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()


async def _gone(request: Request, ended: asyncio.Event) -> None:
    await ended.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _buffer(response: httpx.Response) -> None:
    """Read an answer whole, if it is not too long to be looked into; what was read is streamed first."""
    begin: list[bytes] = []
    size = 0
    stream = response.aiter_raw()
    async for chunk in stream:
        begin.append(chunk)
        size += len(chunk)
        if size > MOST:
            response.extensions["begin"] = begin, stream
            return
    response.extensions["begin"] = begin, None


def _refusal(answer: Any, outcomes: Sequence[Outcome]) -> str:
    """Return why a server refused a rewritten body; empty if it did not."""
    if isinstance(answer, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return ""  # it is away for the original, too
    if isinstance(answer, httpx.HTTPError):
        return type(answer).__name__
    if not isinstance(answer, httpx.Response):
        return ""
    if answer.status_code >= 400:
        return f"status {answer.status_code}"
    begin, rest = answer.extensions.get("begin", ([], None))
    if not begin or rest is not None:
        return ""
    try:
        return refused_items(json.loads(_inflated(b"".join(begin), answer.headers.raw)), outcomes)
    except (ValueError, RecursionError):
        return ""


def _told(report: Report) -> str:
    if report.error:
        return f"failed open; {report.error}"
    notes = "; ".join(dict.fromkeys(note.reason for note in report.notes))
    return f"{'rewritten' if report.rewritten else 'unchanged'}{notes and '; '}{notes}"


def _streamed(answer: httpx.Response, told: str = "") -> Response:
    """Return the server's answer as it comes."""

    async def content() -> AsyncIterator[bytes]:
        try:
            begin, rest = answer.extensions.get("begin", ([], answer.aiter_raw()))
            for chunk in begin:
                yield chunk
            if rest is not None:
                async for chunk in rest:
                    yield chunk
        finally:
            await answer.aclose()

    response = StreamingResponse(content(), answer.status_code)
    # The names as the server writes them, several of a name too; how the body is framed is between neighbours.
    response.raw_headers = [
        (name.lower(), value)
        for name, value in answer.headers.raw
        if name.lower() not in _HOPS and name.lower() != b"transfer-encoding"
    ]
    if told:
        response.raw_headers.append((b"x-qidf", re.sub(r"[^ -~]+", " ", told)[:300].strip().encode()))
    return response


def _unreachable(url: httpx.URL, error: Exception) -> Response:
    reason = f"qidf proxy: {url.scheme}://{url.netloc.decode()} does not answer ({type(error).__name__})"
    return JSONResponse({"error": {"type": "qidf_upstream", "reason": reason}, "status": 502}, 502)
