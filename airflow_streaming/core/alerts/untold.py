"""
Situation + Verdict → what has to be told of a stream before its next step is taken.

``alerting`` says what is told of a verdict. What comes to it here is seen in the situation only: a
driver out of reach, a change that nobody takes on, a decision whose maker died before he told it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_streaming.core.alerts.alert import Alert
from airflow_streaming.core.alerts.alerting import decided, due, is_told
from airflow_streaming.core.change_in_progress import ChangeInProgress
from airflow_streaming.core.observation import Observation
from airflow_streaming.core.rules.rule import Finding, RuleState, Severity
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.verdict import Verdict, VerdictState


def untold(s: Situation, verdict: Verdict | None, *, blocked: str | None) -> tuple[Alert, ...]:
    """
    Return the alerts that are not in the situation's log.

    :param verdict: On what is seen; ``None`` before the first epoch.
    :param blocked: Why the driver cannot be proved dead, where that holds the stream up.
    """
    seen = s.seen
    if not s.tells or seen is None or verdict is None:
        return ()
    if blocked is not None and not verdict.findings:
        # It beats, or has just fallen silent, but does not heed a stop: a person has to look.
        verdict = replace(verdict, findings=(_out_of_reach(blocked),))
    if s.change is not None and s.change.is_overdue(s.now):
        verdict = replace(verdict, findings=(*verdict.findings, _left_alone(s.change, s.now)))
    found = due(
        stream=seen.epoch.stream,
        epoch=seen.epoch.number,
        verdict=verdict,
        findings=seen.findings,
        log=s.alerts,
        now=s.now,
    )
    return (*_untold_decision(s, seen), *found)


def _untold_decision(s: Situation, seen: Observation) -> tuple[Alert, ...]:
    # Whoever decided tells it at once, unless he dies in between.
    if s.decision is None:
        return ()
    alert = decided(stream=seen.epoch.stream, decision=s.decision, now=s.now)
    return () if is_told(alert, s.alerts) else (alert,)


def _out_of_reach(reason: str) -> Finding:
    return Finding(
        rule=VerdictState.UNREACHABLE.value,
        state=RuleState.FIRING,
        severity=Severity.ALERT,
        query="",
        reason=reason,
    )


def _left_alone(change: ChangeInProgress, now: datetime) -> Finding:
    return Finding(
        rule=change.rule,
        state=RuleState.FIRING,
        severity=Severity.ALERT,
        query="",
        reason=f"{change} Nothing has come of it since {change.since:%Y-%m-%d %H:%M %Z}.",
        figure=(now - change.since).total_seconds(),
        bound=change.patience.total_seconds(),
        since=change.since,
    )
