"""Judged queries on a real index: metrics by hand, pairs, and files that are none."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.cluster.advice import advise
from qidf.cluster.evaluation import Choice, measure, read_judgments
from qidf.engines.cluster import Cluster
from qidf.errors import EngineError, SourceError
from tests.cluster.advised import folder, make, parsing
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server, cluster  # noqa: F401 (a fixture)
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

BM25 = Choice("BM25", 1.0, 1.0)
AUTO = Choice("auto", "auto", None)


@pytest.fixture(scope="module")
def client(cluster: Server) -> Iterator[Any]:  # noqa: F811
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


def test_queries_are_drawn_where_there_are_too_many(tmp_path: Path) -> None:
    place = folder(tmp_path, {f"q{i}": "x" for i in range(50)}, "".join(f"q{i}\td\t1\n" for i in range(50)), "dev.tsv")
    drawn = [read_judgments(place, 10, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert (len(drawn[0].queries), drawn[0].judged, list(drawn[0].relevant)) == (10, 50, list(drawn[0].queries))


@pytest.mark.parametrize(("qrels", "message"), [
    ("a\td\t1\na\td\n", "line 2: expected query-id, corpus-id and score"),
    ("a\td\tone\n", "line 1: expected"),
    ("a d 1\n", "line 1: expected"),
    ("a\t\t1\n", "line 1: expected"),
    ("a\td\t1\t2\n", "line 1: expected"),
    ("\xe9", "line 1: expected"),
    ("a\td\t0\n", "calls no document relevant"),
    ("", "calls no document relevant"),
    ("b\td\t1\n", "no query of queries.jsonl has a relevant document"),
    ("a" * 100_000, "line 1: expected"),
])  # fmt: skip
def test_a_file_of_judgments_that_is_none(tmp_path: Path, qrels: str, message: str) -> None:
    place = folder(tmp_path, {"a": "needle"}, "")
    (place / "qrels" / "test.tsv").write_bytes(qrels.encode("latin-1"))
    with pytest.raises(SourceError, match=message):
        read_judgments(place)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file or directory; a BEIR folder has"):
        read_judgments(tmp_path)
    place = folder(tmp_path, {"a": "needle"}, "a\td\t1\n", "dev.tsv")
    (place / "qrels" / "train.tsv").write_text("")
    with pytest.raises(SourceError, match=r"has no test.tsv, and 2 other .tsv files"):
        read_judgments(place)
    os.mkfifo(place / "qrels" / "test.tsv")
    with pytest.raises(SourceError, match="not a file"):
        read_judgments(place)
    (place / "qrels" / "test.tsv").unlink()
    (place / "qrels" / "train.tsv").unlink()
    (place / "queries.jsonl").write_text('{"_id": "a"}\n')
    with pytest.raises(SourceError, match="line 1: no text"):
        read_judgments(place)
    with pytest.raises(ValueError, match="queries must be an integer of at least 1, got 0"):
        read_judgments(place, 0)


def test_judgments_of_another_index(engine: Cluster, tmp_path: Path) -> None:
    place = folder(tmp_path, {"a": "config"}, "a\telsewhere\t1\n")
    with pytest.raises(EngineError, match=r"none of the 1 relevant documents.*'elsewhere', must be the _id"):
        advise(engine, judgments=read_judgments(place))


# Ways to switch it on
