"""A pause's tasks begin when the stream stands still, and its end tells whether it did so all the time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.health_rules import (
    DATA_LOSS,
    Finding,
    HealthRules,
    RuleState,
    Severity,
)
from airflow_streaming.model.observation import Observation, ProcessState, VerdictState
from airflow_streaming.model.records.control import BatchPause, BatchPauseEnd
from airflow_streaming.model.status import PauseStatus
from airflow_streaming.supervision.batch_pause import PauseState, judge_pause
from airflow_streaming.supervision.health import judge
from tests.unit.supervision.builders import NOW, a_query, a_status, observed

PAUSE = BatchPause(number=4, by="ann", reason="vacuum", at=NOW, begin_within=60.0, longest=300.0)
END = BatchPauseEnd(number=4, by="ben", reason="done", at=NOW)
HELD = PauseStatus(number=4, is_held=True, held_for_s=20.0, left_s=280.0)
STUCK = a_query(batch_for_s=7200.0, quiet_for_s=7200.0, committed_ago_s=7200.0)


def seen(hold: PauseStatus | None, process: ProcessState = ProcessState.RUNNING) -> Observation:
    return observed(process, status=a_status(queries=(STUCK,), pause=hold))


GONE = seen(HELD, ProcessState.GONE)


@pytest.mark.parametrize(
    ("observed", "end", "later", "expected"),
    [
        pytest.param(None, None, 1, PauseState.HELD, id="never_run"),
        pytest.param(GONE, None, 1, PauseState.HELD, id="no_driver"),
        pytest.param(seen(HELD), None, 20, PauseState.HELD, id="held"),
        pytest.param(seen(HELD), None, 299, PauseState.HELD, id="held_long"),
        pytest.param(
            seen(replace(HELD, left_s=15.0)), None, 299, PauseState.MISSED, id="near_its_end"
        ),
        pytest.param(
            seen(replace(HELD, is_held=False)), None, 20, PauseState.WAITING, id="in_a_batch"
        ),
        pytest.param(
            seen(replace(HELD, is_held=False)), None, 76, PauseState.MISSED, id="a_long_batch"
        ),
        pytest.param(
            seen(replace(HELD, number=3)), None, 1, PauseState.WAITING, id="the_one_before"
        ),
        pytest.param(seen(None), None, 1, PauseState.WAITING, id="not_seen_yet"),
        pytest.param(seen(None), None, 200, PauseState.MISSED, id="continued"),
        pytest.param(seen(replace(HELD, refusal="No.")), None, 1, PauseState.REFUSED, id="refused"),
        pytest.param(seen(HELD), None, 360, PauseState.MISSED, id="over"),
        pytest.param(GONE, None, 360, PauseState.MISSED, id="over_without_a_driver"),
        pytest.param(seen(HELD), END, 1, PauseState.CLOSED, id="closed"),
    ],
)
def test_a_window_is_judged_by_the_driver_and_its_length(
    observed: Observation | None, end: BatchPauseEnd | None, later: float, expected: PauseState
) -> None:
    standing = judge_pause(PAUSE, end, observed, NOW + timedelta(seconds=later))

    assert standing.state is expected
    assert standing.reason.endswith(".")


def test_a_held_stream_is_paused_and_not_stalled() -> None:
    assert judge(seen(None), HealthRules()).state is VerdictState.STALLED
    verdict = judge(seen(HELD), HealthRules())

    assert verdict.state is VerdictState.PAUSED
    assert verdict.severity is None
    assert not verdict.findings
    assert "Pause 4" in verdict.reason


def test_only_a_loss_of_unread_data_is_told_of_a_held_stream() -> None:
    def firing(rule: str) -> Finding:
        return Finding(
            rule=rule,
            state=RuleState.FIRING,
            severity=Severity.RESTART,
            query="revenue",
            reason="It fires.",
        )

    held = replace(seen(HELD), findings=(firing("backlog"), firing(DATA_LOSS)))
    verdict = judge(held, HealthRules())

    assert verdict.state is VerdictState.PAUSED
    assert [(one.rule, one.severity) for one in verdict.findings] == [(DATA_LOSS, Severity.ALERT)]


def test_a_silent_driver_is_hung_although_it_held_its_queries() -> None:
    silent = replace(seen(HELD), silent_for=timedelta(hours=2))

    assert judge(silent, HealthRules()).state is VerdictState.HUNG


@pytest.mark.parametrize("field", ["begin_within", "longest"])
@pytest.mark.parametrize("seconds", ["1e308", "1e12", "-5.0"])
def test_a_forged_pause_without_an_end_cannot_be_read(field: str, seconds: str) -> None:
    whole = json.loads(PAUSE.to_bytes())
    forged = json.dumps({**whole, field: "@"}).replace('"@"', seconds)

    with pytest.raises(RecordError, match=field):
        BatchPause.from_bytes(forged.encode())
