"""Subject → Sight: whoever asks about a stream need not know how it is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.observation import Observation
from airflow_streaming.core.sight import Sight, lacks_progress, sight_of
from airflow_streaming.core.status import Status
from airflow_streaming.core.subject import Subject
from airflow_streaming.home.following import LiveLane
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks.checkpoint import CheckpointHook
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.observe.foreign import ForeignObserver
from airflow_streaming.observe.stream import Observer
from airflow_streaming.settings import read_settings

EPOCHS_BACK: Final = 5
"""Epochs that are asked what their queries committed; more have ended without a batch only where
something else is the matter."""


class Looker(Protocol):
    """Looks at one stream again and again, and remembers what only a listener can know."""

    def sight(self) -> Sight:
        """
        Look once.

        :raises HomeUnavailable: it could not be looked at; this says nothing of the stream.
        :raises RecordError: what was found there is not what should be there.
        """

    def lose_sight(self) -> None:
        """Take note that a look failed: the time until the next one that succeeds is no silence."""


class StreamLooker:
    """
    Looks at a stream of ours: at the lane of it that is live.

    :param live: Tells which lane that is, and has its records.
    :param who: What messages call it.
    :param rules: What to judge by; default: what the lane's records say.
    """

    def __init__(self, live: LiveLane, who: str, rules: HealthRules | None = None) -> None:
        self._live, self._who, self._rules = live, who, rules
        self._lane = live.base.name
        self._begin()

    def _begin(self) -> None:
        from airflow_streaming.launch.local import LocalLauncher

        self._home: StreamHome = self._live.home(self._lane)
        self._observer = Observer(self._home, LocalLauncher(), rules=self._rules)
        self._of_epoch: int | None = None
        self._earlier: Status | None = None

    def sight(self) -> Sight:
        lane = self._live()
        if lane != self._lane:
            # Nothing that was learnt of the one lane is true of the other.
            self._lane = lane
            self._begin()
        situation = self._observer.situation()
        seen = situation.seen
        earlier = None
        if seen is not None and lacks_progress(seen.status):
            earlier = self._status_before(seen)
        found = sight_of(situation, self._who, earlier=earlier)
        deployment = situation.deployment
        return replace(found, lane=lane, output=deployment.output if deployment else "")

    def lose_sight(self) -> None:
        self._observer.lose_sight()

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


def open_looker(subject: Subject, rules: HealthRules | None = None) -> Looker:
    """
    Return who looks at a stream; nothing is written where it looks.

    :param rules: What to judge by; default: for a stream of ours what its home records, for a
        foreign one the defaults of ``HealthRules``.
    :raises SpecError: the stream as named cannot be looked at.
    :raises HomeError: its store cannot be set up.
    """
    if subject.checkpoint is not None:
        return ForeignObserver(
            CheckpointHook(subject.checkpoint, subject.conn_id).get_conn(),
            rules=rules,
            endpoint=subject.endpoint,
            allowed=read_settings().metrics_endpoints if subject.endpoint else (),
        )
    hook = StreamHomeHook(subject.home or "", subject.home_conn_id, looks_only=True)
    live = LiveLane(hook.get_conn().store, subject.stream or "")
    return StreamLooker(live, subject.who, rules)
