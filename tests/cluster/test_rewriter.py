"""What a rewriter keeps: bounded by its size, for as long as it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.cluster import rewriter
from qidf.cluster.rewriter import Rewriter, Search
from qidf.cluster.steps import Asked, carry_out


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12)), max_size=40), st.integers(1, 30))
def test_what_is_kept_never_outgrows_its_bound(puts: list[tuple[int, int]], most: int) -> None:
    kept: rewriter._Kept[int] = rewriter._Kept(most, 60)
    newest: dict[int, int] = {}
    for key, size in puts:
        kept.put(key, size, size)
        newest.pop(key, None)
        newest[key] = size
        held = [one for one in range(10) if kept.get(one) is not None]
        assert sum(newest[one] for one in held) <= max(most, size)
        assert held == sorted(list(newest)[-len(held) :]), "the oldest go first"
        assert kept.get(key) == size


def test_long_texts_take_the_place_of_many_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriter, "KEPT_TOKENS", 200)
    asked: list[Asked] = []

    def send(one: Asked) -> object:
        asked.append(one)
        if one.path.endswith("_mapping"):
            return {"a": {"mappings": {"properties": {"body": {"type": "text"}}}}}
        if one.path.endswith("_search_shards"):
            return {"shards": [[{"index": "a", "shard": 0}]]}
        if one.path.endswith("_settings"):
            return {}
        words = one.body["docs"][0]["doc"]["body"].split()
        terms = {
            word: {"doc_freq": 1, "tokens": [{"position": i, "start_offset": i, "end_offset": i + 1}]}
            for i, word in enumerate(words)
        }
        statistics = {"doc_count": 9, "sum_ttf": 99}
        return {"docs": [{"term_vectors": {"body": {"field_statistics": statistics, "terms": terms}}}]}

    own = Rewriter()

    def search(text: str) -> bool:
        before = len(asked)
        carry_out(own.steps([Search("a", {"query": {"match": {"body": text}}})]), send)
        return len(asked) > before

    assert search("one two")
    assert not search("one two")
    assert search(" ".join(f"w{i}" for i in range(185)))
    assert search("one two")
