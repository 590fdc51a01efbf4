"""The preflight knows for which queries blue has nothing that green could begin with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_streaming.changes.cutover.begin import queries_without_batch
from tests.unit.checkpoints.running import new_checkpoint
from tests.unit.home.make import make_deployment


def test_a_folder_that_is_missing_or_has_no_commit_has_no_batch(tmp_path: Path) -> None:
    blue = replace(make_deployment(), checkpoint=str(tmp_path))
    new_checkpoint(tmp_path)
    (tmp_path / "planned").mkdir()

    found = queries_without_batch(blue, ["checkpoint", "planned", "renamed"])

    assert found == {"planned", "renamed"}
