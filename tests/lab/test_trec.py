"""TREC's files, in and out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.errors import SourceError
from qidf.lab.trec import read_qrels, read_run, write_qrels, write_run
from tests.engines.required import load

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
runs = st.dictionaries(
    names,
    st.lists(st.tuples(names, st.floats(0, 1e6)), min_size=1, max_size=6, unique_by=lambda hit: hit[0]),
    min_size=1,
    max_size=4,
)


@given(runs)
def test_a_run_comes_back_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, list[tuple[str, float]]]
) -> None:
    place = tmp_path_factory.mktemp("trec") / "a.run"
    ranked = {query: sorted(hits, key=lambda hit: -hit[1]) for query, hits in run.items()}
    write_run(place, ranked, "q=0.5")
    back, tag = read_run(place)
    assert tag == "qidf:q=0.5"
    assert {query: [id for id, _ in hits] for query, hits in back.items()} == {
        query: [id for id, _ in hits] for query, hits in ranked.items()
    }


def test_tools_of_the_field_read_the_same_order(tmp_path: Path) -> None:
    ir_measures = load("lab", "ir_measures")
    write_run(tmp_path / "a.run", {"1": [("b", 2.0), ("a", 2.0), ("c", 2.0)], "2": [("x", 1.0)]}, "me")
    write_qrels(tmp_path / "a.qrels", {"1": {"a": 1}, "2": {"y": 2}})
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "a.qrels")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "a.run")))
    found = {one.query_id: one.value for one in ir_measures.iter_calc([ir_measures.RR], qrels, run)}
    assert found == {"1": 0.5, "2": 0.0}
    assert read_qrels(tmp_path / "a.qrels") == {"1": {"a": 1}, "2": {"y": 2}}


def test_scores_decide_and_ranks_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("1 Q0 a 1 0.1 t\n1 Q0 b 2 0.3 t\n1\tQ0\tc\t3\t0.3\tt\n\n")
    assert read_run(tmp_path / "a.run") == ({"1": [("c", 0.3), ("b", 0.3), ("a", 0.1)]}, "t")


def test_ids_of_strangers_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("1 Q0 a%20b 1 0.1 lucene\n")
    assert read_run(tmp_path / "a.run")[0] == {"1": [("a%20b", 0.1)]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 a 1 0.1\n", "line 1: expected query, Q0"),
        ("1 Q0 a 1 0.1 t\n1 Q0 a 2 x t\n", "line 2: expected"),
        ("1 Q0 a 1 nan t\n", "line 1: expected"),
        ("1 Q0 a 1 0.1 t\n1 Q0 a 2 0.1 t\n", "line 2: 'a' stands twice"),
        ("", "holds no run"),
    ],
)
def test_what_is_no_run_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.run").write_text(text)
    with pytest.raises(SourceError, match=message):
        read_run(tmp_path / "a.run")


@pytest.mark.parametrize(
    ("text", "message"),
    [("1 0 a\n", "line 1: expected query"), ("1 0 a x\n", "line 1"), ("1 0 a 0\n1 0 b -1\n", "calls no document")],
)
def test_what_are_no_judgments_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.qrels").write_text(text)
    with pytest.raises(SourceError, match=message):
        read_qrels(tmp_path / "a.qrels")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        read_run(tmp_path / "nothing")
    with pytest.raises(SourceError, match="not a file"):
        read_qrels(tmp_path)
    with pytest.raises(SourceError, match="can't write"):
        write_run(tmp_path / "no" / "a.run", {"1": [("a", 1.0)]}, "t")
    with pytest.raises(SourceError, match="white space"):
        write_qrels(tmp_path / "a.qrels", {"1": {"a b": 1}})
    assert not list(tmp_path.iterdir())


def test_equal_scores_are_written_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "a.run", {"1": [("a", 1.0), ("b", 1.0), ("c", 0.5)]}, "t")
    scores = [float(line.split()[4]) for line in (tmp_path / "a.run").read_text().splitlines()]
    assert scores == [1.0, 1.0 - 2.0**-24, 0.5]  # of 32 bits
