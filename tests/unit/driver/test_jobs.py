from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.driver.monitoring.activity import (
    ActivitySnapshot,
    Job,
    Work,
    jobs_in,
    moved_in,
)

MINE = Job(id=4, group="run-1", active=2, done=(3, 0), stages=(8, 9))
THEIRS = Job(id=5, group="run-2", active=1, done=(0, 0), stages=(10,))
OWN_NAME = Job(id=6, group="nightly", active=1, stages=(11,))


def sight(*jobs: Job, **changes: Any) -> ActivitySnapshot:
    return ActivitySnapshot(at=0.0, jobs=jobs, newest=lambda group: 3, moved=sum, **changes)


@pytest.mark.parametrize(
    ("jobs", "others", "active", "newest"),
    [
        pytest.param((MINE, THEIRS), {"run-2"}, 2, 4, id="its own jobs beside another query"),
        pytest.param((MINE, OWN_NAME), set(), 3, 6, id="all jobs when it is alone"),
        pytest.param((THEIRS, OWN_NAME), {"run-2"}, 0, 3, id="none now, but some before"),
    ],
)
def test_the_jobs_of_a_query(
    jobs: tuple[Job, ...], others: set[str], active: int, newest: int
) -> None:
    work = sight(*jobs).work_of("run-1", others=others, quiet=False)
    assert work.active_tasks == active
    assert isinstance(work.marks, tuple)
    assert work.marks[0] == newest
    assert work.moved is None


def test_running_tasks_are_looked_at_more_closely_only_after_a_quiet_while() -> None:
    assert sight(MINE).work_of("run-1", others=(), quiet=True).moved == 17
    idle = Job(id=4, group="run-1")
    assert sight(idle).work_of("run-1", others=(), quiet=True).moved is None


def test_jobs_that_could_not_be_seen_are_unknown() -> None:
    assert ActivitySnapshot(at=0.0).work_of("run-1", others=(), quiet=True) == Work()


def test_running_jobs_are_read_and_odd_ones_left_out() -> None:
    job = {
        "jobId": 9,
        "jobGroup": "run-1",
        "stageIds": [17, 18, "x"],
        "numActiveTasks": 2,
        "numCompletedTasks": 5,
        "numFailedTasks": 1,
        "numActiveStages": 1,
        "numCompletedStages": None,
    }
    text = json.dumps([job, {"jobId": "?"}, 7, {"jobId": 3, "stageIds": None, "jobGroup": 1}])
    assert jobs_in(text) == (
        Job(id=9, group="run-1", active=2, done=(5, 1, 1, 0), stages=(17, 18)),
        Job(id=3, done=(0, 0, 0, 0)),
    )


def test_what_tasks_have_moved_is_summed_over_the_stages_asked_for() -> None:
    stages = [
        {"stageId": 1, "inputRecords": 5, "shuffleReadRecords": 7, "executorCpuTime": 100},
        {"stageId": 2, "inputRecords": 1000},
        {"stageId": 3, "outputRecords": "many"},
    ]
    assert moved_in(json.dumps(stages), [1, 3]) == 112
