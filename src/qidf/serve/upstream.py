"""The server behind the proxy: requests out as they are, answers in as they come, over connections that are kept.

Knows HTTP/1.1 by way of httpcore, and nothing of searches. httpcore's own pool looks at each of its connections for
each request, which at 60 of them took two thirds of the proxy's time; here the newest idle one is used, and looked at
alone.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import httpcore

CONNECT_SECONDS = 5.0
"""Until a server that takes no connection counts as away. For an answer to come it has the time it needs."""

MOST = 1000
"""Connections at once; more requests wait for one."""

IDLE = 100
IDLE_SECONDS = 30.0
"""Connections that are kept while nothing is sent over them, and for how long."""

Headers: TypeAlias = list[tuple[bytes, bytes]]

AWAY = (httpcore.ConnectError, httpcore.ConnectTimeout)
ERRORS = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
"""What says that a server is away, and all that says that there is no whole answer."""

_BROKEN = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)


class Call(NamedTuple):
    """A request as it is to be sent: method, path with query, headers without those of the body's framing."""

    method: str
    target: bytes
    headers: Headers


class Answer:
    """An answer whose body is still to come; whoever has it closes it.

    Attributes
    ----------
    status : int
    headers : list of (name, value)
        As the server wrote them.
    """

    def __init__(self, response: httpcore.Response, connection: _Kept) -> None:
        self.status, self.headers = response.status, response.headers
        self._response, self._connection = response, connection
        self._begin: list[bytes] = []
        self._stream = response.aiter_stream()

    async def look(self, most: int) -> bytes | None:
        """Return the body if it has `most` bytes at most, None if it has more; either way it streams whole."""
        async for chunk in self._stream:
            self._begin.append(chunk)
            if sum(map(len, self._begin)) > most:
                return None
        return b"".join(self._begin)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, and close."""
        try:
            for chunk in self._begin:
                yield chunk
            async for chunk in self._stream:
                yield chunk
        finally:
            await self.aclose()

    async def read(self) -> bytes:
        """Return the body, and close."""
        return b"".join([chunk async for chunk in self.stream()])

    async def aclose(self) -> None:
        """Let the connection go, to be used again if the answer was read to its end. Twice is as well as once."""
        try:
            await self._response.aclose()
        finally:
            self._connection.release()


class Upstream:
    """The server of a URL.

    Parameters
    ----------
    url : str
        `http(s)://HOST:PORT`, perhaps with a path; without credentials.
    context : ssl.SSLContext, optional
        How a server with TLS is verified.

    Attributes
    ----------
    shown : str
        The server's name in messages.
    host : bytes
        What a request to it calls its host.
    prefix : str
        The path in front of its own.

    Raises
    ------
    ValueError
        That is no such URL.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("idna"), parts.port
        except ValueError as error:  # a UnicodeError is one, too
            raise ValueError(f"upstream must be http(s)://HOST:PORT, got {url!r}: {error}") from None
        if parts.username or parts.password:
            raise ValueError("upstream must be without user and password: those who search send their own")
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise ValueError(f"upstream must be http(s)://HOST:PORT, got {url!r}")
        netloc = f"[{host.decode()}]" if b":" in host else host.decode()
        netloc += f":{port}" if port else ""
        self.host, self.prefix, self.shown = netloc.encode(), parts.path.rstrip("/"), f"{parts.scheme}://{netloc}"
        default = 443 if parts.scheme == "https" else 80
        self._origin, self._context = httpcore.Origin(parts.scheme.encode(), host, port or default), context
        self._idle: list[httpcore.AsyncHTTPConnection] = []
        self._free = asyncio.Semaphore(MOST)

    async def send(self, call: Call, body: bytes | AsyncIterator[bytes] | None = None) -> Answer:
        """Return the server's answer, with its body still to come.

        A body in bytes is sent again where a connection that was kept turns out to be closed on the other side.
        """
        await self._free.acquire()
        try:
            while True:
                connection, is_new = await self._connection()
                try:
                    response = await connection.handle_async_request(self._request(call, body))
                except _BROKEN:
                    await connection.aclose()
                    if is_new or not isinstance(body, bytes):
                        raise
                except BaseException:
                    await asyncio.shield(connection.aclose())
                    raise
                else:
                    return Answer(response, _Kept(self, connection))
        except BaseException:
            self._free.release()
            raise

    def _request(self, call: Call, body: bytes | AsyncIterator[bytes] | None) -> httpcore.Request:
        headers = call.headers
        if isinstance(body, bytes):
            framing = (b"content-length", b"transfer-encoding")
            headers = [one for one in headers if one[0] not in framing]
            headers.append((b"content-length", str(len(body)).encode()))
        url = httpcore.URL(
            scheme=self._origin.scheme, host=self._origin.host, port=self._origin.port, target=call.target
        )
        seconds = {"connect": CONNECT_SECONDS}
        return httpcore.Request(call.method, url, headers=headers, content=body, extensions={"timeout": seconds})

    async def _connection(self) -> tuple[httpcore.AsyncHTTPConnection, bool]:
        """Return the newest connection that is idle, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_expired():
                return connection, False
            await connection.aclose()
        made = httpcore.AsyncHTTPConnection(self._origin, self._context, keepalive_expiry=IDLE_SECONDS)
        return made, True

    def released(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Take a connection back."""
        self._free.release()
        if connection.is_available() and len(self._idle) < IDLE:
            self._idle.append(connection)
        elif not connection.is_closed():
            _closing(connection)

    async def aclose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().aclose()


class _Kept:
    """A connection in use, given back once."""

    def __init__(self, upstream: Upstream, connection: httpcore.AsyncHTTPConnection) -> None:
        self._upstream: Upstream | None = upstream
        self._connection = connection

    def release(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.released(self._connection)


_tasks: set[asyncio.Task[None]] = set()


def _closing(connection: httpcore.AsyncHTTPConnection) -> None:
    """Close a connection in a moment."""
    task = asyncio.get_running_loop().create_task(connection.aclose())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
