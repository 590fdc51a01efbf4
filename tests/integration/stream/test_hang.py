"""A driver that hangs: killed where it can be, left alone where it cannot be seen."""

# ruff: noqa: T201 - it prints what it has measured

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.lease import SHORTEST_LEASE
from airflow_streaming.model.records.epoch import Host, Outcome
from tests.integration.stream.conftest import UNBOUNDED, KeptStream, RealStream, first_event

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


@pytest.mark.nightly("Drivers are frozen for a minute.")
async def test_a_driver_nobody_can_see_blocks_until_a_person_vouches_and_is_fenced_when_it_thaws(
    real: RealStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = real.operator(health=IMPATIENT)
    trigger = real.run(operator)
    beat = lose_host(real, monkeypatch)

    event = await first_event(trigger)
    assert event["action"] == "alert", "people are told first"
    print(f"Told {seconds_since(beat):.1f} s after the last heartbeat.")
    trigger = real.wake(trigger, operator, **event)
    assert trigger.blocked
    assert real.epochs() == 1, "nothing new starts"

    vouched = datetime.now(UTC)
    told = ["declare-dead", "orders", "--epoch", "1", "--by", "ann", "--reason", "host is off"]
    assert main(["--home", real.uri, *told]) == 0
    real.wake(trigger, operator, **(await first_event(trigger)))
    real.until(lambda: real.batches(2) >= 1, "a batch of the second driver")
    print(f"First batch elsewhere {seconds_since(vouched):.1f} s after the operator's word.")

    assert resumed_commits_nothing(real)


@pytest.mark.nightly("It waits for a lease and its margin.")
def test_a_stream_whose_host_is_lost_goes_on_elsewhere_when_its_lease_is_over(
    real: RealStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptStream(
        real, health=IMPATIENT, restart=UNBOUNDED, on_lost_host="takeover", lease=SHORTEST_LEASE
    )
    beat = lose_host(real, monkeypatch)

    kept.keep_until(lambda: real.epochs() == 2, "the takeover")
    print(f"Taken over {seconds_since(beat):.1f} s after the last heartbeat.")
    real.until(lambda: real.batches(2) >= 1, "a batch of the second driver")
    print(f"First batch elsewhere {seconds_since(beat):.1f} s after the last heartbeat.")

    death = real.home.death(1)
    assert death is not None
    assert not death.override, "no operator was asked"
    assert resumed_commits_nothing(real)


def lose_host(real: RealStream, patch: pytest.MonkeyPatch) -> datetime:
    """
    Suspend the first driver with all its processes, out of sight of its watchers.

    Return when its last heartbeat was written.
    """
    real.until(lambda: real.batches(1) >= 3, "three batches of the first driver")
    patch.setattr(
        "airflow_streaming.launch.local.LocalLauncher",
        lambda **_: LocalLauncher(host=Host(name="elsewhere")),
    )
    real.signal(1, signal.SIGSTOP)
    beat = real.home.heartbeat(1)
    assert beat is not None
    return beat


def seconds_since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


def resumed_commits_nothing(real: RealStream) -> bool:
    """Let the first driver run on beside the second one, and tell whether it has only ended."""
    real.until(lambda: real.batches(2) >= 3, "three batches of the second driver")
    before, first = real.commits(), real.first_batch(2)
    resumed = datetime.now(UTC)
    real.signal(1, signal.SIGCONT)
    real.until(lambda: real.is_gone(1), "the end of the resumed driver")
    print(f"The old driver ended {seconds_since(resumed):.1f} s after it was resumed.")

    own_exit = real.home.exit(1)
    assert own_exit is None or own_exit.outcome in (Outcome.FENCED, Outcome.FAILED)
    real.until(lambda: real.batches(2) >= 6, "the second driver going on")
    after = real.commits()
    assert {batch: after[batch] for batch in before if batch in after} == before
    real.until(lambda: real.first_batch(2) == first, "every batch since by the second driver")
    numbers = real.numbers()
    print(f"{len(numbers)} rows")
    return numbers == list(range(len(numbers)))
