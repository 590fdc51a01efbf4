"""A file source's log is read and written as Spark does it, interval of compaction and all."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.changes.handover.source_log import (
    FileLog,
    LogEntry,
    compact_interval,
    entries_of,
    since_common,
)
from airflow_streaming.checkpoints.read.file_logs import parse_source_log
from airflow_streaming.exceptions import RecordError


def entry(path: str) -> bytes:
    line = json.dumps({"path": path, "timestamp": 7, "batchId": 3}, separators=(",", ":"))
    return f"v1\n{line}".encode()


@pytest.mark.parametrize(
    "path", ["file:///in/a.json", 'file:///in/"a".json', "file:///in/a\\b", "file:///in/ä%20b"]
)
def test_a_path_comes_back_as_it_was(path: str) -> None:
    files = entries_of(entry(path))

    written = FileLog().written(3, files)

    assert [one.path for one in parse_source_log(written)] == [path]
    assert entries_of(written) == files


@pytest.mark.parametrize(
    ("compacted", "default", "interval"),
    [
        ([], 10, 10),
        ([9, 19], 5, 10),
        ([2, 5], 10, 3),
        ([2], 10, 3),
        ([9], 10, 10),
        ([19], 5, 5),
        ([19], 3, 4),
        ([12], 5, 13),
        ([11], 7, 12),
    ],
)
def test_the_interval_is_the_one_that_spark_goes_on_with(
    compacted: list[int], default: int, interval: int
) -> None:
    assert compact_interval(compacted, default) == interval


@pytest.mark.parametrize(
    ("files", "known", "new"),
    [
        ("abcd", "", "abcd"),
        ("abcd", "bc", "d"),
        ("abcd", "ac", "bd"),
        ("abcd", "x", "abcd"),
        ("", "a", ""),
    ],
)
def test_a_past_of_its_own_ends_with_the_first_common_file(
    files: str, known: str, new: str
) -> None:
    assert since_common(files, set(known)) == list(new)


@pytest.mark.parametrize("data", [b"v2\n{}", b'v1\n{"topic":{"0":1}}', b"v1\n{", b""])
def test_what_is_no_log_is_told(data: bytes) -> None:
    with pytest.raises(RecordError):
        entries_of(data)


def test_a_path_that_would_break_the_log_is_never_written() -> None:
    with pytest.raises(RecordError):
        FileLog().written(0, {"a\nb": LogEntry(1, 0)})
