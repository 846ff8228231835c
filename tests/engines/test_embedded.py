"""qidf's own index as an engine. There is no other library to compare with, so "plain" is the brute force."""

from __future__ import annotations

from pathlib import Path

import pytest

from qidf import Index, connect
from qidf.engines.embedded import Embedded
from tests.engines.brute_force import BruteForce
from tests.engines.conformance import DELETED, DOCUMENTS, Conformance, Subject, ranked


@pytest.fixture(scope="module", params=["standard", "simple", "word", "code", "standard?odds=robertson&k1=0.9&b=0.4"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    analyzer, mark, options = request.param.partition("?")
    documents = {id: text for id, text in DOCUMENTS if id not in DELETED}
    place = tmp_path_factory.mktemp("embedded") / "index"
    Index.build(documents.items(), place, analyzer=analyzer)
    engine = connect(f"qidf:{place}{mark}{options}")
    tokens = {id: [token.term for token in engine.analyze(text)] for id, text in documents.items()}
    brute = BruteForce(tokens, (), engine.model)

    def plain(query: str, k: int) -> list[tuple[str, float]]:
        terms = [token.term for token in engine.analyze(query)]
        return list(ranked(brute.scores({term: terms.count(term) * brute.idf(term) for term in set(terms)}), k))

    return Subject(engine, documents, frozenset(), plain)


class TestConformance(Conformance):
    scaled = False


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.build(DOCUMENTS, tmp_path / "index", analyzer="standard")


def test_scores_are_those_of_the_index_to_the_last_bit(index: Index) -> None:
    engine = connect(f"qidf:{index.path}")
    for query in ("read the config file", "getUserById std::vector"):
        for q, a in ((1, 1), ("auto", None), ("hapax", None), (0.3, 0.5)):
            assert engine.search(query, 20, q=q, a=a) == index.search(query, 20, q=q, a=a)
            assert engine.weights(query, q=q, a=a) == index.weights(query, q=q, a=a)
    hit = index.search("read the config file")[0]
    assert engine.explain("read the config file", hit.id) == index.explain("read the config file", hit.id)


def test_filters_go_as_deep_as_they_must(index: Index) -> None:
    engine = Embedded(index)
    everything = engine.search("everywhere the", 500)
    last = everything[-1].id
    assert [hit.id for hit in engine.search("everywhere the", 1, filter={last})] == [last]
    allowed = {hit.id for hit in everything[10:60:7]}
    for filter in (allowed, allowed.__contains__):
        hits = engine.search("everywhere the", 3, filter=filter)
        expected = [hit for hit in everything if hit.id in allowed][:3]
        assert [(hit.rank, hit.id, hit.score) for hit in hits] == [
            (rank, hit.id, hit.score) for rank, hit in enumerate(expected, 1)
        ]
    assert engine.search("everywhere the", 3, filter=set()) == []


def test_the_text_is_there_if_it_is_stored(tmp_path: Path) -> None:
    stored = Index.build([("a", "some text")], tmp_path / "stored", store_text=True)
    assert connect(f"qidf:{stored.path}").text("a") == "some text"
    bare = Index.build([("a", "some text")], tmp_path / "bare")
    assert connect(f"qidf:{bare.path}").text("a") is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("#body", "have one field"),
        ("?k1=high", "k1 must be a number"),
        ("?b=2", "b must be"),
        ("?odds=even", "odds must be one of"),
        ("?analyzer=code", "unknown option 'analyzer'"),
    ],
)
def test_urls_that_make_no_sense(index: Index, url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect(f"qidf:{index.path}{url}")
