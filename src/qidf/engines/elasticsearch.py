"""`elasticsearch+https://HOST:9200/INDEX#field`: a field of a running Elasticsearch, through its own Python client.

The major version of the client is that of the server: `pip install 'elasticsearch<9'` for version 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from qidf.cluster.client import OF_BODY, TIMEOUT, Call, Transport
from qidf.cluster.client import wrap as wrap_client
from qidf.cluster.rewriter import TTL, Rewriter
from qidf.cluster.steps import Asked, BusyError, RefusedError
from qidf.engines.base import Expand, missing
from qidf.engines.cluster import CLAUSES, Cluster, Connection, Request, patient, quoted
from qidf.engines.server import OPTIONS, Place, explained
from qidf.errors import EngineError
from qidf.expansion.place import Dictionaries

if TYPE_CHECKING:
    from qidf.cluster.flow import Reporter
    from qidf.engines import EngineURL

__all__ = ["OPTIONS", "connected", "connection", "from_client", "open_url", "wrap"]

_JSON, _LINES = "application/json", "application/x-ndjson"


def open_url(url: EngineURL) -> Cluster:
    """Open `elasticsearch+https://HOST:9200/INDEX#field?analyzer=…&exact=…&verify=…&ca=…&timeout=…`.

    Credentials come from the environment, QIDF_API_KEY, or QIDF_USER and QIDF_PASSWORD, or from `USER:PASSWORD@` in
    the URL, which others may see in a list of processes. `verify=false` takes a server's certificate as it is.
    """
    place = Place(url)
    return Cluster(connection(url), place.index, url.field, analyzer=place.analyzer, exact=place.exact)


def connection(url: EngineURL) -> Connection:
    """Return the way to the server of a URL, through a client made for it."""
    try:
        from elasticsearch import Elasticsearch
    except ImportError:
        raise missing("elasticsearch", "elasticsearch") from None
    place = Place(url)
    options: dict[str, Any] = {}
    if place.api_key:
        options["api_key"] = place.api_key
    elif place.user:
        options["basic_auth"] = (place.user, place.password)
    if place.scheme == "https":
        options |= {"verify_certs": place.verify, "ssl_show_warn": False}
        if place.ca:
            options["ca_certs"] = place.ca
    client = Elasticsearch(place.server, request_timeout=place.timeout, max_retries=0, **options)
    return connected(client, place.shown, patient)


def connected(client: Any, url: str, retried: Callable[[Request], Request] = lambda request: request) -> Connection:
    """Return the way to a server through an `elasticsearch.Elasticsearch`; `url` is its name in messages.

    A client that you made retries as you like; `retried` is for one that does not.
    """

    def once(method: str, path: str, params: dict[str, str] | None = None, body: Any = None) -> Any:
        from elasticsearch import ApiError, TransportError

        headers = {"accept": _JSON} | ({} if body is None else {"content-type": _of(body)})
        try:
            answer = client.perform_request(method, quoted(path), params=params, headers=headers, body=body)
        except ApiError as error:
            raise _explained(url, path, error.meta.status, error.body) from None
        except TransportError as error:
            raise explained(url, path, None, error.message) from None
        return answer.body

    return Connection(retried(once), "elasticsearch", (), url)


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
    """Return the engine of an `elasticsearch.Elasticsearch` that you made: with a cloud id, retries as you like."""
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
    """Return a client that searches with q-logarithm weights: an `Elasticsearch` or `AsyncElasticsearch` like `client`.

    Parameters and errors are those of `qidf.engines.opensearch.wrap`.
    """
    known = Dictionaries((f"elasticsearch+{node.base_url}" for node in client._transport.node_pool.all()), dictionaries)
    rewriter = Rewriter(
        fields, q=q, a=a, rescore=rescore, max_clauses=max_clauses, ttl=ttl, expand=expand, dictionaries=known
    )
    return wrap_client(client, ElasticsearchTransport, rewriter, report)


class ElasticsearchTransport(Transport):
    """The transport of elasticsearch-py, which returns a refusal like any answer."""

    attribute = "_transport"

    def asking(self, asked: Asked, headers: Mapping[str, str] | None) -> Call:
        own = {name.lower(): value for name, value in (headers or {}).items() if name.lower() not in OF_BODY}
        # The search's own media type says which version the client is of.
        accepted = own.get("accept", _JSON)
        if asked.body is not None:
            own["content-type"] = accepted.replace("json", "x-ndjson") if _of(asked.body) == _LINES else accepted
        target = f"{asked.path}?{urlencode(asked.params)}" if asked.params else asked.path
        options = {"body": asked.body, "headers": own, "max_retries": 0, "request_timeout": TIMEOUT}
        return Call(asked.method, target, options)

    def answer(self, answer: Any) -> Any:
        status = self.status(answer)
        if status is not None and status >= 400:
            kind = BusyError if status >= 500 or status == 429 else RefusedError
            raise kind(f"the server answered with status {status}")
        return answer.body

    def status(self, answer: Any) -> int | None:
        status = getattr(getattr(answer, "meta", None), "status", None)
        return status if isinstance(status, int) else None


def _of(body: Any) -> str:
    """Return the media type of a request's body: lines of JSON are a str."""
    return _LINES if isinstance(body, str) else _JSON


def _explained(url: str, path: str, status: int, body: Any) -> EngineError:
    says = str(body)
    if "media_type_header_exception" in says or "compatible-with" in says:
        return EngineError(
            f"the client's version is not that of {url}: install its major version, such as"
            f" pip install 'elasticsearch<9' for version 8. The server says: {' '.join(says.split())[:300]}"
        )
    if 200 <= status < 300:  # UnsupportedProductError
        return EngineError(f"{url} is no Elasticsearch (an OpenSearch is opensearch+http://…, opensearch+https://…)")
    return explained(url, path, status, body)
