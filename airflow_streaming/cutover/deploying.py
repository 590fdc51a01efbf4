"""Deploying: the deployments that a cutover makes, each the same whoever makes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.core.control import DesiredState, EventKind
from airflow_streaming.core.cutover.moves import Move
from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.cutover.terms import Pair
from airflow_streaming.core.cutover.view import CutoverView, PairView
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import numbered
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
        self._want(hands.home, DesiredState.RUNNING, move.reason)
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
        one, begun = view.pairs[move.pair], view.history[-1]
        home = self._lanes.blue(one.pair).home
        old = home.deployment(one.pair.blue_deployment)
        checkpoint = _next_to(old.checkpoint, one.back) if one.is_carried else old.checkpoint
        back = replace(
            old, number=one.back, checkpoint=checkpoint, created_at=begun.at, created_by=begun.by
        )
        self._create(home, back, home.application(old.number), move.reason)

    def want_stopped(self, view: CutoverView, move: Move) -> None:
        """Record that a lane is to stay down."""
        pair = view.pairs[move.pair].pair
        self._want(self._lanes.of(pair.stream, move.lane).home, DesiredState.STOPPED, move.reason)

    def _want(self, home: StreamHome, state: DesiredState, reason: str) -> None:
        home.want(state, by=self._recorder.by, reason=reason, now=self._recorder.now)

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


def _blue(one: PairView, home: StreamHome) -> Deployment:
    return one.blue.situation.deployment or home.deployment(one.pair.blue_deployment)


def _next_to(checkpoint: str, number: int) -> str:
    """Return the folder of another deployment beside that of one."""
    parent, _, _ = checkpoint.rstrip("/").rpartition("/")
    return f"{parent}/{numbered(number)}"
