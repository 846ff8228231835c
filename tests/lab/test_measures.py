"""Measures by hand and by trec_eval's rules; budgets against a second writing of the rule."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.errors import SourceError
from qidf.lab.measures import MEASURES, Overflow, count_tokens, fill, measure, tokenizer
from tests.engines.required import load

load("lab", "ir_measures")


def test_measures_by_hand() -> None:
    ranking = ["d0", "d1", "d2", "d3"]
    relevant = {"a": {"d1": 2, "d3": 1, "gone": 3}, "b": {"d0": 1}, "nothing found": {"d0": 1}}
    found = measure({"a": ranking, "b": ranking, "nothing found": []}, relevant)
    assert list(found) == list(MEASURES)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found["nDCG@10"]["a"] == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert (found["R@100"]["a"], found["MRR"]["a"], found["Success@5"]["a"]) == pytest.approx((2 / 3, 1 / 2, 1))
    assert [found[name]["b"] for name in MEASURES] == [1, 1, 1, 1]
    assert [found[name]["nothing found"] for name in MEASURES] == [0, 0, 0, 0]


def test_the_order_counts_and_no_name() -> None:
    """trec_eval breaks ties of scores by the documents' names; here there are none."""
    names = [f"{c}{i}" for i in range(50) for c in "za"]
    found = measure({"q": names}, {"q": {names[7]: 1}})
    assert found["MRR"]["q"] == pytest.approx(1 / 8)


rankings = st.lists(st.sampled_from([f"d{i}" for i in range(12)]), unique=True, max_size=12)
sizes = st.dictionaries(st.sampled_from([f"d{i}" for i in range(12)]), st.integers(0, 50), min_size=12)
wanted = st.dictionaries(st.sampled_from([f"d{i}" for i in range(15)]), st.just(1), min_size=1, max_size=5)


def brute(ranking: list[str], relevant: dict[str, int], tokens: dict[str, int], budget: int, overflow: str) -> float:
    """Fill a list of tokens one by one."""
    context: list[str] = []
    for id in ranking:
        own = [id] * tokens[id]
        if len(context) + len(own) <= budget:
            context += own
            if not own:
                context = ["", *context]
                budget += 1  # an empty document takes no room, and is there
                context[0] = id
            continue
        if overflow == "truncate":
            context += own[: budget - len(context)]
        if overflow != "skip":
            break
    return len(set(context) & set(relevant)) / len(relevant)


@given(rankings, wanted, sizes, st.integers(1, 200), st.sampled_from(["stop", "skip", "truncate"]))
def test_a_budget_is_filled_by_the_rule(
    ranking: list[str], relevant: dict[str, int], tokens: dict[str, int], budget: int, overflow: Overflow
) -> None:
    assert fill(ranking, relevant, tokens, budget, overflow).recall == brute(
        ranking, relevant, tokens, budget, overflow
    )


@given(rankings, wanted, sizes, st.integers(1, 100), st.sampled_from(["stop", "truncate"]), rankings)
def test_more_hits_change_nothing_once_a_budget_is_full(
    ranking: list[str],
    relevant: dict[str, int],
    tokens: dict[str, int],
    budget: int,
    overflow: Overflow,
    more: list[str],
) -> None:
    walked = fill(ranking, relevant, tokens, budget, overflow)
    longer = [*ranking, *(id for id in more if id not in ranking)]
    if walked.is_full and all(tokens[id] for id in longer):
        assert fill(longer, relevant, tokens, budget, overflow) == walked


def test_a_larger_budget_never_holds_less_without_skipping() -> None:
    tokens = {"d0": 10, "d1": 300, "d2": 5}
    recalls = [fill(["d0", "d1", "d2"], {"d1": 1, "d2": 1}, tokens, budget).recall for budget in (9, 10, 310, 315)]
    assert recalls == [0, 0, 0.5, 1]
    assert fill(["d0", "d1", "d2"], {"d2": 1}, tokens, 20, "skip").recall == 1
    assert fill(["d0", "d1", "d2"], {"d1": 1}, tokens, 20, "truncate") == (1, True)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ää", 1), ("𝒳𝒳", 2)])
def test_tokens_are_counted_in_bytes(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_tokens_are_counted_by_a_vocabulary(tmp_path: Path) -> None:
    tokenizers = load("lab", "tokenizers")
    own = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=60, special_tokens=["?"], show_progress=False)
    own.train_from_iterator(["get user by id", "get the user", "set user"], trainer)
    own.enable_truncation(2)
    own.save(str(tmp_path / "tokenizer.json"))
    counter = tokenizer(tmp_path / "tokenizer.json")
    own.no_truncation()
    text = "get the user by id " * 9
    assert counter(text) == len(own.encode(text).ids) > 40
    assert counter("") == 0


def test_what_is_no_vocabulary_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        tokenizer(tmp_path / "nothing")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SourceError, match="is no tokenizer"):
        tokenizer(tmp_path / "tokenizer.json")
