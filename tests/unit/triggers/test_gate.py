"""The trigger of a gate: when it fires, what it says meanwhile, and what it never does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string

from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.readiness.subject import Condition, Subject
from airflow_streaming.triggers import gate as gate_trigger
from airflow_streaming.triggers.gate import GateTrigger
from tests.patience import PATIENCE
from tests.unit.sensors.gates import a_batch, beating, commit
from tests.unit.supervision.checkpoints import Checkpoint
from tests.unit.world import World

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
WELL = Condition(healthy_for=timedelta(minutes=1))


def make_trigger(condition: Condition, **named: Any) -> GateTrigger:
    return GateTrigger(
        condition=condition.to_dict(), deferred_at=LONG_AGO, poll_seconds=0.02, **named
    )


def of_world(world: World, condition: Condition, **more: Any) -> GateTrigger:
    return make_trigger(condition, home=world.uri, stream="orders", **more)


async def fire(trigger: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        (event,) = [event.payload async for event in trigger.run()]
    payload: dict[str, Any] = event
    return payload


class Script:
    """A looker whose sights are the test's; the last one stays."""

    def __init__(self, *sights: StreamSnapshot | Exception) -> None:
        self.sights, self.lost_sight, self.looks = list(sights), 0, 0

    def snapshot(self) -> StreamSnapshot:
        self.looks += 1
        found = self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]
        if isinstance(found, Exception):
            raise found
        return found

    def lose_sight(self) -> None:
        self.lost_sight += 1


def at_batch(number: int | None) -> StreamSnapshot:
    return StreamSnapshot(
        who="s3://lake/checkpoint",
        verdict=Verdict(state=VerdictState.HEALTHY, reason="Commits."),
        queries=(QuerySnapshot(name="checkpoint", batch_id=number),),
    )


def scripted(monkeypatch: pytest.MonkeyPatch, *sights: StreamSnapshot | Exception) -> Script:
    script = Script(*sights)
    monkeypatch.setattr(gate_trigger, "open_looker", lambda subject, rules: script)
    return script


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (
            GateTrigger,
            {"stream": "s", "home": "/h", "home_conn_id": "c", "condition": {"batch": 7}},
        ),
        (
            GateTrigger,
            {
                "checkpoint": "s3://lake/c",
                "conn_id": "lake",
                "endpoint": "http://driver:4040",
                "condition": WELL.to_dict(),
                "other": Subject(stream="s", home="/h").to_dict(),
                "rules": {"hang_after": 30.0},
            },
        ),
    ],
    ids=["ours", "foreign"],
)
def test_it_comes_back_from_the_database_as_it_was(kind: type, kwargs: dict[str, Any]) -> None:
    trigger = kind(deferred_at=LONG_AGO, poll_seconds=3.0, **kwargs)

    path, told = trigger.serialize()

    assert import_string(path)(**told).serialize() == (path, told)
    assert kwargs.items() <= told.items()
    assert import_string(path)(**told, from_the_future=1).serialize() == (path, told)


async def test_it_fires_when_the_stream_is_healthy(world: World) -> None:
    world.run()
    with beating(world, a_batch(7)):
        event = await fire(of_world(world, WELL))

    assert event["state"] == "ready"
    assert (event["seen"]["stream"], event["seen"]["batch"]) == ("orders", 7)


async def test_it_fires_when_the_stream_is_stopped_before_it_is_there(world: World) -> None:
    world.run()
    commit(world, a_batch(7))
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))

    assert (await fire(of_world(world, Condition(batch=7))))["state"] == "ready"
    lost = await fire(of_world(world, Condition(batch=8)))

    assert lost["state"] == "lost"
    assert lost["reason"].endswith('its newest is 7. Desired state is "stopped".')


async def test_it_looks_at_a_checkpoint_and_leaves_no_trace(world: World) -> None:
    checkpoint = Checkpoint(world.folder / "checkpoint")
    checkpoint.run(1, 2)
    before = checkpoint.fingerprint()

    event = await fire(make_trigger(Condition(batch=2), checkpoint=str(checkpoint.folder)))

    assert event["seen"]["batch"] == 2
    assert checkpoint.fingerprint() == before


async def test_it_looks_at_both_streams_when_one_catches_up_with_the_other(world: World) -> None:
    other = Checkpoint(world.folder / "other")
    other.run(3)
    mine = Checkpoint(world.folder / "mine")
    mine.run(2)
    trigger = make_trigger(
        Condition(),
        checkpoint=str(mine.folder),
        other=Subject(checkpoint=str(other.folder)).to_dict(),
    )
    firing = asyncio.create_task(fire(trigger))
    async with asyncio.timeout(PATIENCE):
        while not trigger._missing:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
    assert not firing.done()
    assert "is at , the other stream at ." in trigger._missing

    mine.run(3)

    assert (await firing)["reason"].endswith(f"It has caught up with {other.folder}.")


async def test_what_is_missing_is_logged_when_it_changes_and_not_with_every_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sights = (*map(at_batch, (None, 1, 2, 3, 4)), at_batch(9))
    script = scripted(monkeypatch, *sights)
    said: list[str] = []
    trigger = make_trigger(Condition(batch=9), checkpoint="s3://lake/checkpoint")
    monkeypatch.setattr(trigger.log, "info", lambda text, *args: said.append(text % args))

    await fire(trigger)

    assert script.looks == 6
    assert said == [
        "Query 'checkpoint' has not committed batch 9; its newest is none yet.",
        "Query 'checkpoint' has not committed batch 9; its newest is 1.",
    ]


async def test_a_look_that_fails_is_no_answer_and_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = scripted(monkeypatch, at_batch(1), HomeUnavailable("the store is away"), at_batch(9))

    event = await fire(make_trigger(Condition(batch=9), checkpoint="s3://lake/checkpoint"))

    assert event["state"] == "ready"
    assert script.lost_sight == 1


async def test_a_stream_that_cannot_be_looked_at_at_all_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted(monkeypatch, SpecError("The metrics endpoint is not on the list."))

    event = await fire(make_trigger(Condition(batch=9), checkpoint="s3://lake/checkpoint"))

    assert event == {"state": "lost", "reason": "The metrics endpoint is not on the list."}


async def test_an_endpoint_that_nobody_listed_is_never_asked(world: World) -> None:
    trigger = make_trigger(
        WELL, checkpoint=str(world.folder / "c"), endpoint="http://169.254.169.253:80"
    )

    assert (await fire(trigger))["state"] == "lost"


def test_checkpoints_of_one_store_share_their_threads() -> None:
    assert Subject(checkpoint="s3://lake/a/b").lane == Subject(checkpoint="s3://lake/c").lane
    assert Subject(checkpoint="/a").lane == Subject(checkpoint="/b").lane
    assert Subject(stream="s", home="s3://lake/a").lane == "s3://lake/a"
