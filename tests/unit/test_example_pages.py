"""What the pages of the examples say about their dags, where no stream is needed to show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk import DAG, PartitionedAssetTimetable

from airflow_streaming.model.health_rules import RuleState
from airflow_streaming.model.metrics import Metric
from tests.conftest import REPOSITORY
from tests.dag_files import dags_in
from tests.unit.supervision.figures_told import one, rows

EXAMPLES: Final = REPOSITORY / "dags"


def mapper_of(dag: DAG) -> str:
    """Return how the windows of an asset become the partitions of a dag's runs."""
    table = dag.timetable
    assert isinstance(table, PartitionedAssetTimetable)
    return type(table.default_partition_mapper).__name__


def waited_for(dag: DAG) -> set[str]:
    """Return the assets that start a dag."""
    condition = dag.timetable.asset_condition
    found = {asset.uri for asset in getattr(condition, "objects", [condition])}
    assert found
    return found


def test_the_windows_of_clickstream_start_a_run_for_each_hour_and_for_each_day() -> None:
    dags = dags_in(EXAMPLES / "clickstream" / "windows.py")

    announces = dags["clickstream_windows"].get_task("windows")
    followers = {name: dags[f"clickstream_{name}"] for name in ("hourly", "daily")}
    assert announces.stream == "clickstream"
    assert {name: mapper_of(dag) for name, dag in followers.items()} == {
        "hourly": "StartOfHourMapper",
        "daily": "RollupMapper",
    }
    for dag in followers.values():
        assert waited_for(dag) <= {asset.uri for asset in announces.outlets}


def test_the_asset_of_a_stream_that_ends_starts_its_report() -> None:
    dags = dags_in(EXAMPLES / "triggers" / "triggers.py")

    outlets = dags["triggers"].get_task("clicks_per_hour").outlets
    assert waited_for(dags["triggers_report"]) <= {asset.uri for asset in outlets}


@pytest.mark.parametrize(("share", "state"), [(0.09, RuleState.CLEAR), (0.11, RuleState.FIRING)])
def test_more_than_a_tenth_of_bad_records_is_an_alert(share: float, state: RuleState) -> None:
    folder = EXAMPLES / "schema_evolution"
    task: Any = dags_in(folder / "schema_evolution.py")["schema_evolution"].get_task("orders")
    (rule,) = (rule for rule in task.stream.health.rules if rule.metric is Metric.OBSERVED)

    found = one(rule, rows(60, observed={"quality.bad_share": share}), at=600)

    assert found.state is state
    script = Path(folder, "jobs", "orders.py").read_text()
    assert 'alias("bad_share")' in script
    assert 'observe("quality"' in script
