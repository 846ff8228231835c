"""`qidf proxy`: what it adds to a search, and what it loses while its server dies and comes back.

    python benchmarks/proxy.py [--seconds 600] [--rate 200] [--outage 60] [--json]

Starts an OpenSearch of one node (the tests' own, from Maven Central) with Python's standard library, and a proxy in
front.

Added time: the same searches straight to the server and through the proxy, in turn, its statistics warm; medians.
Soak: searches through the proxy at a fixed rate, at most 64 of them under way, while the server is killed (SIGKILL)
every `--outage` seconds and started again. A request is lost if it failed and no part of its time fell into an outage:
from the kill until the server has answered a search sent to it directly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import sysconfig
import threading
import time
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from tests.engines.opensearch_server import Mortal, mortal, request
from tests.serve.running import Proxy, ask, proxy

from qidf.sources.files import FileSource
from stdlib_questions import PASTED, WORDS

INDEX = "code"
PATH = f"/{INDEX}/_search"
QUERIES = [" ".join(text.split()[:4]) for text, _ in WORDS + PASTED]
BODIES = [json.dumps({"query": {"match": {"content": query}}, "_source": False}).encode() for query in QUERIES]
WORKERS = 64


@dataclass
class Added:
    """Milliseconds of a search."""

    direct: float
    through: float
    added: float
    added_p95: float
    searches: int


@dataclass
class Soak:
    """What became of the searches of a soak; seconds and bytes."""

    seconds: float
    sent: int = 0
    answered: int = 0
    rewritten: int = 0
    failed_open: int = 0
    failed_in_outages: int = 0
    lost: int = 0
    outages: int = 0
    away: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    behind: float = 0.0
    back_after: list[float] = field(default_factory=list)
    memory_begin: int = 0
    memory_end: int = 0
    reasons: list[str] = field(default_factory=list)


def fill(url: str) -> None:
    """Index Python's standard library, without its tests."""
    mapping = {"properties": {"content": {"type": "text"}}}
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    request(f"{url}/{INDEX}", {"settings": settings, "mappings": mapping}, "PUT")
    source = FileSource(sysconfig.get_path("stdlib"))
    lines: list[str] = []
    for document in source.documents([e for e in source.scan() if e.path.endswith(".py") and "test" not in e.path]):
        lines += [json.dumps({"index": {"_id": document.id}}), json.dumps({"content": document.text})]
        if len(lines) == 100:
            _bulk(url, lines)
    _bulk(url, lines)
    request(f"{url}/{INDEX}/_flush", method="POST")
    request(f"{url}/{INDEX}/_refresh", method="POST")


def _bulk(url: str, lines: list[str]) -> None:
    if lines:
        data = "".join(f"{line}\n" for line in lines).encode()
        answer = ask(url, "POST", f"/{INDEX}/_bulk", data, {"content-type": "application/x-ndjson"})
        assert not json.loads(answer.body)["errors"]
        lines.clear()


class Client:
    """A connection that is kept, and opened again where it broke."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._connection = HTTPConnection(place.hostname or "", place.port or 80, timeout=60)

    def search(self, body: bytes) -> tuple[int, str]:
        """Return status and `x-qidf` of an answer, read to its end."""
        try:
            self._connection.request("POST", PATH, body, {"content-type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
        except BaseException:
            self._connection.close()
            raise
        return answer.status, answer.getheader("x-qidf", "")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def added(server: str, front: str, rounds: int) -> Added:
    """Measure searches in pairs."""
    direct: list[float] = []
    through: list[float] = []
    here, there = Client(server), Client(front)
    for client in (here, there) * 3:  # warm: the server's caches, and statistics
        for body in BODIES:
            client.search(body)
    for i in range(rounds):
        for body in BODIES:
            for client, times in ((here, direct), (there, through))[:: 1 if i % 2 else -1]:
                begin = time.perf_counter()
                status, _ = client.search(body)
                times.append((time.perf_counter() - begin) * 1e3)
                assert status == 200
    more = sorted(late - early for early, late in zip(direct, through, strict=True))
    return Added(
        direct=statistics.median(direct),
        through=statistics.median(through),
        added=statistics.median(more),
        added_p95=more[int(0.95 * len(more))],
        searches=len(more),
    )


def soak(server: Mortal, front: Proxy, seconds: float, rate: float, every: float) -> Soak:
    """Search at a fixed rate while the server dies and comes back, until a second after it is back at last."""
    told = Soak(seconds, memory_begin=front.memory())
    outages: list[list[float]] = []
    answered: list[tuple[float, float, str]] = []
    failed: list[tuple[float, float, str]] = []
    lock, over = threading.Lock(), threading.Event()
    begin = time.perf_counter() + 0.2

    def next_number() -> int | None:
        with lock:
            is_late = told.sent >= seconds * rate
            if is_late and (not outages or outages[-1][1] + 1 < time.perf_counter()):
                return None
            told.sent += 1
            return told.sent - 1

    def work() -> None:
        with contextlib.closing(Client(front.url)) as client:
            while (i := next_number()) is not None:
                time.sleep(max(0.0, begin + i / rate - time.perf_counter()))
                search(client, i)

    def search(client: Client, i: int) -> None:
        start = time.perf_counter()
        try:
            status, said = client.search(BODIES[i % len(BODIES)])
        except (OSError, HTTPException) as error:
            failed.append((start, time.perf_counter(), repr(error)))
            return
        done = answered if status == 200 else failed
        done.append((start, time.perf_counter(), said if status == 200 else f"status {status}"))

    def kill() -> None:
        while not over.wait(every) and time.perf_counter() < begin + seconds:
            outages.append([time.perf_counter(), math.inf])
            server.kill()
            server.start()
            with contextlib.closing(Client(server.url)) as probe:
                while True:
                    with contextlib.suppress(OSError, HTTPException):
                        if probe.search(BODIES[0])[0] == 200:
                            break
                    time.sleep(0.02)
            outages[-1][1] = time.perf_counter()

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    killer = threading.Thread(target=kill)
    for thread in (*workers, killer):
        thread.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(1)
        if sys.stderr.isatty():
            now = time.perf_counter() - begin
            sys.stderr.write(f"\r{now:4.0f} s  {len(answered):,} answered, {len(failed):,} failed ")
    told.behind = time.perf_counter() - begin - told.sent / rate
    over.set()
    killer.join()
    if sys.stderr.isatty():
        sys.stderr.write("\r" + " " * 60 + "\r")
    for start, end, why in failed:
        if any(start <= up and end >= down for down, up in outages):
            told.failed_in_outages += 1
        else:
            told.lost += 1
            told.reasons.append(why)
    told.answered = len(answered)
    told.rewritten = sum(said.startswith("rewritten") for _, _, said in answered)
    told.failed_open = sum(said.startswith("failed open") for _, _, said in answered)
    told.outages, told.away = len(outages), sum(up - down for down, up in outages)
    times = sorted(end - start for start, end, _ in answered)
    told.median, told.p99 = statistics.median(times), times[int(0.99 * len(times))]
    for _, up in outages:
        after = [end - up for start, end, _ in answered if start >= up]
        if after:
            told.back_after.append(min(after))
    told.memory_end = front.memory()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=200, help="searches a second")
    parser.add_argument("--outage", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--rounds", type=int, default=10, help="of the added time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with mortal() as server:
        fill(server.url)
        with proxy(server.url, "--field", "content") as front:
            more = added(server.url, front.url, options.rounds)
            told = soak(server, front, options.seconds, options.rate, options.outage)
    if options.json:
        json.dump({"added": asdict(more), "soak": asdict(told)}, sys.stdout, indent=2)
        return
    print(f"one search, milliseconds, median of {more.searches:,} pairs")
    print(f"  direct {more.direct:.2f}   through the proxy {more.through:.2f}")
    print(f"  added  {more.added:.2f}   95th percentile of what is added {more.added_p95:.2f}")
    print(f"{told.sent:,} searches in {told.seconds:.0f} s, {options.rate:.0f} a second ({told.behind:.1f} s behind)")
    print(f"  {told.outages} outages, {told.away:.0f} s together; {told.failed_in_outages:,} searches failed in them")
    print(f"  lost outside of them: {told.lost}")
    print(f"  answered {told.answered:,}: rewritten {told.rewritten:,}, failed open {told.failed_open:,}")
    print(f"  median {1e3 * told.median:.1f} ms, 99th percentile {1e3 * told.p99:.0f} ms")
    backs = ", ".join(f"{1e3 * back:.0f}" for back in told.back_after)
    print(f"  first answer after the server was back, ms: {backs}")
    memory = (f"{one / 2**20:.0f}" for one in (told.memory_begin, told.memory_end))
    print(f"  most memory of the proxy, MiB: {next(memory)} at the beginning, {next(memory)} at the end")
    for why in told.reasons[:10]:
        print(f"  lost: {why}")


if __name__ == "__main__":
    main()
