"""
A verified backup to new checkpoints in a new place.

The whole backup is verified, its checkpoints are read as they will be at the new place, and so are
the checkpoints in use and the file sinks' logs, where they can be.

Nothing is ever restored over an old checkpoint: state files of the timeline that is abandoned would
be loaded again silently. So the target must be missing or empty, and it becomes a checkpoint
in one last step. A restore that was killed is finished by asking for it again, which writes all of
it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG, with_only_query
from airflow_streaming.checkpoints.backup.records import Backup, QueryBackup
from airflow_streaming.checkpoints.integrity.state import Depth
from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.checkpoints.restore import refusal
from airflow_streaming.checkpoints.restore.checkpoint_writer import (
    NewFile,
    give_up,
    is_marker,
    read_back,
    write_checkpoint,
)
from airflow_streaming.checkpoints.restore.refusal import Circumstances, going_back
from airflow_streaming.checkpoints.restore.relocation import names_paths, relocated
from airflow_streaming.checkpoints.restore.replay import (
    ACCEPTABLE,
    QueryReplay,
    Refusal,
    RefusalCode,
    RestorePlan,
)
from airflow_streaming.checkpoints.restore.sink_output import look_at_sink
from airflow_streaming.checkpoints.restore.sink_step import SinkSnapshot, unseen_refusal
from airflow_streaming.checkpoints.restore.target import Target, open_target
from airflow_streaming.checkpoints.vault.contents import Contents, verified
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import RestoreRefused, StreamingError
from airflow_streaming.model.spark.listing import Listing, is_hidden
from airflow_streaming.model.uris import join
from airflow_streaming.storage.folders import open_folders, why_too_large

_CHECKSUM: Final = ".crc"

__all__ = ["Place", "Restored", "plan_restore", "restore"]


class Moved:
    """
    The files of one query, moved.

    Left out are the file sink's log, which belongs to the output, Hadoop's hidden checksums, and
    Spark's own checksum of a file that is rewritten.

    :param to: URI of the checkpoint's new place.
    """

    def __init__(self, contents: Contents, to: str) -> None:
        self._contents, self._to = contents, to
        self._paths = frozenset(path for path in contents.members if _is_wanted(path))

    @property
    def listing(self) -> Listing:
        """Return the listing of the new checkpoint, as far as the backup tells."""
        whole = self._contents.listing
        folders = {
            folder: {
                name: stat
                for name, stat in files.items()
                if (f"{folder}/{name}" if folder else name) in self._paths
            }
            for folder, files in whole.folders.items()
            if not _is_of_sink(folder)
        }
        return Listing(folders, whole.strange)

    @property
    def count(self) -> tuple[int, int]:
        """Return the number of files, and their bytes."""
        members = self._contents.members
        return len(self._paths), sum(members[path].size for path in self._paths)

    def read(self, path: str, limit: int) -> bytes | None:
        """
        Return one file as it will be.

        :raises RestoreRefused: it names files that cannot be moved.
        """
        if path not in self._paths:
            return None
        data = self._contents.read(path, limit)
        return None if data is None else self._rewritten(path, data)

    def check(self) -> None:
        """
        Try all rewrites.

        :raises RestoreRefused: A file cannot be rewritten.
        """
        for path in sorted(self._paths):
            if names_paths(path):
                self.read(path, self._contents.members[path].size)

    def files(self) -> Iterator[NewFile]:
        """Return all files, in the order in which the store has them."""
        for path, member, chunks in self._contents:
            if path not in self._paths:
                continue
            if not names_paths(path):
                yield NewFile(path, member.size, chunks)
                continue
            data = self._rewritten(path, b"".join(chunks))
            yield NewFile(path, len(data), (data,))

    def _rewritten(self, path: str, data: bytes) -> bytes:
        return relocated(path, data, has=self._paths.__contains__, to=self._to)


def _is_wanted(path: str) -> bool:
    name = path.rpartition("/")[2]
    if is_hidden(name) or is_marker(path) or _is_of_sink(path):
        return False
    return not (path.endswith(_CHECKSUM) and names_paths(path.removesuffix(_CHECKSUM)))


def _is_of_sink(path: str) -> bool:
    return path == SINK_LOG or path.startswith(f"{SINK_LOG}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    The target of a restore, and the query that will run there.

    :param to: URI of the new checkpoint, or of the folder that gets one folder for each query when
        the backup is of a stream.
    :param filesystem: An fsspec file system to use for the target instead of a new one.
    :param folders: Which queries to restore and into which folders under the target, e.g.
        ``{"counts": "counts"}``; by default all, under their own names.
    :param current: URI of each query's checkpoint that is in use now, by the query's folder; by
        default the backup's origin.
    :param sink_logs: URI of each file sink's ``_spark_metadata``, by the query's folder, or without
        a name for the only query; one that cannot be seen refuses the restore. Default: the sink
        named in the backup, if visible.
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
    A restore that only needs to be written.

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
    """Facts collected on the queries."""

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
    Verify a backup and plan its restore; see ``restore.plan_restore``.

    :raises BackupDamaged: The backup differs from its manifest.
    :raises RestoreRefused: A file of it is too large to copy; it was not read.
    :raises ValueError: A refusal that cannot be accepted.
    """
    known = circumstances or Circumstances()
    _check_acceptable(accept)
    target = open_target(place.to, place.storage_options, place.filesystem)
    folders = _folders(backup, place)
    logs = _sink_logs(backup, place, folders)
    uris = {
        name: join(place.to, folder) if folder else place.to for name, folder in folders.items()
    }
    found = _Found()
    found.refusals += refusal.of_place(place.to, target.look(sorted(folders.values())), backup.id)
    found.refusals += refusal.of_stream(backup, known)
    _check_sizes(store, backup)
    whole = verified(store, backup, _bytes_to(progress))
    for query in backup.queries:
        if query.folder in folders:
            moved = Moved(whole.contents(query.folder), uris[query.folder])
            found.moved[query.folder] = moved
            _judge(query, moved, uris[query.folder], place, logs, known, found)
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
            f"These reasons cannot be accepted: {', '.join(final)}; only {', '.join(sorted(ACCEPTABLE))} can be."
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


def _check_sizes(store: BackupStore, backup: Backup) -> None:
    # Before every byte is read to verify it.
    members = (
        bundle.members[number] for bundle, numbers in store.bundles(backup) for number in numbers
    )
    if why := why_too_large((member.path, member.size) for member in members):
        raise RestoreRefused(f"Backup {backup.id} is not restored. {why}")


def _judge(
    query: QueryBackup,
    moved: Moved,
    uri: str,
    place: Place,
    logs: Mapping[str, str],
    known: Circumstances,
    found: _Found,
) -> None:
    try:
        moved.check()
        # The bytes were just verified against the sound copy.
        report = read_checkpoint(moved.listing, moved.read, uri=uri, depth=Depth.NAMES)
    except RestoreRefused as err:
        found.refusals.append(
            Refusal(code=RefusalCode.ABSOLUTE_PATHS, message=str(err), query=query.folder)
        )
        return
    current = _current(query, place, found)
    seen = _seen_sink(query, logs, place)
    if seen.unseen and query.folder in logs:
        found.refusals.append(unseen_refusal(query.folder, seen))
    elif seen.unseen:
        found.warnings.append(f"The file sink's log cannot be seen: {seen.unseen}")
    replay = going_back(
        *(query.folder, report, current),
        sink_batch=seen.newest,
        is_unread=bool(seen.unseen),
        rewinds=known.rewinds_sinks,
        sink=known.sink_of(query.folder),
    )
    found.reports[query.folder] = report
    found.replays.append(replay)
    found.refusals += refusal.of_checkpoint(report, replay, query.batch, known, seen.aside)


def _current(query: QueryBackup, place: Place, found: _Found) -> Checkpoint | None:
    uri = (place.current or {}).get(query.folder, query.checkpoint)
    if not uri:
        return None
    try:
        return Reader(open_folders(uri, place.storage_options)).inspect(contents=False)
    except StreamingError as err:
        found.warnings.append(f"The checkpoint in use cannot be read: {err}")
        return None


def _seen_sink(query: QueryBackup, logs: Mapping[str, str], place: Place) -> SinkSnapshot:
    uri = logs.get(query.folder, query.sink_log)
    is_known = bool(uri) or query.folder in logs
    return look_at_sink(uri, place.storage_options) if is_known else SinkSnapshot(log="")


def _sink_logs(backup: Backup, place: Place, folders: Mapping[str, str]) -> dict[str, str]:
    """Return the logs to read; a log without a query's name belongs to the only query."""
    known = [query.folder for query in backup.queries]
    logs = with_only_query(place.sink_logs or {}, known)
    unknown = sorted(set(logs) - set(folders))
    if unknown:
        named = f"query {unknown[0]!r}" if unknown[0] else "a query that is not named"
        raise RestoreRefused(
            f"The file sink of {named} was configured, but this query is not restored from backup "
            f"{backup.id}: {', '.join(map(repr, folders))}. Name the query: --sink QUERY=OUTPUT."
        )
    return logs


def _bytes_to(progress: Progress) -> Any:
    def tell(size: int, of_size: int) -> None:
        progress(ProgressNow(phase=Phase.READ, size=size, of_size=of_size))

    return tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """
    The result of a restore.

    :param checkpoints: URI of each query's new checkpoint, by the query's folder in the backup.
    :param resumed: It finished a killed restore.
    """

    plan: RestorePlan
    checkpoints: Mapping[str, str]
    files: int
    size: int
    resumed: bool = False


def plan_restore(
    store: BackupStore,
    backup_id: str,
    place: Place,
    *,
    circumstances: Circumstances | None = None,
    accept: Collection[RefusalCode] = (),
    progress: Progress = no_progress,
) -> RestorePlan:
    """
    Plan a restore; writes no file (the dry run).

    Verifies the whole backup and reads its checkpoints.

    :param circumstances: Further facts: the runtime, the stream's claims, its driver; a plain
        restore has none.
    :param accept: Accepted refusals, of ``replay.ACCEPTABLE``.
    :raises ValueError: A refusal that cannot be accepted.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        return prepare(store, backup, place, circumstances, accept, progress).plan


def restore(
    store: BackupStore,
    backup_id: str,
    place: Place,
    *,
    circumstances: Circumstances | None = None,
    accept: Collection[RefusalCode] = (),
    progress: Progress = no_progress,
) -> Restored:
    """
    Restore a backup into a new place; takes the parameters of ``plan_restore``.

    :raises RestoreRefused: With every reason; no file was written.
    """
    backup = store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        ready = prepare(store, backup, place, circumstances, accept, progress)
        check_allowed(ready.plan)
        return write(ready, progress)


def check_allowed(plan: RestorePlan) -> None:
    """
    Refuse a restore whose plan has reasons against it.

    :raises RestoreRefused: with every reason.
    """
    if plan.is_refused:
        raise RestoreRefused(" ".join(refusal.message for refusal in plan.refusals))


def write(ready: Prepared, progress: Progress = no_progress) -> Restored:
    """
    Write a prepared restore without refusals; the store must be held meanwhile.

    :raises RestoreTaken: Another process has the place; its files were not touched.
    :raises RestoreRefused: The written checkpoint is not sound.
    :raises BackupDamaged: The backup was damaged meanwhile.
    """
    target, plan = ready.target, ready.plan
    resumed = target.begin(plan.backup, sorted(ready.folders.values()), ready.paths())
    files = size = 0
    try:
        for replay in plan.queries:
            tell = _Telling(progress, replay.folder, files, size, plan)
            written = write_checkpoint(
                target, ready.folders[replay.folder], ready.moved[replay.folder].files(), tell
            )
            files, size = files + written.files, size + written.size
        for replay in plan.queries:
            progress(ProgressNow(phase=Phase.CHECK, subject=replay.folder))
            read_back(
                target.written().below(ready.folders[replay.folder]),
                ready.uris[replay.folder],
                batch=replay.batch,
                query_id=replay.query_id,
                depth=Depth.COPIED if resumed else Depth.NAMES,
            )
        target.finish()
    except BaseException as err:
        give_up(target, err)
        raise
    return Restored(plan=plan, checkpoints=ready.uris, files=files, size=size, resumed=resumed)


class _Telling:
    """Tells of files written, over all queries."""

    def __init__(
        self, progress: Progress, subject: str, files: int, size: int, plan: RestorePlan
    ) -> None:
        self._progress, self._subject = progress, subject
        self._files, self._size, self._plan = files, size, plan

    def __call__(self, files: int, size: int) -> None:
        self._progress(
            ProgressNow(
                Phase.WRITE,
                self._subject,
                self._files + files,
                self._plan.files,
                self._size + size,
                self._plan.size,
            )
        )
