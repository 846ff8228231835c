"""`qidf proxy`: in front of a search server, rewriting searches."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import TYPE_CHECKING

import click

from qidf.cli import options
from qidf.cli.output import clean
from qidf.engines.base import EXPAND, Expand, missing

if TYPE_CHECKING:
    from qidf.cluster.rewriter import Rewriter

EXAMPLES = """\
qidf proxy --upstream http://localhost:9200 --field content
qidf proxy --upstream https://search:9200 --ca ca.pem --listen 0.0.0.0:9201
qidf proxy --upstream http://localhost:9200 --q 0.6 --a 1 --rescore
qidf proxy --upstream http://localhost:9200 --expand recall
qidf proxy --upstream http://localhost:9200 --dictionary code.qidf
qidf proxy --upstream https://localhost:9200 --insecure
"""


@click.command(
    "proxy", short_help="Stand in front of a search server and weigh.", epilog=options.epilog("Examples", EXAMPLES)
)
@click.option("--upstream", metavar="URL", required=True, help="The server: http(s)://HOST:PORT.")
@click.option(
    "--field",
    "fields",
    metavar="FIELD",
    multiple=True,
    help="Weigh this field only; may be given again. [default: all]",
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9201", show_default=True, help="Where to listen.")
@click.option("--q", metavar="auto|NUMBER", default="auto", show_default=True, help="See 'qidf search --help'.")
@click.option("--a", type=float, help="Exponent of a term's count in the query. [default: goes with --q]")
@click.option("--rescore", is_flag=True, help="Weigh the queries of rescore, too.")
@click.option(
    "--expand",
    type=click.Choice(EXPAND),
    default="auto",
    show_default=True,
    help="Search identifiers made of a match's words too, where there is a dictionary (qidf dictionary build). With"
    " rank, which auto is here, they find nothing by themselves.",
)
@click.option(
    "--dictionary",
    "dictionaries",
    metavar="FILE",
    multiple=True,
    type=click.Path(readable=False),
    help="A dictionary made through another address, or elsewhere; may be given again. [default: those made here]",
)
@click.option("--ca", metavar="FILE", type=click.Path(readable=False), help="Trust these certificates.")
@click.option("--insecure", is_flag=True, help="Take the server's certificate as it is.")
def command(
    upstream: str,
    fields: tuple[str, ...],
    listen: str,
    q: str,
    a: float | None,
    rescore: bool,
    expand: Expand,
    dictionaries: tuple[str, ...],
    ca: str | None,
    insecure: bool,
) -> None:
    """Pass requests on to an OpenSearch or Elasticsearch, with searches rewritten to q-IDF on their way.

    Point clients at it in place of the server; they need no change. Whatever can't be rewritten passes as it came, and
    each answer to a search says in its header x-qidf what was done. The path /_qidf counts what became of the searches,
    and why. Ctrl-C ends it.
    """
    from qidf.cluster.rewriter import Rewriter
    from qidf.expansion.place import Dictionaries

    known = Dictionaries((f"{kind}+{upstream}" for kind in ("opensearch", "elasticsearch")), dictionaries)
    rewriter = Rewriter(fields or None, q=q, a=a, rescore=rescore, expand=expand, dictionaries=known)
    with _listening(listen) as listener:
        asyncio.run(_serve(listener, upstream, rewriter, ca, insecure))


async def _serve(listener: socket.socket, upstream: str, rewriter: Rewriter, ca: str | None, insecure: bool) -> None:
    try:
        import uvicorn

        from qidf.serve.proxy import Proxy
        from qidf.serve.upstream import Upstream
    except ImportError:
        raise missing("the proxy's web server", "serve") from None
    import ssl

    logging.basicConfig(format="qidf: %(message)s", level=logging.WARNING)
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # of which a file without certificates is one, too
        raise ValueError(f"--ca {ca} can't be used: {error.strerror or error}") from None
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    server = Upstream(upstream, context)
    try:
        app = Proxy(server, rewriter)
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
        )
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"qidf: listening on http://{shown}:{port}, in front of {clean(upstream)} (Ctrl-C ends it)\n")
        sys.stderr.flush()
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        await server.aclose()


def _listening(address: str) -> socket.socket:
    """Return a socket that listens; ValueError if `address` is none, OSError if it is taken."""
    host, colon, number = address.rpartition(":")
    if not colon or not number.isascii() or not number.isdigit() or int(number) > 65535:
        raise ValueError(f"--listen must be HOST:PORT, got {address!r}")
    host = host.removeprefix("[").removesuffix("]")
    listener = None
    try:
        found = socket.getaddrinfo(host or None, int(number), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        # With its protocol named, asyncio sets TCP_NODELAY; without it, head and body of an answer are 40 ms apart.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)  # who reads that it listens may connect at once
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ValueError(f"can't listen on {address}: {error.strerror or error}") from None
    return listener
