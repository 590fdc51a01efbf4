"""Which checkpoints of a stream of ours are backed up."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, stream_sources
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.status import CheckpointOrigin
from tests.unit.checkpoints.restoring import run_batches


def sources(own: Path, chosen: Path) -> dict[str, str]:
    """Return what is backed up of a stream whose script keeps the query at a place of its own."""
    query = SimpleNamespace(
        name="counts", checkpoint=f"file:{chosen}", checkpoint_origin=CheckpointOrigin.SCRIPT
    )
    home = SimpleNamespace(
        name="orders",
        newest_epoch=lambda: SimpleNamespace(number=1, cause=LaunchCause.FIRST),
        status=lambda epoch: SimpleNamespace(queries=(query,)),
    )
    found = stream_sources(
        cast(Any, home),
        cast(Any, SimpleNamespace(checkpoint=str(own))),
        BackupRequest(origin=Origin.MANUAL, by="kim"),
    )
    return {source.folder: source.folders.uri for source in found}


def test_a_left_over_does_not_win_over_the_place_that_the_script_chose(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_over = run_batches(tmp_path / "own" / "counts", 9)
    chosen = run_batches(tmp_path / "chosen", 3)

    with caplog.at_level(logging.WARNING):
        found = sources(tmp_path / "own", chosen)

    assert found == {"counts": f"file://{chosen}"}
    assert f"{left_over} is a left-over" in caplog.text


def test_a_script_that_names_the_place_of_the_deployment_leaves_nothing_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = run_batches(tmp_path / "own" / "counts", 3)

    assert sources(tmp_path / "own", own) == {"counts": f"file://{own}"}
    assert caplog.text == ""


def test_a_query_that_has_committed_nothing_waits_for_a_later_backup(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = run_batches(tmp_path / "chosen", 3)
    (run_batches(tmp_path / "own" / "sums", 0) / "commits" / "0").unlink()

    assert sources(tmp_path / "own", chosen) == {"counts": f"file://{chosen}"}
    assert "Query 'sums' of stream orders has committed no batch yet." in caplog.text


def test_a_link_among_the_checkpoints_of_a_stream_is_never_passed_over(tmp_path: Path) -> None:
    run_batches(tmp_path / "own" / "sums", 3)
    chosen = run_batches(tmp_path / "chosen", 3)
    (tmp_path / "own" / "joined").symlink_to(chosen)

    with pytest.raises(CheckpointRefused):
        sources(tmp_path / "own", chosen)
