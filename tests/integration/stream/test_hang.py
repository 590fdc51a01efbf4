"""A driver that hangs: killed where it can be, left alone where it cannot be seen."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.records.epoch import Host, Outcome
from tests.integration.stream.conftest import RealStream, first_event

TEN_SECONDS = timedelta(seconds=10)
IMPATIENT = HealthRules(hang_after=TEN_SECONDS, suspended_after=TEN_SECONDS)


async def test_a_suspended_driver_is_found_killed_proved_dead_and_restarted(
    real: RealStream,
) -> None:
    operator = real.operator(health=IMPATIENT)
    trigger = real.run(operator)
    real.until(lambda: real.batches(1) >= 3, "three batches of the first driver")

    real.signal(1, signal.SIGSTOP)
    event = await first_event(trigger)
    assert event["action"] == "kill"
    assert "suspended" in event["reason"]
    real.wake(trigger, operator, **event)

    assert real.is_gone(1)
    death = real.home.death(1)
    assert death is not None
    assert not death.override
    real.until(lambda: real.batches(2) >= 3, "three batches of the second driver")
    numbers = real.numbers()
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


async def test_a_driver_nobody_can_see_blocks_until_a_person_vouches_and_is_fenced_when_it_thaws(
    real: RealStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = real.operator(health=IMPATIENT)
    trigger = real.run(operator)
    real.until(lambda: real.batches(1) >= 3, "three batches of the first driver")
    monkeypatch.setattr(
        "airflow_streaming.launch.local.LocalLauncher",
        lambda **_: LocalLauncher(host=Host(name="elsewhere")),
    )

    real.signal(1, signal.SIGSTOP)
    event = await first_event(trigger)
    assert event["action"] == "alert", "people are told first"
    trigger = real.wake(trigger, operator, **event)
    assert trigger.blocked
    assert real.epochs() == 1, "nothing new starts"

    told = ["declare-dead", "orders", "--epoch", "1", "--by", "ann", "--reason", "host is off"]
    assert main(["--home", real.uri, *told]) == 0
    real.wake(trigger, operator, **(await first_event(trigger)))
    real.until(lambda: real.batches(2) >= 3, "three batches of the second driver")

    before, first = real.commits(), real.first_batch(2)
    real.signal(1, signal.SIGCONT)
    real.until(lambda: real.is_gone(1), "the end of the thawed driver")

    own_exit = real.home.exit(1)
    assert own_exit is None or own_exit.outcome is Outcome.FENCED
    real.until(lambda: real.batches(2) >= 6, "the second driver going on")
    after = real.commits()
    assert {batch: after[batch] for batch in before if batch in after} == before
    real.until(lambda: real.first_batch(2) == first, "every batch since by the second driver")
    numbers = real.numbers()
    assert numbers == list(range(len(numbers))), "no row lost or doubled"
