"""The log of a file sink."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.file_logs import SinkLog, SinkLogEntry, parse_sink_log
from airflow_streaming.exceptions import RecordError

ENTRY = (
    '{"path":"s3a://lake/out/part%2D0.parquet","size":1724,"isDir":false,'
    '"modificationTime":1795218825503,"blockReplication":1,"blockSize":33554432,"action":"add"}'
)


def test_a_batch_tells_the_files_it_wrote() -> None:
    deleted = ENTRY.replace('"add"', '"delete"')
    path = "s3a://lake/out/part%2D0.parquet"

    assert parse_sink_log(f"v1\n{ENTRY}\n{deleted}".encode()) == SinkLog(
        version=1,
        entries=(
            SinkLogEntry(path=path, size=1724, action="add"),
            SinkLogEntry(path=path, size=1724, action="delete"),
        ),
    )


def test_a_batch_may_have_written_nothing() -> None:
    assert parse_sink_log(b"v1") == SinkLog(version=1, entries=())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "does not begin with a version", id="empty"),
        pytest.param(b"v2\n", "The sink log is of version v2", id="a later version"),
        pytest.param(f"v1\n{ENTRY[:40]}".encode(), "Not valid JSON", id="cut off"),
        pytest.param(f"v1\n\n{ENTRY}".encode(), "an empty line", id="an empty line"),
        pytest.param(
            f"v1\n{ENTRY.replace('1724', '-1')}".encode(), "below zero", id="a negative size"
        ),
        pytest.param(
            f"v1\n{ENTRY.replace('add', 'move')}".encode(), "'move'", id="a strange action"
        ),
        pytest.param(f"v1\n{ENTRY.replace('path', 'p')}".encode(), "path is", id="no path"),
    ],
)
def test_a_log_that_is_none_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_sink_log(data)
