"""What Spark says of its executors, and what becomes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.driver.monitoring.executors import LOOK_EVERY, ExecutorsView, executors_in
from airflow_streaming.model.spark.conf import executors_wanted, has_executors

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def executor(number: int, **changes: Any) -> dict[str, Any]:
    told = {"id": str(number), "isActive": True, "failedTasks": 0, "addTime": "…"}
    return {**told, **changes}


def gone(number: int, minutes: float, reason: str = "Executor lost", **more: Any) -> dict[str, Any]:
    moment = NOW - timedelta(minutes=minutes)
    told = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}GMT"
    return executor(number, isActive=False, removeTime=told, removeReason=reason, **more)


DRIVER = {"id": "driver", "isActive": True, "failedTasks": 7}
LISTED = [
    DRIVER,
    executor(1, failedTasks=2),
    gone(2, 90),
    gone(3, 30, "Command exited with code 137", failedTasks=3),
    gone(4, 59.9),
]


def test_the_driver_is_no_executor_and_those_that_went_are_counted():
    found = executors_in(json.dumps(LISTED), wanted=2, now=NOW)
    assert (found.alive, found.wanted, found.missing) == (1, 2, 1)
    assert (found.lost_last_hour, found.failed_tasks) == (2, 5)
    assert found.reason == "Command exited with code 137"


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param([], id="nothing"),
        pytest.param({"no": "list"}, id="no list"),
        pytest.param([1, None, {"id": 5}], id="no executors"),
        pytest.param([gone(1, 5) | {"removeTime": "yesterday"}], id="no time"),
        pytest.param([gone(1, 5) | {"removeTime": 17, "removeReason": {}}], id="another type"),
        pytest.param([executor(1, isActive="yes", failedTasks="many")], id="words"),
    ],
)
def test_what_is_not_told_is_left_out(strange: Any):
    found = executors_in(json.dumps(strange), wanted=None, now=NOW)
    assert (found.alive, found.lost_last_hour, found.failed_tasks) == (0, 0, 0)


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({"spark.master": "k8s://https://api"}, 2),
        ({"spark.master": "yarn"}, 2),
        ({"spark.master": "yarn", "spark.executor.instances": "5"}, 5),
        ({"spark.master": "spark://m:7077"}, None),
        ({"spark.master": "spark://m", "spark.cores.max": "9", "spark.executor.cores": "2"}, 4),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "5"}, 0),
        (
            {
                "spark.dynamicAllocation.enabled": "TRUE",
                "spark.dynamicAllocation.minExecutors": "3",
            },
            3,
        ),
        ({"spark.executor.instances": "many", "spark.cores.max": "4"}, None),
        ({"spark.cores.max": "4", "spark.executor.cores": "0"}, None),
    ],
)
def test_how_many_a_configuration_asks_for(conf: dict[str, str], wanted: int | None):
    assert executors_wanted(conf) == wanted


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("local", False),
        ("local[2]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://m:7077", True),
        ("k8s://https://api", True),
        ("", True),
    ],
)
def test_local_mode_has_none(master: str, found: bool):
    assert has_executors(master) is found


class Jobs:
    """Spark, as far as it is asked."""

    def __init__(self, master: str = "spark://m:7077") -> None:
        self.listed: list[dict[str, Any]] = [DRIVER]
        self.asked = 0
        self.master = master

    def conf(self) -> dict[str, str]:
        return {"spark.master": self.master, "spark.executor.instances": "2"}

    def executor_list(self) -> str | None:
        self.asked += 1
        return json.dumps(self.listed)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_asks_every_ten_seconds_and_times_how_long_there_is_none(clock: Clock):
    jobs = Jobs()
    view = ExecutorsView(jobs, clock)  # type: ignore[arg-type]
    for _ in range(13):
        view.look()
        clock.now += LOOK_EVERY / 2
    assert jobs.asked == 7
    assert view.latest is not None
    assert (view.latest.alive, view.latest.none_for_s) == (0, 60.0)
    jobs.listed = [DRIVER, executor(1)]
    clock.now += LOOK_EVERY
    view.look()
    assert (view.latest.alive, view.latest.none_for_s) == (1, None)


def test_failed_tasks_are_told_once(clock: Clock):
    jobs = Jobs()
    jobs.listed = [DRIVER, executor(1, failedTasks=4)]
    view = ExecutorsView(jobs, clock)  # type: ignore[arg-type]
    view.look()
    assert view.figures(with_failed=True) == {
        "lost_executors": 0.0,
        "missing_executors": 1.0,
        "failed_tasks": 4.0,
    }
    assert view.figures(with_failed=True)["failed_tasks"] == 0.0
    assert "failed_tasks" not in view.figures(with_failed=False)


def test_local_mode_tells_nothing(clock: Clock):
    jobs = Jobs("local[2]")
    view = ExecutorsView(jobs, clock)  # type: ignore[arg-type]
    view.look()
    assert (view.latest, view.figures(with_failed=True), jobs.asked) == (None, {}, 0)
