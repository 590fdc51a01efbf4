"""
State → act: what the next act of an upgrade is.

The law of this file: whoever works on an upgrade asks the same function, after every act. So a task
may die on any line and two may be at it at once: the next look finds the records and comes to the
next act. Two decisions are made once and for all by a record that only one can create: to apply or
to abort, and to keep or to roll back.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.control import DesiredState
from airflow_streaming.core.epoch import LaunchCause
from airflow_streaming.core.health import judge
from airflow_streaming.core.steering import Action, decide
from airflow_streaming.core.upgrade.soak import SoakResult
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act, Birth, UpgradeAct, UpgradeState
from airflow_streaming.core.verdict import VerdictState


def next_act(state: UpgradeState) -> UpgradeAct:
    """Return the next act of an upgrade."""
    if state.is_closed:
        return _act(Act.NOTHING, "The change is closed.")
    if state.has(Stage.ABORTED):
        return _aborted(state)
    if state.has(Stage.KEPT) or state.has(Stage.ROLLED_BACK):
        return _act(Act.END, "All is done.")
    if state.has(Stage.ROLLING_BACK):
        return _rolling_back(state)
    if state.has(Stage.APPLYING):
        return _applied(state)
    return _before(state)


def _before(s: UpgradeState) -> UpgradeAct:
    if s.newest != s.change.replaced:
        return _act(Act.ABORT, "Another deployment was made meanwhile.")
    if s.situation.desired is DesiredState.STOPPED:
        return _act(Act.ABORT, "The stream is wanted stopped.")
    if not s.has(Stage.BACKED_UP):
        return _act(Act.BACK_UP, "A backup is taken before anything is touched.")
    if s.has(Stage.STOPPED):
        if not s.is_fenced:
            return _act(Act.ABORT, "Somebody else has started a driver meanwhile.")
        return _act(Act.APPLY, "All is ready for the new deployment.")
    down = _bring_down(s, stopping(s.change.number))
    return down or _act(Act.BACK_UP_AGAIN, "The old driver is gone; what it left is backed up.")


def _applied(s: UpgradeState) -> UpgradeAct:
    if s.is_overtaken:
        return _act(Act.ROLL_BACK, "Another deployment was made meanwhile.")
    if not s.has(Stage.LAUNCHED):
        return _launching(s)
    if not s.has(Stage.JUDGED):
        return _soaking(s)
    return _judged(s)


def _launching(s: UpgradeState) -> UpgradeAct:
    if s.has_new_driver and s.birth is Birth.BORN:
        # First of all: whether there is a way back hangs on what it has committed.
        return _act(Act.RECORD_LAUNCH, "The new driver was started.")
    if s.situation.desired is DesiredState.STOPPED:
        return _act(Act.ROLL_BACK, "The stream is wanted stopped.")
    if not s.has(Stage.DEPLOYED):
        return _act(Act.DEPLOY, "The new deployment becomes the current one.")
    if s.newest != s.change.deployment:
        return _act(Act.WAIT, "The home does not list the new deployment yet.")
    if s.has_new_driver:
        return _delivery(s) or _act(Act.WAIT, "The driver is being started.")
    if s.fence is not None and s.fence.number == s.first_fence:
        return _act(Act.LAUNCH, f"Upgrade to deployment {s.change.deployment}.")
    return _act(Act.ROLL_BACK, "Somebody else has started a driver meanwhile.")


def _delivery(s: UpgradeState, act: Act = Act.LAUNCH) -> UpgradeAct | None:
    """Return what to do for an epoch without a driver; ``None`` when it has, or had, one."""
    cause = LaunchCause.UPGRADE if act is Act.LAUNCH else LaunchCause.ROLLBACK
    match s.birth:
        case Birth.AWAITED:
            return _awaited(s)
        case Birth.NEVER:
            reason = "Whoever began the last epoch died before its driver was started."
            return UpgradeAct(act=act, reason=reason, cause=cause)
    return None


def _awaited(s: UpgradeState) -> UpgradeAct:
    seen = s.situation.seen
    verdict = None if seen is None else judge(seen, s.situation.rules)
    if seen is None or verdict is None or verdict.state is not VerdictState.UNREACHABLE:
        return _act(Act.WAIT, "The driver is being started.")
    # Whoever was about to start it may have died with its host; from here nobody can tell.
    return _act(
        Act.ASK,
        f"{verdict.reason} Make its host answer, or say that it is gone: airflow-streaming "
        f"declare-dead {s.change.stream} --epoch {seen.epoch.number} --reason TEXT",
    )


def _soaking(s: UpgradeState) -> UpgradeAct:
    if s.situation.desired is DesiredState.STOPPED and s.can_go_back:
        return _act(Act.ROLL_BACK, "The stream is wanted stopped before the soak has ended.")
    if s.soak is None or s.soak.result is SoakResult.UNDECIDED:
        return _act(Act.WAIT, s.soak.reason if s.soak else "The figures are not known yet.")
    return _act(Act.JUDGE, s.soak.reason)


def _judged(s: UpgradeState) -> UpgradeAct:
    judged = s.reached[Stage.JUDGED]
    is_good = judged.facts.get("verdict") == SoakResult.GOOD
    if not is_good and s.can_go_back:
        return _act(Act.ROLL_BACK, judged.reason)
    if not is_good:
        reason = f"{judged.reason} There is no way back: {s.terms.rollback.reason}"
        return _act(Act.KEEP, reason)
    ended = _ended(s)
    if ended and s.can_go_back and s.situation.desired is DesiredState.RUNNING:
        return _act(Act.ROLL_BACK, f"After a good soak its driver ended: {ended}")
    if s.terms.keeps_by_itself:
        return _act(Act.KEEP, judged.reason)
    return _act(Act.ASK, f"{judged.reason} Somebody has to say whether it is kept or rolled back.")


def _rolling_back(s: UpgradeState) -> UpgradeAct:
    if s.is_overtaken:
        return _act(Act.SETTLE, "Another deployment was made meanwhile; it is left as it is.")
    if not s.has(Stage.RESTORED):
        return _putting_back(s)
    if s.newest != s.back:
        return _act(Act.DEPLOY_OLD, f"Deployment {s.change.replaced} is put back.")
    epoch = s.epoch
    if s.situation.desired is DesiredState.STOPPED:
        return _act(Act.SETTLE, "The old deployment is back; the stream is wanted stopped.")
    if epoch is not None and epoch.deployment == s.back:
        return _delivery(s, Act.LAUNCH_OLD) or _act(Act.SETTLE, "The old deployment is back.")
    reason = f"Roll back to deployment {s.change.replaced}."
    return _bring_down(s, reason) or _launch_old(reason)


def _putting_back(s: UpgradeState) -> UpgradeAct:
    down = _bring_down(s, s.reached[Stage.ROLLING_BACK].reason)
    if down is not None:
        return down
    if s.newest == s.change.replaced:
        # Somebody may be about to record it: the number must not be left open for him.
        return _act(Act.DEPLOY, "The new deployment is recorded before the old one returns.")
    if s.has(Stage.LEFT):
        return _act(Act.RESTORE, "Checkpoint and sinks stay as they are.")
    if not s.can_go_back:
        return _act(
            Act.ASK,
            "The new deployment has committed a batch, and there is no way back: "
            f"{s.terms.rollback.reason} {way_out(s.change.stream)}",
        )
    return _act(Act.RESTORE, "Checkpoint and sinks are put back.")


def _aborted(s: UpgradeState) -> UpgradeAct:
    seen, reason = s.situation.seen, s.reached[Stage.ABORTED].reason
    is_ours = seen is not None and s.situation.stop is not None and _stopped_by(s)
    if s.situation.desired is DesiredState.STOPPED or seen is None:
        return _act(Act.END, reason)
    if seen.epoch.cause is LaunchCause.ROLLBACK and seen.epoch.change == s.change.number:
        return _delivery(s, Act.LAUNCH_OLD) or _act(Act.END, reason)
    if not is_ours:
        return _act(Act.END, reason)
    if s.situation.circuit is not None and s.situation.circuit.holds(seen.epoch.number):
        return _act(Act.END, f"{reason} The circuit was open before and keeps the stream down.")
    if not judge(seen, s.situation.rules).has_ended:
        down = _bring_down(s, reason)
        return down or _act(Act.END, reason)
    return _launch_old(f"Change {s.change.number} was given up: {reason}")


def _stopped_by(s: UpgradeState) -> bool:
    # What somebody else asked to stop is none of ours to start again.
    stop = s.situation.stop
    return s.fence is not None or (stop is not None and stop.reason == stopping(s.change.number))


def stopping(change: int) -> str:
    """Return the reason with which an upgrade stops the old driver."""
    return f"Change {change} upgrades the stream."


def way_out(stream: str) -> str:
    """Return how a person ends a rollback of which nothing can be put back."""
    return (
        "If that cannot be helped, put it in order by hand and end the upgrade with the stream "
        f"stopped: airflow-streaming upgrade leave {stream} --reason TEXT"
    )


def _bring_down(s: UpgradeState, reason: str) -> UpgradeAct | None:
    """Return the next act towards a driver that is gone and fenced; ``None`` when it is."""
    if s.epoch is None:
        # An unmounted folder looks like an empty one; it had an epoch when this was begun.
        return _act(Act.WAIT, "The stream's epochs are no longer in the home.")
    if s.is_fenced:
        return None
    if s.fence is not None:
        return _act(Act.FENCE, reason)
    stopped = replace(
        s.situation, desired=DesiredState.STOPPED, change=None, tells=False, rollover_after=None
    )
    step = decide(replace(stopped, successor_waits=False))
    match step.action:
        case Action.STOP:
            return _act(Act.STOP, reason)
        case Action.KILL:
            return _act(Act.KILL, step.reason)
        case Action.PARK:
            return _act(Act.FENCE, reason)
        case Action.BLOCKED:
            return _act(Act.ASK, step.reason)
    return _act(Act.WAIT, step.reason)


def _ended(s: UpgradeState) -> str:
    seen = s.situation.seen
    verdict = None if seen is None else judge(seen, s.situation.rules)
    return verdict.reason if verdict is not None and verdict.has_ended else ""


def _launch_old(reason: str) -> UpgradeAct:
    return UpgradeAct(act=Act.LAUNCH_OLD, reason=reason, cause=LaunchCause.ROLLBACK)


def _act(act: Act, reason: str) -> UpgradeAct:
    return UpgradeAct(act=act, reason=reason)
