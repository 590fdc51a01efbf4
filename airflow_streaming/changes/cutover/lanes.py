"""
The lanes of a cutover: their interfaces and memory.

Losing the memory does no harm: a silence, an error or a deadline is counted again.

A pair is a function of its facts, as long as neither lane gets another deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Protocol

from airflow_streaming.changes.handover.fast_forward import FastForward
from airflow_streaming.changes.handover.handover import HandoverPlan
from airflow_streaming.changes.handover.position import Position
from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.cutover import CutoverTerms, Pair
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.uris import join
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.supervision.actions import StreamActions
from airflow_streaming.supervision.controller import StreamController
from airflow_streaming.supervision.observer import Observer

Compare = Callable[[CompareTerms, Deployment, Deployment], Judgment]
"""Compares the outputs of blue and green; takes minutes. Unmeasurable outputs are inconclusive."""
Retire = Callable[[Change, Pair, Deployment], str]
"""Takes the final backup of what blue was; returns its id."""
LANES: Final = "lanes"
"""The observers' memories by lane."""
ERRORS: Final = "errors"
"""Errors of measuring in a row, by stream."""
STEP: Final = "step"
"""For how long the newest step has been seen."""

BY_PLACE: Final = frozenset({"stream", "checkpoint", "output"})
"""Fields that always differ between two lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneContext:
    """
    Observes and changes one lane.

    :param controller: Acts on the lane with its stream's spec; without one (at a terminal) launches
        wait for the DAG.
    :param acts: Stops, kills, fences; the same as ``controller`` if present.
    :param observer: Observes the lane. Keep it between looks: it remembers how long it has heard no
        heartbeat.
    """

    home: StreamHome
    controller: StreamController | None
    acts: StreamActions
    observer: Observer


class LaneProvider(Protocol):
    """Opens lanes."""

    def open(self, stream: str, lane: str) -> LaneContext:
        """
        Return the context of one lane; called once a lane by each engine.

        :raises CutoverRefused: This DAG has no such stream.
        """


class Checkpoints(Protocol):
    """Checkpoint operations of a cutover; every method is idempotent."""

    def start(self, pair: Pair, blue: Deployment) -> Mapping[str, str]:
        """
        Make what green's ``pair.shadow`` begins with.

        :param blue: The deployment that is live; it may be running.
        :returns: By query, the id in its new checkpoint; a fresh query is not named.
        :raises CheckpointRefused: it cannot be done.
        :raises CheckpointBusy: blue changed under every attempt; called again later.
        """

    def position(self, deployment: Deployment, query: str, batch: int | None = None) -> Position:
        """
        Return how far a query is, by its checkpoint.

        :param batch: How far it was with this committed batch; by default with the newest.
        :raises CheckpointError: the checkpoint does not tell.
        """

    def look(self, ahead: Deployment, behind: Deployment, query: str) -> HandoverPlan:
        """
        Plan the batch in the checkpoint of the lane that takes over.

        :param ahead: Of the lane that hands over; it may be running.
        :param behind: Of the lane that takes over; its driver waits at the barrier.
        :raises CheckpointRefused: It can never reach the other's position.
        """

    def plan(self, behind: Deployment, query: str, plan: FastForward) -> None:
        """Write a planned batch."""

    def carry(self, ahead: Deployment, behind: Deployment, query: str) -> str:
        """
        Make the checkpoint of a stateless query from a drained lane's; numbers stay.

        :returns: The query's id in it.
        """

    def query_id(self, deployment: Deployment, query: str) -> str:
        """Return the id in a query's checkpoint, or an empty string."""

    def location(self, deployment: Deployment, query: str) -> str:
        """Return the qualified location of a query's checkpoint, as a claim names it."""


class StepSeen:
    """
    For how long a task has seen the newest step of a cutover, by its own clock.

    :param memory: Where another one left off; the time in which no task looked is not counted.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self, memory: Mapping[str, Any] | None = None, *, clock: Callable[[], float]
    ) -> None:
        known = memory or {}
        self._clock = clock
        self._newest = (int(known.get("change", 0)), int(known.get("step", 0)))
        self._since = clock() - float(known.get("seen_for", 0))

    def seen_for(self, change: int, step: int) -> timedelta:
        """Return for how long a step has been seen to be the newest one."""
        clock = self._clock()
        if self._newest != (change, step):
            self._newest, self._since = (change, step), clock
        return timedelta(seconds=clock - self._since)

    def memory(self) -> dict[str, Any]:
        """Return the memory for the next instance."""
        change, step = self._newest
        return {"change": change, "step": step, "seen_for": self._clock() - self._since}


class Lanes:
    """
    Opens each lane once, and knows the cutover's change in it.

    :param leader: The stream in whose base lane cutovers are recorded.
    """

    def __init__(self, leader: str, source: LaneProvider) -> None:
        self.leader: Final = leader
        self._source = source
        self._open: dict[str, LaneContext] = {}
        self._guests: dict[tuple[str, int], int] = {}

    @property
    def home(self) -> StreamHome:
        """The home that leads."""
        return self.of(self.leader, self.leader).home

    def of(self, stream: str, lane: str) -> LaneContext:
        """Return the hands of a lane."""
        if lane not in self._open:
            self._open[lane] = self._source.open(stream, lane)
        return self._open[lane]

    def blue(self, pair: Pair) -> LaneContext:
        """Return the hands of the lane that is live when the cutover begins."""
        return self.of(pair.stream, pair.blue)

    def green(self, pair: Pair) -> LaneContext:
        """Return the hands of the other one."""
        return self.of(pair.stream, pair.green)

    def base(self, pair: Pair) -> StreamHome:
        """Return the home that has a stream's live pointer."""
        return self.of(pair.stream, pair.stream).home

    def change_in(self, lane: str, stream: str, change: Change) -> int | None:
        """Return the number of the cutover's change in a lane; ``None`` while it has none."""
        if lane == self.leader:
            return change.number
        key = (lane, change.number)
        if key not in self._guests:
            name = guest_of(self.leader, change.number)
            changes = self.of(stream, lane).home.changes()
            found = [one.number for one in changes if one.leader == name]
            if not found:
                return None
            self._guests[key] = found[-1]
        return self._guests[key]

    def taken(self, lane: str, stream: str, change: Change) -> Change | None:
        """Return the unfinished change of a lane that does not belong to the cutover."""
        found = self.of(stream, lane).home.unfinished_change()
        is_lead = lane == self.leader and found is not None and found.number == change.number
        if found is None or is_lead or found.leader == guest_of(self.leader, change.number):
            return None
        return found

    def guests(self, terms: CutoverTerms) -> Iterator[tuple[str, str]]:
        """Return stream and lane of every lane but the leading one."""
        for pair in terms.pairs:
            for lane in (pair.blue, pair.green):
                if lane != self.leader:
                    yield pair.stream, lane

    def memory(self) -> dict[str, object]:
        """Return what all observers remember, by lane."""
        return {lane: context.observer.memory() for lane, context in self._open.items()}


def guest_of(leader: str, change: int) -> str:
    """Return the ``leader`` of a guest's record."""
    return f"{leader}/{change}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    A stream of a planned cutover.

    :param blue: Records of the live lane.
    :param green: Name of the other lane.
    :param propose: Makes green's deployment, with a checkpoint and an output of its own, and reads
        the script; its argument is the configuration of a copied checkpoint, or ``None``.
    :param program: Joins a deployment, its script and the dag's secrets, for plan mode.
    :param of_profile: Returns the settings that the stream's profile has given to a deployment.
    """

    stream: str
    home: str
    blue: StreamHome
    green: str
    propose: Callable[[Mapping[str, str] | None], tuple[Deployment, bytes]]
    program: Callable[[Deployment, bytes], Program]
    runtime: Runtime
    of_profile: Callable[[Deployment], frozenset[str]] = lambda _: frozenset()

    def current(self) -> Deployment:
        """
        Return the live deployment.

        :raises CutoverRefused: The stream has no deployment.
        """
        found = self.blue.newest_deployment()
        if found is None:
            raise CutoverRefused(
                f"Stream {self.stream!r} has never run, so there is nothing to cut over from. Its "
                "keep-alive dag starts it."
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Planned facts of a stream from which its pair is made; the fields are the pair's."""

    start: StartWay
    replay_from: str = ""
    queries: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    sinks: tuple[Any, ...] = ()
    migrations: tuple[Any, ...] = ()


def pair_of(candidate: Candidate, way: SwitchMethod, facts: Facts) -> tuple[Pair, bytes]:
    """
    Return one stream's pair, and green's script.

    It is a function of its facts, as long as neither lane gets another deployment.

    :raises SpecError: The script or the runtime is missing.
    """
    current = candidate.current()
    is_copied = facts.start.is_copy
    proposed, source = candidate.propose(current.conf if is_copied else None)
    shadow = replace(proposed, replay_from=facts.replay_from)
    return (
        Pair(
            stream=candidate.stream,
            blue=candidate.blue.name,
            green=candidate.green,
            blue_deployment=current.number,
            shadow=shadow,
            live=shadow if way is SwitchMethod.PARALLEL else _on_one_sink(candidate, shadow, facts),
            start=facts.start,
            queries=facts.queries,
            stateful=facts.stateful,
            sinks=facts.sinks,
            migrations=facts.migrations,
        ),
        source,
    )


def _on_one_sink(candidate: Candidate, shadow: Deployment, facts: Facts) -> Deployment:
    """Return what green runs after a handover: in blue's output, with the state it has warmed."""
    number = shadow.number + 1
    fresh = join(candidate.home, Layout(candidate.green).checkpoint(number))
    return replace(
        shadow,
        number=number,
        output=candidate.current().output,
        checkpoint=shadow.checkpoint if facts.stateful else fresh,
    )


def is_proposed(pairs: Sequence[Pair], candidates: Sequence[Candidate]) -> bool:
    """Return whether a cutover's pairs equal the present proposals, except for places."""
    if [pair.stream for pair in pairs] != [one.stream for one in candidates]:
        return False
    return all(map(_is_same, pairs, candidates))


def _is_same(pair: Pair, candidate: Candidate) -> bool:
    is_copied = pair.start.is_copy
    carried_on = pair.shadow.conf if is_copied else None
    proposed, _ = candidate.propose(carried_on)
    apart = {name: getattr(pair.shadow, name) for name in BY_PLACE}
    return replace(proposed, **apart).fingerprint == pair.shadow.fingerprint
