"""Silence is judged with the process and its CPU time, and what is found says since when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.observation import BUSY_SHARE, CpuIdle, ProcessState
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.supervision.health import closed, judge
from tests.unit.supervision.builders import NOW, a_death, an_epoch, observed, seconds

RULES = HealthRules()


@pytest.mark.parametrize(
    ("process", "cpu", "silent", "state", "severity"),
    [
        (ProcessState.RUNNING, 0.0, 45, "hung", Severity.RESTART),
        (ProcessState.RUNNING, 9.0, 45, "slow", Severity.ALERT),
        (ProcessState.RUNNING, 99.0, 600, "hung", Severity.RESTART),
        (ProcessState.SUSPENDED, 9.0, 30, "hung", Severity.RESTART),
        (ProcessState.UNSEEN, None, 45, "unreachable", Severity.ALERT),
    ],
    ids=["frozen", "busy", "busy for too long", "suspended", "unseen"],
)
def test_only_a_hang_asks_for_a_restart(
    process: ProcessState, cpu: float | None, silent: float, state: str, severity: Severity
) -> None:
    verdict = judge(observed(process, silent_for=seconds(silent), cpu_in_silence=cpu), RULES)

    assert (verdict.state, verdict.severity, verdict.rule) == (state, severity, state)
    assert verdict.since == NOW - seconds(silent)


def test_a_pause_of_twenty_seconds_is_nothing_to_any_process() -> None:
    verdicts = [
        judge(observed(process, silent_for=seconds(29), cpu_in_silence=0.0), RULES)
        for process in ProcessState
        if process is not ProcessState.GONE
    ]

    assert all(verdict.is_well for verdict in verdicts)


def test_an_idle_driver_is_busy_enough_to_be_told_from_a_frozen_one() -> None:
    silent = timedelta(minutes=2)
    # An idle JVM was measured to use one hundredth of a core at least.
    idle = judge(observed(silent_for=silent, cpu_in_silence=0.01 * 120), RULES)
    frozen = judge(observed(silent_for=silent, cpu_in_silence=BUSY_SHARE * 120), RULES)

    assert [idle.state, frozen.state] == ["slow", "hung"]


def test_cpu_time_that_went_backwards_is_no_work() -> None:
    verdict = judge(observed(silent_for=seconds(45), cpu_in_silence=-3.0), RULES)

    assert verdict.state == "hung"


@pytest.mark.parametrize(("flat_for", "state"), [(44, "slow"), (45, "hung")])
def test_a_driver_that_froze_in_the_middle_of_a_batch_does_not_pass_for_busy(
    flat_for: float, state: str
) -> None:
    # It had used eight seconds of CPU time since its last beat.
    seen = observed(silent_for=seconds(50), cpu_in_silence=8.0, flat_for=seconds(flat_for))

    assert judge(seen, RULES).state == state


@pytest.mark.parametrize(
    ("suspended_for", "silent_for", "state"),
    [(30, 30, "hung"), (20, 40, "healthy"), (40, 20, "healthy"), (None, 30, "hung")],
    ids=["long enough", "a short stop of a late driver", "it has just beaten", "not watched"],
)
def test_a_stop_has_to_last_as_long_as_the_silence(
    suspended_for: float | None, silent_for: float, state: str
) -> None:
    seen = observed(
        ProcessState.SUSPENDED,
        silent_for=seconds(silent_for),
        suspended_for=None if suspended_for is None else seconds(suspended_for),
    )

    assert judge(seen, RULES).state == state


@pytest.mark.parametrize(
    ("used", "flat_for"),
    [
        ((0.0, 0.0, 0.0), 15),
        ((0.02, 0.02, 0.02), 15),
        ((2.0, 0.0, 0.0), 10),
        ((0.0, 0.0, 0.05), 0),
        ((0.0, -4.0, 0.0), 5),
    ],
    ids=[
        "frozen",
        "next to nothing",
        "busy, then frozen",
        "idle as a JVM is",
        "a member of the tree that ended begins it anew",
    ],
)
def test_stillness_begins_anew_with_every_use_of_cpu_time(
    used: tuple[float, ...], flat_for: float
) -> None:
    cpu, still = 100.0, CpuIdle.begin(0.0, 100.0)
    for look, more in enumerate(used, start=1):
        cpu += more
        still = still.look(5.0 * look, cpu)

    assert still.flat_for == flat_for


@pytest.mark.parametrize("said", ["It broke", "It broke.", "It broke!", "It broke…"])
def test_a_sentence_from_outside_ends_once(said: str) -> None:
    assert closed(said) in {"It broke.", "It broke!", "It broke…"}


def test_a_fence_is_not_told_as_a_driver_that_is_gone() -> None:
    fence = an_epoch(cause=LaunchCause.FENCE, reason="Change 3 hands the output over.")

    verdict = judge(observed(ProcessState.GONE, epoch=fence, launch=None, death=a_death()), RULES)

    assert verdict.state == "stopped"
    assert verdict.reason == (
        "Epoch 17 is a fence, for which no driver is started: Change 3 hands the output over."
    )
