"""
Make sure that a store lets only one of many writers create a file.

Everything in a home rests on exclusive create, and some stores accept the condition and ignore it:
an S3 gateway was measured to let 24 of 24 creators win. So a new home is tried before it is
trusted, once; the result is a record in the home. The record also tells a home from a folder in whose
place a home should be mounted, so only an explicit act writes it.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeNotExclusive,
    HomeNotInitialized,
    HomeUnavailable,
    RecordError,
    StreamingError,
)
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local, join, local_path
from airflow_streaming.model.wire import Record

CREATORS: Final = 24
ROUNDS: Final = 3
"""fsspec's own local create let two creators win in one race of five, so one race proves nothing."""
RECORD: Final = "_store/000001.json"
"""No stream can be called ``_store``: names begin with a letter or a digit."""
_MOST_NAMED: Final = 3
log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProbe(Record):
    """
    Proof that the store of a home honors exclusive create.

    :param creators: Writers that raced for each file.
    :param rounds: Races, each with exactly one winner.
    """

    KIND: ClassVar[str] = "store_probe"

    creators: int
    rounds: int
    at: datetime


def ensure_exclusive(store: Store, *, creators: int = CREATORS, rounds: int = ROUNDS) -> None:
    """
    Probe the store unless this home holds the record of an earlier probe.

    :raises HomeNotExclusive: a race had more than one winner, or a loser's content stayed.
    :raises RecordError: the record of an earlier probe is not one.
    """
    if _is_proved(store):
        return
    race(store, creators=creators, rounds=rounds)
    record = StoreProbe(creators=creators, rounds=rounds, at=datetime.now(UTC))
    try:
        store.create(RECORD, record.to_bytes())
    except AlreadyExists:
        log.debug("Another task probed %s at the same time.", store.uri)


def race(store: Store, *, creators: int = CREATORS, rounds: int = ROUNDS) -> None:
    """
    Let writers race for a few files, which are deleted afterwards; nothing is recorded.

    :raises HomeNotExclusive: a race had more than one winner, or a loser's content stayed.
    """
    prefix = f"_store/probe-{uuid.uuid4().hex}"
    keys = [f"{prefix}-{number}" for number in range(1, rounds + 1)]
    try:
        for key in keys:
            _check_race(store, key, creators)
    finally:
        _delete(store, keys)


def check_initialized(store: Store) -> None:
    """
    Make sure that a home was initialized here; nothing is written.

    :raises HomeNotInitialized: it was not, or its volume is not mounted, or the place is another.
    :raises HomeUnavailable: the place cannot be read.
    :raises RecordError: the record of the probe is damaged.
    """
    if _is_proved(store):
        return
    raise HomeNotInitialized(
        f"{shown_place(store.uri)} is not a home: {found_at(store)}. A home that was used before is "
        "not mounted here, or its path, bucket or host is another, and its drivers may still run: bring "
        "it back, then try again. Nothing was started. Only if the home is new: 'airflow-streaming init "
        f'{store.uri}\', or trigger the DAG once with the configuration {{"init_home": true}}.'
    )


def shown_place(uri: str) -> str:
    """Return a home's URI; with the name of this host where other hosts may have another folder."""
    return f"{uri} on host {socket.gethostname()}" if is_local(uri) else uri


def found_at(store: Store) -> str:
    """Return the content of a place, for the message that it is not a home."""
    names = store.names("")
    if names:
        more = ", ..." if len(names) > _MOST_NAMED else ""
        return f"it has no record {RECORD}, only {', '.join(names[:_MOST_NAMED])}{more}"
    if not is_local(store.uri):
        return "nothing is stored there"
    path = Path(local_path(store.uri))
    if path.is_dir():
        return "the folder is empty"
    return "that is a file" if path.exists() else "there is no such folder"


def damage(store: Store) -> str:
    """Return the fault of an earlier probe's record; empty when nothing is."""
    try:
        _is_proved(store)
    except RecordError as err:
        return str(err)
    return ""


def _is_proved(store: Store) -> bool:
    data = store.read(RECORD)
    if data is None:
        return False
    try:
        StoreProbe.from_bytes(data)
    except RecordError as err:
        raise RecordError(
            f"{join(store.uri, RECORD)} cannot be read: {err} Delete it, and the store is probed "
            "again."
        ) from err
    return True


def _check_race(store: Store, key: str, creators: int) -> None:
    contents = [f"{number} {uuid.uuid4().hex}\n".encode() for number in range(creators)]
    winners = _race(store, key, contents)
    if len(winners) > 1:
        raise HomeNotExclusive(
            f"The store under {store.uri} let {len(winners)} of {creators} writers create the same "
            "file. A stream there could get two drivers on one checkpoint, so nothing is run. Use "
            "a local folder, or an object store that honors conditional writes (If-None-Match)."
        )
    if not winners:
        raise HomeUnavailable(
            f"The store under {store.uri} let none of {creators} writers create a new file. Try "
            "again; if it stays so, check that the store supports conditional writes."
        )
    if store.read(key) != winners[0]:
        raise HomeNotExclusive(
            f"The store under {store.uri} confirmed to one writer that it had created a file, and kept the "
            "content of another. Nothing is run on it. Use a local folder, or an object store that "
            "honors conditional writes (If-None-Match)."
        )


def _race(store: Store, key: str, contents: Sequence[bytes]) -> list[bytes]:
    start = threading.Barrier(len(contents))

    def create(content: bytes) -> bool:
        start.wait()
        try:
            store.create(key, content)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(len(contents), thread_name_prefix="store-probe") as pool:
        won = list(pool.map(create, contents))
    return [content for content, is_winner in zip(contents, won, strict=True) if is_winner]


def _delete(store: Store, keys: Sequence[str]) -> None:
    for key in keys:
        try:
            store.delete(key)
        except StreamingError as err:
            log.info("A probe file is left in %s: %s", store.uri, err)
