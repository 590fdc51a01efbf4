"""What users do to streams and dags by Airflow's API, in one real Airflow with a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.names import Layout
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from demo.airflow import Airflow
from demo.events import Shop, synthetic_files
from demo.stage import Stage
from demo.waiting import Progress, wait_for
from tests.system.some_dags import some_dags
from tests.unit.supervision.builders import a_batch, a_query, a_status, an_epoch

DAG = "retail_revenue"
CONF = 'conf={"spark.sql.shuffle.partitions": 2}'


class User:
    """A user of Airflow, by its API."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.say = stage, Progress()

    @property
    def home(self) -> StreamHome:
        return open_home(self.stage.home).stream(DAG)

    def runs(self) -> list[dict[str, Any]]:
        path = f"/api/v2/dags/{DAG}/dagRuns?order_by=-run_after"
        found: list[dict[str, Any]] = self.stage.airflow.get(path)["dag_runs"]
        return found

    def task(self, run: str) -> dict[str, Any]:
        path = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/revenue"
        found: dict[str, Any] = self.stage.airflow.get(path)
        return found

    def until(self, condition: Callable[[], bool], what: str) -> None:
        wait_for(
            condition,
            what=what,
            say=self.say,
            failing=self.stage.airflow.ended_component,
            seen=self.stage.stream.table,
        )

    def deferred_run(self) -> str:
        """Wait until one run of the dag has deferred its task, and return it."""
        found: list[str] = []

        def is_deferred() -> bool:
            running = [run["dag_run_id"] for run in self.runs() if run["state"] == "running"]
            found[:] = [run for run in running if self.task(run)["state"] == "deferred"]
            return bool(found)

        self.until(is_deferred, "a deferred task")
        return found[0]

    def driver_lives(self, epoch: int) -> bool:
        seen = LocalLauncher().probe(self.home.epoch(epoch), self.home.launch(epoch))
        return seen.state is ProcessState.RUNNING


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark_4_3: Path) -> Iterator[Stage]:
    """
    One Airflow for all tests of this module, with dag files they may edit.

    Its files arrive, and its stream runs, once a test starts them.
    """
    folder = tmp_path_factory.mktemp("stage")
    dags = some_dags(folder, "retail_revenue")
    files = synthetic_files(400, Shop())
    with Stage(folder / "stage", runtime=spark_4_3, files=files, dags=dags, say=Progress()) as made:
        yield made
    assert not made.leftovers()


def test_clearing_adopts_a_restart_is_applied_and_a_mark_stops(
    stage: Stage,
) -> None:
    stage.arrivals.start()
    user = User(stage)
    user.until(lambda: stage.airflow.has_dag(DAG), "the dag")
    stage.airflow.unpause(DAG)
    user.until(stage.stream.is_well, "a first batch")
    clear_and_adopt(user)
    follow_the_links(user)
    see_the_page(user)
    edit_and_apply(user, stage.dags / "retail_revenue.py")
    mark_and_stop(user)


def see_the_page(user: User) -> None:
    airflow = user.stage.airflow
    plugins = {each["name"]: each for each in airflow.get("/api/v2/plugins")["plugins"]}
    views = plugins["airflow_streaming"]["external_views"]

    assert [view["destination"] for view in views] == ["nav", "dag", "task_instance"]
    assert airflow.get("/api/v2/plugins/importErrors")["import_errors"] == []
    assert "<html" in airflow.text("/streaming/app/")
    (seen,) = airflow.get("/streaming/api/fleet")["streams"]
    assert (seen["dag"], seen["stream"], seen["away"]) == (DAG, DAG, "")


def clear_and_adopt(user: User) -> None:
    run = user.deferred_run()
    before = user.task(run)["try_number"]
    body = {"dry_run": False, "task_ids": ["revenue"], "dag_run_id": run, "only_failed": False}

    user.stage.airflow.call("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", body)
    user.until(lambda: user.task(run)["try_number"] > before, "the next try")
    user.deferred_run()

    epoch = user.home.newest_epoch()
    assert epoch is not None
    assert epoch.number == 1
    assert user.driver_lives(1)


def follow_the_links(user: User) -> None:
    run = user.deferred_run()
    path = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/revenue/links"
    links = user.stage.airflow.get(path)["extra_links"]
    assert set(links) == {"Driver log", "Spark UI"}
    reply = user.stage.airflow.text(links["Driver log"])
    assert "000001.log" in reply
    assert "spark" in reply.lower()


def edit_and_apply(user: User, dag_file: Path) -> None:
    text = dag_file.read_text()
    assert CONF in text
    edited = dag_file.with_suffix(".new")
    edited.write_text(text.replace(CONF, CONF.replace("}", ', "spark.ui.retainedJobs": 50}')))
    edited.replace(dag_file)
    run = user.stage.airflow.trigger(DAG, restart=True)

    # The running run makes way for the one that waits, and that one replaces the driver.
    user.until(lambda: user.task(run)["state"] == "deferred", "the triggered run to take over")

    def has_been_replaced() -> bool:
        epoch = user.home.newest_epoch()
        return epoch is not None and epoch.deployment == 2 and user.stage.stream.is_well()

    user.until(has_been_replaced, "the new deployment to commit a batch")
    exit_record = user.home.exit(1)
    assert exit_record is not None
    assert exit_record.outcome is Outcome.STOPPED
    assert user.home.deployment(2).checkpoint == user.home.deployment(1).checkpoint


def mark_and_stop(user: User) -> None:
    run = user.deferred_run()
    path = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/revenue"

    user.stage.airflow.call("PATCH", path, {"new_state": "failed"})
    user.until(user.stage.stream.is_gone, "the driver to stop")

    desired, exit_record = user.home.desired(), user.home.exit(2)
    assert desired is not None
    assert desired.state is DesiredState.STOPPED
    assert exit_record is not None
    assert exit_record.outcome is Outcome.STOPPED
    assert user.deferred_run() != run, "the next run parks"
    assert not user.driver_lives(2)


ASSET = "hours_of_orders"

REPORT_DAG = """
import json
from datetime import timedelta
from pathlib import Path
from airflow.sdk import DAG, task
from airflow_streaming.assets import stream_asset

asset = stream_asset("orders", {home!r}, name={asset!r}, every=timedelta(hours=1), poll=timedelta(seconds=1))

with DAG("hourly_report", schedule=asset, catchup=False):

    @task
    def report(triggering_asset_events=None):
        with Path({told!r}).open("a") as told:
            for event in triggering_asset_events[asset]:
                told.write(json.dumps(event.extra["payload"]) + "\\n")

    report()
"""

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class RecordedStream:
    """A stream whose driver is the test; nothing of it runs but its records."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "home")
        self._home = open_home(self.uri)
        self._home.stream("orders").create_epoch(an_epoch(number=1))

    def commit(self, batch: int, watermark: datetime) -> None:
        progress = a_batch(batch_id=batch, watermark=watermark.isoformat())
        status = a_status(epoch=1, beat=batch, queries=(a_query(progress=progress),))
        self._home.store.replace(
            Layout("orders").epoch(1, "status.json"), Layout("orders").bytes_of(status)
        )


def is_settled(airflow: Airflow) -> bool:
    """Tell whether nothing would be told again if the triggerer died now."""
    assets = airflow.get("/api/v2/assets")["assets"]
    (asset,) = [each for each in assets if each["name"] == ASSET]
    kept = airflow.get(f"/api/v2/assets/{asset['id']}/state-store/streaming.watermark")
    return kept["value"]["pending"] is None


@pytest.mark.nightly("The DAG's task runs in test_windows_in_airflow.py, too.")
def test_a_dag_runs_when_the_watermark_of_a_stream_completes_an_hour(
    tmp_path: Path, stage: Stage
) -> None:
    airflow, say = stage.airflow, Progress()
    stream, told = RecordedStream(tmp_path), tmp_path / "told.jsonl"
    stream.commit(7, NOON + timedelta(minutes=20))
    source = REPORT_DAG.format(asset=ASSET, home=stream.uri, told=str(told))
    (stage.dags / "hourly_report.py").write_text(source)

    def reports() -> list[dict[str, Any]]:
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    def wait_for_reports(number: int, what: str) -> None:
        wait_for(
            lambda: len(reports()) >= number, what=what, say=say, failing=airflow.ended_component
        )

    wait_for(
        lambda: airflow.has_dag("hourly_report"),
        what="the dag",
        say=say,
        failing=airflow.ended_component,
    )
    airflow.unpause("hourly_report")
    # Airflow starts the watchers of an asset when it next reads a dag that is not paused.
    (stage.dags / "hourly_report.py").touch()
    wait_for_reports(1, "a run for where the stream stands")
    stream.commit(8, NOON + timedelta(minutes=50))
    stream.commit(9, NOON + timedelta(minutes=125))
    wait_for_reports(2, "a run for the hours that were completed")

    wait_for(
        lambda: is_settled(airflow), what="the delivery", say=say, failing=airflow.ended_component
    )
    airflow.replace_component("triggerer")
    stream.commit(10, NOON + timedelta(minutes=185))
    wait_for_reports(3, "a run after the triggerer was killed")

    assert [
        (one["sequence"], (one["complete_from"] or "")[11:16], one["complete_until"][11:16])
        for one in reports()
    ] == [(1, "", "12:00"), (2, "12:00", "14:00"), (3, "14:00", "15:00")]
    all_events = airflow.get("/api/v2/assets/events")["asset_events"]
    events = [event for event in all_events if event["name"] == ASSET]
    assert len(events) == 3, "nothing is told twice"
    assert {event["extra"]["from_trigger"] for event in events} == {True}
