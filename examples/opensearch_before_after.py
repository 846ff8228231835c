"""A running OpenSearch, asked with its own weights and with qidf's: the same client, the same call.

python examples/opensearch_before_after.py http://localhost:9200

Makes an index `qidf-example` of this Python's standard library, of two shards, and leaves it there to be played with.
"""

from __future__ import annotations

import sys
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk
from standard_library import FILES, QUESTION, show

from qidf.engines.opensearch import wrap

INDEX = "qidf-example"
BODY = {"query": {"match": {"content": QUESTION}}, "size": 4, "_source": False}

client = OpenSearch(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:9200", timeout=60)
if not client.indices.exists(index=INDEX):
    mapping: dict[str, Any] = {"properties": {"content": {"type": "text"}, "path": {"type": "keyword"}}}
    client.indices.create(index=INDEX, body={"settings": {"number_of_shards": 2}, "mappings": mapping})
    documents = ({"_index": INDEX, "_id": path, "path": path, "content": text} for path, text in FILES)
    bulk(client, documents, refresh=True)

# before
answer = client.search(index=INDEX, body=BODY)
show("before", [hit["_id"] for hit in answer["hits"]["hits"]])

# after: the same index, other weights
client = wrap(client, fields=["content"])
answer = client.search(index=INDEX, body=BODY)
show("after", [hit["_id"] for hit in answer["hits"]["hits"]])
