"""What sort of source an offset is of, and the log of a file source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.checkpoints.read.file_logs import (
    SourceLogEntry,
    parse_source_log,
    source_log_entries,
    source_of,
)
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import RecordError

ENTRY = '{"path":"file:///in/a%20b.json","timestamp":1795218788457,"batchId":3}'


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('{"orders":{"0":123,"11":5},"items":{"0":0}}', SourceType.KAFKA),
        ('{"logOffset":5}', SourceType.FILE),
        ("17", SourceType.NUMBER),
        ("-1", SourceType.NUMBER),
        ('{"offset":40,"timestamp":1700000000000}', SourceType.RATE_MICRO_BATCH),
        ('{"sourceVersion":1,"reservoirId":"x","index":-1}', SourceType.CUSTOM),
        ('{"orders":{"a":1}}', SourceType.CUSTOM),
        ('{"orders":{"0":"1"}}', SourceType.CUSTOM),
        ('{"orders":{"\u0663":1}}', SourceType.CUSTOM),
        ('{"orders":{}}', SourceType.CUSTOM),
        ('{"logOffset":true}', SourceType.CUSTOM),
        ('{"logOffset":5,"more":1}', SourceType.CUSTOM),
        ('{"offset":1,"timestamp":"now"}', SourceType.CUSTOM),
        ("{}", SourceType.CUSTOM),
        ("[1]", SourceType.CUSTOM),
        ("1.5", SourceType.CUSTOM),
        ("true", SourceType.CUSTOM),
        ("null", SourceType.CUSTOM),
        ('"-"', SourceType.CUSTOM),
    ],
)
def test_a_source_is_told_by_the_form_of_its_offset(text: str, source: SourceType) -> None:
    assert source_of(text) == (source, json.loads(text))


def test_a_source_without_an_offset_has_not_started() -> None:
    assert source_of("-") == (SourceType.NOT_STARTED, None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("binlog.000017:4", id="words"),
        pytest.param('{"logOffset":5', id="cut off"),
        pytest.param("NaN", id="no number"),
        pytest.param("1e999", id="too large"),
        pytest.param('"\\ud800"', id="half a character"),
        pytest.param("\ud800", id="half a character, unescaped"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, id="deep"),
        pytest.param("[" * 100_000, id="very deep"),
        pytest.param(" " * 2_000_000, id="large"),
    ],
)
def test_an_offset_that_is_no_json_to_walk_through_stays_text(text: str) -> None:
    assert source_of(text) == (SourceType.CUSTOM, text)


def test_a_log_of_very_many_topics_is_no_deep_one() -> None:
    offsets = {f"topic-{number}": {"0": number} for number in range(300)}

    assert source_of(json.dumps(offsets)) == (SourceType.KAFKA, offsets)


def test_the_files_of_a_file_source_are_told_as_spark_wrote_them() -> None:
    expected = SourceLogEntry(path="file:///in/a%20b.json", timestamp_ms=1795218788457, batch=3)

    assert parse_source_log(f"v1\n{ENTRY}\n{ENTRY}\n".encode()) == (expected, expected)
    assert parse_source_log(b"v1") == parse_source_log(b"v1\n") == ()


def test_the_entries_of_a_large_log_are_read_one_by_one() -> None:
    entries = source_log_entries(f"v1\n{ENTRY}\nnonsense".encode())

    assert next(entries).batch == 3
    with pytest.raises(RecordError, match="Not valid JSON"):
        next(entries)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(ENTRY[:-1], "Not valid JSON", id="cut off"),
        pytest.param(f"{ENTRY}\n\n{ENTRY}", "an empty line", id="an empty line"),
        pytest.param("[]", "Expected a JSON object", id="a list"),
        pytest.param('{"timestamp":1,"batchId":0}', "path is a NoneType", id="no path"),
        pytest.param('{"path":"a","timestamp":"1"}', "timestamp is a str", id="time as text"),
        pytest.param('{"path":"a","timestamp":1}', "batchId is a NoneType", id="no batch"),
        pytest.param('{"path":"' + "a" * 70_000 + '"}', "the limit is 65536", id="a long line"),
    ],
)
def test_a_log_that_is_none_is_refused_with_the_reason(body: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_source_log(f"v1\n{body}".encode())


def test_a_later_version_is_refused_at_once() -> None:
    with pytest.raises(RecordError, match="of version v2; this release reads v1"):
        source_log_entries(b"v2\n")


def test_a_batch_of_a_log_may_be_unset() -> None:
    data: dict[str, Any] = json.loads(ENTRY) | {"batchId": -1}

    (entry,) = parse_source_log(f"v1\n{json.dumps(data)}".encode())

    assert entry.batch == -1
