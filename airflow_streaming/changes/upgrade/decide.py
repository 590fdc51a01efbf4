"""
Decide the next move of an upgrade from its view.

A rollback needs the home, the backup store and two things that only the DAG has. One is the
stream's spec with its secrets, which starts a driver: the keep-alive task does that. The other is
the author's function that takes batches back out of a sink: without it the checkpoint would go back
alone, and rows would be lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from airflow_streaming.changes.judging.soak import SoakResult
from airflow_streaming.changes.lane_ground import step_down, under_change
from airflow_streaming.changes.upgrade.state import COPY, Do, LaunchStatus, Move, UpgradeView
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.upgrade import RollbackMethod, SinkFacts, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeEvent, WarmUp
from airflow_streaming.model.spark.plan import KAFKA
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.standby import WARM_PATIENCE, StandbyState, state_of

E = UpgradeEvent
REPARTITION_WITHIN: Final = timedelta(minutes=30)
"""How long the Spark may take that changes the number of state partitions; the stream is down."""
REPARTITION_PATIENCE: Final = REPARTITION_WITHIN + timedelta(minutes=1)
"""After this it counts as failed; the margin is for clocks that differ."""
MIGRATION_WITHIN: Final = timedelta(hours=1)
"""How long a migration of the state may take; the stream is down."""
MIGRATION_PATIENCE: Final = MIGRATION_WITHIN + timedelta(minutes=5)
"""After this it counts as failed. A late one does no harm: its copy is in a place of its own."""
MOST_MIGRATIONS: Final = 3
"""Attempts of one run, whose workers were killed."""
_WITHOUT_FUNCTION: Final = frozenset(
    {SinkReplaySemantics.FILE_LOG, SinkReplaySemantics.NOTHING, SinkReplaySemantics.OVERWRITES}
)
"""Habits of sinks that are in step again with no help of their author."""


def why_only_dag(terms: UpgradeTerms, stages: Container[Stage]) -> str:
    """Return why only the dag can take an upgrade back; empty when that needs nothing of it."""
    is_put_back = Stage.RESTORED in stages or Stage.LEFT in stages
    if (
        Stage.APPLYING not in stages
        or is_put_back
        or terms.rollback.way is not RollbackMethod.REWIND
    ):
        return ""
    asking = needs_function(terms.sinks)
    if not asking:
        return ""
    return (
        f"the sink of query {', '.join(map(repr, asking))} is rewound by a function of the DAG "
        "(rewind_with), which is not available here. Clear the failed task of the upgrade's run, or "
        "start a run of the upgrade DAG: it finishes the rollback first."
    )


def needs_function(sinks: Sequence[SinkFacts]) -> list[str]:
    """Return the queries whose sinks only a function of their author may put back in step."""
    return [
        facts.query
        for facts in sinks
        # Kafka's only loss is repeated rows, which need acceptance and no function.
        if facts.habit not in _WITHOUT_FUNCTION and facts.sink != KAFKA
    ]


def next_move(view: UpgradeView) -> Move:
    """Return the next move of an upgrade."""
    if view.is_closed:
        return _move(Do.NOTHING, "The change is closed.")
    if view.standby is not None and not view.keeps_standby:
        now, number = view.situation.now, view.standby.epoch.number
        if state_of(view.standby, now) not in (StandbyState.ENDED, StandbyState.PROMOTED):
            return _move(Do.RETIRE, f"The upgrade no longer needs standby {number}.")
    return _BY_STAGE[view.state](view)


def _closing(s: UpgradeView) -> Move:
    return _move(Do.CLOSE, s.history[-1].reason)


def _before(s: UpgradeView) -> Move:
    if s.newest != s.change.replaced:
        return _take(E.SPEC_CHANGED, "Another task created a deployment.")
    if s.situation.desired is DesiredState.STOPPED:
        return _take(E.STOP_WANTED, 'Desired state is "stopped".')
    if not s.has(Stage.BACKED_UP):
        return _move(Do.BACK_UP, "Taking a backup before anything is changed.")
    if s.has(Stage.STOPPED):
        if not s.is_fenced:
            return _take(E.DRIVER_CHANGED, "Another task has started a driver.")
        return _take(E.APPLY, "All is ready for the new deployment.")
    if s.state is Stage.BACKED_UP and s.terms.prewarm:
        return _warming(s)
    down = _bring_down(s, f"Change {s.change.number} upgrades the stream.")
    return down or _move(
        Do.BACK_UP_AGAIN, "The old driver is dead; backing up its last batch boundary."
    )


def _warming(s: UpgradeView) -> Move:
    """Return the next act towards a driver at the barrier, or the step that does without one."""
    if s.situation.is_standby_unreadable:
        return _cold(WarmUp.UNREADABLE, "A record of a standby driver is damaged.")
    standby, ended = s.standby, _ended(s)
    number = standby.epoch.number if standby else 0
    state = state_of(standby, s.situation.now) if standby else None
    if state is StandbyState.WARM:
        return _move(Do.REFRESH, f"Standby {number} waits at the barrier.")
    if ended:
        return _cold(WarmUp.OLD_ENDED, f"The old driver ended while the new one started: {ended}")
    if standby is None:
        reason = f"Warm-up for change {s.change.number}, deployment {s.change.deployment}."
        return _move(Do.WARM_UP, reason)
    age = age_of(standby.epoch.created_at, s.situation.now)
    if state is StandbyState.ENDED:
        return _cold(WarmUp.ENDED, f"Standby {number} ended before it came to the barrier.")
    if state is StandbyState.SILENT:
        return _cold(WarmUp.SILENT, f"Standby {number} does not beat.")
    if age >= WARM_PATIENCE:
        late = f"Standby {number} has not come to the barrier in {duration_text(WARM_PATIENCE)}."
        return _cold(WarmUp.TOO_LATE, late)
    return _move(Do.WAIT, f"The new deployment is warmed up: standby {number} is {state}.")


def _cold(code: WarmUp, reason: str) -> Move:
    return cold_start(code, f"{reason} The new driver is started once the old one has stopped.")


def cold_start(code: WarmUp, reason: str) -> Move:
    """Return the step with which an upgrade continues without a warmed driver."""
    return _take(E.WARM_UP_FAILED, reason, {"warm_up": code.value})


def _applied(s: UpgradeView) -> Move:
    if s.is_overtaken:
        return _take(E.SPEC_CHANGED, "Another task created a deployment.")
    return _AFTER_APPLYING[s.state](s)


def _launching(s: UpgradeView) -> Move:
    is_deployed = s.state is Stage.DEPLOYED
    if is_deployed and s.has_new_driver and s.birth is LaunchStatus.BORN and not s.is_held:
        # First, because its commits decide whether a way back exists.
        return _new_started(s)
    if s.situation.desired is DesiredState.STOPPED:
        return _take(E.STOP_WANTED, 'Desired state is "stopped".')
    if s.must_repartition:
        return _move(Do.REPARTITION, f"State gets {s.terms.partitions} partitions.")
    if s.must_migrate:
        return _migration("The state is migrated.")
    if not is_deployed:
        return _move(Do.DEPLOY, "The new deployment becomes the current one.")
    if s.newest != s.change.deployment:
        return _move(Do.WAIT, "The home does not list the new deployment yet.")
    if s.has_new_driver and s.is_held:
        return _held(s)
    if s.has_new_driver:
        return _delivery(s) or _move(Do.WAIT, "The driver is being started.")
    if s.fence is not None and s.fence.number == s.first_fence:
        return replace(
            _move(Do.LAUNCH, f"Upgrade to deployment {s.change.deployment}."),
            promotes=_promotable(s),
        )
    return _take(E.DRIVER_CHANGED, "Another task has started a driver.")


def _repartitioning(s: UpgradeView) -> Move:
    partitions = s.terms.partitions
    if s.is_repartitioned:
        return _take(E.REPARTITION_DONE, f"All state has {partitions} partitions.")
    begun = s.reached[Stage.REPARTITIONING]
    if age_of(begun.at, s.situation.now) < REPARTITION_PATIENCE:
        return _move(
            Do.WAIT, f"Spark, started by {begun.by}, gives the state {partitions} partitions."
        )
    # The one started Spark has ended itself by now.
    return _take(
        E.REPARTITION_FAILED,
        f"State did not get {partitions} partitions within {duration_text(REPARTITION_PATIENCE)}.",
        {"condition": "TIMEOUT"},
    )


def _migrating(s: UpgradeView) -> Move:
    begun = s.reached[Stage.MIGRATING]
    if s.is_migrated:
        return _take(E.MIGRATION_DONE, "The migrated copy is proved.", {COPY: begun.facts[COPY]})
    if s.is_own_migration and s.attempts < MOST_MIGRATIONS:
        return _migration(
            f"The worker of attempt {s.attempts} is gone; the state is migrated anew."
        )
    if not s.is_own_migration and age_of(begun.at, s.situation.now) < MIGRATION_PATIENCE:
        return _move(Do.WAIT, f"Spark, started by {begun.by}, writes a migrated copy.")
    return _take(
        E.MIGRATION_FAILED,
        f"No migrated copy was proved after {s.attempts} attempts of a run; each may take "
        f"{duration_text(MIGRATION_PATIENCE)}.",
        {"condition": "TIMEOUT"},
    )


def _migration(reason: str) -> Move:
    return _move(Do.MIGRATE, reason)


def _promotable(s: UpgradeView) -> int | None:
    standby = s.standby if s.keeps_standby else None
    is_warm = standby and state_of(standby, s.situation.now) is StandbyState.WARM
    return standby.epoch.number if standby and is_warm else None


def _new_started(s: UpgradeView) -> Move:
    epoch = s.epoch
    facts = {"epoch": str(epoch.number if epoch else 0)}
    is_promoted = epoch is not None and epoch.promotes is not None
    reason = f"The new driver was started. It is epoch {facts['epoch']}."
    if is_promoted:
        reason = f"The warmed driver was released. It is epoch {facts['epoch']}."
    elif s.warm_up is WarmUp.WARM:
        facts["warm_up"] = WarmUp.LOST.value
        reason = f"The warmed driver was lost. {reason}"
    return _take(E.NEW_STARTED, reason, facts)


def _held(s: UpgradeView) -> Move:
    """Return what to do for a promoted driver that was never released: it has written nothing."""
    seen = s.situation.seen
    verdict = None if seen is None else judge(seen, s.situation.rules)
    if verdict is not None and verdict.has_ended:
        reason = f"The warmed driver ended before it was released: {verdict.reason}"
        return _move(Do.LAUNCH, reason)
    if verdict is not None and verdict.state is VerdictState.UNREACHABLE:
        return _awaited(s)
    if verdict is not None and verdict.state is VerdictState.HUNG:
        return _move(Do.KILL, verdict.reason)
    if seen is not None and seen.exit is not None:
        return _move(Do.WAIT, "The warmed driver ends before it is released.")
    return _move(Do.RELEASE, "The warmed driver waits at the barrier.")


def _delivery(s: UpgradeView, do: Do = Do.LAUNCH) -> Move | None:
    """Return what to do for an epoch without a driver; ``None`` when it has, or had, one."""
    cause = LaunchCause.UPGRADE if do is Do.LAUNCH else LaunchCause.ROLLBACK
    match s.birth:
        case LaunchStatus.AWAITED:
            return _awaited(s)
        case LaunchStatus.NEVER:
            reason = "The task that recorded the last epoch died before it started the driver."
            return Move(do=do, reason=reason, cause=cause)
    return None


def _awaited(s: UpgradeView) -> Move:
    seen = s.situation.seen
    verdict = None if seen is None else judge(seen, s.situation.rules)
    if seen is None or verdict is None or verdict.state is not VerdictState.UNREACHABLE:
        return _move(Do.WAIT, "The driver is being started.")
    # The task that was about to start it may have died with its host, which is not visible here.
    return _move(
        Do.ASK,
        f"{verdict.reason} Bring its host back, or confirm that the driver is dead: airflow-streaming "
        f"declare-dead {s.change.stream} --epoch {seen.epoch.number} --reason TEXT",
    )


def _soaking(s: UpgradeView) -> Move:
    if s.situation.desired is DesiredState.STOPPED and s.can_go_back:
        return _take(E.STOP_WANTED, 'Desired state became "stopped" before the end of the soak.')
    if s.soak is None or s.soak.result is SoakResult.UNDECIDED:
        return _move(Do.WAIT, s.soak.reason if s.soak else "The figures are not known yet.")
    if s.soak.result is SoakResult.UNPROVED:
        return _move(
            Do.ASK,
            f"{s.soak.reason} The soak continues. To end it: airflow-streaming upgrade keep or roll-back "
            f"{s.change.stream} --reason TEXT",
        )
    figures = {f"soak.{query}": told for query, told in s.soak.figures.items()}
    return _take(E.SOAK_ENDED, s.soak.reason, {"verdict": s.soak.result.value, **figures})


def _judged(s: UpgradeView) -> Move:
    judged = s.reached[Stage.JUDGED]
    is_good = judged.facts.get("verdict") == SoakResult.GOOD
    if not is_good and s.can_go_back:
        return _take(E.SOAK_FAILED, judged.reason)
    if not is_good:
        reason = f"{judged.reason} A rollback is not possible: {s.terms.rollback.reason}"
        return _take(E.NO_WAY_BACK, reason)
    ended = _ended(s)
    if ended and s.can_go_back and s.situation.desired is DesiredState.RUNNING:
        return _take(E.NEW_FAILED, f"After a good soak its driver ended: {ended}")
    if s.terms.keeps_by_itself:
        return _take(E.SOAK_PASSED, judged.reason)
    return _move(
        Do.ASK, f"{judged.reason} An operator must decide whether it is kept or rolled back."
    )


def _rolling_back(s: UpgradeView) -> Move:
    if s.is_overtaken:
        return settled(
            s, "Another task created a deployment; it is left unchanged.", E.SPEC_CHANGED
        )
    if s.state is not Stage.RESTORED:
        return _putting_back(s)
    if s.newest != s.back:
        return _move(Do.DEPLOY_OLD, f"Restoring deployment {s.change.replaced}.")
    epoch = s.epoch
    if s.situation.desired is DesiredState.STOPPED:
        return settled(s, 'The old deployment is back; the stream\'s desired state is "stopped".')
    if epoch is not None and epoch.deployment == s.back:
        return _delivery(s, Do.LAUNCH_OLD) or settled(s, "The old deployment is back.")
    reason = f"Roll back to deployment {s.change.replaced}."
    return _bring_down(s, reason) or _launch_old(reason)


def _putting_back(s: UpgradeView) -> Move:
    down = _bring_down(s, s.reached[Stage.ROLLING_BACK].reason)
    if down is not None:
        return down
    if s.newest == s.change.replaced:
        # A task may be about to record it: the number must not be left open for it.
        return _move(Do.DEPLOY, "The new deployment is recorded before the old one returns.")
    if s.has(Stage.LEFT):
        return _move(Do.LEAVE, "Checkpoint and sinks stay as they are.")
    if not s.can_go_back:
        return _move(
            Do.ASK,
            "The new deployment has committed a batch, and a rollback is not possible: "
            f"{s.terms.rollback.reason} {way_out(s.change.stream)}",
        )
    return _move(Do.RESTORE, "Restoring checkpoint and sinks.")


def _aborted(s: UpgradeView) -> Move:
    seen, reason = s.situation.seen, s.reached[Stage.ABORTED].reason
    is_ours = seen is not None and s.situation.stop is not None and _stopped_by(s)
    if s.situation.desired is DesiredState.STOPPED or seen is None:
        return _move(Do.CLOSE, reason)
    if seen.epoch.cause is LaunchCause.ROLLBACK and seen.epoch.change == s.change.number:
        return _delivery(s, Do.LAUNCH_OLD) or _move(Do.CLOSE, reason)
    if not is_ours:
        return _move(Do.CLOSE, reason)
    if s.situation.circuit is not None and s.situation.circuit.holds(seen.epoch.number):
        return _move(Do.CLOSE, f"{reason} The circuit was open before and keeps the stream down.")
    if not judge(seen, s.situation.rules).has_ended:
        down = _bring_down(s, reason)
        return down or _move(Do.CLOSE, reason)
    return _launch_old(f"Change {s.change.number} was aborted: {reason}")


def _stopped_by(s: UpgradeView) -> bool:
    # A stop by another task is not ours to reverse.
    stop = s.situation.stop
    return s.fence is not None or (stop is not None and stop.change == s.change.number)


def way_out(stream: str) -> str:
    """Return how a user ends a rollback of which nothing can be put back."""
    return (
        "If that cannot be helped, put it in order by hand and end the upgrade with the stream "
        f"stopped: airflow-streaming upgrade leave {stream} --reason TEXT"
    )


def _bring_down(s: UpgradeView, reason: str) -> Move | None:
    """Return the next act towards a driver that is gone and fenced; ``None`` when it is."""
    if s.epoch is None:
        # An unmounted folder looks like an empty one; it had an epoch when this was begun.
        return _move(Do.WAIT, "The stream's epochs are missing from the home.")
    if s.is_fenced:
        return None
    if s.fence is not None:
        return _move(Do.FENCE, reason)
    stopped = under_change(s.situation, DesiredState.STOPPED)
    step = step_down(replace(stopped, wants_standby=False), reason)
    return _move(Do(step.act), step.reason)


def _ended(s: UpgradeView) -> str:
    seen = s.situation.seen
    verdict = None if seen is None else judge(seen, s.situation.rules)
    return verdict.reason if verdict is not None and verdict.has_ended else ""


def _launch_old(reason: str) -> Move:
    return Move(do=Do.LAUNCH_OLD, reason=reason, cause=LaunchCause.ROLLBACK)


def _move(do: Do, reason: str) -> Move:
    return Move(do=do, reason=reason)


def _take(event: UpgradeEvent, reason: str, facts: Mapping[str, str] | None = None) -> Move:
    return Move(do=Do.TAKE, reason=reason, event=event, facts=dict(facts or {}))


def settled(s: UpgradeView, reason: str, event: UpgradeEvent = UpgradeEvent.OLD_BACK) -> Move:
    """Return the step with which a rollback has come to its end."""
    why = s.reached[Stage.ROLLING_BACK].reason
    also = (
        f" {s.reached[Stage.RESTORED].reason}"
        if s.has(Stage.LEFT) and s.has(Stage.RESTORED)
        else ""
    )
    return _take(event, f"{why} {reason}{also}", {"deployment": str(s.newest)})


_AFTER_APPLYING: Final[Mapping[Stage, Callable[[UpgradeView], Move]]] = MappingProxyType(
    {
        Stage.APPLYING: _launching,
        Stage.REPARTITIONING: _repartitioning,
        Stage.REPARTITIONED: _launching,
        Stage.MIGRATING: _migrating,
        Stage.MIGRATED: _launching,
        Stage.DEPLOYED: _launching,
        Stage.LAUNCHED: _soaking,
        Stage.JUDGED: _judged,
    }
)
_BY_STAGE: Final[Mapping[Stage, Callable[[UpgradeView], Move]]] = MappingProxyType(
    {
        **dict.fromkeys((Stage.BEGUN, Stage.BACKED_UP, Stage.READY, Stage.STOPPED), _before),
        **dict.fromkeys(_AFTER_APPLYING, _applied),
        **dict.fromkeys((Stage.ROLLING_BACK, Stage.LEFT, Stage.RESTORED), _rolling_back),
        **dict.fromkeys((Stage.KEPT, Stage.ROLLED_BACK), _closing),
        Stage.ABORTED: _aborted,
    }
)
