"""Engine URLs: what they may say, and what is said of those that make no sense."""

from __future__ import annotations

import os
from typing import Any

import pytest

from qidf.engines import ENGINES, connect, parse


@pytest.mark.parametrize(
    ("url", "path", "field", "options"),
    [
        ("bm25s:saved", "saved", "", {}),
        ("tantivy:/srv/index#body", "/srv/index", "body", {}),
        ("tantivy:/srv/index#body?id=path", "/srv/index", "body", {"id": "path"}),
        ("lucene:idx?k1=0.9&b=0.4", "idx", "", {"k1": "0.9", "b": "0.4"}),
        ("lucene:a b/c:d#text.en?analyzer=org.x.Y&jars=/opt/a b", "a b/c:d", "text.en",
         {"analyzer": "org.x.Y", "jars": "/opt/a b"}),
        ("bm25s:100%25 of %23 and %3F?id=a%26b", "100% of # and ?", "", {"id": "a&b"}),
        ("bm25s:a%20b", "a%20b", "", {}),
        ("bm25s:verzeichnis/größe 𝒳", "verzeichnis/größe 𝒳", "", {}),
        ("qidf:x?", "x", "", {}),
    ],
)  # fmt: skip
def test_parts(url: str, path: str, field: str, options: dict[str, str]) -> None:
    parts = parse(url)
    assert (parts.path, parts.field, parts.options, parts.url) == (path, field, options, url)


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert parse("bm25s:~/saved").path == "/home/me/saved"
    assert os.path.expanduser("~") == "/home/me"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "an engine is named by a URL"),
        ("saved", "an engine is named by a URL"),
        ("BM25S:saved", "an engine is named by a URL"),
        ("http://localhost:9200/index", "an engine is named by a URL"),
        ("tantivy:", "no folder"),
        ("opensearch+http://host:9200/index", "name server, index and field"),
        ("opensearch+http://host:x/index#f", "no server"),
        ("opensearch+https:///index#f", "name server, index and field"),
        ("opensearch+http://host/index#f?exact=maybe", "exact must be true or false"),
        ("opensearch+http://host/index#f?timeout=0", "timeout must be seconds"),
        ("tantivy:#body", "no folder"),
        ("bm25s:a#b#c?d?e", "an engine is named by a URL"),
        ("bm25s:x?id", "options are name=value"),
        ("bm25s:x?id=a&id=b", "each once"),
        ("bm25s:x?k1=2", "unknown option 'k1'"),
        ("rank_bm25:x?id=a", "rank_bm25 has none"),
    ],
)
def test_urls_that_make_no_sense(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect(url)


def test_something_else_than_a_string() -> None:
    anything: Any = 3
    with pytest.raises(TypeError, match="must be str, got int"):
        connect(anything)


@pytest.mark.parametrize("scheme", ENGINES)
def test_every_engine_has_a_module_that_imports_without_its_library(scheme: str) -> None:
    import subprocess
    import sys

    libraries = ("bm25s", "rank_bm25", "tantivy", "jpype", "opensearchpy")
    program = (
        f"import sys\nfor name in {libraries}: sys.modules[name] = None\n"
        f"import qidf.engines.{ENGINES[scheme]} as module; module.open_url, module.OPTIONS"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
