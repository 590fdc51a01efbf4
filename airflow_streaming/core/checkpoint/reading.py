"""
Listing → Checkpoint: what a checkpoint says of its query, and everything that is wrong with it.

A live checkpoint is sound: a batch that is planned and not yet committed, files that are being
written, and state of the batch in work are how Spark leaves it at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.integrity.chains import (
    Depth,
    Judged,
    judge_version,
    unchecked_remark,
)
from airflow_streaming.core.checkpoint.integrity.identity import identity_problems, read_identity
from airflow_streaming.core.checkpoint.integrity.logs import (
    log_problems,
    log_remarks,
    lost_logs,
    misnamed_batches,
)
from airflow_streaming.core.checkpoint.integrity.operators import (
    foreign_remarks,
    operator_problems,
    read_schemas,
)
from airflow_streaming.core.checkpoint.integrity.places import (
    is_checkpoint,
    place_problems,
    place_remarks,
)
from airflow_streaming.core.checkpoint.integrity.sources import source_problems, source_remarks
from airflow_streaming.core.checkpoint.integrity.state import (
    capped,
    is_stateful,
    state_problems,
    state_remarks,
)
from airflow_streaming.core.checkpoint.journal import PARTITIONS, Journal, read_journal
from airflow_streaming.core.checkpoint.listing import Listing, Read, is_hidden
from airflow_streaming.core.checkpoint.positions import positions
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.checkpoint.rollback import rollback_batches
from airflow_streaming.core.checkpoint.schema_files import schema_files
from airflow_streaming.core.checkpoint.stateful import State, read_state
from airflow_streaming.core.checkpoint.summaries import operators
from airflow_streaming.core.checkpoint.written import spark_at_least


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

    Never raises for what is in the checkpoint: that becomes ``problems`` and ``remarks``.

    :param depth: Which state files are looked into: none, where their bytes are known to be what
        was once found sound or only the position matters; those the next batch needs; or those
        that some rollback batch needs, however long that takes.
    :param places: Other spellings of ``uri``, e.g. with links resolved.
    :raises HomeUnavailable: the store cannot be reached.
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
        message=f"{uri} is no checkpoint: it has neither metadata nor offsets nor commits. {found} "
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
