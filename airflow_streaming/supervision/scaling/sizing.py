"""Looking at a stream's size: its figures, the changes that were recorded, and what follows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.autoscale import (
    Autoscale,
    configured_executors,
    executor_cores,
    is_dynamic,
)
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.names import is_lane
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.size_change import SizeChange, SizeCode, wanted_executors
from airflow_streaming.model.status import QueryStatus, SizeStatus
from airflow_streaming.storage.one_look import look_at_each
from airflow_streaming.supervision.scaling.autoscale import (
    SizeInput,
    SizeStep,
    SizeView,
    moment_of,
    samples,
    size_step,
)
from airflow_streaming.supervision.scaling.carry_out import SizeState
from airflow_streaming.supervision.scaling.size_effect import within_quota

log: Final = logging.getLogger(__name__)
LOOK_EVERY: Final = 60.0
"""Seconds between two looks at the figures; in between the size counts as right."""
_BATCHES: Final = 2_000
PARTITIONS: Final = "spark.sql.shuffle.partitions"


def state_partitions(conf: Mapping[str, str], progress: Sequence[BatchProgress]) -> int | None:
    """Return the state partitions that a configuration asks for; ``None`` without state, or without the setting."""
    has_state = any(batch.state_rows is not None for batch in progress)
    text = conf.get(PARTITIONS, "")
    return int(text) if has_state and text.isdecimal() else None


def measurable(
    progress: Iterable[BatchProgress], queries: Iterable[QueryStatus]
) -> list[BatchProgress]:
    """Return batches whose duration is work: in real-time mode every batch takes its interval."""
    real_time = {query.name for query in queries if query.is_real_time}
    return [batch for batch in progress if batch.query not in real_time]


def executors_elsewhere(own: StreamHome) -> int:
    """
    Return the executors of the home's other lanes whose newest driver has not ended.

    :raises HomeUnavailable: the home could not be read.
    """
    home = Home(own.store)
    names = [name for name in filter(is_lane, home.store.names("")) if name != own.name]
    return sum(look_at_each(home.store, lambda name: _executors_of(home.stream(name)), names))


def _executors_of(stream: StreamHome) -> int:
    try:
        epoch, deployment = stream.newest_epoch(), stream.newest_deployment()
        if epoch is None or deployment is None or stream.exit(epoch.number) is not None:
            return 0
        newest = stream.newest_size() if epoch.executors is not None else None
        if newest is not None and newest.epoch == epoch.number and not newest.is_recommended_only:
            return newest.executors
        return epoch.executors or configured_executors(deployment.conf) or 0
    except RecordError:
        return 0


def _since(progress: list[BatchProgress], driver: SizeStatus | None) -> list[BatchProgress]:
    """Return the batches of the present size: those that began before it say nothing of it."""
    if driver is None or driver.since is None:
        return progress
    since = driver.since
    return [batch for batch in progress if (at := moment_of(batch)) is not None and at >= since]


class _Looked(NamedTuple):
    """The driver and size that figures were read for."""

    epoch: int
    change: int
    executors: int

    @classmethod
    def of(cls, seen: Observation) -> _Looked:
        size = None if seen.status is None else seen.status.size
        if size is None:
            return cls(seen.epoch.number, 0, 0)
        return cls(seen.epoch.number, size.number, size.executors)


class SizeObserver:
    """
    Looks at the size of one stream, at most once a minute.

    :param home: The stream's records.
    :param policy: The size policy of its DAG.
    :param clock: Monotonic seconds.
    """

    def __init__(self, home: StreamHome, policy: Autoscale, clock: Callable[[], float]) -> None:
        self._home, self._policy, self._clock = home, policy, clock
        self._changes: dict[int, SizeChange] = {}
        self._looked: tuple[_Looked, float, SizeView] | None = None

    def look(
        self, deployment: Deployment, seen: Observation, restarts: RestartPolicy
    ) -> SizeView | None:
        """
        Look once; ``None`` where a record of the size is damaged, so that nothing is decided.

        :param restarts: Its blackouts hold for a change of the size too.
        :raises HomeUnavailable: the home could not be read.
        """
        driver = None if seen.status is None else seen.status.size
        key, clock = _Looked.of(seen), self._clock()
        if self._looked is not None:
            known, at, view = self._looked
            if known == key and clock - at < LOOK_EVERY and not view.step.changes:
                return replace(view, state=replace(view.state, driver=driver, now=seen.now))
        try:
            view = self._view(deployment, seen, restarts)
        except RecordError as err:
            log.warning(
                "Stream %r keeps its size: a record of it is unreadable; restore or remove it: %s",
                self._home.name,
                err,
            )
            return None
        self._looked = (key, clock, view)
        return view

    def _view(self, deployment: Deployment, seen: Observation, restarts: RestartPolicy) -> SizeView:
        conf, status = deployment.conf, seen.status
        changes = self._newest(self._policy.changes_a_day)
        started_with = seen.epoch.executors or configured_executors(conf)
        driver = None if status is None else status.size
        present = started_with if driver is None else driver.executors
        found = status.executors if status is not None else None
        queries = status.queries if status is not None else ()
        progress = _since(self._home.read_progress(seen.epoch.number, _BATCHES), driver)
        step = size_step(
            SizeInput(
                policy=self._policy,
                now=seen.now,
                executors=present if found is not None else None,
                alive=found.alive if found is not None else None,
                batches=samples(measurable(progress, queries)),
                intervals_s={
                    query.name: query.processing_interval_s
                    for query in queries
                    if query.processing_interval_s
                },
                in_work_s={
                    query.name: query.batch_for_s
                    for query in queries
                    if query.batch_for_s and not query.is_real_time
                },
                changes=changes,
                blackout_until=restarts.blackout_until(seen.now),
                is_dynamic=is_dynamic(conf),
                cores_each=executor_cores(conf),
                partitions=state_partitions(conf, progress),
                gc_share=found.gc_share if found is not None else None,
            )
        )
        if step.code is SizeCode.UP and self._policy.home_executors is not None:
            step = self._within_quota(step, present or 0)
        wanted = wanted_executors(self._policy, conf, changes[-1] if changes else None)
        state = SizeState(
            epoch=seen.epoch.number,
            wanted=wanted,
            started_with=started_with,
            now=seen.now,
            driver=driver,
            newest=changes[-1] if changes else None,
        )
        return SizeView(state=state, step=step)

    def _within_quota(self, step: SizeStep, present: int) -> SizeStep:
        elsewhere = executors_elsewhere(self._home)
        quota = self._policy.home_executors
        left = within_quota(step.executors, present, elsewhere, quota)
        if left == step.executors:
            return step
        reason = (
            f"{step.reason} The other streams of the home have {elsewhere} of {quota} executors."
        )
        if left > present:
            return replace(step, executors=left, reason=reason)
        return replace(step, code=SizeCode.QUOTA, executors=present, reason=reason)

    def _newest(self, most: int) -> list[SizeChange]:
        numbers = self._home.size_numbers()[-most:]
        for number in numbers:
            if number not in self._changes:
                self._changes[number] = self._home.size_change(number)
        return [self._changes[number] for number in numbers]
