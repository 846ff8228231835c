from array import array
from typing import Any

from qidf.kernels.scorer import Reader

class Merger:
    documents: int
    terms: int
    postings: int
    tokens: int
    hapax: int
    most: int
    segments: array[int]
    docs: array[int]
    vocabulary: dict[str, Any]
    def __init__(self, readers: list[Reader], ids: list[tuple[int, int, int]], seed: int) -> None: ...
    def fill(self, docs: Any, counts: Any) -> int: ...
    @property
    def large(self) -> Any: ...
    def sizes(self, blobs: list[tuple[int, int, int] | None]) -> Any: ...
    def items(self, blobs: list[tuple[int, int, int] | None], first: int, last: int) -> Any: ...
    def column(self, places: list[int], width: int, default: bytes) -> Any: ...
