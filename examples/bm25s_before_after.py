"""A folder that bm25s saved: BM25 before, q-IDF after, from the same files.

python examples/bm25s_before_after.py
"""

from __future__ import annotations

import tempfile

import bm25s
from standard_library import FILES, QUESTION, show

import qidf

folder = tempfile.mkdtemp(prefix="qidf-example-")
index = bm25s.BM25(corpus=[{"id": path, "text": text} for path, text in FILES])
index.index(bm25s.tokenize([text for _, text in FILES], show_progress=False), show_progress=False)
index.save(folder, show_progress=False)

# before: three lines of bm25s
retriever = bm25s.BM25.load(folder, load_corpus=True, show_progress=False)
tokens = bm25s.tokenize([QUESTION], return_ids=False, show_progress=False)
documents, scores = retriever.retrieve(tokens, k=4, show_progress=False)
show("before", [document["id"] for document in documents[0]])

# after: two of qidf, nothing indexed again
engine = qidf.connect(f"bm25s:{folder}")
hits = engine.search(QUESTION, k=4)
show("after", [hit.id for hit in hits])
