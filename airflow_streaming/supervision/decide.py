"""
Decide the next action of the keep-alive task.

``alerting`` derives alerts from a verdict. Added here are alerts that need the whole situation: a
driver out of reach, a change without a working task, a decision whose task died before it sent the
alert.

The trigger and the operator call the same function. The trigger wakes its task when the step needs
an action; the operator looks again and acts on its own answer. So a trigger may run twice, an event
may be late, and a task may die at any line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from airflow_streaming.exceptions import closed
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.health_rules import (
    DATA_LOSS,
    Finding,
    HealthRules,
    RuleState,
    Severity,
)
from airflow_streaming.model.observation import Observation, ProcessState, Verdict, VerdictState
from airflow_streaming.model.records.alert import Alert, is_told
from airflow_streaming.model.records.control import ChangeInProgress, Circuit, DesiredState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import LaunchCause, StopRequest
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.supervision.alerts.alerting import decided, due
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.restart import fails_alike
from airflow_streaming.supervision.standby import (
    StandbyView,
    can_take_over,
    has_settled,
    is_worth_waiting_for,
    reason_to_make,
)

if TYPE_CHECKING:
    from airflow_streaming.supervision.scaling.autoscale import SizeStep, SizeView

_RESIZABLE: Final = frozenset({VerdictState.HEALTHY, VerdictState.IDLE, VerdictState.DEGRADED})
"""The figures of any other state say nothing of the load; a long batch is not cut off for a size."""
STOP_MARGIN: Final = timedelta(seconds=15)
"""Added to the grace of a stop: the driver's own shutdown after its queries have stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileInput:
    """
    Input of the next step.

    :param deployment: The deployment that should run; ``None`` before the first.
    :param seen: The newest epoch as observed; ``None`` before the first.
    :param decision: The restart decision recorded for that epoch.
    :param alerts: Alerts recorded for the stream, oldest first.
    :param desired_number: Number of the newest desired state; 0 if never recorded.
    :param is_stop_over: The desired state is a stop whose end has come, and no change of the stream is open.
    :param stopping_for: How long this observer has seen the stop request unanswered.
    :param watched: The epoch this task has been watching; ``None`` in a fresh task.
    :param mark: The mark of that epoch, see ``Epoch.mark``; empty in a fresh task.
    :param is_other_home: That epoch has another mark here: another home replaced the first.
    :param run_age: Age of the DAG run, for rollover.
    :param tells: This task sends the alerts that are missing in ``alerts``.
    :param change: The upgrade or cutover in progress: while it owns the stream, only it acts.
    :param may_stand_by: The caller keeps a driver waiting at the barrier, and knows until when.
    :param follows: The live lane of the stream, if another lane was observed.
    :param successor_waits: Another run of the DAG is queued behind this one.
    :param wants_standby: The spec has a hot standby, and this task manages it.
    :param standby: The newest one, if any was looked up.
    :param is_standby_unreadable: A record of it is damaged: do not start, promote or await one.
    :param size: The observed size; ``None`` if it does not change with the load.
    :param is_unreleased: The newest epoch is a promoted standby without an order yet.
    """

    desired: DesiredState
    now: datetime
    rules: HealthRules
    policy: RestartPolicy
    deployment: Deployment | None = None
    circuit: Circuit | None = None
    seen: Observation | None = None
    decision: RestartDecision | None = None
    stop: StopRequest | None = None
    desired_number: int = 0
    is_stop_over: bool = False
    alerts: tuple[Alert, ...] = ()
    stopping_for: timedelta = timedelta(0)
    watched: int | None = None
    mark: str = ""
    is_other_home: bool = False
    run_age: timedelta = timedelta(0)
    rollover_after: timedelta | None = None
    successor_waits: bool = False
    tells: bool = False
    change: ChangeInProgress | None = None
    follows: str | None = None
    may_stand_by: bool = False
    wants_standby: bool = False
    standby: StandbyView | None = None
    is_standby_unreadable: bool = False
    is_unreleased: bool = False
    size: SizeView | None = None


def untold(s: ReconcileInput, verdict: Verdict | None, *, blocked: str | None) -> tuple[Alert, ...]:
    """
    Return the alerts that are missing in the situation's log.

    :param verdict: On the observation; ``None`` before the first epoch.
    :param blocked: Why the driver cannot be proved dead, if this holds the stream up.
    """
    seen = s.seen
    if not s.tells or seen is None or verdict is None:
        return ()
    if blocked is not None and not verdict.findings:
        # It beats, or has just fallen silent, but ignores a stop: on-call must look.
        verdict = replace(verdict, findings=(_out_of_reach(blocked),))
    if s.change is not None and s.change.is_overdue(s.now):
        verdict = replace(verdict, findings=(*verdict.findings, _left_alone(s.change, s.now)))
    losing = _losing(s, seen, verdict)
    if losing is not None:
        verdict = replace(verdict, findings=(*verdict.findings, losing))
    found = due(
        stream=seen.epoch.stream,
        epoch=seen.epoch.number,
        verdict=verdict,
        findings=seen.findings,
        log=s.alerts,
        now=s.now,
    )
    return (*_untold_decision(s, seen), *found)


def _untold_decision(s: ReconcileInput, seen: Observation) -> tuple[Alert, ...]:
    # The task that decided sends the alert at once, unless it dies in between.
    if s.decision is None:
        return ()
    alert = decided(stream=seen.epoch.stream, decision=s.decision, now=s.now)
    return () if is_told(alert, s.alerts) else (alert,)


def _losing(s: ReconcileInput, seen: Observation, verdict: Verdict) -> Finding | None:
    """Return that a stream without a driver loses unread data; its rules see only living drivers."""
    loss = seen.status.loss if seen.status is not None and verdict.has_ended else None
    is_wanted = any(rule.name == DATA_LOSS for rule in s.rules.rules)
    if loss is None or not is_wanted or not loss.is_near(s.now):
        return None
    left = loss.at - s.now
    when = f"in {duration_text(left)}" if left > timedelta(0) else "by now"
    return Finding(
        rule=DATA_LOSS,
        state=RuleState.FIRING,
        severity=Severity.ALERT,
        query=loss.query,
        source=loss.source,
        reason=f"No driver runs, and {loss.source} removes unread data of query {loss.query!r} {when}.",
    )


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
        reason=f"{change} No progress since {change.since:%Y-%m-%d %H:%M %Z}.",
        figure=age_of(change.since, now).total_seconds(),
        bound=change.patience.total_seconds(),
        since=change.since,
    )


class Action(StrEnum):
    """Kinds of steps."""

    WATCH = "watch"
    """The driver is in the desired state: keep watching."""
    WAIT = "wait"
    """A restart is decided and not yet due."""
    PARK = "park"
    """Stopped, or the circuit is open: keep watching until a user or the policy changes that."""
    RESUME = "resume"
    """The end of a stop has come: record that the stream should run."""
    LAUNCH = "launch"
    """Take the next epoch and start a driver."""
    STOP = "stop"
    """Ask the driver to stop."""
    KILL = "kill"
    """Kill the driver and prove it dead."""
    SETTLE = "settle"
    """Record the decision on a failed epoch: a restart, or an open circuit."""
    BLOCKED = "blocked"
    """The driver cannot be proved dead: only its host or a named user can declare it."""
    ALERT = "alert"
    """Send the alerts that were not sent yet; afterwards there may be nothing else to do."""
    FOLLOW = "follow"
    """Another lane of the stream has become live: leave this one, and keep that one alive."""
    STANDBY = "standby"
    """Start the stream's hot standby, in place of an unusable one."""
    RESIZE = "resize"
    """Record another number of executors; the driver changes to it, or is stopped and started with it."""
    RELEASE = "release"
    """Release a promoted standby; the task that took the epoch died in between."""
    FINISH = "finish"
    """End the task with success and leave the stream as it is."""


PASSIVE: Final = frozenset({Action.WATCH, Action.WAIT, Action.PARK})
"""Steps during which a task stays deferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    A step, with the reason in words.

    :param cause: For a launch: why.
    :param verdict: For a stop: the severity of the health verdict behind it; ``None`` for a stop by
        a user or a deployment.
    :param alerts: Alerts to send before the step is taken.
    :param size: For a change of the size: the new size.
    :param promotes: For a launch: the hot standby whose driver is the next epoch's, if any.
    """

    action: Action
    reason: str
    cause: LaunchCause = LaunchCause.START
    verdict: Severity | None = None
    alerts: tuple[Alert, ...] = ()
    promotes: int | None = None
    size: SizeStep | None = None

    @property
    def is_passive(self) -> bool:
        """Tell whether a deferred task stays deferred."""
        return self.action in PASSIVE


def decide(situation: ReconcileInput) -> Step:
    """Decide the next step."""
    seen = situation.seen
    verdict = None if seen is None else judge(seen, situation.rules)
    step = _decide(situation, verdict)
    alerts = _untold(situation, step, verdict)
    if alerts and (step.is_passive or step.action is Action.BLOCKED):
        return Step(action=Action.ALERT, reason=alerts[0].reason, alerts=alerts)
    if step.is_passive and situation.successor_waits:
        return Step(
            action=Action.FINISH,
            reason="Another DAG run is queued; finishing so it can take over. " + step.reason,
        )
    if step.is_passive and _rollover_is_due(situation):
        return Step(
            action=Action.FINISH,
            reason="The DAG run reached its rollover age; finishing so the next run takes over. "
            + step.reason,
        )
    return replace(_with_standby(situation, step), alerts=alerts)


def _with_standby(s: ReconcileInput, step: Step) -> Step:
    if not s.wants_standby or s.is_standby_unreadable or s.deployment is None:
        return step
    if step.action is Action.LAUNCH and s.change is None:
        is_there = can_take_over(s.standby, s.deployment.number, s.now)
        return replace(step, promotes=s.standby.epoch.number) if is_there and s.standby else step
    if step.action is not Action.WATCH or not _may_have_standby(s):
        return step
    reason = reason_to_make(s.standby, s.deployment.number, s.now)
    return Step(action=Action.STANDBY, reason=reason) if reason else step


def _may_have_standby(s: ReconcileInput) -> bool:
    # Not beside a starting driver, from which it would only take resources.
    is_quiet = s.change is None and s.stop is None and s.desired is DesiredState.RUNNING
    return is_quiet and not _has_vanished(s) and s.seen is not None and has_settled(s.seen)


def _untold(s: ReconcileInput, step: Step, verdict: Verdict | None) -> tuple[Alert, ...]:
    if step.action is Action.FOLLOW or _has_vanished(s):
        # That lane is no longer watched, or there is nothing to observe.
        return ()
    return untold(s, verdict, blocked=step.reason if step.action is Action.BLOCKED else None)


def _decide(s: ReconcileInput, verdict: Verdict | None) -> Step:
    if s.is_other_home:
        return Step(
            action=Action.WATCH,
            reason=(
                f"Another home is mounted in place of the stream's home: its epoch {s.watched} is "
                "not the one that this task watches, whose driver may still run. No driver is "
                "started or stopped. Mount the home again, or correct its path, bucket or host."
            ),
        )
    if _has_vanished(s):
        return Step(
            action=Action.WATCH,
            reason=f"Epoch {s.watched} is missing from the home. Waiting for it to reappear (is the "
            "volume mounted?).",
        )
    if s.follows is not None:
        return Step(action=Action.FOLLOW, reason=f"Lane {s.follows} is live now.")
    if s.seen is None or verdict is None:
        step = _without_driver(s, verdict=None)
    elif verdict.has_ended:
        step = _without_driver(s, verdict)
    else:
        step = _with_driver(s, s.seen, verdict)
    return _beside(s, s.change, step) if s.change is not None and s.change.owns_stream else step


def _beside(s: ReconcileInput, change: ChangeInProgress, step: Step) -> Step:
    # A stop by a user is carried out at once, by the first task that looks: stopping loses nothing,
    # and the change finds it stopped. All else is the change's alone.
    if s.desired is DesiredState.STOPPED:
        return replace(step, reason=f"{step.reason} {change}")
    return Step(action=Action.WATCH, reason=f"{change} {step.reason}")


def _has_vanished(s: ReconcileInput) -> bool:
    # An unmounted folder looks like an empty one, a restored one like the past; the driver may well
    # be alive.
    return s.is_other_home or (
        s.watched is not None and (s.seen is None or s.seen.epoch.number < s.watched)
    )


def _with_driver(s: ReconcileInput, seen: Observation, verdict: Verdict) -> Step:
    if verdict.state is VerdictState.UNREACHABLE:
        # Spark does not fence: a driver that cannot be observed may still write. Silence proves
        # nothing.
        return Step(action=Action.BLOCKED, reason=verdict.reason)
    if verdict.state is VerdictState.HUNG and (s.stop is not None or not _blackout(s)):
        return Step(action=Action.KILL, reason=verdict.reason)
    if s.stop is not None:
        return _stopping(s, seen, s.stop)
    if s.desired is DesiredState.STOPPED:
        return Step(action=Action.STOP, reason='Desired state is "stopped".')
    if s.deployment is not None and seen.epoch.deployment != s.deployment.number:
        reason = _replaced(s.deployment, seen)
        if _waits_for_standby(s, s.deployment):
            return Step(action=Action.WATCH, reason=f"{reason} Its standby driver is warmed first.")
        return Step(action=Action.STOP, reason=reason)
    if s.is_unreleased:
        return Step(
            action=Action.RELEASE,
            reason=f"Epoch {seen.epoch.number} is promoted standby {seen.epoch.promotes}, which was "
            "not released yet.",
        )
    if _is_forgotten(s, seen):
        return Step(
            action=Action.STOP, reason="Standby driver was abandoned at the barrier; stopping it."
        )
    step = _on_verdict(s, verdict)
    is_at_work = verdict.state in _RESIZABLE and step.action is Action.WATCH
    return _on_size(s, seen, s.size, step) if s.size is not None and is_at_work else step


def _on_size(s: ReconcileInput, seen: Observation, size: SizeView, step: Step) -> Step:
    if not has_settled(seen) or s.change is not None or _blackout(s) is not None:
        return step
    carried = size.carried
    if carried.is_in_place:
        return replace(step, reason=carried.reason)
    if carried.is_restart:
        return Step(
            action=Action.STOP,
            reason=f"The stream gets {size.wanted} executors; its driver has {size.present}. {carried.reason}",
        )
    if size.step.changes:
        return Step(action=Action.RESIZE, reason=size.step.reason, size=size.step)
    return step


def _waits_for_standby(s: ReconcileInput, deployment: Deployment) -> bool:
    return (
        s.wants_standby
        and not s.is_standby_unreadable
        and _may_have_standby(s)
        and is_worth_waiting_for(s.standby, deployment.number, deployment.created_at, s.now)
    )


def _is_forgotten(s: ReconcileInput, seen: Observation) -> bool:
    # The change that had it wait at the barrier is gone, so it would wait for ever. A normal start
    # continues from the same place: batches still to fast-forward, and the batch ids, are in its
    # claims.
    if seen.epoch.promotes is not None:
        return False
    is_waiting = seen.status is not None and seen.status.standby and not s.may_stand_by
    return is_waiting and (s.change is None or s.change.is_overdue(s.now))


def _on_verdict(s: ReconcileInput, verdict: Verdict) -> Step:
    if verdict.severity is None or verdict.severity is Severity.ALERT:
        return Step(action=Action.WATCH, reason=verdict.reason)
    if verdict.severity is Severity.RESTART and (until := _blackout(s)) is not None:
        return Step(
            action=Action.WATCH,
            reason=f"{verdict.reason} A restart waits until the blackout ends at "
            f"{until:%Y-%m-%d %H:%M %Z}.",
        )
    return Step(action=Action.STOP, reason=verdict.reason, verdict=verdict.severity)


def _blackout(s: ReconcileInput) -> datetime | None:
    return s.policy.blackout_until(s.now) if s.desired is DesiredState.RUNNING else None


def _stopping(s: ReconcileInput, seen: Observation, stop: StopRequest) -> Step:
    overdue = timedelta(seconds=stop.grace_seconds) + STOP_MARGIN
    if s.stopping_for < overdue:
        return Step(action=Action.WATCH, reason=f"Waiting for the driver to stop: {stop.reason}")
    if seen.process.state is ProcessState.UNSEEN:
        return Step(
            action=Action.BLOCKED,
            reason=(
                f"The driver of epoch {seen.epoch.number} does not answer the stop request and "
                f"cannot be observed: {closed(seen.process.detail)}"
            ),
        )
    return Step(
        action=Action.KILL,
        reason=f"Driver of epoch {seen.epoch.number} has not stopped in {duration_text(overdue)}.",
    )


def _without_driver(s: ReconcileInput, verdict: Verdict | None) -> Step:
    if s.desired is DesiredState.STOPPED:
        if s.is_stop_over:
            return Step(action=Action.RESUME, reason="The end of the stop has come.")
        return Step(action=Action.PARK, reason='Desired state is "stopped".')
    if verdict is not None and verdict.state is VerdictState.COMPLETED and _was_watched(s):
        return Step(action=Action.FINISH, reason=verdict.reason)
    if s.circuit is not None and s.circuit.holds(s.seen.epoch.number if s.seen else None):
        return _circuit_open(s, s.circuit)
    if s.seen is None or verdict is None:
        return Step(
            action=Action.LAUNCH, reason="First start of the stream.", cause=LaunchCause.FIRST
        )
    if verdict.state is VerdictState.COMPLETED or (s.stop is not None and _is_wanted(s, s.stop)):
        # A driver that was killed after a stop request has not failed either. A driver that stopped
        # without one counts as a failure: the signal may come again and again.
        return Step(action=Action.LAUNCH, reason=_resumed(s, s.seen, verdict))
    return _after_failure(s, s.seen, verdict)


def _is_wanted(s: ReconcileInput, stop: StopRequest) -> bool:
    # A user who stopped and started the stream after a verdict asked for its end overrides the
    # verdict: that end is then neither a failure nor a reason to give up.
    is_overtaken = stop.wish is not None and s.desired_number > stop.wish
    return stop.verdict is None or is_overtaken


def _circuit_open(s: ReconcileInput, circuit: Circuit) -> Step:
    wait, failed = s.policy.half_open_after, s.seen.epoch.deployment if s.seen else 0
    deployment = s.deployment.number if s.deployment else None
    is_final = s.decision is not None and s.decision.failure_kind.needs_a_person
    if wait is not None and is_final and fails_alike(s.decision, failed, deployment):
        return Step(
            action=Action.PARK,
            reason=f"The circuit is open, and no trial is made: deployment {failed} would fail in the "
            f"same way. {circuit.reason}",
        )
    if wait is not None and age_of(circuit.at, s.now) >= wait:
        return Step(
            action=Action.LAUNCH,
            reason=f"Half-open: one try after {duration_text(wait)}.",
            cause=LaunchCause.TRIAL,
        )
    return Step(action=Action.PARK, reason=f"The circuit is open: {circuit.reason}")


def _after_failure(s: ReconcileInput, seen: Observation, verdict: Verdict) -> Step:
    if s.circuit is not None and s.circuit.epoch == seen.epoch.number:
        return Step(
            action=Action.LAUNCH,
            reason=f"{s.circuit.by} closed the circuit: {s.circuit.reason}",
        )
    if s.deployment is not None and seen.epoch.deployment != s.deployment.number:
        return Step(action=Action.LAUNCH, reason=_replaced(s.deployment, seen))
    if s.decision is None or s.decision.action is RestartAction.GIVE_UP:
        # Given up, but no circuit was opened for this epoch: the task that decided died in between.
        return Step(action=Action.SETTLE, reason=verdict.reason)
    if s.decision.is_waiting(s.now):
        return Step(
            action=Action.WAIT,
            reason=f"Restart after failure {s.decision.consecutive_failures} in a row is due at "
            f"{s.decision.next_attempt_at:%H:%M:%S} UTC.",
        )
    return Step(action=Action.LAUNCH, reason=verdict.reason, cause=LaunchCause.RESTART)


def _resumed(s: ReconcileInput, seen: Observation, verdict: Verdict) -> str:
    # Why an epoch of another deployment ended, perhaps in an earlier cutover, explains nothing.
    if s.deployment is not None and seen.epoch.deployment != s.deployment.number:
        return _replaced(s.deployment, seen)
    return f"Started again after epoch {seen.epoch.number}: {verdict.reason}"


def _replaced(deployment: Deployment, seen: Observation) -> str:
    return (
        f"Deployment {deployment.number} replaces deployment {seen.epoch.deployment} of epoch "
        f"{seen.epoch.number}."
    )


def _was_watched(s: ReconcileInput) -> bool:
    return s.seen is not None and s.watched == s.seen.epoch.number


def _rollover_is_due(s: ReconcileInput) -> bool:
    return s.rollover_after is not None and s.run_age >= s.rollover_after
