"""A driver that hangs: killed where it can be, left alone where it cannot be seen."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.core.epoch import Host, Outcome
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.spec import HealthRules
from tests.integration.stream.conftest import RealStream, first_event, until

TEN_SECONDS = timedelta(seconds=10)
IMPATIENT = HealthRules(hang_after=TEN_SECONDS, suspended_after=TEN_SECONDS)


async def test_a_suspended_driver_is_found_killed_proved_dead_and_restarted(
    real: RealStream,
) -> None:
    operator = real.operator(health=IMPATIENT)
    trigger = real.run(operator)
    until(lambda: real.batches(1) >= 3, "three batches of the first driver")

    real.signal(1, signal.SIGSTOP)
    event = await first_event(trigger)
    assert event["action"] == "kill"
    assert "suspended" in event["reason"]
    real.wake(trigger, operator, **event)

    assert real.is_gone(1)
    death = real.home.death(1)
    assert death is not None
    assert not death.override
    until(lambda: real.batches(2) >= 3, "three batches of the second driver")
    numbers = real.numbers()
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


async def test_a_driver_nobody_can_see_blocks_until_a_person_vouches_and_is_fenced_when_it_thaws(
    real: RealStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = real.operator(health=IMPATIENT)
    trigger = real.run(operator)
    until(lambda: real.batches(1) >= 3, "three batches of the first driver")
    for module in ("hooks.stream", "triggers.home", "launch.local"):
        monkeypatch.setattr(
            f"airflow_streaming.{module}.LocalLauncher",
            lambda: LocalLauncher(host=Host(name="elsewhere")),
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
    until(lambda: real.batches(2) >= 3, "three batches of the second driver")

    before, first = real.commits(), real.first_batch(2)
    real.signal(1, signal.SIGCONT)
    until(lambda: real.is_gone(1), "the end of the thawed driver", seconds=30)

    own_exit = real.home.exit(1)
    assert own_exit is None or own_exit.outcome is Outcome.FENCED
    until(lambda: real.batches(2) >= 6, "the second driver going on")
    after = real.commits()
    assert {batch: after[batch] for batch in before if batch in after} == before
    until(lambda: real.first_batch(2) == first, "every batch since by the second driver", 10)
    numbers = real.numbers()
    assert numbers == list(range(len(numbers))), "no row lost or doubled"
