"""Real Tantivy indexes, as tantivy-py writes them, and what Tantivy itself finds in one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tantivy

SEGMENTS = 4  # fewer than Tantivy begins to merge at


def schema(tokenizer: str = "default", *, record: str = "position", stored: bool = True) -> tantivy.Schema:
    """Return the schema of `write`: a `body` beside an `id` as Tantivy's users have them."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", stored=stored, tokenizer_name=tokenizer, index_option=record)
    return builder.build()


def write(
    path: Path | None,
    documents: Sequence[tuple[str, str]],
    *,
    tokenizer: str = "default",
    record: str = "position",
    stored: bool = True,
    deleted: Iterable[str] = (),
) -> tantivy.Index:
    """Write an index of (id, text) in `SEGMENTS` segments, then mark some documents deleted: in memory without path."""
    rows = [{"id": id, "body": text} for id, text in documents]
    index = fill(path, schema(tokenizer, record=record, stored=stored), rows)
    writer = index.writer(15_000_000, 1)
    for id in deleted:
        writer.delete_documents_by_term("id", id)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def fill(path: Path | None, schema: tantivy.Schema, rows: Sequence[dict[str, Any]]) -> tantivy.Index:
    """Write an index of `rows`, {field: value}, in `SEGMENTS` segments."""
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
    index = tantivy.Index(schema, None if path is None else str(path))
    writer = index.writer(15_000_000, 1)
    step = max(1, -(-len(rows) // SEGMENTS))
    for i in range(0, len(rows), step):
        for row in rows[i : i + step]:
            writer.add_document(tantivy.Document.from_dict(row, schema))
        writer.commit()
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def plain(index: tantivy.Index, tokens: Sequence[str], k: int = 10) -> list[tuple[str, float]]:
    """Return (id, score) of Tantivy's own ranking of `body`: one optional clause a token, repeats and all."""
    searcher = index.searcher()
    clauses = [
        (tantivy.Occur.Should, tantivy.Query.term_query(index.schema, "body", token, index_option="freq"))
        for token in tokens
    ]
    return found(searcher, tantivy.Query.boolean_query(clauses), k) if clauses else []


def found(searcher: tantivy.Searcher, query: tantivy.Query, k: int = 10) -> list[tuple[str, float]]:
    """Return (id, score) of what `query` finds."""
    hits = searcher.search(query, k).hits
    return [(str(searcher.doc(address).get_first("id")), score) for score, address in hits]


def altered(of: tantivy.Schema, field: str, **indexing: Any) -> tantivy.Schema:
    """Return a schema that only Rust can write: `field` indexed with other settings, or not at all without any."""
    pickled: Any = of.__reduce__()
    make, (state,) = pickled
    for entry in state["inner"]:
        if entry["name"] == field:
            now = entry["options"]["indexing"]
            entry["options"]["indexing"] = {**now, **indexing} if indexing else None
    built: tantivy.Schema = make(state)
    return built
