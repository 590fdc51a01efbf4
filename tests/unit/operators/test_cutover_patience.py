"""A task of a cutover keeps its worker while an output may have nobody who writes it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from airflow_streaming.changes.engine import Progress
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.operators.cutover import CutoverStepOperator
from airflow_streaming.spec import StreamSpec

S = CutoverState


def at(state: CutoverState, *, is_there: bool = False) -> Progress:
    return Progress(change=1, state=state, reason="", is_there=is_there, waiting="for a driver")


def looks(*states: CutoverState) -> Iterator[Progress]:
    """Yield what three looks find: it waits twice in a state, and is at its end."""
    for state in states:
        yield from (at(state), at(state))
    yield at(S.FINALIZED, is_there=True)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> CutoverStepOperator:
    monkeypatch.setattr("airflow_streaming.operators.common.change.POLL_SECONDS", 0.0)
    spec = StreamSpec(name="orders", application="orders.py", home="/h", runtime="spark-4.3")
    return CutoverStepOperator(
        task_id="soak", stream=spec, until="finalizing", patience=timedelta(0)
    )


@pytest.mark.parametrize(
    "state", [S.DRAINING, S.SWITCHING, S.LIVE, S.ABORTING, S.ROLLING_BACK, S.ROLLED_BACK], ids=str
)
def test_it_does_not_leave_the_worker_between_two_lanes(
    state: CutoverState, task: CutoverStepOperator
) -> None:
    found = looks(state)

    progress = task.waiting_here(lambda: next(found))

    assert progress is not None
    assert progress.is_there


def test_a_home_that_is_away_for_a_moment_does_not_make_it_leave(
    task: CutoverStepOperator,
) -> None:
    found, seen = looks(S.DRAINING), list[Progress]()

    def look() -> Progress:
        seen.append(next(found))
        if len(seen) == 2:
            raise HomeUnavailable("The store does not answer.")
        return seen[-1]

    progress = task.waiting_here(look)

    assert progress is not None
    assert progress.is_there


@pytest.mark.parametrize("state", [S.CATCHING_UP, S.SHADOWING, S.READY, S.SOAKING], ids=str)
def test_it_leaves_the_worker_where_time_costs_nothing(
    state: CutoverState, task: CutoverStepOperator
) -> None:
    found = looks(state)

    progress = task.waiting_here(lambda: next(found))

    assert progress == at(state)
    assert len(list(found)) == 2
