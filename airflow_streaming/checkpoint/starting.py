"""
Starting: green's first checkpoint, empty, cloned from the running blue, or with its position.

Whoever was killed is followed by anybody: what is whole is found by the query's id, which is always
the same for one deployment, and what a dead copy has left on an object store is cleared first. Two
may be at it at once, and one of them may be hours late: nothing is cleared that a query was given.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.checkpoint.begun import (
    check_empty_but_for,
    id_in,
    is_dead_copy,
    metadata_id,
    paths_in,
)
from airflow_streaming.checkpoint.clone import carry_over, clone
from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.query_view import read_view
from airflow_streaming.checkpoint.writing import read_back
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from airflow_streaming.core.checkpoint.marker import RestoreMarker
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.cutover.terms import StartWay
from airflow_streaming.exceptions import CheckpointBusy, RestoreRefused
from airflow_streaming.home.opening import open_store

YOUNG: Final = timedelta(minutes=5)
"""A copy that began less than this ago may be under way still; nobody clears it."""

_ATTEMPTS: Final = 2
_IDS: Final = uuid.UUID("6b0a1c52-5c0e-4b0e-9b56-6f2d6a1f3c11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """
    What green's query begins with.

    :param uri: Its checkpoint.
    :param query_id: Id in it; empty for a fresh one, to which Spark gives its id.
    :param batch: The committed batch that it stands at; ``None`` for a fresh one.
    """

    uri: str
    query_id: str = ""
    batch: int | None = None


def now_in_utc() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def make_start(
    start: StartWay,
    blue_uri: str,
    green_uri: str,
    *,
    query_id: str,
    stateless: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    now: Callable[[], datetime] = now_in_utc,
) -> Started:
    """
    Make what one query of green begins with; asking again gives the same.

    It is to be asked before green's first driver is started, never after: a fresh checkpoint that
    a driver has begun to fill looks like somebody else's.

    :param blue_uri: Blue's checkpoint of the query; it may be running and is only read.
    :param green_uri: Where green's is going to lie.
    :param query_id: Green's own id, the same in every attempt; see ``own_query_id``.
    :param stateless: Somebody vouches that the query has no state, for ``CARRIED``.
    :raises CheckpointRefused: it cannot be copied, or something else lies there.
    :raises CheckpointBusy: blue changed, or somebody else was at it, under every attempt; trying
        again may help.
    :raises RestoreRefused: something else lies there, or paths in it cannot be rewritten.
    :raises HomeUnavailable: a store cannot be reached.
    """
    folders = open_folders(green_uri, storage_options, filesystem)
    if start is StartWay.FRESH:
        check_empty_but_for(folders, ())
        return Started(uri=green_uri)
    access: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    for _ in range(_ATTEMPTS):
        if id_in(folders) == query_id:
            committed = read_view(folders).committed
            return Started(
                uri=green_uri, query_id=query_id, batch=committed.batch if committed else None
            )
        if is_dead_copy(folders) and _clear(folders, query_id, access, now):
            continue
        try:
            if start is StartWay.CLONED:
                made = clone(blue_uri, green_uri, query_id=query_id, **access)
            else:
                made = carry_over(
                    blue_uri, green_uri, query_id=query_id, stateless=stateless, **access
                )
        except RestoreRefused:
            # Somebody else who is at the same may have been faster.
            if id_in(folders) != query_id and not is_dead_copy(folders):
                raise
            continue
        return Started(uri=green_uri, query_id=query_id, batch=made.batch)
    raise CheckpointBusy(f"{green_uri} is being made by somebody else at the same time. Try again.")


def own_query_id(lane: str, deployment: int, query: str) -> str:
    """Return the id that a query of a deployment gets; always the same one."""
    return str(uuid.uuid5(_IDS, f"{lane}/{deployment}/{query}"))


def _clear(
    folders: Folders, query_id: str, access: Mapping[str, Any], now: Callable[[], datetime]
) -> bool:
    """Clear what a dead copy has left; return whether it was whole, and was kept."""
    marker = folders.read(RESTORE_MARKER, MAX_LOG_BYTES)
    if marker is None:
        return True
    if now() - RestoreMarker.from_bytes(marker).begun_at < YOUNG:
        raise CheckpointBusy(
            f"A copy to {folders.uri} was begun less than {YOUNG.seconds // 60} minutes ago. If it "
            "is dead it is cleared after that time."
        )
    paths = paths_in(folders)
    store = open_store(folders.uri, **access)
    # The id is written last: what has it is whole, and may be green's own by now.
    if is_whole := metadata_id(folders) == query_id:
        _check_whole(folders, query_id)
        paths = []
    # The marker goes last: until then nobody takes what is left for a checkpoint.
    for path in (*(path for path in paths if path != RESTORE_MARKER), RESTORE_MARKER):
        # What was listed beside this marker may be another one's since.
        if folders.read(RESTORE_MARKER, MAX_LOG_BYTES) != marker:
            raise CheckpointBusy(f"{folders.uri} is being made by somebody else. Try again.")
        store.delete(path)
    return is_whole


def _check_whole(folders: Folders, query_id: str) -> None:
    committed = read_view(folders).committed
    batch = -1 if committed is None else committed.batch
    read_back(folders, folders.uri, batch=batch, query_id=query_id)
