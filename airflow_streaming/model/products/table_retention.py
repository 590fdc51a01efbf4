"""
When Delta and Iceberg tables remove data that a query has not read, from their metadata files.

A version of a Delta table can go once its data files were replaced for ``deletedFileRetentionDuration`` or its log is
older than ``logRetentionDuration``; a snapshot of an Iceberg table once it is older than ``max-snapshot-age-ms``. Both
count from the commit, so the estimate errs on the early side: maintenance must run first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from airflow_streaming.model.products.retention import LossGap, Outlook, of_age, unknown

DELTA_LOG: Final = "_delta_log"
DELTA_VERSION: Final = re.compile(r"(\d{20})\.json")
ICEBERG_FILE: Final = re.compile(r"v?(\d+)(?:-[0-9a-f-]+)?(?:\.gz)?\.metadata\.json")
_DAY: Final = 86_400.0
_DELTA_DEFAULTS: Final = {
    "delta.logRetentionDuration": 30 * _DAY,
    "delta.deletedFileRetentionDuration": 7 * _DAY,
}
_INTERVAL: Final = re.compile(
    r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE
)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_ICEBERG_AGE: Final = "history.expire.max-snapshot-age-ms"
_ICEBERG_DEFAULT: Final = 5 * _DAY


class DeltaCommit(NamedTuple):
    """
    A commit of a Delta table.

    :param at: When it was made, in seconds since 1970; ``None`` where the commit does not tell.
    :param properties: The table's properties, where this commit sets them.
    """

    at: float | None
    properties: Mapping[str, str] | None


def delta_commit(actions: Iterable[Mapping[str, Any]]) -> DeltaCommit:
    """
    Return a commit.

    :param actions: The lines of its file.
    """
    at: float | None = None
    properties: Mapping[str, str] | None = None
    for action in actions:
        info, metadata = action.get("commitInfo"), action.get("metaData")
        if isinstance(info, Mapping):
            told = info.get("inCommitTimestamp") or info.get("timestamp")
            at = told / 1000 if isinstance(told, int | float) else at
        if isinstance(metadata, Mapping):
            given = metadata.get("configuration")
            properties = given if isinstance(given, Mapping) else {}
    return DeltaCommit(at, properties)


def delta_unread(offset: Any) -> int | None:
    """Return the first version that was not read whole; ``None`` for an offset of another source."""
    version = offset.get("reservoirVersion") if isinstance(offset, Mapping) else None
    return version if isinstance(version, int) and version >= 0 else None


def delta_kept_for(properties: Mapping[str, str] | None) -> float:
    """Return the seconds for which a table certainly keeps a version."""
    given = properties or {}
    return min(_seconds(given.get(name)) or usual for name, usual in _DELTA_DEFAULTS.items())


def of_delta(
    unread: int,
    *,
    oldest: int,
    latest: int,
    committed_at: float | None,
    kept_for: float,
    now: float,
) -> Outlook:
    """
    Return the outlook of a Delta table.

    :param unread: The first version that was not read.
    :param oldest: The oldest version whose file exists; ``latest`` the newest one.
    :param committed_at: When the version ``unread`` was committed.
    """
    if unread > latest:
        return of_age(None, kept_for=kept_for, now=now)
    if unread < oldest:
        return Outlook(loss_at=now, kept_for=kept_for)
    if committed_at is None:
        return unknown(LossGap.FAILED)
    return of_age(committed_at, kept_for=kept_for, now=now)


class IcebergPosition(NamedTuple):
    """A snapshot, and how many of its files were read."""

    snapshot: int
    files: int


def iceberg_position(offset: Any) -> IcebergPosition | None:
    """Return the position in an Iceberg table; ``None`` for an offset of another source."""
    if not isinstance(offset, Mapping):
        return None
    snapshot, files = offset.get("snapshot_id"), offset.get("position")
    if not isinstance(snapshot, int) or not isinstance(files, int):
        return None
    return IcebergPosition(snapshot, files)


def of_iceberg(metadata: Mapping[str, Any], position: IcebergPosition, *, now: float) -> Outlook:
    """
    Return the outlook of an Iceberg table.

    :param metadata: The table's newest metadata file.
    """
    snapshots = {
        one.get("snapshot-id"): one
        for one in metadata.get("snapshots") or ()
        if isinstance(one, Mapping) and isinstance(one.get("timestamp-ms"), int | float)
    }
    kept_for = _iceberg_kept_for(metadata.get("properties"))
    unread: list[Mapping[str, Any]] = []
    at = snapshots.get(metadata.get("current-snapshot-id"))
    while (
        at is not None
        and at.get("snapshot-id") != position.snapshot
        and len(unread) <= len(snapshots)
    ):
        unread.append(at)
        parent = at.get("parent-snapshot-id")
        if parent != position.snapshot and parent is not None and parent not in snapshots:
            # A snapshot between the position and the oldest one is gone.
            return Outlook(loss_at=now, kept_for=kept_for)
        at = snapshots.get(parent)
    if at is not None and position.files < _added(at):
        unread.append(at)
    oldest = min((one["timestamp-ms"] / 1000 for one in unread), default=None)
    return of_age(oldest, kept_for=kept_for, now=now)


def _added(snapshot: Mapping[str, Any]) -> int:
    summary = snapshot.get("summary")
    text = str(summary.get("added-data-files", "0")) if isinstance(summary, Mapping) else "0"
    return int(text) if text.isdecimal() else 0


def _iceberg_kept_for(properties: Any) -> float:
    text = str(properties.get(_ICEBERG_AGE, "")) if isinstance(properties, Mapping) else ""
    return int(text) / 1000 if text.isdecimal() else _ICEBERG_DEFAULT


def _seconds(interval: str | None) -> float | None:
    found = _INTERVAL.fullmatch((interval or "").strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2].lower()]
