"""What tests of alerts look at: a finding, a look of a task, and what the look tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_streaming.model.health_rules import Finding, RuleState, Severity
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.records.alert import Alert
from airflow_streaming.supervision.alerts.alerting import due

FIRING, CLEAR = RuleState.FIRING, RuleState.CLEAR
UNKNOWN, PENDING = RuleState.UNKNOWN, RuleState.PENDING
BEHIND: Final = "falling_behind/revenue"


def a_finding(key: str = BEHIND, state: RuleState = FIRING, **changes: Any) -> Finding:
    rule, query, source = (*key.split("/", 2), "", "")[:3]
    fields: dict[str, Any] = {
        "severity": Severity.ALERT,
        "reason": f"{key} is {state}.",
        "source": source or None,
    }
    return Finding(rule=rule, query=query, state=state, **fields | changes)


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look of a task: what it sees, and what it tells."""

    tells: tuple[str, ...] = ()
    state: VerdictState | None = None
    fires: tuple[str, ...] = ()
    rules: tuple[tuple[str, RuleState], ...] = ()
    epoch: int = 17
    batches: int = 5
    after: timedelta = timedelta(seconds=5)
    query: str = "revenue"
    """The query of the verdict; a silent driver's has none."""

    def verdict(self) -> Verdict:
        state = self.state or (VerdictState.DEGRADED if self.fires else VerdictState.HEALTHY)
        return Verdict(
            state=state,
            reason=f"It is {state}.",
            query=self.query if self.fires else "",
            batches=self.batches,
            findings=tuple(a_finding(key) for key in self.fires),
        )

    def findings(self) -> tuple[Finding, ...]:
        rules = {**dict.fromkeys(self.fires, FIRING), **dict(self.rules)}
        return tuple(a_finding(key, state) for key, state in rules.items())


def told_at(look: Look, log: Sequence[Alert], now: datetime) -> tuple[Alert, ...]:
    return due(
        stream="orders",
        epoch=look.epoch,
        verdict=look.verdict(),
        findings=look.findings(),
        log=log,
        now=now,
    )


def shown(alert: Alert) -> str:
    return f"{alert.alert} {alert.key}"


FIRES: Final = Look(fires=(BEHIND,), tells=(f"unhealthy {BEHIND}",))
OVER: Final = Look(rules=((BEHIND, CLEAR),), tells=(f"recovered {BEHIND}",))
