"""Copies with migrated state: a rehearsal runs new code on what its upgrade would start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.copies import OfBackup, OfCheckpoints
from airflow_streaming.checkpoints.progress import Progress
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.drill import DrilledQuery
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.spark_jobs.migration import migrate_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrating:
    """
    The migration of copies.

    :param runtime: The new version's Spark.
    :param conf: The new version's configuration.
    """

    migrations: Sequence[StateMigration]
    runtime: Runtime
    conf: Mapping[str, Any]

    @property
    def queries(self) -> frozenset[str]:
        """Return the queries whose state is migrated."""
        return frozenset(one.query for one in self.migrations)

    def copies(
        self, copies: Sequence[DrilledQuery], folder: Path, progress: Progress
    ) -> list[DrilledQuery]:
        """
        Return copies with migrated state; a query without a migration keeps its copy.

        A copy is cut back first, because its state is migrated as of its last commit.

        :raises StreamingError: a state cannot be migrated, or its proof is not clean.
        """
        return [
            self._copy(copy, folder / str(number), progress) for number, copy in enumerate(copies)
        ]

    def _copy(self, copy: DrilledQuery, to: Path, progress: Progress) -> DrilledQuery:
        migration = next((one for one in self.migrations if one.query == copy.folder), None)
        if migration is None:
            return copy
        for path in copy.cut:
            (Path(copy.copy) / path).unlink(missing_ok=True)
        found = migrate_checkpoint(
            *(copy.copy, str(to), migration, self.runtime), conf=self.conf, progress=progress
        )
        return replace(copy, copy=str(to), batch=found.batch, runs=None, cut=())


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMigrated:
    """Copies of a place with migrated state."""

    place: OfBackup | OfCheckpoints
    migrating: Migrating

    @property
    def subject(self) -> str:
        """Return what this is, in words."""
        return f"{self.place.subject}, with migrated state"

    def copies(self, folder: Path, progress: Progress) -> list[DrilledQuery]:
        """
        Copy all checkpoints into a folder, and migrate their state.

        :raises StreamingError: one cannot be copied or migrated.
        """
        before = self.place.copies(folder / "before", progress)
        return self.migrating.copies(before, folder / "migrated", progress)
