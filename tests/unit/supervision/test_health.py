"""Every observation has one verdict, and only proof makes it "dead"."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.model.health_rules import HealthRule, HealthRules, Severity
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.observation import (
    ENDED,
    LAST_WORD_GRACE,
    WELL,
    Observation,
    Process,
    ProcessState,
    VerdictState,
)
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.status import DriverState
from airflow_streaming.supervision.health import judge
from tests.unit.supervision.agreement import disagreement_of_judges
from tests.unit.supervision.builders import (
    BEGUN,
    NOW,
    a_batch,
    a_death,
    a_launch,
    a_query,
    a_status,
    an_epoch,
    an_exit,
    minutes,
    observed,
    seconds,
)
from tests.unit.supervision.health_cases import (
    CASES,
    GONE,
    HANGING,
    RULES,
    RUNNING,
    STALLED,
    SUSPENDED,
    UNHEARD,
    UNSEEN,
    WAITING,
    a_finding,
    busy,
)


@pytest.mark.parametrize(("seen", "verdict"), CASES.values(), ids=CASES.keys())
def test_every_observation_has_the_verdict_of_the_table(seen: Observation, verdict: str) -> None:
    assert judge(seen, RULES).state == verdict


def test_the_table_reaches_every_verdict() -> None:
    assert {verdict for _, verdict in CASES.values()} == {state.value for state in VerdictState}


def test_every_verdict_is_a_sentence_that_names_the_epoch() -> None:
    reasons = [judge(seen, RULES).reason for seen, _ in CASES.values()]

    assert all(reason.endswith((".", "findings)")) for reason in reasons)
    assert all("17" in reason or "query" in reason.lower() for reason in reasons)


@pytest.mark.parametrize("said", ["it broke", "it broke.", "it broke!"])
def test_words_from_outside_are_closed_with_one_full_stop(said: str) -> None:
    reasons = [
        judge(observed(GONE, exit=an_exit(reason=said)), RULES).reason,
        judge(observed(GONE, death=a_death(evidence=said)), RULES).reason,
        judge(observed(exit=an_exit(reason=said)), RULES).reason,
    ]

    assert all(reason.endswith((": it broke.", ": it broke!")) for reason in reasons)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (observed(GONE), "pid 4711 is gone"),
        (observed(GONE, death=a_death()), "the host was scrapped."),
        (observed(GONE, exit=an_exit()), "ended: the sink is full."),
        (
            observed(UNSEEN, **HANGING),
            "silent for 45 s and cannot be observed: pid 4711 is unseen",
        ),
        (observed(SUSPENDED, **HANGING), "is suspended (pid 4711 is suspended)"),
        (observed(**busy(minutes(1))), "silent for 1 min but uses CPU time"),
        (observed(), "1 of 1 queries active, 40 batches committed in epoch 17."),
        (observed(status=a_status(queries=(WAITING,))), "in epoch 17, waiting for data."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_verdict_gives_its_evidence(seen: Observation, words: str) -> None:
    assert words in judge(seen, RULES).reason


def test_a_verdict_is_well_or_ended_or_neither_but_not_both() -> None:
    for seen, state in CASES.values():
        verdict = judge(seen, RULES)
        assert verdict.is_well is (state in {"healthy", "idle"})
        assert verdict.has_ended is (state in {"failed", "dead", "completed", "stopped"})
    assert not ENDED & WELL


def test_health_is_counted_from_the_first_progress_by_the_clock_of_the_driver() -> None:
    status = a_status(first_progress_at=BEGUN, at=BEGUN + minutes(7))

    assert judge(observed(status=status), RULES).healthy_for == minutes(7)
    assert judge(observed(**UNHEARD), RULES).healthy_for == timedelta(0)


def test_a_clock_of_the_driver_that_was_set_back_makes_no_negative_health() -> None:
    status = a_status(first_progress_at=NOW, at=BEGUN)

    assert judge(observed(status=status), RULES).healthy_for == timedelta(0)


@pytest.mark.parametrize("error", [timedelta(days=-400), timedelta(days=400)], ids=["old", "new"])
def test_only_the_observer_times_silence(error: timedelta) -> None:
    # The driver's clock is wrong by more than a year; nothing may change.
    for seen, verdict in CASES.values():
        assert judge(_with_clock_error(seen, error), RULES).state == verdict


def _with_clock_error(seen: Observation, error: timedelta) -> Observation:
    status = seen.status
    if status is None or status.first_progress_at is None:
        return seen
    times: dict[str, Any] = {
        "at": status.at + error,
        "started_at": status.started_at + error,
        "first_progress_at": status.first_progress_at + error,
    }
    return replace(seen, status=replace(status, **times))


def test_patience_with_a_busy_driver_is_never_less_than_with_an_idle_one() -> None:
    rules = HealthRules(hang_after=minutes(20), busy_hang_after=minutes(1))

    assert judge(observed(**busy(minutes(19))), rules).state is VerdictState.HEALTHY
    assert judge(observed(**busy(minutes(20))), rules).state is VerdictState.HUNG


@pytest.mark.parametrize("rule", ["hang_after", "startup_timeout"])
def test_rules_that_take_a_pause_for_a_hang_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=f"{rule} below 10 s"):
        HealthRules(**{rule: seconds(9)})


def test_a_verdict_carries_everything_that_fires_the_gravest_first() -> None:
    seen = observed(
        status=a_status(queries=(STALLED,)),
        findings=(a_finding(), a_finding(rule="wrong", severity=Severity.STOP)),
    )

    verdict = judge(seen, RULES)

    assert [finding.rule for finding in verdict.findings] == ["wrong", "stalled", "late"]
    assert (verdict.rule, verdict.severity) == ("wrong", Severity.STOP)
    assert verdict.reason == "Epoch 17 is late. (2 more findings)"


def test_two_rules_cannot_have_one_name() -> None:
    late = HealthRule(name="late", metric=Metric.BATCH_SECONDS, bound=1.0)

    with pytest.raises(ValueError, match="Two health rules are called 'late'"):
        HealthRules(rules=(late, late))


def test_judges_agree_with_the_reference_model_over_random_observations() -> None:
    wrong = [found for seed in range(5_000) if (found := disagreement_of_judges(seed))]

    assert not wrong


processes = st.sampled_from([*ProcessState]).map(lambda state: Process(state=state, detail="x"))
observations = st.builds(
    Observation,
    epoch=st.sampled_from([an_epoch(), an_epoch(created_at=NOW)]),
    process=processes,
    now=st.just(NOW),
    launch=st.sampled_from([None, a_launch()]),
    status=st.sampled_from(
        [
            None,
            a_status(),
            a_status(state=DriverState.STOPPING),
            a_status(first_progress_at=None),
            a_status(queries=(WAITING,)),
        ]
    ),
    exit=st.sampled_from([None, *(an_exit(outcome) for outcome in Outcome)]),
    death=st.sampled_from([None, None, a_death()]),
    silent_for=st.sampled_from([seconds(0), seconds(44), seconds(45), minutes(10), minutes(60)]),
    cpu_in_silence=st.sampled_from([None, 0.0, 1_000.0]),
)


@settings(max_examples=150, deadline=None, database=None)
@given(seen=observations)
def test_nobody_is_dead_or_hung_who_cannot_be_seen(seen: Observation) -> None:
    verdict = judge(seen, RULES)

    assert verdict.reason
    if verdict.has_ended:
        heard_the_last = seen.exit is not None and seen.silent_for >= LAST_WORD_GRACE
        assert seen.death is not None or seen.process.state is GONE or heard_the_last
    if verdict.state is VerdictState.HUNG:
        assert seen.process.state in (RUNNING, SUSPENDED)
    if seen.death is not None:
        assert verdict.has_ended
    if verdict.is_well:
        assert seen.silent_for < RULES.hang_after


@pytest.mark.parametrize("state", [*ProcessState])
def test_a_process_can_be_named_by_its_state(state: ProcessState) -> None:
    named = {GONE: Process.gone("x"), UNSEEN: Process.unseen("x")}

    assert named.get(state, Process(state=state, detail="x")).state is state


def test_a_driver_at_the_barrier_is_told_from_one_that_has_not_come_to_a_batch() -> None:
    status = a_status(state=DriverState.STARTING, first_progress_at=None, queries=(), standby=True)
    verdict = judge(observed(status=status), RULES)
    assert (verdict.state, "waits at the barrier" in verdict.reason) == ("starting", True)


@pytest.mark.parametrize(
    ("query", "status", "state", "reason"),
    [
        pytest.param(
            {"batches": 0, "committed_ago_s": 40.0},
            {"first_progress_at": None},
            VerdictState.STARTING,
            "Driver of epoch 17 has not been seen to commit an epoch of Spark yet.",
            id="no epoch yet",
        ),
        pytest.param(
            {"batches": 25, "committed_ago_s": 4.0},
            {},
            VerdictState.HEALTHY,
            "1 of 1 queries active, 0 batches committed in epoch 17. Query 'revenue' is continuous: Spark "
            "reports no batches and no figures of it; 25 of Spark's epochs committed.",
            id="epochs",
        ),
        pytest.param(
            {
                "batches": 25,
                "committed_ago_s": 899.0,
                "batch_for_s": 9_999.0,
                "quiet_for_s": 9_999.0,
            },
            {},
            VerdictState.HEALTHY,
            "1 of 1 queries active",
            id="no epoch for a while; the run of its trigger never ends",
        ),
        pytest.param(
            {"batches": 25, "committed_ago_s": 900.0},
            {},
            VerdictState.STALLED,
            "Query 'revenue' is continuous and has committed no epoch for 15 min; the limit is 15 min.",
            id="no epoch for three intervals",
        ),
    ],
)
def test_a_continuous_query_is_judged_by_its_epochs(
    query: dict[str, Any], status: dict[str, Any], state: VerdictState, reason: str
) -> None:
    # Spark reports no trigger run and no data of such a query.
    idle = {"processing": False, "data_available": False}
    one = a_query(progress=None, epoch_interval_s=300.0, **idle, **query)

    verdict = judge(
        observed(RUNNING, status=a_status(queries=(one,), **status)),
        HealthRules(stall_after=minutes(5)),
    )

    assert verdict.state is state
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize(
    ("query", "rows", "state"),
    [
        pytest.param(
            {"batch_for_s": 200.0, "quiet_for_s": 0.5}, 40, VerdictState.HEALTHY, id="busy"
        ),
        pytest.param({"batch_for_s": 299.0, "quiet_for_s": 299.0}, 0, VerdictState.IDLE, id="idle"),
        pytest.param(
            {"batch_for_s": 599.0, "quiet_for_s": 599.0}, 0, VerdictState.IDLE, id="a late commit"
        ),
        pytest.param(
            {"batch_for_s": 600.0, "quiet_for_s": 1.0}, 40, VerdictState.SLOW, id="no end, at work"
        ),
        pytest.param(
            {"batch_for_s": 600.0, "quiet_for_s": 600.0}, 40, VerdictState.STALLED, id="no end"
        ),
    ],
)
def test_a_query_in_real_time_mode_is_judged_by_its_interval(
    query: dict[str, Any], rows: int, state: VerdictState
) -> None:
    # Thirty times the usual batch would be two and a half hours.
    usual = {"recent_durations_ms": (300_000,) * 20, "checkpoint_interval_s": 300.0}
    one = a_query(progress=a_batch(input_rows=rows), **usual, **query)

    verdict = judge(
        observed(RUNNING, status=a_status(queries=(one,))), HealthRules(stall_after=minutes(5))
    )

    assert verdict.state is state
    if state in (VerdictState.HEALTHY, VerdictState.IDLE):
        assert "in real-time mode and commits every 5 min" in verdict.reason
