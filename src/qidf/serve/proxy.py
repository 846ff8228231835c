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
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from qidf.cluster.flow import Report, Sent, flow, refused_items
from qidf.cluster.rewriter import Outcome, Rewriter
from qidf.cluster.searches import Sought, bodies, sought
from qidf.cluster.steps import Asked, RefusedError, carry_out_async
from qidf.errors import EngineError
from qidf.serve.upstream import AWAY, ERRORS, Answer, Call, Headers, Upstream

MOST = 8 * 2**20
"""Bytes of a body that is looked into; a longer one streams through."""

TIMEOUT = 2.0
"""Seconds that a search waits for its statistics."""

STATUS_PATH = "/_qidf"
"""Where the proxy tells what it did; no server has such a path."""

_log = logging.getLogger("qidf")

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
    upstream : Upstream
        The server; whoever made it closes it.
    rewriter : Rewriter
    """

    def __init__(self, upstream: Upstream, rewriter: Rewriter) -> None:
        self._upstream, self._rewriter = upstream, rewriter
        self.counts = Counts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} here")
        request, ended = Request(scope, receive), asyncio.Event()
        try:
            answer = await self._answer(request, ended)
        except ClientDisconnect:
            return
        except ERRORS as error:
            answer = _unreachable(self._upstream.shown, error)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        try:
            await _unless_gone(request, ended, answer.pass_on(send))
        except ClientDisconnect:
            pass
        except ERRORS as error:  # all that is left is to break off as well
            _log.warning("%s broke off in the middle of an answer (%s)", self._upstream.shown, type(error).__name__)
        finally:
            await answer.aclose()

    async def _answer(self, request: Request, ended: asyncio.Event) -> Response | Passed:
        path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
        if path == STATUS_PATH:
            return JSONResponse(self.counts.told())
        query = request.scope["query_string"].decode("latin-1")
        target = f"{self._upstream.prefix}{path}{query and '?'}{query}".encode("latin-1")
        headers = _end_to_end(request.scope["headers"])
        signed = _is_signed(headers, query)
        if not signed:
            headers = [(b"host", self._upstream.host), *(one for one in headers if one[0] != b"host")]
        call = Call(request.method, target, headers)
        found = sought(request.method, path, dict(parse_qsl(query))) if _is_json(headers) else None
        if found and not self._rewriter.idle and not signed:
            return await self._search(request, ended, call, found, query)
        answer = await _unless_gone(request, ended, self._upstream.send(call, _stream(request, ended)))
        if not found:
            return Passed(answer)
        self.counts.signed += signed
        return Passed(answer, "signed; passed as it came" if signed else "unchanged")

    async def _search(self, request: Request, ended: asyncio.Event, call: Call, found: Sought, query: str) -> Passed:
        """Answer a request that searches and that may be rewritten."""
        begin, rest = await _begin(request, ended)
        if rest is not None:
            told = f"unchanged; a body of more than {MOST} bytes"
            return Passed(await self._upstream.send(call, _chained(begin, _until(rest, ended))), told)
        try:
            params = dict(parse_qsl(query))
            parts = bodies(found, _inflated(begin, call.headers), params, _user(call.headers))
        except (ValueError, RecursionError) as error:  # the server says what is wrong with it
            answer = await _unless_gone(request, ended, self._upstream.send(call, begin))
            return Passed(answer, f"unchanged; {error}")
        reports: list[Report] = []
        refused: list[Answer] = []

        async def send(step: Asked | Sent) -> Looked | Any:
            if isinstance(step, Asked):
                return await self._ask(step, call.headers)
            for answer in refused:
                await answer.aclose()
            if step.body is None:
                return Looked(await self._upstream.send(call, begin))
            plain = [one for one in call.headers if one[0] != b"content-encoding"]
            answer = await self._upstream.send(call._replace(headers=plain), step.body)
            refused.append(answer)
            try:
                return Looked(answer, await answer.look(MOST) if found.many else None)
            except asyncio.CancelledError:
                await answer.aclose()
                raise

        steps = flow(self._rewriter, found.index, parts, None, _refusal, reports.append)
        looked: Looked = await _unless_gone(request, ended, carry_out_async(steps, send))
        for report in reports:
            self.counts.add(report)
        return Passed(looked.answer, _told(reports[0]) if reports else "")

    async def _ask(self, asked: Asked, headers: Headers) -> Any:
        """Return the JSON that the server answers to a request of ours, made with the user's own rights."""
        query = urlencode(asked.params)
        target = f"{self._upstream.prefix}{asked.path}{query and '?'}{query}".encode("latin-1")
        own = [(b"host", self._upstream.host), (b"accept", b"application/json"), (b"content-type", b"application/json")]
        own += [one for one in headers if one[0] not in _OF_BODY]
        body = asked.body
        content = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        name = asked.path.rpartition("/")[2]
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._upstream.send(Call(asked.method, target, own), content)
                data = await answer.read()
        except TimeoutError:
            raise EngineError(f"{name} was not answered within {TIMEOUT:g} s") from None
        if answer.status >= 400:
            kind = RefusedError if answer.status < 500 and answer.status != 429 else EngineError
            raise kind(f"{name} was answered with status {answer.status}")
        return json.loads(data)


class Passed:
    """The server's answer on its way to who asked, as it comes; `told` says in a header what was done to a search."""

    def __init__(self, answer: Answer, told: str = "") -> None:
        self._answer, self._told = answer, told

    async def pass_on(self, send: Send) -> None:
        """Send it: its headers as the server wrote them, several of a name too."""
        # How a body is framed is between neighbours.
        headers = [one for one in _end_to_end(_lowered(self._answer.headers)) if one[0] != b"transfer-encoding"]
        if self._told:
            headers.append((b"x-qidf", re.sub(r"[^ -~]+", " ", self._told)[:300].strip().encode()))
        await send({"type": "http.response.start", "status": self._answer.status, "headers": headers})
        async for chunk in self._answer.stream():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def aclose(self) -> None:
        """Let the answer go, if it was not passed on to its end."""
        await self._answer.aclose()


class Looked(NamedTuple):
    """An answer, and its body if it was looked at and is not too long."""

    answer: Answer
    body: bytes | None = None


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


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are passed on; of two ways to frame a body, the one that counts (RFC 9112, 6.3)."""
    named = [part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")]
    dropped = _HOPS.union(named) - {b"transfer-encoding"}
    if any(name == b"transfer-encoding" for name, _ in headers):
        dropped |= {b"content-length"}
    return [(name, value) for name, value in headers if name not in dropped]


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
        await asyncio.wait((task, gone))  # until they have let go of what they held


async def _gone(request: Request, ended: asyncio.Event) -> None:
    await ended.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(looked: Any, outcomes: Sequence[Outcome]) -> str:
    """Return why a server refused a rewritten body; empty if it did not."""
    if isinstance(looked, AWAY):
        return ""  # it is away for the original, too
    if isinstance(looked, ERRORS):
        return type(looked).__name__
    if not isinstance(looked, Looked):
        return ""
    if looked.answer.status >= 400:
        return f"status {looked.answer.status}"
    if looked.body is None:
        return ""
    try:
        return refused_items(json.loads(_inflated(looked.body, _lowered(looked.answer.headers))), outcomes)
    except (ValueError, RecursionError):
        return ""


def _told(report: Report) -> str:
    if report.error:
        return f"failed open; {report.error}"
    notes = "; ".join(dict.fromkeys(note.reason for note in report.notes))
    return f"{'rewritten' if report.rewritten else 'unchanged'}{notes and '; '}{notes}"


def _lowered(headers: Headers) -> Headers:
    return [(name.lower(), value) for name, value in headers]


def _unreachable(server: str, error: Exception) -> Response:
    reason = f"qidf proxy: {server} does not answer ({type(error).__name__})"
    return JSONResponse({"error": {"type": "qidf_upstream", "reason": reason}, "status": 502}, 502)
