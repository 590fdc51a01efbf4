"""A backup of a stream takes the logs of the file sinks that its drivers have recorded, where it can."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, back_up_stream
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.model.uris import is_same_place
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.restoring import new_store, run_batches
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch

NEWEST = 5


class Writer:
    """A stream whose driver has recorded that its only query writes files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sink = folder, FileSink(folder / "out")
        self.home = StreamHome(LocalStore(str(folder / "home")), "orders")
        checkpoints = folder / "checkpoints"
        self.home.create_deployment(make_deployment(1, checkpoint=str(checkpoints)), SCRIPT)
        self.home.create_epoch(make_epoch(1))
        sink = SinkPlan(sink="file", format="parquet", target=str(self.sink.root))
        self.plan = Layout("orders").place(QueryPlan, epoch=1, query="counts")
        plan = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=sink)
        self.home.store.create(self.plan, plan.to_bytes("orders"))
        run_batches(checkpoints / "counts", NEWEST, "c-0-0-0-1")
        for batch in range(NEWEST + 1):
            self.sink.write(batch)

    def back_up(self, **asked: Any) -> Backup:
        request = BackupRequest(origin=Origin.SCHEDULED, by="kim", **asked)
        return back_up_stream(self.home, new_store(self.folder), request)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def test_the_log_of_a_recorded_sink_comes_along(writer: Writer) -> None:
    (query,) = writer.back_up().queries

    assert is_same_place(query.sink_log, str(writer.sink.log))


def test_a_sink_that_is_given_stands_above_the_recorded_one(writer: Writer) -> None:
    other = FileSink(writer.folder / "other")
    for batch in range(NEWEST + 1):
        other.write(batch)

    (query,) = writer.back_up(sink_logs={"counts": str(other.root)}).queries

    assert is_same_place(query.sink_log, str(other.log))


def unmounted(writer: Writer) -> None:
    shutil.rmtree(writer.sink.root)


def behind(writer: Writer) -> None:
    writer.sink.log.joinpath(str(NEWEST)).unlink()


def torn_record(writer: Writer) -> None:
    (writer.folder / "home" / writer.plan).write_text("{")


def relative_path(writer: Writer) -> None:
    record = writer.folder / "home" / writer.plan
    record.write_bytes(record.read_bytes().replace(str(writer.sink.root).encode(), b"out"))


@pytest.mark.parametrize("spoil", [unmounted, behind, torn_record, relative_path])
def test_a_log_that_cannot_be_taken_keeps_nothing_from_being_backed_up(
    writer: Writer, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(writer)

    (query,) = writer.back_up().queries

    assert (query.sink_log, query.batch) == ("", NEWEST)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
