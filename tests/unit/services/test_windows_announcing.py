"""Windows are announced exactly once and in order, over any kill."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.model.products.windows import ClaimOutcome, window_key
from airflow_streaming.services.windows import request_windows
from tests.unit.services.announcing import DAY, World

KILLS = 40
"""More than the calls of any try."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def keys(first: int, until: int) -> list[str]:
    return [window_key(DAY + timedelta(hours=hour)) for hour in range(first, until)]


def once(first: int, until: int, revision: int = 1) -> Counter[tuple[str, int]]:
    return Counter(dict.fromkeys([(key, revision) for key in keys(first, until)], 1))


def test_the_closed_windows_are_announced_in_order(world: World) -> None:
    world.hours(3.5)
    one = world.run()
    world.hours(5)
    world.settle()

    assert one is not None
    assert one.result == {"claim": 2, "windows": dict.fromkeys(keys(0, 3), 1)}
    assert world.airflow.announced() == [(key, 1) for key in keys(0, 5)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_call_of_the_store_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    killed = 0
    for call in range(1, KILLS):
        folder = tmp_path / str(call)
        folder.mkdir()
        world = World(folder, monkeypatch)
        world.hours(2)
        assert world.run() is not None
        world.hours(4)
        killed += world.run(fuse=call, after=after) is None
        world.settle()
        assert world.airflow.announced() == [(key, 1) for key in keys(0, 4)], (
            f"killed at call {call}"
        )
    assert killed >= 5


def test_a_success_that_nobody_recorded_is_found_among_airflows_events(world: World) -> None:
    world.hours(2)
    world.run()
    claim = world.home.newest_window_claim("3600s")
    assert claim is not None
    assert world.home.window_claim_end("3600s", claim.number) is None

    world.settle()

    end = world.home.window_claim_end("3600s", claim.number)
    assert end is not None
    assert end.outcome is ClaimOutcome.ANNOUNCED
    assert world.revisions() == once(0, 2)


def test_a_claim_whose_try_died_is_abandoned_and_its_windows_are_announced(world: World) -> None:
    world.hours(2)
    assert (
        world.attempt("run-a") is not None
    )  # it has claimed, and dies before its success is heard
    del world.airflow.running["run-a"]

    world.settle()

    end = world.home.window_claim_end("3600s", 2)
    assert end is not None
    assert end.outcome is ClaimOutcome.ABANDONED
    assert world.revisions() == once(0, 2)


def test_a_task_waits_for_another_run_that_has_claimed(world: World) -> None:
    world.hours(2)
    one = world.attempt("run-a")
    assert one is not None
    with pytest.raises(TaskDeferred) as deferred:
        world.execute(world.airflow.begin("run-b"))
    assert deferred.value.trigger.until is None  # type: ignore[attr-defined]

    assert world.airflow.succeed(one)
    world.settle()

    assert world.revisions() == once(0, 2)


def test_a_task_instance_never_claims_twice(world: World) -> None:
    world.hours(2)
    one = world.attempt("run-a")
    assert one is not None
    with pytest.raises(StreamingError, match="started twice"):
        world.execute(one)


def test_a_task_that_sleeps_while_its_number_is_pruned_announces_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = False

    def content(_: Any) -> str:
        nonlocal asleep
        if asleep:
            asleep = False
            for hour in (3, 4, 5, 6):
                world.hours(hour)
                world.settle()
            prune_claims(world)
        return "the same"

    world = World(tmp_path, monkeypatch, content=content)
    world.hours(2)
    world.settle()
    world.hours(3)
    asleep = True

    one = world.attempt("sleeper")

    assert not asleep
    assert one is None
    world.settle()
    assert world.revisions() == once(0, 6)


def prune_claims(world: World) -> None:
    """Delete each claim that the newest one does not need."""
    newest = world.home.newest_window_claim("3600s")
    assert newest is not None
    for file in Path(world.uri, "orders", "windows", "3600s").iterdir():
        if int(file.name.partition(".")[0]) < newest.base:
            file.unlink()


def test_a_restored_watermark_announces_nothing_again(world: World) -> None:
    world.hours(6)
    world.settle()
    world.hours(2.5)
    assert world.run() is None
    world.hours(7)
    world.settle()

    assert world.airflow.announced() == [(key, 1) for key in keys(0, 7)]


def test_the_other_lane_continues_the_record(world: World) -> None:
    world.hours(2)
    world.settle()

    green = world.home.beside("orders.green")

    found = green.newest_window_claim("3600s")
    assert found is not None
    assert found.state.until == DAY + timedelta(hours=2)


def test_a_late_correction_gives_revision_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[datetime, int] = {}
    world = World(tmp_path, monkeypatch, content=lambda window: str(rows.get(window.start, 0)))
    world.hours(3)
    world.settle()
    rows[DAY + timedelta(hours=1)] = 7
    world.hours(3.1)
    world.settle()

    assert world.airflow.announced() == [*[(key, 1) for key in keys(0, 3)], (keys(1, 2)[0], 2)]


def test_a_request_is_announced_once(world: World) -> None:
    world.hours(4)
    world.settle()
    start, end = DAY + timedelta(hours=1), DAY + timedelta(hours=3)

    request_windows(world.home, "3600s", start, end, by="ann", reason="corrected")
    world.settle()

    assert world.revisions() == once(0, 4) + once(1, 3, revision=2)


@pytest.mark.parametrize(
    ("series", "hours", "message"),
    [("60s", 3, "no windows '60s'; its series: 3600s"), ("3600s", 0, "not after its begin")],
)
def test_a_request_that_cannot_be_is_refused(
    world: World, series: str, hours: int, message: str
) -> None:
    world.hours(1)
    world.settle()
    with pytest.raises(SpecError, match=message):
        request_windows(world.home, series, DAY, DAY + timedelta(hours=hours), by="ann", reason="r")


def test_a_stream_without_a_watermark_fails_at_once(world: World) -> None:
    world.never = True
    with pytest.raises(AirflowFailException, match="No query has a watermark"):
        world.execute(world.airflow.begin("run-a"))


@pytest.mark.parametrize(
    "seed",
    [0, 1, *(pytest.param(one, marks=pytest.mark.nightly("more seeds")) for one in range(2, 20))],
)
def test_two_days_of_kills_restores_and_corrections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, rows = random.Random(seed), {}  # type: ignore[var-annotated]
    world = World(
        *(tmp_path, monkeypatch),
        content=lambda window: str(rows.get(window.start, 0)),
        recheck=timedelta(days=9),
    )
    expected: Counter[Any] = once(0, 48)
    hour, known = 0.0, 0
    while hour < 48:
        hour = max(0.0, hour - 5) if chance.random() < 0.1 else hour + chance.random() * 3
        world.hours(min(hour, 48))
        if chance.random() < 0.05 and known > 2:
            world.settle()
            corrected = DAY + timedelta(hours=chance.randrange(known))
            rows[corrected] = rows.get(corrected, 0) + 1
            expected[window_key(corrected), rows[corrected] + 1] += 1
        world.stormy(chance)
        known = max(known, int(min(hour, 48)))
        if not rows:
            firsts = [key for key, _ in world.airflow.announced()]
            assert firsts == sorted(firsts)
    world.hours(48)
    world.settle()

    assert world.revisions() == expected
