"""Copies of a rehearsal whose state is migrated; only Spark is played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.checkpoints.progress import no_progress
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.model.jobs.migration import Migrated, StateMigration
from airflow_streaming.spark_jobs import migrated_copies
from airflow_streaming.spark_jobs.migrated_copies import Migrating, OfMigrated
from tests.unit.checkpoints.restoring import run_batches


@pytest.fixture
def migrating(monkeypatch: pytest.MonkeyPatch) -> Migrating:
    def played(uri: str, to: str, *_: Any, **__: Any) -> Migrated:
        return Migrated(uri=to, batch=clone(uri, to).batch, proofs=())

    monkeypatch.setattr(migrated_copies, "migrate_checkpoint", played)
    runtime: Any = None
    return Migrating(migrations=(StateMigration(query="a"),), runtime=runtime, conf={})


def test_a_copy_is_migrated_as_of_the_batch_before_the_one_that_runs_again(
    tmp_path: Path, migrating: Migrating
) -> None:
    for query in ("a", "b"):
        run_batches(tmp_path / query, 3)
    place = OfCheckpoints(checkpoints={one: str(tmp_path / one) for one in ("a", "b")})
    plain = {one.folder: one for one in place.copies(tmp_path / "plain", no_progress)}
    copies = OfMigrated(place=place, migrating=migrating).copies(tmp_path / "out", no_progress)

    a, b = copies
    assert plain["a"].runs == 3
    assert (a.batch, a.runs, a.cut, a.has_input) == (2, None, (), True)
    assert inspect(a.copy).last_committed_batch == 2
    assert b == replace(plain["b"], copy=b.copy), "its state is as it is, and so is its copy"
    assert inspect(str(tmp_path / "a")).last_committed_batch == 3, "the original is only read"
