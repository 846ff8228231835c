"""Small indices on a server, and BEIR folders, for the tests of advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qidf.engines.cluster import Cluster
from qidf.engines.opensearch import from_client
from tests.engines.conformance import DOCUMENTS


def make(
    client: Any, index: str, texts: dict[str, str], *, shards: int = 2, settings: Any = None, **mapping: Any
) -> Cluster:
    client.indices.delete(index=index, ignore_unavailable=True)
    own = {"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": -1}
    fields = {"body": {"type": "text"}, "title": {"type": "text"}}
    client.indices.create(
        index=index,
        body={"settings": {"index": own, **(settings or {})}, "mappings": {"properties": fields} | mapping},
    )
    lines: list[Any] = []
    for id, text in texts.items():
        lines += [{"index": {"_index": index, "_id": id}}, {"body": text}]
    assert not client.bulk(body=lines, refresh="true")["errors"]
    return from_client(client, index, "body")


def parsing(client: Any, index: str) -> Cluster:
    """Make the documents of the conformance suite, and some more with names of functions."""
    names = {f"code{i}": f"def parse_config{i % 7}(file):\n    return read(file, {i})" for i in range(30)}
    return make(client, index, dict(DOCUMENTS) | names)


def folder(path: Path, queries: dict[str, str], qrels: str, name: str = "test.tsv") -> Path:
    (path / "qrels").mkdir(parents=True, exist_ok=True)
    (path / "queries.jsonl").write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in queries.items()))
    (path / "qrels" / name).write_text(qrels)
    return path
