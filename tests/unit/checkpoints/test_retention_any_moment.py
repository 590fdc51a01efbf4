"""Killed at any step, or beside a backup at any moment, retention loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import CheckpointBusy
from tests.unit.checkpoints.remembered import Call, RememberedBlobs
from tests.unit.checkpoints.retaining import (
    WANTED,
    Killed,
    Taking,
    due,
    history,
    lost,
    retain,
    settle,
)


def durable_steps(start: RememberedBlobs, act: Callable[[RememberedBlobs], object]) -> int:
    blobs, steps = start.copy(), 0

    def count(call: Call) -> None:
        nonlocal steps
        steps += call.is_durable

    blobs.hook = count
    act(blobs)
    return steps


def kill_at(blobs: RememberedBlobs, step: int, act: Callable[[RememberedBlobs], object]) -> None:
    steps = 0

    def die(call: Call) -> None:
        nonlocal steps
        steps += call.is_durable
        if steps > step:
            raise Killed

    blobs.hook = die
    with pytest.raises(Killed):
        act(blobs)
    blobs.hook = lambda call: None


@pytest.mark.parametrize("start", [history, due])
def test_killed_at_any_durable_step_it_loses_nothing_and_the_next_runs_finish(
    start: Callable[[], RememberedBlobs],
) -> None:
    beginning = start()
    steps = durable_steps(beginning, retain)
    undisturbed = beginning.copy()
    retain(undisturbed)
    settle(undisturbed)

    assert steps > 10
    for step in range(steps):
        blobs = beginning.copy()
        kill_at(blobs, step, retain)
        assert lost(blobs) == set()
        settle(blobs)
        assert left(blobs) == left(undisturbed)


def left(blobs: RememberedBlobs) -> set[str]:
    return {path for path in blobs.objects if path != "clock.json"}


def interleave(
    blobs: RememberedBlobs,
    step: int,
    act: Callable[[RememberedBlobs], object],
    other: Callable[[], object],
) -> bool:
    """Run an act, and another one whole before its given call; tell whether it got that far."""
    calls = -1

    def meanwhile(call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            blobs.hook = lambda call: None
            other()

    blobs.hook = meanwhile
    act(blobs)
    blobs.hook = lambda call: None
    return calls >= step


@pytest.mark.parametrize("start", [history, due])
@pytest.mark.parametrize("when", ["begun before", "begun then"])
def test_a_backup_at_any_moment_of_a_run_is_whole_or_was_withdrawn(
    start: Callable[[], RememberedBlobs], when: str
) -> None:
    beginning, published, step = start(), 0, 0
    while True:
        blobs = beginning.copy()
        taking = [Taking(BackupStore(blobs), WANTED)] if when == "begun before" else []
        done: list[Backup] = []

        def finish(
            blobs: RememberedBlobs = blobs,
            taking: Iterable[Taking] = taking,
            done: list[Backup] = done,
        ) -> None:
            for one in taking or [Taking(BackupStore(blobs), WANTED)]:
                done.extend(publish(one))

        if not interleave(blobs, step, retain, finish):
            break
        assert lost(blobs) == set()
        settle(blobs, 2)
        assert lost(blobs) == set()
        assert {backup.id for backup in done} <= {b.id for b in BackupStore(blobs).backups()}
        published += len(done)
        step += 1

    assert step > 20
    assert published > 0


@pytest.mark.parametrize("start", [history, due])
def test_a_run_at_any_moment_of_a_backup_leaves_it_whole_or_has_it_withdrawn(
    start: Callable[[], RememberedBlobs],
) -> None:
    beginning, step = start(), 0

    def back_up(blobs: RememberedBlobs) -> list[Backup]:
        return publish(Taking(BackupStore(blobs), WANTED))

    while True:
        blobs = beginning.copy()
        if not interleave(blobs, step, back_up, lambda blobs=blobs: retain(blobs)):  # type: ignore[misc]
            break
        assert lost(blobs) == set()
        settle(blobs, 2)
        assert lost(blobs) == set()
        step += 1

    assert step > 20


def publish(taking: Taking) -> list[Backup]:
    try:
        return [taking.finish()]
    except CheckpointBusy:
        return []
