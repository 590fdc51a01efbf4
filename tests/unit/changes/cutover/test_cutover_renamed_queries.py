"""A cutover to a version whose query has another name than blue's: parallel outputs, drivers played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from airflow_streaming.model.records.epoch import Epoch
from tests.unit.changes.cutover.cutting import Cutting

GREEN = ".green"
RENAMED = "sales"


class Renaming(Cutting):
    """Lanes of which green runs ``sales`` instead of ``counts``."""

    _is_green = False

    def _say(self, lane: str, epoch: Epoch, batches: int, **told: Any) -> None:
        self._is_green = lane.endswith(GREEN)
        super()._say(lane, epoch, batches, **told)

    def _query(self, batches: int, backlog: float, wrote: int | None) -> Any:
        found = super()._query(batches, backlog, wrote)
        if not self._is_green:
            return found
        progress = found.progress and replace(found.progress, query=RENAMED)
        return replace(found, name=RENAMED, progress=progress)

    def pair(self, stream: str) -> Pair:
        return replace(super().pair(stream), queries=(RENAMED,), stateful=())


def begun(folder: Path, green: str, **terms: Any) -> Renaming:
    world = Renaming(folder, stateless=True, green=green)
    world.begin(**terms)
    return world


def test_a_version_with_a_renamed_query_goes_live_and_can_be_taken_back(tmp_path: Path) -> None:
    world = begun(tmp_path, "works", finalizes_by_itself=False)

    assert world.drive(CutoverState.SOAKING).state is CutoverState.SOAKING
    assert world.live_lane() == "orders.green"
    world.engine().command(CutoverCommand.ROLL_BACK, "The test says so.")

    assert world.drive().state is CutoverState.ROLLED_BACK
    assert world.live_lane() == "orders"
    assert world.faults() == []


@pytest.mark.parametrize(
    "terms", [{}, {"compare": (), "checks": ("stock",)}], ids=["compared", "checked"]
)
def test_a_renamed_query_that_drops_every_row_waits_for_a_decision(
    terms: dict[str, Any], tmp_path: Path
) -> None:
    world = begun(tmp_path, "drops", **terms)

    progress = world.drive()

    assert progress.state is CutoverState.HELD, progress
    assert "Query 'sales' of green has read" in progress.reason
    assert "written none; query 'counts' of blue has read" in progress.reason
    assert world.live_lane() == "orders"
