"""What the gates have in common: how a report ends a task, and what those after it find."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding, GateReport
from airflow_streaming.core.compatibility.markdown import as_markdown
from airflow_streaming.exceptions import CheckpointBusy, CheckpointError, SpecError
from airflow_streaming.operators._narrating import Log

if TYPE_CHECKING:
    from airflow.sdk import Context

Value = TypeVar("Value")

REPORT_XCOM_KEY: Final = "report"
"""XCom with a gate's whole report; the return value of the task is the decision."""

MARKDOWN_XCOM_KEY: Final = "markdown"
"""XCom with the report as Markdown, e.g. for the body of an approval."""

FAIL_ON: Final = (None, "not_allowed", "unknown", "allowed_with_consequence")

_MOST_TOLD: Final = 3
"""Findings that are quoted in an error; the log and the XCom have all."""


def check_fail_on(fail_on: str | None) -> None:
    """
    Do nothing for a decision from which a gate may fail.

    :raises SpecError: it is none.
    """
    if fail_on not in FAIL_ON:
        raise SpecError(
            f"fail_on is {fail_on!r}; give 'not_allowed', 'unknown', 'allowed_with_consequence' or "
            "None."
        )


def publish(report: GateReport, context: Context, log: Log, *, page: str | None = None) -> None:
    """Write a report to the task's log and XComs."""
    for finding in report.findings:
        log.info("%s", line_of(finding))
    log.info("Decision: %s", report.decision.value)
    context["ti"].xcom_push(key=REPORT_XCOM_KEY, value=report.to_dict())
    context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=page or as_markdown(report))


def fail_if_refused(report: GateReport, fail_on: str | None, *, what: str) -> None:
    """
    Do nothing for a report that is better than ``fail_on``.

    :param what: What was asked, e.g. ``The new code of stream 'orders'``.
    :raises AirflowFailException: with the worst findings and their ways out.
    """
    if fail_on is None or report.decision.weight < GateDecision(fail_on).weight:
        return
    bad = [f for f in report.findings if f.severity.weight >= GateDecision(fail_on).weight]
    told = " ".join(line_of(finding) for finding in bad[:_MOST_TOLD])
    more = f" And {len(bad) - _MOST_TOLD} more." if len(bad) > _MOST_TOLD else ""
    decision = report.decision.value.replace("_", " ")
    raise AirflowFailException(f"{what} is {decision}. {told}{more}")


def line_of(finding: GateFinding) -> str:
    """Return a finding as one line: how bad, the rule, what, and the way out."""
    where = f" of query {finding.query!r}" if finding.query else ""
    values = f" ({finding.old or '-'} → {finding.new or '-'})" if finding.old or finding.new else ""
    evidence = f" [{finding.evidence}]" if finding.evidence else ""
    return (
        f"{finding.severity.value}: {finding.rule}{where}{values}: {finding.message}{evidence} "
        f"{finding.remedy}"
    ).rstrip()


def asked(gate: Callable[[], Value]) -> Value:
    """
    Return a gate's answer.

    :raises AirflowFailException: it cannot be asked like this, and trying again does not help.
    """
    try:
        return gate()
    except CheckpointBusy:
        raise
    except (SpecError, CheckpointError) as err:
        raise AirflowFailException(str(err)) from err
