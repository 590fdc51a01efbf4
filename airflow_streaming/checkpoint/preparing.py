"""
Preparing a restore: everything is read and judged, and nothing is written.

The whole backup is verified, its checkpoints are read as they will be at the new place, and so are
the checkpoints in use and the file sinks' logs, where they can be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.checkpoint.contents import verified
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.moved import Moved
from airflow_streaming.checkpoint.progress import Phase, Progress, ProgressNow
from airflow_streaming.checkpoint.reader import Reader
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.checkpoint.target import Target, open_target
from airflow_streaming.core.checkpoint import refusal
from airflow_streaming.core.checkpoint.backup import Backup, QueryBackup
from airflow_streaming.core.checkpoint.going_back import going_back
from airflow_streaming.core.checkpoint.integrity.chains import Depth
from airflow_streaming.core.checkpoint.reading import read_checkpoint
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.checkpoint.replay import (
    ACCEPTABLE,
    QueryReplay,
    Refusal,
    RefusalCode,
    RestorePlan,
)
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import RestoreRefused, StreamingError

_ENTRY: Final = re.compile(r"(\d{1,18})(\.compact)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    Where to restore to, and what is known of whoever will run there.

    :param to: URI of the new checkpoint, or of the folder that gets one folder for each query when
        the backup is of a stream.
    :param storage_options: Passed to fsspec for everything that is no local folder.
    :param filesystem: An fsspec file system to use for the target instead of a new one.
    :param folders: Which queries to restore and into which folders under the target, e.g.
        ``{"counts": "counts"}``; all, under their own names, when not given.
    :param current: URI of each query's checkpoint that is in use now, by the query's folder; where
        the backup was taken from when not given.
    :param sink_logs: URI of each file sink's ``_spark_metadata``, by the query's folder; what the
        backup names when not given.
    """

    to: str
    storage_options: Mapping[str, Any] | None = None
    filesystem: Any = None
    folders: Mapping[str, str] | None = None
    current: Mapping[str, str] | None = None
    sink_logs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """
    A restore that only has to be written.

    :param folders: Folder of each query under the target, by its folder in the backup; ``uris`` are
        the same as full URIs.
    :param moved: The files of each query.
    """

    plan: RestorePlan
    target: Target
    folders: Mapping[str, str]
    uris: Mapping[str, str]
    moved: Mapping[str, Moved]

    def paths(self) -> frozenset[str]:
        """Return the path of every file that will be written, relative to the target."""
        return frozenset(
            f"{folder}/{path}" if folder else path
            for name, folder in self.folders.items()
            for path, _ in self.moved[name].listing.paths()
        )


@dataclass(slots=True)
class _Found:
    """What is learnt of the queries on the way."""

    moved: dict[str, Moved] = field(default_factory=dict)
    reports: dict[str, Checkpoint] = field(default_factory=dict)
    replays: list[QueryReplay] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def prepare(
    store: BackupStore,
    backup: Backup,
    place: Place,
    circumstances: Circumstances | None,
    accept: Collection[RefusalCode],
    progress: Progress,
) -> Prepared:
    """
    Verify a backup and say what restoring it would do; see ``restore.plan_restore``.

    :raises BackupDamaged: it is not what was written.
    :raises ValueError: a reason that nobody can accept.
    """
    known = circumstances or Circumstances()
    _check_acceptable(accept)
    target = open_target(place.to, place.storage_options, place.filesystem)
    folders = _folders(backup, place)
    uris = {
        name: join(place.to, folder) if folder else place.to for name, folder in folders.items()
    }
    found = _Found()
    found.refusals += refusal.of_place(place.to, target.look(sorted(folders.values())), backup.id)
    found.refusals += refusal.of_stream(backup, known)
    whole = verified(store, backup, _bytes_to(progress))
    for query in backup.queries:
        if query.folder in folders:
            moved = Moved(whole.contents(query.folder), uris[query.folder])
            found.moved[query.folder] = moved
            _judge(query, moved, uris[query.folder], place, known, found)
    found.refusals += refusal.of_queries(found.reports, known)
    found.warnings += refusal.warnings(found.reports.items(), known)
    counts = [moved.count for moved in found.moved.values()]
    plan = RestorePlan(
        backup=backup.id,
        stream=backup.stream,
        target=place.to,
        queries=tuple(found.replays),
        refusals=tuple(r for r in found.refusals if r.code not in accept),
        accepted=tuple(r for r in found.refusals if r.code in accept),
        warnings=tuple(found.warnings),
        files=sum(files for files, _ in counts),
        size=sum(size for _, size in counts),
    )
    return Prepared(plan=plan, target=target, folders=folders, uris=uris, moved=found.moved)


def _check_acceptable(accept: Collection[RefusalCode]) -> None:
    final = sorted(set(accept) - ACCEPTABLE)
    if final:
        raise ValueError(
            f"Nobody can accept {', '.join(final)}; only {', '.join(sorted(ACCEPTABLE))} can be."
        )


def _folders(backup: Backup, place: Place) -> dict[str, str]:
    known = [query.folder for query in backup.queries]
    if place.folders is None:
        return {name: name for name in known}
    unknown = sorted(set(place.folders) - set(known))
    if unknown or not place.folders:
        raise RestoreRefused(
            f"Backup {backup.id} has no query {unknown[0] if unknown else ''!r}; it has "
            f"{', '.join(map(repr, known))}."
        )
    chosen = list(place.folders.values())
    if len(set(chosen)) != len(chosen) or ("" in chosen and len(chosen) > 1):
        raise RestoreRefused("Two queries are to be restored into one folder. Give each its own.")
    return dict(place.folders)


def _judge(
    query: QueryBackup,
    moved: Moved,
    uri: str,
    place: Place,
    known: Circumstances,
    found: _Found,
) -> None:
    try:
        moved.check()
        # Its bytes are what was found sound when they were copied; that was just verified.
        report = read_checkpoint(moved.listing, moved.read, uri=uri, depth=Depth.NAMES)
    except RestoreRefused as err:
        found.refusals.append(
            Refusal(code=RefusalCode.ABSOLUTE_PATHS, message=str(err), query=query.folder)
        )
        return
    current = _current(query, place, found)
    sink_batch = _sink_batch(query, place, found)
    replay = going_back(query.folder, report, current, sink_batch=sink_batch)
    found.reports[query.folder] = report
    found.replays.append(replay)
    found.refusals += refusal.of_checkpoint(report, replay, query.batch, known)


def _current(query: QueryBackup, place: Place, found: _Found) -> Checkpoint | None:
    uri = (place.current or {}).get(query.folder, query.checkpoint)
    if not uri:
        return None
    try:
        return Reader(open_folders(uri, place.storage_options)).inspect(contents=False)
    except StreamingError as err:
        found.warnings.append(f"The checkpoint in use cannot be read: {err}")
        return None


def _sink_batch(query: QueryBackup, place: Place, found: _Found) -> int | None:
    uri = (place.sink_logs or {}).get(query.folder, query.sink_log)
    if not uri:
        return None
    try:
        entries = open_folders(uri, place.storage_options).entries("", list)
    except StreamingError as err:
        found.warnings.append(f"The file sink's log cannot be read: {err}")
        return None
    if entries is None:
        found.warnings.append(f"There is no file sink's log at {uri}.")
        return None
    return max(_batches(entry.name for entry in entries), default=None)


def _batches(names: Iterator[str]) -> Iterator[int]:
    matches = (_ENTRY.fullmatch(name) for name in names)
    return (int(match[1]) for match in matches if match is not None)


def _bytes_to(progress: Progress) -> Any:
    def tell(size: int, of_size: int) -> None:
        progress(ProgressNow(phase=Phase.READ, size=size, of_size=of_size))

    return tell
