"""
Migrating the state of a checkpoint: a pinned clone, a Spark job on the clone, and its proof.

The source is only read. While the job writes, the clone has no file ``metadata``, and Spark refuses it. The file
returns after a clean proof. The next run removes the copy of a run that was killed before that, and keeps one whose
proof was clean.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.read.schemas import (
    MAX_SCHEMA_BYTES,
    ColumnFamily,
    parse_state_schema,
)
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.checkpoints.vault.layout import check_apart
from airflow_streaming.exceptions import (
    CheckpointRefused,
    LaunchError,
    RecordError,
    SpecError,
    closed,
)
from airflow_streaming.gates.migration.migration import check_spark
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.gates.migration.migration_file import MAX_BYTES, read_migration
from airflow_streaming.gates.migration.migration_schema import (
    CODEC,
    PROVIDER,
    check_against,
    state_schema,
)
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.migration import (
    BEFORE,
    MARK,
    MARKER,
    Carry,
    Migrated,
    MigrationAnswer,
    MigrationOrder,
    StateMigration,
)
from airflow_streaming.model.uris import to_hadoop
from airflow_streaming.spark_jobs.runner import Job, Task, ask
from airflow_streaming.spark_jobs.scratch import scratch_folder
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_store import open_filesystem

PREFIX: Final = "airflow-streaming-migration-"
VARIABLE: Final = "AIRFLOW_STREAMING_MIGRATION"
"""Set to 1 in a Spark that migrates state."""
DEFAULT_TIMEOUT: Final = 3600.0
_LZ4: Final = "lz4"
_REMOVALS: Final = 10
QUIET_SECONDS: Final = 3.0
"""Without a new file for so long, no Spark of a killed caller is left: it looks for its caller every second."""
METADATA, OFFSETS = "metadata", "offsets"


def migration_in(path: Path) -> StateMigration:
    """
    Return the migration in a file of this host.

    :raises SpecError: there is no such file, or as ``read_migration``.
    """
    if not path.is_file():
        raise SpecError(f"{path} is not a file. Write it with `gate change --write-migration`.")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as err:
        raise SpecError(f"{path} cannot be read: {closed(err.strerror or '')}") from err
    return read_migration(data, str(path))


def migrate_checkpoint(
    uri: str,
    to: str,
    migration: StateMigration,
    runtime: Runtime,
    *,
    conf: Mapping[str, Any] | None = None,
    keep_query_id: bool = False,
    query_id: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Migrated:
    """
    Write a migrated copy of a checkpoint to a new place.

    :param to: A place that is missing, empty, or has the copy of a run that was killed.
    :param keep_query_id: Keep the id of the query, for a move of it.
    :param query_id: The copy's id otherwise; a new random one when not given.
    :param timeout: Seconds for Spark's part.
    :raises SpecError: the runtime is too old to write state, or source and target overlap.
    :raises CheckpointRefused: the migration does not fit the checkpoint, or its proof is not clean; no copy is left.
    """
    try:
        check_spark(runtime.spark_version)
    except NoMigration as why:
        raise SpecError(f"Runtime {runtime.name!r} cannot migrate state. {why}") from why
    _check(uri, migration, storage_options)
    check_apart(uri, to, what="checkpoint", other="migrated copy")
    _clear(to, storage_options)
    copied = clone(
        *(uri, to),
        keep_query_id=keep_query_id,
        query_id=query_id,
        beside={MARKER: MARK},
        storage_options=storage_options,
        progress=progress,
    )
    try:
        progress(ProgressNow(phase=Phase.DRILL, subject=migration.query))
        answer = _asked(
            *(to, copied.batch, migration, runtime),
            conf=conf or {},
            timeout=timeout,
            storage_options=storage_options,
        )
        _check_answer(answer, to)
    except BaseException:
        _remove(to, storage_options)
        raise
    return Migrated(
        uri=to, batch=copied.batch, proofs=answer.proofs, consequences=migration.consequences
    )


def _check(
    uri: str, migration: StateMigration, storage_options: Mapping[str, Any] | None
) -> Mapping[int, ColumnFamily]:
    folders = open_folders(uri, storage_options)
    checkpoint = Reader(folders).inspect(contents=False)
    stored = stored_schemas(folders, migration)
    check_against(migration, checkpoint, stored)
    return stored


def stored_schemas(folders: Folders, migration: StateMigration) -> dict[int, ColumnFamily]:
    """Return key and value of the old operators whose columns change; unreadable ones are left out."""
    found = {}
    for one in migration.operators:
        if one.carry is not Carry.COLUMNS or one.source is None:
            continue
        data = folders.read(f"state/{one.source}/0/_metadata/schema", MAX_SCHEMA_BYTES)
        try:
            schema = None if data is None else parse_state_schema(data)
        except RecordError:
            continue
        if schema is not None and len(schema.families) == 1:
            found[one.source] = schema.families[0]
    return found


def _asked(
    to: str,
    batch: int,
    migration: StateMigration,
    runtime: Runtime,
    *,
    conf: Mapping[str, Any],
    timeout: float,
    storage_options: Mapping[str, Any] | None,
) -> MigrationAnswer:
    folders = open_folders(to, storage_options)
    checkpoint = Reader(folders).inspect(contents=False)
    stored = stored_schemas(folders, migration)
    with scratch_folder(None, PREFIX) as own:
        order = MigrationOrder(
            answer=str(own.folder / "answer.json"),
            seconds=timeout,
            checkpoint=to_hadoop(to),
            batch=batch,
            partitions=_partitions(checkpoint),
            is_rocksdb="RocksDB" in checkpoint.conf.get(PROVIDER, ""),
            codec=checkpoint.conf.get(CODEC, _LZ4),
            operators=migration.operators,
            schemas=tuple(
                state_schema(one, None if one.source is None else stored.get(one.source))
                for one in migration.operators
                if one.carry is Carry.COLUMNS
            ),
            scratch=str(own.folder),
        )
        task = Task(job=Job.MIGRATE, order=order, variable=VARIABLE)
        return ask(*(task, order, MigrationAnswer), runtime=runtime, conf=conf, scratch=own.folder)


def _partitions(checkpoint: Checkpoint) -> int:
    known = {operator.partitions for operator in checkpoint.operators} - {None}
    found = known.pop() if len(known) == 1 else checkpoint.shuffle_partitions
    if found is None or known:
        raise CheckpointRefused(
            f"{checkpoint.uri} does not tell one number of state partitions; found {sorted(known, key=str)}. "
            "Run one batch of the query first."
        )
    return found


def _check_answer(answer: MigrationAnswer, to: str) -> None:
    if answer.failed:
        raise LaunchError(
            f"The state was not migrated to {to}: {answer.condition}: {answer.failed.rstrip('.')}. The source is "
            "unchanged and the copy is removed."
        )
    problems = [
        f"Operator {proof.operator}: {problem}"
        for proof in answer.proofs
        for problem in proof.problems
    ]
    if problems:
        raise CheckpointRefused(
            f"The proof of the migration to {to} is not clean. {' '.join(problems)} The source is unchanged and the "
            "copy is removed; report this with the migration's file."
        )


def _clear(to: str, storage_options: Mapping[str, Any] | None) -> None:
    """
    Remove the copy of a run that was killed.

    :raises CheckpointRefused: its proof was clean, and only its last clean-up is missing.
    """
    folders = open_folders(to, storage_options)
    if folders.read(MARKER, len(MARK)) != MARK:
        return
    names = {entry.name for entry in folders.entries("", list) or []}
    if METADATA in names and folders.entries(f"{BEFORE}/{OFFSETS}", list):
        raise CheckpointRefused(
            f"{to} is a migrated copy whose proof was clean; the run was killed before it removed {BEFORE}. A query may "
            f"use the copy already, so it stays. Use it and delete {to}/{BEFORE}, or give another target."
        )
    _remove_left(to, storage_options)


def _remove_left(to: str, storage_options: Mapping[str, Any] | None) -> None:
    """
    Remove a copy until nothing writes it any more: a Spark whose caller was killed ends a moment later.

    :raises CheckpointRefused: it is written again and again, so another run works on it.
    """
    fs, root = open_filesystem(to, "checkpoint", storage_options)
    for _ in range(_REMOVALS):
        with contextlib.suppress(OSError):  # a file was written meanwhile
            _remove(to, storage_options)
        time.sleep(QUIET_SECONDS)
        fs.invalidate_cache()
        if not fs.exists(root):
            return
    raise CheckpointRefused(
        f"Another run of this command still writes to {to}. Wait for its end, or give another target."
    )


def _remove(to: str, storage_options: Mapping[str, Any] | None) -> None:
    fs, root = open_filesystem(to, "checkpoint", storage_options)
    if fs.exists(root):
        fs.rm(root, recursive=True)
