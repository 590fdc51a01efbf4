"""Deploying: the deployments that a cutover makes, each the same whoever makes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.core.control import Desired, DesiredState, EventKind
from airflow_streaming.core.cutover.moving.moves import Do, Move
from airflow_streaming.core.cutover.moving.view import CutoverView, LaneView, PairView
from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.cutover.terms import Pair
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import Layout
from airflow_streaming.core.uris import join
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.ports import Checkpoints
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.exceptions import AlreadyExists, CheckpointBusy, CheckpointError
from airflow_streaming.home.home import StreamHome

log: Final = logging.getLogger(__name__)


class Deploying:
    """
    Makes green's first checkpoint and the deployments of both lanes.

    :param checkpoints: ``None`` for whoever cannot make any: only the dag's tasks can.
    """

    def __init__(self, lanes: Lanes, recorder: Recorder, checkpoints: Checkpoints | None) -> None:
        self._lanes, self._recorder, self._checkpoints = lanes, recorder, checkpoints

    def start(self, view: CutoverView, move: Move) -> str | None:
        """Make what green begins with, and its deployment; the record comes last."""
        one = view.pairs[move.pair]
        pair, hands = one.pair, self._lanes.green(one.pair)
        if self._checkpoints is None:
            return f"The checkpoint of {pair.green} can be made by the stream's dag only."
        try:
            ids = self._checkpoints.start(pair, _blue(one, self._lanes.blue(pair).home))
        except CheckpointBusy as err:
            return str(err)
        except CheckpointError as err:
            reason = f"{pair.green} cannot begin with that checkpoint: {err}"
            self._recorder.take(view, CutoverEvent.GREEN_FAILED, reason)
            return None
        self._claim(hands.home, pair, ids)
        epoch = hands.home.newest_epoch()
        circuit = hands.home.circuit()
        if circuit is not None and circuit.holds(epoch.number if epoch else None):
            # What failed there once was another deployment.
            hands.acts.forgive(f"Change {view.change.number} begins anew in this lane.")
        self._want(view, hands.home, one.green, DesiredState.RUNNING, move.reason)
        self._deploy(hands.home, pair.shadow, move.reason)
        return None

    def reserve(self, view: CutoverView, move: Move) -> None:
        """Make green's deployment, so that its number is not left open for one who is late."""
        pair = view.pairs[move.pair].pair
        self._deploy(self._lanes.green(pair).home, pair.shadow, move.reason)

    def deploy_live(self, view: CutoverView, move: Move) -> None:
        """Make the deployment with which green goes on in blue's output."""
        pair = view.pairs[move.pair].pair
        self._deploy(self._lanes.green(pair).home, pair.live, move.reason)

    def deploy_back(self, view: CutoverView, move: Move) -> None:
        """Make the deployment with which blue goes on in its output; it equals the old one."""
        one = view.pairs[move.pair]
        home = self._lanes.blue(one.pair).home
        old = home.deployment(one.pair.blue_deployment)
        back = going_back(home, one, old, view.history[-1], number=one.blue.newest + 1)
        self._create(home, back, home.application(old.number), move.reason)

    def want(self, view: CutoverView, move: Move) -> None:
        """Record that a lane is to stay down, or that it is not."""
        one = view.pairs[move.pair]
        lane = one.blue if move.lane == one.blue.lane else one.green
        state = DesiredState.STOPPED if move.do is Do.WANT_STOPPED else DesiredState.RUNNING
        home = self._lanes.of(one.pair.stream, lane.lane).home
        self._want(view, home, lane, state, move.reason)

    def _want(
        self, view: CutoverView, home: StreamHome, lane: LaneView, state: DesiredState, reason: str
    ) -> None:
        # Whoever has slept since he looked must not stop a stream that has gone on without him: the
        # wish is the one after that which he saw, or none.
        is_late = len(self._lanes.home.steps(view.change.number, view.history)) != view.step
        if is_late or lane.situation.desired is state:
            return
        wish = Desired(
            number=lane.wish.number + 1 if lane.wish is not None else 1,
            state=state,
            by=self._recorder.by,
            reason=reason,
            at=self._recorder.now,
            change=lane.change,
        )
        if not home.want_next(wish):
            log.info("Somebody else said first what is wanted of lane %s.", home.name)

    def _deploy(self, home: StreamHome, deployment: Deployment, reason: str) -> None:
        self._create(home, deployment, home.kept_application(deployment), reason)

    def _create(self, home: StreamHome, deployment: Deployment, source: bytes, reason: str) -> None:
        try:
            home.create_deployment(deployment, source)
        except AlreadyExists:
            log.info("Somebody else made deployment %d of %s.", deployment.number, home.name)
            return
        told = f"Deployment {deployment.number} is now the current one of lane {home.name}."
        self._recorder.tell(home, EventKind.DEPLOYED, f"{told} {reason}")

    def _claim(self, home: StreamHome, pair: Pair, ids: Mapping[str, str]) -> None:
        # A checkpoint that vanished before its first start is refused then, not started empty.
        if self._checkpoints is None:
            return
        for query, query_id in ids.items():
            claim = QueryClaim(
                query=query,
                query_id=query_id,
                checkpoint=self._checkpoints.location(pair.shadow, query),
                epoch=0,
            )
            home.add_claim(pair.shadow.number, claim)


def going_back(
    home: StreamHome, one: PairView, old: Deployment, begun: Transition, *, number: int
) -> Deployment:
    """
    Return the deployment with which blue goes on in its output after a hand-over.

    :param home: Of blue's lane.
    :param old: What blue ran when the cutover began.
    :param begun: The step that led to ``rolling_back``.
    """
    checkpoint = _own_place(home, number) if one.is_carried else old.checkpoint
    return replace(
        old, number=number, checkpoint=checkpoint, created_at=begun.at, created_by=begun.by
    )


def _blue(one: PairView, home: StreamHome) -> Deployment:
    return one.blue.situation.deployment or home.deployment(one.pair.blue_deployment)


def _own_place(home: StreamHome, deployment: int) -> str:
    """Return the folder of a deployment's checkpoints that no other lane or stream can have."""
    return join(home.store.uri, Layout(home.name).checkpoint(deployment))
