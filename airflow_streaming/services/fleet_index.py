"""
The index of a home: rows of streams in a few objects, for readers of a fleet.

The objects are in the folder ``_rows`` of the home. A triggerer writes the rows of its streams, an act of a user
leaves the time of the act. Records do not depend on them: after a deletion readers look at each stream.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode, format_time, parse_time
from airflow_streaming.model.names import base_of, other_lane
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.records.policy import RestartDecision
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import MAX_RECORD_BYTES, decode, parse_json
from airflow_streaming.services.fleet_rows import FRESH, FleetIndex, FleetRow
from airflow_streaming.services.status_reader import restarts_in_a_day
from airflow_streaming.services.stream_figures import figures_of
from airflow_streaming.storage.one_look import look_at_each
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.restart import Progress
from airflow_streaming.supervision.stream_status import StreamStatus

FOLDER: Final = "_rows"
KIND: Final = "fleet_index"
VERSION: Final = 1
WRITE_EVERY: Final = 30.0
"""Seconds between two writes of a triggerer."""
FIRST_AFTER: Final = 6.0
"""Seconds from the first row to the first write: the triggers of a new triggerer look within five."""
SWEEP_EVERY: Final = 60.0
KEEP: Final = 2 * FRESH
"""Objects whose times are all older are deleted."""
REST: Final = 600.0
"""Seconds without a write after the home has refused one."""
MOST_OBJECTS: Final = 200
"""Objects and acts that a reader reads."""
AT_ONCE: Final = 16
MOST_ROWS: Final = 5_000
"""Rows of one object that a reader believes; the shortest valid row has about 90 bytes."""
_ROOM: Final = MAX_RECORD_BYTES - 4096
_ACT: Final = "act-"
log: Final = logging.getLogger(__name__)

_writers: Final[dict[Hashable, IndexWriter]] = {}
_MOST_WRITERS: Final = 64


def row_of(status: StreamStatus, owner: Owner | None = None) -> FleetRow:
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
    return row_of(status, home.owner())


def read_index(store: Store, lanes: Collection[str]) -> FleetIndex:
    """
    Read the rows of lanes. Objects and rows that cannot be read are left out, so that readers look at the streams.

    :param lanes: Rows of other names are not parsed.
    """
    wanted = frozenset(lanes)
    try:
        names = store.names(FOLDER)
    except StreamingError as err:
        log.info("The index of %s cannot be read: %s", store.uri, err)
        return FleetIndex()
    objects = [name for name in names if not name.startswith(_ACT)][:MOST_OBJECTS]
    acts = [lane for name in names if (lane := _lane_of(name)) in wanted]
    rows = [*_rows_in(store, objects, wanted)]
    if not rows:
        return FleetIndex()
    times = look_at_each(store, lambda lane: _time_of_act(store, lane), acts[:MOST_OBJECTS])
    return FleetIndex(
        rows=tuple(rows), acts={**dict.fromkeys(acts), **dict(zip(acts, times, strict=False))}
    )


def note_act(home: StreamHome) -> None:
    """
    Note that a user has acted on a stream, so that no reader believes a row from before.

    An error is only logged: the act is done, and the row is too old soon.
    """
    try:
        if not home.store.names(FOLDER):
            return
        now = format_time(datetime.now(UTC))
        base = base_of(home.name)
        for lane in (base, other_lane(base)):
            home.store.replace(_act_path(lane), _object({"acts": {lane: now}}))
    except StreamingError as err:
        log.warning("An act was not noted in the index of %s: %s", home.store.uri, err)


class IndexWriter:
    """
    The rows of the streams that this process watches in one home.

    Threads of all its triggers call it.

    :param store: The home's store.
    :param clock: Monotonic seconds.
    :param now: The time of day.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._clock, self._now = store, clock, now
        self._id = uuid.uuid4().hex[:16]
        self._rows: dict[str, tuple[datetime, str]] = {}
        self._lock, self._write_lock = threading.Lock(), threading.Lock()
        self._due: float | None = None
        self._sweep_due = clock()
        self._parts = 0

    def note(self, row: FleetRow) -> None:
        """Keep the row of a lane in place of the earlier one."""
        masked = replace(row, reason=mask_secrets(row.reason), remedy=mask_secrets(row.remedy))
        text = json.dumps(encode(masked), allow_nan=False)
        with self._lock:
            self._rows[row.lane] = (row.seen_at, text)
            if self._due is None:
                self._due = self._clock() + FIRST_AFTER

    def drop(self, lane: str) -> None:
        """Forget the row of a lane."""
        with self._lock:
            self._rows.pop(lane, None)

    def write_if_due(self) -> None:
        """Write all rows if the last write is long enough ago; an error is only logged."""
        if self._due is None or self._clock() < self._due or not self._write_lock.acquire(False):
            return
        try:
            self._due = self._clock() + WRITE_EVERY
            self._write()
            if self._clock() >= self._sweep_due:
                self._sweep_due = self._clock() + SWEEP_EVERY
                self._sweep()
        except StreamingError as err:
            self._due = self._clock() + REST
            log.warning("The index of %s was not written: %s", self._store.uri, err)
        finally:
            self._write_lock.release()

    def _write(self) -> None:
        since = self._now() - FRESH
        with self._lock:
            self._rows = {lane: row for lane, row in self._rows.items() if row[0] >= since}
            texts = [text for _, text in self._rows.values()]
        written = 0
        for written, part in enumerate(_parts(texts), 1):
            self._store.replace(self._path(written), part)
        for number in range(written + 1, self._parts + 1):
            self._store.delete(self._path(number))
        self._parts = written

    def _sweep(self) -> None:
        """Delete objects of writers that are gone, and of acts that rows show by now."""
        before = self._now() - KEEP
        for name in islice(self._store.names(FOLDER), MOST_OBJECTS):
            path = f"{FOLDER}/{name}"
            if name.startswith(self._id):
                continue
            # A folder or a link in the place of an object is left to the user who made it.
            with suppress(StreamingError):
                if not any(at >= before for at in _times_in(self._store, path)):
                    self._store.delete(path)

    def _path(self, number: int) -> str:
        return f"{FOLDER}/{self._id}-{number}.json"


def writer_of(home: Hashable, store: Store) -> IndexWriter:
    """
    Return the writer of a home in this process, made at the first call.

    :param home: The home and its connection.
    """
    if home not in _writers and len(_writers) >= _MOST_WRITERS:
        _writers.pop(next(iter(_writers)), None)
    return _writers.setdefault(home, IndexWriter(store))


def _parts(texts: list[str]) -> Iterator[bytes]:
    """Yield objects with as many rows as a reader takes."""
    part: list[str] = []
    room = _ROOM
    for text in texts:
        if part and len(text) + 1 > room:
            yield _object({}, part)
            part, room = [], _ROOM
        part.append(text)
        room -= len(text) + 1
    if part:
        yield _object({}, part)


def _object(told: Mapping[str, Any], rows: list[str] | None = None) -> bytes:
    head = json.dumps({"kind": KIND, "version": VERSION, **told})
    return f'{head[:-1]}, "rows": [{",".join(rows or [])}]}}\n'.encode()


def _read(store: Store, path: str) -> Mapping[str, Any]:
    """Return an object; an empty mapping if the object is missing, malformed or of another version."""
    try:
        data = store.read(path)
        told = {} if data is None else parse_json(data)
    except StreamingError as err:
        log.info("%r is not a part of an index: %s", path, err)
        return {}
    is_ours = (told.get("kind"), told.get("version")) == (KIND, VERSION)
    return told if is_ours else {}


def _rows_in(store: Store, objects: Sequence[str], wanted: frozenset[str]) -> Iterator[FleetRow]:
    # A few at a time, because each object may have 1 MiB.
    for first in range(0, len(objects), AT_ONCE):
        some = objects[first : first + AT_ONCE]
        for told in look_at_each(store, lambda name: _read(store, f"{FOLDER}/{name}"), some):
            yield from islice(_rows(told, wanted), MOST_ROWS)


def _rows(told: Mapping[str, Any], wanted: frozenset[str]) -> Iterator[FleetRow]:
    for row in _listed(told):
        lane = row.get("lane")
        if isinstance(lane, str) and lane in wanted:
            try:
                yield decode(FleetRow, row, "row")
            except RecordError as err:
                log.info("A row of an index is malformed: %s", err)


def _listed(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of an object. A writer of the home can forge the object."""
    rows = told.get("rows")
    yield from (row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict))


def _times_in(store: Store, path: str) -> Iterator[datetime]:
    told = _read(store, path)
    acts = told.get("acts")
    texts = [*acts.values()] if isinstance(acts, dict) else []
    texts += [row.get("seen_at") for row in _listed(told)]
    for text in texts:
        try:
            yield parse_time(str(text), "time")
        except RecordError:
            continue


def _act_path(lane: str) -> str:
    return f"{FOLDER}/{_ACT}{lane}.json"


def _lane_of(name: str) -> str:
    return name.removeprefix(_ACT).removesuffix(".json") if name.startswith(_ACT) else ""


def _time_of_act(store: Store, lane: str) -> datetime | None:
    """Return when a user acted on a lane last; ``None`` when that cannot be read."""
    told = _read(store, _act_path(lane))
    acts = told.get("acts")
    try:
        return parse_time(acts[lane], "act") if isinstance(acts, dict) else None
    except (RecordError, KeyError, TypeError):
        return None
