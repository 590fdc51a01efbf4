"""
Derive due alerts from a verdict and the alerts sent before.

The unit is an incident: one key (a rule with its query and source, or ``restart``) from its first
alert to its end. An incident is sent once, however many tasks look and however often; so is its
end.

The end of an incident must be observed. An unknown rule, a silent driver or a starting one never
ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from airflow_streaming.checkpoints.vault.retention_policy import AgeVerdict
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import (
    BUILT_IN,
    DATA_LOSS,
    DATA_LOSS_SOON,
    SNAPSHOT_LAG,
    SNAPSHOT_REPAIRED,
    Finding,
    RuleState,
    Severity,
)
from airflow_streaming.model.names import base_of
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.records.alert import (
    BACKUP_KEY,
    FRESHNESS_KEY,
    RESTART_KEY,
    Alert,
    AlertKind,
    AlertSource,
    is_told,
)
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.supervision.restart import remedy_of

if TYPE_CHECKING:
    from airflow_streaming.model.products.freshness import BurnRate, FreshnessFigures

_ACTIONS: Final = {
    Severity.ALERT: "Nothing: the stream is left alone.",
    Severity.RESTART: "The driver is stopped and started again, as far as the restart policy allows.",
    Severity.STOP: "The driver is stopped, and stays down until a user starts the stream again.",
}
_KEEP_LONGER: Final = (
    "Lengthen the retention of the source first (Kafka: retention.ms of the topic; tables and files: pause the DAG that "
    "expires them, or let SafeToExpireSensor hold it back). Then give the stream more cores or a higher rate limit."
)
_REMEDIES: Final = {
    "hung": "Look in the driver's log for what froze it: a suspended process, garbage collection, "
    "a storage that does not answer.",
    "stalled": (
        "Check the stalled stage in the Spark UI, and in the driver's log the source, sink or "
        "storage it waits for."
    ),
    "slow": "Look in the Spark UI at the batch in work. If batches stay this long, bound them with "
    "a rate limit or give the stream more cores.",
    "no_executor": (
        "Find out why the cluster provides none: pending pods (kubectl describe pod), a quota, "
        "an image that cannot be pulled, a queue or workers that are full. The driver's log has "
        "the cluster's answers. A restart would request the same again."
    ),
    "source_unreachable": "Check that the brokers run, that the address in the script is theirs, and that the "
    "driver's host reaches them. The query continues when they answer.",
    "unfinished_upgrade": (
        "Check the run of the upgrade: clear its failed task to continue, approve or reject a "
        "waiting step, or end it (also if it has finished): airflow-streaming upgrade roll-back "
        "{stream} --reason TEXT"
    ),
    "unfinished_cutover": (
        "Check the run of the cutover: clear its failed task to continue, or approve or reject a "
        "waiting step. Its progress and possible commands: airflow-streaming cutover status "
        "{base}"
    ),
    SNAPSHOT_LAG: "Look in the driver's and executors' logs for the maintenance thread of the state store: uploads that "
    "fail or are slow. A restart replays the change logs of all these batches, and from 500 on Spark repairs no damaged "
    "snapshot.",
    SNAPSHOT_REPAIRED: "The incident has healed: the state was rebuilt from change logs, and no row is lost. Verify the "
    "newest backup, and look for what damaged or removed files of the checkpoint.",
    DATA_LOSS: _KEEP_LONGER,
    DATA_LOSS_SOON: _KEEP_LONGER,
    "query_failed": "If the script did not mean to stop this query, correct what ended it, and "
    "deploy the stream again.",
}
_OF_A_CHANGE: Final = {
    "unfinished_upgrade": "Nothing: while an upgrade is open only the upgrade acts.",
    "unfinished_cutover": "No automatic action: the cutover does the remaining steps.",
}
_UNREACHABLE: Final = (
    "Make the driver's host answer. Or, knowing that the driver is gone: airflow-streaming "
    "declare-dead {stream} --epoch {epoch} --by NAME --reason TEXT"
)
_OF_A_FIGURE: Final = (
    "Check the Spark UI and the query's last batches for changes. If this value is expected, "
    "change the rule's bound in the DAG."
)

_BURN_ACTION: Final = (
    "No automatic action. The stream's own rules and restarts act on its failures."
)
_BURN_REMEDY: Final = (
    "Check why its output is late: airflow-streaming status {stream}. If the source had no data, its watermark "
    "stands still; see the page on freshness."
)
_SEEN_AT_WORK: Final = frozenset(
    {VerdictState.HEALTHY, VerdictState.IDLE, VerdictState.DEGRADED, VerdictState.STALLED}
)

MOST_OPEN: Final = 50
"""Incidents that are open at a time. Beyond that, more mails do not help; the page and the command
line show every rule that fires."""

_REPAIRED: Final = (
    "Tell the readers of the output. To take the repair back: stop the stream, then airflow-streaming "
    "checkpoint undo {stream} --repair"
)
_NOT_REPAIRED: Final = (
    "If the driver fails with 'CheckpointInfo length: 0', remove the cause named above, then: "
    "airflow-streaming start {stream}"
)

_ACTION = "None. The next run of the backup DAG takes a backup."
_REMEDY = (
    "Check the last runs of the backup DAG for the failure, and run it again. Until then a "
    "restore loses everything since this backup."
)


def action_for(finding: Finding) -> str:
    """Return the provider's action for a firing finding."""
    if finding.rule in _OF_A_CHANGE:
        return _OF_A_CHANGE[finding.rule]
    if finding.rule == "unreachable":
        return "Nothing is started: the old driver may still write, and Spark does not fence."
    return _ACTIONS[finding.severity]


def remedy_for_rule(rule: str, *, stream: str, epoch: int) -> str:
    """Return what on-call should do about a rule that fires."""
    if rule == "unreachable":
        return _UNREACHABLE.format(stream=stream, epoch=epoch)
    remedy = _REMEDIES.get(rule, _OF_A_FIGURE)
    return remedy.replace("{stream}", stream).replace("{base}", base_of(stream))


def end_of(
    incident: Alert, *, verdict: Verdict, findings: Sequence[Finding], epoch: int
) -> str | None:
    """
    Return how an incident ended; ``None`` while it has not, or where that is unknown.

    :param incident: The last alert of an open incident.
    :param epoch: The epoch that the verdict speaks of.
    """
    if AlertSource.of_key(incident.key) is not AlertSource.STREAM:
        return None
    if incident.key == RESTART_KEY:
        has_come_back = epoch > incident.epoch and verdict.is_well and verdict.batches > 0
        return verdict.reason if has_come_back else None
    if not _is_seen_at_work(verdict) or _still_fires(incident, verdict):
        return None
    if incident.rule in BUILT_IN:
        # Judges say nothing while all is well; health rules say that they are clear.
        return verdict.reason
    finding = next((f for f in findings if f.key == incident.key), None)
    if finding is not None:
        return finding.reason if finding.state is RuleState.CLEAR else None
    if verdict.is_well and findings and not _may_come_back(incident, findings):
        return "The rule, the query or the source is no longer a part of the stream."
    return None


def _is_seen_at_work(verdict: Verdict) -> bool:
    # A silent driver is called slow too, but its queries were not observed then.
    is_long_batch = verdict.state is VerdictState.SLOW and verdict.query != ""
    return is_long_batch or verdict.state in _SEEN_AT_WORK


def _still_fires(incident: Alert, verdict: Verdict) -> bool:
    # Slow that has become stalled is not over, it is worse.
    worse = "stalled" if incident.rule == "slow" else incident.rule
    return any(
        finding.key == incident.key
        or (finding.rule == worse != incident.rule and finding.query == incident.query)
        for finding in verdict.findings
    )


def _may_come_back(incident: Alert, findings: Sequence[Finding]) -> bool:
    # A rule speaks of a source only after the first batch that names it.
    return any(
        finding.rule == incident.rule
        and finding.state is RuleState.UNKNOWN
        and finding.query in ("", incident.query)
        for finding in findings
    )


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
    Return the alerts that are due: ends of incidents, then new incidents.

    :param findings: The findings of all rules, in any state.
    :param log: Alerts recorded for the stream so far, oldest first.
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


def open_incidents(log: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the last alert of every open incident, in the order they were recorded."""
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
        remedy=decision.remedy or decision.failure_kind.remedy,
    )


def gave_up(*, stream: str, decision: RestartDecision, now: datetime) -> Alert:
    """Return the alert about a decision to open the circuit."""
    return _decided(
        AlertKind.GAVE_UP,
        stream,
        decision,
        now,
        severity=Severity.STOP,
        action="The circuit is open: the stream is down and is not restarted automatically, "
        "unless its policy allows one more try.",
        remedy=remedy_of(decision, stream),
    )


def restart_failed(*, stream: str, epoch: int, error: str, now: datetime) -> Alert:
    """
    Return the alert about a driver that could not be started.

    :param epoch: The epoch of the driver; the failed one before it when none was begun.
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
        remedy=(
            "Fix the cause that the error names: the runtime, the connection, the script or the "
            "host."
        ),
    )


def sink_repaired(
    *, stream: str, epoch: int, query: str, reason: str, is_done: bool, now: datetime
) -> Alert:
    """
    Return the alert about a file sink that was put back before a launch, or could not be.

    :param epoch: The epoch whose driver died.
    """
    return Alert(
        stream=stream,
        alert=AlertKind.RESTARTED,
        key=RESTART_KEY,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(reason),
        severity=Severity.RESTART,
        rule="sink_repaired" if is_done else "sink_not_repaired",
        query=query,
        action="The batch was moved out of the sink and is executed again."
        if is_done
        else "The driver is started; the sink is left as it is.",
        remedy=(_REPAIRED if is_done else _NOT_REPAIRED).replace("{stream}", stream),
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
                "figure": finding.in_words(finding.figure),
                "bound": finding.in_words(finding.bound),
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


def about_age(
    verdict: AgeVerdict, *, stream: str, epoch: int, log: Sequence[Alert], now: datetime
) -> tuple[Alert, ...]:
    """
    Return the alert about the age of a stream's newest backup: an incident or its end.

    :param epoch: The stream's newest epoch; 0 for an external stream.
    """
    incident = next((alert for alert in open_incidents(log) if alert.key == BACKUP_KEY), None)
    if verdict.is_late is (incident is not None):
        return ()
    alert = _alert(verdict, incident, stream=stream, epoch=epoch, now=now)
    return () if is_told(alert, log) else (alert,)


def _alert(
    verdict: AgeVerdict, incident: Alert | None, *, stream: str, epoch: int, now: datetime
) -> Alert:
    is_over = incident is not None
    facts = {} if verdict.newest is None else {"newest backup": verdict.newest.id}
    if incident is not None:
        facts |= {"was": incident.reason, "told": moment(incident.at)}
    return Alert(
        stream=stream,
        alert=AlertKind.RECOVERED if is_over else AlertKind.UNHEALTHY,
        key=BACKUP_KEY,
        epoch=epoch,
        at=now,
        by="",
        reason=presentable(verdict.reason),
        rule=BACKUP_KEY,
        action="The incident is closed." if is_over else _ACTION,
        remedy="" if is_over else _REMEDY,
        facts=facts,
    )


def about_freshness(
    freshness: Freshness,
    found: FreshnessFigures,
    *,
    stream: str,
    epoch: int,
    log: Sequence[Alert],
) -> tuple[Alert, ...]:
    """Return the alerts about the burn rates of a freshness objective: incidents, and ends of incidents."""
    known = {alert.key: alert for alert in open_incidents(log)}
    due: list[Alert] = []
    for burn in found.burns:
        key = f"{FRESHNESS_KEY}/{burn.alert.name}"
        incident = known.get(key)
        if burn.fires is (incident is not None):
            continue
        facts = {"budget left": f"{found.budget_left:.1%}"}
        if incident is not None:
            facts |= {"was": incident.reason, "told": moment(incident.at)}
        alert = Alert(
            stream=stream,
            alert=AlertKind.RECOVERED if incident is not None else AlertKind.UNHEALTHY,
            key=key,
            epoch=epoch,
            at=found.at,
            by="",
            reason=_burning(freshness, burn),
            rule=FRESHNESS_KEY,
            action="The incident is closed." if incident is not None else _BURN_ACTION,
            remedy="" if incident is not None else _BURN_REMEDY.format(stream=stream),
            facts=facts,
        )
        due += () if is_told(alert, log) else (alert,)
    return tuple(due)


def _burning(freshness: Freshness, burn: BurnRate) -> str:
    within = duration_text(freshness.complete_within)
    return (
        f"The budget of the objective ({freshness.objective:.3%} complete within {within}) burns "
        f"{burn.long:.1f} times too fast over {duration_text(burn.alert.long)} and {burn.short:.1f} times over "
        f"{duration_text(burn.alert.short)}; the bound is {burn.bound:.1f}."
    )
