"""Reports: the verdict follows from the numbers, the page is whole, safe and loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from qidf.lab.bootstrap import Difference
from qidf.lab.collection import Collection, write
from qidf.lab.page import VERDICTS, page
from qidf.lab.plots import inline
from qidf.lab.reporting import Finding, judge, plain, report
from qidf.sources import Document
from tests.engines.required import load

load("lab", "matplotlib")
load("lab", "ir_measures")


def gain(low: float, high: float) -> Difference:
    return Difference((low + high) / 2, low, high, 0.0, 0.01, 3, 1)


@pytest.mark.parametrize(
    ("queries", "auto", "again", "verdict", "words"),
    [
        (
            100,
            gain(0.01, 0.03),
            gain(0.1, 0.2),
            "both",
            r"brings \+0.020 .* brings \+0.150 \(\+0.100 to \+0.200\) more",
        ),
        (100, gain(0.01, 0.03), gain(-0.1, 0.2), "weights", "no more that can be told"),
        (100, gain(0.01, 0.03), None, "weights", r"as it is\.$"),
        (100, gain(-0.01, 0.03), gain(0.1, 0.2), "reindex", "can't be told from BM25: .* Reindexed"),
        (100, gain(-0.03, -0.01), None, "keep", "it loses: -0.020"),
        (100, gain(-0.03, 0.01), gain(-0.2, 0.1), "keep", "can't be told from BM25"),
        (29, gain(0.01, 0.03), gain(0.1, 0.2), "few", "Too few queries to tell: 29"),
    ],
)
def test_the_verdict_follows_from_the_intervals(
    queries: int, auto: Difference, again: Difference | None, verdict: str, words: str
) -> None:
    found = judge(queries, [Finding("BM25", 0.2, None), Finding("auto", 0.3, auto)], again)
    assert found[0] == verdict
    assert found[0] in VERDICTS
    assert re.search(words, found[1])


class Reader(HTMLParser):
    """Checks that elements nest, and collects ids, sources and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href", "xlink:href") and value:
                self.links.append(value)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a collection whose queries and ids are written by somebody who wants to break the page."""
    collection = Collection()
    for i in range(40):
        words = f"rareName{i} rareName{(i + 1) % 40} and of " + "filler " * 5
        collection.documents.append(Document(f"<script>d{i}</script>", words))
        collection.documents.append(Document(f"short{i}", "where is the file read written script alert"))
        collection.queries[f"q{i}"] = f"where is </li><script>alert({i})</script> file read written rareName{i} file"
        collection.relevant[f"q{i}"] = [f"<script>d{i}</script>"]
    place = tmp_path_factory.mktemp("report") / "<b>go"
    write(collection, place)
    return str(place)


def test_the_page_of_a_hostile_collection(folder: str) -> None:
    own = report(folder, resamples=200)
    reader = Reader()
    reader.feed(page([own, own], "today"))
    reader.close()
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert not reader.tags & {"script", "b", "img", "iframe", "link", "object"}
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert VERDICTS[own.verdict] in reader.text
    assert "<script>alert" in reader.text


def test_the_numbers_are_those_of_the_lab(folder: str) -> None:
    own = report(folder, resamples=200)
    told = plain(own)
    assert own.findings[0].mean == pytest.approx(own.swept["bm25"])
    assert own.findings[1].mean == pytest.approx(own.swept["predicted"]["auto"]["nDCG@10"])
    assert own.compared.difference.mean == pytest.approx(own.findings[1].mean - own.findings[0].mean)
    assert own.findings[1].difference == own.compared.difference
    assert [one["name"] for one in told["findings"]][3:] == [
        "BM25, reindexed with code",
        "q-IDF (auto), reindexed with code",
    ]
    assert sum(terms for _, _, terms in own.bands) > 40
    code = report(folder, analyzer="code", resamples=200)
    assert len(code.findings) == 3
    assert code.findings[0].mean == pytest.approx(own.findings[3].mean)


def test_drawings_keep_their_ids_apart() -> None:
    svg = (
        '<?xml version="1.0"?><svg><metadata>who</metadata><g id="a"/><use xlink:href="#a" clip-path="url(#a)"/></svg>'
    )
    assert inline(svg, "x") == '<svg><g id="x-a"/><use xlink:href="#x-a" clip-path="url(#x-a)"/></svg>'
