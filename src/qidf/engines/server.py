"""What engines on a server share, whichever client carries their requests: where the server is, and what it refuses."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from qidf.cluster.steps import BusyError, RefusedError
from qidf.errors import EngineError

if TYPE_CHECKING:
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
        self.api_key = os.environ.get("QIDF_API_KEY", "")
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
