"""Steps of the keep-alive task: deploy, wait, back up, apply."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.changes.upgrade.preflight_report import differences
from airflow_streaming.checkpoints.backup.stream_backup import (
    BackupRequest,
    backup_before,
    default_store,
)
from airflow_streaming.exceptions import CheckpointBusy, CheckpointError, SpecError, StreamingError
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks.checkpoint import BackupStoreHook, CheckpointHook
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.names import color_of, other_lane
from airflow_streaming.model.records.control import ChangeKind, ChangeOutcome, EventKind
from airflow_streaming.model.records.deployment import (
    Deployment,
    Override,
    ProposalAction,
    decide_proposal,
    outlives_request,
)
from airflow_streaming.operators.common.base import Log, ProgressLogger
from airflow_streaming.operators.common.gate import line_of
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.decide import Action, ReconcileInput
from airflow_streaming.task_errors import spec_errors_are_final
from airflow_streaming.triggers.stream import StreamTrigger

if TYPE_CHECKING:
    from airflow_streaming.home.home import Home
    from airflow_streaming.hooks.stream import SparkStreamHook

log: Final = logging.getLogger(__name__)


def back_up_before_upgrade(
    records: StreamHome,
    home: str,
    home_conn_id: str | None,
    *,
    store: str | None,
    by: str,
    log: Log,
) -> None:
    """
    Back up a stream whose deployment is about to be changed; nothing when it has no checkpoint.

    :param home: The home's URI.
    :param store: The backup store's URI; the home's own when not given.
    :raises AirflowFailException: it cannot be backed up as it is, so the deployment stays.
    :raises CheckpointBusy: trying again may help.
    """
    request = BackupRequest(
        origin=Origin.BEFORE_UPGRADE,
        by=by,
        open_folders=lambda uri: CheckpointHook(uri, home_conn_id).get_conn(),
        progress=ProgressLogger(log),
    )
    hook = BackupStoreHook(store or default_store(home), home_conn_id)
    opened = hook.get_conn(create=True, home=records.store)
    try:
        backup_before(records, opened, request)
    except CheckpointBusy:
        raise
    except CheckpointError as err:
        raise AirflowFailException(
            f"Stream {records.name!r} keeps its deployment, because it could not be backed up "
            f"before the change: {err} To change it all the same, turn backup_before_restart off."
        ) from err


def undone_by_a_person(streams: Home, home: StreamHome, proposed: Deployment) -> str:
    """
    Return why a proposal is not applied though the gates allow it: a change has ended otherwise.

    After a good upgrade or cutover a dag continues proposing the old deployment until a user writes
    the new one into it; after a rollback it proposes the rejected one. Empty in other cases.

    :param streams: The home, for the records of the other lane.
    :param home: The records of the lane to which it is proposed.
    """
    return _left_in_the_other_lane(streams, home, proposed) or _undone_upgrade(home, proposed)


def _left_in_the_other_lane(streams: Home, home: StreamHome, proposed: Deployment) -> str:
    # The other lane holds the deployment that the newest cutover has replaced or has rolled back.
    left = streams.stream(other_lane(home.name)).newest_deployment()
    if left is None:
        return ""
    same_place = replace(
        proposed, stream=left.stream, checkpoint=left.checkpoint, output=left.output
    )
    if same_place.fingerprint != left.fingerprint:
        return ""
    return (
        f"The {color_of(left.stream)} lane runs, or ran, this spec (deployment "
        f"{left.number}), and the {color_of(home.name)} lane is live: write the live lane's "
        "spec into the DAG."
    )


def _undone_upgrade(home: StreamHome, proposed: Deployment) -> str:
    upgrades = [one for one in home.changes() if one.what is ChangeKind.UPGRADE]
    end = home.change_end(upgrades[-1].number) if upgrades else None
    if end is None:
        return ""
    upgrade = upgrades[-1]
    try:
        left = home.deployment(upgrade.replaced)
        if end.outcome is not ChangeOutcome.DONE:
            left = home.terms(upgrade).proposed
    except StreamingError as err:
        return f"What change {upgrade.number} has decided cannot be read: {err}"
    # A deployment that was put back may lie on another checkpoint than the one it was.
    if replace(proposed, checkpoint=left.checkpoint).fingerprint != left.fingerprint:
        return ""
    if end.outcome is ChangeOutcome.DONE:
        return (
            f"It is what change {upgrade.number} has replaced, and the new deployment was kept: "
            "write that into the dag."
        )
    return (
        f"It is what change {upgrade.number} has tried, and that has ended "
        f"({end.outcome.value.replace('_', ' ')}): {end.reason}"
    )


def gates_on(hook: SparkStreamHook, current: Deployment) -> GateReport:
    """
    Return the report of the change gate and the version gate on the dag's proposal.

    It never raises: a running stream must be watched whether or not its successor can be judged. A
    failed gate answers *unknown*.
    """
    try:
        return _ask(hook, current)
    except Exception as err:
        log.exception("The proposal for stream %s could not be judged.", hook.home.name)
        return report_of(
            [
                GateFinding(
                    rule="gate.failed",
                    severity=GateDecision.UNKNOWN,
                    message=f"The gates failed to run: {err}",
                    remedy="Apply the proposal with restart=True, or as an upgrade.",
                )
            ]
        )


def _ask(hook: SparkStreamHook, current: Deployment) -> GateReport:
    from airflow_streaming.changes.upgrade.preflight import ask_gates
    from airflow_streaming.hooks.home import access_options  # not at dag parse

    candidate, _ = hook.candidate()
    options = access_options(hook.spec.home, hook.home_conn_id)
    return ask_gates(hook.home, current, candidate, storage_options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFactory:
    """
    The arguments of a task's trigger; the fields are the task's own.

    :param rollover_after: Age of the dag run at which the task is woken to end; ``None`` for never.
    """

    spec: StreamSpec
    home_conn_id: str | None
    poll_interval: timedelta
    rollover_after: timedelta | None

    def trigger(
        self,
        situation: ReconcileInput,
        *,
        lane: str,
        run_started_at: datetime | None,
        unable_to: Action | None = None,
        has_undelivered: bool = False,
    ) -> StreamTrigger:
        """
        Return the trigger.

        :param situation: The last look. Another epoch resumes the task.
        :param lane: The lane that is kept alive.
        :param unable_to: The step that failed, so that this step alone does not wake the task.
        :param has_undelivered: Alerts wait for their delivery.
        """
        seen, rollover = situation.seen, self.rollover_after
        # The task keeps the watched epoch while the home shows fewer epochs than before.
        is_here = seen is not None and not situation.is_other_home
        watched = max(seen.epoch.number if seen and is_here else 0, situation.watched or 0)
        is_newest = seen is not None and is_here and seen.epoch.number == watched
        return StreamTrigger(
            home=self.spec.home,
            stream=self.spec.name,
            home_conn_id=self.home_conn_id,
            deferred_at=datetime.now(UTC).isoformat(),
            poll_seconds=self.poll_interval.total_seconds(),
            watched=watched or None,
            mark=seen.epoch.mark if seen and is_newest else situation.mark,
            run_started_at=run_started_at.isoformat() if run_started_at else None,
            rollover_seconds=rollover.total_seconds() if rollover else None,
            blocked=unable_to is not None,
            unable_to=(unable_to or Action.BLOCKED).value,
            undelivered=has_undelivered,
            due_in_seconds=_due_in(situation),
            keeps=lane,
            standby=situation.wants_standby,
            autoscale=self.spec.autoscale.to_dict() if self.spec.autoscale else None,
        )


def _due_in(situation: ReconcileInput) -> float | None:
    decision, now = situation.decision, situation.now
    if decision is None or decision.next_attempt_at is None or not decision.is_waiting(now):
        return None
    return (decision.next_attempt_at - now).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploying:
    """
    Applies the proposal of the dag, or logs the reason against it.

    :param apply_allowed: Apply changes that the gates allow without a request by a user.
    :param backs_up: Back the checkpoints up before the running deployment is replaced; if that
        fails, the deployment stays.
    :param backup_store: URI of the store for it; ``<home>/_backups`` by default.
    """

    hook: SparkStreamHook
    log: Log
    apply_allowed: bool = False
    backs_up: bool = False
    backup_store: str | None = None

    def deploy(self, *, restart_asked: bool, run_started_at: datetime | None = None) -> None:
        """
        Apply the proposal if a user or the gates allow it, and log it otherwise.

        :param restart_asked: A user has started a run that applies it.
        :param run_started_at: When the DAG run of that user began; a newer deployment stays.
        :raises AirflowFailException: it cannot run, and no other deployment runs or a user
            requested it.
        """
        hook = self.hook
        with spec_errors_are_final():
            current = hook.home.newest_deployment()
        is_outlived = restart_asked and outlives_request(current, run_started_at)
        restart_asked = restart_asked and not is_outlived
        try:
            proposed, source = hook.proposal()
        except SpecError as err:
            if current is None or restart_asked:
                raise AirflowFailException(str(err)) from err
            # A broken release of the dag must not leave the running stream unwatched.
            message = f"The dag proposes what cannot run, so nothing changes: {err}"
            hook.controller.tell(EventKind.PROPOSED, message)
            return
        self._record_deviation(current, proposed)
        action = decide_proposal(current, proposed, restart_asked=restart_asked)
        if action is ProposalAction.KEEP:
            return
        if current is None:
            self._apply(proposed, source)
            return
        message = _proposal_message(proposed, current)
        if is_outlived:
            message = (
                f"{message} Deployment {current.number} is newer than this run, so its restart=True has "
                "no effect. Start another run with restart=True to replace it."
            )
        change = hook.home.change_in_hand()
        if change is not None:
            self._tell(f"{message} Change {change.number} must finish first.")
        elif action is ProposalAction.APPLY:
            undoes = (
                f"The DAG's values were written over the live ones: {_values(proposed, current)}."
            )
            self._apply(proposed, source, undoes=undoes)
        elif self.apply_allowed:
            self._apply_allowed(current, message)
        else:
            self._tell(message)

    def _record_deviation(self, current: Deployment | None, named: Deployment) -> None:
        if current is None:
            return
        values = [
            Override(what=one.what, value=one.old, dag=one.new)
            for one in differences(current, named)
        ]
        hook = self.hook
        hook.home.record_deviation(current.number, values, by=hook.by, now=datetime.now(UTC))

    def _apply_allowed(self, current: Deployment, message: str) -> None:
        """Apply the author's edits on top of the live values, where the gates allow it."""
        hook = self.hook.with_live_values()
        proposed, source = hook.proposal()
        if proposed.fingerprint == current.fingerprint:
            self._tell(message)
            return
        undone = undone_by_a_person(hook.streams, hook.home, proposed)
        if undone:
            self._tell(f"{message} {undone}")
            return
        report = gates_on(hook, current)
        if report.decision is not GateDecision.ALLOWED:
            self._tell(f"{message} The gates: {line_of(report.findings[0])}")
            return
        self.log.info("The gates allow the edits of the DAG, so they are applied.")
        self._apply(proposed, source, undoes=f"It changes {_values(proposed, current)}.")

    def _tell(self, message: str) -> None:
        self.hook.controller.tell(EventKind.PROPOSED, message)

    def _apply(self, proposed: Deployment, source: bytes, *, undoes: str = "") -> None:
        if undoes and self.backs_up:
            self._back_up()
        self.hook.controller.deploy(proposed, source, undoes=undoes)
        self.hook.controller.forgive("A new deployment was applied.")

    def _back_up(self) -> None:
        hook = self.hook
        back_up_before_upgrade(
            hook.home,
            hook.spec.home,
            hook.home_conn_id,
            store=self.backup_store,
            by=hook.by,
            log=self.log,
        )


def _proposal_message(proposed: Deployment, current: Deployment) -> str:
    return (
        f"The DAG names another deployment than the live one ({current.number}): "
        f"{_values(proposed, current)}. The live one stays. A run with restart=True writes the DAG's "
        "values over the live ones."
    )


def _values(proposed: Deployment, current: Deployment) -> str:
    changed = differences(current, proposed)
    return "; ".join(
        f"{one.what} {one.old or 'not set'} → {one.new or 'not set'}" for one in changed
    )
