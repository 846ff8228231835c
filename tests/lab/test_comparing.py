"""Two runs: what moved, and by which terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from qidf.errors import SourceError
from qidf.index import Index
from qidf.lab.comparing import causes, compare
from tests.engines.required import load

load("lab", "ir_measures")

RELEVANT = {"1": {"a": 1}, "2": {"b": 1, "c": 1}, "3": {"d": 1}, "4": {"e": 1}}


def run(**rankings: str) -> dict[str, list[tuple[str, float]]]:
    return {query[1:]: [(id, -float(i)) for i, id in enumerate(ids)] for query, ids in rankings.items()}


def test_what_moved_and_where_to() -> None:
    first, second = run(q1="xya", q2="bc", q3="d"), run(q1="axy", q2="xb", q3="d", q4="xye")
    found = compare(RELEVANT, first, second, resamples=100)
    assert (found.queries, found.missing) == (4, (1, 0))
    assert (found.difference.won, found.difference.lost) == (2, 1)
    assert found.second - found.first == pytest.approx(found.difference.mean)
    by_query = {one.query: one for one in found.moved}
    assert (by_query["1"].document, by_query["1"].first_rank, by_query["1"].second_rank) == ("a", 3, 1)
    assert (by_query["1"].first, by_query["1"].second, by_query["1"].rival) == (0.5, 1.0, "x")
    assert (by_query["2"].document, by_query["2"].rival) == ("b", "x")
    assert (by_query["4"].first_rank, by_query["4"].second_rank, by_query["4"].rival) == (None, 3, "")
    assert [abs(one.change) for one in found.moved] == sorted((abs(one.change) for one in found.moved), reverse=True)


def test_a_run_for_other_queries_is_an_error() -> None:
    with pytest.raises(SourceError, match="second run answers none of the 4 judged queries"):
        compare(RELEVANT, run(q1="a"), run(q9="a"))


def test_the_terms_that_decided_add_up_to_the_margin(tmp_path: Path) -> None:
    documents = [("a", "the rare word of the file"), ("x", "the the the file is the file"), ("y", "nothing of it")]
    index = Index.build(documents, tmp_path / "index", analyzer="standard")
    text = "the file rare unknown"
    (moved,) = compare({"1": {"a": 1}}, run(q1="xa"), run(q1="ax"), resamples=10).moved
    found = causes(index, text, moved, (1.0, None), (0.2, 0.5))
    assert {one.term for one in found} == {"the", "file", "rare"}
    assert next(one for one in found if one.term == "rare").df == 1
    for q, a, margin in ((1.0, None, sum(c.first for c in found)), (0.2, 0.5, sum(c.second for c in found))):
        most = sum(weight for _, weight in index.weights(text, q=q, a=a))
        scores = {hit.id: hit.score for hit in index.search(text, q=q, a=a)}
        assert margin == pytest.approx((scores["a"] - scores["x"]) / most)
