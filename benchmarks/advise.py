"""`qidf advise`: how long it takes, and how many requests, on an index of a million documents.

    python benchmarks/advise.py [--documents 1000000] [--shards 4]

Starts an OpenSearch of one node (the tests' own, from Maven Central). A document is twelve lines of Python's standard
library, six here and six there, drawn at random with a seed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from tests.engines.opensearch_server import mortal, request
from tests.serve.running import ask

INDEX = "million"
AT_ONCE = 5_000
ROUNDS = 5


def fill(url: str, documents: int, shards: int) -> None:
    """Index the documents."""
    settings = {"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": "-1"}
    mapping = {"properties": {"content": {"type": "text"}}}
    request(f"{url}/{INDEX}", {"settings": settings, "mappings": mapping}, "PUT")
    parts = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        parts += ["\n".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
    generator = random.Random(1)
    for start in range(0, documents, AT_ONCE):
        rows: list[str] = []
        for _ in range(min(AT_ONCE, documents - start)):
            rows += ['{"index": {}}', json.dumps({"content": "\n".join(generator.choices(parts, k=2))})]
        data = "".join(f"{row}\n" for row in rows).encode()
        answer = ask(url, "POST", f"/{INDEX}/_bulk", data, {"content-type": "application/x-ndjson"})
        assert not json.loads(answer.body)["errors"]
    request(f"{url}/{INDEX}/_refresh", method="POST", timeout=600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=4)
    options = parser.parse_args()
    with mortal() as server:
        fill(server.url, options.documents, options.shards)
        times, requests = [], []
        command = [sys.executable, "-m", "qidf", "advise", "--json"]
        command += ["--engine", f"opensearch+{server.url}/{INDEX}#content"]
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=True)
            times.append(time.perf_counter() - begin)
            requests.append(json.loads(done.stdout)["requests"])
    print(f"{options.documents:,} documents, {options.shards} shards: {ROUNDS} times qidf advise")
    print(f"  seconds: median {statistics.median(times):.2f}, most {max(times):.2f} (the first, on a cold server)")
    print(f"  requests: {max(requests)}")


if __name__ == "__main__":
    main()
