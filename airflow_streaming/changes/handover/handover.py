"""
From blue's checkpoint to green's at one batch boundary.

Blue's checkpoint is only ever read. In green's, whose driver waits at the barrier, at most the next
batch is planned: its sources' logs first, its plan last, so that a task that is killed leaves a
checkpoint from which the same is done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.changes.handover.fast_forward import (
    FastForward,
    NotThere,
    PlannedBatch,
    QueryView,
    plan_absorption,
    plan_planned,
)
from airflow_streaming.changes.handover.position import COUNTING, Position
from airflow_streaming.changes.handover.source_log import (
    DEFAULT_INTERVAL,
    FileLog,
    LogEntry,
    compact_interval,
    entries_of,
)
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete
from airflow_streaming.checkpoints.read.file_logs import MAX_SOURCE_LOG_BYTES, source_of
from airflow_streaming.checkpoints.read.journal import log_batches
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.checkpoints.restore.checkpoint_writer import LATE, read_back
from airflow_streaming.checkpoints.restore.clone import carried_files
from airflow_streaming.checkpoints.restore.target import check_empty_but_for, id_in
from airflow_streaming.checkpoints.vault.layout import check_apart
from airflow_streaming.exceptions import (
    AlreadyExists,
    CheckpointBusy,
    CheckpointRefused,
    RecordError,
)
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES, parse_commit_log
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_store import open_store

ATTEMPTS: Final = 5
_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?", re.ASCII)


def read_view(folders: Folders, *, interval: int = DEFAULT_INTERVAL) -> QueryView:
    """
    Read one query's checkpoint, which may be running.

    :param interval: Interval by which a source's log is compacted that has not been so far.
    :raises CheckpointRefused: it cannot be understood.
    :raises CheckpointBusy: it changed under every attempt.
    """
    last: Incomplete | None = None
    for _ in range(ATTEMPTS):
        found = _look(folders, interval)
        if isinstance(found, QueryView):
            return found
        if last is not None and found.path == last.path:
            # A gap that stays is damage, not movement.
            raise CheckpointRefused(f"{folders.uri} cannot be handed over. {found.why}")
        last = found
    raise CheckpointBusy(
        f"{folders.uri} changed under {ATTEMPTS} attempts to read it. "
        f"{last.why if last else ''} Try again."
    )


def _look(folders: Folders, interval: int) -> QueryView | Incomplete:
    # Commits first: a batch that is committed meanwhile is seen as planned, never the reverse.
    commits = log_batches(_names(folders, "commits"))
    plans = set(log_batches(_names(folders, "offsets")))
    batch = commits[-1] if commits else -1
    committed = _plan(folders, batch) if commits else None
    planned = _plan(folders, batch + 1) if batch + 1 in plans else None
    commit = folders.read(f"commits/{batch}", MAX_LOG_BYTES) if commits else None
    if commits and (commit is None or committed is None):
        path = f"commits/{batch}" if commit is None else f"offsets/{batch}"
        return Incomplete(path, f"{path} is missing.", is_moving=True)
    logs: dict[str, FileLog] = {}
    origins: dict[str, bytes] = {}
    for name, sorts in _sources(committed, planned).items():
        if sorts & COUNTING:
            origins[name] = folders.read(f"sources/{name}/0", MAX_LOG_BYTES) or b""
        elif not sorts - {SourceType.FILE, SourceType.NOT_STARTED}:
            log = _file_log(folders, name, interval, is_sure=SourceType.FILE in sorts)
            if isinstance(log, Incomplete):
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
        # Their times are not needed; an object store would return them one by one.
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


def _file_log(folders: Folders, name: str, interval: int, *, is_sure: bool) -> FileLog | Incomplete:
    folder = f"sources/{name}"
    plain, compacted = _entries(_names(folders, folder))
    start = compacted[-1] if compacted else -1
    newest = max([start, *plain])
    wanted = [f"{start}.compact"] if compacted else []
    wanted += map(str, range(start + 1, newest + 1))
    files: dict[str, LogEntry] = {}
    try:
        for entry in wanted:
            data = folders.read(f"{folder}/{entry}", MAX_SOURCE_LOG_BYTES)
            if data is None:
                path = f"{folder}/{entry}"
                return Incomplete(path, f"{path} is missing.", is_moving=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverPlan:
    """
    The batches to write for one query before green may be released.

    In this order, looking again after each: while ``absorb`` is set, write it and run it with
    discarded output; then, with blue drained, write ``planned``; then release.

    :param blue: Blue's position, by its newest committed batch; ``green`` likewise.
    :param absorb: Green's next batch, to run with discarded output; ``None`` at blue's position.
    :param planned: Blue's planned and uncommitted batch, as green's next batch: its output counts.
        Only if there is nothing to absorb. Also set, without any rows, if blue's last batch raised
        its watermark.
    :param planned_in_blue: Blue's own number of it; ``None`` without a planned batch.
    :param waiting: Why blue must advance first; else empty.
    """

    blue: Position
    green: Position
    absorb: FastForward | None = None
    planned: FastForward | None = None
    planned_in_blue: int | None = None
    waiting: str = ""


def absorb_plan(
    blue_uri: str,
    green_uri: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    compact_interval: int = DEFAULT_INTERVAL,
) -> HandoverPlan:
    """
    Plan the next batch of green's checkpoint; both checkpoints are only read.

    :param blue_uri: One query's checkpoint of the lane that hands over; it may be running.
    :param green_uri: The same query's of the other lane; it may not run.
    :param compact_interval: ``spark.sql.streaming.fileSource.log.compactInterval`` of green.
    :raises CheckpointRefused: Green can never reach blue's position: other sources, or sources
        whose positions cannot be compared.
    :raises CheckpointBusy: Blue changed during every attempt to read it.
    """
    green = read_view(
        open_folders(green_uri, storage_options, filesystem), interval=compact_interval
    )
    blue = read_view(open_folders(blue_uri, storage_options, filesystem))
    found = plan_absorption(green, blue)
    return HandoverPlan(
        blue=blue.position,
        green=green.position,
        absorb=found if isinstance(found, FastForward) else None,
        planned=plan_planned(green, blue) if found is None else None,
        planned_in_blue=blue.planned.batch if blue.planned else None,
        waiting=found.reason if isinstance(found, NotThere) else "",
    )


def write_plan(
    green_uri: str,
    plan: FastForward,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> None:
    """
    Write a planned batch into green's checkpoint; idempotent.

    Another task may write at the same time with an older or newer look at blue. So no file is
    overwritten, and none is removed once a plan exists.

    :raises CheckpointRefused: Another plan of that number exists.
    :raises CheckpointBusy: Another task plans it at the same time; look again.
    """
    if plan.written:
        folders = open_folders(green_uri, storage_options, filesystem)
        _Writing(plan, folders, open_store(green_uri, storage_options, filesystem)).run()


class _Writing:
    def __init__(self, plan: FastForward, folders: Folders, store: Store) -> None:
        self._plan, self._folders, self._store = plan, folders, store
        *self._logs, self._last = plan.written

    def run(self) -> None:
        self._clear()
        for path in self._plan.written:
            if self._is_made():
                break
            # Hadoop would compare the new content with the checksum of the old one.
            self._store.delete(_checksum(path))
            self._create(path)
        self._is_made()
        for path in self._logs:
            self._check(path)

    def _clear(self) -> None:
        for path in self._plan.removed:
            is_wanted = self._read(path) == self._plan.written.get(path, b"")
            if self._is_made():
                return
            if not is_wanted:
                self._store.delete(_checksum(path))
                self._store.delete(path)

    def _is_made(self) -> bool:
        there = self._folders.read(self._last, MAX_LOG_BYTES)
        if there is None:
            return False
        if there == self._plan.written[self._last]:
            return True
        raise CheckpointRefused(
            f"Another task planned {self._last} of {self._folders.uri} differently. Run the task again; "
            "it resumes from the plan on disk."
        )

    def _create(self, path: str) -> None:
        try:
            self._store.create(path, self._plan.written[path])
        except AlreadyExists:
            if path != self._last:
                self._check(path)

    def _check(self, path: str) -> None:
        if self._read(path) != self._plan.written[path]:
            raise CheckpointBusy(
                f"Another task wrote {path} of {self._folders.uri} differently. Run the task "
                "again; it resumes from the written files."
            )

    def _read(self, path: str) -> bytes | None:
        return self._folders.read(path, MAX_SOURCE_LOG_BYTES)


def _checksum(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def carry(
    blue_uri: str,
    green_uri: str,
    *,
    query_id: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> int:
    """
    Make green's checkpoint of a stateless query from a drained blue's.

    Numbers of batches stay, and so does blue's planned batch. A partial copy is completed; a whole
    one is left unchanged.

    :param query_id: Green's, the same in every attempt.
    :return: The newest batch that blue has committed.
    :raises CheckpointRefused: The query has state, or the place has other files.
    """
    check_apart(blue_uri, green_uri, other="new checkpoint")
    source = open_folders(blue_uri, storage_options, filesystem)
    target = open_folders(green_uri, storage_options, filesystem)
    store = open_store(green_uri, storage_options, filesystem)
    # The calling task has checked the query's plan: it keeps no state.
    plan, files = carried_files(source, query_id, stateless=True)
    if id_in(target) == query_id:
        _check_same_batch(target, blue_uri, plan.batch)
        return plan.batch
    check_empty_but_for(target, files)
    late = [path for stage in LATE for path in sorted(files) if path.startswith(stage)]
    there = target.tree()
    for path in (*(path for path in files if not path.startswith(LATE)), *late):
        data, stat = files[path], there.stat(path) if there else None
        # Continue where a killed task stopped.
        if stat is None or stat.size != len(data) or target.read(path, stat.size) != data:
            store.replace(path, data)
    read_back(target, green_uri, batch=plan.batch, query_id=query_id)
    return plan.batch


def _check_same_batch(target: Folders, blue_uri: str, batch: int) -> None:
    there = read_view(target).committed
    if there is None or there.batch < batch:
        raise CheckpointRefused(
            f"{target.uri} was made of {blue_uri} before that came to batch {batch}: later "
            "batches would be written again. Choose a new place for the checkpoint."
        )


def batch_shift(*, blue_batch: int, green_batch: int, blue_shift: int = 0) -> int:
    """
    Return the number to add to green's batch ids so that they continue blue's.

    :param blue_batch: Blue's newest committed batch; its sink has received ``blue_batch +
        blue_shift``.
    :param green_batch: Green's newest committed batch after absorbing, which the sink has not
        received.
    :param blue_shift: The number added to blue's own ids, see ``QueryClaim.batch_shift``.
    """
    return blue_batch + blue_shift - green_batch
