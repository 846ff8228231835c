"""`qidf advise` on a real server: what it prints, as text and as JSON, and its errors."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.between import between
from tests.engines.conformance import DOCUMENTS
from tests.engines.opensearch_server import Server
from tests.engines.required import load

opensearchpy = load("opensearch", "opensearchpy")

Run = Callable[..., subprocess.CompletedProcess[str]]

INDEX = "advise-command"
QUERY = "who calls parse_config to read the config file"


@pytest.fixture(scope="module")
def url(cluster: Server) -> Iterator[str]:
    client = opensearchpy.OpenSearch(cluster.url, timeout=30)
    client.indices.delete(index=INDEX, ignore_unavailable=True)
    fields = {"body": {"type": "text"}, "title": {"type": "text"}, "tag": {"type": "keyword"}}
    client.indices.create(
        index=INDEX,
        body={
            "settings": {"number_of_shards": 2, "number_of_replicas": 0},
            "mappings": {"properties": fields | {"scored": {"type": "text", "similarity": "boolean"}}},
        },
    )
    documents = [*DOCUMENTS, *((f"code{i}", f"def parse_config(file{i}): read the file") for i in range(20))]
    lines: list[Any] = []
    for id, text in documents:
        lines += [{"index": {"_index": INDEX, "_id": id}}, {"body": text}]
    client.bulk(body=lines, params={"refresh": "true"})
    yield f"opensearch+{cluster.url}/{INDEX}#body"
    client.indices.delete(index=INDEX)
    client.close()


def test_what_it_prints(qidf: Run, url: str) -> None:
    done = qidf("advise", "--engine", url, "--query", QUERY, "--sample", "50")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == url
    assert lines[1].startswith("OpenSearch 2.")
    assert re.search(
        r"^hapax density +0\.\d{4}  0\.\d{4} to 0\.\d{4} \(95 %\), from 50 random documents$", done.stdout, re.M
    )
    assert re.search(r"^q, predicted +(\d\.\d\d)  \d\.\d\d to \d\.\d\d, by 1 - 7\.28 x density", done.stdout, re.M)
    assert f'"{QUERY}"' in lines
    head = next(line for line in lines if line.startswith("share of the weight"))
    assert re.fullmatch(r"share of the weight +df +BM25 +auto +0\.8 +0\.6 +hapax \d\.\d\d", head)
    row = next(line for line in lines if line.startswith("  parse_config *"))
    shares = [int(share) for share in re.findall(r"(\d+) %", row)]
    assert len(shares) == 5
    assert shares[0] < shares[2] < shares[3]
    assert next(line for line in lines if line.startswith("of BM25's top 10 stay")).split()[5] == "10"
    assert "(made from the sample)" not in done.stdout
    assert "- 2 shards: an idf of their own is " in done.stdout
    server, _, _ = url.removeprefix("opensearch+").rpartition("/")
    assert f'   client = wrap(OpenSearch("{server}"), fields=["body"])' in lines
    assert f"   qidf similarity --engine '{url}' --q 0.8" in lines
    assert f"   qidf proxy --upstream {server} --field body" in lines
    assert re.fullmatch(r"\d+ requests, all of them reading", lines[-1])
    assert max(map(len, lines)) <= 110


def test_without_queries_it_makes_some(qidf: Run, url: str) -> None:
    done = qidf("advise", "--engine", url)
    assert done.stdout.count("  (made from the sample)\n") == 3
    assert done.stdout == qidf("advise", "--engine", url).stdout
    assert done.stdout != qidf("advise", "--engine", url, "--seed", "3").stdout


def test_json_is_the_same_advice(qidf: Run, url: str) -> None:
    report = json.loads(qidf("advise", "--engine", url, "--query", QUERY, "--seed", "4", "--json").stdout)
    assert report["examples"][0]["query"] == QUERY
    assert report["estimate"]["low"] <= report["estimate"]["h"] <= report["estimate"]["high"]
    assert (report["q"], report["body"], report["evaluation"]) == ("auto", None, None)
    assert [way["lines"][-1].split()[0] for way in report["ways"]] == ["client", "qidf", "qidf"]
    assert report["requests"] < 500


def test_a_search_body(qidf: Run, url: str, tmp_path: Path) -> None:
    query = {"bool": {"must": [{"match": {"body": QUERY}}], "should": [{"match": {"title": "config"}}]}}
    (tmp_path / "search.json").write_text(json.dumps({"query": query, "min_score": 2}))
    done = qidf("advise", "--engine", url, "--body", "search.json", cwd=tmp_path)
    own = done.stdout.partition("Your search body\n")[2].splitlines()[:3]
    assert own == [
        "  rewritten: query.bool.must[0]",
        "  left: query.bool.should[0]: field title is not one of those to weigh",
        "  look at: min_score: scores of the query have another range now",
    ]
    (tmp_path / "search.json").write_text('{"query": {"match_all": {}}}')
    done = qidf("advise", "--engine", url, "--body", "search.json", cwd=tmp_path)
    assert "  nothing in it is weighed: no match on this field scores\n" in done.stdout


def test_evaluate(qidf: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    queries = [{"_id": str(i), "text": f"parse_config file{i} read"} for i in range(12)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    judged = "".join(f"{i}\tcode{i}\t1\n" for i in range(12)) + "0\tgone\t1\nnone\tcode1\t1\n"
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    done = qidf("advise", "--engine", url, "--evaluate", tmp_path, "--queries", "10")
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout.partition("Measured on 10 judged queries\n")[2].splitlines()
    assert table[0].split()[:3] == ["nDCG@10", "MRR@10", "Recall@100"]
    assert [line.split()[0] for line in table[1:5]] == ["BM25", "auto", "0.6", "hapax"]
    assert len(table[1].split()) == 4
    assert re.fullmatch(r"auto( +\d\.\d{4}){3} +[+-]\d\.\d{4}  [+-]\d\.\d{4} to [+-]\d\.\d{4} +\d+ +\d+", table[2])
    rest = "judged queries without a text that can be run: 1; judged queries not drawn: 2."
    assert rest in " ".join(done.stdout.split())
    report = json.loads(qidf("advise", "--engine", url, "--evaluate", tmp_path, "--json").stdout)["evaluation"]
    assert (report["queries"], report["judged"], report["missing"], report["unknown"]) == (12, 13, 1, 1)


def test_credentials_are_not_printed(qidf: Run, url: str) -> None:
    own = url.replace("http://", "http://someone:secret@")
    for flags in ([], ["--json"]):
        done = qidf("advise", "--engine", own, *flags)
        assert done.returncode == 0
        assert "secret" not in done.stdout + done.stderr
        assert f"qidf similarity --engine '{url}'" in done.stdout


def test_a_query_can_not_drive_the_terminal(qidf: Run, url: str) -> None:
    done = qidf("advise", "--engine", url, "--query", "config \x1b[2J file\u202e")
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["--engine", "bm25s:nowhere"], "no folder nowhere"),
    (["--engine", "URL", "--sample", "0"], "sample must be an integer of at least 1"),
    (["--engine", "URL", "--sample", "5000"], "sample must be at most 2,000"),
    (["--engine", "URL", "--seed", "-1"], "seed must be from 0"),
    (["--engine", "URL", "--evaluate", "nowhere"], "a BEIR folder has queries.jsonl and qrels/test.tsv"),
    (["--engine", "URL", "--body", "nowhere.json"], "nowhere.json: No such file"),
    (["--engine", "URL", "--body", "broken.json"], "broken.json is no JSON: "),
    (["--engine", "URL", "--body", "deep.json"], "deep.json is no JSON: nested deeper than"),
    (["--engine", "URL", "--body", "list.json"], "list.json holds no search body"),
    (["--engine", "URL#nothing"], "field 'nothing'"),
    (["--engine", "URL#tag"], "is of type keyword, not text"),
    (["--engine", "URL#scored"], "is scored by boolean, not BM25"),
    (["--engine", "URL#title"], "none of its documents has the field"),
    (["--engine", "opensearch+http://127.0.0.1:9/x#body"], "does not answer"),
    ([], "missing option '--engine'"),
])  # fmt: skip
def test_errors(qidf: Run, url: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    for name, content in (("broken", "{"), ("deep", '{"a":' + "[" * 5000), ("list", "[]")):
        (tmp_path / f"{name}.json").write_text(content)
    place = url.partition("#")[0]
    given = [one.replace("URL#", f"{place}#").replace("URL", url) for one in arguments]
    done = qidf("advise", *given, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_an_engine_that_is_no_server(qidf: Run, url: str, index: Path) -> None:
    done = qidf("advise", "--engine", f"qidf:{index}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "advise asks a server, such as opensearch+http://HOST:9200/INDEX#FIELD" in done.stderr


@pytest.mark.parametrize(("status", "message"), [
    (401, "no such user or password"),
    (403, "lacks a privilege: view_index_metadata (indices:admin/mappings/get)"),
    (404, "no such index"),
    (500, "can't be asked (500)"),
    (-1, "does not answer"),
])  # fmt: skip
def test_a_server_that_refuses(qidf: Run, url: str, status: int, message: str) -> None:
    with between(url.removeprefix("opensearch+").rpartition("/")[0]) as middle:
        middle.status = lambda seen: status if "_mapping" in seen.path else 0
        done = qidf("advise", "--engine", f"opensearch+{middle.url}/{INDEX}#body")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
