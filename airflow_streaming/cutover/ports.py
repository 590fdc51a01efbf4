"""What the engine of a cutover needs from elsewhere: hands in each lane, checkpoints, comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_streaming.checkpoint.handing_over import HandOver
from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.handover.absorbing import Absorption
from airflow_streaming.core.cutover.handover.position import Position
from airflow_streaming.core.cutover.judging.judge import Judgement
from airflow_streaming.core.cutover.terms import CompareTerms, Pair
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.acts import StreamActs
from airflow_streaming.launch.keeper import Keeper
from airflow_streaming.observe.stream import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHands:
    """
    Eyes and hands in one lane.

    :param keeper: Acts on the lane with its stream's spec; without one (at a terminal) nothing can
        be launched, and what needs a launch waits for the dag.
    :param acts: Stops, kills, fences; the same as ``keeper`` where there is one.
    :param observer: Looks at the lane. Keep it between looks: it remembers for how long it has
        heard nothing.
    """

    home: StreamHome
    keeper: Keeper | None
    acts: StreamActs
    observer: Observer


class LaneSource(Protocol):
    """Opens lanes."""

    def open(self, stream: str, lane: str) -> LaneHands:
        """
        Return the hands of one lane; called once a lane by each engine.

        :param stream: Name of the stream.
        :param lane: Name of its lane.
        :raises CutoverRefused: the stream is none that this dag has.
        """


class Checkpoints(Protocol):
    """What is done with checkpoints; every method may be called again and does the same."""

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

    def look(self, ahead: Deployment, behind: Deployment, query: str) -> HandOver:
        """
        Say what has to be done in the checkpoint of the lane that takes over.

        :param ahead: Of the lane that hands over; it may be running.
        :param behind: Of the lane that takes over; its driver waits at the barrier.
        :raises CheckpointRefused: it can never stand where the other stands.
        """

    def plan(self, behind: Deployment, query: str, plan: Absorption) -> None:
        """Write a planned batch."""

    def carry(self, ahead: Deployment, behind: Deployment, query: str) -> str:
        """
        Make the checkpoint of a stateless query from that of a drained lane; numbers stay.

        :returns: The query's id in it.
        """

    def query_id(self, deployment: Deployment, query: str) -> str:
        """Return the id in a query's checkpoint; empty while there is none."""

    def location(self, deployment: Deployment, query: str) -> str:
        """Return the qualified location of a query's checkpoint, as a claim names it."""


Compare = Callable[[CompareTerms, Deployment, Deployment], Judgement]
"""Compares the outputs of blue and green; takes minutes. What cannot be measured is inconclusive."""

Retire = Callable[[Change, Pair, Deployment], str]
"""Takes the final backup of what blue was; returns its id."""
