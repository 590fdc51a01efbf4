"""
The end of an upgrade, which needs nothing but the home: records, and the old deployment's return.

So a person at a terminal can carry out his word, whatever became of the dag run. What starts,
stops or restores anything is left to whoever has the stream's spec and its backups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from airflow_streaming.core.change import Change
from airflow_streaming.core.control import EventKind
from airflow_streaming.core.upgrade.deciding import next_act
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.state import Act, UpgradeAct, UpgradeState
from airflow_streaming.core.upgrade.terms import RollbackPlan, RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import AlreadyExists, RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.acts import StreamActs
from airflow_streaming.launch.port import Launcher
from airflow_streaming.observe.stream import Observer
from airflow_streaming.upgrade.looking import look
from airflow_streaming.upgrade.recording import Recorder

log: Final = logging.getLogger(__name__)

_MOST_ACTS: Final = 10


class Ending:
    """
    The acts that need nothing but the home.

    :param acts: Tells the timeline, and takes a fence.
    :param recorder: Writes down what was reached.
    """

    def __init__(self, home: StreamHome, acts: StreamActs, recorder: Recorder) -> None:
        self._home, self._stream, self._recorder = home, acts, recorder
        self.acts: Final[dict[Act, Callable[[UpgradeState, UpgradeAct], None]]] = {
            Act.FENCE: self.fence,
            Act.DEPLOY: self.deploy,
            Act.DEPLOY_OLD: self.deploy_old,
            Act.SETTLE: self.settle,
            Act.END: self.end,
        }

    def fence(self, state: UpgradeState, act: UpgradeAct) -> None:
        """Take the next epoch, or finish what whoever took it has left undone."""
        seen, fence = state.situation.seen, state.fence
        if seen is None:
            return
        if fence is not None and (seen.death is None or state.situation.stop is None):
            self._stream.finish_fence(fence)
            return
        self._stream.fence(seen.epoch, act.reason, change=state.change.number)

    def deploy(self, state: UpgradeState, act: UpgradeAct) -> None:
        """Make the new deployment the current one."""
        proposed = state.terms.proposed
        try:
            self._home.create_deployment(proposed, self._home.kept_application(proposed))
        except AlreadyExists:
            log.info("Somebody else made deployment %d; it is looked at again.", proposed.number)
            return
        self._stream.tell(
            EventKind.DEPLOYED, f"Deployment {proposed.number} is now the current one."
        )
        facts = {"deployment": str(proposed.number)}
        self._recorder.reach(state.change, Stage.DEPLOYED, act.reason, facts)

    def deploy_old(self, state: UpgradeState, act: UpgradeAct) -> None:
        """Make a deployment that equals the old one, on the checkpoint that was put back."""
        old, restored = self._home.deployment(state.change.replaced), state.reached[Stage.RESTORED]
        # Equal whoever makes it, so that two who do it at once make one.
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
            log.info("Somebody else made deployment %d; it is looked at again.", back.number)
            return
        self._stream.tell(EventKind.DEPLOYED, act.reason)

    def leave(self, state: UpgradeState) -> None:
        """Record that, by a person's word, nothing is put back."""
        left = state.reached[Stage.LEFT]
        present = self._home.deployment(state.change.replaced).checkpoint
        reason = f"Nothing was put back, as {left.by} has said: {left.reason}"
        self._recorder.reach(state.change, Stage.RESTORED, reason, {"checkpoint": present})

    def settle(self, state: UpgradeState, act: UpgradeAct) -> None:
        """Record that the old deployment is back."""
        why, left = state.reached[Stage.ROLLING_BACK].reason, state.reached.get(Stage.LEFT)
        also = "" if left is None else f" {state.reached[Stage.RESTORED].reason}"
        facts = {"deployment": str(state.newest)}
        self._recorder.reach(state.change, Stage.ROLLED_BACK, f"{why} {act.reason}{also}", facts)

    def end(self, state: UpgradeState, _: UpgradeAct) -> None:
        """Close the change."""
        self._recorder.end(state.change, state.reached)


def finish(
    home: StreamHome, launcher: Launcher, change: Change, *, by: str, now: Callable[[], datetime]
) -> str:
    """
    Carry out what was decided of an upgrade, as far as that needs nothing but the home.

    :param launcher: How the driver's processes can be seen from here.
    :returns: What is still to be done, and needs the upgrade's dag; empty when it is closed.
    :raises RecordError: its terms cannot be read, and nobody has said how it ends.
    """
    ending = Ending(
        home, StreamActs(home, launcher, by=by, now=now), Recorder(home, by=by, now=now)
    )
    terms, observer = terms_for(home, change), Observer(home, launcher, now=now)
    for _ in range(_MOST_ACTS):
        state = look(home, observer, change, terms)
        act = next_act(state)
        if state.is_closed:
            return ""
        if act.act is Act.RESTORE and state.has(Stage.LEFT):
            ending.leave(state)
        elif act.act in ending.acts and _may_finish(state, act):
            ending.acts[act.act](state, act)
        else:
            break
    return act.reason


def terms_for(home: StreamHome, change: Change) -> UpgradeTerms:
    """
    Return the terms of an upgrade; for one whose end is decided, such as have to do.

    Without its terms an upgrade can still be given up, kept, or left: none of these asks them.

    :raises RecordError: they cannot be read, and its end is not decided.
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
        # What was proposed is not known any more: the old one stands in its place.
        proposed = replace(proposed, number=change.deployment)
        home.keep_application(proposed, home.application(change.replaced))
    return UpgradeTerms(
        change=change.number,
        proposed=proposed,
        rollback=RollbackPlan(way=RollbackWay.NONE, reason=reason),
    )


def _may_finish(state: UpgradeState, act: UpgradeAct) -> bool:
    # A stream is not put behind a fence by somebody who could not start it again.
    if act.act in (Act.FENCE, Act.DEPLOY):
        return state.has(Stage.LEFT)
    return True
