"""
The cutover of a stream, or of several, from one lane to the other.

While blue is drained and green takes over, one call looks ten times a second, so that consumers
wait as short as possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_streaming.changes.cutover.acts import Acts
from airflow_streaming.changes.cutover.begin import Beginning, Deploying
from airflow_streaming.changes.cutover.decide import next_move
from airflow_streaming.changes.cutover.lane_moves import Move
from airflow_streaming.changes.cutover.lanes import (
    ERRORS,
    LANES,
    STEP,
    Checkpoints,
    Compare,
    LaneProvider,
    Lanes,
    Retire,
    StepSeen,
)
from airflow_streaming.changes.cutover.observe import Looking
from airflow_streaming.changes.cutover.records import Checks, Recorder, is_there
from airflow_streaming.changes.cutover.switching import PointerUpdater, Switching
from airflow_streaming.changes.cutover.view import CutoverView
from airflow_streaming.changes.engine import Engine, Pace, Progress, progress_of
from airflow_streaming.changes.handover.position_handover import PositionHandover
from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.changes.restore.switch import now_in_utc
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms, Result
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverCommand,
    CutoverEvent,
    CutoverState,
)

_MARGIN: Final = timedelta(seconds=60)
S = CutoverState
_IN_HASTE: Final = frozenset({S.DRAINING, S.SWITCHING, S.ROLLING_BACK, S.ROLLED_BACK})
"""Of a handover: the output has, or is about to have, no driver that writes it."""


__all__ = ["Cutover", "CutoverProgress"]
CutoverProgress = Progress[CutoverState]


class Cutover:
    """
    Advances the cutovers of one leading stream, for one task or user.

    :param leader: The stream whose base lane keeps the records.
    :param lanes: Opens lanes. Each is opened once; its observer keeps its memory.
    :param checkpoints: Checkpoint operations. Without them green cannot start and a handover is
        impossible.
    :param pointers: Pointers outside the home, by name in the terms; for a stream that does not
        lead as ``STREAM/NAME``.
    :param compare: Compares outputs; without it the engine waits for results (``checked``).
    :param retire: Takes the final backup of blue.
    :param memory: The memory of an earlier engine or a trigger; the caller, who opens ``lanes``,
        manages the observers' memories.
    :param clock: Monotonic seconds.
    :param sleep: Waits some seconds; only while blue is drained and green takes over.
    """

    def __init__(
        self,
        leader: str,
        lanes: LaneProvider,
        *,
        by: str,
        checkpoints: Checkpoints | None = None,
        pointers: Mapping[str, Pointer] | None = None,
        compare: Compare | None = None,
        retire: Retire | None = None,
        memory: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = now_in_utc,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lanes = Lanes(leader, lanes)
        self._recorder = Recorder(self._lanes, by=by, now=now)
        known = memory or {}
        self._looking = Looking(
            self._lanes,
            checkpoints,
            compares=compare is not None,
            now=now,
            newest=StepSeen(known.get(STEP), clock=clock),
        )
        self._looking.errors.update(known.get(ERRORS, {}))
        self._checks = Checks(self._lanes, self._recorder, compare)
        handover = None
        if checkpoints is not None:
            handover = PositionHandover(checkpoints, by=by, now=now, clock=clock, sleep=sleep)
        self._acts = Acts(
            self._lanes,
            self._recorder,
            Deploying(self._lanes, self._recorder, checkpoints),
            Switching(
                self._lanes,
                self._recorder,
                checkpoints,
                handover,
                PointerUpdater(self._lanes, self._recorder, pointers or {}),
            ),
            self._checks,
        )
        self._retire, self._clock, self._sleep = retire, clock, sleep

    def memory(self) -> dict[str, Any]:
        """Return the memory for the next engine and its lanes."""
        return {
            LANES: self._lanes.memory(),
            ERRORS: dict(self._looking.errors),
            STEP: self._looking.newest.memory(),
        }

    def begin(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str = "") -> Change:
        """
        Open the change, or find the open one for the same cutover.

        :param terms: They get a new number.
        :param sources: By stream, the script of ``shadow``, which ``live`` runs too.
        :raises CutoverRefused: With a sentence; no change was opened.
        :raises SpecError: Green could not be launched with the DAG's present values.
        """
        return Beginning(self._lanes, self._recorder).begin(terms, sources, reason)

    def current(self) -> tuple[Change, CutoverTerms] | None:
        """Return the open cutover that this stream leads, if there is one."""
        change = self._lanes.home.unfinished_change()
        if change is None or change.what is not ChangeKind.CUTOVER or change.leader:
            return None
        return change, self._lanes.home.cutover_terms(change)

    def look(self, change: int | None = None) -> tuple[CutoverView, Move]:
        """Look once, and tell what would be done next; nothing is."""
        found = self._find(change)
        view = self._looking.look(found, self._lanes.home.cutover_terms(found))
        return view, next_move(view)

    def advance(self, until: CutoverState, change: int | None = None) -> CutoverProgress:
        """
        Make moves until a state or an end is reached, or the cutover must wait.

        :param until: A state on the way forward; any end counts as well.
        :param change: Number of the cutover; default: the newest.
        :raises CutoverRefused: The stream leads no such cutover.
        :raises RecordError: Its terms cannot be read.
        """
        found = self._find(change)
        terms = self._lanes.home.cutover_terms(found)
        at_most = (terms.stop_grace + _MARGIN).total_seconds()
        return self._engine(found, terms).advance(
            lambda view, move: is_there(view, move, until),
            pace=Pace(at_most=at_most, clock=self._clock, sleep=self._sleep),
            is_in_haste=lambda view: view.is_handover and view.state in _IN_HASTE,
        )

    def command(
        self, command: CutoverCommand, reason: str, change: int | None = None
    ) -> CutoverProgress:
        """
        Record an operator's command.

        Before the switch ``roll-back`` is the same as ``abort``. ``retire`` takes blue's final
        backup.

        :raises CutoverRefused: Not possible in this state; the message lists possible commands.
        :raises CheckpointError: The final backup could not be taken.
        """
        found = self._find(change)
        terms = self._lanes.home.cutover_terms(found)
        self._recorder.give(
            command.value,
            lambda: self._looking.look(found, terms),
            reason,
            meaning=lambda view: _meaning(command, view),
            check=_check,
            facts=lambda view: self._backups(view) if command is CutoverCommand.RETIRE else {},
        )
        view = self._looking.look(found, terms)
        return progress_of(view, is_there=view.is_closed)

    def checked(
        self,
        name: str,
        passed: bool | None,
        reason: str,
        figures: Mapping[str, str] | None = None,
        change: int | None = None,
    ) -> CheckResult:
        """
        Record the result of an author's check, or of a comparison (``compare.STREAM``).

        :param passed: ``None``: inconclusive.
        :returns: The effective result for this stay in ``comparing``: the first one.
        :raises CutoverRefused: The cutover is not in ``comparing``.
        """
        view, _ = self.look(change)
        if view.state is not S.COMPARING:
            raise CutoverRefused(
                f"Check {name!r} came while cutover {view.change.number} of {view.change.stream} "
                f"was in {view.state.value!r}; it counts in 'comparing' only."
            )
        results = {True: Result.PASS, False: Result.FAIL, None: Result.INCONCLUSIVE}
        return self._checks.keep(view, name, results[passed], reason, figures)

    def _engine(self, change: Change, terms: CutoverTerms) -> Engine[CutoverView, Move]:
        return Engine(
            look=lambda: self._looking.look(change, terms), decide=next_move, act=self._acts.do
        )

    def _backups(self, view: CutoverView) -> dict[str, str]:
        facts: dict[str, str] = {}
        if self._retire is None:
            return facts
        for one in view.pairs:
            home = self._lanes.blue(one.pair).home
            deployment = home.deployment(one.pair.blue_deployment)
            facts[f"{one.pair.stream}.backup"] = self._retire(view.change, one.pair, deployment)
        return facts

    def _find(self, number: int | None) -> Change:
        home = self._lanes.home
        led = (one for one in home.changes() if home.leads(one))
        wanted = [one for one in led if number in (None, one.number)]
        if not wanted:
            which = "no cutover" if number is None else f"no cutover with the number {number}"
            raise CutoverRefused(f"Stream {home.name!r} leads {which}. Begin one first.")
        return wanted[-1]


def _meaning(command: CutoverCommand, view: CutoverView) -> CutoverEvent | None:
    if command is CutoverCommand.PROMOTE:
        return CutoverEvent.HAND_OVER if view.is_handover else CutoverEvent.PROMOTE
    return CUTOVER.event_of(command.value, view.state)


def _check(view: CutoverView, event: CutoverEvent) -> None:
    if event not in (CutoverEvent.HAND_OVER, CutoverEvent.PROMOTE):
        return
    move = next_move(view)
    if not move.is_passive and move.event is not event:
        raise CutoverRefused(
            f"Green of {view.change.stream} is not made live: {move.reason} Nothing was done."
        )
