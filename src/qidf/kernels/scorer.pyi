from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qidf.kernels.scan import Scanner

def checksums(data: Any) -> bytes: ...
def analyze(
    scanner: Scanner,
    readers: list[Reader],
    texts: Sequence[str],
    spans: Sequence[list[tuple[int, int]] | None] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

class Reader:
    documents: int
    terms: int
    postings: int
    name: str
    def __init__(
        self, buffer: Any, name: str, documents: int, seed: int, arrays: dict[str, tuple[int, int]]
    ) -> None: ...
    def check(self, offset: int, length: int) -> None: ...
    def ordinal(self, term: str) -> int: ...
    def df(self, ordinal: int) -> int: ...
    def count(self, ordinal: int, doc: int) -> int: ...
    def length(self, doc: int) -> int: ...
    def ids(self, docs: Any, offsets: int, data: int, data_bytes: int) -> list[str | None]: ...
    def norms(self, k1: float, b: float, average: float, out: Any) -> None: ...
    def parts(self, norms: Any, out: Any) -> None: ...
    def score(
        self,
        offsets: Any,
        ordinals: Any,
        weights: Any,
        norms: Any,
        k: int,
        out_docs: Any,
        out_scores: Any,
        first: int,
        last: int,
        parts: Any = None,
    ) -> None: ...
