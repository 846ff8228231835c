"""Weights on judged queries: against searches one by one, as deep as budgets need."""

from __future__ import annotations

from pathlib import Path

import pytest

import qidf
from qidf.engines import connect
from qidf.lab.beir import Judgments
from qidf.lab.bootstrap import paired
from qidf.lab.evaluation import Weights, evaluate
from qidf.lab.measures import fill, measure
from tests.engines.conformance import DOCUMENTS
from tests.engines.required import load

load("lab", "ir_measures")

TEXTS = {id: text for id, text in DOCUMENTS if len(text) < 2000}
QUERIES = {id: " ".join(text.split()[1:7]) for id, text in TEXTS.items() if len(text.split()) > 6}
JUDGMENTS = Judgments("here", QUERIES, {id: {id: 1} for id in QUERIES}, len(QUERIES), 0)
CHOICES = [Weights(1.0, 1.0), Weights("auto"), Weights(0.5, 1.0)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> qidf.Index:
    place = tmp_path_factory.mktemp("lab") / "index"
    return qidf.Index.build(list(TEXTS.items()), place, analyzer="standard")


def test_values_are_those_of_searches_one_by_one(index: qidf.Index) -> None:
    tokens = {id: len(text) for id, text in TEXTS.items()}
    results = evaluate(index, JUDGMENTS, CHOICES, tokens=tokens, budgets=(100, 5000), resamples=200)
    for result, weights in zip(results, CHOICES, strict=True):
        rankings = {
            id: [hit.id for hit in index.search(text, 1000, q=weights.q, a=weights.a)] for id, text in QUERIES.items()
        }
        expected = measure({id: ranking[:100] for id, ranking in rankings.items()}, JUDGMENTS.relevant)
        for budget in (100, 5000):
            expected[f"R@{budget}-tokens"] = {
                id: fill(ranking, JUDGMENTS.relevant[id], tokens, budget).recall for id, ranking in rankings.items()
            }
        assert result.values == expected
        assert result.means["MRR"] == pytest.approx(sum(expected["MRR"].values()) / len(QUERIES))
    assert results[0].differences == {}
    base, own = (list(results[i].values["nDCG@10"].values()) for i in (0, 2))
    assert results[2].differences["nDCG@10"] == paired(base, own, 200)


def test_a_budget_is_walked_as_deep_as_it_goes(tmp_path: Path) -> None:
    """The answer is the last of 300 documents that score alike, and each takes a token."""
    texts = {f"d{i:03}": "needle" for i in range(300)}
    own = qidf.Index.build(list(texts.items()), tmp_path / "index", analyzer="standard")
    judgments = Judgments("here", {"q": "needle"}, {"q": {"d299": 1}}, 1, 0)
    (result,) = evaluate(own, judgments, [Weights(1.0)], tokens=dict.fromkeys(texts, 1), budgets=(299, 300, 10_000))
    assert [result.means[f"R@{budget}-tokens"] for budget in (299, 300, 10_000)] == [0, 1, 1]
    assert result.means["R@100"] == 0


def test_an_engine_is_asked_the_same(index: qidf.Index) -> None:
    with connect(f"qidf:{index.path}") as engine:
        theirs = evaluate(engine, JUDGMENTS, CHOICES[:1], resamples=200)
    ours = evaluate(index, JUDGMENTS, CHOICES[:1], resamples=200)
    assert theirs[0].values == ours[0].values
    assert not any(name.endswith("-tokens") for name in theirs[0].means)
