"""Studies: they agree with the lab's parts, go on where they stopped, and leave files that can be read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from qidf.errors import SourceError
from qidf.index import Index
from qidf.lab.beir import read_corpus, read_judgments
from qidf.lab.evaluation import Weights, evaluate
from qidf.lab.running import markdown, run
from qidf.lab.studies import STUDIES, Settings, Study, Table
from qidf.lab.studies.analyzers import parts_only
from qidf.lab.studies.base import over_collections
from tests.engines.required import load
from tests.lab.folders import make

load("lab", "matplotlib")
load("lab", "ir_measures")

FAST = Settings(resamples=200)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    place = tmp_path_factory.mktemp("collections")
    return [str(make(place / "go")), str(make(place / "java", 30, 10, "java"))]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_tables_a_plot_and_json(name: str, folders: list[str], tmp_path: Path) -> None:
    result, tables = run(name, folders, str(tmp_path), FAST)
    told = json.loads((tmp_path / f"{name}.json").read_text())
    assert told == json.loads(json.dumps(result))
    assert list(told["collections"]) == ["go", "java"]
    assert told["settings"]["resamples"] == 200
    page = (tmp_path / f"{name}.md").read_text()
    assert page == markdown(tables)
    assert all(len(row) == len(table.head) for table in tables for row in table.rows)
    assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
    assert not [path for path in tmp_path.iterdir() if path.name.split(".")[-1].isdigit()]


def test_weights_agree_with_evaluate(folders: list[str], tmp_path: Path) -> None:
    cell = STUDIES["weights"].measure(folders[0], FAST)
    index = Index.build(read_corpus(folders[0]), tmp_path / "index", analyzer="standard")
    choices = [Weights(1.0), Weights("hapax"), Weights("auto"), Weights(0.4, 1.0), Weights(0.4, 0.5), Weights(1.0, 0.5)]
    found = [own.means["nDCG@10"] for own in evaluate(index, read_judgments(folders[0]), choices, resamples=10)]
    at = cell["curves"][0]["q"].index(0.4)
    assert found == pytest.approx(
        [
            cell["bm25"],
            cell["predicted"]["hapax"]["nDCG@10"],
            cell["predicted"]["auto"]["nDCG@10"],
            cell["curves"][0]["nDCG@10"][at],
            cell["curves"][1]["nDCG@10"][at],
            cell["damped"],
        ]
    )
    assert cell["gamma"]["nDCG@10"][cell["gamma"]["gamma"].index(1.0)] == pytest.approx(cell["bm25"])
    assert sum(row["queries"] for row in cell["rarity"]) == cell["queries"]


def test_an_interrupted_study_goes_on_where_it_stopped(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    real = STUDIES["weights"]

    def stops_at_java(folder: str, settings: Settings) -> dict[str, object]:
        if folder.endswith("java") and not measured.count("stop"):
            measured.append("stop")
            raise KeyboardInterrupt
        measured.append(folder)
        return real.measure(folder, settings)

    monkeypatch.setitem(STUDIES, "weights", Study("", stops_at_java, real.tables))
    with pytest.raises(KeyboardInterrupt):
        run("weights", folders, str(tmp_path), FAST)
    assert not (tmp_path / "weights.json").exists()
    run("weights", folders, str(tmp_path), FAST)
    assert measured == [folders[0], "stop", folders[1]]


def test_what_changed_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "go")
    first, _ = run("scaling", [str(folder)], str(tmp_path / "out"), FAST)
    queries = (folder / "queries.jsonl").read_text().splitlines()
    (folder / "queries.jsonl").write_text("\n".join(queries[:5]))
    again, _ = run("scaling", [str(folder)], str(tmp_path / "out"), FAST)
    assert (first["collections"]["go"]["queries"], again["collections"]["go"]["queries"]) == (12, 5)
    other, _ = run("scaling", [str(folder)], str(tmp_path / "out"), Settings(queries=3, resamples=200))
    assert other["collections"]["go"]["queries"] == 3


def test_a_damaged_cell_is_measured_again(folders: list[str], tmp_path: Path) -> None:
    run("scaling", folders[:1], str(tmp_path), FAST)
    (cell,) = (tmp_path / ".cells").iterdir()
    cell.write_text("{")
    result, _ = run("scaling", folders[:1], str(tmp_path), FAST)
    assert result["collections"]["go"]["queries"] == 12


def test_scaling_asks_the_same_queries_of_growing_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qidf.lab.studies import scaling

    monkeypatch.setattr(scaling, "SIZES", (15, 25, 100))
    cell = STUDIES["scaling"].measure(str(make(tmp_path / "go", 40, 10)), FAST)
    assert [own["documents"] for own in cell["sizes"]] == [15, 25, 40]
    assert {own["queries"] for own in cell["sizes"]} == {10}


def test_folders_that_are_none_or_two_of_a_name_are_errors(folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        run("weights", [str(tmp_path / "nowhere")], str(tmp_path / "out"), FAST)
    with pytest.raises(SourceError, match="two collections are called go"):
        run("weights", [folders[0], folders[0]], str(tmp_path / "out"), FAST)
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="can't write"):
        run("weights", folders, str(tmp_path / "file"), FAST)


def test_parts_without_the_identifiers() -> None:
    assert parts_only("") == parts_only(" … ") == ""
    assert parts_only("getUserById(x) __init__ sha256 plain") == "get User By Id x init sha 256 plain"


def test_over_collections_against_the_same_by_hand() -> None:
    gains = [0.1, 0.3, -0.1, 0.2]
    own = over_collections(gains, seed=4)
    drawn = np.random.default_rng(4).integers(4, size=(10_000, 4))
    means = [sum(gains[i] for i in row) / 4 for row in drawn]
    assert (own["mean"], own["median"], own["worst"]) == pytest.approx((0.125, 0.15, -0.1))
    assert (own["mean_low"], own["mean_high"]) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])))


def test_markdown_of_a_table() -> None:
    table = Table("A title", ["name", "n"], [["a|b", "1"]], ("A note.",))
    assert markdown([table]) == "### A title\n\n| name | n |\n|---|---:|\n| a&#124;b | 1 |\n\nA note.\n"
