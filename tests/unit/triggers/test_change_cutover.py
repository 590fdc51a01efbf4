"""What wakes the task of a cutover."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.triggers.change import CutoverTrigger
from tests.unit.changes.cutover.cutting import Cutting


@pytest.fixture
def stream(tmp_path: Path) -> Cutting:
    """Return a stream whose green runs beside blue."""
    cut = Cutting(tmp_path)
    cut.begin()
    cut.advance(CutoverState.CATCHING_UP)
    return cut


def trigger(stream: Cutting, **more: Any) -> CutoverTrigger:
    told: dict[str, Any] = {
        "home": stream.uri,
        "stream": "orders",
        "lanes": ["orders", "orders.green"],
        "change": 1,
        "deferred_at": datetime.now(UTC).isoformat(),
    }
    return CutoverTrigger(**{**told, **more})


def look(watching: CutoverTrigger) -> Any:
    payload, _ = watching.look_once()
    return payload


def test_it_goes_on_looking_while_nothing_happens(stream: Cutting) -> None:
    watching = trigger(stream)

    assert [look(watching) for _ in range(3)] == [None, None, None]


def test_a_persons_word_wakes_the_task(stream: Cutting) -> None:
    watching = trigger(stream)
    look(watching)

    stream.engine().command(CutoverCommand.ABORT, "Wrong totals.")

    assert look(watching)["has_changed"]


@pytest.mark.parametrize("lane", ["orders", "orders.green"])
def test_what_becomes_of_a_driver_in_either_lane_wakes_it(lane: str, stream: Cutting) -> None:
    watching = trigger(stream)
    look(watching)

    stream.end(lane, stream.epoch(lane), Outcome.FAILED)

    event = look(watching)
    assert event["has_changed"]
    assert set(event["memory"]["lanes"]) == {"orders", "orders.green"}


def test_it_fires_from_time_to_time_and_carries_on_what_the_task_has_learned(
    stream: Cutting,
) -> None:
    event = look(trigger(stream, wake_seconds=0.0, memory={"errors": {"orders": 2}}))

    assert event["has_changed"] is False
    assert event["memory"]["errors"] == {"orders": 2}


def test_the_time_for_which_it_has_seen_a_step_is_handed_on(
    stream: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    step = len(stream.home("orders").steps(1))
    memory = {"step": {"change": 1, "step": step, "seen_for": 40.0}}
    watching = trigger(stream, memory=memory, wake_seconds=30.0)
    look(watching)
    clock[0] += 31

    event = look(watching)

    assert event["memory"]["step"] == {"change": 1, "step": step, "seen_for": 71.0}


def test_it_travels_and_a_row_of_a_newer_release_still_loads(stream: Cutting) -> None:
    path, kwargs = trigger(stream, wake_seconds=7.0).serialize()

    again = CutoverTrigger(**kwargs, invented_later=True)

    assert path == "airflow_streaming.triggers.change.CutoverTrigger"
    assert again.serialize() == (path, kwargs)
