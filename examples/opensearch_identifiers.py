"""Plain words that find a function which a running OpenSearch glued into one term; nothing is reindexed.

python examples/opensearch_identifiers.py http://localhost:9200

Makes an index `qidf-example-functions` of this Python's standard library, one document a function, and leaves it there.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk

from qidf.engines.opensearch import from_client
from qidf.expansion.building import build

INDEX = "qidf-example-functions"
QUESTION = "elements by tag name"
PACKAGES = ("xml", "logging", "unittest", "concurrent", "asyncio", "email", "http")


def functions() -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each function, without its doc comment."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(path for package in PACKAGES for path in (library / package).rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                node.body = node.body[1:] if ast.get_docstring(node) else node.body
                yield f"{path.relative_to(library)}:{node.lineno} {node.name}", ast.unparse(node)


client = OpenSearch(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:9200", timeout=60)
if not client.indices.exists(index=INDEX):
    client.indices.create(index=INDEX, body={"mappings": {"properties": {"body": {"type": "text"}}}})
    documents = ({"_index": INDEX, "_id": name, "body": text} for name, text in functions())
    bulk(client, documents, refresh=True)

engine = from_client(client, INDEX, "body")
for hit in engine.search(QUESTION, 3, q=1, a=1):
    print("before", hit.id)

with tempfile.TemporaryDirectory() as folder:
    build(engine, f"{folder}/identifiers")  # `qidf dictionary build` keeps it in your cache folder
    for hit in engine.search(QUESTION, 3):
        print("after ", hit.id)
    for one in engine.widened(QUESTION)[:3]:
        print("added ", one.term, "for", *one.words)
