"""What a trigger sees, when it speaks, and what it never does."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.module_loading import import_string
from airflow.sdk.observability import stats

from airflow_streaming.cli.status import view_stream
from airflow_streaming.exceptions import AccessDenied
from airflow_streaming.model.observation import Process, VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.services.fleet_index import read_index
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers import home as home_trigger
from airflow_streaming.triggers import polling as _polling
from airflow_streaming.triggers.gate import GateTrigger
from airflow_streaming.triggers.polling import HOLD
from airflow_streaming.triggers.stream import StreamTrigger
from tests.patience import PATIENCE
from tests.unit.home.make import make_decision, make_progress
from tests.unit.triggers.firing import LONG_AGO, POLL, first_event, make_trigger, stays_silent
from tests.unit.world import World


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (StreamTrigger, {"watched": 7, "rollover_seconds": 60.0, "blocked": True}),
        (StreamTrigger, {"run_started_at": LONG_AGO, "due_in_seconds": 30.0}),
        (StreamTrigger, {"standby": True, "until_parked": True}),
        (GateTrigger, {"condition": {}, "rules": {"hang_after": 30.0}}),
    ],
)
def test_it_comes_back_from_the_database_as_it_was(kind: type, kwargs: dict[str, Any]) -> None:
    trigger = kind(home="/h", stream="s", home_conn_id="c", deferred_at=LONG_AGO, **kwargs)

    path, told = trigger.serialize()

    assert import_string(path)(**told).serialize() == (path, told)
    assert kwargs.items() <= told.items()


def test_a_row_written_by_a_newer_release_still_loads() -> None:
    trigger = StreamTrigger(home="/h", stream="s", deferred_at=LONG_AGO, from_the_future=1)

    assert "from_the_future" not in trigger.serialize()[1]


async def test_it_stays_silent_while_the_driver_runs(world: World) -> None:
    world.run()
    world.say(progressed_for=timedelta(minutes=1))

    assert await stays_silent(make_trigger(world))


async def test_it_leaves_it_to_the_task_it_wakes_to_log_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    world.crash()
    trigger, said = make_trigger(world), []
    monkeypatch.setattr(trigger.log, "info", lambda text, *args: said.append(text % args))

    event = await first_event(trigger)

    assert event["action"] == "settle"
    assert said == []


async def test_it_wakes_the_task_when_the_driver_is_gone(world: World) -> None:
    world.run()
    world.crash()

    event = await first_event(make_trigger(world))

    assert event["action"] == "settle"
    assert "left no exit record" in event["reason"]
    assert event["watched"] == 1


async def test_two_copies_of_it_tell_the_same_and_change_nothing(world: World) -> None:
    world.run()
    world.last_words(Outcome.FAILED)
    before = snapshot(Path(world.uri))

    one, two = await asyncio.gather(
        first_event(make_trigger(world)), first_event(make_trigger(world))
    )

    assert one["action"] == two["action"] == "settle"
    assert snapshot(Path(world.uri)) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def test_a_parked_stream_wakes_when_it_is_wanted_again(world: World) -> None:
    now = datetime.now(UTC)
    world.run()
    world.home.want(DesiredState.STOPPED, by="ann", reason="maintenance", now=now)
    world.ask_to_stop()
    world.last_words(Outcome.STOPPED)
    assert await stays_silent(make_trigger(world))

    world.home.want(DesiredState.RUNNING, by="ann", reason="done", now=now)

    assert (await first_event(make_trigger(world)))["action"] == "launch"


async def test_whoever_waits_for_the_stop_is_told_when_the_stream_is_down(world: World) -> None:
    world.run()
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    world.last_words(Outcome.STOPPED)

    event = await first_event(make_trigger(world, until_parked=True))

    assert event["action"] == "park"


async def test_silence_is_timed_by_listening_and_handed_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    world.say(beat=3)
    world.launcher.suspend(world.epoch().token)
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(
        home_trigger,
        "Observer",
        lambda *args, **kwargs: Observer(*args, clock=lambda: float(next(clock)), **kwargs),
    )

    event = await first_event(make_trigger(world))

    assert event["action"] == "kill"
    assert event["memory"]["beat"] == 3
    assert event["memory"]["silent_for"] >= 45


async def test_it_holds_an_event_until_the_deferral_has_settled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "HOLD", timedelta(seconds=0.5))
    world.run()
    world.crash()
    began = time.monotonic()

    await first_event(make_trigger(world, deferred_at=datetime.now(UTC).isoformat()))

    assert time.monotonic() - began >= 0.4


def test_the_hold_is_longer_than_the_scheduler_was_measured_to_need() -> None:
    assert timedelta(seconds=12) <= HOLD


@pytest.mark.parametrize(("queued", "ends"), [(0, False), (1, True)])
async def test_it_makes_way_for_a_run_that_is_queued(
    world: World, monkeypatch: pytest.MonkeyPatch, queued: int, ends: bool
) -> None:
    world.run()
    world.say(progressed_for=timedelta(minutes=1))
    asked: list[dict[str, Any]] = []

    def get_dr_count(dag_id: str, **more: Any) -> int:
        asked.append({"dag_id": dag_id, **more})
        return queued

    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", staticmethod(get_dr_count))
    trigger = watching(world, monkeypatch, "deferred")

    if ends:
        event = await first_event(trigger)
        assert (event["action"], event["successor_waits"]) == ("finish", True)
    else:
        assert await stays_silent(trigger)
    assert trigger._question is not None
    await trigger._question
    assert asked == [{"dag_id": "orders", "states": ["queued"]}], "once in about fifty seconds"


async def test_a_stop_is_seen_through_whatever_run_is_queued(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    world.say(progressed_for=timedelta(minutes=1))
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    world.ask_to_stop()
    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", staticmethod(lambda *_, **__: 1))
    trigger = watching(world, monkeypatch, "deferred")
    trigger.until_parked = True

    assert await stays_silent(trigger)


async def test_trouble_of_airflow_does_not_end_the_watching(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_dr_count(*_: Any, **__: Any) -> int:
        raise RuntimeError("the database is away")

    world.run()
    world.crash()
    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", staticmethod(get_dr_count))

    event = await first_event(watching(world, monkeypatch, "deferred"))

    assert event["action"] == "settle"


@pytest.mark.parametrize(
    ("state", "stops"),
    [
        pytest.param("failed", True, id="marked failed by hand"),
        pytest.param("success", True, id="marked successful by hand"),
        pytest.param("deferred", False, id="moved to another triggerer"),
        pytest.param(None, False, id="cleared"),
        pytest.param("scheduled", False, id="cleared and on its way"),
        pytest.param("running", False, id="resumed"),
        pytest.param("skipped", False, id="skipped by a dag run timeout"),
    ],
)
async def test_only_a_mark_made_by_hand_stops_the_stream(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str | None, stops: bool
) -> None:
    world.run()
    trigger = watching(world, monkeypatch, state)

    await trigger.on_kill()

    desired = world.home.desired()
    assert (desired is not None and desired.state is DesiredState.STOPPED) is stops
    assert (world.home.stop_request(1) is not None) is stops


async def test_a_stop_by_hand_grants_the_grace_of_the_dag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(world.operator(stop_grace=timedelta(minutes=7)))

    await watching(world, monkeypatch, "failed").on_kill()

    request = world.home.stop_request(1)
    assert request is not None
    assert request.grace_seconds == 420.0


async def test_a_stop_by_hand_survives_that_airflow_cuts_it_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    begun, answered = threading.Event(), threading.Event()
    trigger = watching(world, monkeypatch, "failed", begun=begun, answered=answered)

    kill = asyncio.create_task(trigger.on_kill())
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    kill.cancel()
    await asyncio.wait([kill])
    assert world.home.stop_request(1) is None
    answered.set()
    async with asyncio.timeout(PATIENCE):
        while world.home.stop_request(1) is None:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(POLL)


def watching(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
    begun: threading.Event | None = None,
    answered: threading.Event | None = None,
) -> StreamTrigger:
    def get_task_states(**asked: Any) -> dict[str, Any]:
        if begun is not None:
            begun.set()
        if answered is not None:
            assert answered.wait(PATIENCE)
        return {asked["run_ids"][0]: {asked["task_ids"][0]: state}}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get_task_states))
    trigger = make_trigger(world)
    trigger._ask_again_at = time.monotonic()  # not at a random moment of its first minute
    trigger.task_instance = SimpleNamespace(
        dag_id="orders", run_id="run-1", task_id="orders", map_index=-1
    )
    return trigger


async def test_a_trigger_exports_its_rules_and_takes_them_back_at_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[str, float, dict[str, str]]] = []
    monkeypatch.setattr(
        stats, "gauge", lambda name, value, *, tags: held.append((name, value, tags))
    )
    world.run()
    stuck = world.query(batch_for_s=6e3, quiet_for_s=6e3, planned_batch=3)
    world.say(progressed_for=timedelta(hours=1), queries=(stuck,))

    event = await first_event(make_trigger(world))

    stalled = [value for name, value, tags in held if tags.get("rule") == "stalled"]
    assert event["action"] == "alert"
    assert (stalled[0], stalled[-1]) == (1, 0)


def test_a_trigger_exports_the_failures_in_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[float] = []

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        if name == "streaming.failures_in_a_row":
            counts.append(value)

    monkeypatch.setattr(stats, "gauge", gauge)
    trigger = world.run()
    world.crash()
    world.wake(trigger)
    watching = make_trigger(world, watched=2)
    world.say(progressed_for=timedelta(minutes=1))
    watching.look_once()
    recovered = world.query(batches=567)
    world.say(beat=2, progressed_for=timedelta(minutes=19), queries=(recovered,))
    watching.look_once()

    assert counts == [1, 0]


async def test_it_leaves_a_row_for_readers_of_the_fleet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.services.fleet_writer.FIRST_AFTER", 0.0)
    monkeypatch.setattr("airflow_streaming.services.fleet_writer.WRITE_EVERY", 0.0)
    world.run()
    world.say(progressed_for=timedelta(minutes=1))
    trigger = make_trigger(world)

    assert await stays_silent(trigger)

    [row] = read_index(world.home.store, ["orders"], datetime.now(UTC)).rows
    looked = view_stream(world.home, lambda *_: Process.unseen("x"), patience=0).status
    assert (row.word, row.level) == (looked.standing.word, looked.standing.level)
    assert (row.epoch, row.deployment, row.restarts_24h) == (1, 1, 0)
    assert row.owner == world.home.owner()
    assert (row.is_live, row.queries, row.failures_in_a_row) == (True, 1, 0)
    assert row.spark == (looked.seen.status.spark_version if looked.seen.status else "")
    assert trigger._index is not None


def test_a_row_of_a_starting_driver_names_the_version_of_its_deployment(world: World) -> None:
    world.run()
    trigger = make_trigger(world)

    trigger.look_once()

    assert trigger._index is not None
    row = json.loads(trigger._index._rows["orders"][1])
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert (row["spark"], row["heartbeat_at"], row["queries"]) == (
        deployment.spark_version,
        None,
        0,
    )


def test_a_row_counts_failures_until_the_driver_has_recovered(world: World) -> None:
    world.run()
    epoch = replace(world.home.epoch(1), number=2)
    world.home.record_restart_decision(make_decision(1, consecutive_failures=3))
    world.home.create_epoch(epoch)
    trigger = make_trigger(world)
    trigger.look_once()
    assert trigger._index is not None
    assert json.loads(trigger._index._rows["orders"][1])["failures_in_a_row"] == 3


async def test_a_trigger_that_wakes_its_task_takes_its_row_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.services.fleet_writer.FIRST_AFTER", 0.0)
    world.run()
    world.crash()
    trigger = make_trigger(world)

    await first_event(trigger)

    assert trigger._index is not None
    assert "orders" not in trigger._index._rows


async def test_a_trigger_that_waits_for_a_stop_leaves_no_row(world: World) -> None:
    world.run()
    world.say(progressed_for=timedelta(minutes=1))

    assert await stays_silent(make_trigger(world, until_parked=True))
    assert read_index(world.home.store, ["orders"], datetime.now(UTC)).rows == ()


def test_nothing_is_written_in_place_of_a_home_that_is_not_mounted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.services.fleet_writer.FIRST_AFTER", 0.0)
    empty = tmp_path / "unmounted"
    empty.mkdir()
    trigger = make_trigger(world, home=str(empty), watched=None)

    trigger.look_once()
    trigger._row_due = 0.0
    trigger.look_once()

    assert list(empty.iterdir()) == []


def test_a_stream_with_a_change_that_only_its_record_shows_gets_no_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    trigger = make_trigger(world)
    trigger.look_once()
    assert trigger._index is not None
    assert "orders" in trigger._index._rows

    # A restore: the situation has no change in progress, and the record is open.
    monkeypatch.setattr(type(trigger._live.base), "unfinished_change", lambda _: object())  # type: ignore[union-attr]
    monkeypatch.setattr("airflow_streaming.supervision.observer.change_in_progress", lambda _: None)
    trigger._row_due = 0.0
    trigger.look_once()

    assert "orders" not in trigger._index._rows


def test_figures_beyond_the_largest_number_stop_no_look(world: World) -> None:
    world.run()
    most = 1.7e308
    rows = [make_progress(input_rows_per_second=most, processed_rows_per_second=most)] * 2
    queries = tuple(world.query(name=f"q{n}", progress=row) for n, row in enumerate(rows))
    world.say(progressed_for=timedelta(minutes=1), queries=queries)
    trigger = make_trigger(world)

    trigger.look_once()

    assert trigger._index is not None
    assert json.loads(trigger._index._rows["orders"][1])["input_rate"] is None


def test_a_record_that_only_the_row_needs_stops_no_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    trigger = make_trigger(world)
    trigger.look_once()
    assert trigger._index is not None
    assert "orders" in trigger._index._rows

    def refuse(_: object) -> None:
        raise AccessDenied("owners is not readable")

    monkeypatch.setattr(type(world.home), "owner", refuse)
    trigger._row_due = 0.0

    assert trigger.look_once() == (None, VerdictState.STARTING)
    assert "orders" not in trigger._index._rows


def test_every_look_writes_rows_that_are_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_streaming.services.fleet_writer.FIRST_AFTER", 0.0)
    world.run()
    trigger = make_trigger(world)
    trigger.look_once()
    assert trigger._index is not None
    trigger._index.drop("orders")
    trigger._index._due = 0.0

    trigger.look_once()

    assert read_index(world.home.store, ["orders"], datetime.now(UTC)).rows == ()
