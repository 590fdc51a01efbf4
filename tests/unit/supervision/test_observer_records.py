"""One look at a stream whose records are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.observer import Observer
from tests.unit.world import World

DAMAGE = {
    "half written": b'{"kind": "status", "vers',
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "of a newer release": b'{"kind": "status", "version": 99}',
}


def damage(world: World, data: bytes) -> None:
    world.say(beat=7)
    status = Path(world.uri) / "orders" / "epochs" / "000001" / "status.json"
    assert status.is_file()
    status.write_bytes(data)


@pytest.mark.parametrize("data", DAMAGE.values(), ids=DAMAGE)
def test_a_driver_that_lives_is_not_judged_without_its_word(world: World, data: bytes) -> None:
    world.run()
    damage(world, data)

    with pytest.raises(RecordError, match=r"status\.json"):
        Observer(world.home, world.launcher).situation()


@pytest.mark.parametrize("data", DAMAGE.values(), ids=DAMAGE)
def test_one_that_is_gone_comes_back_whatever_its_last_word_was(
    world: World, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world.run()
    damage(world, data)
    world.crash()

    step = decide(Observer(world.home, world.launcher).situation())

    assert step.action is Action.SETTLE
    assert "continuing without it" in caplog.text


def test_its_own_word_on_why_it_ended_still_counts(world: World) -> None:
    world.run()
    damage(world, b"{")
    world.last_words(Outcome.FAILED)

    step = decide(Observer(world.home, world.launcher).situation())

    assert (step.action, "The test says failed." in step.reason) == (Action.SETTLE, True)
