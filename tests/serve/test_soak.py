"""The proxy while its server is killed and started again: the benchmark of ten minutes, in seconds."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.engines.opensearch_server import mortal
from tests.engines.required import load
from tests.serve.running import proxy

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "proxy.py"


def test_no_search_is_lost_that_the_server_would_have_answered() -> None:
    for library in ("starlette", "httpcore", "uvicorn"):
        load("serve", library)
    benchmark = runpy.run_path(str(BENCHMARK))
    with mortal() as server:
        benchmark["fill"](server.url)
        with proxy(server.url, "--field", "content") as front:
            told = benchmark["soak"](server, front, seconds=4, rate=50, every=2)
    assert told.lost == 0, told.reasons
    assert told.outages >= 1
    assert len(told.back_after) == told.outages
    assert told.answered + told.failed_in_outages == told.sent >= 200
    assert told.rewritten > 50
