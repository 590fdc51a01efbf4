"""Read the status of a stream: its records, and one look at its newest epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.records.policy import RestartDecision
from airflow_streaming.model.texts import one_line
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.open_change import change_in_progress
from airflow_streaming.supervision.restart import Progress, failures_in_a_row
from airflow_streaming.supervision.stream_status import StreamStatus

log: Final = logging.getLogger(__name__)
T = TypeVar("T")
_MOST: Final = 300
"""Characters of an error beside a change; the whole of it is with the lane."""
Look = Callable[[Epoch, HealthRules], Observation]
"""Looks at the driver of an epoch, and holds the rules against its figures."""


def read_status(
    home: StreamHome,
    look: Look,
    *,
    now: Callable[[], datetime],
    is_live: bool = True,
    with_history: bool = True,
) -> StreamStatus:
    """
    Return the status of one lane of a stream.

    :param now: The time of day, asked once all was read.
    :param is_live: Consumers read this lane.
    :param with_history: Also read the decisions about epochs before the newest.
    :raises RecordError: a record that the status rests on is damaged; others are named in ``unread``.
    """
    unread: list[str] = []

    def tried(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except RecordError as err:
            unread.append(str(err))
            return None

    watched_by, epoch = home.supervision(), home.newest_epoch()
    seen = None if epoch is None else look(epoch, watched_by.health)
    failures = None if epoch is None else tried(lambda: _failures(home, epoch.number, with_history))
    decisions, progress = failures or ((), ())
    return StreamStatus(
        stream=home.name,
        rules=watched_by.health,
        policy=watched_by.restart,
        seen=seen,
        desired=home.desired(),
        circuit=home.circuit(),
        deployment=home.newest_deployment(),
        deviation=tried(home.deviation),
        decisions=decisions,
        progress=progress,
        incidents=open_incidents(home.newest_alerts()),
        change=tried(lambda: change_in_progress(home)),
        is_live=is_live,
        unread=tuple(unread),
        now=now(),
    )


def read_failures(
    home: StreamHome, epoch: int
) -> tuple[tuple[RestartDecision, ...], tuple[Progress, ...]]:
    """
    Return the decisions about failed epochs up to one, and the progress of drivers since the newest.

    :raises RecordError: one of them is damaged.
    """
    decisions = home.earlier_decisions(epoch + 1)
    last = decisions[-1].epoch if decisions else epoch
    return tuple(decisions), tuple(home.statuses_between(last, epoch + 1))


def failing(lane: StreamHome) -> str:
    """
    Return how often a lane has failed in a row, and why, as sentences; empty where its driver works.

    :raises RecordError: a record of its failures is damaged.
    """
    epoch = lane.newest_epoch()
    if epoch is None:
        return ""
    decisions, progress = read_failures(lane, epoch.number)
    count = failures_in_a_row(decisions, progress, lane.supervision().restart)
    if not count:
        return ""
    newest = decisions[-1]
    ended = lane.exit(newest.epoch)
    why = "" if ended is None else f" Epoch {newest.epoch}: {one_line(ended.reason)[:_MOST]}"
    times = "once" if count == 1 else f"{count} times in a row"
    return f"Lane {lane.name!r} has failed {times}. {newest.reason}{why}"


def _failures(
    home: StreamHome, epoch: int, with_history: bool
) -> tuple[tuple[RestartDecision, ...], tuple[Progress, ...]]:
    newest = home.restart_decision(epoch)
    if with_history:
        try:
            return read_failures(home, epoch)
        except RecordError as err:
            log.warning("Failures of stream %r before epoch %d: %s", home.name, epoch, err)
    return ((newest,) if newest is not None else ()), ()
