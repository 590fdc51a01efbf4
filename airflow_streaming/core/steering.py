"""
Situation → Step: what the task that keeps a stream alive does next.

The law of this file: the trigger and the operator ask the same function. The trigger wakes its task
when the step is one that needs an act; the operator looks again, asks again, and acts on its own
answer. So a trigger may run twice, an event may be lost or late, and a task may die on any line:
the next look finds the records and comes to the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.core.alerts.alert import Alert
from airflow_streaming.core.alerts.untold import untold
from airflow_streaming.core.change_in_progress import ChangeInProgress
from airflow_streaming.core.control import Circuit, DesiredState
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import LaunchCause, StopRequest
from airflow_streaming.core.health import judge
from airflow_streaming.core.observation import Observation, ProcessState
from airflow_streaming.core.restart import RestartAction
from airflow_streaming.core.rules.rule import Severity
from airflow_streaming.core.situation import Situation
from airflow_streaming.core.verdict import Verdict, VerdictState


class Action(StrEnum):
    """What to do next."""

    WATCH = "watch"
    """The driver does what is wanted: look on."""
    WAIT = "wait"
    """A restart is decided and not yet due."""
    PARK = "park"
    """Stopped, or the circuit is open: look on until a person or the policy changes that."""
    LAUNCH = "launch"
    """Take the next epoch and start a driver."""
    STOP = "stop"
    """Ask the driver to stop."""
    KILL = "kill"
    """Kill the driver and prove it dead."""
    SETTLE = "settle"
    """Record what becomes of a failed epoch: a restart, or an open circuit."""
    BLOCKED = "blocked"
    """The driver cannot be proved dead: only its host or a named person can say so."""
    ALERT = "alert"
    """Tell people what has not been told yet; afterwards there may be nothing else to do."""
    FOLLOW = "follow"
    """Another lane of the stream has become live: leave this one, and keep that one alive."""
    FINISH = "finish"
    """End the task with success and leave the stream as it is."""


PASSIVE: Final = frozenset({Action.WATCH, Action.WAIT, Action.PARK})
"""Steps during which a task stays deferred."""

STOP_MARGIN: Final = timedelta(seconds=15)
"""Added to the grace of a stop: the driver's own shutdown after its queries have stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One step, with the reason in words.

    :param cause: For a launch: why.
    :param verdict: For a stop: what the health verdict behind it asked for; ``None`` for a stop
        that a person or a deployment wants.
    :param alerts: What has to be told before the step is taken.
    """

    action: Action
    reason: str
    cause: LaunchCause = LaunchCause.START
    verdict: Severity | None = None
    alerts: tuple[Alert, ...] = ()

    @property
    def is_passive(self) -> bool:
        """Tell whether a deferred task stays deferred."""
        return self.action in PASSIVE


def decide(situation: Situation) -> Step:
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
            reason="Another run of the dag waits to begin; it carries on. " + step.reason,
        )
    if step.is_passive and _rollover_is_due(situation):
        return Step(
            action=Action.FINISH,
            reason="The dag run has reached its rollover age; the next run carries on. "
            + step.reason,
        )
    return replace(step, alerts=alerts)


def _untold(s: Situation, step: Step, verdict: Verdict | None) -> tuple[Alert, ...]:
    if step.action is Action.FOLLOW or _has_vanished(s):
        # Nobody asks any more how it goes there, or there is nothing to be seen.
        return ()
    return untold(s, verdict, blocked=step.reason if step.action is Action.BLOCKED else None)


def _decide(s: Situation, verdict: Verdict | None) -> Step:
    if _has_vanished(s):
        return Step(
            action=Action.WATCH,
            reason=f"Epoch {s.watched} is no longer in the home. Waiting for it to be back.",
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


def _beside(s: Situation, change: ChangeInProgress, step: Step) -> Step:
    # A person who wants it stopped gets it at once, by whoever looks first: stopping loses nothing,
    # and the change finds it stopped. All else is the change's alone.
    if s.desired is DesiredState.STOPPED:
        return replace(step, reason=f"{step.reason} {change}")
    return Step(action=Action.WATCH, reason=f"{change} {step.reason}")


def _has_vanished(s: Situation) -> bool:
    # An unmounted folder looks like an empty one, a restored one like the past; the driver may well
    # be alive.
    return s.watched is not None and (s.seen is None or s.seen.epoch.number < s.watched)


def _with_driver(s: Situation, seen: Observation, verdict: Verdict) -> Step:
    if verdict.state is VerdictState.UNREACHABLE:
        # Spark does not fence: a driver nobody can see may still write. Silence is no proof.
        return Step(action=Action.BLOCKED, reason=verdict.reason)
    if verdict.state is VerdictState.HUNG and (s.stop is not None or not _blackout(s)):
        return Step(action=Action.KILL, reason=verdict.reason)
    if s.stop is not None:
        return _stopping(s, seen, s.stop)
    if s.desired is DesiredState.STOPPED:
        return Step(action=Action.STOP, reason="The stream is wanted stopped.")
    if s.deployment is not None and seen.epoch.deployment != s.deployment.number:
        return Step(action=Action.STOP, reason=_replaced(s.deployment, seen))
    if _is_forgotten(s, seen):
        return Step(action=Action.STOP, reason="It waits at the barrier, and nobody lets it go on.")
    return _on_verdict(s, verdict)


def _is_forgotten(s: Situation, seen: Observation) -> bool:
    # Whoever had it wait at the barrier is gone, and it would wait for ever. A usual start goes on
    # from the same place: what has still to be absorbed, and the numbers, are in its claims.
    is_waiting = seen.status is not None and seen.status.standby and not s.may_stand_by
    return is_waiting and (s.change is None or s.change.is_overdue(s.now))


def _on_verdict(s: Situation, verdict: Verdict) -> Step:
    if verdict.severity is None or verdict.severity is Severity.ALERT:
        return Step(action=Action.WATCH, reason=verdict.reason)
    if verdict.severity is Severity.RESTART and (until := _blackout(s)) is not None:
        return Step(
            action=Action.WATCH,
            reason=f"{verdict.reason} A restart waits until the blackout ends at "
            f"{until:%Y-%m-%d %H:%M %Z}.",
        )
    return Step(action=Action.STOP, reason=verdict.reason, verdict=verdict.severity)


def _blackout(s: Situation) -> datetime | None:
    return s.policy.blackout_until(s.now) if s.desired is DesiredState.RUNNING else None


def _stopping(s: Situation, seen: Observation, stop: StopRequest) -> Step:
    overdue = timedelta(seconds=stop.grace_seconds) + STOP_MARGIN
    if s.stopping_for < overdue:
        return Step(action=Action.WATCH, reason=f"Waiting for the driver to stop: {stop.reason}")
    if seen.process.state is ProcessState.UNSEEN:
        return Step(
            action=Action.BLOCKED,
            reason=f"Driver of epoch {seen.epoch.number} does not answer the stop request and "
            f"cannot be looked at: {seen.process.detail}.",
        )
    return Step(
        action=Action.KILL,
        reason=f"Driver of epoch {seen.epoch.number} has not stopped in "
        f"{overdue.total_seconds():.0f} s.",
    )


def _without_driver(s: Situation, verdict: Verdict | None) -> Step:
    if s.desired is DesiredState.STOPPED:
        return Step(action=Action.PARK, reason="The stream is wanted stopped.")
    if verdict is not None and verdict.state is VerdictState.COMPLETED and _was_watched(s):
        return Step(action=Action.FINISH, reason=verdict.reason)
    if s.circuit is not None and s.circuit.holds(s.seen.epoch.number if s.seen else None):
        return _circuit_open(s, s.circuit)
    if s.seen is None or verdict is None:
        return Step(
            action=Action.LAUNCH, reason="The stream has never run.", cause=LaunchCause.FIRST
        )
    if verdict.state is VerdictState.COMPLETED or (s.stop is not None and _is_wanted(s, s.stop)):
        # A driver that was asked to stop and had to be killed has not failed either. One that
        # stopped unasked counts as a failure: whatever signals it may do so again and again.
        return Step(action=Action.LAUNCH, reason=verdict.reason)
    return _after_failure(s, s.seen, verdict)


def _is_wanted(s: Situation, stop: StopRequest) -> bool:
    # A person who has stopped the stream and started it again since a verdict asked for its end has
    # the last word: the verdict's end is neither a failure then nor a reason to give up.
    is_overtaken = stop.wish is not None and s.wish > stop.wish
    return stop.verdict is None or is_overtaken


def _circuit_open(s: Situation, circuit: Circuit) -> Step:
    wait = s.policy.half_open_after
    if wait is not None and s.now - circuit.at >= wait:
        return Step(
            action=Action.LAUNCH,
            reason=f"Half-open: one try after {wait.total_seconds():.0f} s.",
            cause=LaunchCause.TRIAL,
        )
    return Step(action=Action.PARK, reason=f"The circuit is open: {circuit.reason}")


def _after_failure(s: Situation, seen: Observation, verdict: Verdict) -> Step:
    if s.circuit is not None and s.circuit.epoch == seen.epoch.number:
        return Step(
            action=Action.LAUNCH,
            reason=f"{s.circuit.by} closed the circuit: {s.circuit.reason}",
        )
    if s.deployment is not None and seen.epoch.deployment != s.deployment.number:
        return Step(action=Action.LAUNCH, reason=_replaced(s.deployment, seen))
    if s.decision is None or s.decision.action is RestartAction.GIVE_UP:
        # Given up, yet no circuit opened for this epoch: whoever decided died in between.
        return Step(action=Action.SETTLE, reason=verdict.reason)
    if s.decision.is_waiting(s.now):
        return Step(
            action=Action.WAIT,
            reason=f"Restart after failure {s.decision.consecutive_failures} in a row is due at "
            f"{s.decision.next_attempt_at:%H:%M:%S} UTC.",
        )
    return Step(action=Action.LAUNCH, reason=verdict.reason, cause=LaunchCause.RESTART)


def _replaced(deployment: Deployment, seen: Observation) -> str:
    return (
        f"Deployment {deployment.number} replaces deployment {seen.epoch.deployment}, which epoch "
        f"{seen.epoch.number} runs."
    )


def _was_watched(s: Situation) -> bool:
    return s.seen is not None and s.watched == s.seen.epoch.number


def _rollover_is_due(s: Situation) -> bool:
    return s.rollover_after is not None and s.run_age >= s.rollover_after
