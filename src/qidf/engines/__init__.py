"""Engines: indexes that others made, each asked in its own way for the same few things. `connect` opens one by its URL.

One module an engine. Each has `OPTIONS`, what its URL may say after `?`, and `open_url`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from qidf.engines.base import EXPAND, Collection, Engine, Expand, Model
from qidf.expansion import place

ENGINES = {
    "qidf": "embedded",
    "bm25s": "bm25s",
    "tantivy": "tantivy",
    "lucene": "lucene",
    "rank_bm25": "rank_bm25",
    "opensearch+http": "opensearch",
    "opensearch+https": "opensearch",
    "elasticsearch+http": "elasticsearch",
    "elasticsearch+https": "elasticsearch",
}
"""The scheme of a URL, and the module of this package that opens it."""

_URL = re.compile(
    r"(?P<scheme>[a-z0-9_+]+):(?P<path>[^#]*?)(?:#(?P<field>[^?]*))?(?:\?(?P<options>[^?]*))?\Z", re.DOTALL
)


class EngineURL(NamedTuple):
    """An engine's URL in its parts: `tantivy:DIR#field?name=value&…`. Whatever is not there is empty."""

    url: str
    scheme: str
    path: str
    field: str
    options: dict[str, str]

    def number(self, name: str, default: float) -> float:
        """Return an option as a float. ValueError if it is none."""
        try:
            return float(self.options.get(name, default))
        except ValueError:
            raise ValueError(f"{name} must be a number in {self.url!r}, got {self.options[name]!r}") from None


def connect(url: str) -> Engine:
    """Open the engine that `url` names.

    - `qidf:DIR`: an index of qidf's own
    - `bm25s:DIR`: a folder that `bm25s.BM25.save` wrote
    - `tantivy:DIR#field`: a Tantivy index
    - `lucene:DIR#field?analyzer=…&k1=…&b=…&jars=…`: a Lucene index, also Pyserini's and Anserini's
    - `opensearch+https://HOST:9200/INDEX#field`: a running OpenSearch

    Options stand behind `?`, divided by `&`; `docs/engines.md` lists them. `#`, `?`, `&` and `%` in a name are written
    `%23`, `%3F`, `%26` and `%25`. A path may begin with `~`.

    Raises
    ------
    ValueError
        That is no such URL.
    EngineError, IndexNotFoundError, EngineCorruptError
        The engine's library is missing, or there is no such index, or it can't be read. The message says what to do.
    """
    parts = parse(url)
    module = import_module(f"qidf.engines.{ENGINES[parts.scheme]}")
    options: tuple[str, ...] = module.OPTIONS
    for name in parts.options:
        if name not in options:
            allowed = f"one of {', '.join(options)}" if options else "none"
            raise ValueError(f"unknown option {name!r} in {url!r}: {parts.scheme} has {allowed}")
    opens: Callable[[EngineURL], Engine] = module.open_url
    engine = opens(parts)
    engine.dictionary = place.of_engine(engine)
    return engine


def parse(url: str) -> EngineURL:
    """Return the parts of an engine's URL; ValueError if it is none."""
    if not isinstance(url, str):
        raise TypeError(f"an engine's URL must be str, got {type(url).__name__}")
    match = _URL.match(url)
    if match is None or match["scheme"] not in ENGINES:
        raise ValueError(
            f"an engine is named by a URL such as bm25s:DIR, tantivy:DIR#field or lucene:DIR#field, got {url!r}"
        )
    if not match["path"]:
        raise ValueError(f"no folder in {url!r}: write {match['scheme']}:DIR")
    options = {}
    for pair in filter(None, (match["options"] or "").split("&")):
        name, equals, value = pair.partition("=")
        if not equals or name in options:
            raise ValueError(f"options are name=value, each once, got {pair!r} in {url!r}")
        if "#" in value:
            raise ValueError(f"the field comes before the options, DIR#field?name=value, got {url!r}")
        options[name] = _unquote(value)
    path = os.path.expanduser(_unquote(match["path"]))
    return EngineURL(url, match["scheme"], path, _unquote(match["field"] or ""), options)


def _unquote(text: str) -> str:
    return re.sub("%(23|3[Ff]|26|25)", lambda code: chr(int(code[1], 16)), text)


__all__ = ["ENGINES", "EXPAND", "Collection", "Engine", "EngineURL", "Expand", "Model", "connect", "parse"]
