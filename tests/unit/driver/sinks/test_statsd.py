from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_streaming.driver.sinks.config import StatsdConfig
from airflow_streaming.driver.sinks.port import SinkFault
from airflow_streaming.driver.sinks.statsd import StatsdSink
from airflow_streaming.model.status import SinkStatus
from tests.unit.driver.sinks.events import FULL, ORIGIN, an_event

pytest.importorskip("statsd", reason="The library statsd is missing: pip install -e '.[dev]'.")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.2)
        yield listening


def received(server: socket.socket) -> dict[str, str]:
    lines: list[str] = []
    while True:
        try:
            lines += server.recv(65_536).decode().splitlines()
        except TimeoutError:
            break
    assert len(lines) == len(set(lines))
    return dict(line.split(":", 1) for line in lines)


def test_every_figure_of_a_batch_is_sent_under_a_name_of_its_own(server: socket.socket) -> None:
    statuses = [SinkStatus(sink="statsd", sent=1, dropped=4)]
    port = server.getsockname()[1]
    sink = StatsdSink(StatsdConfig(port=port), ORIGIN, lambda: statuses)
    sink.send([an_event(4, query="by.day", **FULL)])
    sink.close()

    told = received(server)
    of_query, of_stream = "spark_streaming.orders.by_day", "spark_streaming.orders"
    assert told == {
        f"{of_query}.batches": "1|c",
        f"{of_query}.input_rows": "5|c",
        f"{of_query}.dropped_rows": "3|c",
        f"{of_query}.batch_id": "4|g",
        f"{of_query}.batch_start_timestamp_seconds": "1767614400.5|g",
        f"{of_query}.batch_duration_seconds": "0.125|g",
        f"{of_query}.batch_input_rows": "5|g",
        f"{of_query}.batch_output_rows": "4|g",
        f"{of_query}.input_rows_per_second": "2.5|g",
        f"{of_query}.processed_rows_per_second": "40.0|g",
        f"{of_query}.watermark_delay_seconds": "12.5|g",
        f"{of_query}.state_rows": "1000|g",
        f"{of_query}.state_memory_bytes": "65536|g",
        f"{of_query}.state_commit_duration_seconds": "0.04|g",
        f"{of_query}.state_cache_miss_ratio": "0.25|g",
        f"{of_query}.0.source_input_rows": "4|g",
        f"{of_query}.1.source_input_rows": "1|g",
        f"{of_query}.0.source_backlog_records": "70.0|g",
        f"{of_query}.1.source_backlog_bytes": "9.0|g",
        f"{of_query}.1.source_backlog_files": "2.0|g",
        f"{of_query}.0.source_loss_seconds": "30.0|g",
        f"{of_query}.0.source_loss_share_ratio": "0.25|g",
        f"{of_query}.state_snapshot_lag": "12.0|g",
        f"{of_query}.state_repaired_snapshots": "2.0|c",
        f"{of_query}.quality_bad.observed": "2.0|g",
        f"{of_stream}.statsd.sink_sent_reports": "1|g",
        f"{of_query}.addBatch.batch_phase_duration_seconds": "0.08|g",
        f"{of_query}.rocksdbGetCount.state_store_metric": "25.0|g",
        f"{of_query}.executors": "2|g",
        f"{of_query}.missing_executors": "1.0|g",
        f"{of_query}.lost_executors": "3.0|g",
        f"{of_query}.failed_tasks": "6.0|c",
        f"{of_stream}.statsd.sink_dropped_reports": "4|g",
    }


def test_a_server_that_refuses_over_tcp_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        port = taken.getsockname()[1]
        sink = StatsdSink(StatsdConfig(port=port, protocol="tcp"), ORIGIN, list)
        with pytest.raises(SinkFault, match=rf"127\.0\.0\.1:{port} did not take") as refusal:
            sink.send([an_event(0)])
        assert refusal.value.taken == 0


def test_a_host_that_does_not_exist_is_told() -> None:
    with pytest.raises(SinkFault, match=r"nowhere\.invalid:8125 cannot be found"):
        StatsdSink(StatsdConfig(host="nowhere.invalid"), ORIGIN, list)
