"""
Judges of the driver as a process, which ask whether it is there and whether it answers.

Each returns a verdict, or ``None`` when the question is not its own. "Slow" is not "dead", and
"could not look" is not "failed".
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow_streaming.core.epoch import LaunchCause, Outcome
from airflow_streaming.core.observation import Observation, ProcessState
from airflow_streaming.core.rules.rule import Finding, RuleState, Severity
from airflow_streaming.core.stillness import BUSY_SHARE
from airflow_streaming.core.verdict import Verdict, VerdictState

SPAWN_GRACE: Final = timedelta(seconds=30)
"""Between creating an epoch and recording its driver a launcher needs milliseconds; this is how
long another task takes it for still at work."""


def judge_spawning(seen: Observation) -> Verdict | None:
    """Say whether the driver is only being started."""
    if not _is_being_spawned(seen):
        return None
    return Verdict(
        state=VerdictState.STARTING,
        reason=f"Epoch {seen.epoch.number} was begun moments ago; its driver is being started.",
    )


def judge_end(seen: Observation) -> Verdict | None:
    """Say how the driver ended, if it is proved gone."""
    return _judge_dead(seen) if seen.is_dead else None


def judge_silence(
    seen: Observation,
    *,
    hang_after: timedelta,
    suspended_after: timedelta,
    busy_hang_after: timedelta,
    startup_timeout: timedelta,
) -> Verdict | None:
    """Say what a heartbeat that stands still means; the parameters are those of the rules."""
    silent = seen.silent_for
    words = (
        f"Driver of epoch {seen.epoch.number} has been silent for {silent.total_seconds():.0f} s"
    )
    detail = seen.process.detail
    if _is_suspended(seen, suspended_after):
        return _silent(seen, VerdictState.HUNG, f"{words} and is suspended ({detail}).")
    if silent < (startup_timeout if seen.status is None else hang_after):
        return None
    if seen.process.state is ProcessState.UNSEEN:
        return _silent(
            seen, VerdictState.UNREACHABLE, f"{words} and cannot be looked at: {detail}."
        )
    if _is_busy(seen, hang_after) and silent < busy_hang_after:
        return _silent(seen, VerdictState.SLOW, f"{words} but uses CPU time.")
    return _silent(seen, VerdictState.HUNG, f"{words} ({detail}).")


def _silent(seen: Observation, state: VerdictState, reason: str) -> Verdict:
    since = seen.now - seen.silent_for
    severity = Severity.RESTART if state is VerdictState.HUNG else Severity.ALERT
    finding = Finding(
        rule=state.value,
        state=RuleState.FIRING,
        severity=severity,
        query="",
        reason=reason,
        figure=seen.silent_for.total_seconds(),
        since=since,
    )
    return Verdict(
        state=state,
        reason=reason,
        rule=state.value,
        since=since,
        severity=severity,
        findings=(finding,),
    )


def _judge_dead(seen: Observation) -> Verdict:
    number = seen.epoch.number
    if seen.exit is not None:
        state = {
            Outcome.COMPLETED: VerdictState.COMPLETED,
            Outcome.STOPPED: VerdictState.STOPPED,
            Outcome.FENCED: VerdictState.STOPPED,
            Outcome.FAILED: VerdictState.FAILED,
        }[seen.exit.outcome]
        return Verdict(
            state=state, reason=closed(f"Driver of epoch {number} ended: {seen.exit.reason}")
        )
    if seen.epoch.cause is LaunchCause.FENCE:
        reason = f"Epoch {number} is a fence, for which no driver is started: {seen.epoch.reason}"
        return Verdict(state=VerdictState.STOPPED, reason=closed(reason))
    proof = seen.death.evidence if seen.death is not None else seen.process.detail
    return Verdict(
        state=VerdictState.DEAD,
        reason=closed(f"Driver of epoch {number} is gone and left no exit record: {proof}"),
    )


def _is_being_spawned(seen: Observation) -> bool:
    # Another task may be between "epoch created" and "driver recorded". Taking the next epoch now
    # would fence a driver that has not even begun. The age may be negative: clocks get set back.
    traces = (seen.launch, seen.status, seen.exit, seen.death)
    unborn = all(trace is None for trace in traces)
    return unborn and abs(seen.now - seen.epoch.created_at) < SPAWN_GRACE


def _is_suspended(seen: Observation, suspended_after: timedelta) -> bool:
    # Both have to last: a heartbeat that was late anyway says nothing of a short stop.
    lasts = seen.silent_for if seen.suspended_for is None else seen.suspended_for
    is_suspended = seen.process.state is ProcessState.SUSPENDED
    return is_suspended and min(lasts, seen.silent_for) >= suspended_after


def _is_busy(seen: Observation, hang_after: timedelta) -> bool:
    if seen.exit is not None:
        # After its last word a driver has nothing to be busy with.
        return False
    if seen.flat_for is not None:
        return seen.flat_for < hang_after
    used = seen.cpu_in_silence
    return used is not None and used > BUSY_SHARE * seen.silent_for.total_seconds()


def closed(sentence: str) -> str:
    """Return the sentence with a full stop."""
    # Last words and evidence come from outside, with or without a full stop.
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
