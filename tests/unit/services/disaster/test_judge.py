"""The verdict on a stream whose restored checkpoints were run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rehearsal import Rehearsed, RehearsedQuery
from airflow_streaming.model.jobs.recovery import RecoveryResult as R
from airflow_streaming.model.jobs.recovery import RecoveryVerdict as V
from airflow_streaming.model.jobs.rehearsal import Ending
from airflow_streaming.services.disaster.judge import after_replay, judge, ran_nothing

UNKNOWN, REFUSED = GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED


def rehearsed(
    *rules: tuple[str, GateDecision], ending: Ending = Ending.CAUGHT_UP, batches: int = 3
) -> Rehearsed:
    findings = tuple(
        GateFinding(rule=f"rehearsal.{rule}", severity=severity, message=f"{rule}.")
        for rule, severity in rules
    )
    query = RehearsedQuery(query="counts", ending=ending, batches=batches)
    return Rehearsed(
        application="job.py",
        spark="4.3.0",
        subject="a backup",
        seconds=9.0,
        queries=(query,),
        findings=findings,
    )


@pytest.mark.parametrize(
    ("found", "result", "verdict"),
    [
        pytest.param(rehearsed(), R.RECOVERED, V.RECOVERED, id="caught up"),
        pytest.param(
            rehearsed(("output_schema", GateDecision.ALLOWED_WITH_CONSEQUENCE)),
            R.RECOVERED,
            V.RECOVERED,
            id="a consequence is no loss",
        ),
        pytest.param(rehearsed(("input_gone", UNKNOWN)), R.INPUT_GONE, V.LOST, id="input gone"),
        pytest.param(rehearsed(("query_failed", REFUSED)), R.FAILED, V.LOST, id="query"),
        pytest.param(rehearsed(("script_failed", REFUSED)), R.FAILED, V.LOST, id="script"),
        pytest.param(rehearsed(("sink_refused", REFUSED)), R.FAILED, V.LOST, id="sink"),
        pytest.param(rehearsed(("topic_missing", UNKNOWN)), R.FAILED, V.LOST, id="topic"),
        pytest.param(rehearsed(("spark_ended", REFUSED)), R.FAILED, V.LOST, id="Spark died"),
        pytest.param(
            rehearsed(("spark_ended", UNKNOWN)), R.OUT_OF_TIME, V.UNPROVEN, id="Spark was ended"
        ),
        pytest.param(rehearsed(("not_begun", UNKNOWN)), R.NOT_TRIED, V.UNPROVEN, id="not begun"),
        pytest.param(rehearsed(("no_copy", UNKNOWN)), R.NOT_TRIED, V.UNPROVEN, id="no copy"),
        pytest.param(rehearsed(("no_batch", UNKNOWN)), R.NOTHING_RAN, V.UNPROVEN, id="idle"),
        pytest.param(
            rehearsed(("not_started", GateDecision.ALLOWED_WITH_CONSEQUENCE)),
            R.NOTHING_RAN,
            V.UNPROVEN,
            id="not started",
        ),
        pytest.param(
            rehearsed(ending=Ending.OUT_OF_TIME), R.OUT_OF_TIME, V.UNPROVEN, id="late with batches"
        ),
        pytest.param(
            rehearsed(("no_batch", UNKNOWN), ("input_gone", UNKNOWN)),
            R.INPUT_GONE,
            V.LOST,
            id="the gravest counts",
        ),
    ],
)
def test_the_gravest_finding_is_the_result(found: Rehearsed, result: R, verdict: V) -> None:
    judgment = judge(found)

    assert (judgment.result, judgment.result.verdict) == (result, verdict)
    assert bool(judgment.reason) == (verdict is not V.RECOVERED)


def test_a_planned_batch_without_rows_is_not_a_proof() -> None:
    query = RehearsedQuery(
        query="counts", ending=Ending.CAUGHT_UP, batches=2, first_batch=3, first_rows=0
    )
    found = replace(rehearsed(), queries=(query,))

    assert judge(found, {"counts"}).result is R.NO_ROWS
    assert "Batch 3 of query 'counts' read no row" in judge(found, {"counts"}).reason
    assert judge(found).result is R.RECOVERED, "new data need not be there"
    with_rows = replace(found, queries=(replace(query, first_rows=2),))
    assert judge(with_rows, {"counts"}).result is R.RECOVERED


def test_a_late_query_is_named() -> None:
    assert "query 'counts'" in judge(rehearsed(ending=Ending.OUT_OF_TIME)).reason


def test_only_an_idle_query_is_run_again() -> None:
    idle = rehearsed(("no_batch", UNKNOWN))

    assert ran_nothing(idle)
    assert not ran_nothing(rehearsed())
    assert not ran_nothing(rehearsed(("no_batch", UNKNOWN), ("query_failed", REFUSED)))


@pytest.mark.parametrize(
    ("replayed", "result"),
    [
        pytest.param(rehearsed(ending=Ending.ENOUGH_BATCHES), R.RECOVERED, id="state opens"),
        pytest.param(rehearsed(("query_failed", REFUSED)), R.FAILED, id="state does not open"),
        pytest.param(
            rehearsed(("input_gone", UNKNOWN)), R.NOTHING_RAN, id="older input is not needed"
        ),
        pytest.param(rehearsed(("no_batch", UNKNOWN)), R.NOTHING_RAN, id="nothing to repeat"),
    ],
)
def test_a_repeated_batch_proves_the_state_of_an_idle_query(replayed: Rehearsed, result: R) -> None:
    assert after_replay(rehearsed(("no_batch", UNKNOWN)), replayed).result is result
