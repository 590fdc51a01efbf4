"""
The index of a home: rows of streams in a few objects, for readers of a fleet.

The objects are in the folder ``_rows`` of the home. Triggerers write the rows of their streams (``fleet_writer``), an
act of a user leaves the time of the act. Records do not depend on them: after a deletion readers look at each stream.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import format_time, parse_time
from airflow_streaming.model.names import base_of, other_lane
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import decode, parse_json
from airflow_streaming.services.fleet_rows import CLOCKS_APART, FRESH, FleetIndex, FleetRow
from airflow_streaming.storage.one_look import look_at_each

FOLDER: Final = "_rows"
KIND: Final = "fleet_index"
VERSION: Final = 1
KEEP: Final = 2 * FRESH
"""Objects whose times are all further from now are deleted."""
MOST_OBJECTS: Final = 200
"""Objects and acts that a reader reads."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of objects that a reader parses: rows of some 70,000 streams."""
AT_ONCE: Final = 16
MOST_ROWS: Final = 5_000
"""Rows of one object that a reader believes."""
_ACT: Final = "act-"
log: Final = logging.getLogger(__name__)
_Dated = tuple[str, datetime, Mapping[str, Any]]
"""Lane and time of a row, and the row as it was parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """
    State of an index, for a check of the home.

    :param malformed: Objects that cannot be read.
    :param ahead: Objects with dates to come; readers do not use them.
    :param newest: Time of the newest row.
    """

    objects: int = 0
    rows: int = 0
    malformed: int = 0
    ahead: int = 0
    newest: datetime | None = None


def read_index(store: Store, lanes: Collection[str], now: datetime) -> FleetIndex:
    """
    Read the newest row of each lane. Unreadable objects and rows are left out, so that readers look at the streams.

    An object with a date to come is left out whole: its rows would count when their time comes.

    :param lanes: Rows of other names are not parsed.
    """
    wanted = frozenset(lanes)
    try:
        names = store.names(FOLDER)
    except StreamingError as err:
        log.info("The index of %s cannot be read: %s", store.uri, err)
        return FleetIndex()
    acts = [lane for name in names if (lane := _lane_of(name)) in wanted]
    rows = [*_decoded(_newest(_objects(store, names), wanted, now))]
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
            home.store.replace(_act_path(lane), new_object({"acts": {lane: now}}))
    except StreamingError as err:
        log.warning("An act was not noted in the index of %s: %s", home.store.uri, err)


def state_of(store: Store, now: datetime) -> IndexState:
    """
    Return the state of an index.

    :raises StreamingError: its folder cannot be read.
    """
    names = store.names(FOLDER)
    found = [[at for _, at, _ in _dated(told, None)] for told in _objects(store, names)]
    return IndexState(
        objects=sum(not name.startswith(_ACT) for name in names),
        rows=sum(map(len, found)),
        malformed=sum(not times for times in found),
        ahead=sum(any(at - now > CLOCKS_APART for at in times) for times in found),
        newest=max((at for times in found for at in times), default=None),
    )


def clear(store: Store) -> int:
    """
    Delete the objects with rows, which their triggers write again; return their number.

    :raises StreamingError: the folder cannot be read.
    """
    deleted = 0
    for name in store.names(FOLDER):
        if not name.startswith(_ACT):
            with suppress(StreamingError):
                store.delete(f"{FOLDER}/{name}")
                deleted += 1
    return deleted


def new_object(told: Mapping[str, Any], rows: Sequence[str] = ()) -> bytes:
    """Return the bytes of an object; its rows are JSON already."""
    head = json.dumps({"kind": KIND, "version": VERSION, **told})
    return f'{head[:-1]}, "rows": [{",".join(rows)}]}}\n'.encode()


def times_in(store: Store, path: str) -> Iterator[datetime]:
    """Yield the times of the acts and rows of an object."""
    told = _parsed(_read(store, path))
    acts = told.get("acts")
    texts = [*acts.values()] if isinstance(acts, dict) else []
    texts += [row.get("seen_at") for row in _listed(told)]
    for text in islice(texts, MOST_ROWS):
        with suppress(RecordError):
            yield parse_time(str(text), "time")


def _objects(store: Store, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects with rows; an empty mapping for an unreadable object."""
    objects = [name for name in names if not name.startswith(_ACT)][:MOST_OBJECTS]
    room = MOST_BYTES
    # A few at a time, because each object may have 1 MiB.
    for first in range(0, len(objects), AT_ONCE):
        some = objects[first : first + AT_ONCE]
        for data in look_at_each(store, lambda name: _read(store, f"{FOLDER}/{name}"), some):
            room -= len(data)
            if room < 0:
                log.warning("The index of %s has more than %d bytes.", store.uri, MOST_BYTES)
                return
            yield _parsed(data)


def _newest(
    objects: Iterator[Mapping[str, Any]], wanted: frozenset[str], now: datetime
) -> list[_Dated]:
    found: dict[str, _Dated] = {}
    for told in objects:
        rows = [*_dated(told, wanted)]
        if any(at - now > CLOCKS_APART for _, at, _ in rows):
            log.info("An object of an index has a date to come; its rows are not used.")
            continue
        for row in rows:
            if row[0] not in found or found[row[0]][1] < row[1]:
                found[row[0]] = row
    return [*found.values()]


def _decoded(rows: Sequence[_Dated]) -> Iterator[FleetRow]:
    for _, _, row in rows:
        try:
            yield decode(FleetRow, row, "row")
        except RecordError as err:
            log.info("A row of an index is malformed: %s", err)


def _dated(told: Mapping[str, Any], wanted: frozenset[str] | None) -> Iterator[_Dated]:
    for row in islice(_listed(told), MOST_ROWS):
        lane = row.get("lane")
        if isinstance(lane, str) and (wanted is None or lane in wanted):
            with suppress(RecordError):
                yield lane, parse_time(str(row.get("seen_at")), "time"), row


def _read(store: Store, path: str) -> bytes:
    try:
        return store.read(path) or b""
    except StreamingError as err:
        log.info("%r cannot be read: %s", path, err)
        return b""


def _parsed(data: bytes) -> Mapping[str, Any]:
    """Return an object; an empty mapping if it is malformed or of another version."""
    try:
        told = parse_json(data) if data else {}
    except RecordError as err:
        log.info("An object of an index is malformed: %s", err)
        return {}
    is_ours = (told.get("kind"), told.get("version")) == (KIND, VERSION)
    return told if is_ours else {}


def _listed(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of an object. A writer of the home can forge the object."""
    rows = told.get("rows")
    yield from (row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict))


def _act_path(lane: str) -> str:
    return f"{FOLDER}/{_ACT}{lane}.json"


def _lane_of(name: str) -> str:
    return name.removeprefix(_ACT).removesuffix(".json") if name.startswith(_ACT) else ""


def _time_of_act(store: Store, lane: str) -> datetime | None:
    """Return when a user acted on a lane last; ``None`` when that cannot be read."""
    acts = _parsed(_read(store, _act_path(lane))).get("acts")
    try:
        return parse_time(acts[lane], "act") if isinstance(acts, dict) else None
    except (RecordError, KeyError, TypeError):
        return None
