from __future__ import annotations

import json

import pytest

from qidf.cli import demo, main
from qidf.cli.demo import QUERIES, Row


def test_runs_and_reports_from_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(q["query"], q["answer"]) for q in report["queries"]] == list(QUERIES)
    assert report["documents"] > 300
    for query in report["queries"]:
        assert query["present"]
        assert set(query["ranks"]) == {"standard, BM25", "standard, q-IDF", "code, BM25", "code, q-IDF"}
        assert all(rank is None or 1 <= rank <= 100 for rank in query["ranks"].values())
    single = report["queries"][0]["ranks"]  # one term: q can't change the order
    assert single["standard, BM25"] == single["standard, q-IDF"]


def test_missing_answer_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "QUERIES", (("heappushpop", "heapq.py"), ("parse HTML", "no_such_module.py")))
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "not in this Python's library: left out" in out
    assert "1 of 1" in out
    assert "not an evaluation" in " ".join(out.split())
    assert out.rstrip().splitlines()[-1].startswith("Now yours:  qidf search ")


def row(old: int | None, new: int | None) -> Row:
    return Row("q", "a.py", True, {("standard", "BM25"): old, ("standard", "q-IDF"): new})


def test_verdict_is_computed_from_the_ranks() -> None:
    verdict = demo._verdict([row(4, 1), row(1, 2), row(1, 1), row(None, 10), Row("q", "b.py", False, {})], "standard")
    assert "higher in 2 of 4, the same in 1, lower in 1" in verdict
    assert "at rank 1: 2 → 2" in verdict
    assert "0.56 → 0.65" in verdict  # (1/4 + 1 + 1 + 0) / 4 and (1 + 1/2 + 1 + 1/10) / 4
    assert "no answer moved; BM25 alone has 1 of 2 at rank 1" in demo._verdict([row(1, 1), row(None, None)], "standard")
    assert demo._name(None) == ">100"
