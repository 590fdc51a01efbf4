"""Begin an upgrade and record its steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.changes import engine
from airflow_streaming.changes.restore.switch import words
from airflow_streaming.changes.upgrade.decide import way_out
from airflow_streaming.exceptions import AlreadyExists, RecordError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    DesiredState,
    Event,
    EventKind,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import (
    RollbackMethod,
    RollbackPlan,
    SinkFacts,
    UpgradeTerms,
)
from airflow_streaming.model.records.upgrade_table import (
    UPGRADE,
    Stage,
    UpgradeEvent,
    UpgradeTransition,
)
from airflow_streaming.supervision.controller import StreamController

log: Final = logging.getLogger(__name__)
_OUTCOMES: Final = {
    Stage.KEPT: ChangeOutcome.DONE,
    Stage.ROLLED_BACK: ChangeOutcome.ROLLED_BACK,
    Stage.ABORTED: ChangeOutcome.ABANDONED,
}


class Recorder(engine.Recorder[Stage, UpgradeEvent, UpgradeTransition]):
    """Writes down how far an upgrade has come: in the home of its stream."""

    table = UPGRADE
    transition = UpgradeTransition

    def __init__(self, home: StreamHome, *, by: str, now: Callable[[], datetime]) -> None:
        super().__init__(by=by, now=now)
        self._home = home

    def record(self, step: UpgradeTransition) -> UpgradeTransition:
        return self._home.take_step(step)

    def tell_step(self, view: engine.View[Stage, UpgradeEvent], step: UpgradeTransition) -> None:
        """Add a step that was taken to timeline and task log."""
        self._tell(view.change, f"{step.after}. {step.reason}", step.facts)

    def close(self, view: engine.View[Stage, UpgradeEvent]) -> None:
        """Close the change, by the end that it has reached."""
        facts = facts_of(view.history)
        end = ChangeEnd(
            number=view.change.number,
            outcome=_OUTCOMES[view.state],
            by=self._by,
            reason=view.history[-1].reason,
            at=self._now(),
            backup_before=facts.get("boundary") or facts.get("backup", ""),
        )
        # The last step has already announced the end.
        self._home.end_change(end)

    def _tell(self, change: Change, message: str, facts: Mapping[str, str]) -> None:
        told = f"Upgrade to deployment {change.deployment} (change {change.number}): {message}"
        log.info("%s", told)
        self._home.add_event(
            Event(
                event=EventKind.UPGRADE,
                at=self._now(),
                by=self._by,
                message=told,
                facts={"change": str(change.number), **facts},
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeTermsRequest:
    """
    Options of an upgrade besides the deployment.

    :param rollback: The way back, planned in advance (``changes.upgrade.rollback_plan``).
    :param keeps_by_itself: A good soak is kept without an approval.
    :param stop_grace: Time for the old driver to reach a batch boundary.
    :param sinks: Of the old deployment: the sinks that a rollback must rewind.
    :param prewarm: Warm the new deployment's driver up before the old one is stopped.
    :param accepts_no_way_back: A user has accepted that there is no rollback.
    :param key: Identifies the request, e.g. the DAG run: a task with the same key gets the same
        upgrade, ended or not, so that a retry never begins a second one.
    :param migrations: Of the queries whose state is migrated before the new deployment starts.
    """

    rollback: RollbackPlan
    soak: SoakTerms = field(default_factory=SoakTerms)
    keeps_by_itself: bool = True
    stop_grace: timedelta = timedelta(seconds=60)
    sinks: tuple[SinkFacts, ...] = ()
    prewarm: bool = False
    accepts_no_way_back: bool = False
    key: str = ""
    reason: str = ""
    partitions: int = 0
    migrations: tuple[StateMigration, ...] = ()


class Beginning:
    """Begins upgrades of one stream."""

    def __init__(
        self,
        home: StreamHome,
        controller: StreamController,
        *,
        by: str,
        now: Callable[[], datetime],
    ) -> None:
        self._home, self._controller = home, controller
        self._by, self._now = by, now

    def begin(self, proposed: Deployment, source: bytes, request: UpgradeTermsRequest) -> Change:
        """
        Open the change; see ``UpgradeInPlace.begin``.

        :raises UpgradeRefused: With the reason; no change was opened.
        :raises SpecError: The old or the new deployment could not be launched now.
        """
        found = self._found(proposed, request)
        if found is not None:
            return found
        current = self._check(proposed, request)
        change = self._keep(replace(proposed, number=current.number + 1), source, request, current)
        try:
            self._home.begin_change(change)
        except AlreadyExists as err:
            found = self._found(proposed, request)
            if found is not None:
                return found
            raise UpgradeRefused(
                f"Another task started a change of stream {self._home.name!r} at the same moment. Check "
                "that change before you ask again."
            ) from err
        return change

    def _found(self, proposed: Deployment, request: UpgradeTermsRequest) -> Change | None:
        newest = self._home.newest_change()
        is_open = newest is not None and self._home.change_end(newest.number) is None
        if newest is None or (newest.what is not ChangeKind.UPGRADE and not is_open):
            return None
        if newest.what is not ChangeKind.UPGRADE:
            raise self._refused(f"it has an unfinished change: {words(newest)} Finish it first.")
        if request.key and self._home.request_key(newest) == request.key:
            return newest
        if not is_open:
            return None
        if not request.key and self._is_proposed(newest, proposed):
            return newest
        raise self._refused(f"it has an unfinished change: {words(newest)} {self._advice(newest)}")

    def _is_proposed(self, change: Change, proposed: Deployment) -> bool:
        try:
            return self._home.terms(change).proposed.fingerprint == proposed.fingerprint
        except RecordError:
            return False

    def _advice(self, change: Change) -> str:
        stage, name = UPGRADE.state_of(self._home.upgrade_steps(change.number)), self._home.name
        if stage.is_end:
            return "Its end is decided and under way: ask again."
        if stage.is_decided:
            return f"It is being rolled back: let it end, or clear its failed task. {way_out(name)}"
        verbs = " or ".join(UPGRADE.commands_in(stage))
        return f"Let it end, or end it yourself: airflow-streaming upgrade {verbs} {name}"

    def _check(self, proposed: Deployment, request: UpgradeTermsRequest) -> Deployment:
        home, rollback = self._home, request.rollback
        current, desired = home.newest_deployment(), home.desired()
        if current is None or home.newest_epoch() is None:
            raise self._refused("it has never run. Start it with the new deployment.")
        if desired is not None and desired.state is DesiredState.STOPPED:
            raise self._refused(
                'its desired state is "stopped", and an upgrade is judged by a running stream. Start it, '
                "or apply the new deployment with restart=True."
            )
        if proposed.checkpoint != current.checkpoint:
            raise self._refused(
                f"the new deployment names the checkpoint {proposed.checkpoint}, and it runs on "
                f"{current.checkpoint}. An upgrade in place keeps the checkpoint."
            )
        if (
            rollback.refused or rollback.way is RollbackMethod.NONE
        ) and not request.accepts_no_way_back:
            raise self._refused(
                f"a safe rollback is not possible: {rollback.refused or rollback.reason}"
            )
        if request.partitions and rollback.way is RollbackMethod.NONE:
            raise self._refused(
                "another number of state partitions needs a rollback, which is not possible: "
                f"{rollback.reason}"
            )
        if request.migrations and rollback.way is not RollbackMethod.REWIND:
            raise self._refused(
                "a migration of state needs a rollback to the old checkpoint, which is not possible: "
                f"{rollback.reason}"
            )
        if request.migrations and request.partitions:
            raise self._refused(
                "its state is migrated and gets another number of partitions. Ask for one after the other."
            )
        if request.soak.at_most < request.soak.at_least:
            raise self._refused("its soak would end before it may: at_most is below at_least.")
        for deployment in (current, replace(proposed, number=current.number + 1)):
            self._controller.check_can_launch(deployment)
        return current

    def _keep(
        self, proposed: Deployment, source: bytes, request: UpgradeTermsRequest, current: Deployment
    ) -> Change:
        number = self._home.next_change()
        terms = UpgradeTerms(
            change=number,
            proposed=proposed,
            rollback=request.rollback,
            soak=request.soak,
            keeps_by_itself=request.keeps_by_itself,
            stop_grace=request.stop_grace,
            sinks=request.sinks,
            # A driver would wait at the barrier while Spark writes all of the state anew.
            prewarm=request.prewarm and not (request.partitions or request.migrations),
            key=request.key,
            partitions=request.partitions,
            migrations=request.migrations,
        )
        self._home.keep_application(proposed, source)
        return Change(
            number=number,
            stream=self._home.name,
            what=ChangeKind.UPGRADE,
            replaced=current.number,
            deployment=proposed.number,
            checkpoint=current.checkpoint,
            by=self._by,
            reason=request.reason or f"Upgrade of deployment {current.number}.",
            at=self._now(),
            terms=self._home.keep_terms(terms),
        )

    def _refused(self, why: str) -> UpgradeRefused:
        return UpgradeRefused(f"Stream {self._home.name!r} is not upgraded: {why}")
