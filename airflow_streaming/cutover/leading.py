"""
Leading consumers: the live pointer of every stream, and what consumers follow beside it.

The records of the live pointer are written first and count from the step on that is taken last, so
all streams move in one moment. Pointers outside the home are moved in between, each by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.cutover.live import LiveRecord
from airflow_streaming.core.cutover.moving.view import CutoverView, PairView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState
from airflow_streaming.core.cutover.terms import CutoverTerms, Pair
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.exceptions import PointerFailed
from airflow_streaming.home.consumers import Live, live
from airflow_streaming.home.home import Home


class Leading:
    """
    Leads consumers to one lane or the other.

    :param pointers: What consumers follow beside the home's own pointer, by name in the terms; of a
        stream that does not lead as ``STREAM/NAME``.
    """

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
    ) -> Iterator[tuple[Pair, Live, Live]]:
        befores = [self._live(one.pair) for one in view.pairs]
        records = [self._point(view, one, event, step) for one in view.pairs]
        for one, record, before in zip(view.pairs, records, befores, strict=True):
            yield one.pair, Live.of(record), before

    def _live(self, pair: Pair) -> Live:
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
                    f"Pointer {name!r} of stream {pair.stream!r} is known to the stream's dag only. "
                    "Let the dag's task go on."
                )
            found.append(self._pointers[name])
        return found
