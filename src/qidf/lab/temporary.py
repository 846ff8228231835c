"""An index that stands as long as it is measured. Knows documents; measures nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qidf.index import Index
    from qidf.sources import Document

_MEMORY = 2 << 30  # one segment for all that fits: every term has one row then


@contextmanager
def temporary_index(
    documents: Iterable[Document], analyzer: str, progress: Callable[[int, int], None] | None = None
) -> Iterator[Index]:
    """Yield an index of the documents, in a folder that is removed afterwards."""
    from qidf.index import Index

    with tempfile.TemporaryDirectory(prefix="qidf-lab-") as place:
        told = (lambda done: progress(done, done)) if progress else None
        yield Index.build(documents, f"{place}/index", analyzer=analyzer, memory=_MEMORY, progress=told)
