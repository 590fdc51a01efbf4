"""
Verdict + what was told before → what has to be told now.

The unit is an incident: one key (a rule with its query and source, or ``restart``) from the first
alert that names it to the one that says that it is over. An incident is told once, whoever looks
and however often; its end is told once, and only when it was seen. Not knowing is never an end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_streaming.core.alerts.advice import action_for, remedy_for_rule
from airflow_streaming.core.alerts.alert import RESTART_KEY, Alert, AlertKind
from airflow_streaming.core.alerts.recovery import end_of
from airflow_streaming.core.failures.kind import remedy_for
from airflow_streaming.core.failures.text import presentable
from airflow_streaming.core.restart import RestartAction, RestartDecision
from airflow_streaming.core.rules.rule import Finding, RuleState, Severity
from airflow_streaming.core.verdict import Verdict

FLAPPING: Final = timedelta(hours=1)
"""What fires again in the same epoch so soon after it recovered is the incident already told."""

MOST_OPEN: Final = 50
"""Incidents that are open at a time. When everything is on fire, the next fifty mails help nobody;
the page and the command line show all that fires."""


def due(
    *,
    stream: str,
    epoch: int,
    verdict: Verdict,
    findings: Sequence[Finding],
    log: Sequence[Alert],
    now: datetime,
) -> tuple[Alert, ...]:
    """
    Return what has to be told now: incidents that are over, then new ones.

    :param findings: What every rule says, whatever its state.
    :param log: What was told of the stream so far, oldest first.
    :returns: Alerts without a number and an author.
    """
    over = [
        _recovered(incident, end, epoch=epoch, now=now)
        for incident in open_incidents(log)
        if (end := end_of(incident, verdict=verdict, findings=findings, epoch=epoch)) is not None
    ]
    begun = [
        _unhealthy(finding, stream=stream, epoch=epoch, now=now) for finding in _firing(verdict)
    ]
    new = [alert for alert in begun if not is_told(alert, log)]
    room = max(0, MOST_OPEN - len(open_incidents(log)))
    return tuple(alert for alert in (*over, *new[:room]) if not is_told(alert, log))


def is_told(alert: Alert, log: Sequence[Alert]) -> bool:
    """Tell whether people have been told of this, so that it must not be recorded again."""
    if alert.alert in (AlertKind.RESTARTED, AlertKind.GAVE_UP):
        return any(_same_restart(alert, told) for told in log)
    last = next((told for told in reversed(log) if told.key == alert.key), None)
    is_open = last is not None and last.alert is not AlertKind.RECOVERED
    if alert.alert is AlertKind.RECOVERED:
        return not is_open or _failed_again(alert, last)
    return is_open or (last is not None and _is_flapping(alert, last))


def open_incidents(log: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the last alert of every incident that is not over, in the order they were told."""
    last: dict[str, Alert] = {}
    for alert in log:
        last.pop(alert.key, None)
        if alert.alert is not AlertKind.RECOVERED:
            last[alert.key] = alert
    return tuple(last.values())


def decided(*, stream: str, decision: RestartDecision, now: datetime) -> Alert:
    """Return the alert about a decision, whichever it was."""
    build = restarted if decision.action is RestartAction.RESTART else gave_up
    return build(stream=stream, decision=decision, now=now)


def restarted(*, stream: str, decision: RestartDecision, now: datetime) -> Alert:
    """Return the alert about a decision to restart the stream."""
    due_at = "" if decision.next_attempt_at is None else f" at {moment(decision.next_attempt_at)}"
    return _decided(
        AlertKind.RESTARTED,
        stream,
        decision,
        now,
        severity=Severity.RESTART,
        action=f"The stream is started again{due_at}, on the same checkpoint. It was failure "
        f"{decision.consecutive_failures} in a row.",
        remedy=decision.remedy or remedy_for(decision.failure_kind),
    )


def gave_up(*, stream: str, decision: RestartDecision, now: datetime) -> Alert:
    """Return the alert about a decision to open the circuit."""
    return _decided(
        AlertKind.GAVE_UP,
        stream,
        decision,
        now,
        severity=Severity.STOP,
        action="The circuit is open: the stream is down and is not started again by itself, "
        "unless its policy allows one more try.",
        remedy=f"{decision.remedy or remedy_for(decision.failure_kind)} Then close the circuit: "
        f"airflow-streaming close-circuit {stream} --reason TEXT",
    )


def restart_failed(*, stream: str, epoch: int, error: str, now: datetime) -> Alert:
    """
    Return the alert about a driver that could not be started.

    :param epoch: The epoch of the driver; the failed one before it when none was begun.
    :param error: Why.
    """
    return Alert(
        stream=stream,
        alert=AlertKind.RESTARTED,
        key=RESTART_KEY,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(f"The driver could not be started: {error}"),
        severity=Severity.RESTART,
        rule="restart_failed",
        action="Nothing runs. The restart policy decides whether it is tried again.",
        remedy="Correct what the error names: the runtime, the connection, the script or the host.",
    )


def moment(time: datetime) -> str:
    """Return a time as messages show it, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _firing(verdict: Verdict) -> Collection[Finding]:
    firing: dict[str, Finding] = {}
    for finding in verdict.findings:
        if finding.state is RuleState.FIRING:
            firing.setdefault(finding.key, finding)
    return firing.values()


def _same_restart(one: Alert, other: Alert) -> bool:
    # Every restart is told, also within one incident; a failed launch has a rule of its own.
    mine, others = ((it.alert, it.key, it.epoch, it.rule) for it in (one, other))
    return mine == others


def _failed_again(recovered: Alert, last: Alert | None) -> bool:
    # The epoch that was seen well has failed since, and somebody else has told that already.
    return last is not None and last.key == RESTART_KEY and last.epoch >= recovered.epoch


def _is_flapping(alert: Alert, recovered: Alert) -> bool:
    # Both ways, because the two times may come from hosts whose clocks differ.
    return alert.epoch == recovered.epoch and abs(alert.at - recovered.at) < FLAPPING


def _unhealthy(finding: Finding, *, stream: str, epoch: int, now: datetime) -> Alert:
    return Alert(
        stream=stream,
        alert=AlertKind.UNHEALTHY,
        key=finding.key,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(finding.reason),
        severity=finding.severity,
        rule=finding.rule,
        query=finding.query,
        action=action_for(finding),
        remedy=remedy_for_rule(finding.rule, stream=stream, epoch=epoch),
        facts=_facts(
            {
                "source": finding.source,
                "figure": None if finding.figure is None else f"{finding.figure:g}",
                "bound": None if finding.bound is None else f"{finding.bound:g}",
                "since": None if finding.since is None else moment(finding.since),
            }
        ),
    )


def _recovered(incident: Alert, end: str, *, epoch: int, now: datetime) -> Alert:
    return Alert(
        stream=incident.stream,
        alert=AlertKind.RECOVERED,
        key=incident.key,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(end),
        rule=incident.rule,
        query=incident.query,
        action="The incident is closed.",
        facts=_facts(
            {"was": incident.reason, "told": moment(incident.at), "alert": str(incident.number)}
        ),
    )


def _decided(
    kind: AlertKind,
    stream: str,
    decision: RestartDecision,
    now: datetime,
    *,
    severity: Severity,
    action: str,
    remedy: str,
) -> Alert:
    offsets = {
        f"offsets {number}" if number > 1 else "offsets": text
        for number, text in enumerate(decision.offsets, start=1)
    }
    batch = None if decision.batch_id is None else str(decision.batch_id)
    return Alert(
        stream=stream,
        alert=kind,
        key=RESTART_KEY,
        epoch=decision.epoch,
        at=now,
        by="",
        reason=presentable(decision.reason),
        severity=severity,
        rule=kind.value,
        query=decision.query or "",
        action=action,
        remedy=remedy,
        facts=_facts(
            {
                "failure": decision.failure_kind.value,
                "batch": batch,
                **offsets,
                "failures in a row": str(decision.consecutive_failures),
            }
        ),
    )


def _facts(values: dict[str, str | None]) -> dict[str, str]:
    return {name: presentable(value) for name, value in values.items() if value}
