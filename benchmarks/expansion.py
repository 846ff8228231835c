"""What a query costs when identifiers widen it: embedded, and on a server if there is one.

    python benchmarks/expansion.py COLLECTION [COLLECTION ...] --queries 300
    python benchmarks/expansion.py COLLECTION --server http://localhost:9200      # an OpenSearch; makes an index there

COLLECTION is a folder as BEIR lays it out (`qidf collection commits` and `docstrings` make them). Medians of the same
queries, each way of asking in turn; on a server statistics are asked anew for each query, as a new query has it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable

from qidf import Index
from qidf.engines.cluster import Cluster
from qidf.engines.embedded import Embedded
from qidf.expansion.building import build
from qidf.lab.beir import read_corpus, read_judgments

ROUNDS = 3


def timed(queries: list[str], ways: dict[str, Callable[[str], object]]) -> dict[str, float]:
    """Return the median milliseconds of each way to ask, of the last of some rounds."""
    taken: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        taken = {name: [] for name in ways}
        for query in queries:
            for name, ask in ways.items():
                start = time.perf_counter()
                ask(query)
                taken[name].append(1000 * (time.perf_counter() - start))
    return {name: round(statistics.median(own), 2) for name, own in taken.items()}


def embedded(folder: str, queries: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        documents = ((document.id, document.text) for document in read_corpus(folder))
        index = Index.build(documents, os.path.join(place, "index"), analyzer="standard", store_text=True)
        with Embedded(index) as engine:
            build(engine, os.path.join(place, "dictionary"))
            return timed(
                queries,
                {
                    "plain": lambda query: engine.search(query, q=1, a=1, expand="off"),
                    "auto": lambda query: engine.search(query, expand="off"),
                    "rank": lambda query: engine.search(query, expand="rank"),
                    "recall": lambda query: engine.search(query),
                },
            )


def on_server(folder: str, queries: list[str], server: str) -> dict[str, float]:
    from opensearchpy import OpenSearch
    from opensearchpy.helpers import bulk

    from qidf.engines.opensearch import from_client, wrap

    client, name = OpenSearch(server, timeout=60), "qidf-benchmark-expansion"
    mapping = {"properties": {"body": {"type": "text"}}}
    client.indices.create(index=name, body={"settings": {"number_of_shards": 1}, "mappings": mapping})
    try:
        rows = ({"_index": name, "_id": one.id, "body": one.text} for one in read_corpus(folder))
        bulk(client, rows, refresh=True, chunk_size=200)
        engine = from_client(client, name, "body", url=f"opensearch+{server}/{name}#body")
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "dictionary")
            build(engine, path)
            ways = {expand: wrap(client, expand=expand, dictionaries=[path]) for expand in ("off", "rank")}

            def plain(query: str) -> None:
                client.search(index=name, body=_body(query))

            def engine_way(expand: str) -> Callable[[str], object]:
                return lambda query: _fresh(engine).search(query, expand=expand)  # type: ignore[arg-type]

            def client_way(expand: str) -> Callable[[str], object]:
                def ask(query: str) -> object:
                    kept = ways[expand].transport._rewriter._known  # what it asked of this query before
                    kept._values.clear()
                    kept._total = 0
                    return ways[expand].search(index=name, body=_body(query))

                return ask

            return timed(
                queries,
                {
                    "plain": plain,
                    "engine, auto": engine_way("off"),
                    "engine, rank": engine_way("rank"),
                    "engine, recall": engine_way("recall"),
                    "client, auto": client_way("off"),
                    "client, rank": client_way("rank"),
                },
            )
    finally:
        client.indices.delete(index=name)


def _body(query: str) -> dict[str, object]:
    return {"query": {"match": {"body": query}}, "size": 10, "_source": False}


def _fresh(engine: Cluster) -> Cluster:
    """Return an engine that has forgotten what it asked."""
    engine._dfs.clear()
    engine._analyzed = ("", [])
    return engine


def main() -> None:
    """Time all collections, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--server")
    arguments = parser.parse_args()
    for folder in arguments.collections:
        queries = list(read_judgments(folder, arguments.queries, 0).queries.values())
        told = {"collection": os.path.basename(folder), "embedded, ms": embedded(folder, queries)}
        if arguments.server:
            told["OpenSearch, ms"] = on_server(folder, queries, arguments.server)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
