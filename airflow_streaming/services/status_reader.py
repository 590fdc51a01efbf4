"""Read the status of a stream: its records, and one look at its newest epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.observation import Observation
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.texts import one_line
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.open_change import change_in_progress
from airflow_streaming.supervision.restart import Progress, failures_in_a_row, has_recovered
from airflow_streaming.supervision.stream_status import StreamStatus

log: Final = logging.getLogger(__name__)
T = TypeVar("T")
_MOST: Final = 300
"""Characters of an error beside a change; the whole of it is with the lane."""
DAY: Final = timedelta(days=1)
MOST_RESTARTS: Final = 200
"""Epochs whose restarts are counted; a stream that restarts more often in a day shows this number."""
Look = Callable[[Epoch, HealthRules], Observation]
"""Looks at the driver of an epoch, and holds the rules against its figures."""


def read_status(
    home: StreamHome,
    look: Look,
    *,
    now: Callable[[], datetime],
    is_live: bool = True,
) -> StreamStatus:
    """
    Return the status of one lane of a stream.

    :param now: The time of day, asked once all was read.
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
    policy = watched_by.restart
    failures = None if seen is None else tried(lambda: _failures(home, seen, policy))
    decisions, progress = failures or ((), ())
    moment = now()
    return StreamStatus(
        stream=home.name,
        rules=watched_by.health,
        policy=policy,
        seen=seen,
        desired=home.desired(),
        circuit=home.circuit(),
        deployment=home.newest_deployment(),
        deviation=tried(home.deviation),
        decisions=decisions,
        progress=progress,
        restarts_24h=_counted(home, moment),
        incidents=open_incidents(home.newest_alerts()),
        change=tried(lambda: change_in_progress(home)),
        is_live=is_live,
        unread=tuple(unread),
        now=moment,
    )


def read_failures(
    home: StreamHome, epoch: int
) -> tuple[tuple[RestartDecision, ...], tuple[Progress, ...]]:
    """
    Return the newest decision about a failed epoch up to one, and the progress of drivers since then.

    A decision before the moment when a user last closed the circuit is left out.

    :raises RecordError: one of them is damaged.
    """
    decisions = home.earlier_decisions(epoch + 1, least=1)
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


def restarts_in_a_day(home: StreamHome, now: datetime) -> int:
    """
    Return the automatic restarts that were decided within 24 hours, at most ``MOST_RESTARTS``.

    :raises RecordError: a record of one is damaged.
    """
    count = 0
    for number in reversed(home.epoch_numbers()[-MOST_RESTARTS:]):
        decision, epoch = home.restart_decision(number), home.epoch(number)
        if decision is not None and age_of(decision.decided_at, now) < DAY:
            count += decision.action is RestartAction.RESTART
        # Decisions about earlier epochs are older than this epoch.
        if epoch is not None and age_of(epoch.created_at, now) >= DAY:
            break
    return count


def _counted(home: StreamHome, now: datetime) -> int | None:
    try:
        return restarts_in_a_day(home, now)
    except RecordError as err:
        log.warning("Restarts of stream %r within a day: %s", home.name, err)
        return None


def _failures(
    home: StreamHome, seen: Observation, policy: RestartPolicy
) -> tuple[tuple[RestartDecision, ...], tuple[Progress, ...]]:
    number = seen.epoch.number
    newest = home.restart_decision(number)
    if newest is not None:
        return (newest,), ()
    if seen.status is not None and has_recovered(seen.status, policy):
        return (), ()
    try:
        return read_failures(home, number)
    except RecordError as err:
        log.warning("Failures of stream %r before epoch %d: %s", home.name, number, err)
        return (), ()
