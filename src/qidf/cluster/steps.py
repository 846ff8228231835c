"""Requests without a client: what a piece of work asks a server, step by step, and two ways to carry it out.

A generator yields what it asks and is sent the answer, so that one piece of code serves clients that wait, clients of
asyncio and the proxy. A request that fails is thrown into the generator as the carrier's own error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from qidf.errors import EngineError

A = TypeVar("A")
T = TypeVar("T")


class Asked(NamedTuple):
    """A request for JSON: `path` begins with a slash and is escaped already, `body` is JSON or lines of it as str."""

    method: str
    path: str
    params: dict[str, str]
    body: Any = None


class RefusedError(EngineError):
    """The server answered, and said no: what it has, or who asks, is the reason."""


class BusyError(EngineError):
    """The server did not answer, or not now: asked again in a moment it may."""


Steps: TypeAlias = Generator[Asked, Any, T]


def carry_out(steps: Generator[A, Any, T], send: Callable[[A], Any]) -> T:
    """Return what `steps` come to; `send` takes each request to the server and returns its answer."""
    try:
        asked = next(steps)
        while True:
            try:
                answer = send(asked)
            except Exception as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def carry_out_async(steps: Generator[A, Any, T], send: Callable[[A], Awaitable[Any]]) -> T:
    """Return what `steps` come to, as `carry_out` does."""
    try:
        asked = next(steps)
        while True:
            try:
                answer = await send(asked)
            except Exception as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
