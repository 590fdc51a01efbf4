"""A failed stream comes back soon, less soon each time, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.durations import CLOCKS_DIFFER
from airflow_streaming.model.observation import Process, ProcessState, Verdict, VerdictState
from airflow_streaming.model.records.restart_decision import Failure, RestartAction, RestartDecision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.restart import decide_restart, failure_of, failures_in_a_row
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_give_up,
    a_restart,
    minutes,
    observed,
    seconds,
)
from tests.unit.supervision.restart_model import disagreement_of_restarts

POLICY = RestartPolicy()
UNLIMITED = RestartPolicy(budgets=(), application_budgets=())
HEALTHY = {"progressed_for": minutes(10), "batches": 20}


def a_failure(**changes: Any) -> Failure:
    fields: dict[str, Any] = {"epoch": EPOCH, "reason": "Killed.", "kind": FailureKind.KILLED}
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


@pytest.mark.parametrize(
    ("between", "count"),
    [
        ([], 2),
        ([{"progressed_for": minutes(9), "batches": 30}], 2),
        ([{"progressed_for": minutes(30), "batches": 19}], 2),
        ([HEALTHY], 0),
        ([HEALTHY, {}], 0),
    ],
)
def test_one_driver_with_healthy_progress_ends_a_row(
    between: list[dict[str, Any]], count: int
) -> None:
    decisions, progress = restarts_ago(minutes(2), minutes(1)), [a_failure(**p) for p in between]

    assert failures_in_a_row(decisions, progress, POLICY) == count
    assert failures_in_a_row([], progress, POLICY) == 0


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
        (Budget(restarts=0, window=seconds(90)), "The budget of 0 restarts in 90 s for "),
        (Budget(restarts=0, window=minutes(10)), "The budget of 0 restarts in 10 min for "),
        (Budget(restarts=0, window=minutes(60)), "The budget of 0 restarts in 1 h for "),
        (Budget(restarts=0, window=timedelta.max), "The budget of 0 restarts in"),
    ],
)
def test_a_spent_budget_is_named(budget: Budget, words: str) -> None:
    decision = decided(policy=RestartPolicy(budgets=(budget,)))

    assert decision.action is RestartAction.GIVE_UP
    assert decision.next_attempt_at is None
    assert decision.reason.startswith(f"Killed. {words}")


INFRASTRUCTURE = [FailureKind.TRANSIENT, FailureKind.KILLED, FailureKind.OUT_OF_MEMORY]
APPLICATION = [FailureKind.USER_CODE, FailureKind.UNKNOWN]
FINAL = [
    FailureKind.CHECKPOINT_DAMAGED,
    FailureKind.INCOMPATIBLE,
    FailureKind.POISON_BATCH,
    FailureKind.SINK_AHEAD,
    FailureKind.SOURCE_NOT_REPLAYABLE,
    FailureKind.SECOND_WRITER,
    FailureKind.CONFIGURATION,
]


def test_each_final_kind_of_failure_is_in_the_table() -> None:
    assert set(FINAL) == {kind for kind in FailureKind if kind.needs_a_person}


@pytest.mark.parametrize("kind", FINAL)
def test_what_a_restart_cannot_help_is_never_restarted(kind: FailureKind) -> None:
    decision = decided(a_failure(kind=kind, **HEALTHY), policy=UNLIMITED)

    assert decision.action is RestartAction.GIVE_UP
    assert decision.failure_kind is kind
    assert decision.remedy == kind.remedy


@pytest.mark.parametrize("kind", [*INFRASTRUCTURE, FailureKind.UNHEALTHY])
@pytest.mark.parametrize("other", APPLICATION)
def test_the_two_classes_have_budgets_of_their_own(kind: FailureKind, other: FailureKind) -> None:
    policy = RestartPolicy(
        budgets=(Budget(restarts=1, window=minutes(10)),),
        application_budgets=(Budget(restarts=2, window=minutes(10)),),
    )
    spent = [a_restart(epoch=1, decided_at=NOW - minutes(1), failure_kind=kind)]

    assert (
        decided(a_failure(kind=kind), earlier=spent, policy=policy).action is RestartAction.GIVE_UP
    )
    assert (
        decided(a_failure(kind=other), earlier=spent, policy=policy).action is RestartAction.RESTART
    )


def outage(*minutes_ago: float, first: int = 1, **changes: Any) -> list[RestartDecision]:
    """Return the decisions about drivers that found no broker."""
    kind = {"failure_kind": FailureKind.UNREACHABLE} | changes
    return [
        a_restart(
            epoch=n,
            decided_at=NOW - minutes(ago),
            consecutive_failures=first + n - 1,
            **kind,
        )
        for n, ago in enumerate(minutes_ago, 1)
    ]


TRIES = range(200, 0, -2)


@pytest.mark.parametrize(
    ("earlier", "policy", "words"),
    [
        pytest.param(outage(*TRIES), RestartPolicy(), None, id="tries have no budget"),
        pytest.param(outage(360, 5), RestartPolicy(), "for 6 h, longer", id="the time is over"),
        pytest.param(outage(359.9, 5), RestartPolicy(), None, id="not yet"),
        pytest.param(outage(900, 5), RestartPolicy(max_outage=None), None, id="without a limit"),
        pytest.param(
            [*outage(900, 500), *outage(100, 5)], RestartPolicy(), None, id="a later outage"
        ),
        pytest.param(
            [
                *outage(900, 500),
                a_restart(epoch=3, decided_at=NOW - minutes(60), consecutive_failures=3),
                *outage(30, first=4),
            ],
            RestartPolicy(),
            None,
            id="another failure between",
        ),
    ],
)
def test_an_outage_is_waited_out_by_time(
    earlier: list[RestartDecision], policy: RestartPolicy, words: str | None
) -> None:
    decision = decided(a_failure(kind=FailureKind.UNREACHABLE), earlier=earlier, policy=policy)

    if words is None:
        assert decision.action is RestartAction.RESTART
    else:
        assert decision.action is RestartAction.GIVE_UP
        assert words in decision.reason


def test_a_first_failure_after_healthy_progress_begins_the_outage_anew() -> None:
    failure = a_failure(kind=FailureKind.UNREACHABLE, **HEALTHY)

    assert decided(failure, earlier=outage(900, 500)).action is RestartAction.RESTART


def test_the_drivers_own_remedy_is_the_decisions() -> None:
    lost = a_failure(kind=FailureKind.INCOMPATIBLE, remedy="Give the query a new checkpoint.")

    assert decided(lost).remedy == "Give the query a new checkpoint."


POISON = {
    "kind": FailureKind.USER_CODE,
    "signature": "5ad1",
    "query": "revenue",
    "batch_id": 17,
    "offsets": ('{"logOffset":17}',),
}


def failed_like(**changes: Any) -> list[RestartDecision]:
    told = {name: (POISON | changes)[name] for name in ("signature", "query", "batch_id")}
    told["failure_kind"] = (POISON | changes)["kind"]
    return [a_restart(epoch=n, decided_at=NOW - minutes(2), **told) for n in (1, 2)]


def test_a_batch_that_fails_the_same_way_again_and_again_is_poison() -> None:
    decision = decided(a_failure(reason="KeyError: 'price'.", **POISON), earlier=failed_like())

    assert decision.action is RestartAction.GIVE_UP
    assert decision.failure_kind is FailureKind.POISON_BATCH
    assert decision.reason == (
        "KeyError: 'price'. Batch 17 of query 'revenue' has failed 3 times in the same way. It "
        'reads {"logOffset":17}.'
    )
    assert "set the offending rows aside" in decision.remedy


def test_a_poison_batch_names_the_rows_that_the_driver_has_found() -> None:
    poison = a_failure(rows=("line 3 of file:/in/7.json", "and more"), **POISON)

    decision = decided(poison, earlier=failed_like())

    assert decision.reason.endswith(
        'It reads {"logOffset":17}. Rows with that value: line 3 of file:/in/7.json, and more.'
    )


def test_a_poison_batch_names_the_file_and_the_value_that_sparks_error_names() -> None:
    text = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/7.json.  SQLSTATE: KD001\n"
        'Caused by: [CAST_INVALID_INPUT] The value \'x7\' of the type "STRING" cannot be cast to "INT"'
    )

    decision = decided(a_failure(reason=text, **POISON), earlier=failed_like())

    assert decision.reason.endswith(
        "Spark names file file:///in/7.json. Spark names value 'x7', a STRING that is no INT."
    )


@pytest.mark.parametrize(
    "earlier",
    [
        failed_like()[:1],
        failed_like(batch_id=16),
        failed_like(signature="other"),
        failed_like(query="other"),
    ],
    ids=["only the second time", "another batch", "another failure", "another query"],
)
def test_not_every_repetition_is_poison(earlier: list[RestartDecision]) -> None:
    assert decided(a_failure(**POISON), earlier=earlier).action is RestartAction.RESTART


def test_a_machine_that_dies_between_two_failures_does_not_heal_a_poison_batch() -> None:
    first, second = failed_like()
    killed = a_restart(epoch=2, decided_at=NOW - minutes(2), failure_kind=FailureKind.KILLED)

    decision = decided(a_failure(**POISON), earlier=[first, killed, second])

    assert decision.failure_kind is FailureKind.POISON_BATCH


@pytest.mark.parametrize("kind", INFRASTRUCTURE)
def test_storage_that_is_away_poisons_no_batch(kind: FailureKind) -> None:
    decision = decided(a_failure(**POISON | {"kind": kind}), earlier=failed_like(kind=kind))

    assert decision.failure_kind is kind
    assert decision.action is RestartAction.RESTART


def test_a_decision_shows_that_it_backs_off() -> None:
    assert not decided().backing_off
    assert decided(earlier=restarts_ago(minutes(1))).backing_off


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
    assert decision.reason == "Killed. It was the half-open trial, so the circuit stays open."


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
        (a_restart(due_in=minutes(6), decided_at=NOW + CLOCKS_DIFFER - seconds(1)), True),
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


def test_decisions_are_the_only_memory_that_is_needed() -> None:
    wrong = [found for seed in range(500) if (found := disagreement_of_restarts(seed))]

    assert not wrong


@pytest.mark.parametrize(
    ("left", "wait"),
    [
        pytest.param(None, seconds(300), id="no source tells"),
        pytest.param(timedelta(days=7), seconds(300), id="far away"),
        pytest.param(timedelta(hours=2), seconds(72), id="two hours"),
        pytest.param(minutes(1), seconds(0.6), id="a minute"),
        pytest.param(-minutes(1), seconds(300), id="lost already"),
    ],
)
def test_a_stream_that_is_about_to_lose_data_waits_only_a_share_of_the_time_left(
    left: timedelta | None, wait: timedelta
) -> None:
    failure = a_failure(loss_at=None if left is None else NOW + left)
    ages = [minutes(60 * n) for n in range(9, 0, -1)]
    decision = decided(failure, earlier=restarts_ago(*ages), policy=UNLIMITED)
    assert decision.next_attempt_at == NOW + wait


@pytest.mark.parametrize(
    ("left", "words"),
    [
        pytest.param(timedelta(hours=2), "has not read in 2 h", id="soon"),
        pytest.param(-minutes(1), "has not read by now", id="over"),
        pytest.param(timedelta(days=7), "fail the same way", id="far away"),
        pytest.param(None, "fail the same way", id="unknown"),
    ],
)
def test_a_stream_that_is_given_up_says_what_it_is_about_to_lose(
    left: timedelta | None, words: str
) -> None:
    loss = None if left is None else NOW + left
    decision = decided(a_failure(kind=FailureKind.CONFIGURATION, loss_at=loss))
    assert decision.action is RestartAction.GIVE_UP
    assert decision.reason.removesuffix(".").endswith(words)


@pytest.mark.parametrize(
    ("detail", "kind"),
    [
        ("pod orders-3 is Failed (OOMKilled)", FailureKind.OUT_OF_MEMORY),
        (
            "Container killed by YARN for exceeding physical memory limits",
            FailureKind.OUT_OF_MEMORY,
        ),
        ("pod orders-3 is Failed (Error)", FailureKind.KILLED),
        ("no process has the token", FailureKind.KILLED),
    ],
)
def test_a_driver_whose_container_ended_for_its_memory_has_that_kind(
    detail: str, kind: FailureKind
) -> None:
    dead = replace(observed(ProcessState.GONE), process=Process.gone(detail))
    verdict = Verdict(state=VerdictState.DEAD, reason="It is gone.")
    assert failure_of(dead, verdict).kind is kind
