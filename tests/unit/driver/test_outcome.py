from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.core.epoch import Outcome
from airflow_streaming.driver.ending import Stop
from airflow_streaming.driver.outcome import (
    End,
    ScriptEnd,
    ScriptState,
    code_of,
    conclude,
    fenced,
    refused,
)
from airflow_streaming.driver.query import QueryError
from tests.unit.driver.fakes import NOON

RETURNED = ScriptEnd(state=ScriptState.RETURNED)
RAISED = ScriptEnd(
    state=ScriptState.FAILED,
    error=QueryError(message="KeyError: 'a'", exception_class="KeyError"),
)
TYPO = replace(RAISED, retryable=False)
STOP = Stop(by="ann", reason="Enough.", grace=60)
ERROR = QueryError(
    message="ValueError: b",
    exception_class="ValueError",
    condition="STREAM_FAILED",
    conditions=("STREAM_FAILED",),
    batch_id=7,
)
WELL = End(epoch=3, at=NOON, script=RETURNED, started=True)
FAILED_QUERY = {"failed_query": "q", "query_error": ERROR}


@pytest.mark.parametrize(
    ("facts", "outcome", "retryable", "code", "reason"),
    [
        pytest.param({}, Outcome.COMPLETED, True, 0, "came to their end", id="all ended well"),
        pytest.param({"stop": STOP}, Outcome.STOPPED, True, 0, "by ann: Enough.", id="stopped"),
        pytest.param(
            {"stop": STOP, "script": RAISED},
            Outcome.STOPPED,
            True,
            0,
            "by ann: Enough.",
            id="stopped, and the script raised because its query ended",
        ),
        pytest.param(
            {"stop": STOP, **FAILED_QUERY},
            Outcome.STOPPED,
            True,
            0,
            "Query 'q' failed meanwhile: ValueError: b",
            id="stopped, and a query failed on the way",
        ),
        pytest.param(
            {"stop": STOP, "still_active": ("q",)},
            Outcome.STOPPED,
            True,
            0,
            "Cut off after 60 s without a batch boundary in 'q'",
            id="stopped too slowly",
        ),
        pytest.param(
            {"refusal": "No.", "script": RAISED}, Outcome.FAILED, False, 2, "No.", id="refused"
        ),
        pytest.param(
            {"jvm_gone": True, "script": RAISED},
            Outcome.FAILED,
            True,
            1,
            "JVM of this driver is gone",
            id="lost its JVM",
        ),
        pytest.param(
            {"script": RAISED, **FAILED_QUERY},
            Outcome.FAILED,
            True,
            1,
            "Query 'q' failed in batch 7: ValueError: b",
            id="a query failed, which the script saw",
        ),
        pytest.param(
            {"script": RAISED}, Outcome.FAILED, True, 1, "failed: KeyError: 'a'", id="script raised"
        ),
        pytest.param({"script": TYPO}, Outcome.FAILED, False, 1, "failed: Key", id="no script"),
        pytest.param(
            {"started": False}, Outcome.FAILED, False, 1, "without starting a", id="no query"
        ),
    ],
)
def test_the_exit_record_says_why(
    facts: dict[str, Any], outcome: Outcome, retryable: bool, code: int, reason: str
) -> None:
    exit = conclude(replace(WELL, **facts))

    assert (exit.outcome, exit.retryable, code_of(exit)) == (outcome, retryable, code)
    assert reason in exit.reason


def test_a_failed_query_is_told_with_all_that_is_known() -> None:
    exit = conclude(replace(WELL, failed_query="q", query_error=ERROR))
    told = (exit.query, exit.batch_id, exit.exception_class, exit.condition, exit.conditions)
    assert told == ("q", 7, "ValueError", "STREAM_FAILED", ("STREAM_FAILED",))


def test_a_driver_that_did_not_begin_says_so() -> None:
    assert fenced(3, NOON).outcome is Outcome.FENCED
    exit = refused(3, NOON, "The script is not the deployed one.")
    assert (exit.outcome, exit.retryable, code_of(exit)) == (Outcome.FAILED, False, 2)
