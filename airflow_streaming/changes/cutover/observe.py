"""
Observe a cutover once.

The steps are read before and after the lanes are observed, until both readings agree. So no move is
decided from a state and a snapshot of different moments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from airflow_streaming.changes.cutover.begin import going_back
from airflow_streaming.changes.cutover.lanes import Checkpoints, LaneContext, Lanes, StepSeen
from airflow_streaming.changes.cutover.view import CutoverView, LaneView, PairView, for_stream
from airflow_streaming.changes.engine import agreed
from airflow_streaming.changes.handover.position import covers
from airflow_streaming.changes.judging.green import (
    Judgment,
    judge_after,
    judge_catching_up,
    judge_ready,
)
from airflow_streaming.changes.judging.lane_figures import LaneFigures, Since, figures_of
from airflow_streaming.changes.judging.soak import SoakBaseline, SoakFigures, judge_soak
from airflow_streaming.changes.restore.switch import words
from airflow_streaming.changes.upgrade.acts import first_batches
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.model.records.control import Change, DesiredState
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms, Pair
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState, CutoverTransition
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.supervision.decide import ReconcileInput

log: Final = logging.getLogger(__name__)
_BATCHES: Final = 500
"""The number of a driver's newest batches to read."""
S = CutoverState
_JUDGED: Final = frozenset({S.SHADOWING, S.COMPARING, S.READY})


class Looking:
    """
    Looks at the cutovers of one leader.

    :param checkpoints: Tells positions; without it backlogs must suffice.
    :param compares: The task that looks can compare outputs.
    :param newest: For how long the newest step is seen: states are timed by the task that looks, as far as
        can be.
    """

    def __init__(
        self,
        lanes: Lanes,
        checkpoints: Checkpoints | None,
        *,
        compares: bool,
        now: Callable[[], datetime],
        newest: StepSeen,
    ) -> None:
        self._lanes, self._checkpoints = lanes, checkpoints
        self._compares, self._now = compares, now
        self._known: dict[int, list[CutoverTransition]] = {}
        self.newest = newest
        self.errors: dict[str, int] = {}
        """Errors of measuring in a row, by stream; handed from one task to the next."""

    def look(self, change: Change, terms: CutoverTerms) -> CutoverView:
        """Look once."""
        home = self._lanes.home

        def look(history: Sequence[CutoverTransition]) -> CutoverView:
            return CutoverView(
                is_closed=home.change_end(change.number) is not None,
                change=change,
                terms=terms,
                history=tuple(history),
                pairs=tuple(self._pair(pair, change, terms, history) for pair in terms.pairs),
                now=self._now(),
                checks=self._checks(change, history),
                compares=self._compares,
                seen_for=self.newest.seen_for(change.number, len(history)),
            )

        where = f"change {change.number} of stream {home.name!r}"
        return agreed(lambda: self._history(change), look, where)

    def _history(self, change: Change) -> list[CutoverTransition]:
        known = self._known.get(change.number, [])
        self._known[change.number] = self._lanes.home.steps(change.number, known)
        return self._known[change.number]

    def _checks(
        self, change: Change, history: Sequence[CutoverTransition]
    ) -> Mapping[str, CheckResult]:
        if CUTOVER.state_of(history) is not S.COMPARING:
            return {}
        return self._lanes.home.check_results(change.number, history[-1].number)

    def _pair(
        self, pair: Pair, change: Change, terms: CutoverTerms, history: Sequence[CutoverTransition]
    ) -> PairView:
        state = CUTOVER.state_of(history)
        blue = self._lane(self._lanes.blue(pair), pair.stream, change, state)
        green = self._lane(self._lanes.green(pair), pair.stream, change, state)
        view = PairView(pair=pair, blue=blue, green=green)
        facts = for_stream(pair.stream, facts_of(history))
        if state is S.CATCHING_UP:
            return replace(view, catching_up=self._catching_up(view, terms, facts))
        if state in _JUDGED:
            return replace(view, ready=self._ready(view, terms, facts))
        if state is S.ROLLING_BACK and terms.way is SwitchMethod.HANDOVER:
            return replace(view, comes_back=self._comes_back(view, history[-1]))
        if state is S.LIVE:
            return replace(view, has_committed=_has_committed(view, terms, facts))
        if state is S.SOAKING:
            return replace(view, soak=self._soak(view, terms, history[-1], facts))
        return view

    def _comes_back(self, view: PairView, begun: CutoverTransition) -> Deployment:
        home = self._lanes.blue(view.pair).home
        old = home.deployment(view.pair.blue_deployment)
        return going_back(home, view, old, begun, number=max(view.blue.newest, old.number + 1))

    def _lane(
        self, context: LaneContext, stream: str, change: Change, state: CutoverState
    ) -> LaneView:
        home, situation = context.home, context.observer.situation(asks_change=False)
        desired = home.desired()
        taken = None
        if state is S.PLANNED:
            taken = self._lanes.taken(home.name, stream, change)
        epoch = None if situation.seen is None else situation.seen.epoch
        is_standby = epoch is not None and epoch.standby
        return LaneView(
            lane=home.name,
            situation=replace(
                situation, desired=desired.state if desired else DesiredState.RUNNING
            ),
            desired=desired,
            change=self._lanes.change_in(home.name, stream, change),
            taken="" if taken is None else f"Lane {home.name} has a change: {words(taken)}",
            barrier=home.barrier(epoch.number) if epoch and is_standby else None,
            orders=tuple(home.orders(epoch.number)) if epoch and is_standby else (),
        )

    def _catching_up(
        self, view: PairView, terms: CutoverTerms, facts: Mapping[str, str]
    ) -> Judgment:
        return judge_catching_up(
            self._figures(self._lanes.green(view.pair), view.green),
            self._figures(self._lanes.blue(view.pair), view.blue),
            terms.ready,
            queries=view.pair.queries,
            covers=self._covers(view, facts),
            now=self._now(),
        )

    def _covers(self, view: PairView, facts: Mapping[str, str]) -> dict[str, bool | None]:
        blue, green = view.blue.situation.deployment, view.green.situation.deployment
        marks = for_stream("began", facts)
        if self._checkpoints is None or blue is None or green is None:
            return {}
        found: dict[str, bool | None] = {}
        for query, batch in marks.items():
            try:
                began = self._checkpoints.position(blue, query, int(batch))
                found[query] = covers(self._checkpoints.position(green, query), began)
            except CheckpointError as err:
                # Green may have no checkpoint yet, or blue's batch may be cleaned up: the backlog
                # tells enough.
                log.debug("Cannot read the position of query %s: %s", query, err)
        return found

    def _ready(self, view: PairView, terms: CutoverTerms, facts: Mapping[str, str]) -> Judgment:
        stream = view.pair.stream
        judged = judge_ready(
            self._figures(self._lanes.green(view.pair), view.green),
            self._figures(self._lanes.blue(view.pair), view.blue),
            terms.ready,
            Since.from_facts(facts),
            queries=view.pair.queries,
            compared=any(one.stream == stream for one in terms.compare),
            errors=self.errors.get(stream, 0),
            now=self._now(),
        )
        self.errors[stream] = judged.errors
        return judged

    def _soak(
        self,
        view: PairView,
        terms: CutoverTerms,
        entered: CutoverTransition,
        facts: Mapping[str, str],
    ) -> Judgment:
        home, situation = self._lanes.green(view.pair).home, view.green.situation
        epoch = view.green_epoch
        batches = home.read_progress(epoch, limit=_BATCHES) if epoch else []
        baseline = SoakBaseline(
            launched_at=entered.at,
            epoch=int(facts.get("live_epoch", "0")),
        )
        figures = SoakFigures(
            seen=situation.seen,
            rules=situation.rules,
            batches=batches,
            first=first_batches(home, epoch, batches) if epoch else {},
        )
        return judge_after(judge_soak(baseline, figures, terms.soak, situation.now))

    def _figures(self, context: LaneContext, lane: LaneView) -> LaneFigures | None:
        situation: ReconcileInput = lane.situation
        if situation.seen is None:
            return None
        rows = context.home.read_progress(situation.seen.epoch.number, limit=_BATCHES)
        return figures_of(situation.seen, situation.rules, rows)


def _has_committed(view: PairView, terms: CutoverTerms, facts: Mapping[str, str]) -> bool:
    seen = view.green.situation.seen
    if seen is None or seen.status is None or str(seen.epoch.number) != facts.get("live_epoch"):
        return False
    if view.green.epoch is not None and view.green.epoch.standby and not view.green.is_released:
        return False
    status, before = seen.status, int(facts.get("live_batches", "0"))
    is_idle = bool(status.queries) and all(
        query.active and query.waits_for_trigger and not query.data_available
        for query in status.queries
    )
    return status.batches > before or is_idle
