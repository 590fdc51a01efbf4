"""The log files of a checkpoint, as Spark writes them and as nobody should."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES
from airflow_streaming.model.spark.tail import (
    RECENT,
    LogFile,
    batch_of,
    durations,
    intervals,
    parse_commit,
    parse_offsets,
    parse_query_id,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = 1795262400000
METADATA = (
    f'{{"batchWatermarkMs":{NOON_MS - 1000},"batchTimestampMs":{NOON_MS},"conf":{{"a":"b"}}}}'
)


def seconds(*ages: float) -> list[datetime]:
    return [NOON + timedelta(seconds=age) for age in ages]


def log(*times: datetime | None, first: int = 0) -> list[LogFile]:
    return [LogFile(batch=first + i, modified=time) for i, time in enumerate(times)]


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        pytest.param(
            f'v1\n{METADATA}\n{{"logOffset":5}}', ('{"logOffset":5}',), id="a file source"
        ),
        pytest.param(
            f'v1\n{METADATA}\n{{"t":{{"0":7}}}}\n-',
            ('{"t":{"0":7}}', "-"),
            id="two, one yet unread",
        ),
        pytest.param(f"v1\n{METADATA}\n12\n", ("12",), id="a trailing line break"),
        pytest.param(f"v2\n{METADATA}\n0:2", ("2",), id="v2 by number"),
        pytest.param(
            f'v2\n{METADATA}\norders:{{"t":{{"0":7}}}}\nold:-',
            ('{"t":{"0":7}}', "-"),
            id="v2 by name",
        ),
        pytest.param(f"v1\n{METADATA}", (), id="no source"),
    ],
)
def test_a_plan_tells_its_time_its_watermark_and_where_sources_end(
    text: str, offsets: tuple[str, ...]
) -> None:
    plan = parse_offsets(text.encode())

    assert plan.planned_at == NOON
    assert plan.watermark == NOON - timedelta(seconds=1)
    assert plan.offsets == offsets


SINKS = '{"lake":{"sinkName":"lake","providerName":"parquet","commitOffset":"{}","isActive":true}}'


@pytest.mark.parametrize(
    ("text", "watermark"),
    [
        (f'v1\n{{"nextBatchWatermarkMs":{NOON_MS}}}', NOON),
        (f'v2\n{{"nextBatchWatermarkMs":{NOON_MS},"stateUniqueIds":{{"0":[["id"]]}}}}', NOON),
        (f'v3\n{{"nextBatchWatermarkMs":{NOON_MS},"sinkMetadataMap":{SINKS}}}', NOON),
        ('v1\n{"nextBatchWatermarkMs":0}', None),
        ("v1\n{}", None),
    ],
)
def test_a_commit_tells_the_watermark_after_it(text: str, watermark: datetime | None) -> None:
    assert parse_commit(text.encode()).watermark == watermark


UNREADABLE = [
    pytest.param(b"", "does not begin with a version", id="empty"),
    pytest.param(b"{}", "does not begin with a version", id="no version"),
    pytest.param(b"v1", "Not valid JSON", id="cut off after the version"),
    pytest.param(b'v1\n{"batchWatermarkMs":17', "Not valid JSON", id="cut off"),
    pytest.param(b"v1\n[]", "Expected a JSON object", id="a list"),
    pytest.param(b"v4\n{}", "of version v4; this release reads v1", id="a later version"),
    pytest.param(b"v0\n{}", "of version v0", id="version 0"),
    pytest.param("v\uff11\n{}".encode(), "does not begin", id="another script's digit"),
    pytest.param(b"v1\r\n{}", "does not begin", id="another line break"),
    pytest.param(b"v" + b"1" * 5000, "does not begin", id="an endless version"),
    pytest.param(b"\xff\xfe", "not text", id="not text"),
    pytest.param(b"v1\n" + b'{"a":' * 100_000, "Not valid JSON", id="deep"),
    pytest.param(b"v1\n" + b" " * MAX_LOG_BYTES, "larger than", id="too large"),
]


@pytest.mark.parametrize(("data", "why"), UNREADABLE)
def test_what_is_not_understood_is_said(data: bytes, why: str) -> None:
    for parse in (parse_offsets, parse_commit):
        with pytest.raises(RecordError, match=why):
            parse(data)


@pytest.mark.parametrize("value", ['"now"', "1.5", "true", "[]", "99999999999999999999", "-1e30"])
def test_a_time_that_is_none_is_said(value: str) -> None:
    with pytest.raises(RecordError):
        parse_commit(f'v1\n{{"nextBatchWatermarkMs":{value}}}'.encode())


def test_a_line_of_a_v2_plan_has_to_name_its_source() -> None:
    with pytest.raises(RecordError, match="names no source"):
        parse_offsets(f'v2\n{METADATA}\n{{"logOffset":1}}'.encode())


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("0", 0),
        ("17", 17),
        ("017", None),
        ("+1", None),
        ("-1", None),
        ("1_0", None),
        ("1.tmp", None),
        (".1.crc", None),
        ("9.compact", None),
        ("\u0661", None),
        ("", None),
        ("1\n", None),
        ("1" * 19, None),
    ],
)
def test_only_the_number_of_a_batch_names_a_log_file(name: str, batch: int | None) -> None:
    assert batch_of(name) == batch


def test_a_batch_takes_from_its_plan_to_its_commit_by_the_stores_clock() -> None:
    assert durations(log(*seconds(0, 10, 20, 30)), log(*seconds(4, 11, 25))) == (4, 1, 5)


def test_batches_without_a_plan_or_a_time_have_no_duration() -> None:
    commits = log(*seconds(1, 2), None, first=4)

    assert durations(log(*seconds(0), first=5), commits) == (2,)
    assert intervals(commits) == (1,)


def test_copied_files_never_give_a_negative_duration() -> None:
    assert durations(log(*seconds(9)), log(*seconds(1))) == (0,)
    assert intervals(log(*seconds(9, 1))) == (0,)


def test_only_recent_batches_count() -> None:
    times = seconds(*range(100))

    assert len(durations(log(*times), log(*times))) == RECENT
    assert len(intervals(log(*times))) == RECENT - 1


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (
            b'{"id":"f00d0000-0000-4000-8000-000000000001"}\n',
            "f00d0000-0000-4000-8000-000000000001",
        ),
        (b'{"id":"1-+1-F-0-7fffffffffffffff"}', "1-+1-F-0-7fffffffffffffff"),
        (b'{"id":"1-1-1-1-8000000000000000"}', None),
        (b'{"id":"f00d0000-0000-4000-8000-0000000000011"}', None),
        (b'{"id":"../../etc"}', None),
        (b'\xef\xbb\xbf{"id":"1-1-1-1-1"}', None),
        (b'{"id":"1-1-1-1"}', None),
        (b'{"id":"1-1--1-1"}', None),
        (b'{"id":"1-1-1-1-g"}', None),
        (b'{"id":7}', None),
        (b"{", None),
        (b"{}", None),
    ],
)
def test_the_querys_id_is_known_where_the_checkpoint_tells_it(
    data: bytes, found: str | None
) -> None:
    assert parse_query_id(data) == found
