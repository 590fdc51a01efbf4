"""Whatever lies in a home, reading it ends in a record or in a RecordError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.wire import Record
from tests.unit.model.examples import EXAMPLES

quick = settings(max_examples=40, deadline=None, database=None)

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2026-11-21T12:00:00+00:00", "0001-01-01T00:00+14:00", "failed", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@quick
@given(record=st.sampled_from(EXAMPLES), data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(record: Record, data: bytes) -> None:
    _read_or_refuse(type(record), data)


@quick
@given(record=st.sampled_from(EXAMPLES), data=anything)
def test_any_json_is_read_or_refused(record: Record, data: Any) -> None:
    _read_or_refuse(type(record), json.dumps(data).encode())


@settings(quick, max_examples=120)
@given(record=st.sampled_from(EXAMPLES), value=anything, choice=st.randoms(use_true_random=False))
def test_a_record_with_one_damaged_value_is_read_or_refused(
    record: Record, value: Any, choice: Random
) -> None:
    data = record.to_dict()
    path = choice.choice(list(_paths(data)))
    inner: Any = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value

    _read_or_refuse(type(record), json.dumps(data).encode())


@pytest.mark.parametrize("number", [1e308, -1e308, 10**30, -1, 0])
def test_any_number_in_the_place_of_a_number_or_of_nothing_is_read_or_refused(
    number: float,
) -> None:
    for record in EXAMPLES:
        data = record.to_dict()
        for path in _paths(data):
            inner: Any = data
            for step in path[:-1]:
                inner = inner[step]
            if type(inner[path[-1]]) not in (int, float, type(None)):
                continue
            was, inner[path[-1]] = inner[path[-1]], number
            _read_or_refuse(type(record), json.dumps(data).encode())
            inner[path[-1]] = was


def _paths(data: Any) -> Iterator[tuple[str | int, ...]]:
    steps: Any = data if isinstance(data, dict) else range(len(data))
    for step in steps:
        yield (step,)
        if isinstance(data[step], dict | list):
            yield from ((step, *rest) for rest in _paths(data[step]))


def _read_or_refuse(cls: type[Record], data: bytes) -> None:
    try:
        record = cls.from_bytes(data)
    except RecordError:
        return
    assert cls.from_bytes(record.to_bytes()) == record
