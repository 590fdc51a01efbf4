"""Reading what a handover has to know of one query's checkpoint: a few small files, no state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.journal import log_batches
from airflow_streaming.core.checkpoint.logs import parse_commit_log
from airflow_streaming.core.checkpoint.report import SourceType
from airflow_streaming.core.checkpoint.sources import MAX_SOURCE_LOG_BYTES, source_of
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.core.cutover.handover.file_log import (
    DEFAULT_INTERVAL,
    FileLog,
    Seen,
    compact_interval,
    entries_of,
)
from airflow_streaming.core.cutover.handover.position import COUNTING
from airflow_streaming.core.cutover.handover.query_view import PlannedBatch, QueryView
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused, RecordError

ATTEMPTS: Final = 5

_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


def read_view(folders: Folders, *, interval: int = DEFAULT_INTERVAL) -> QueryView:
    """
    Read one query's checkpoint, which may be running.

    :param interval: Interval by which a source's log is compacted that has not been so far.
    :raises CheckpointRefused: it cannot be understood.
    :raises CheckpointBusy: it changed under every attempt.
    :raises HomeUnavailable: the store cannot be reached.
    """
    last: Unready | None = None
    for _ in range(ATTEMPTS):
        found = _look(folders, interval)
        if isinstance(found, QueryView):
            return found
        if last is not None and found.path == last.path:
            # What stands still is not there, rather than going by.
            raise CheckpointRefused(f"{folders.uri} cannot be handed over. {found.why}")
        last = found
    raise CheckpointBusy(
        f"{folders.uri} changed under {ATTEMPTS} attempts to read it. "
        f"{last.why if last else ''} Try again."
    )


def _look(folders: Folders, interval: int) -> QueryView | Unready:
    # Commits first: a batch that is committed meanwhile is seen as planned, never the reverse.
    commits = log_batches(_names(folders, "commits"))
    plans = set(log_batches(_names(folders, "offsets")))
    batch = commits[-1] if commits else -1
    committed = _plan(folders, batch) if commits else None
    planned = _plan(folders, batch + 1) if batch + 1 in plans else None
    commit = folders.read(f"commits/{batch}", MAX_LOG_BYTES) if commits else None
    if commits and (commit is None or committed is None):
        path = f"commits/{batch}" if commit is None else f"offsets/{batch}"
        return Unready(path, f"{path} is missing.", is_moving=True)
    logs: dict[str, FileLog] = {}
    origins: dict[str, bytes] = {}
    for name, sorts in _sources(committed, planned).items():
        if sorts & COUNTING:
            origins[name] = folders.read(f"sources/{name}/0", MAX_LOG_BYTES) or b""
        elif not sorts - {SourceType.FILE, SourceType.NOT_STARTED}:
            log = _file_log(folders, name, interval, is_sure=SourceType.FILE in sorts)
            if isinstance(log, Unready):
                return log
            logs[name] = log
    return QueryView(
        uri=folders.uri,
        committed=committed,
        planned=planned,
        next_watermark_ms=_next_watermark(folders, batch, commit),
        logs=logs,
        origins=origins,
        compact_interval=interval,
    )


def _sources(*plans: PlannedBatch | None) -> dict[str, set[SourceType]]:
    found: dict[str, set[SourceType]] = {}
    for plan in plans:
        for name, text in plan.log.offsets if plan else ():
            found.setdefault(name, set()).add(source_of(text)[0])
    return found


def _names(folders: Folders, folder: str) -> list[str]:
    names: list[str] = []

    def note(found: Iterable[str]) -> list[str]:
        # Nobody wants their times, which an object store would be asked for one by one.
        names.extend(found)
        return []

    folders.entries(folder, note)
    return names


def _plan(folders: Folders, batch: int) -> PlannedBatch | None:
    data = folders.read(f"offsets/{batch}", MAX_LOG_BYTES)
    if data is None:
        return None
    try:
        return PlannedBatch.parse(batch, data)
    except RecordError as err:
        raise CheckpointRefused(f"offsets/{batch} of {folders.uri} cannot be used: {err}") from err


def _next_watermark(folders: Folders, batch: int, commit: bytes | None) -> int:
    try:
        return (parse_commit_log(commit).watermark_ms or 0) if commit else 0
    except RecordError as err:
        raise CheckpointRefused(f"commits/{batch} of {folders.uri} cannot be used: {err}") from err


def _file_log(folders: Folders, name: str, interval: int, *, is_sure: bool) -> FileLog | Unready:
    folder = f"sources/{name}"
    plain, compacted = _entries(_names(folders, folder))
    start = compacted[-1] if compacted else -1
    newest = max([start, *plain])
    wanted = [f"{start}.compact"] if compacted else []
    wanted += map(str, range(start + 1, newest + 1))
    files: dict[str, Seen] = {}
    try:
        for entry in wanted:
            data = folders.read(f"{folder}/{entry}", MAX_SOURCE_LOG_BYTES)
            if data is None:
                path = f"{folder}/{entry}"
                return Unready(path, f"{path} is missing.", is_moving=True)
            # Where a file is listed twice, the entry that had it first counts.
            for path, seen in entries_of(data).items():
                files.setdefault(path, seen)
    except RecordError as err:
        if not is_sure:
            # A source that has read nothing yet may be of any sort.
            return FileLog(interval=interval)
        raise CheckpointRefused(f"{folder} of {folders.uri} cannot be used: {err}") from err
    return FileLog(files=files, last=newest, interval=compact_interval(compacted, interval))


def _entries(names: list[str]) -> tuple[set[int], list[int]]:
    matches = [match for name in names if (match := _ENTRY.fullmatch(name))]
    plain = {int(match[1]) for match in matches if not match[2]}
    return plain, sorted(int(match[1]) for match in matches if match[2])
