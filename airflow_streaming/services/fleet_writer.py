"""
Writes rows of streams for readers of a fleet: a triggerer writes the rows of its streams every half minute.

A row that is dropped leaves the home within seconds, so that readers look at the stream.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.records.restart_decision import RestartDecision
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import MAX_RECORD_BYTES
from airflow_streaming.services.fleet_index import (
    FOLDER,
    KEEP,
    MOST_OBJECTS,
    MOST_ROWS,
    new_object,
    times_in,
)
from airflow_streaming.services.fleet_rows import FRESH, FleetRow
from airflow_streaming.services.status_reader import restarts_in_a_day
from airflow_streaming.services.stream_figures import figures_of
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.restart import Progress
from airflow_streaming.supervision.stream_status import StreamStatus

WRITE_EVERY: Final = 30.0
"""Seconds between two writes of a triggerer."""
DROP_WITHIN: Final = 10.0
"""Seconds until a dropped row leaves the home."""
FIRST_AFTER: Final = 6.0
"""Seconds from the first row to the first write: the triggers of a new triggerer look within five."""
SWEEP_EVERY: Final = 60.0
REST: Final = 600.0
"""Seconds without a write after the home has refused one."""
LONGEST_ROW: Final = 16_384
"""Characters of a row; only the names in the record of an owner can make it longer."""
_ROOM: Final = MAX_RECORD_BYTES - 4096
log: Final = logging.getLogger(__name__)

_writers: Final[dict[Hashable, IndexWriter]] = {}
_MOST_WRITERS: Final = 64


def row_of(
    status: StreamStatus,
    owner: Owner | None = None,
    labels: Mapping[str, str] | None = None,
    tags: tuple[str, ...] = (),
) -> FleetRow:
    """Return the row of a stream."""
    standing, seen = status.standing, status.seen
    recorded = seen.status if seen else None
    figures = figures_of(status)
    deployment = status.deployment
    return FleetRow(
        lane=status.stream,
        seen_at=status.now,
        word=standing.word,
        level=standing.level,
        reason=standing.reason,
        remedy=standing.remedy,
        since=standing.since,
        is_live=status.is_live,
        desired=status.desired.state if status.desired else DesiredState.RUNNING,
        circuit_is_open=status.circuit_is_open,
        deployment=deployment.number if deployment else None,
        epoch=status.epoch,
        incidents=len(status.incidents),
        failures_in_a_row=status.failures_in_a_row,
        restarts_24h=status.restarts_24h,
        spark=(recorded.spark_version if recorded else "")
        or (deployment.spark_version if deployment else ""),
        launcher=seen.epoch.launcher if seen else "",
        heartbeat_at=recorded.at if recorded else None,
        queries=len(recorded.queries) if recorded else 0,
        input_rate=figures.input_rate,
        processing_rate=figures.processing_rate,
        batch_ms=figures.batch_ms,
        backlog=figures.backlog,
        watermark_delay_s=figures.watermark_delay_s,
        state_rows=figures.state_rows,
        owner=owner,
        runtime=deployment.runtime if deployment else "",
        labels=labels or {},
        tags=tags,
    )


def row_of_look(
    home: StreamHome,
    seen: ReconcileInput,
    decisions: Sequence[RestartDecision],
    progress: Sequence[Progress],
) -> FleetRow | None:
    """
    Return the row of a stream; ``None`` before its first epoch and while a change is open.

    :param decisions: The newest decision about a failed epoch, as ``read_failures`` returns it.
    :raises RecordError: a record of the stream is damaged.
    """
    # Without an epoch the home may be an empty folder in place of a home that is not mounted.
    if seen.seen is None or seen.change is not None or home.unfinished_change() is not None:
        return None
    recorded = seen.seen.status
    now = () if recorded is None or seen.decision is not None else (recorded,)
    status = StreamStatus(
        stream=home.name,
        now=seen.now,
        rules=seen.rules,
        policy=seen.policy,
        seen=seen.seen,
        desired=home.desired(),
        circuit=seen.circuit,
        deployment=seen.deployment,
        decisions=tuple(decisions),
        progress=(*progress, *now),
        restarts_24h=restarts_in_a_day(home, seen.now),
        incidents=open_incidents(seen.alerts),
        is_live=seen.follows is None,
    )
    supervision = home.supervision()
    return row_of(status, home.owner(), supervision.labels, supervision.tags)


class IndexWriter:
    """
    The rows of the streams that this process watches in one home.

    Threads of all its triggers call it.

    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store, self._clock, self._now = store, clock, now
        self._id = uuid.uuid4().hex[:16]
        self._rows: dict[str, tuple[datetime, str]] = {}
        self._lock, self._write_lock = threading.Lock(), threading.Lock()
        self._due: float | None = None
        self._rests = False
        self._sweep_due = clock()
        self._parts = 0

    def note(self, row: FleetRow) -> None:
        """Keep the row of a lane in place of the earlier one; a row that is too long is dropped."""
        masked = replace(row, reason=mask_secrets(row.reason), remedy=mask_secrets(row.remedy))
        text = json.dumps(encode(masked), allow_nan=False)
        if len(text) > LONGEST_ROW:
            self.drop(row.lane)
            return
        with self._lock:
            self._rows[row.lane] = (row.seen_at, text)
            if self._due is None:
                self._due = self._clock() + FIRST_AFTER

    def drop(self, lane: str) -> None:
        """Forget the row of a lane; the next write is soon."""
        with self._lock:
            is_new = self._rows.pop(lane, None) is not None
            if is_new and self._due is not None and not self._rests:
                self._due = min(self._due, self._clock() + DROP_WITHIN)

    def write_if_due(self) -> None:
        """Write all rows if the last write is long enough ago; an error is only logged."""
        if self._due is None or self._clock() < self._due or not self._write_lock.acquire(False):
            return
        try:
            self._due, self._rests = self._clock() + WRITE_EVERY, False
            self._write()
            if self._clock() >= self._sweep_due:
                self._sweep_due = self._clock() + SWEEP_EVERY
                self._sweep()
        except StreamingError as err:
            self._due, self._rests = self._clock() + REST, True
            log.warning("The index of %s was not written: %s", self.store.uri, err)
        finally:
            self._write_lock.release()

    def _write(self) -> None:
        since = self._now() - FRESH
        with self._lock:
            self._rows = {lane: row for lane, row in self._rows.items() if row[0] >= since}
            texts = [text for _, text in self._rows.values()]
        written = 0
        for written, part in enumerate(_parts(texts), 1):
            self.store.replace(self._path(written), part)
            # A later part may fail, and the next write may have fewer.
            self._parts = max(self._parts, written)
        for number in range(written + 1, self._parts + 1):
            self.store.delete(self._path(number))
        self._parts = written

    def _sweep(self) -> None:
        """Delete objects of writers that are gone or have a wrong clock, and acts that rows show by now."""
        now = self._now()
        for name in islice(self.store.names(FOLDER), MOST_OBJECTS):
            path = f"{FOLDER}/{name}"
            if name.startswith(self._id):
                continue
            # A folder or a link in the place of an object is left to the user who made it.
            with suppress(StreamingError):
                if not any(abs(now - at) <= KEEP for at in times_in(self.store, path)):
                    self.store.delete(path)

    def _path(self, number: int) -> str:
        return f"{FOLDER}/{self._id}-{number}.json"


def writer_of(home: Hashable, store: Store) -> IndexWriter:
    """
    Return the writer of a home in this process, made at the first call.

    :param home: The home and its connection.
    :param store: The writer uses the newest, because credentials of a connection may change.
    """
    if home not in _writers and len(_writers) >= _MOST_WRITERS:
        _writers.pop(next(iter(_writers)), None)
    writer = _writers.setdefault(home, IndexWriter(store))
    writer.store = store
    return writer


def _parts(texts: list[str]) -> Iterator[bytes]:
    """Yield objects with as many rows as a reader takes."""
    part: list[str] = []
    room = _ROOM
    for text in texts:
        if part and (len(text) + 1 > room or len(part) >= MOST_ROWS):
            yield new_object({}, part)
            part, room = [], _ROOM
        part.append(text)
        room -= len(text) + 1
    if part:
        yield new_object({}, part)
