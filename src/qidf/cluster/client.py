"""A client of OpenSearch or Elasticsearch whose searches are rewritten on their way: the same client, the same calls.

A wrapped client is a copy of the given one with another transport, and shares its connections. The transport knows a
search by its path, so that all ways of a client lead through it: `search`, `msearch`, helpers, query builders.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from qidf.cluster.flow import Reporter, Sent, flow, log, refused_items
from qidf.cluster.rewriter import Outcome, Rewriter
from qidf.cluster.searches import bodies, sought
from qidf.cluster.steps import Asked, RefusedError, carry_out, carry_out_async
from qidf.errors import EngineError

TIMEOUT = 2.0
"""Seconds that a search waits for its statistics."""


class Call(NamedTuple):
    """A call of a transport's `perform_request`: method, URL, and the arguments by name."""

    method: str
    url: str
    options: dict[str, Any]


class Transport:
    """Stands in the place of a client's transport, and does what that does. A subclass knows one product's."""

    attribute = "transport"
    """Where a client keeps its transport."""
    order: Sequence[str] = ()
    """The names of arguments that may come by position, after method and URL."""

    def __init__(self, inner: Any, rewriter: Rewriter, report: Reporter) -> None:
        self._inner, self._rewriter, self._report = inner, rewriter, report
        is_async = iscoroutinefunction(inner.perform_request)
        self.perform_request = self._perform_async if is_async else self._perform

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # while a copy of this is made
            raise AttributeError(name)
        return getattr(self._inner, name)

    def _perform(self, method: str, url: str, *arguments: Any, **options: Any) -> Any:
        call = Call(method, url, options | dict(zip(self.order, arguments, strict=False)))
        steps = self._steps(call)
        if steps is None:
            return self._send(call)

        def send(step: Asked | Sent) -> Any:
            if isinstance(step, Sent):
                return self._send(_with_body(call, step.body))
            try:
                return self.answer(self._send(self.asking(step, call.options.get("headers"))))
            except Exception as error:
                raise self.explained(error) from None

        return carry_out(steps, send)

    async def _perform_async(self, method: str, url: str, *arguments: Any, **options: Any) -> Any:
        call = Call(method, url, options | dict(zip(self.order, arguments, strict=False)))
        steps = self._steps(call)
        if steps is None:
            return await self._send(call)

        async def send(step: Asked | Sent) -> Any:
            if isinstance(step, Sent):
                return await self._send(_with_body(call, step.body))
            try:
                return self.answer(await self._send(self.asking(step, call.options.get("headers"))))
            except Exception as error:
                raise self.explained(error) from None

        return await carry_out_async(steps, send)

    def _send(self, call: Call) -> Any:
        return self._inner.perform_request(call.method, call.url, **call.options)

    def _steps(self, call: Call) -> Generator[Asked | Sent, Any, Any] | None:
        """Return what is to be done for a request that searches, None for any other."""
        body = call.options.get("body")
        if body is None or self._rewriter.idle:
            return None
        address = urlsplit(call.url)
        params = {**dict(parse_qsl(address.query)), **(call.options.get("params") or {})}
        found = sought(call.method, address.path, params)
        if found is None:
            return None
        try:
            parts = bodies(found, body, params, _user(call.options.get("headers")))
        except (ValueError, TypeError, RecursionError):
            return None  # the server says what is wrong with it
        return flow(self._rewriter, found.index, parts, body, self._refusal, self._report)

    def _refusal(self, answer: Any, outcomes: Sequence[Outcome]) -> str:
        status = self.status(answer)
        if status is not None and status >= 400:
            return f"status {status}"
        return "" if isinstance(answer, Exception) else refused_items(self.answer(answer), outcomes)

    # what a product's transport has of its own

    def asking(self, asked: Asked, headers: Mapping[str, str] | None) -> Call:
        """Return the call for a request of ours; `headers` are those of the search it is for."""
        raise NotImplementedError

    def answer(self, answer: Any) -> Any:
        """Return the JSON of what `perform_request` returned; RefusedError or EngineError if that is a refusal."""
        raise NotImplementedError

    def status(self, answer: Any) -> int | None:
        """Return the HTTP status of an answer or an exception; None if the server gave none."""
        raise NotImplementedError

    def explained(self, error: Exception) -> EngineError:
        """Return the error for an exception in place of an answer to a request of ours."""
        status = self.status(error)
        kind = RefusedError if status is not None and 400 <= status < 500 and status != 429 else EngineError
        return error if isinstance(error, EngineError) else kind(" ".join(str(error).split())[:300])


def wrap(client: Any, transport: type[Transport], rewriter: Rewriter, report: Reporter | None = None) -> Any:
    """Return a copy of `client` whose searches are rewritten; see `qidf.engines.opensearch.wrap`."""
    inner = getattr(client, transport.attribute)
    if isinstance(inner, Transport):
        raise ValueError("this client is wrapped already: wrap the one that it was made of")
    new = copy.copy(client)
    setattr(new, transport.attribute, transport(inner, rewriter, report or log))
    for name, namespace in vars(client).items():  # `client.indices` and the like lead back to their client
        attributes = getattr(namespace, "__dict__", {})
        for owner in ("client", "_client"):
            if attributes.get(owner) is client:
                # No copy.copy: Elasticsearch's `xpack` asks itself without end for what a new object has not yet.
                own = object.__new__(type(namespace))
                vars(own).update({**attributes, owner: new})
                setattr(new, name, own)
    return new


OF_BODY = ("content-type", "content-length", "content-encoding")
"""Headers that tell of the body they came with."""


def _with_body(call: Call, body: Any) -> Call:
    return call._replace(options={**call.options, "body": body})


def _user(headers: Mapping[str, str] | None) -> str:
    """Return what differs between users whose credentials come with the call; those of the client are everyone's."""
    own = sorted((name.lower(), str(value)) for name, value in (headers or {}).items())
    who = [(name, value) for name, value in own if name not in (*OF_BODY, "accept", "x-opaque-id", "user-agent")]
    return sha256(repr(who).encode()).hexdigest() if who else ""
