"""
Holds: a running backup, restore or verification tells retention to leave things alone.

A hold is a small record that is written anew every half minute by a thread. Its age is told by the
store's clock alone, so that no two machines' clocks are compared. A hold whose holder was killed
stops beating, and retention may ignore it after a while. Whoever only reads, and may not write into
the store, goes on without one: all that he reads is checked.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Final, NamedTuple

from airflow_streaming.checkpoint.away import is_for_want_of_rights
from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.layout import folder, hold_path, is_hold_id
from airflow_streaming.core.wire import MAX_RECORD_BYTES, Record
from airflow_streaming.exceptions import HomeUnavailable, RecordError

log: Final = logging.getLogger(__name__)

BEAT_SECONDS: Final = 30.0
_READING: Final = frozenset({"restore", "verify"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Record):
    """
    Somebody needs the objects of a stream.

    :param id: Its name in the store.
    :param what: What is being done, e.g. ``backup``, ``restore``.
    :param backup: The one backup that is needed; empty for whatever the stream has.
    :param by: Host and process.
    :param beats: How often it was written.
    """

    KIND: ClassVar[str] = "backup-hold"

    id: str
    stream: str
    what: str
    backup: str
    by: str
    begun_at: datetime
    beats: int = 1


class Held(NamedTuple):
    """
    A hold as it lies in the store.

    :param hold: ``None`` when the record cannot be read; it holds everything all the same.
    :param beaten: When it was last written, by the store's clock.
    """

    id: str
    hold: Hold | None
    beaten: datetime | None


@contextlib.contextmanager
def holding(blobs: Blobs, stream: str, what: str, backup_id: str = "") -> Iterator[Hold]:
    """
    Hold a stream's objects until the end of a ``with``.

    :raises HomeUnavailable: the first record cannot be written; later ones may fail unnoticed. Where
        the store is only for reading, a restore or a verification is warned instead.
    """
    hold = Hold(
        id=uuid.uuid4().hex,
        stream=stream,
        what=what,
        backup=backup_id,
        by=f"{socket.gethostname()}, process {os.getpid()}",
        begun_at=datetime.now(UTC),
    )
    path = hold_path(stream, hold.id)
    if not _is_created(blobs, path, hold):
        yield hold
        return
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(blobs, path, hold, ended), daemon=True)
    beating.start()
    try:
        yield hold
    finally:
        ended.set()
        beating.join()
        # A hold that stays is one that stops beating.
        with contextlib.suppress(HomeUnavailable):
            blobs.delete(path)


def read_holds(blobs: Blobs, stream: str) -> list[Held]:
    """Return the holds on a stream, those of killed holders too."""
    found = []
    for stored in blobs.entries(folder(stream, "holds")):
        hold_id = stored.name.removesuffix(".json")
        if stored.is_folder or not is_hold_id(hold_id) or hold_id == stored.name:
            continue
        hold, is_gone = _read(blobs, stream, hold_id)
        if not is_gone:
            found.append(Held(hold_id, hold, stored.modified))
    return found


def _is_created(blobs: Blobs, path: str, hold: Hold) -> bool:
    try:
        blobs.create(path, hold.to_bytes())
    except HomeUnavailable as err:
        if hold.what not in _READING or not is_for_want_of_rights(err):
            raise
        log.warning(
            "%s may not be written, so nothing there tells a retention that this %s is at work: one "
            "that runs elsewhere could remove what is being read. All that is read is verified all the "
            "same, so that this would be an error and not go unnoticed.",
            blobs.uri,
            "restore" if hold.what == "restore" else "verification",
        )
        return False
    return True


def _beat(blobs: Blobs, path: str, hold: Hold, ended: threading.Event) -> None:
    beats = hold.beats
    while not ended.wait(BEAT_SECONDS):
        beats += 1
        # The next beat may come through.
        with contextlib.suppress(HomeUnavailable):
            blobs.put(path, replace(hold, beats=beats).to_bytes())


def _read(blobs: Blobs, stream: str, hold_id: str) -> tuple[Hold | None, bool]:
    try:
        data = blobs.read(hold_path(stream, hold_id), MAX_RECORD_BYTES)
        return (None, True) if data is None else (Hold.from_bytes(data), False)
    except RecordError:
        return None, False
