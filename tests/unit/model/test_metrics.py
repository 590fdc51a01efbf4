"""Metrics: one row tells rules, sentences and sinks all that they know of a figure."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.metrics import Metric, MetricRow, Unit, reported_figures
from tests.unit.edited import run_edited

ROW = """    STATE_REMOVAL_SECONDS = (
        "state_removal_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="has taken {} to remove old state",
            missing="how long removing old state took",
            from_spark=_removal_seconds,
            only_at_work=True,
            export="state_removal",
            help="Time to remove old state in the latest batch.",
        ),
    )

    @property
    def is_per_source("""
READER = """def _removal_seconds(report: Mapping[str, Any]) -> float | None:
    told = [one.get("allRemovalsTimeMs") for one in report.get("stateOperators", ())]
    return sum(told) / 1000 if told else None


class Metric(StrEnum)"""
EDITS = {
    "airflow_streaming.model.metrics": {
        "    @property\n    def is_per_source(": ROW,
        "class Metric(StrEnum)": READER,
    }
}
PROGRAM = """
import socket
from airflow_streaming.driver.monitoring.history import line_of
from airflow_streaming.driver.sinks.config import StatsdConfig
from airflow_streaming.driver.sinks.figures import Ledger
from airflow_streaming.driver.sinks.prometheus import _Collector
from airflow_streaming.driver.sinks.statsd import StatsdSink
from airflow_streaming.model.health_rules import HealthRule
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.wire import decode
from dataclasses import replace
from tests.unit.driver.sinks.events import ORIGIN, an_event
from tests.unit.supervision.figures_told import one, rows

REPORT = {"stateOperators": [{"allRemovalsTimeMs": 90_000}, {"allRemovalsTimeMs": 60_000}]}
taken = BatchProgress.from_spark("q", REPORT)
line = json.loads(line_of(taken))
recorded = decode(BatchProgress, line, "line")
rule = HealthRule.from_dict({"name": "slow_removal", "metric": "state_removal_seconds", "bound": 60})
history = [replace(row, figures=recorded.figures) for row in rows(8)]
firing = one(rule, history, at=75)
unknown = one(rule, rows(8), at=75)

event = replace(an_event(4), progress=replace(an_event(4).progress, figures=recorded.figures))
ledger = Ledger({"stream": "orders"}, lambda: ())
ledger.take([event])
families = {family.name: family for family in _Collector(ledger).collect()}
family = families["spark_streaming_state_removal_seconds"]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("127.0.0.1", 0))
    server.settimeout(0.5)
    sink = StatsdSink(StatsdConfig(port=server.getsockname()[1]), ORIGIN, lambda: ())
    sink.send([event])
    sink.close()
    lines = []
    try:
        while True:
            lines += server.recv(65_536).decode().splitlines()
    except TimeoutError:
        pass
print(json.dumps({
    "kept": dict(recorded.figures),
    "firing": [firing.state, firing.figure, firing.reason],
    "unknown": [unknown.state, unknown.reason],
    "prometheus": [family.documentation, [sample.value for sample in family.samples]],
    "statsd": [line for line in lines if "removal" in line],
}))
"""


def test_a_new_metric_is_one_row() -> None:
    """Its row, and the function that reads Spark's figure; nothing else was touched."""
    pytest.importorskip("statsd", reason="The library statsd is missing: pip install -e '.[dev]'.")
    pytest.importorskip("prometheus_client", reason="The library prometheus-client is missing.")

    told = run_edited(EDITS, PROGRAM)

    assert told["kept"] == {"state_removal_seconds": 150.0}
    state, figure, sentence = told["firing"]
    assert (state, figure) == ("firing", 150.0)
    assert "has taken 2.5 min to remove old state" in sentence
    assert told["unknown"][0] == "unknown"
    assert "how long removing old state took" in told["unknown"][1]
    assert told["prometheus"] == ["Time to remove old state in the latest batch.", [150.0]]
    assert told["statsd"] == ["spark_streaming.orders.q.state_removal_seconds:150.0|g"]


@pytest.mark.parametrize("metric", Metric)
def test_a_row_reads_its_figure_in_one_way(metric: Metric) -> None:
    row = metric.row
    ways = [row.of_batch, row.of_source, row.from_spark, row.parts]

    assert sum(way is not None for way in ways) == (metric is not Metric.COMMIT_AGE_SECONDS)
    assert bool(row.export) == bool(row.help)


@pytest.mark.parametrize(
    ("unit", "figure", "text"),
    [
        (Unit.COUNT, 3.14159, "3.14"),
        (Unit.COUNT, 12_345.0, "12,345"),
        (Unit.NUMBER, 12_345.678, "12,345.7"),
        (Unit.NUMBER, 12_345_678.0, "12,345,678"),
        (Unit.NUMBER, 0.000012345, "0.000012345"),
        (Unit.COUNT, 0.0000123, "0.0000123"),
        (Unit.SECONDS, 90.0, "90 s"),
        (Unit.BYTES, 3 * 2**20, "3 MiB"),
        (Unit.BYTES, 12.0, "12 bytes"),
        (Unit.SHARE, 0.255, "25.5 %"),
        (Unit.SHARE, 184.0, "18,400 %"),
        (Unit.BYTES, 1000 * 2**30, "1,000 GiB"),
    ],
)
def test_a_unit_has_its_form(unit: Unit, figure: float, text: str) -> None:
    assert unit.text(figure) == text


def test_a_metric_is_its_name() -> None:
    assert Metric("state_rows") is Metric.STATE_ROWS
    assert f"{Metric.STATE_ROWS}" == "state_rows"
    assert isinstance(Metric.STATE_ROWS.row, MetricRow)


def reported(batch: Any, *custom: Any) -> dict[str, float]:
    operators = [{"customMetrics": one} for one in custom]
    return reported_figures({"batchId": batch, "stateOperators": operators})


def test_the_age_of_the_oldest_snapshot_is_that_of_the_store_furthest_behind() -> None:
    first = {"SnapshotLastUploaded.partition_0_default": 95, "rocksdbGetCount": 7}
    second = {"SnapshotLastUploaded.partition_1_default": 40}
    assert reported(99, first, second)["snapshot_lag"] == 60
    assert reported(9, {"SnapshotLastUploaded.partition_0_default": -1})["snapshot_lag"] == 10
    assert reported(9, {"SnapshotLastUploaded.partition_0_default": 12})["snapshot_lag"] == 0


def test_repaired_snapshots_of_all_operators_add_up() -> None:
    name = "rocksdbNumSnapshotsAutoRepaired"
    assert reported(1, {name: 1}, {name: 2})["repaired_snapshots"] == 3
    assert reported(1, {name: 0})["repaired_snapshots"] == 0


@pytest.mark.parametrize(
    "custom", [None, [], {}, {"SnapshotLastUploaded.x": "7"}, {"SnapshotLastUploaded.x": True}]
)
def test_figures_of_snapshots_that_are_not_reported_are_missing(custom: Any) -> None:
    assert not {"snapshot_lag", "repaired_snapshots"} & reported(9, custom).keys()
    assert "snapshot_lag" not in reported("9", {"SnapshotLastUploaded.x": 3})
