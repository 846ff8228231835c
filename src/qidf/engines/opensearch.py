"""`opensearch+https://HOST:9200/INDEX#field`: a field of a running OpenSearch, through its own Python client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from qidf.cluster.client import OF_BODY, TIMEOUT, Call, Transport
from qidf.cluster.client import wrap as wrap_client
from qidf.cluster.rewriter import TTL, Rewriter
from qidf.cluster.steps import Asked
from qidf.engines.base import Expand, missing
from qidf.engines.cluster import CLAUSES, Cluster, Connection, Request, patient, quoted
from qidf.engines.server import OPTIONS, Place, explained
from qidf.expansion.place import Dictionaries

if TYPE_CHECKING:
    from qidf.cluster.flow import Reporter
    from qidf.engines import EngineURL

__all__ = ["OPTIONS", "connected", "connection", "from_client", "open_url", "wrap"]


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
    expand: Expand = "auto",
    dictionaries: Iterable[str] = (),
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
    expand : {"auto", "rank", "recall", "off"}, default "auto"
        Widen matches by the identifiers that are made of their words, where `qidf dictionary build` has made a
        dictionary of the index and the field. `auto` is `rank`: they add to the scores of documents that the match
        finds, and find none. `recall`: they find documents too, where any word of the match may.
    dictionaries : list of str, optional
        Files that `qidf dictionary build` made through another address of the server, or on another machine. Without
        them those are found that it made here, through an address of the client's.
    report : callable, optional
        Is told a `qidf.cluster.flow.Report` of each request that searches; by default the logger `qidf` is, of a
        failure as a warning and of anything else for debugging.

    Raises
    ------
    ValueError
        A parameter makes no sense, or the client is wrapped already.
    DictionaryCorruptError
        One of `dictionaries` can't be read.
    """
    known = Dictionaries(_addresses(client), dictionaries)
    rewriter = Rewriter(
        fields, q=q, a=a, rescore=rescore, max_clauses=max_clauses, ttl=ttl, expand=expand, dictionaries=known
    )
    return wrap_client(client, OpenSearchTransport, rewriter, report)


def _addresses(client: Any) -> list[str]:
    """Return the servers of a client, as an engine's URL begins."""
    options = getattr(client.transport, "kwargs", {})
    found = []
    for own in getattr(client.transport, "hosts", None) or [{}]:
        host, port = own.get("host", "localhost"), own.get("port", 9200)
        secure = own.get("use_ssl", options.get("use_ssl", False)) or own.get("scheme") == "https"
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        found.append(f"opensearch+http{'s' if secure else ''}://{shown}:{port}")
    return found


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
