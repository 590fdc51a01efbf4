"""
The records of a cutover: its terms, the live lane, checks, and its standing.

A live record says that from one step of a cutover on a lane is the live one. It counts as soon as
that step is recorded, so that one exclusive create moves every stream of a cutover at once. Until
then, and for ever if another step was recorded in its place, the previous record counts.

Until blue must stop, a cutover does not touch it, and its keep-alive task continues as always. From
then on no driver, or another lane's, must run for some time, and only the cutover knows which; so
keep-alive tasks of either lane only watch until it is over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.names import base_of, is_path_part
from airflow_streaming.model.records.cutover_table import (
    DEADLINES,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.wire import Record

Step = Callable[[str, int, int], CutoverTransition | None]
"""Returns a step by leading stream, change and number; ``None`` when it was not taken yet."""

_HANDS_OFF: Final = frozenset(
    {
        CutoverState.DRAINING,
        CutoverState.SWITCHING,
        CutoverState.LIVE,
        CutoverState.SOAKING,
        CutoverState.FINALIZING,
        CutoverState.ABORTING,
        CutoverState.ROLLING_BACK,
    }
)
_USUAL: Final = timedelta(minutes=30)
_WHILE_NOBODY_ELSE_ACTS: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    A stream of a cutover.

    :param stream: The stream's name; its folder has the live pointer.
    :param blue: The lane that is live when the cutover begins.
    :param blue_deployment: Number of blue's deployment when the cutover was planned.
    :param shadow: Green's deployment beside blue: with an output, and a checkpoint, of its own.
    :param live: Green's deployment once it is live. The same as ``shadow`` for parallel outputs;
        for a handover the next number, with blue's output.
    :param start: The origin of the checkpoint of ``shadow``.
    :param queries: Names of the queries of both.
    :param stateful: The stateful ones among them.
    :param sinks: Of blue; a handover needs its batch ids.
    :param migrations: Of the queries whose state green cannot read as it is.
    """

    stream: str
    blue: str
    green: str
    blue_deployment: int
    shadow: Deployment
    live: Deployment
    start: StartWay
    queries: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    sinks: tuple[SinkFacts, ...] = ()
    migrations: tuple[StateMigration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTerms(Record):
    """
    All terms that a task needs to finish a cutover.

    :param change: Number of the change in the first pair's stream, which leads.
    :param pairs: The streams that move together: all of them or none.
    :param compare: Comparisons of outputs; without any, outputs are not compared.
    :param soak: Conditions for green after the switch.
    :param promotes_by_itself: A ready green becomes live without an approval.
    :param finalizes_by_itself: A good soak is the point of no return without an approval.
    :param retain_blue: How long blue's checkpoint and output are kept after that.
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak, so that going
        back takes no time.
    :param deadlines: Of states by their name, instead of ``DEADLINES``.
    :param pointers: Names of the consumers' pointers beside the home's own pointer, in their order;
        the dag has the adapters.
    :param checks: Names of the author's checks that must pass while outputs are compared.
    :param stop_grace: How long a driver may take to reach a batch boundary.
    :param key: Names the request: a request with the same key means this cutover, ended or not.
    """

    KIND: ClassVar[str] = "cutover_terms"

    change: int
    way: SwitchMethod
    pairs: tuple[Pair, ...]
    ready: ReadyTerms = field(default_factory=ReadyTerms)
    compare: tuple[CompareTerms, ...] = ()
    soak: SoakTerms = field(default_factory=SoakTerms)
    promotes_by_itself: bool = False
    finalizes_by_itself: bool = True
    retain_blue: timedelta = timedelta(days=1)
    keeps_blue_running: bool = True
    deadlines: Mapping[str, timedelta] = field(default_factory=dict)
    pointers: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    stop_grace: timedelta = timedelta(seconds=60)
    key: str = ""

    @property
    def leader(self) -> Pair:
        return self.pairs[0]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the terms but for their number: what names their record."""
        return hashlib.sha256(replace(self, change=0).to_bytes()).hexdigest()

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return how long a state may last; ``None`` for ever."""
        return self.deadlines.get(state.value, DEADLINES.get(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord(Record):
    """
    A lane that becomes live with a step of a cutover; ``live/000004.json``.

    :param stream: The stream.
    :param deployment: Number of its deployment at that time.
    :param leader: The stream that leads the cutover.
    :param change: Number of the cutover's change there.
    :param step: Number of the transition with which this counts.
    :param event: The event that must be in it.
    """

    KIND: ClassVar[str] = "live"

    number: int
    stream: str
    lane: str
    deployment: int
    output: str
    leader: str
    change: int
    step: int
    event: CutoverEvent
    at: datetime
    by: str

    def __post_init__(self) -> None:
        # Each of them becomes the folder that is read next.
        for name in (self.stream, self.lane, self.leader):
            if not is_path_part(name):
                raise ValueError(f"{name!r:.80} is not the name of a stream or a lane.")
        if base_of(self.lane) != self.stream:
            raise ValueError(f"{self.lane!r:.80} is not a lane of stream {self.stream!r:.80}.")


def effective(records: Sequence[LiveRecord], step: Step) -> LiveRecord | None:
    """
    Return the record that counts.

    :param records: Of one stream, oldest first.
    """
    for record in reversed(records):
        taken = step(record.leader, record.change, record.step)
        if taken is not None and taken.event is record.event:
            return record
    return None


class Result(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Record):
    """
    The result of one check; ``changes/000004/checks/000007-compare.orders.json``.

    :param change: Number of the cutover's change in the leading stream.
    :param step: Number of the step that led to ``comparing``: a result of an earlier stay there,
        perhaps for another driver of green, never counts for a later one.
    :param name: ``compare.STREAM`` for a comparison, else the name in ``CutoverTerms.checks``.
    """

    KIND: ClassVar[str] = "cutover_check"

    change: int
    step: int
    name: str
    result: Result
    reason: str
    at: datetime
    by: str
    figures: Mapping[str, str] = field(default_factory=dict)


def comparison_of(stream: str) -> str:
    """Return the name under which the comparison of a stream's outputs is kept."""
    return f"compare.{stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverStanding:
    """
    A cutover that was not closed, as one of its lanes sees it.

    :param change: Number of the change in the lane that looks.
    :param green: Name of the lane that is to become live; empty when its terms cannot be read.
    :param state: Where the cutover is, and ``since`` when.
    :param deadline: How long it may be there before it aborts automatically.
    """

    change: int
    state: CutoverState
    since: datetime
    green: str = ""
    deadline: timedelta = timedelta(0)

    def __str__(self) -> str:
        towards = f"cutover to {self.green}" if self.green else "cutover"
        which, state = f"Change {self.change} ({towards})", self.state.value.replace("_", " ")
        if self.state.is_end:
            return f"{which} has come to its end and was not closed: {state}."
        return f"{which} is in progress: {state}."

    @property
    def rule(self) -> str:
        return "unfinished_cutover"

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the cutover may start a driver now."""
        return self.state in _HANDS_OFF

    @property
    def patience(self) -> timedelta:
        """Return how long it may be in its state before an alert is sent."""
        # After the end one action remains, the release of a driver at the barrier; see ``decide``.
        is_urgent = self.owns_stream or self.state.is_end
        return self.deadline + (_WHILE_NOBODY_ELSE_ACTS if is_urgent else _USUAL)

    def is_overdue(self, now: datetime) -> bool:
        return age_of(self.since, now) > self.patience
