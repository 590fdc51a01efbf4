"""What an observer learned by listening is worth the same to the next one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.supervision.observer import Memory

RUNNING, SUSPENDED = ProcessState.RUNNING, ProcessState.SUSPENDED


def look(
    memory: Memory,
    clock: float,
    *,
    beat: int = 1,
    cpu: float | None = 5.0,
    state: ProcessState = RUNNING,
    has_stop: bool = False,
) -> Memory:
    process = Process(state=state, detail="pid 7", cpu_seconds=cpu)
    return memory.look(clock, beat=beat, process=process, has_stop=has_stop)


FIRST = look(Memory(epoch=1, beat=1, since=100.0), 100.0)


def test_silence_begins_when_a_beat_is_first_seen() -> None:
    memory = look(look(FIRST, 110.0), 120.0, beat=2)

    assert (memory.since, memory.beating) == (120.0, True)
    assert look(memory, 130.0, beat=2).since == 120.0


def test_a_first_look_is_no_sign_of_life() -> None:
    assert not FIRST.beating


@pytest.mark.parametrize(
    ("cpus", "flat_for"),
    [((5.0, 5.0, 5.0), 30.0), ((5.0, 9.0, 9.0), 10.0), ((5.0, 5.0, 9.0), 0.0), ((None,), None)],
    ids=["flat", "flat since", "busy", "not seen"],
)
def test_flat_cpu_time_is_timed(cpus: tuple[float | None, ...], flat_for: float | None) -> None:
    memory = FIRST
    for number, cpu in enumerate(cpus, start=1):
        memory = look(memory, 100.0 + 10 * number, cpu=cpu)

    assert (memory.still.flat_for if memory.still else None) == flat_for


def test_a_stop_of_the_processes_is_timed_from_when_it_was_first_seen() -> None:
    stopped = look(look(FIRST, 110.0, state=SUSPENDED), 120.0, state=SUSPENDED)

    assert stopped.suspended_since == 110.0
    assert look(stopped, 130.0).suspended_since is None


def test_time_in_which_nobody_could_look_is_no_silence() -> None:
    waits = look(FIRST, 110.0, has_stop=True).without(60.0)

    assert (waits.since, waits.stop_since) == (160.0, 170.0)


@pytest.mark.parametrize(
    "changes",
    [{}, {"state": SUSPENDED}, {"has_stop": True}, {"cpu": None}],
    ids=["running", "suspended", "stopping", "out of sight"],
)
def test_the_next_observer_goes_on_from_it(changes: dict[str, Any]) -> None:
    memory = look(look(FIRST, 110.0, **changes), 125.0, **changes)

    # Another process, whose monotonic clock has nothing to do with ours.
    handed = Memory.from_event(memory.to_event(130.0), 1_000_130.0)

    assert handed.to_event(1_000_140.0) == memory.to_event(140.0)


def test_an_event_of_an_older_release_is_enough() -> None:
    handed = Memory.from_event({"epoch": 1, "beat": 3, "silent_for": 20.0}, 100.0)

    assert (handed.since, handed.still, handed.stop_since) == (80.0, None, None)
