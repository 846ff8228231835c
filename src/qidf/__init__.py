"""BM25 over code, with q-logarithm term weights, on the index you already have.

    import qidf
    index = qidf.Index.from_path(".")
    for hit in index.search("parse the config file", k=5):
        print(hit.rank, hit.path, hit.score)

The names below are imported when they are first used, so that `import qidf` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from qidf.engines import Engine, connect
    from qidf.errors import (
        AnalyzerWarning,
        EngineCorruptError,
        EngineError,
        EngineWarning,
        IndexCorruptError,
        IndexLockedError,
        IndexMismatchError,
        IndexNotFoundError,
        QidfError,
        SourceError,
    )
    from qidf.index import Explanation, Hit, Index, TermExplanation
    from qidf.sources import Document
    from qidf.spectrum import Spectrum

_HOMES = {
    "AnalyzerWarning": "qidf.errors",
    "Document": "qidf.sources",
    "Engine": "qidf.engines",
    "EngineCorruptError": "qidf.errors",
    "EngineError": "qidf.errors",
    "EngineWarning": "qidf.errors",
    "Explanation": "qidf.index",
    "Hit": "qidf.index",
    "Index": "qidf.index",
    "IndexCorruptError": "qidf.errors",
    "IndexLockedError": "qidf.errors",
    "IndexMismatchError": "qidf.errors",
    "IndexNotFoundError": "qidf.errors",
    "QidfError": "qidf.errors",
    "SourceError": "qidf.errors",
    "Spectrum": "qidf.spectrum",
    "TermExplanation": "qidf.index",
    "connect": "qidf.engines",
}

__all__ = [
    "AnalyzerWarning",
    "Document",
    "Engine",
    "EngineCorruptError",
    "EngineError",
    "EngineWarning",
    "Explanation",
    "Hit",
    "Index",
    "IndexCorruptError",
    "IndexLockedError",
    "IndexMismatchError",
    "IndexNotFoundError",
    "QidfError",
    "SourceError",
    "Spectrum",
    "TermExplanation",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'qidf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
