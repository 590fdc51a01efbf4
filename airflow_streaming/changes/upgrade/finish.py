"""
Finish an upgrade with the home alone: records, and the old deployment's return.

So a user at a terminal can finish a command, whatever happened to the DAG run. Starts, stops and
restores are left to the task that has the stream's spec and its backups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from airflow_streaming.changes.engine import Engine
from airflow_streaming.changes.restore.migrated_copy import claim_copies
from airflow_streaming.changes.upgrade.acts import look
from airflow_streaming.changes.upgrade.begin import Recorder
from airflow_streaming.changes.upgrade.decide import next_move
from airflow_streaming.changes.upgrade.state import Do, Move, UpgradeView
from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.records.control import Change, EventKind
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeEvent
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.observer import Observer

log: Final = logging.getLogger(__name__)
_MOST_MOVES: Final = 10


class Ending:
    """
    Actions that need only the home.

    :param acts: Writes the timeline, and takes a fence.
    """

    def __init__(self, home: StreamHome, acts: StreamActions, recorder: Recorder) -> None:
        self._home, self._stream, self._recorder = home, acts, recorder
        self.acts: Final[dict[Do, Callable[[UpgradeView, Move], None]]] = {
            Do.TAKE: self.take,
            Do.FENCE: self.fence,
            Do.DEPLOY: self.deploy,
            Do.DEPLOY_OLD: self.deploy_old,
            Do.LEAVE: self.leave,
            Do.RETIRE: self.retire,
            Do.CLOSE: lambda view, _: self._recorder.close(view),
        }

    def take(self, view: UpgradeView, move: Move) -> None:
        """Take the step of an event."""
        if move.event is None:
            raise ValueError("A step is taken with its event.")
        self._recorder.take(view, move.event, move.reason, move.facts)

    def retire(self, state: UpgradeView, act: Move) -> None:
        """Ask the warmed driver to end, which has written nothing."""
        self._stream.retire_standby(act.reason, change=state.change.number)

    def fence(self, state: UpgradeView, act: Move) -> None:
        """Take the next epoch, or finish another task's fence."""
        seen, fence = state.situation.seen, state.fence
        if seen is None:
            return
        if fence is not None and (seen.death is None or state.situation.stop is None):
            self._stream.finish_fence(fence)
            return
        self._stream.fence(seen.epoch, act.reason, change=state.change.number)

    def deploy(self, state: UpgradeView, act: Move) -> None:
        """Make the new deployment the current one."""
        proposed = state.proposed
        if state.has(Stage.MIGRATED):
            replaced = self._home.deployment(state.change.replaced)
            claim_copies(self._home, replaced, proposed.number, proposed.checkpoint)
        try:
            self._home.create_deployment(proposed, self._home.kept_application(proposed))
        except AlreadyExists:
            log.info("Another task created deployment %d; reading it again.", proposed.number)
            return
        self._stream.tell(
            EventKind.DEPLOYED, f"Deployment {proposed.number} is now the current one."
        )
        if UPGRADE.allows(state.state, UpgradeEvent.DEPLOYMENT_MADE):
            facts = {"deployment": str(proposed.number)}
            self._recorder.take(state, UpgradeEvent.DEPLOYMENT_MADE, act.reason, facts)

    def deploy_old(self, state: UpgradeView, act: Move) -> None:
        """Make a deployment that equals the old one, on the checkpoint that was put back."""
        old, restored = self._home.deployment(state.change.replaced), state.reached[Stage.RESTORED]
        # Equal from whichever task, so that two who do it at once make one.
        back = replace(
            old,
            number=state.back,
            checkpoint=restored.facts["checkpoint"],
            created_at=restored.at,
            created_by=restored.by,
        )
        try:
            self._home.create_deployment(back, self._home.application(old.number))
        except AlreadyExists:
            log.info("Another task created deployment %d; reading it again.", back.number)
            return
        self._stream.tell(EventKind.DEPLOYED, act.reason)

    def leave(self, state: UpgradeView, _: Move) -> None:
        """Record that, by a user's word, nothing is put back."""
        left = state.reached[Stage.LEFT]
        present = self._home.deployment(state.change.replaced).checkpoint
        reason = f"Nothing was restored, as {left.by} decided: {left.reason}"
        self._recorder.take(state, UpgradeEvent.PUT_BACK, reason, {"checkpoint": present})


def finish(
    home: StreamHome, launcher: Launcher, change: Change, *, by: str, now: Callable[[], datetime]
) -> str:
    """
    Finish an upgrade's decided end, as far as possible with the home alone.

    :returns: The remaining steps, which need the upgrade's DAG; empty if it is closed.
    """
    ending = Ending(
        home, StreamActions(home, launcher, by=by, now=now), Recorder(home, by=by, now=now)
    )
    terms, observer = terms_for(home, change), Observer(home, launcher, now=now)

    def may(view: UpgradeView, move: Move) -> str | None:
        return None if move.do in ending.acts and _may_finish(view, move) else move.reason

    engine: Engine[UpgradeView, Move] = Engine(
        look=lambda: look(home, observer, change, terms),
        decide=next_move,
        act=lambda view, move: ending.acts[move.do](view, move),
        most_moves=_MOST_MOVES,
    )
    return engine.advance(lambda view, _: view.is_closed, may=may).waiting


def terms_for(home: StreamHome, change: Change) -> UpgradeTerms:
    """
    Return the terms of an upgrade, or a minimal replacement if its end is decided.

    Abort, keep and leave work without the terms.

    :raises RecordError: They cannot be read, and its end is not decided.
    """
    try:
        return home.terms(change)
    except RecordError as err:
        is_closed = home.change_end(change.number) is not None
        enough = {Stage.ABORTED, Stage.KEPT, Stage.LEFT}
        if not is_closed and enough.isdisjoint(home.stages(change.number)):
            raise RecordError(
                f"{err} Until then: airflow-streaming upgrade abort, keep or leave {home.name} "
                "--reason TEXT"
            ) from err
        return _stand_in(home, change, str(err))


def _stand_in(home: StreamHome, change: Change, reason: str) -> UpgradeTerms:
    newest = home.newest_deployment()
    is_made = newest is not None and newest.number >= change.deployment
    proposed = home.deployment(change.deployment if is_made else change.replaced)
    if not is_made:
        # The proposal is unknown: use the old deployment in its place.
        proposed = replace(proposed, number=change.deployment)
        home.keep_application(proposed, home.application(change.replaced))
    return UpgradeTerms(
        change=change.number,
        proposed=proposed,
        rollback=RollbackPlan(way=RollbackMethod.NONE, reason=reason),
    )


def _may_finish(state: UpgradeView, act: Move) -> bool:
    # A stream is not put behind a fence by a command that could not start it again.
    if act.do in (Do.FENCE, Do.DEPLOY):
        return state.has(Stage.LEFT)
    return True
