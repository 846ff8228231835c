from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf import strictjson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}"\\ab'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='[]{}"\\'), inner),
)


@given(VALUES)
def test_it_reads_what_json_reads(value: object) -> None:
    assert strictjson.loads(json.dumps(value).encode()) == value


@pytest.mark.parametrize("begin", [b"[", b'{"a":', b'[{"]": ', b' [ "\\"[" , '])
def test_deep_nesting_is_refused_whatever_it_is_made_of(begin: bytes) -> None:
    with pytest.raises(RecursionError, match="deeper than 500"):
        strictjson.loads(begin * 100_000)


def test_many_brackets_side_by_side_are_fine() -> None:
    assert len(strictjson.loads(b"[" + b"[]," * 10_000 + b"[]]")) == 10_001
    assert strictjson.loads(json.dumps(["[" * 10_000]).encode()) == ["[" * 10_000]


def test_time_is_in_proportion_to_the_text() -> None:
    started = time.process_time()
    with pytest.raises((ValueError, RecursionError)):
        strictjson.loads(b'["' + b"[\\" * 2_000_000)
    assert time.process_time() - started < 5
