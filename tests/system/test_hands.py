"""What a person does to a task that keeps a stream, on a real Airflow and a real Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import Outcome
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.launch.local import LocalLauncher
from demo.events import Shop, synthetic_files
from demo.stage import REPOSITORY, Stage
from demo.waiting import Progress, wait_for

DAG = "retail_revenue"
CONF = 'conf={"spark.sql.shuffle.partitions": 2}'


class Hands:
    """A person at Airflow's API."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.say = stage, Progress()

    @property
    def home(self) -> StreamHome:
        return open_home(str(self.stage.home)).stream(DAG)

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
            seconds=180,
            say=self.say,
            failing=self.stage.airflow.ended_component,
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


def test_clearing_adopts_a_restart_is_applied_and_a_mark_stops(
    tmp_path: Path, spark_4_3: Path
) -> None:
    dags = tmp_path / "dags"
    shutil.copytree(REPOSITORY / "dags", dags)
    files = synthetic_files(400, Shop())
    stage = Stage(tmp_path / "stage", runtime=spark_4_3, files=files, dags=dags, say=Progress())
    with stage:
        stage.arrivals.start()
        hands = Hands(stage)
        hands.until(lambda: stage.airflow.has_dag(DAG), "the dag")
        stage.airflow.unpause(DAG)
        hands.until(stage.stream.is_well, "a first batch")
        clear_and_adopt(hands)
        follow_the_links(hands)
        edit_and_apply(hands, dags / "retail_revenue.py")
        mark_and_stop(hands)
    assert not stage.leftovers()


def clear_and_adopt(hands: Hands) -> None:
    run = hands.deferred_run()
    before = hands.task(run)["try_number"]
    body = {"dry_run": False, "task_ids": ["revenue"], "dag_run_id": run, "only_failed": False}

    hands.stage.airflow.call("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", body)
    hands.until(lambda: hands.task(run)["try_number"] > before, "the next try")
    hands.deferred_run()

    epoch = hands.home.newest_epoch()
    assert epoch is not None
    assert epoch.number == 1
    assert hands.driver_lives(1)


def follow_the_links(hands: Hands) -> None:
    run = hands.deferred_run()
    path = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/revenue/links"
    links = hands.stage.airflow.get(path)["extra_links"]
    assert set(links) == {"Driver log", "Spark UI"}
    reply = hands.stage.airflow.text(links["Driver log"])
    assert "000001.log" in reply
    assert "spark" in reply.lower()


def edit_and_apply(hands: Hands, dag_file: Path) -> None:
    text = dag_file.read_text()
    assert CONF in text
    edited = dag_file.with_suffix(".new")
    edited.write_text(text.replace(CONF, CONF.replace("}", ', "spark.ui.retainedJobs": 50}')))
    edited.replace(dag_file)
    run = hands.stage.airflow.trigger(DAG, restart=True)

    # The running run makes way for the one that waits, and that one replaces the driver.
    hands.until(lambda: hands.task(run)["state"] == "deferred", "the triggered run to take over")

    def has_been_replaced() -> bool:
        epoch = hands.home.newest_epoch()
        return epoch is not None and epoch.deployment == 2 and hands.stage.stream.is_well()

    hands.until(has_been_replaced, "the new deployment to commit a batch")
    exit_record = hands.home.exit(1)
    assert exit_record is not None
    assert exit_record.outcome is Outcome.STOPPED
    assert hands.home.deployment(2).checkpoint == hands.home.deployment(1).checkpoint


def mark_and_stop(hands: Hands) -> None:
    run = hands.deferred_run()
    path = f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/revenue"

    hands.stage.airflow.call("PATCH", path, {"new_state": "failed"})
    hands.until(hands.stage.stream.is_gone, "the driver to stop")

    desired, exit_record = hands.home.desired(), hands.home.exit(2)
    assert desired is not None
    assert desired.state is DesiredState.STOPPED
    assert exit_record is not None
    assert exit_record.outcome is Outcome.STOPPED
    assert hands.deferred_run() != run, "the next run parks"
    assert not hands.driver_lives(2)
