"""`opensearch+https://HOST:9200/INDEX#field`: a field of a running OpenSearch, through its own Python client."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from qidf.cluster.client import OF_BODY, TIMEOUT, Call, Transport
from qidf.cluster.client import wrap as wrap_client
from qidf.cluster.rewriter import TTL, Rewriter
from qidf.cluster.steps import Asked, BusyError, RefusedError
from qidf.engines.base import missing
from qidf.engines.cluster import CLAUSES, Cluster, Connection, Request, patient, quoted
from qidf.errors import EngineError

if TYPE_CHECKING:
    from qidf.cluster.flow import Reporter
    from qidf.engines import EngineURL

OPTIONS = ("analyzer", "exact", "verify", "ca", "timeout")

_PRIVILEGES = {
    "_mtermvectors": "read (indices:data/read/mtv*)",
    "_analyze": "indices:admin/analyze",
    "_close": "manage (indices:admin/close)",
    "_open": "manage (indices:admin/open)",
    "_cat": "monitor (cluster:monitor/state, indices:monitor/stats)",
    "_cluster": "monitor (cluster:monitor/health)",
    "_search": "read (indices:data/read/search)",
    "_msearch": "read (indices:data/read/msearch)",
    "_mapping": "view_index_metadata (indices:admin/mappings/get)",
    "_settings": "view_index_metadata (indices:monitor/settings/get)",
    "_search_shards": "view_index_metadata (indices:admin/shards/search_shards)",
}
"""What a user needs for the requests that `Cluster` sends."""


def open_url(url: EngineURL) -> Cluster:
    """Open `opensearch+https://HOST:9200/INDEX#field?analyzer=…&exact=…&verify=…&ca=…&timeout=…`.

    Credentials come from the environment, QIDF_USER and QIDF_PASSWORD, or from `USER:PASSWORD@` in the URL, which
    others may see in a list of processes. `verify=false` takes a server's certificate as it is.
    """
    place = Place(url)
    return Cluster(connection(url), place.index, url.field, analyzer=place.analyzer, exact=place.exact)


def connection(url: EngineURL) -> Connection:
    """Return the way to the server of a URL, through a client made for it."""
    try:
        from opensearchpy import OpenSearch
    except ImportError:
        raise missing("opensearch-py", "opensearch") from None
    place = Place(url)
    options: dict[str, Any] = {}
    if place.user:
        options["http_auth"] = (place.user, place.password)
    if place.scheme == "https":
        options |= {"verify_certs": place.verify, "ssl_show_warn": False}
        if place.ca:
            options["ca_certs"] = place.ca
    client = OpenSearch(place.server, timeout=place.timeout, max_retries=0, **options)
    return connected(client, place.shown, patient)


def connected(client: Any, url: str, retried: Callable[[Request], Request] = lambda request: request) -> Connection:
    """Return the way to a server through an `opensearchpy.OpenSearch`; `url` is its name in messages.

    A client that you made retries as you like; `retried` is for one that does not.
    """

    def once(method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        from opensearchpy.exceptions import OpenSearchException

        try:
            return client.transport.perform_request(method, quoted(path), params=params, body=body)
        except OpenSearchException as error:
            status = getattr(error, "status_code", None)
            raise explained(url, path, status, getattr(error, "info", None) or error) from None

    request = retried(once)
    version = request("GET", "/")["version"]["number"]
    return Connection(request, "opensearch", tuple(int(part) for part in re.findall(r"\d+", version)[:3]), url)


def from_client(
    client: Any,
    index: str,
    field: str,
    *,
    analyzer: str = "",
    exact: bool = True,
    max_clauses: int = CLAUSES,
    url: str = "",
) -> Cluster:
    """Return the engine of an `opensearchpy.OpenSearch` that you made: with AWS SigV4, TLS and retries as you like."""
    way = connected(client, url or f"{index}#{field}")
    return Cluster(way, index, field, analyzer=analyzer, exact=exact, max_clauses=max_clauses)


def wrap(
    client: Any,
    fields: Iterable[str] | None = None,
    *,
    q: float | str = "auto",
    a: float | None = None,
    rescore: bool = False,
    max_clauses: int = CLAUSES,
    ttl: float = TTL,
    report: Reporter | None = None,
) -> Any:
    """Return a client that searches with q-logarithm weights: the same class, the same calls, the same connections.

    `search`, `msearch` and what leads there (helpers, query builders) are rewritten on their way (`qidf.rewriting`);
    all else goes as it is, and so does `client` itself. It fails open: where statistics can't be had, or the server
    refuses a rewritten body, the original is sent.

    Parameters
    ----------
    client : opensearchpy.OpenSearch or opensearchpy.AsyncOpenSearch
    fields : list of str, optional
        The only fields to weigh; all of type text by default.
    q : float or "auto", default "auto"
    a : float, optional
        See `qidf.weighting.resolve`. `"hapax"` can't be had here: `qidf advise` tells it as a number.
    rescore : bool, default False
        Weigh the queries of `rescore` too.
    max_clauses : int, default 1024
        Terms of one match, as the server's `indices.query.bool.max_clause_count` has it.
    ttl : float, default 60
        Seconds that statistics, mappings and shards are taken for true.
    report : callable, optional
        Is told a `qidf.cluster.flow.Report` of each request that searches; by default the logger `qidf` is, of a
        failure as a warning and of anything else for debugging.

    Raises
    ------
    ValueError
        A parameter makes no sense, or the client is wrapped already.
    """
    rewriter = Rewriter(fields, q=q, a=a, rescore=rescore, max_clauses=max_clauses, ttl=ttl)
    return wrap_client(client, OpenSearchTransport, rewriter, report)


class OpenSearchTransport(Transport):
    """The transport of opensearch-py, which raises for a refusal."""

    order = ("params", "body", "timeout", "ignore", "headers")

    def asking(self, asked: Asked, headers: Mapping[str, str] | None) -> Call:
        own = {name: value for name, value in (headers or {}).items() if name.lower() not in OF_BODY}
        return Call(
            asked.method,
            asked.path,
            {"params": dict(asked.params), "body": asked.body, "headers": own, "timeout": TIMEOUT},
        )

    def answer(self, answer: Any) -> Any:
        return answer

    def status(self, answer: Any) -> int | None:
        status = getattr(answer, "status_code", None)
        return status if isinstance(status, int) else None


class Place:
    """Where a server is, out of an engine's URL and the environment. ValueError if the URL names none."""

    def __init__(self, url: EngineURL) -> None:
        self.scheme = url.scheme.partition("+")[2]
        try:
            parts = urlsplit(f"{self.scheme}:{url.path}")
            host, port = parts.hostname, parts.port or 9200
        except ValueError as error:
            raise ValueError(f"no server in {url.scheme}: {error}") from None
        kind = url.scheme.partition("+")[0]
        self.index = parts.path.strip("/")
        if not host or not self.index or "/" in self.index or not url.field:
            raise ValueError(f"name server, index and field: {kind}+{self.scheme}://HOST:9200/INDEX#FIELD")
        shown_host = f"[{host}]" if ":" in host else host
        self.server = f"{self.scheme}://{shown_host}:{port}"
        self.shown = f"{kind}+{self.server}/{self.index}#{url.field}"
        self.user = unquote(parts.username or "") or os.environ.get("QIDF_USER", "")
        self.password = unquote(parts.password or "") or os.environ.get("QIDF_PASSWORD", "")
        options = url.options
        self.analyzer = options.get("analyzer", "")
        self.exact, self.verify = (_flag(options, name) for name in ("exact", "verify"))
        self.ca = options.get("ca", "")
        self.timeout = url.number("timeout", 10.0)
        if not 0 < self.timeout <= 3600:
            raise ValueError(f"timeout must be seconds between 0 and 3600, got {options['timeout']!r}")


def explained(url: str, path: str, status: Any, info: Any) -> EngineError:
    """Return the error for what a server answered, or did not, to a request of `Cluster`'s."""
    busy = not isinstance(status, int) or status in (429, 502, 503, 504)
    kind = BusyError if busy else RefusedError if status < 500 else EngineError
    what = info.get("error", info) if isinstance(info, dict) else info
    causes = what.get("root_cause") if isinstance(what, dict) else None
    says = causes[0].get("reason") if causes else what.get("reason") if isinstance(what, dict) else str(what)
    says = " ".join(str(says).split())[:300]
    if "CERTIFICATE_VERIFY_FAILED" in says:
        return EngineError(f"{url} shows a certificate that nobody vouches for (ca=FILE names whom to trust): {says}")
    if status in (401, 403):
        call = next((name for name in path.split("/") if name.startswith("_")), "")
        needed = _PRIVILEGES.get(call) or (
            f"create_index, index and delete_index on {path.split('/')[1]}"
            if not call and path != "/"
            else "monitor (cluster:monitor/main)"
        )
        who = "no such user or password" if status == 401 else f"the user lacks a privilege: {needed}"
        return kind(f"{url} refuses, {who}. The server says: {says}")
    if status == 404:
        return kind(f"no such index at {url}. The server says: {says}")
    if not isinstance(status, int):
        return kind(f"{url} does not answer: {re.sub(r'<[^>]*>: ', '', says)}")
    return kind(f"{url} can't be asked ({status}). The server says: {says}")


def _flag(options: dict[str, str], name: str) -> bool:
    value = options.get(name, "true")
    if value not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value == "true"
