"""
The switch of a cutover: consumers are led to one lane or the other.

The records of the live pointer are written first and count from the last step on, so all streams
switch at one moment. Pointers outside the home are moved in between, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from airflow_streaming.changes.cutover.lane_moves import Move
from airflow_streaming.changes.cutover.lanes import Checkpoints, Lanes
from airflow_streaming.changes.cutover.records import Recorder
from airflow_streaming.changes.cutover.view import CutoverView, LaneView, PairView, of_stream
from airflow_streaming.changes.handover.claims import HandoverPair
from airflow_streaming.changes.handover.position_handover import PositionHandover, StandbyFailed
from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    CheckpointRefused,
    PointerFailed,
    PointerRefused,
)
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.records.cutover import CutoverTerms, LiveRecord, Pair
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverEvent, CutoverState
from airflow_streaming.model.records.deployment import Deployment

E = CutoverEvent


class PointerUpdater:
    """Leads consumers to one lane or the other."""

    def __init__(self, lanes: Lanes, recorder: Recorder, pointers: Mapping[str, Pointer]) -> None:
        self._lanes, self._recorder = lanes, recorder
        self._pointers: Final = dict(pointers)

    def to_green(self, view: CutoverView) -> None:
        """
        Lead consumers to green; it counts with the step ``SWITCHED`` that follows.

        :raises PointerFailed: try again, or give up.
        :raises PointerRefused: trying again does not help.
        """
        for pair, to, before in self._moves(view, CutoverEvent.SWITCHED, view.step + 1):
            for pointer in self._of(view.terms, pair):
                pointer.move(to, before)

    def to_blue(self, view: CutoverView) -> None:
        """Lead consumers back to blue; it counts with the step ``UNDONE`` that follows."""
        for pair, to, before in self._moves(view, CutoverEvent.UNDONE, view.step + 1):
            for pointer in self._of(view.terms, pair):
                pointer.move(to, before)

    def undo(self, view: CutoverView) -> None:
        """Undo a switch that was never recorded, made, half made or not."""
        step = view.step_into(CutoverState.SWITCHING) + 1
        for pair, to, before in self._moves(view, CutoverEvent.SWITCHED, step):
            for pointer in reversed(self._of(view.terms, pair)):
                pointer.undo(to, before)

    def _moves(
        self, view: CutoverView, event: CutoverEvent, step: int
    ) -> Iterator[tuple[Pair, LiveOutput, LiveOutput]]:
        befores = [self._live(one.pair) for one in view.pairs]
        records = [self._point(view, one, event, step) for one in view.pairs]
        for one, record, before in zip(view.pairs, records, befores, strict=True):
            yield one.pair, LiveOutput.of(record), before

    def _live(self, pair: Pair) -> LiveOutput:
        return live(Home(self._lanes.base(pair).store), pair.stream)

    def _point(
        self, view: CutoverView, one: PairView, event: CutoverEvent, step: int
    ) -> LiveRecord:
        is_green = event is CutoverEvent.SWITCHED
        deployment = self._deployment(view, one, is_green=is_green)
        record = LiveRecord(
            number=1,
            stream=one.pair.stream,
            lane=one.pair.green if is_green else one.pair.blue,
            deployment=deployment.number,
            output=deployment.output,
            leader=view.change.stream,
            change=view.change.number,
            step=step,
            event=event,
            at=self._recorder.now,
            by=self._recorder.by,
        )
        return self._lanes.base(one.pair).point(record)

    def _deployment(self, view: CutoverView, one: PairView, *, is_green: bool) -> Deployment:
        if is_green:
            return one.pair.live
        found = one.blue.situation.deployment
        return found or self._lanes.blue(one.pair).home.deployment(one.pair.blue_deployment)

    def _of(self, terms: CutoverTerms, pair: Pair) -> list[Pointer]:
        found = []
        for name in terms.pointers:
            stream, _, _ = name.rpartition("/")
            if (stream or terms.leader.stream) != pair.stream:
                continue
            if name not in self._pointers:
                raise PointerFailed(
                    f"Only the stream's DAG knows pointer {name!r} of stream {pair.stream!r}. Run the "
                    "DAG's task again to continue."
                )
            found.append(self._pointers[name])
        return found


class Switching:
    """
    Makes green live, and blue again.

    :param handover: Brings one lane to the other's position; ``None`` where that cannot be done.
    """

    def __init__(
        self,
        lanes: Lanes,
        recorder: Recorder,
        checkpoints: Checkpoints | None,
        handover: PositionHandover | None,
        consumers: PointerUpdater,
    ) -> None:
        self._lanes, self._recorder = lanes, recorder
        self._checkpoints, self._handover, self._consumers = checkpoints, handover, consumers

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
            return self._cross(view, lambda way, handover: handover.approach(way))

        waiting = self._tried(view, work, failing=E.GREEN_FAILED)
        if waiting is None and self._is_at(view):
            self._recorder.take(view, E.STANDBY_READY, "Green waits at the barrier, near blue.")
        return waiting

    def switch(self, view: CutoverView, move: Move) -> str | None:
        """Make green live: its position, its numbers, its consumers, and then the step."""

        def work() -> str | None:
            if view.is_handover:
                waiting = self._cross(view, lambda way, handover: handover.arrive(way))
                if waiting is not None:
                    return waiting
            self._consumers.to_green(view)
            return None

        waiting = self._tried(view, work, failing=E.GREEN_FAILED, refused=E.ABORT)
        if waiting is None and self._is_at(view):
            self._recorder.take(view, E.SWITCHED, _switched(view), _live_facts(view))
        return waiting

    def release(self, view: CutoverView, move: Move) -> str | None:
        """Let the driver at the barrier continue."""
        if self._handover is None:
            return "The driver at the barrier is released by the stream's dag only."
        one = view.pairs[move.pair]
        is_green = move.lane == one.green.lane
        self._handover.release(self._crossing(one, to_green=is_green))
        return None

    def turn_back(self, view: CutoverView, move: Move) -> str | None:
        """Make blue live again, and take the step."""

        def work() -> str | None:
            if view.is_handover:
                waiting = self._cross(
                    view,
                    lambda way, handover: handover.arrive(way, has_written=False),
                    to_green=False,
                )
                if waiting is not None:
                    return waiting
            self._consumers.to_blue(view)
            return None

        waiting = self._tried(view, work)
        if waiting is None:
            self._recorder.take(view, E.UNDONE, view.history[-1].reason)
        return waiting

    def undo(self, view: CutoverView, move: Move) -> str | None:
        """Lead consumers back of whom some may have been led to green, and take the step."""

        def work() -> None:
            self._consumers.undo(view)

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
        """Do some work; what cannot be helped becomes a step, or a user's matter."""
        try:
            return work()
        except (CheckpointBusy, PointerFailed) as err:
            return str(err)
        except PointerRefused as err:
            event, why = refused, str(err)
        except (StandbyFailed, CheckpointError) as err:
            event, why = failing, str(err)
        if event is None or not CUTOVER.allows(view.state, event):
            return why
        self._recorder.take(view, event, why)
        return None

    def _is_at(self, view: CutoverView) -> bool:
        # Work that has failed has taken a step of its own.
        return len(self._lanes.home.steps(view.change.number)) == view.step

    def _cross(
        self,
        view: CutoverView,
        act: Callable[[HandoverPair, PositionHandover], str | None],
        *,
        to_green: bool = True,
    ) -> str | None:
        if self._handover is None:
            return "An output is handed over by the stream's dag only."
        for one in view.pairs:
            waiting = act(self._crossing(one, to_green=to_green), self._handover)
            if waiting is not None:
                return waiting
        return None

    def _crossing(self, one: PairView, *, to_green: bool) -> HandoverPair:
        blue, green = self._lanes.blue(one.pair).home, self._lanes.green(one.pair).home
        ahead, behind = (one.blue, one.green) if to_green else (one.green, one.blue)
        barrier, epoch = behind.barrier, behind.epoch
        return HandoverPair(
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
        values = {
            "live_epoch": str(one.green_epoch),
            "live_batches": str(0 if status is None else status.batches),
        }
        facts |= of_stream(one.pair.stream, values)
    return facts
