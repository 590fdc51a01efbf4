"""A file sink whose first batch is not 0 begins with a log that Spark can go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.read.file_logs import parse_sink_log
from airflow_streaming.checkpoints.restore.file_sink_rewind import begin_sink_log


def log_in(output: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (output / "_spark_metadata").iterdir()}


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        (0, ["0"]),
        (3, ["0", "1", "2", "3"]),
        (9, ["9.compact"]),
        (12, ["9.compact", "10", "11", "12"]),
        (19, ["19.compact"]),
    ],
)
def test_the_batches_before_it_have_written_nothing(
    tmp_path: Path, batch: int, names: list[str]
) -> None:
    begin_sink_log(str(tmp_path), batch, 10)

    found = log_in(tmp_path)
    assert sorted(found) == sorted(names)
    assert all(not parse_sink_log(data).entries for data in found.values())


def test_who_follows_one_that_died_on_the_way_writes_the_rest(tmp_path: Path) -> None:
    begin_sink_log(str(tmp_path), 12, 10)
    for name in ("11", "12"):
        (tmp_path / "_spark_metadata" / name).unlink()

    begin_sink_log(str(tmp_path), 12, 10)

    assert sorted(log_in(tmp_path)) == ["10", "11", "12", "9.compact"]


@pytest.mark.parametrize("newest", ["12", "12.compact"])
def test_who_comes_when_the_sink_has_begun_leaves_its_log_alone(
    tmp_path: Path, newest: str
) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / newest).write_bytes(b'v1\n{"path":"file:///a"}')

    begin_sink_log(str(tmp_path), 12, 10)

    assert [*log_in(tmp_path)] == [newest]
