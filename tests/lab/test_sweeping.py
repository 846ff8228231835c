"""Curves over q and what is read off them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from qidf.index import Index
from qidf.lab.beir import Judgments
from qidf.lab.bootstrap import paired, reselected
from qidf.lab.measures import measure
from qidf.lab.sweeping import GAMMAS, QS, Asked, Curve, dph_parts, oracle, recovery, sweep, sweep_all
from qidf.weighting import dph, idf
from tests.engines.conformance import DOCUMENTS
from tests.engines.required import load

load("lab", "ir_measures")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    documents = [(id, text) for id, text in DOCUMENTS if len(text.split()) > 6]
    index = Index.build(documents, tmp_path_factory.mktemp("lab") / "index", analyzer="standard")
    queries = {f"q-{id}": " ".join(text.split()[1:5]) for id, text in documents}
    relevant = {f"q-{id}": {id: 1} for id, _ in documents}
    return Asked(index, Judgments("folder", queries, relevant, len(queries), 0))


def test_a_curve_is_what_searches_one_by_one_give(asked: Asked) -> None:
    curve = sweep(asked, (0.3, 0.7, 1.0), asked.by_q(0.5))
    for setting, row in zip(curve.settings, curve.values, strict=True):
        rankings = {
            id: [hit.id for hit in asked.index.search(text, 10, q=setting, a=0.5)]
            for id, text in asked.judgments.queries.items()
        }
        expected = measure(rankings, asked.judgments.relevant)["nDCG@10"]
        assert row.tolist() == pytest.approx([expected[id] for id in asked.judgments.queries])
    assert curve.means == pytest.approx(curve.values.mean(axis=1))


def test_weights_of_powers_of_idf_at_1_are_bm25_s(asked: Asked) -> None:
    assert asked.by_gamma(0.5)(1.0) == pytest.approx(asked.by_q(0.5)(1.0), rel=1e-14)
    n, total = int(asked.terms.dfs[0]), asked.index.documents
    count = int(asked.terms.counts[0])
    assert asked.by_gamma(1.0)(2.0)[0] == pytest.approx(count * idf(n, total) ** 2)


def test_settings_without_bm25_are_an_error(asked: Asked) -> None:
    with pytest.raises(ValueError, match="1 must be among"):
        sweep(asked, (0.3, 0.7), asked.by_q(1.0))
    assert 1.0 in QS
    assert 1.0 in GAMMAS


def test_weights_that_are_none_are_an_error(asked: Asked) -> None:
    for weights in (np.full(asked.terms.dfs.size, math.nan), np.ones(1), -np.ones(asked.terms.dfs.size)):
        with pytest.raises(ValueError, match="finite numbers of at least 0"):
            asked.index.rank_many(asked.terms, weights)


def test_terms_and_parts_of_another_index_are_errors(asked: Asked, tmp_path: Path) -> None:
    other = Index.build([("a", "one getUser")], tmp_path / "index", analyzer="standard")
    with pytest.raises(ValueError, match="those of another index"):
        other.rank_many(asked.terms, np.ones(asked.terms.dfs.size))
    terms = other.analyze_many(["one"])
    with pytest.raises(ValueError, match="an array for each of 1 segments, got 0"):
        other.rank_many(terms, np.ones(1), parts=[])
    with pytest.raises(ValueError, match="sizes do not fit"):
        other.rank_many(terms, np.ones(1), parts=[np.ones(1)])
    with pytest.raises(TypeError, match="got one str"):
        other.analyze_many("one")


def test_the_best_of_equal_settings_is_the_one_closest_to_bm25() -> None:
    curve = Curve((0.5, 0.8, 1.0), np.array([[0.2, 0.4], [0.3, 0.3], [0.1, 0.2]]))
    assert curve.best == 0.8
    found = oracle(curve, resamples=200)
    assert found.setting == 0.8
    assert found.mean == pytest.approx(0.3)
    assert found.fixed == paired([0.1, 0.2], [0.3, 0.3], 200)


def test_an_interval_that_knows_of_the_choice_against_one_by_hand() -> None:
    rng = np.random.default_rng(5)
    first, others = rng.random(30), rng.random((4, 30))
    found = reselected(first.tolist(), others, resamples=500, seed=3)
    drawn = np.random.default_rng(3).integers(30, size=(500, 30))
    best = [max((row[pick] - first[pick]).mean() for row in others) for pick in drawn]
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(best, [2.5, 97.5])))
    assert found.mean == pytest.approx(max(row.mean() for row in others) - first.mean())
    fixed = paired(first.tolist(), others[others.mean(axis=1).argmax()].tolist(), 500, 3)
    assert found.high >= fixed.high


def test_of_one_system_both_intervals_are_the_same() -> None:
    rng = np.random.default_rng(6)
    first, other = rng.random(40).tolist(), rng.random((1, 40))
    fixed, found = paired(first, other[0].tolist(), 300, 1), reselected(first, other, 300, 1)
    assert found == pytest.approx(fixed)


def test_systems_of_other_queries_are_an_error() -> None:
    with pytest.raises(ValueError, match="same 2 queries"):
        reselected([0.1, 0.2], np.zeros((3, 4)))


def test_what_labels_could_bring() -> None:
    assert recovery(0.3, 0.2, 0.4) == pytest.approx(0.5)
    assert recovery(0.1, 0.2, 0.4) == pytest.approx(-0.5)
    assert recovery(0.3, 0.2, 0.2) is None


def test_a_sweep_of_everything(asked: Asked) -> None:
    told: list[tuple[int, int]] = []
    swept = sweep_all(
        asked, (0.5, 1.0), (1.0, 0.5), resamples=100, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert swept.bm25 == pytest.approx(swept.curves[1.0].means[1])
    assert set(swept.predicted) == {"hapax", "auto"}
    assert swept.predicted["auto"].q is None
    plain = swept.plain()
    assert [curve["a"] for curve in plain["curves"]] == [1.0, 0.5]
    assert plain["predicted"]["hapax"]["difference"]["mean"] == pytest.approx(
        plain["predicted"]["hapax"]["nDCG@10"] - plain["bm25"]
    )


def test_dph_of_every_posting_is_the_formula_s(asked: Asked) -> None:
    (postings,) = asked.index.postings()
    parts = dph_parts(postings, asked.index.average_length, asked.index.documents)
    for term in range(0, len(postings.offsets) - 1, 7):
        start, stop = int(postings.offsets[term]), int(postings.offsets[term + 1])
        cf = int(postings.counts[start:stop].sum())
        for at in range(start, stop):
            dl = int(postings.lengths[postings.docs[at]])
            expected = dph(int(postings.counts[at]), dl, asked.index.average_length, cf, asked.index.documents)
            assert parts[at] == pytest.approx(expected, rel=1e-12)


def test_dph_ranks_by_the_sum_over_the_query_s_terms(asked: Asked) -> None:
    text = next(iter(asked.judgments.queries.values()))
    (postings,) = asked.index.postings()
    parts = dph_parts(postings, asked.index.average_length, asked.index.documents)
    terms = asked.index.analyze_many([text])
    scores: dict[int, float] = {}
    for number, count in zip(terms.numbers[:, 0].tolist(), terms.counts.tolist(), strict=True):
        for at in range(int(postings.offsets[number]), int(postings.offsets[number + 1])):
            doc = int(postings.docs[at])
            scores[doc] = scores.get(doc, 0.0) + count * float(parts[at])
    best = sorted((score for score in scores.values() if score > 0), reverse=True)[:3]
    _, found = asked.index.rank_many(terms, terms.counts.astype(float), len(best), parts=[parts])
    assert len(best) > 1
    assert found[0].tolist() == pytest.approx(best)
    assert asked.dph().shape == (len(asked.judgments.queries),)
