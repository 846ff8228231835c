"""What a caller may pass, and what is refused: the same in search, search_many, search_terms and explain."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qidf.index import Index
from qidf.kernels import Inverter, Scanner


@pytest.fixture
def index(tmp_path: Path) -> Index:
    texts = [f"alpha {'beta ' * (i % 3)} getUser{i % 5} x{i} {'gamma ' * (i % 7)}" for i in range(60)]
    return Index.build([(f"d{i}", text) for i, text in enumerate(texts)], tmp_path / "x", analyzer="standard")


@pytest.mark.parametrize("k1", [np.float32(1.3), np.float16(1.1), Decimal("1.2"), 1, np.int64(2)])
@pytest.mark.parametrize("b", [np.float32(0.3), 0, 1, np.float64(0.75)])
def test_any_kind_of_number_is_one_float_everywhere(index: Index, k1: Any, b: Any) -> None:
    query = "alpha getUser3 gamma gamma"
    three: Any = np.int64(3)
    hits = index.search(query, three, k1=k1, b=b)
    assert len(hits) == 3
    for hit in hits:
        assert index.explain(query, hit.id, k1=k1, b=b).score == hit.score
    ids, scores = index.search_many([query], three, k1=k1, b=b)
    assert ids[0].tolist() == [hit.id for hit in hits]
    assert scores[0].tolist() == [hit.score for hit in hits]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 3.0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"q": math.nan}, "q must be"),
        ({"q": None}, "q must be"),
        ({"q": np.array([0.5, 0.6])}, "q must be"),
        ({"a": -1}, "a must be"),
        ({"k1": math.inf}, "k1 must be"),
        ({"k1": True}, "k1 must be"),
        ({"k1": [1]}, "k1 must be"),
        ({"b": 2}, "b must be"),
        ({"odds": "x"}, "odds must be"),
    ],
)
@pytest.mark.parametrize("query", ["alpha", "unknown", ""])
def test_nonsense_is_refused_whatever_the_query(
    index: Index, arguments: dict[str, Any], message: str, query: str
) -> None:
    index.search("alpha", k1=1.0, b=1.0)  # a cached (1, 1) must not let True pass
    searches: list[Callable[..., Any]] = [index.search, lambda text, **rest: index.search_many([text], **rest)]
    for search in searches:
        with pytest.raises(ValueError, match=message):
            search(query, **arguments)


@pytest.mark.parametrize("weight", [math.inf, math.nan, -1, None, 10**400])
def test_a_weight_is_a_finite_number(index: Index, weight: Any) -> None:
    with pytest.raises(ValueError, match="weight of 'alpha' must be"):
        index.search_terms([("alpha", weight)])


@pytest.mark.parametrize("threads", [0, -1, 1.5])
def test_threads_are_counted(index: Index, threads: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threads must be"):
        index.search_many(["alpha"], threads=threads)
    with pytest.raises(ValueError, match="threads must be"):
        Index.build([("a", "b")], tmp_path / "y", threads=threads)
    assert not (tmp_path / "y").exists()


def test_one_string_is_no_list_of_queries(index: Index) -> None:
    with pytest.raises(TypeError, match="queries must be"):
        index.search_many("alpha")


@pytest.mark.parametrize("q", [-100.0, -117.5, -120.0])
@pytest.mark.parametrize("query", ["x5 x5", "unknown x5 x5", "alpha"])
def test_a_weight_beyond_a_float_is_the_same_error_or_answer_everywhere(index: Index, q: float, query: str) -> None:
    for a in (1.0, 30.0, 2000.0):
        try:
            hits = [(hit.id, hit.score) for hit in index.search(query, 2, q=q, a=a)]
        except ValueError:
            with pytest.raises(ValueError, match="range"):
                index.search_many([query], 2, q=q, a=a)
            continue
        ids, scores = index.search_many([query], 2, q=q, a=a)
        assert [(i, s) for i, s in zip(ids[0], scores[0], strict=True) if i is not None] == hits
        for id, score in hits:
            assert index.explain(query, id, q=q, a=a).score == score


@pytest.mark.parametrize("analyzer", ["code", "standard", "simple", "word"])
def test_a_long_run_costs_no_more_than_its_length(analyzer: str) -> None:
    """4 MB of one letter: a scan that looks at the whole run from each window would take minutes."""
    started = time.process_time()
    Inverter(Scanner(analyzer), 1).add(["a" * 4_000_000, "0a" * 2_000_000, "A" * 4_000_000])
    assert time.process_time() - started < 20
