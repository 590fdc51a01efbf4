"""A failed stream comes back soon, less soon each time, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.core.restart import (
    CLOCK_ERROR,
    Budget,
    Failure,
    RestartAction,
    RestartDecision,
    RestartPolicy,
    decide_restart,
)
from tests.unit.core.builders import EPOCH, NOW, a_give_up, a_restart, minutes, seconds

POLICY = RestartPolicy()
UNLIMITED = RestartPolicy(budgets=())
HEALTHY = {"progressed_for": minutes(10), "batches": 20}


def a_failure(**changes: Any) -> Failure:
    fields: dict[str, Any] = {"epoch": EPOCH, "reason": "Killed."}
    return Failure(**fields | changes)


def decided(
    failure: Failure | None = None,
    *,
    earlier: Sequence[RestartDecision] = (),
    policy: RestartPolicy = POLICY,
    chance: float = 1.0,
) -> RestartDecision:
    return decide_restart(
        failure or a_failure(), earlier=earlier, policy=policy, now=NOW, chance=chance
    )


def restarts_ago(*ages: timedelta) -> list[RestartDecision]:
    return [
        a_restart(epoch=n, decided_at=NOW - age, next_attempt_at=NOW, consecutive_failures=n)
        for n, age in enumerate(ages, start=1)
    ]


@pytest.mark.parametrize(
    ("failures", "bound"),
    [
        (0, seconds(0)),
        (1, seconds(0)),
        (2, seconds(5)),
        (3, seconds(10)),
        (4, seconds(20)),
        (7, seconds(160)),
        (8, minutes(5)),
        (9, minutes(5)),
        (10**9, minutes(5)),
    ],
)
def test_the_bound_doubles_up_to_its_cap(failures: int, bound: timedelta) -> None:
    assert POLICY.bound(failures) == bound


@pytest.mark.parametrize(
    ("first", "longest", "bound"),
    [
        (timedelta(0), timedelta(0), timedelta(0)),
        (timedelta(0), minutes(5), timedelta(0)),
        (minutes(5), minutes(5), minutes(5)),
        (timedelta(days=2), timedelta.max, timedelta.max),
        (timedelta.max, timedelta.max, timedelta.max),
    ],
    ids=["none", "no first delay", "first is last", "very long", "the longest there is"],
)
def test_no_policy_is_too_extreme_for_the_bound(
    first: timedelta, longest: timedelta, bound: timedelta
) -> None:
    policy = RestartPolicy(first_delay=first, max_delay=longest)

    assert policy.bound(200) == bound


@pytest.mark.parametrize(
    "fields",
    [
        {"first_delay": seconds(-1)},
        {"first_delay": minutes(6)},
        {"half_open_after": timedelta(0)},
        {"half_open_after": seconds(-1)},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"first_delay <= max_delay|half_open_after must be"):
        RestartPolicy(**fields)


@pytest.mark.parametrize(("restarts", "window"), [(-1, minutes(1)), (1, timedelta(0))])
def test_a_budget_that_makes_no_sense_is_refused(restarts: int, window: timedelta) -> None:
    with pytest.raises(ValueError, match="restarts >= 0 and a positive window"):
        Budget(restarts=restarts, window=window)


def test_the_first_restart_is_immediate() -> None:
    decision = decided(chance=1.0)

    assert decision.action is RestartAction.RESTART
    assert decision.next_attempt_at == decision.decided_at == NOW
    assert decision.epoch == EPOCH
    assert decision.consecutive_failures == 1
    assert decision.reason == "Killed."


@pytest.mark.parametrize(
    ("chance", "delay"), [(0.0, seconds(0)), (0.5, seconds(2.5)), (1.0, seconds(5))]
)
def test_a_wait_is_drawn_from_the_whole_range(chance: float, delay: timedelta) -> None:
    decision = decided(earlier=restarts_ago(minutes(1)), chance=chance)

    assert decision.consecutive_failures == 2
    assert decision.next_attempt_at == NOW + delay


@pytest.mark.parametrize(
    ("progress", "failures"),
    [
        ({"progressed_for": minutes(10), "batches": 20}, 1),
        ({"progressed_for": timedelta(days=9), "batches": 10_000}, 1),
        ({"progressed_for": minutes(10) - seconds(1), "batches": 10_000}, 4),
        ({"progressed_for": timedelta(days=9), "batches": 19}, 4),
        ({"progressed_for": timedelta(days=9), "batches": 0}, 4),
        ({}, 4),
    ],
    ids=[
        "long enough and batches enough",
        "much more",
        "not long enough",
        "too few batches",
        "up for days without a batch",
        "no progress",
    ],
)
def test_only_healthy_progress_clears_the_count(progress: dict[str, Any], failures: int) -> None:
    earlier = restarts_ago(minutes(30), minutes(20), minutes(15))

    decision = decided(a_failure(**progress), earlier=earlier, policy=UNLIMITED)

    assert decision.consecutive_failures == failures


FIVE_IN_TEN_MINUTES = [minutes(9.9), minutes(8), minutes(6), minutes(4), minutes(2)]


@pytest.mark.parametrize(
    ("ages", "action"),
    [
        (FIVE_IN_TEN_MINUTES, RestartAction.GIVE_UP),
        (FIVE_IN_TEN_MINUTES[1:], RestartAction.RESTART),
        ([minutes(10), *FIVE_IN_TEN_MINUTES[1:]], RestartAction.RESTART),
        ([minutes(30 + 60 * n) for n in range(20)][::-1], RestartAction.GIVE_UP),
        ([minutes(30 + 60 * n) for n in range(19)][::-1], RestartAction.RESTART),
        ([minutes(-3)] * 5, RestartAction.GIVE_UP),
    ],
    ids=[
        "the short budget is spent",
        "one is left of it",
        "the oldest has just left the window",
        "the long budget is spent",
        "one is left of the long one",
        "restarts by a host whose clock is ahead count",
    ],
)
def test_budgets_slide(ages: list[timedelta], action: RestartAction) -> None:
    assert decided(earlier=restarts_ago(*ages)).action is action


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(restarts=0, window=seconds(90)), "The budget of 0 restarts in 90 s is spent."),
        (Budget(restarts=0, window=minutes(10)), "The budget of 0 restarts in 10 min is spent."),
        (Budget(restarts=0, window=minutes(60)), "The budget of 0 restarts in 1 h is spent."),
        (Budget(restarts=0, window=timedelta.max), "The budget of 0 restarts in"),
    ],
)
def test_a_spent_budget_is_named(budget: Budget, words: str) -> None:
    decision = decided(policy=RestartPolicy(budgets=(budget,)))

    assert decision.action is RestartAction.GIVE_UP
    assert decision.next_attempt_at is None
    assert decision.reason.startswith(f"Killed. {words}")


def test_giving_up_is_not_a_restart_and_costs_no_budget() -> None:
    earlier = [a_give_up(epoch=n) for n in range(1, 6)]

    assert decided(earlier=earlier).action is RestartAction.RESTART


def test_a_failure_that_would_repeat_itself_is_not_retried() -> None:
    decision = decided(a_failure(retryable=False, **HEALTHY))

    assert decision.action is RestartAction.GIVE_UP
    assert decision.reason == "Killed. A restart would fail the same way."


def test_the_trial_of_a_half_open_circuit_has_one_try() -> None:
    decision = decided(a_failure(trial=True), policy=UNLIMITED)

    assert decision.action is RestartAction.GIVE_UP
    assert decision.reason == "Killed. It was the one try of a half-open circuit."


def test_a_trial_that_made_healthy_progress_has_earned_its_restarts_back() -> None:
    decision = decided(a_failure(trial=True, **HEALTHY), earlier=[a_give_up()])

    assert decision.action is RestartAction.RESTART
    assert decision.consecutive_failures == 1
    assert decision.next_attempt_at == NOW


@pytest.mark.parametrize(
    ("decision", "waits"),
    [
        (a_restart(due_in=seconds(1)), True),
        (a_restart(due_in=timedelta(0)), False),
        (a_restart(due_in=seconds(-1)), False),
        (a_restart(due_in=timedelta(days=3), decided_at=NOW - minutes(1)), True),
        (a_restart(due_in=minutes(6), decided_at=NOW + CLOCK_ERROR - seconds(1)), True),
        (a_restart(due_in=timedelta(days=9_999), decided_at=NOW + timedelta(days=9_998)), False),
        (a_give_up(), False),
    ],
    ids=[
        "not yet due",
        "due now",
        "overdue",
        "a long wait",
        "decided by a clock a little ahead",
        "decided by a clock that is years ahead",
        "given up",
    ],
)
def test_a_restart_waits_until_it_is_due(decision: RestartDecision, waits: bool) -> None:
    assert decision.is_waiting(NOW) is waits


def test_a_decision_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="giving up has none"):
        a_give_up(next_attempt_at=NOW)


# What follows is the policy a second time, written as plainly as possible: a count and a list of
# times kept on the side. The real one keeps nothing but its own decisions.

policies = st.builds(
    RestartPolicy,
    first_delay=st.sampled_from([timedelta(0), seconds(5)]),
    max_delay=st.sampled_from([seconds(5), minutes(5)]),
    budgets=st.lists(
        st.builds(
            Budget,
            restarts=st.integers(0, 4),
            window=st.sampled_from([minutes(1), minutes(10), timedelta(days=1)]),
        ),
        max_size=2,
    ).map(tuple),
)
failures = st.tuples(
    st.timedeltas(timedelta(0), minutes(20)),  # since the failure before
    st.booleans(),  # healthy progress before it
    st.floats(0, 1),  # chance
)


@settings(max_examples=40, deadline=None, database=None)
@given(policy=policies, history=st.lists(failures, max_size=12))
def test_decisions_are_the_only_memory_that_is_needed(
    policy: RestartPolicy, history: list[tuple[timedelta, bool, float]]
) -> None:
    earlier: list[RestartDecision] = []
    restarted_at: list[datetime] = []
    now, in_a_row = NOW, 0
    for epoch, (pause, healthy, chance) in enumerate(history, start=1):
        now += pause
        in_a_row = 1 if healthy else in_a_row + 1
        spent = any(
            len([at for at in restarted_at if at > now - budget.window]) >= budget.restarts
            for budget in policy.budgets
        )

        decision = decide_restart(
            a_failure(epoch=epoch, **(HEALTHY if healthy else {})),
            # As they come back from the home.
            earlier=[RestartDecision.from_bytes(made.to_bytes()) for made in earlier],
            policy=policy,
            now=now,
            chance=chance,
        )

        assert (decision.action is RestartAction.GIVE_UP) is spent
        assert decision.consecutive_failures == in_a_row
        if decision.next_attempt_at is not None:
            restarted_at.append(now)
            assert timedelta(0) <= decision.next_attempt_at - now <= policy.bound(in_a_row)
        earlier.append(decision)
        for budget in policy.budgets:
            in_window = [at for at in restarted_at if at > now - budget.window]
            assert len(in_window) <= budget.restarts
