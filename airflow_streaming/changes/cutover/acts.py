"""Acts of a cutover: one function for each move."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from airflow_streaming.changes.cutover.begin import Deploying
from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.lanes import LaneContext, Lanes
from airflow_streaming.changes.cutover.records import Checks, Recorder
from airflow_streaming.changes.cutover.switching import Switching
from airflow_streaming.changes.cutover.view import CutoverView, LaneView
from airflow_streaming.exceptions import (
    HomeError,
    LaunchError,
    SpecError,
    StreamingError,
)
from airflow_streaming.model.records.cutover_table import CutoverEvent
from airflow_streaming.supervision.decide import Action, Step

log: Final = logging.getLogger(__name__)


class Acts:
    """
    Makes one move after another.

    :param switching: Brings one lane to the other's place, and moves the pointers.
    """

    def __init__(
        self,
        lanes: Lanes,
        recorder: Recorder,
        deploying: Deploying,
        switching: Switching,
        checks: Checks,
    ) -> None:
        self._lanes, self._recorder, self._switching = lanes, recorder, switching
        self._moves: Final[dict[Do, Callable[[CutoverView, Move], str | None]]] = {
            Do.TAKE: self._take,
            Do.INVITE: self._invite,
            Do.START: deploying.start,
            Do.RESERVE: deploying.reserve,
            Do.DEPLOY_LIVE: deploying.deploy_live,
            Do.DEPLOY_BACK: deploying.deploy_back,
            Do.LAUNCH: self._launch,
            Do.STAND_BY: self._launch,
            Do.STOP: self._stop,
            Do.KILL: self._kill,
            Do.SETTLE: self._settle,
            Do.FENCE: self._fence,
            Do.COMPARE: checks.compare,
            Do.WARM: switching.warm,
            Do.SWITCH: switching.switch,
            Do.RELEASE: switching.release,
            Do.TURN_BACK: switching.turn_back,
            Do.UNDO: switching.undo,
            Do.WANT_STOPPED: deploying.want,
            Do.WANT_RUNNING: deploying.want,
            Do.CLOSE: self._close,
        }

    def do(self, view: CutoverView, move: Move) -> str | None:
        """Make one move; return the reason to wait, or ``None`` if it was made."""
        return self._moves[move.do](view, move)

    def _take(self, view: CutoverView, move: Move) -> None:
        if move.event is None:
            raise ValueError("A step is taken with its event.")
        facts: Mapping[str, str] = move.facts
        if move.event is CutoverEvent.GREEN_STARTED:
            facts = {**facts, **self._switching.began(view)}
        self._recorder.take(view, move.event, move.reason, facts)

    def _invite(self, view: CutoverView, _: Move) -> None:
        self._recorder.invite(view.change, view.terms)

    def _launch(self, view: CutoverView, move: Move) -> str | None:
        lane, context = self._found(view, move)
        if context.controller is None:
            return f"A driver of {lane.lane} can be launched by the stream's dag only."
        step = Step(action=Action.LAUNCH, reason=move.reason, cause=move.cause)
        stands_by = move.do is Do.STAND_BY
        try:
            context.controller.begin(
                lane.situation,
                step,
                change=lane.change,
                standby=stands_by,
                queries=view.pairs[move.pair].pair.queries if stands_by else (),
                step_number=view.step,
            )
        except SpecError as err:
            return self._cannot_launch(view, lane, str(err))
        except LaunchError as err:
            log.warning("A driver of %s was not started: %s", lane.lane, err)
        except HomeError:
            raise
        except StreamingError as err:
            return f"A driver of {lane.lane} was not started: {err}"
        return None

    def _cannot_launch(self, view: CutoverView, lane: LaneView, why: str) -> str | None:
        is_green = any(pair.green.lane == lane.lane for pair in view.pairs)
        if is_green:
            reason = f"{lane.lane} could not be launched: {why}"
            self._recorder.take(view, CutoverEvent.GREEN_FAILED, reason)
            return None
        return f"{lane.lane} could not be launched: {why}"

    def _stop(self, view: CutoverView, move: Move) -> None:
        lane, context = self._found(view, move)
        if lane.situation.seen is not None:
            grace = view.terms.stop_grace
            context.acts.stop(lane.situation.seen, move.reason, grace, verdict=move.verdict)

    def _kill(self, view: CutoverView, move: Move) -> str | None:
        lane, context = self._found(view, move)
        seen = lane.situation.seen
        if seen is None or context.acts.kill(seen, move.reason):
            return None
        return f"The driver of {lane.lane} could not be killed. {move.reason}"

    def _settle(self, view: CutoverView, move: Move) -> None:
        lane, context = self._found(view, move)
        context.acts.settle(lane.situation)

    def _fence(self, view: CutoverView, move: Move) -> None:
        lane, context = self._found(view, move)
        seen = lane.situation.seen
        if lane.is_half_fenced and seen is not None:
            context.acts.finish_fence(seen.epoch)
            return
        if lane.change is None:
            raise StreamingError(f"Lane {lane.lane} has no change to take a fence for.")
        context.acts.fence(
            None if seen is None else seen.epoch,
            move.reason,
            change=lane.change,
            step=view.step,
            deployment=lane.newest or None,
        )

    def _close(self, view: CutoverView, _: Move) -> None:
        self._recorder.close(view)

    def _found(self, view: CutoverView, move: Move) -> tuple[LaneView, LaneContext]:
        pair = view.pairs[move.pair]
        if move.lane == pair.blue.lane:
            return pair.blue, self._lanes.blue(pair.pair)
        return pair.green, self._lanes.green(pair.pair)
