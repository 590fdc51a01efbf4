"""
Subject to snapshot, for sensors and assets.

The dag keeps naming one stream, one output and one checkpoint, whichever lane is live. Two lanes
share no folder unless a cutover says so, so a place that the dag names, and that any deployment of
the stream ever had, is history: the lane stays where its newest deployment is. A place that is new
is a wish, and proposed like any other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.hooks.checkpoint import CheckpointHook
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.status import Status
from airflow_streaming.settings import read_settings
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.external.observer import ExternalObserver
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.readiness.pause import Pause, pause_of
from airflow_streaming.supervision.readiness.snapshot import (
    StreamSnapshot,
    lacks_progress,
    sight_of,
)
from airflow_streaming.supervision.readiness.subject import Subject

EPOCHS_BACK: Final = 5
"""Epochs whose commits are read; a stream with more epochs without a batch has another problem."""


def for_lane(spec: StreamSpec, home: Home, lane: StreamHome) -> StreamSpec:
    """
    Return the dag's spec for a lane.

    Without a second lane it is the dag's own spec, unchanged.

    :param spec: The stream as its dag describes it.
    :param lane: The records of the lane.
    """
    if not spec.output and not spec.checkpoint:
        return replace(spec, name=lane.name)
    other = home.stream(other_lane(lane.name))
    if lane.name == spec.name and other.newest_deployment() is None:
        return spec
    known = [*_deployments(lane), *_deployments(other)]
    return replace(
        spec,
        name=lane.name,
        output=_new(spec.output, {one.output for one in known}),
        checkpoint=_new(spec.checkpoint, {one.checkpoint for one in known}),
    )


def _new(named: str | None, known: set[str]) -> str | None:
    return None if named in known else named


def _deployments(lane: StreamHome) -> Iterator[Deployment]:
    newest = lane.newest_deployment()
    for number in range(newest.number if newest else 0, 0, -1):
        yield lane.deployment(number)


class SnapshotReader(Protocol):
    """Looks at one stream again and again, and remembers what only a listener can know."""

    def snapshot(self) -> StreamSnapshot:
        """
        Look once.

        :raises HomeUnavailable: the look failed; the stream's state is not known.
        :raises RecordError: a record was found damaged.
        """

    def lose_sight(self) -> None:
        """Note a failed look: the time until the next successful look does not count as silence."""


class StreamSnapshotReader:
    """
    Looks at a managed stream: at its live lane.

    :param live: Returns that lane, and has its records.
    :param who: Its name in messages.
    :param rules: The health rules; default: the lane's recorded rules.
    """

    def __init__(self, live: LiveLaneCache, who: str, rules: HealthRules | None = None) -> None:
        self._live, self._who, self._rules = live, who, rules
        self._lane = live.base.name
        self._begin()

    def _begin(self) -> None:
        from airflow_streaming.hooks.launchers import task_launcher

        self._home: StreamHome = self._live.home(self._lane)
        self._observer = Observer(self._home, task_launcher(self._home), rules=self._rules)
        self._of_epoch: int | None = None
        self._earlier: Status | None = None

    def snapshot(self) -> StreamSnapshot:
        lane = self._live()
        if lane != self._lane:
            # Nothing that was learned of the one lane is true of the other.
            self._lane = lane
            self._begin()
        situation = self._observer.situation()
        seen = situation.seen
        earlier = None
        if seen is not None and lacks_progress(seen.status):
            earlier = self._status_before(seen)
        found = sight_of(situation, self._who, earlier=earlier)
        if situation.desired is DesiredState.STOPPED:
            found = replace(found, pause=self._pause(situation))
        deployment = situation.deployment
        return replace(found, lane=lane, output=deployment.output if deployment else "")

    def lose_sight(self) -> None:
        self._observer.lose_sight()

    def _pause(self, situation: ReconcileInput) -> Pause | None:
        desired, newest = self._home.desired(), self._home.newest_change()
        if desired is None:
            return None
        return pause_of(
            desired,
            change=newest,
            progress=situation.change,
            end=self._home.change_end(newest.number) if newest is not None else None,
            now=situation.now,
        )

    def _status_before(self, seen: Observation) -> Status | None:
        number = seen.epoch.number
        if self._of_epoch != number:
            self._earlier = self._find_status_before(number, seen.epoch.deployment)
            self._of_epoch = number
        return self._earlier

    def _find_status_before(self, number: int, deployment: int) -> Status | None:
        for earlier in range(number - 1, max(0, number - 1 - EPOCHS_BACK), -1):
            # Another deployment may have another checkpoint, in which other batches count.
            if self._home.epoch(earlier).deployment != deployment:
                return None
            status = self._home.status(earlier)
            if status is not None and not lacks_progress(status):
                return status
        return None


def open_looker(subject: Subject, rules: HealthRules | None = None) -> SnapshotReader:
    """
    Return a stream's snapshot reader; it never writes.

    :param rules: The health rules; default: for a managed stream the rules that its home records,
        for an external one the defaults of ``HealthRules``.
    :raises SpecError: the stream as named cannot be looked at.
    :raises HomeError: its store cannot be set up.
    """
    if subject.checkpoint is not None:
        return ExternalObserver(
            CheckpointHook(subject.checkpoint, subject.conn_id).get_conn(),
            rules=rules,
            endpoint=subject.endpoint,
            allowed=read_settings().metrics_endpoints if subject.endpoint else (),
        )
    hook = StreamHomeHook(subject.home or "", subject.home_conn_id, looks_only=True)
    live = LiveLaneCache(hook.get_conn().store, subject.stream or "")
    return StreamSnapshotReader(live, subject.who, rules)
