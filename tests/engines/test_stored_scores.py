"""What can be worked out from bm25s' finished scores, against the counts that bm25s was given."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.engines import bm25s as engine
from qidf.engines.stored_scores import StoredScores
from qidf.errors import EngineError, IndexCorruptError
from tests.engines.bm25s_folder import METHODS, bm25s, retriever, texts

WORDS = [f"term{i}" for i in range(12)]
COLLECTION = st.lists(st.lists(st.sampled_from(WORDS), max_size=30), min_size=4, max_size=30)


def counted(rows: list[list[str]]) -> tuple[int, int, int, int]:
    """Return tokens, terms, terms with df 1, terms with cf 1."""
    df = Counter(term for row in rows for term in set(row))
    cf = Counter(term for row in rows for term in row)
    return sum(map(len, rows)), len(df), list(df.values()).count(1), list(cf.values()).count(1)


def indexed(rows: list[list[str]], **options: Any) -> StoredScores:
    made = bm25s.BM25(**options)
    made.index(rows, show_progress=False)
    return engine.scores_of(made)


@settings(deadline=None, max_examples=300)
@given(
    rows=COLLECTION,
    method=st.sampled_from([method for method in METHODS if method != "robertson"]),
    k1=st.sampled_from([0.5, 1.2, 1.5, 3.0]),
    b=st.sampled_from([0.0, 0.01, 0.4, 0.75, 1.0]),
    factor=st.sampled_from([1, 1, 2, 3]),
)
def test_tokens_are_worked_out_exactly(rows: list[list[str]], method: str, k1: float, b: float, factor: int) -> None:
    """Also where no term stands once, as in documents that repeat themselves."""
    rows = [row * factor for row in rows]
    if not any(rows):
        return
    scores = indexed(rows, method=method, k1=k1, b=b)
    if max(scores.dfs) == scores.documents and method == "atire":  # its idf is 0 there
        return
    spectrum = scores.spectrum()
    tokens, terms, hapaxes, once = counted(rows)
    assert (spectrum.tokens, spectrum.terms, spectrum.hapax_terms) == (tokens, terms, hapaxes)
    assert spectrum.once_terms == once or (spectrum.once_terms is None and b == 1)
    assert sum(band.terms for band in spectrum.bands) == spectrum.terms


@pytest.mark.parametrize("b", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("k1", [0.5, 3.0])
def test_tokens_at_other_constants(k1: float, b: float) -> None:
    rows = [text.split() for text in texts()]
    spectrum = indexed(rows, k1=k1, b=b).spectrum()
    assert (spectrum.tokens, spectrum.terms, spectrum.hapax_terms, spectrum.once_terms) == counted(rows)


def test_documents_without_tokens_count_as_documents() -> None:
    rows = [text.split() for text in texts()]
    rows[3] = rows[20] = []
    spectrum = indexed(rows).spectrum()
    assert spectrum.documents == len(rows)
    assert spectrum.tokens == counted(rows)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "robertson"}, "'robertson' terms in many documents score 0"),
        ({"k1": 0.0}, "k1 = 0"),
        ({"dtype": "float16"}, "too coarse"),
    ],
)
def test_where_tokens_can_not_be_worked_out(options: dict[str, Any], message: str) -> None:
    rows = [text.split() for text in texts()]
    with pytest.raises(EngineError, match=message):
        indexed(rows, **options).spectrum()


def test_scores_of_another_idf_are_noticed() -> None:
    rows = [text.split() for text in texts()]
    made = indexed(rows)
    factors = made.factors(0.3)
    scaled = StoredScores(
        np.concatenate(list(made.rescaled(factors))), made.indices, made.indptr, made.documents, made.model
    )
    with pytest.raises(ValueError, match="not the scores of bm25s' 'lucene' idf at q = 1"):
        scaled.check()
    with pytest.raises(ValueError, match="not the scores of"):
        scaled.spectrum()
    StoredScores(scaled.data, made.indices, made.indptr, made.documents, made.model, q=0.3).check()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("q", [1.0, 0.05, 2.0])
def test_what_bm25s_made_passes_the_check(method: str, q: float) -> None:
    made = retriever(texts(300), method=method)
    engine.apply(made, q)
    engine.scores_of(made, q=q).check()


def test_a_posting_of_no_document_is_noticed() -> None:
    made = indexed([text.split() for text in texts()])
    for wrong in (-1, made.documents):
        indices = made.indices.copy()
        indices[made.indptr[5]] = wrong
        broken = StoredScores(made.data, indices, made.indptr, made.documents, made.model)
        with pytest.raises(IndexCorruptError, match="not there"):
            broken.sum([(0, 1.0), (5, 1.0)])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_noticed(wrong: float) -> None:
    made = indexed([text.split() for text in texts()])
    data = made.data.copy()
    data[made.indptr[5]] = wrong
    with pytest.raises(IndexCorruptError, match="no number"):
        StoredScores(data, made.indices, made.indptr, made.documents, made.model).sum([(5, 1.0)])


def test_pieces_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    made = indexed([text.split() for text in texts()])
    factors = made.factors(0.3)
    expected = np.concatenate(list(made.rescaled(factors)))
    spectrum = made.spectrum()
    for chunk in (1, 7, 100):
        monkeypatch.setattr("qidf.engines.stored_scores.CHUNK", chunk)
        again = StoredScores(made.data, made.indices, made.indptr, made.documents, made.model)
        np.testing.assert_array_equal(np.concatenate(list(again.rescaled(factors))), expected)
        assert again.spectrum() == spectrum
