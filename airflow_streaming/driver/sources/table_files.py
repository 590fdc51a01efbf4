"""
Metadata files of the Delta and Iceberg tables that a query reads, on any store that Spark reaches.

Delta's log is listed and at most a dozen small files of it are read. Of an Iceberg table the newest metadata file is
read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_streaming.driver.hadoop_store import open_home
from airflow_streaming.driver.sources.file_backlog import field_of
from airflow_streaming.model.products.retention import LossGap, Outlook, unknown
from airflow_streaming.model.products.table_retention import (
    DELTA_LOG,
    DELTA_VERSION,
    ICEBERG_FILE,
    DeltaCommit,
    delta_commit,
    delta_kept_for,
    delta_unread,
    iceberg_position,
    of_delta,
    of_iceberg,
)
from airflow_streaming.model.storage import Store

_NEWEST: Final = 10
"""Commits in which the properties of a Delta table are looked for, beside its first one."""
_DELTA: Final = "DeltaSource["
_ICEBERG: Final = "org.apache.iceberg.spark.source."
Open = Callable[[str], Store]


def table_outlook(
    description: str, source: Any, end: Any, *, now: float, open_: Open = open_home
) -> Outlook | None:
    """
    Return the outlook of a table; ``None`` for a source of another kind.

    :param end: The end offset of the latest batch.
    """
    offset = _parsed(end)
    if description.startswith(_DELTA):
        unread = delta_unread(offset)
        location = description.removeprefix(_DELTA).removesuffix("]")
        return _missing() if unread is None else delta_outlook(open_(location), unread, now=now)
    if str(source.getClass().getName()).startswith(_ICEBERG):
        position = iceberg_position(offset)
        if position is None:
            return _missing()
        store = open_(str(field_of(source, "table").location()))
        metadata = iceberg_metadata(store)
        return (
            unknown(LossGap.FAILED) if metadata is None else of_iceberg(metadata, position, now=now)
        )
    return None


def delta_outlook(store: Store, unread: int, *, now: float) -> Outlook:
    """Return the outlook of a Delta table from its first unread version on."""
    found = (DELTA_VERSION.fullmatch(name) for name in store.names(DELTA_LOG))
    versions = sorted(int(match[1]) for match in found if match is not None)
    if not versions:
        return unknown(LossGap.FAILED)
    commit = _commit(store, unread) if unread in versions else None
    return of_delta(
        unread,
        oldest=versions[0],
        latest=versions[-1],
        committed_at=None if commit is None else commit.at,
        kept_for=delta_kept_for(_properties(store, versions)),
        now=now,
    )


def _properties(store: Store, versions: list[int]) -> Mapping[str, str] | None:
    looked = [*reversed(versions[-_NEWEST:]), *([0] if versions[0] == 0 else [])]
    commits = (_commit(store, version) for version in looked)
    return next((one.properties for one in commits if one and one.properties is not None), None)


def _commit(store: Store, version: int) -> DeltaCommit | None:
    data = store.read(f"{DELTA_LOG}/{version:020}.json")
    if data is None:
        return None
    lines = (_parsed(line.decode()) for line in data.splitlines() if line.strip())
    return delta_commit(line for line in lines if isinstance(line, Mapping))


def iceberg_metadata(store: Store) -> Mapping[str, Any] | None:
    """Return the newest metadata of an Iceberg table; ``None`` without metadata, or if only packed metadata exists."""
    found = {
        int(match[1]): name
        for name in store.names("metadata")
        if (match := ICEBERG_FILE.fullmatch(name)) is not None
    }
    data = store.read(f"metadata/{found[max(found)]}") if found else None
    parsed = None if data is None else _parsed(data.decode(errors="replace"))
    return parsed if isinstance(parsed, Mapping) else None


def _parsed(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _missing() -> Outlook:
    return unknown(LossGap.NO_POSITION)
