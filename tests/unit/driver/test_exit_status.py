from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import judge_claim
from airflow_streaming.driver.exit_status import (
    RunEnd,
    ScriptEnd,
    ScriptState,
    Stop,
    code_of,
    conclude,
    fenced,
    refused,
)
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.records.epoch import Outcome, QueryClaim
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.failures import MAX_TEXT, diagnose
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
WELL = RunEnd(epoch=3, at=NOON, script=RETURNED, started=True)
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
            "Cut off after 1 min without a batch boundary in 'q'",
            id="stopped too slowly",
        ),
        pytest.param(
            {"refusal": DriverRefusal("No."), "script": RAISED},
            Outcome.FAILED,
            False,
            2,
            "No.",
            id="refused",
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


@pytest.mark.parametrize("cut_off", [True, False])
@pytest.mark.parametrize(
    "facts", [{"stop": STOP}, FAILED_QUERY, {"jvm_gone": True}], ids=["stopped", "failed", "lost"]
)
def test_an_end_without_a_batch_boundary_is_told_apart(
    facts: dict[str, Any], cut_off: bool
) -> None:
    assert conclude(replace(WELL, **facts, cut_off=cut_off)).cut_off is cut_off
    assert fenced(3, NOON).cut_off
    assert not refused(3, NOON, DriverRefusal("No.")).cut_off


def test_a_failed_query_is_told_with_all_that_is_known() -> None:
    exit = conclude(replace(WELL, failed_query="q", query_error=ERROR))
    told = (exit.query, exit.batch_id, exit.exception_class, exit.condition, exit.conditions)
    assert told == ("q", 7, "ValueError", "STREAM_FAILED", ("STREAM_FAILED",))


def test_a_driver_that_did_not_begin_says_so() -> None:
    assert fenced(3, NOON).outcome is Outcome.FENCED
    exit = refused(3, NOON, DriverRefusal("The script is not the deployed one."))
    assert (exit.outcome, exit.retryable, code_of(exit)) == (Outcome.FAILED, False, 2)


def a_query_error(text: str, **changes: Any) -> QueryError:
    return replace(QueryError.from_text(text, exception_class="SparkException"), **changes)


def failed_with(error: QueryError) -> Any:
    return conclude(replace(WELL, failed_query="q", query_error=error))


def test_a_failed_query_is_told_with_its_kind_signature_and_offsets() -> None:
    lost = a_query_error("x\nCaused by: java.net.ConnectException: host-7:9092", batch_id=3)
    again = a_query_error("x\nCaused by: java.net.ConnectException: host-8:9092", batch_id=3)

    exit = failed_with(replace(lost, offsets=('{"orders":{"0":12}}',)))

    assert exit.failure_kind is FailureKind.TRANSIENT
    assert exit.offsets == ('{"orders":{"0":12}}',)
    assert exit.signature == failed_with(again).signature
    assert exit.signature != failed_with(a_query_error("KeyError: 1")).signature
    assert FailureKind.TRANSIENT.remedy not in exit.reason


@pytest.mark.parametrize("length", [10, 10 * MAX_TEXT])
def test_the_remedy_is_a_field_of_its_own(length: int) -> None:
    text = "[CONCURRENT_STREAM_LOG_UPDATE] " + "x" * length

    exit = failed_with(a_query_error(text))

    assert exit.failure_kind is FailureKind.SECOND_WRITER
    assert exit.remedy == FailureKind.SECOND_WRITER.remedy
    assert exit.remedy not in exit.reason
    assert len(exit.reason) <= MAX_TEXT


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        pytest.param({}, None, id="completed"),
        pytest.param({"stop": STOP, **FAILED_QUERY}, None, id="stopped"),
        pytest.param({"jvm_gone": True}, FailureKind.KILLED, id="lost its JVM"),
        pytest.param({"started": False}, FailureKind.USER_CODE, id="no query"),
        pytest.param({"script": RAISED}, FailureKind.USER_CODE, id="script raised"),
        pytest.param({"script": TYPO}, FailureKind.USER_CODE, id="no script"),
        pytest.param(
            {"refusal": DriverRefusal("No name.")}, FailureKind.CONFIGURATION, id="refused"
        ),
        pytest.param(FAILED_QUERY, FailureKind.UNKNOWN, id="a query whose error tells nothing"),
        pytest.param(
            {
                "script": ScriptEnd(
                    state=ScriptState.FAILED,
                    error=QueryError(
                        message="AnalysisException: x",
                        exception_class="AnalysisException",
                        diagnosis=diagnose(text="", exception_class="AnalysisException"),
                    ),
                )
            },
            FailureKind.CONFIGURATION,
            id="a plan that cannot be",
        ),
        pytest.param(
            {"script": ScriptEnd(state=ScriptState.FAILED)}, FailureKind.USER_CODE, id="no word"
        ),
    ],
)
def test_the_exit_record_names_the_kind(facts: dict[str, Any], kind: FailureKind | None) -> None:
    exit = conclude(replace(WELL, **facts))

    assert exit.failure_kind is kind
    assert (exit.signature is None) is (kind is None)


@pytest.mark.parametrize("found", [None, "another"], ids=["vanished", "exchanged"])
def test_a_refused_checkpoint_is_called_damaged(found: str | None) -> None:
    claim = QueryClaim(query="q", query_id="mine", checkpoint="/c/q", epoch=1)
    with pytest.raises(DriverRefusal) as refusal:
        judge_claim(claim, found, "/home/claim.json")

    assert refused(3, NOON, refusal.value).failure_kind is FailureKind.CHECKPOINT_DAMAGED
