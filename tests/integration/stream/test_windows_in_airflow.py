"""Announced windows start the runs of real Airflow: one for each hour, one for each day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import open_home
from airflow_streaming.services.windows import request_windows
from tests.integration.plugin.api import add_file, settings_of
from tests.unit.sensors.gates import a_batch, commit
from tests.unit.world import World, make_world

pytestmark = pytest.mark.filterwarnings("ignore")
DAY = datetime(2026, 11, 21, tzinfo=UTC)
DAGS = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import (
    DAG, DayWindow, PartitionedAssetTimetable, RollupMapper, StartOfDayMapper, StartOfHourMapper,
)
from airflow_streaming.assets import window_asset
from airflow_streaming.operators.windows import ClosedWindowsOperator

hours = window_asset("orders", {home!r})

with DAG("orders_windows", schedule=None):
    ClosedWindowsOperator(
        task_id="windows", stream="orders", home={home!r}, asset=hours,
        since=datetime(2026, 11, 21, tzinfo=UTC),
    )

with DAG(
    "hourly",
    schedule=PartitionedAssetTimetable(assets=hours, default_partition_mapper=StartOfHourMapper()),
):
    EmptyOperator(task_id="report")

with DAG(
    "daily",
    schedule=PartitionedAssetTimetable(
        assets=hours,
        default_partition_mapper=RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow()),
    ),
):
    EmptyOperator(task_id="report")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with settings_of(tmp_path):
        from airflow.utils.db import initdb

        initdb()
        yield tmp_path


@pytest.fixture
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(folder, monkeypatch)
    made.run()
    return made


def announce(dag: Any) -> str:
    """Run the task in Airflow; return the state of its run."""
    return str(dag.test(use_executor=False).state)


def start_runs() -> None:
    """Let the scheduler start the runs of partitions."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        runner = SchedulerJobRunner(job=Job())
        session.add(runner.job)
        session.flush()
        runner._create_dagruns_for_partitioned_asset_dags(session)
        assert session.get(DagModel, "hourly") is not None


def runs_of(dag_id: str) -> Counter[str]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(DagRun.partition_key).where(DagRun.dag_id == dag_id))
        return Counter(found)


def unpause() -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))


def complete(world: World, hours: float) -> None:
    commit(world, a_batch(int(hours * 10), watermark=DAY + timedelta(hours=hours)))


def test_each_hour_and_each_day_runs_once_and_a_request_runs_them_again(
    folder: Path, world: World
) -> None:
    dags = add_file(folder, "windows", DAGS.format(home=world.uri))
    unpause()
    complete(world, 30.5)
    assert announce(dags["orders_windows"]) == "success"
    start_runs()
    complete(world, 49)
    assert announce(dags["orders_windows"]) == "success"
    start_runs()

    hours = [f"{DAY + timedelta(hours=hour):%Y-%m-%dT%H}" for hour in range(49)]
    assert runs_of("hourly") == Counter(dict.fromkeys(hours, 1))
    assert runs_of("daily") == Counter({"2026-11-21": 1, "2026-11-22": 1})

    records = open_home(world.uri).stream("orders")
    request_windows(*(records, "3600s", DAY, DAY + timedelta(days=1)), by="ann", reason="corrected")
    assert announce(dags["orders_windows"]) == "success"
    start_runs()

    assert runs_of("hourly") == Counter(dict.fromkeys(hours, 1)) + Counter(hours[:24])
    assert runs_of("daily") == Counter({"2026-11-21": 2, "2026-11-22": 1})
    claim = records.window_claim_end("3600s", 3)
    assert claim is not None
    assert claim.outcome == "announced"
