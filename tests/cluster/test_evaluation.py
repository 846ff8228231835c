"""Judged queries on a real index: metrics by hand, pairs, and files that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.advice import advise
from qidf.cluster.evaluation import Choice, measure
from qidf.engines.cluster import Cluster
from qidf.errors import EngineError
from qidf.lab.beir import read_judgments
from tests.cluster.advised import folder, make, parsing
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

BM25 = Choice("BM25", 1.0, 1.0)
AUTO = Choice("auto", "auto", None)


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:
    made = opensearchpy.OpenSearch(cluster.url, timeout=30)
    yield made
    made.indices.delete(index="judged*")
    made.close()


@pytest.fixture(scope="module")
def engine(client: Any) -> Cluster:
    return parsing(client, "judged")


def test_measures_by_hand(client: Any, tmp_path: Path) -> None:
    texts = {f"d{i}": "needle " * (9 - i) + "hay " * i for i in range(9)}  # BM25 ranks d0, d1, d2, …
    own = make(client, "judged-by-hand", texts, shards=1)
    assert [hit.id for hit in own.search("needle", 10)] == list(texts)
    qrels = "query-id\tcorpus-id\tscore\na\td1\t2\na\td3\t1\na\tgone\t3\na\td0\t0\nb\td0\t1\nc\td0\t1\n"
    place = folder(tmp_path, {"a": "needle", "b": "unknown", "unjudged": "needle"}, qrels)
    judgments = read_judgments(place)
    assert (judgments.judged, judgments.missing, list(judgments.queries)) == (3, 1, ["a", "b"])
    found = measure(own, judgments, [BM25, AUTO])
    assert (found.queries, found.relevant, found.unknown) == (2, 4, 1)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    ndcg = (2 / math.log2(3) + 1 / math.log2(5)) / ideal
    for row in found.rows:
        assert (row.ndcg_10, row.mrr_10, row.recall_100) == pytest.approx((ndcg / 2, 1 / 4, 1 / 3))
        assert (row.difference, row.low, row.high, row.won, row.lost) == (0, 0, 0, 0, 0)


def test_a_difference_is_paired_and_counted(engine: Cluster, tmp_path: Path) -> None:
    queries = {id: " ".join(text.split()[:6]) for id, text in DOCUMENTS[10:50] if len(text.split()) > 6}
    place = folder(tmp_path, queries, "".join(f"{id}\t{id}\t1\n" for id in queries))
    steps: list[tuple[int, int]] = []
    choices = [BM25, AUTO, Choice("0.05", 0.05, None)]
    found = measure(engine, read_judgments(place), choices, progress=lambda *step: steps.append(step))
    assert steps[-1] == (len(queries), len(queries))
    expected: dict[str, list[float]] = {choice.name: [] for choice in choices}
    for id, text in queries.items():
        for choice in choices:
            ids = [hit.id for hit in engine.search(text, 10, q=choice.q, a=choice.a)]
            expected[choice.name].append(1 / math.log2(ids.index(id) + 2) if id in ids else 0.0)
    assert len(set(map(tuple, expected.values()))) > 1
    for row in found.rows:
        own, plain = expected[row.choice.name], expected["BM25"]
        gains = [a - b for a, b in zip(own, plain, strict=True)]
        assert row.ndcg_10 == pytest.approx(sum(own) / len(own))
        assert row.difference == pytest.approx(sum(gains) / len(gains))
        assert (row.won, row.lost) == (sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains))
        assert row.low <= row.difference <= row.high


def test_judgments_of_another_index(engine: Cluster, tmp_path: Path) -> None:
    place = folder(tmp_path, {"a": "config"}, "a\telsewhere\t1\n")
    with pytest.raises(EngineError, match=r"none of the 1 relevant documents.*'elsewhere', must be the _id"):
        advise(engine, judgments=read_judgments(place))


# Ways to switch it on
