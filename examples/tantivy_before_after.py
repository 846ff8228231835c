"""A Tantivy index: BM25 before, q-IDF after, from the same files.

python examples/tantivy_before_after.py
"""

from __future__ import annotations

import tempfile

import tantivy
from standard_library import FILES, QUESTION, show

import qidf

folder = tempfile.mkdtemp(prefix="qidf-example-")
schema = tantivy.SchemaBuilder()
schema.add_text_field("path", stored=True, tokenizer_name="raw")
schema.add_text_field("body")
index = tantivy.Index(schema.build(), folder)
writer = index.writer()
for path, text in FILES:
    writer.add_document(tantivy.Document(path=path, body=text))
writer.commit()
writer.wait_merging_threads()
index.reload()
searcher = index.searcher()

# before: two lines of Tantivy
query = index.parse_query(QUESTION, ["body"])
found = searcher.search(query, limit=4).hits
show("before", [searcher.doc(address)["path"][0] for _, address in found])

# after: the query has other weights, index and searcher are the same
query = qidf.connect(f"tantivy:{folder}#body").query(QUESTION)
found = searcher.search(query, limit=4).hits
show("after", [searcher.doc(address)["path"][0] for _, address in found])
