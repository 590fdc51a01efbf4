"""
Desired state, circuit, owner, timeline and alerts of a stream, as records.

A record says that an alert is due, a mark beside it that it was delivered. A task that dies in
between leaves a record without a mark, and the next task delivers it. A try is recorded before it
is made, so that an alert which takes its task down with it is not tried for ever.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from airflow_streaming.exceptions import HomeUnavailable, NotTheOwner, RecordError, StreamingError
from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder
from airflow_streaming.model.names import base_of, number_of, numbered
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.alert import Alert, AlertSent, AlertTry, is_told
from airflow_streaming.model.records.control import (
    Circuit,
    CircuitState,
    Desired,
    DesiredState,
    Event,
)
from airflow_streaming.model.records.deployment import Deviation, Override
from airflow_streaming.model.records.owner import Actor, DagAct, Owner, claimed, refusal
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.records.supervision import DEFAULTS, Supervision
from airflow_streaming.model.records.upgrade import RunReport
from airflow_streaming.model.status import SizeChangeEnd
from airflow_streaming.model.wire import decode, parse_json

log: Final = logging.getLogger(__name__)

MAX_LINE_BYTES: Final = 16 * 1024
"""A line of progress has nine figures and is about 300 bytes long."""
_EVENT_TIME: Final = "%Y%m%dT%H%M%S.%f"
_EVENT_FILE: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}\.json")

LOG_LENGTH: Final = 200
"""Alerts that count. An incident that is older than the last 200 and still open would be sent
again."""
MAX_TRIES: Final = 3
"""Tries to deliver one alert, over all tasks."""


class Shared(StreamFolder):
    """The records that both lanes of a stream share."""

    def _base(self) -> Self:
        return self if base_of(self.name) == self.name else self.beside(base_of(self.name))


class Control(Shared):
    """Read and change the desired state and the circuit of one stream."""

    def desired(self) -> Desired | None:
        """Return the newest desired state; ``None`` when none was ever recorded."""
        return self._newest(Desired)

    def desired_states(self) -> list[Desired]:
        """Return all desired states, oldest first."""
        return [self._numbered(Desired, number) for number in self._numbers_of(Desired)]

    def want(
        self,
        state: DesiredState,
        *,
        by: str,
        reason: str,
        now: datetime,
        until: datetime | None = None,
    ) -> Desired:
        """
        Record a wish, unless the newest one stands; return the newest.

        :param until: End of a stop. A stop without an end gets none: its user starts the stream.
        """

        def change(newest: Desired | None, number: int) -> Desired | None:
            if newest is not None and newest.state is state and newest.until in (None, until):
                return None
            return Desired(number=number, state=state, by=by, reason=reason, at=now, until=until)

        newest = self._append(Desired, change)
        if newest is None:
            raise HomeUnavailable(f"The wish for stream {self.name!r} was not recorded. Try again.")
        return newest

    def want_next(self, desired: Desired) -> bool:
        """
        Record a wish under the very number that it has; tell whether it was recorded.

        For a task that may have slept since it looked: when another desired state was recorded
        since,
        the number is taken, and nothing is done.
        """
        return self._create(desired)

    def circuit(self) -> Circuit | None:
        """Return the newest change of the circuit, ``None`` when it was never opened."""
        return self._newest(Circuit)

    def open_circuit(self, *, epoch: int, by: str, reason: str, now: datetime) -> Circuit:
        """
        Open the circuit because of an epoch's failure; return the newest record.

        No record is written when it is open for that epoch already, or when a user has closed it
        since: a slow task must not undo the user's decision.
        """

        def change(newest: Circuit | None, number: int) -> Circuit | None:
            if newest is not None and newest.epoch >= epoch:
                return None
            return Circuit(
                number=number, state=CircuitState.OPEN, epoch=epoch, by=by, reason=reason, at=now
            )

        newest = self._append(Circuit, change)
        if newest is None:
            raise HomeUnavailable(f"The circuit of {self.name!r} was not opened. Try again.")
        return newest

    def close_circuit(self, *, epoch: int, by: str, reason: str, now: datetime) -> Circuit | None:
        """
        Close the circuit if it is open; return the newest record, ``None`` if there never was one.

        :param epoch: The newest epoch; what failed up to it is forgiven.
        """

        def change(newest: Circuit | None, number: int) -> Circuit | None:
            if newest is None or newest.state is CircuitState.CLOSED:
                return None
            return Circuit(
                number=number, state=CircuitState.CLOSED, epoch=epoch, by=by, reason=reason, at=now
            )

        return self._append(Circuit, change)

    def labels(self) -> Mapping[str, str]:
        """
        Return the stream's labels; empty before a task has recorded any.

        :raises RecordError: the newest record cannot be read. An older one may have other labels.
        """
        newest = self._base()._newest(Supervision)
        return {} if newest is None else newest.labels

    def tags(self) -> tuple[str, ...]:
        """
        Return the tags of the DAG that keeps the stream alive; otherwise as ``labels``.

        :raises RecordError: the newest record cannot be read.
        """
        newest = self._base()._newest(Supervision)
        return () if newest is None else newest.tags

    def supervision(self) -> Supervision:
        """
        Return the stream's supervision settings, the defaults before a task has recorded any.

        Every reader uses this answer. An unreadable newest record, perhaps of a newer release, is
        skipped.
        """
        shared = self._base()
        for number in reversed(shared._numbers_of(Supervision)):
            try:
                return shared._numbered(Supervision, number)
            except RecordError as err:
                log.warning("Passed over: %s", err)
        return DEFAULTS

    def supervise(self, supervision: Supervision) -> tuple[str, ...] | None:
        """
        Record the stream's supervision settings, unless the newest record has the same.

        :param supervision: Its number is set here.
        :returns: The changed settings; ``None`` without a new record.
        """
        shared, newest = self._base(), self.supervision()
        number = max(shared._numbers_of(Supervision), default=0)
        changes = newest.differences(supervision)
        if newest.number == number != 0 and not changes:
            return None
        # Or another task says what its DAG asks.
        return changes if shared._create(replace(supervision, number=number + 1)) else None

    def deviation(self) -> Deviation | None:
        """Return the newest record of the DAG's difference from the live deployment, if any."""
        return self._newest(Deviation)

    def record_deviation(
        self, deployment: int, values: Sequence[Override], *, by: str, now: datetime
    ) -> None:
        """Record how the deployment that the DAG names differs from a live one, unless that is known."""
        told = tuple(values)

        def change(newest: Deviation | None, number: int) -> Deviation | None:
            known = None if newest is None else (newest.deployment, newest.values)
            if known == (deployment, told) or (newest is None and not told):
                return None
            return Deviation(number=number, deployment=deployment, values=told, by=by, at=now)

        self._append(Deviation, change)

    def run_report(self, key: str, task: str, xcom: str) -> RunReport | None:
        """Return the newest digest for an XCom of a task of a run."""
        found = (self._numbered(RunReport, one) for one in self._numbers_of(RunReport)[::-1])
        wanted = (key, task, xcom)
        return next((one for one in found if (one.key, one.task, one.xcom) == wanted), None)

    def has_run_reports(self) -> bool:
        """Tell whether any run has recorded a report."""
        return bool(self._numbers_of(RunReport))

    def record_run_report(
        self, key: str, task: str, xcom: str, digest: str, *, by: str, now: datetime
    ) -> None:
        """Record the digest of a report that a task of a run pushes to XCom."""
        self._append(
            RunReport,
            lambda _, number: RunReport(
                number=number, key=key, task=task, xcom=xcom, digest=digest, by=by, at=now
            ),
        )

    def size_numbers(self) -> list[int]:
        """Return the numbers of the changes of the stream's size, the newest last."""
        return self._numbers_of(SizeChange)

    def size_change(self, number: int) -> SizeChange:
        """
        Return one change of the stream's size.

        :raises RecordError: this number does not exist, or its record is unreadable.
        """
        return self._numbered(SizeChange, number)

    def newest_size(self) -> SizeChange | None:
        """Return the newest change of the stream's size, ``None`` when it was never changed."""
        return self._newest(SizeChange)

    def size_end(self, number: int) -> SizeChangeEnd | None:
        """Return the driver's answer to a change of the size; ``None`` without one."""
        return self._get(SizeChangeEnd, number=number)

    def add_size(self, change: SizeChange) -> bool:
        """Record a change of the size under its number; tell whether no other task was first."""
        return self._create(change)


class Timeline(StreamFolder):
    """
    Read and add to the history of one stream.

    Nothing of it is read to decide anything, so a fault in it costs a line of history, never a restart.
    """

    def add_event(self, event: Event) -> None:
        """Add a line to the timeline; a home that cannot take it is logged, not raised."""
        moment = event.at.astimezone(UTC)
        try:
            self._create(event.fitted(), file=f"{moment:{_EVENT_TIME}}Z-{uuid.uuid4().hex[:8]}")
        except StreamingError as err:
            log.warning("The timeline of stream %s misses %s: %s", self.name, event.event, err)

    def events(self, limit: int = 50, since: datetime | None = None) -> list[Event]:
        """
        Return the last events, the newest last.

        Events dated more than a day in the future come first: a clock that was wrong once must not
        hide later events.

        :param since: Only events recorded from then on; older ones are not read at all.
        """
        folder = self._layout.folder(Event)
        first = "" if since is None else f"{since.astimezone(UTC):{_EVENT_TIME}}"
        last = f"{datetime.now(UTC) + timedelta(days=1):{_EVENT_TIME}}"
        names = [n for n in self.store.names(folder) if _EVENT_FILE.fullmatch(n) and n >= first]
        names.sort(key=lambda name: (name <= last, name))
        found = (self._event(name.removesuffix(".json")) for name in names[-max(limit, 1) :])
        return [event for event in found if event is not None]

    def read_progress(self, epoch: int, limit: int = 500) -> list[BatchProgress]:
        """Return the figures of an epoch's last batches, over all its queries, the newest last."""
        newest_first: list[BatchProgress] = []
        for number in reversed(self.progress_chunks(epoch)[-max(limit, 1) :]):
            newest_first.extend(reversed(self.progress_rows(epoch, number)[0]))
            if len(newest_first) >= limit:
                break
        return newest_first[:limit][::-1]

    def progress_chunks(self, epoch: int) -> list[int]:
        """Return the numbers of an epoch's chunks of progress, the newest last."""
        return sorted(
            number
            for name in self.store.names(self._layout.progress(epoch))
            if name.endswith(".jsonl") and (number := number_of(name[:-1])) is not None
        )

    def progress_rows(
        self, epoch: int, chunk: int, *, skip: int = 0
    ) -> tuple[list[BatchProgress], int]:
        """
        Return the rows of one chunk, and how many lines it has.

        :param skip: Lines that were read before; a chunk only grows.
        """
        path = f"{self._layout.progress(epoch)}/{numbered(chunk)}.jsonl"
        try:
            lines = (self.store.read(path) or b"").splitlines()
        except RecordError as err:
            log.info("Left out of the progress history: %s", err)
            return [], skip
        return [*self._rows(lines, path, skip)], len(lines)

    def _event(self, file: str) -> Event | None:
        try:
            return self._get(Event, file=file)
        except RecordError as err:
            log.info("Left out of the timeline: %s", err)
            return None

    def _rows(self, lines: list[bytes], path: str, skip: int) -> Iterator[BatchProgress]:
        for number, line in enumerate(lines[skip:], start=skip + 1):
            where = f"{self._shown(path)} line {number}"
            try:
                yield decode(BatchProgress, parse_json(line, limit=MAX_LINE_BYTES), where)
            except RecordError as err:
                log.debug("Left out of the progress history: %s: %s", where, err)


class AlertLog(StreamFolder):
    """Read and add to the alerts of one stream."""

    def alerts(self, limit: int = LOG_LENGTH) -> tuple[Alert, ...]:
        """Return the last alerts, oldest first; an unreadable alert is logged and left out."""
        return self._told(self._numbers_of(Alert)[-max(limit, 1) :])

    def newest_alerts(self) -> tuple[Alert, ...]:
        """
        Return the last alert of each key, oldest first, for a look at the open incidents.

        Only these are decoded, and every file is read once. An unreadable alert is
        logged, and the one before it counts.
        """
        newest: dict[str, Alert] = {}
        for number in reversed(self._numbers_of(Alert)[-LOG_LENGTH:]):
            path = self._layout.place(Alert, number=number)
            data = self.store.read(path)
            if data is None or _key_in(data) in newest:
                continue
            try:
                alert = self._parsed(Alert, path, data, number=number)
            except RecordError as err:
                log.warning("Left out of the alerts: %s", err)
                continue
            newest[alert.key] = alert
        return tuple(newest.values())[::-1]

    def add_alert(self, alert: Alert) -> Alert | None:
        """
        Record an alert under the next number, unless it was recorded already.

        :returns: The record, or ``None`` when it was recorded before, perhaps by another task a
            moment ago.
        """
        for _ in range(APPEND_TRIES):
            numbers = self._numbers_of(Alert)
            if is_told(alert, self._told(numbers[-LOG_LENGTH:])):
                return None
            numbered = replace(alert, number=numbers[-1] + 1 if numbers else 1).fitted()
            if self._create(numbered):
                return numbered
            # The winner may have recorded the same.
        raise self._never_first(Alert)

    def unsent_alerts(self) -> tuple[Alert, ...]:
        """Return the alerts whose delivery is not finished, oldest first."""
        paths = self._paths()
        names = (path.rpartition("/")[2] for path in paths)
        numbers = sorted(number for name in names if (number := number_of(name)) is not None)
        recent = numbers[-LOG_LENGTH:]
        return self._told(n for n in recent if self._layout.place(AlertSent, number=n) not in paths)

    def begin_try(self, number: int, *, by: str, now: datetime) -> int | None:
        """
        Claim the next try to deliver an alert.

        :returns: Which try it is, from 1 to ``MAX_TRIES``. ``None`` when it is not the caller's to
            make: another task makes it at this moment, or all are used up; then the alert is marked
            as failed.
        """
        paths = self._paths()
        for attempt in range(1, MAX_TRIES + 1):
            record = AlertTry(number=number, attempt=attempt, at=now, by=by)
            if self._place(record) not in paths:
                return attempt if self._create(record) else None
        self.mark_sent(number, f"failed: {MAX_TRIES} tries were not seen through", now=now)
        return None

    def mark_sent(self, number: int, outcome: str, *, now: datetime) -> None:
        """Record that the alert needs no further delivery; the first mark stays."""
        self._put(AlertSent(number=number, outcome=outcome, at=now).fitted())

    def sent(self, number: int) -> AlertSent | None:
        """Return the mark of a delivered alert, ``None`` while it is to be delivered."""
        return self._get(AlertSent, number=number)

    def _paths(self) -> set[str]:
        folder = self._layout.folder(Alert)
        return {f"{folder}/{name}" for name in self.store.names(folder)}

    def _told(self, numbers: Iterable[int]) -> tuple[Alert, ...]:
        found = (self._alert(number) for number in numbers)
        return tuple(alert for alert in found if alert is not None)

    def _alert(self, number: int) -> Alert | None:
        try:
            return self._numbered(Alert, number)
        except RecordError as err:
            log.warning("Left out of the alerts: %s", err)
            return None


def _key_in(data: bytes) -> str | None:
    """Return the key that an alert's file states; ``None`` where only decoding tells why not."""
    try:
        key = parse_json(data, limit=Alert.LARGEST).get("key")
    except RecordError:
        return None
    return key if isinstance(key, str) else None


class Owners(Shared):
    """Read and change the owner of one stream; both lanes have the same."""

    def owner(self) -> Owner | None:
        """Return the newest record of the owner, ``None`` before the first deployment."""
        return self._base()._newest(Owner)

    def check_owner(self, actor: Actor, act: DagAct = DagAct.CHANGE) -> None:
        """
        Do nothing for a dag that may act on the stream, or for a stream without an owner.

        :raises NotTheOwner: the stream belongs to another dag, or another team.
        """
        owner = self.owner()
        refused = owner and refusal(owner, actor, self.store.uri, act)
        if refused:
            raise NotTheOwner(refused)

    def claim_ownership(
        self, actor: Actor, shared_with: Sequence[str] = (), *, by: str, now: datetime
    ) -> Owner:
        """
        Record the dag that keeps the stream alive as its owner; return the record that counts.

        :param shared_with: Ids of other dags that may change the stream.
        :raises NotTheOwner: the stream belongs to another dag.
        """

        def change(newest: Owner | None, number: int) -> Owner | None:
            return claimed(
                newest, actor, shared_with, stream=base.name, number=number, by=by, now=now
            )

        base = self._base()
        owner = base._append(Owner, change)
        if owner is None:
            raise HomeUnavailable(f"The owner of {base.name!r} was not recorded. Try again.")
        refused = refusal(owner, actor, self.store.uri, DagAct.KEEP)
        if refused:
            raise NotTheOwner(refused)
        return owner

    def hand_over(
        self, dag_id: str, *, by: str, reason: str, now: datetime, team: str = ""
    ) -> Owner:
        """
        Record another dag as the owner; return the newest record.

        Its file, bundle and team are recorded when it first keeps the stream alive.

        :param team: Only a dag of this team may take the stream over.
        """

        def change(newest: Owner | None, number: int) -> Owner | None:
            if newest is not None and newest.dag_id == dag_id and team in ("", newest.team):
                return None
            return Owner(
                number=number,
                stream=base.name,
                dag_id=dag_id,
                by=by,
                reason=reason,
                at=now,
                team=team,
            )

        base = self._base()
        owner = base._append(Owner, change)
        if owner is None:
            raise HomeUnavailable(f"The owner of {base.name!r} was not recorded. Try again.")
        return owner
