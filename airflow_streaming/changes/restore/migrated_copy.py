"""
Migrated copies of a stream's checkpoints, beside the present ones.

The present checkpoints are only read. Every attempt writes to a place of its own, so that an attempt whose worker
was taken for dead does no harm. A query whose state stays as it is is copied as well: all queries of a deployment
have their checkpoints under one folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow_streaming.changes.restore.switch import beside, checkpoints_at, location, with_claims
from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.checkpoints.restore.refusal import Circumstances
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.migration import MARK, MARKER, Migrated, StateMigration
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.uris import join
from airflow_streaming.spark_jobs.migration import migrate_checkpoint
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_store import open_filesystem

KIND: Final = "migrated"
"""Begin of the folder's name."""


def copy_place(home: StreamHome, replaced: Deployment, change: int, attempt: int) -> str:
    """Return where an attempt of a change puts its migrated copies."""
    return f"{beside(home, replaced, change, kind=KIND)}-{attempt}"


def claim_copies(home: StreamHome, replaced: Deployment, deployment: int, checkpoint: str) -> None:
    """Record the migrated copies as the checkpoints of a deployment's queries, before it is launched."""
    known = with_claims(Circumstances(stream=home.name), home, replaced)
    epoch = home.newest_epoch()
    for folder, query_id in known.claims.items():
        before = home.claim_of(query_id)
        claim = QueryClaim(
            query=folder,
            query_id=query_id,
            checkpoint=location(join(checkpoint, folder)),
            epoch=epoch.number if epoch else 0,
            batch_shift=before.batch_shift if before else 0,
            counts_from=before.counts_from if before else None,
        )
        home.add_claim(deployment, claim)


class Migrator(Protocol):
    """Writes migrated copies of a stream's checkpoints."""

    @property
    def owner(self) -> str:
        """Return the run on whose behalf it works; empty for a user at a terminal."""

    def run(self, to: str, migrations: Sequence[StateMigration]) -> dict[str, str]:
        """
        Write the copies and prove them; return the rows of each operator, as facts.

        :raises StreamingError: not possible, or not proved; nothing is left at ``to``.
        """

    def is_done(self, to: str) -> bool:
        """Tell whether all copies are there and proved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMigrator:
    """
    Writes them with a Spark of the new deployment's version on this host.

    :param of: Returns the new deployment's Spark, and its configuration with secrets, on demand.
    :param owner: The run on whose behalf it works.
    :param seconds: Time for Spark.
    """

    home: StreamHome
    of: Callable[[], tuple[Runtime, Mapping[str, Any]]]
    owner: str = ""
    seconds: float = 3600.0
    storage_options: Mapping[str, Any] | None = None
    progress: Progress = no_progress

    def run(self, to: str, migrations: Sequence[StateMigration]) -> dict[str, str]:
        """Write the copies; see ``Migrator``."""
        by_query = {one.query: one for one in migrations}
        reports = self._reports()
        unknown = sorted(by_query.keys() - reports.keys())
        if unknown:
            raise CheckpointRefused(
                f"Stream {self.home.name!r} has no checkpoint of query {unknown[0]!r}, whose state is to be "
                f"migrated; found {sorted(reports)}. Ask the gates again."
            )
        facts: dict[str, str] = {}
        try:
            for query, report in reports.items():
                migrated = self._copy(report.uri, join(to, query), by_query.get(query))
                facts |= dict(_rows(query, migrated))
        except BaseException:
            self._remove(to)
            raise
        return facts

    def is_done(self, to: str) -> bool:
        """Tell whether all copies are there and proved; see ``Migrator``."""
        try:
            there = checkpoints_at(to, self.storage_options)
            wanted = {query: one.query_id for query, one in self._reports().items()}
        except CheckpointError:
            return False
        root = open_folders(to, self.storage_options)
        return there == wanted and not any(_is_unproved(root.below(query)) for query in there)

    def _copy(self, uri: str, to: str, migration: StateMigration | None) -> Migrated | None:
        shared: dict[str, Any] = {
            "keep_query_id": True,
            "storage_options": self.storage_options,
            "progress": self.progress,
        }
        if migration is None:
            clone(uri, to, **shared)
            return None
        runtime, conf = self.of()
        return migrate_checkpoint(
            *(uri, to, migration, runtime), conf=conf, timeout=self.seconds, **shared
        )

    def _reports(self) -> dict[str, Checkpoint]:
        found = checkpoints_of(self.home, self.storage_options).checkpoints
        return {
            query: Reader(open_folders(uri, self.storage_options)).inspect(contents=False)
            for query, uri in found.items()
        }

    def _remove(self, to: str) -> None:
        fs, root = open_filesystem(to, "checkpoint", self.storage_options)
        if fs.exists(root):
            fs.rm(root, recursive=True)


def _is_unproved(folders: Folders) -> bool:
    return folders.read(MARKER, len(MARK)) is not None


def _rows(query: str, migrated: Migrated | None) -> Iterator[tuple[str, str]]:
    for proof in migrated.proofs if migrated else ():
        if proof.before is not None:
            yield f"rows.{query}.{proof.operator}", f"{proof.before} before, {proof.after} after"
