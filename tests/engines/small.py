"""A few documents whose counts can be read off, for the tests of one engine by hand."""

from __future__ import annotations

DOCUMENTS = [
    ("a", "def parse_query(text): parse the query, then parse it again"),
    ("b", "The query planner reads the query and the schema"),
    ("c", ""),
    ("d", "sha256 of the text; Größe and Straße"),
    ("e", "the the the the planner"),
    ("f", "parse parse parse"),
    ("g", "a reader of the schema runs, reading and running"),
    ("h", "rare words: zymurgy, getUser, x86"),
    ("i", "the text"),
    ("j", "the query text in the schema"),
]
DELETED = frozenset({"b", "i"})
