"""The input of a cutover's next move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.durations import CLOCKS_DIFFER, age_of
from airflow_streaming.model.observation import Verdict
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.model.records.control import Change, Desired, DesiredState
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms, Pair
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import (
    Barrier,
    Epoch,
    LaunchCause,
    OrderAct,
    StandbyOrder,
)
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.health import judge

_NONE: Final = timedelta(0)
_LONG: Final = (CutoverState.CATCHING_UP, CutoverState.SHADOWING)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """
    A lane as observed.

    :param change: Number of the cutover's change in this lane, if any.
    :param taken: The unfinished change of another task, in words; else empty.
    :param barrier: The state at the barrier of the newest epoch, if that is a standby.
    :param orders: Orders to the newest epoch's driver.
    :param desired: The record of the lane's desired state; ``situation`` has the state.
    """

    lane: str
    situation: ReconcileInput
    change: int | None = None
    taken: str = ""
    barrier: Barrier | None = None
    orders: tuple[StandbyOrder, ...] = ()
    desired: Desired | None = None

    @property
    def epoch(self) -> Epoch | None:
        """Return the newest epoch."""
        return None if self.situation.seen is None else self.situation.seen.epoch

    @property
    def newest(self) -> int:
        """Return the number of the newest deployment; 0 before the first."""
        return 0 if self.situation.deployment is None else self.situation.deployment.number

    @property
    def verdict(self) -> Verdict | None:
        seen = self.situation.seen
        return None if seen is None else judge(seen, self.situation.rules)

    @property
    def is_wanted_stopped(self) -> bool:
        """Tell whether this lane is to be down, for whatever reason."""
        return self.situation.desired is DesiredState.STOPPED

    @property
    def is_stopped_by_person(self) -> bool:
        """Return whether this lane should stop, and not by the cutover's own request."""
        is_own = self.desired is not None and self.desired.change is not None
        return self.is_wanted_stopped and not is_own

    @property
    def is_stopped_by_us(self) -> bool:
        """Tell whether this very cutover has recorded that the lane is to be down."""
        is_own = self.desired is not None and self.desired.change == self.change is not None
        return self.is_wanted_stopped and is_own

    @property
    def is_running(self) -> bool:
        """Tell whether its newest epoch has a driver that has not ended and was not told to."""
        seen, verdict, epoch = self.situation.seen, self.verdict, self.epoch
        if seen is None or verdict is None or epoch is None or verdict.has_ended:
            return False
        return (
            epoch.cause is not LaunchCause.FENCE
            and seen.exit is None
            and self.situation.stop is None
        )

    @property
    def is_released(self) -> bool:
        """Return whether a standby driver was released."""
        return any(order.act is OrderAct.RELEASE for order in self.orders)

    def is_standby_of(self, step: int) -> bool:
        """Tell whether the newest epoch is a standby that was begun after a step."""
        epoch = self.epoch
        return bool(epoch and epoch.standby and self.is_ours(epoch) and (epoch.step or 0) >= step)

    def is_fence_of(self, step: int) -> bool:
        """Tell whether the newest epoch is a fence that was taken after a step, finished or not."""
        epoch = self.epoch
        is_fence = epoch is not None and epoch.cause is LaunchCause.FENCE
        return bool(is_fence and epoch and self.is_ours(epoch) and (epoch.step or 0) >= step)

    def is_fenced(self, step: int) -> bool:
        """Tell whether no task that looked before a step can start a driver now."""
        seen = self.situation.seen
        is_whole = seen is not None and seen.death is not None and self.situation.stop is not None
        return is_whole and self.is_fence_of(step)

    @property
    def is_half_fenced(self) -> bool:
        """Tell whether the newest epoch is a fence whose maker has died before it was whole."""
        seen, epoch = self.situation.seen, self.epoch
        if seen is None or epoch is None or epoch.cause is not LaunchCause.FENCE:
            return False
        return seen.death is None or self.situation.stop is None

    def is_ours(self, epoch: Epoch) -> bool:
        """Tell whether an epoch was begun on behalf of the cutover."""
        return self.change is not None and epoch.change == self.change


@dataclass(frozen=True, slots=True, kw_only=True)
class PairView:
    """
    A stream of a cutover as observed.

    :param catching_up: The judgment in ``catching_up``; else ``None``.
    :param ready: The judgment from ``shadowing`` to ``ready``.
    :param soak: The judgment in ``soaking``.
    :param has_committed: Green has committed a batch since it became live, or has no input.
    :param comes_back: Blue's deployment that continues in its output after a handover; ``None``
        except in ``rolling_back``.
    """

    pair: Pair
    blue: LaneView
    green: LaneView
    catching_up: Judgment | None = None
    ready: Judgment | None = None
    soak: Judgment | None = None
    has_committed: bool = False
    comes_back: Deployment | None = None

    @property
    def green_epoch(self) -> int:
        """Return the number of green's newest epoch, 0 before the first."""
        return self.green.epoch.number if self.green.epoch else 0

    @property
    def is_carried(self) -> bool:
        """Tell whether a handover copies blue's checkpoint, and green absorbs nothing."""
        return self.pair.live.checkpoint != self.pair.shadow.checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverView:
    """
    A cutover as observed.

    :param checks: Results of this stay in ``comparing``, by name.
    :param compares: The observing task can compare outputs itself.
    :param seen_for: How long the observing task has seen the newest step, by its own clock.
    """

    change: Change
    terms: CutoverTerms
    history: Sequence[CutoverTransition]
    pairs: Sequence[PairView]
    now: datetime
    checks: Mapping[str, CheckResult] = field(default_factory=dict)
    compares: bool = False
    is_closed: bool = False
    seen_for: timedelta = _NONE

    @property
    def state(self) -> CutoverState:
        """Return where the cutover is."""
        return CUTOVER.state_of(self.history)

    @property
    def step(self) -> int:
        """Return the number of the newest step; 0 before the first."""
        return len(self.history)

    @property
    def lasted(self) -> timedelta:
        """
        Return how long it has been in its state, at least.

        A green that flaps must not put off its deadline for ever, so all stays in which it catches
        up or is watched count together, since the last command. The hosts that record steps may
        have other clocks: only the observer's own time counts, or time beyond any difference of
        clocks.
        """
        return self._stayed + max(self.seen_for, age_of(self._entered, self.now) - CLOCKS_DIFFER)

    @property
    def _entered(self) -> datetime:
        newest = self.history[-1].at if self.history else self.change.at
        # A date to come that an earlier step has says nothing of the state.
        past = (step.at for step in self.history if step.at <= self.now)
        return newest if newest > self.now else max(past, default=newest)

    @property
    def _stayed(self) -> timedelta:
        fresh = (CutoverEvent.GREEN_STARTED, CutoverEvent.LOOK_AGAIN)
        first = max((step.number for step in self.history if step.event in fresh), default=1)
        known = pairwise(self.history[first - 1 :])
        stays = (
            max(min(to.at, self.now) - at.at, _NONE) for at, to in known if at.after is self.state
        )
        return sum(stays, _NONE) if self.state in _LONG else _NONE

    @property
    def is_handover(self) -> bool:
        """Tell whether green continues in blue's output."""
        return self.terms.way is SwitchMethod.HANDOVER

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts of all steps together; later ones win."""
        return facts_of(self.history)

    def was_in(self, *states: CutoverState) -> bool:
        """Tell whether the cutover has been in one of some states."""
        return any(step.after in states for step in self.history)

    def step_into(self, state: CutoverState) -> int:
        """Return the number of the newest step into a state, or 0."""
        return max((step.number for step in self.history if step.after is state), default=0)


def of_stream(stream: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Return facts with a stream's prefix, so that several streams' facts do not collide."""
    return {f"{stream}.{key}": value for key, value in facts.items()}


def for_stream(stream: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that are kept for one stream, under their own keys."""
    prefix = f"{stream}."
    return {k.removeprefix(prefix): v for k, v in facts.items() if k.startswith(prefix)}
