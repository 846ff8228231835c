"""`qidf evaluate` as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.conformance import DOCUMENTS
from tests.engines.required import load

load("lab", "ir_measures")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Return a BEIR folder: of each document some words are the query for it."""
    place = tmp_path / "beir"
    (place / "qrels").mkdir(parents=True)
    documents = [(id, text) for id, text in DOCUMENTS if 6 < len(text.split()) < 300]
    corpus = [json.dumps({"_id": id, "text": text}) for id, text in documents]
    queries = [json.dumps({"_id": f"q-{id}", "text": " ".join(text.split()[1:7])}) for id, text in documents]
    (place / "corpus.jsonl").write_text("\n".join(corpus))
    (place / "queries.jsonl").write_text("\n".join(queries))
    (place / "qrels" / "test.tsv").write_text("".join(f"q-{id}\t{id}\t1\n" for id, _ in documents))
    return place


def test_a_table_for_people(qidf: Run, collection: Path) -> None:
    done = qidf("evaluate", collection)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{collection}  analyzer standard"
    assert [line.split("  ")[0].strip() for line in lines[4:7]] == ["q = 1", "hapax", "auto"]
    assert "nDCG@10 against the first, 95 %" in lines[3]
    assert lines[9].split() == ["500", "1,000", "2,000", "4,000", "8,000", "16,000", "32,000"]
    assert max(map(len, lines)) <= 100


def test_json_and_values_of_each_query(qidf: Run, collection: Path, tmp_path: Path) -> None:
    output = tmp_path / "values.jsonl"
    done = qidf("evaluate", collection, "--q", "1", "--q", "0.5", "--a", "1", "--json", "--output", output)
    told = json.loads(done.stdout)
    assert told["collection"] == str(collection)
    assert [(own["q"], own["a"]) for own in told["results"]] == [(1.0, 1.0), (0.5, 1.0)]
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 2 * told["queries"]
    for own in told["results"]:
        values = [row["nDCG@10"] for row in rows if row["q"] == own["q"]]
        assert own["nDCG@10"] == pytest.approx(sum(values) / len(values))
    assert told["results"][1]["differences"]["nDCG@10"]["low"] <= told["results"][1]["differences"]["nDCG@10"]["mean"]


def test_an_index_of_the_corpus_can_be_asked(qidf: Run, collection: Path, tmp_path: Path) -> None:
    qidf("index", collection / "corpus.jsonl", "--index", tmp_path / "idx", "--analyzer", "standard")
    done = qidf("evaluate", collection, "--engine", f"qidf:{tmp_path / 'idx'}", "--json")
    own, built = (json.loads(one.stdout)["results"] for one in (done, qidf("evaluate", collection, "--json")))
    for theirs, ours in zip(own, built, strict=True):
        assert {name: ours[name] for name in ("nDCG@10", "R@100", "MRR", "Success@5")} == {
            name: theirs[name] for name in ("nDCG@10", "R@100", "MRR", "Success@5")
        }
    assert "R@500-tokens" not in own[0]


def test_a_choice_is_measured_with_identifiers_too(qidf: Run, collection: Path, tmp_path: Path) -> None:
    place = f"qidf:{tmp_path / 'idx'}"
    qidf("index", collection / "corpus.jsonl", "--index", tmp_path / "idx", "--analyzer", "standard")
    runs = tmp_path / "runs"
    done = qidf(
        "evaluate", collection, "--engine", place, "--q", "auto", "--expand", "recall", "--json", "--runs", runs
    )
    plain, widened = json.loads(done.stdout)["results"]
    assert (plain["q"], plain["expand"], widened["expand"]) == ("auto", "off", "recall")
    assert widened["differences"]
    assert {path.name for path in runs.iterdir()} == {"q=auto.run", "q=auto,expand=recall.run"}
    assert (runs / "q=auto.run").read_text() != (runs / "q=auto,expand=recall.run").read_text()
    assert "auto, expand rank" in qidf("evaluate", collection, "--engine", place, "--expand", "rank").stdout
    assert "--expand needs --engine" in qidf("evaluate", collection, "--expand", "rank").stderr
    qidf("index", collection / "corpus.jsonl", "--index", tmp_path / "code")
    none = qidf("evaluate", collection, "--engine", f"qidf:{tmp_path / 'code'}", "--expand", "rank")
    assert (none.returncode, "takes identifiers apart already" in none.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--q", "steep"], "q must be a number, 'hapax' or 'auto'"),
        (["--a", "-1"], "a must be"),
        (["--queries", "0"], "queries must be an integer of at least 1"),
        (["--bytes-per-token", "0"], "bytes-per-token must be from 0.1 to 100"),
        (["--output", "/nowhere/values.jsonl"], "can't write /nowhere/values.jsonl: No such file or directory"),
        (["--engine", "bm25s:/nowhere"], "/nowhere"),
    ],
)
def test_what_makes_no_sense(qidf: Run, collection: Path, options: list[str], message: str) -> None:
    done = qidf("evaluate", collection, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_is_no_collection(qidf: Run, tmp_path: Path) -> None:
    done = qidf("evaluate", tmp_path)
    assert done.returncode == 2
    assert "a BEIR folder has queries.jsonl and qrels/test.tsv" in done.stderr


def test_relevant_documents_that_are_not_there_are_counted(qidf: Run, collection: Path) -> None:
    with open(collection / "qrels" / "test.tsv", "a") as file:
        first = (collection / "qrels" / "test.tsv").read_text().split("\t")[0]
        file.write(f"{first}\tnowhere\t1\n{first}\tnothing\t1\n")
    assert "2 relevant documents are not in the corpus: never found" in qidf("evaluate", collection).stdout
    told = json.loads(qidf("evaluate", collection, "--q", "1", "--json").stdout)
    assert told["unknown_documents"] == 2
    assert told["results"][0]["R@100"] < 1


def test_tokens_are_counted_by_one_rule(qidf: Run, collection: Path, tmp_path: Path) -> None:
    tokenizers = load("lab", "tokenizers")
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    own.save(str(tmp_path / "tokenizer.json"))
    done = qidf("evaluate", collection, "--tokenizer", tmp_path / "tokenizer.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"in so many tokens ({tmp_path / 'tokenizer.json'})" in done.stdout
    both = qidf("evaluate", collection, "--tokenizer", tmp_path / "tokenizer.json", "--bytes-per-token", "3")
    assert both.returncode == 2
    assert "either --tokenizer or --bytes-per-token" in both.stderr
