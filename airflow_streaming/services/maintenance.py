"""
Hold several streams for a maintenance: one record, one alert at the begin, one at the end.

A held stream is stopped with an end, so its keep-alive task neither restarts it nor sends an alert about it, and starts it
afterwards. The streams do not start at one moment: the stream whose source removes unread data first is the first.
A stream of several maintenances starts at the latest of their ends, so that each of them holds it as long as it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.control import AlertLog
from airflow_streaming.home.folder import APPEND_TRIES
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.names import FLEET, FleetLayout, base_of
from airflow_streaming.model.records.alert import MAINTENANCE_KEY, Alert, AlertKind
from airflow_streaming.model.records.control import (
    Desired,
    DesiredState,
    HeldStream,
    Maintenance,
)
from airflow_streaming.model.status import DriverState
from airflow_streaming.model.storage import Store
from airflow_streaming.services.streams import stop
from airflow_streaming.storage.one_look import look_at_each
from airflow_streaming.supervision.alerts.alerting import moment

_FAR: Final = datetime.max.replace(tzinfo=UTC)
_NAMED: Final = 20
"""Streams that an alert names."""
_LOOKED_AT: Final = 50
"""Newest maintenances among which one is looked for."""


class HeldState(StrEnum):
    """The state of a stream in a maintenance."""

    LEFT = "left"
    """It was stopped without an end, or was started by a user since: the maintenance does not touch it."""
    NOT_HELD = "not_held"
    """The maintenance never stopped it: the command or task was killed before, or the stream refused."""
    HELD = "held"
    HELD_LONGER = "held_longer"
    """Another stop, with a later end, holds it."""
    STARTING = "starting"
    """Its end has come, and no driver works yet."""
    BACK = "back"


_DONE: Final = frozenset(
    {HeldState.LEFT, HeldState.NOT_HELD, HeldState.HELD_LONGER, HeldState.BACK}
)


class MaintenanceLog(AlertLog):
    """The maintenances of a home, and the alerts about them."""

    def __init__(self, store: Store) -> None:
        self.store, self.name, self._layout = store, FLEET, FleetLayout()

    def newest(self) -> Maintenance | None:
        return self._newest(Maintenance)

    def by_key(self, key: str) -> Maintenance | None:
        """Return the newest maintenance of a request."""
        return next((one for one in self._latest() if one.key == key), None)

    def unfinished(self, now: datetime) -> list[Maintenance]:
        """Return the maintenances whose last end is to come, newest first."""
        return [one for one in self._latest() if one.last_end > now]

    def _latest(self) -> Iterator[Maintenance]:
        numbers = self._numbers_of(Maintenance)
        return (self._numbered(Maintenance, number) for number in reversed(numbers[-_LOOKED_AT:]))

    def begin(self, maintenance: Maintenance) -> bool:
        """Record a maintenance; tell whether its number was free."""
        return self._create(maintenance)


def held_streams(
    lanes: Sequence[StreamHome], until: datetime, *, at_once: int, spacing: timedelta
) -> tuple[HeldStream, ...]:
    """
    Return the streams of a maintenance with the moments at which they start again.

    :param lanes: The live lanes, in the order of their data.
    :param at_once: Streams that start at one moment; the next ones follow after ``spacing``.
    """
    seen = look_at_each(lanes[0].store, _facts, lanes) if lanes else []
    losses = {base_of(lane.name): one.loss for lane, one in zip(lanes, seen, strict=True)}
    ends = starts(losses, until, at_once=at_once, spacing=spacing)
    return tuple(
        HeldStream(
            name=name,
            until=max(ends[name], one.stopped_until or ends[name]),
            epoch=one.epoch,
            loss_at=one.loss,
        )
        for name, one in zip(losses, seen, strict=True)
    )


def starts(
    losses: Mapping[str, datetime | None], until: datetime, *, at_once: int, spacing: timedelta
) -> dict[str, datetime]:
    """Return when each stream starts again; a stream that loses data sooner starts sooner."""
    order = sorted(losses, key=lambda name: losses[name] or _FAR)
    return {name: until + spacing * (place // at_once) for place, name in enumerate(order)}


def losing(maintenance: Maintenance) -> list[HeldStream]:
    """Return the streams whose sources remove unread data before they start again."""
    return [one for one in maintenance.streams if one.loss_at and one.loss_at <= one.until]


def begin_maintenance(
    home: Home,
    streams: Sequence[HeldStream],
    until: datetime,
    *,
    selector: str,
    key: str,
    by: str,
    reason: str,
    now: datetime,
) -> Maintenance:
    """Record a maintenance, or return the maintenance of this request."""
    records = MaintenanceLog(home.store)
    for _ in range(APPEND_TRIES):
        if found := records.by_key(key):
            return found
        newest = records.newest()
        begun = Maintenance(
            number=newest.number + 1 if newest else 1,
            selector=selector,
            key=key,
            reason=reason,
            by=by,
            at=now,
            until=until,
            streams=tuple(streams),
        )
        if records.begin(begun):
            return begun
    raise records._never_first(Maintenance)


def hold_streams(
    home: Home,
    maintenance: Maintenance,
    *,
    by: str,
    check: Callable[[StreamHome], None] = lambda _: None,
) -> dict[str, str]:
    """
    Stop each stream until its end; return why streams were left as they are.

    :param check: Raises ``StreamingError`` where the caller may not stop a stream.
    """
    left: dict[str, str] = {}
    for one in maintenance.streams:
        try:
            lane = home.stream(live_lane(home, one.name))
            check(lane)
            desired = lane.desired()
            why = _why_left(desired, maintenance.at)
            if not why and not _lasts_longer(desired, one.until):
                reason = f"Maintenance {maintenance.number}: {maintenance.reason}"
                stop(lane, by=by, reason=reason, until=one.until)
        except StreamingError as err:
            why = str(err)
        if why:
            left[one.name] = why
    return left


def streams_left(home: Home, streams: Sequence[HeldStream], at: datetime) -> dict[str, str]:
    """Return the streams that a maintenance which begins now would leave as they are, with the reasons."""

    def look(one: HeldStream) -> str:
        try:
            return _why_left(home.stream(live_lane(home, one.name)).desired(), at)
        except StreamingError as err:
            return str(err)

    found = look_at_each(home.store, look, streams)
    return {one.name: why for one, why in zip(streams, found, strict=True) if why}


def missing_streams(states: Mapping[str, HeldState]) -> list[str]:
    """Return the streams that the maintenance stopped and that are not back."""
    return [name for name, state in states.items() if state not in _DONE]


def course(home: Home, maintenance: Maintenance, now: datetime) -> dict[str, HeldState]:
    """Return the state of each stream of a maintenance; a stream that cannot be read is starting."""

    def look(one: HeldStream) -> HeldState:
        try:
            return _state(home.stream(live_lane(home, one.name)), maintenance, one, now)
        except StreamingError:
            return HeldState.STARTING

    found = look_at_each(home.store, look, maintenance.streams)
    return {one.name: state for one, state in zip(maintenance.streams, found, strict=True)}


def begun_alert(maintenance: Maintenance, left: Mapping[str, str]) -> Alert:
    """Return the alert at the begin of a maintenance."""
    names = [one.name for one in maintenance.streams if one.name not in left]
    facts = {
        "streams": _named(names),
        "left": _named([f"{name} ({why})" for name, why in left.items()]),
        "data loss": _named(
            [f"{one.name} ({moment(one.loss_at)})" for one in losing(maintenance) if one.loss_at]
        ),
        "selector": maintenance.selector,
    }
    return Alert(
        stream=FLEET,
        alert=AlertKind.HELD,
        key=f"{MAINTENANCE_KEY}/{maintenance.number}",
        epoch=0,
        at=maintenance.at,
        by="",
        reason=f"{maintenance.reason.rstrip('.')}. {len(names)} streams are stopped until {moment(maintenance.until)}.",
        rule=MAINTENANCE_KEY,
        action="The keep-alive tasks start the streams at the end. Until then none of them is restarted or reported.",
        remedy="To end it sooner: airflow-streaming start --select SELECTOR --yes",
        facts={name: text for name, text in facts.items() if text},
    )


def ended_alert(maintenance: Maintenance, states: Mapping[str, HeldState], now: datetime) -> Alert:
    """Return the alert at the end of a maintenance."""
    back = [name for name, state in states.items() if state is HeldState.BACK]
    missing = missing_streams(states)
    facts = {"not back": _named(missing)}
    return Alert(
        stream=FLEET,
        alert=AlertKind.RECOVERED,
        key=f"{MAINTENANCE_KEY}/{maintenance.number}",
        epoch=0,
        at=now,
        by="",
        severity=Severity.STOP if missing else Severity.ALERT,
        reason=f"{len(back)} streams run again, {duration_text(now - maintenance.at)} after the begin; "
        f"{len(missing)} do not.",
        rule=MAINTENANCE_KEY,
        action="The maintenance is over.",
        remedy="Check that the DAGs of the streams are unpaused: airflow-streaming status STREAM"
        if missing
        else "",
        facts={name: text for name, text in facts.items() if text},
    )


class _Facts(NamedTuple):
    epoch: int = 0
    loss: datetime | None = None
    stopped_until: datetime | None = None


def _facts(lane: StreamHome) -> _Facts:
    """Return the facts of a stream; the stop of an unreadable stream fails and tells why."""
    try:
        epoch, desired = lane.newest_epoch(), lane.desired()
        status = None if epoch is None else lane.status(epoch.number)
    except StreamingError:
        return _Facts()
    is_stopped = desired is not None and desired.state is DesiredState.STOPPED
    return _Facts(
        epoch=0 if epoch is None else epoch.number,
        loss=None if status is None or status.loss is None else status.loss.at,
        stopped_until=desired.until if desired is not None and is_stopped else None,
    )


def _why_left(desired: Desired | None, begun_at: datetime) -> str:
    if desired is None:
        return ""
    if desired.state is DesiredState.STOPPED:
        return "" if desired.until is not None else "it is stopped without an end"
    return f"{desired.by} has started it since" if desired.at > begun_at else ""


def _lasts_longer(desired: Desired | None, until: datetime) -> bool:
    is_stopped = desired is not None and desired.state is DesiredState.STOPPED
    return (
        is_stopped and desired is not None and desired.until is not None and desired.until > until
    )


def _state(lane: StreamHome, maintenance: Maintenance, one: HeldStream, now: datetime) -> HeldState:
    desired, epoch = lane.desired(), lane.newest_epoch()
    if desired is not None and desired.state is DesiredState.STOPPED:
        if desired.until is None:
            return HeldState.LEFT
        if desired.until > max(now, one.until):
            return HeldState.HELD_LONGER
        return HeldState.HELD if now < desired.until else HeldState.STARTING
    if desired is None or desired.at < maintenance.at:
        return HeldState.NOT_HELD
    status = None if epoch is None else lane.status(epoch.number)
    works = status is not None and status.state is DriverState.RUNNING
    is_new = epoch is not None and epoch.number > one.epoch
    return HeldState.BACK if works and is_new else HeldState.STARTING


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
