"""
From a listing to a checkpoint report.

Spark's reaction to each defect was measured in a real checkpoint (3.5 to 4.3); ``docs/defects.md``
has the table.

A live checkpoint is sound: a planned and uncommitted batch, unfinished files and the state of the
running batch are normal at any moment.

On an object store every read is a round trip, so files are prefetched together. The result is the
same without; other files are read on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.checkpoints.integrity.file_logs import source_problems, source_remarks
from airflow_streaming.checkpoints.integrity.layout import (
    foreign_remarks,
    is_checkpoint,
    operator_problems,
    place_problems,
    place_remarks,
    read_schemas,
)
from airflow_streaming.checkpoints.integrity.logs import (
    identity_problems,
    log_problems,
    log_remarks,
    lost_logs,
    misnamed_batches,
    read_identity,
)
from airflow_streaming.checkpoints.integrity.state import (
    Depth,
    Judged,
    capped,
    is_stateful,
    judge_version,
    state_problems,
    state_remarks,
    unchecked_remark,
)
from airflow_streaming.checkpoints.read.formats import spark_at_least
from airflow_streaming.checkpoints.read.journal import (
    COMMITS,
    MOST_READ,
    OFFSETS,
    PARTITIONS,
    Journal,
    log_batches,
    positions,
    read_journal,
)
from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode
from airflow_streaming.checkpoints.read.stateful import State, operators, read_state, schema_files
from airflow_streaming.checkpoints.restore.replay import MOST_ZIPS, rollback_batches
from airflow_streaming.checkpoints.state.stores import (
    SIDECAR,
    SST_FOLDER,
    StateFile,
    StateForm,
    state_files,
    stores,
)
from airflow_streaming.model.spark.listing import Listing, Read, is_hidden

MOST_BYTES: Final = 64 * 1024 * 1024
LARGEST: Final = 4 * 1024 * 1024
_SOURCE_TAIL: Final = 20
"""Entries of a source's log after its newest compacted one, which comes every ten."""
_WHOLE: Final = frozenset({StateForm.SNAPSHOT, StateForm.ZIP})


def read_checkpoint(
    listing: Listing,
    read: Read,
    *,
    uri: str,
    depth: Depth = Depth.NEXT,
    places: Sequence[str] = (),
) -> Checkpoint:
    """
    Read one query's checkpoint.

    Never raises for defects of the checkpoint: they become ``problems`` and ``remarks``.

    :param depth: Which state files are read: none, if their bytes are known to be sound or only the
        position matters; the files of the next batch; or the files of all rollback batches, which
        may take long.
    :param places: Other spellings of ``uri``, e.g. with links resolved.
    """
    if not is_checkpoint(listing):
        return Checkpoint(uri=uri, problems=(_no_checkpoint(listing, uri),))
    return _Reading(listing, read, uri, depth, (uri, *places)).report()


class _Reading:
    def __init__(
        self, listing: Listing, read: Read, uri: str, depth: Depth, places: Sequence[str]
    ) -> None:
        self._listing, self._read, self._uri, self._depth = listing, read, uri, depth
        self._identity = read_identity(listing, read)
        self._journal: Journal = read_journal(listing, read)
        self._state: State = read_state(listing, read, self._journal)
        if self._state.refs and self._state.state_format == 1:
            # Spark tracks progress asynchronously for queries without state only, and real-time
            # mode has its state in format 2, so a gap here is a loss.
            self._journal = replace(self._journal, is_async=False)
        self._schemas = schema_files(self._state, places)
        self._schema_versions, self._schema_problems = read_schemas(
            listing, read, self._schemas, self._journal
        )
        self._judged: Judged = judge_version(
            listing, read, self._state, self._journal.next_batch, depth
        )

    def report(self) -> Checkpoint:
        journal, state = self._journal, self._state
        plan, commit = journal.newest_plan, journal.newest_commit
        sizes = [
            stat.size
            for files in self._listing.folders.values()
            for name, stat in files.items()
            if not is_hidden(name)
        ]
        rollback = rollback_batches(
            self._listing, self._read, journal, state, self._depth is Depth.ALL
        )
        return Checkpoint(
            uri=self._uri,
            query_id=self._identity.query_id,
            offset_log_version=plan.log_version if plan else None,
            commit_log_version=commit.log_version if commit else None,
            state_format=state.state_format,
            spark_at_least=self._writer(),
            last_planned_batch=journal.last_planned,
            last_committed_batch=journal.last_committed,
            watermark_ms=_watermark(journal),
            sources=positions(journal),
            sinks=commit.sinks if commit else (),
            operators=operators(self._listing, state, self._schema_versions),
            is_stateful=is_stateful(journal, state),
            shuffle_partitions=_partitions(journal),
            conf=plan.conf if plan else {},
            lost_conf=_lost(journal),
            async_progress=journal.is_async,
            files=len(sizes),
            size=sum(sizes),
            rollback_batches=rollback.batches,
            problems=(*self._problems(), *rollback.problems),
            remarks=tuple(self._remarks()),
        )

    def _problems(self) -> Iterator[Finding]:
        listing, journal, state = self._listing, self._journal, self._state
        yield from place_problems(listing)
        yield from identity_problems(listing, self._identity, journal)
        yield from misnamed_batches(listing, journal)
        yield from log_problems(journal)
        yield from lost_logs(listing, journal, has_state=any(state.files.values()))
        yield from source_problems(listing, self._read, journal)
        yield from operator_problems(listing, journal, state)
        yield from self._schema_problems
        yield from state_problems(journal, state)
        yield from capped(self._judged.problems)

    def _remarks(self) -> Iterator[Finding]:
        yield from log_remarks(self._journal)
        yield from source_remarks(self._listing)
        yield from state_remarks(self._journal, self._state)
        yield from foreign_remarks(self._schemas)
        yield from capped(self._judged.remarks)
        yield from unchecked_remark(self._judged)
        yield from place_remarks(self._listing)

    def _writer(self) -> str | None:
        plan, commit = self._journal.newest_plan, self._journal.newest_commit
        told = [metadata.version for metadata in self._state.metadata.values()]
        return spark_at_least(
            plan.conf if plan else None,
            offset_log=plan.log_version if plan else None,
            commit_log=commit.log_version if commit else None,
            operator_metadata=max(told, default=None),
            state_schema=max(self._schema_versions.values(), default=None),
        )


def _no_checkpoint(listing: Listing, uri: str) -> Finding:
    names = [*listing.subfolders(""), *listing.files("")]
    found = f"It has {', '.join(sorted(names)[:5])}." if names else "It is empty."
    return Finding(
        code=FindingCode.NOT_A_CHECKPOINT,
        path="",
        message=f"{uri} is not a checkpoint: it has neither metadata nor offsets nor commits. {found} "
        "Spark would start a new query there, without any state. Give the folder that the query's "
        "checkpointLocation names.",
    )


def _watermark(journal: Journal) -> int | None:
    commit, plan = journal.newest_commit, journal.newest_plan
    if commit is not None and commit.watermark_ms is not None:
        return commit.watermark_ms
    return plan.watermark_ms if plan else None


def _lost(journal: Journal) -> dict[str, str]:
    plan = journal.newest_plan
    if plan is None:
        return {}
    pinned: dict[str, str] = {}
    for batch in sorted(journal.plans):
        pinned |= journal.plans[batch].conf
    return {key: value for key, value in pinned.items() if key not in plan.conf}


def _partitions(journal: Journal) -> int | None:
    plan = journal.newest_plan
    text = plan.conf.get(PARTITIONS, "") if plan else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def likely_reads(listing: Listing) -> list[str]:
    """Return paths of small files, the surest first, of ``MOST_BYTES`` together at most."""
    left, chosen = MOST_BYTES, []
    for path in dict.fromkeys(_candidates(listing)):
        stat = listing.stat(path)
        if stat is None or stat.size > LARGEST:
            continue
        left -= stat.size
        if left < 0:
            break
        chosen.append(path)
    return chosen


def _candidates(listing: Listing) -> Iterator[str]:
    yield from ("metadata", ".metadata.crc")
    for log in (OFFSETS, COMMITS):
        for batch in log_batches(listing.files(log))[-MOST_READ:]:
            yield f"{log}/{batch}"
            yield f"{log}/.{batch}.crc"
    for folder in listing.folders:
        if "_metadata" in folder or "_stateSchema" in folder:
            yield from (f"{folder}/{name}" for name in listing.files(folder))
    for source in listing.subfolders("sources"):
        names = listing.files(f"sources/{source}")
        newest = sorted(names, key=lambda name: (len(name.split(".")[0]), name))
        yield from (f"sources/{source}/{name}" for name in newest[-_SOURCE_TAIL:])
    yield from _of_state(listing)


def _of_state(listing: Listing) -> Iterator[str]:
    for ref in stores(listing):
        files = state_files(listing, ref)
        base = max((file.version for file in files if file.form in _WHOLE), default=0)
        for file in sorted(files, key=_by_version):
            if file.version >= base:
                yield f"{ref.folder}/{file.name}"
                yield f"{ref.folder}/{file.name}{SIDECAR}"
                yield f"{ref.folder}/.{file.name}{SIDECAR}"
        inner = f"{ref.folder}/{SST_FOLDER}"
        yield from (f"{inner}/{name}" for name in listing.files(inner))
    yield from _older(listing)


def _older(listing: Listing) -> Iterator[str]:
    """Return files that show older versions of RocksDB, unless there are too many to read."""
    found = [
        f"{ref.folder}/{file.name}"
        for ref in stores(listing)
        for file in state_files(listing, ref)
        if file.form is StateForm.ZIP or (file.form is StateForm.CHANGELOG and file.unique_id)
    ]
    if len(found) <= MOST_ZIPS:
        yield from found


def _by_version(file: StateFile) -> int:
    return file.version
