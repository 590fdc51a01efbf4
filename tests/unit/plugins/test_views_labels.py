"""Labels of a stream on the page of the fleet."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.home.history import PartCache
from airflow_streaming.model.arguments.selector import MOST_LABELS
from airflow_streaming.plugins.views import StreamWatch, head_of
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.supervision.stream_status import Level
from tests.unit.world import make_world


def test_a_row_has_the_labels_that_the_task_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, monkeypatch)
    world.run(world.operator(labels={"tier": "1", "team": "shop"}))
    watch = StreamWatch(home=world.home, parts=PartCache(), probe=world.launcher.probe)

    assert watch.row(datetime.now(UTC))["labels"] == ["team=shop", "tier=1"]


def test_labels_of_a_forged_row_are_few_and_short() -> None:
    row = FleetRow(
        lane="orders", seen_at=datetime.now(UTC), word="healthy", level=Level.WELL, reason=""
    )
    forged = {f"k{number}": "v" * 10_000 for number in range(MOST_LABELS + 5)}

    shown = head_of(replace(row, labels=forged))["labels"]

    assert len(shown) == MOST_LABELS
    assert max(map(len, shown)) < 200
