"""Term statistics: bands of document frequency, and the readings of "hapax density"."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.analysis import get
from qidf.index import Index
from qidf.spectrum import Spectrum, bands

from .index.helpers import collections, many_segments, place


def test_bands_double_without_gaps() -> None:
    assert bands({}) == []
    assert bands({1: 5}) == [(1, 1, 5)]
    assert bands({1: 5, 3: 2, 9: 1}) == [(1, 1, 5), (2, 3, 2), (4, 7, 0), (8, 15, 1)]
    assert bands({2: 1}) == [(1, 1, 0), (2, 3, 1)]


@given(st.dictionaries(st.integers(1, 5000), st.integers(1, 100)))
def test_every_term_is_in_one_band(histogram: dict[int, int]) -> None:
    found = bands(histogram)
    assert sum(band.terms for band in found) == sum(histogram.values())
    assert all(2 * band.low == band.high + 1 for band in found)
    for df in histogram:
        assert sum(band.low <= df <= band.high for band in found) == 1


def test_readings_and_the_published_predictor() -> None:
    spectrum = Spectrum(documents=10, tokens=200, terms=50, hapax_terms=20, once_terms=10, bands=[])
    assert spectrum.hapax_density == 0.1
    assert spectrum.q_hapax == pytest.approx(1 - 7.28 * 0.1)
    assert spectrum.readings == {
        "df1_per_token": 0.1,
        "cf1_per_token": 0.05,
        "df1_per_term": 0.4,
        "cf1_per_term": 0.2,
    }
    nothing = Spectrum(1, 0, 0, 0, 0, [])
    assert (nothing.hapax_density, nothing.q_hapax) == (0, 1)
    assert set(nothing.readings.values()) == {0}


@given(collections, st.sampled_from(["code", "standard"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_index_counts_as_one_counts_by_hand(documents: list[tuple[str, str]], analyzer: str, split: bool) -> None:
    bags = [Counter(token.term for token in get(analyzer).analyze(text)) for _, text in documents]
    df = Counter(term for bag in bags for term in bag)
    cf = sum(bags, Counter[str]())
    with place() as path, many_segments() as options:
        index = Index.build(documents, path, analyzer=analyzer, threads=1, **(options if split else {}))
        got = index.spectrum()
    assert got == Spectrum(
        documents=len(documents),
        tokens=cf.total(),
        terms=len(df),
        hapax_terms=sum(n == 1 for n in df.values()),
        once_terms=sum(n == 1 for n in cf.values()),
        bands=bands(Counter(df.values())),
    )
    assert (index.documents, index.tokens, index.terms, index.hapax_terms) == (
        got.documents,
        got.tokens,
        got.terms,
        got.hapax_terms,
    )
    assert index.hapax_density == got.hapax_density
    assert index.doc_freqs(sorted(df)) == [df[term] for term in sorted(df)]
