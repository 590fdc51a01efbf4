"""Switching: one lane comes to the other's place, consumers are led to it, and the step is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_streaming.core.cutover.moving.moves import Move
from airflow_streaming.core.cutover.moving.view import CutoverView, LaneView, PairView, of_stream
from airflow_streaming.core.cutover.table import TABLE, CutoverEvent
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.cutover.handing import Crossing, Handing, StandbyFailed
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.leading import Leading
from airflow_streaming.cutover.ports import Checkpoints
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CheckpointRefused,
    PointerFailed,
    PointerRefused,
)

E = CutoverEvent


class Switching:
    """
    Makes green live, and blue again.

    :param handing: Brings one lane to the other's position; ``None`` for whoever cannot.
    :param leading: Leads consumers.
    """

    def __init__(
        self,
        lanes: Lanes,
        recorder: Recorder,
        checkpoints: Checkpoints | None,
        handing: Handing | None,
        leading: Leading,
    ) -> None:
        self._lanes, self._recorder = lanes, recorder
        self._checkpoints, self._handing, self._leading = checkpoints, handing, leading

    def began(self, view: CutoverView) -> Mapping[str, str]:
        """Return the facts of how far blue was when green began to catch up."""
        facts: dict[str, str] = {}
        for one in view.pairs:
            blue = one.blue.situation.deployment
            for query in one.pair.queries if self._checkpoints and blue else ():
                batch = self._batch(blue, query)
                if batch is not None:
                    facts |= of_stream(one.pair.stream, {f"began.{query}": str(batch)})
        return facts

    def warm(self, view: CutoverView, move: Move) -> str | None:
        """Bring green near blue while blue runs on, and take the step."""

        def work() -> str | None:
            return self._cross(view, lambda way, handing: handing.approach(way))

        waiting = self._tried(view, work, failing=E.GREEN_FAILED)
        if waiting is None and self._is_at(view):
            self._recorder.take(view, E.STANDBY_READY, "Green waits at the barrier, near blue.")
        return waiting

    def switch(self, view: CutoverView, move: Move) -> str | None:
        """Make green live: its position, its numbers, its consumers, and then the step."""

        def work() -> str | None:
            if view.is_handover:
                waiting = self._cross(view, lambda way, handing: handing.arrive(way))
                if waiting is not None:
                    return waiting
            self._leading.to_green(view)
            return None

        waiting = self._tried(view, work, failing=E.GREEN_FAILED, refused=E.ABORT)
        if waiting is None and self._is_at(view):
            self._recorder.take(view, E.SWITCHED, _switched(view), _live_facts(view))
        return waiting

    def release(self, view: CutoverView, move: Move) -> str | None:
        """Let the driver at the barrier go on."""
        if self._handing is None:
            return "The driver at the barrier is released by the stream's dag only."
        one = view.pairs[move.pair]
        is_green = move.lane == one.green.lane
        self._handing.release(self._crossing(one, to_green=is_green))
        return None

    def turn_back(self, view: CutoverView, move: Move) -> str | None:
        """Make blue live again, and take the step."""

        def work() -> str | None:
            if view.is_handover:
                waiting = self._cross(
                    view, lambda way, handing: handing.arrive(way, told=False), to_green=False
                )
                if waiting is not None:
                    return waiting
            self._leading.to_blue(view)
            return None

        waiting = self._tried(view, work)
        if waiting is None:
            self._recorder.take(view, E.UNDONE, view.history[-1].reason)
        return waiting

    def undo(self, view: CutoverView, move: Move) -> str | None:
        """Lead consumers back of whom some may have been led to green, and take the step."""

        def work() -> None:
            self._leading.undo(view)

        waiting = self._tried(view, work)
        if waiting is None:
            self._recorder.take(view, E.UNDONE, move.reason)
        return waiting

    def _tried(
        self,
        view: CutoverView,
        work: Callable[[], str | None],
        *,
        failing: CutoverEvent | None = None,
        refused: CutoverEvent | None = None,
    ) -> str | None:
        """Do some work; what cannot be helped becomes a step, or a person's matter."""
        try:
            return work()
        except (CheckpointBusy, PointerFailed) as err:
            return str(err)
        except PointerRefused as err:
            event, why = refused, str(err)
        except (StandbyFailed, CheckpointError) as err:
            event, why = failing, str(err)
        if event is None or (view.state, event) not in TABLE:
            return why
        self._recorder.take(view, event, why)
        return None

    def _is_at(self, view: CutoverView) -> bool:
        # Work that has failed has taken a step of its own.
        return len(self._lanes.home.steps(view.change.number)) == view.step

    def _cross(
        self,
        view: CutoverView,
        act: Callable[[Crossing, Handing], str | None],
        *,
        to_green: bool = True,
    ) -> str | None:
        if self._handing is None:
            return "An output is handed over by the stream's dag only."
        for one in view.pairs:
            waiting = act(self._crossing(one, to_green=to_green), self._handing)
            if waiting is not None:
                return waiting
        return None

    def _crossing(self, one: PairView, *, to_green: bool) -> Crossing:
        blue, green = self._lanes.blue(one.pair).home, self._lanes.green(one.pair).home
        ahead, behind = (one.blue, one.green) if to_green else (one.green, one.blue)
        barrier, epoch = behind.barrier, behind.epoch
        return Crossing(
            ahead=blue if to_green else green,
            ahead_deployment=_of(ahead),
            behind=green if to_green else blue,
            behind_deployment=_of(behind),
            epoch=0 if epoch is None else epoch.number,
            queries=one.pair.queries,
            waiting=() if barrier is None else barrier.queries,
            carries=one.is_carried,
        )

    def _batch(self, blue: Deployment | None, query: str) -> int | None:
        if self._checkpoints is None or blue is None:
            return None
        try:
            return self._checkpoints.position(blue, query).batch
        except CheckpointError:
            return None


def _of(lane: LaneView) -> Deployment:
    if lane.situation.deployment is None:
        raise CheckpointRefused(f"Lane {lane.lane} has no deployment any more.")
    return lane.situation.deployment


def _switched(view: CutoverView) -> str:
    lanes = ", ".join(pair.pair.green for pair in view.pairs)
    return f"Consumers are led to {lanes}."


def _live_facts(view: CutoverView) -> dict[str, str]:
    facts: dict[str, str] = {}
    for one in view.pairs:
        seen = one.green.situation.seen
        status = None if seen is None or view.is_handover else seen.status
        told = {
            "live_epoch": str(one.green_epoch),
            "live_batches": str(0 if status is None else status.batches),
        }
        facts |= of_stream(one.pair.stream, told)
    return facts
