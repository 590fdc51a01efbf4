"""Whatever lies in a checkpoint, reading it ends in a value or in a RecordError, and soon."""

from __future__ import annotations

import json
import time
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.read.file_logs import source_of
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.damage import damaged
from tests.unit.checkpoints.parsers import PARSERS, golden_of, samples

quick = settings(max_examples=40, deadline=None, database=None)

sorts = pytest.mark.parametrize("sort", PARSERS)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def read_or_refuse(sort: str, data: bytes) -> bool:
    try:
        PARSERS[sort](data)
    except RecordError:
        return False
    return True


@sorts
def test_every_golden_file_is_read(sort: str) -> None:
    refused = [path for path, data in golden_of(sort).items() if not read_or_refuse(sort, data)]

    assert refused == []
    assert len(golden_of(sort)) >= 20


@sorts
def test_a_damaged_file_is_read_or_refused(sort: str) -> None:
    random = Random(sort)
    found = [
        read_or_refuse(sort, damaged(data, random)) for data in samples(sort) for _ in range(12)
    ]

    assert not all(found)


@sorts
@quick
@given(data=st.binary(max_size=80), head=st.sampled_from([b"", b"v1\n", b"v2\n", b"\x00\x02v3"]))
def test_any_bytes_are_read_or_refused(sort: str, data: bytes, head: bytes) -> None:
    read_or_refuse(sort, head + data)


@sorts
@quick
@given(data=anything)
def test_any_json_is_read_or_refused(sort: str, data: Any) -> None:
    read_or_refuse(sort, b"v1\n" + json.dumps(data).encode())


@quick
@given(text=st.text(max_size=20) | anything.map(json.dumps))
def test_any_offset_can_be_shown(text: str) -> None:
    _, offset = source_of(text)

    if offset != text:
        json.dumps(offset, ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def hundred_megabytes() -> bytes:
    return b"v1\n" + b" " * 100_000_000


@sorts
def test_a_line_of_a_hundred_megabytes_is_refused_unread(
    sort: str, hundred_megabytes: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match="larger than"):
            PARSERS[sort](hundred_megabytes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000


@sorts
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"a":' * 20_000, id="objects without end"),
        pytest.param(b"[" * 20_000 + b"]" * 20_000, id="lists in lists"),
        pytest.param(b'{"a":' * 300 + b"1" + b"}" * 300, id="deep"),
        pytest.param(b"[" + b"{}," * 20_000 + b"{}]", id="wide"),
        pytest.param(b'{"a":' + b"9" * 60_000 + b"}", id="a number of many digits"),
        pytest.param(b'{"a":1e999}', id="a number without end"),
        pytest.param(b'{"a":NaN}', id="no number"),
        pytest.param(b'{"a":"\\ud800"}', id="half a character"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="half a character, unescaped"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_hostile_lines_are_refused_soon(sort: str, line: bytes) -> None:
    begun = time.thread_time()

    assert not read_or_refuse(sort, b"v1\n" + line)
    assert time.thread_time() - begun < 1
