"""The fleet page of a large home: rows that triggers have left, and looks at the rows that are shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import open_home
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.plugins.access.kept import Kept
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.supervision.stream_status import Level
from tests.unit.plugins.test_drivers import keeps

pytestmark = pytest.mark.filterwarnings("ignore")
MANY = 120


class LargeHome:
    """A board over a home of 120 streams, with a clock that the test moves."""

    def __init__(self, folder: Path, streams: int = MANY) -> None:
        from airflow_streaming.plugins.board import Boards

        self.folder, self.now, self.looks = folder, 1_000.0, list[str]()
        self.kept = [keeps("", str(folder), stream=f"s{n:03d}") for n in range(streams)]
        self.boards = Boards(
            Looks(), open_home=lambda kept: open_home(kept.home), clock=lambda: self.now
        )
        self.boards._look_at = self.look  # type: ignore[method-assign]

    def look(self, kept: Kept) -> dict[str, Any]:
        self.looks.append(kept.stream)
        return {"state": "healthy", "level": "well", "rank": 4, "reason": "Looked."}

    def leave(self, *ones: Kept, age: float = 20.0, **more: Any) -> None:
        index = {"kind": "fleet_index", "version": 1}
        index["rows"] = [encode(a_row(one.stream, age=age, **more)) for one in ones]
        (self.folder / "_rows").mkdir(exist_ok=True)
        (self.folder / "_rows" / "x.json").write_text(json.dumps(index))

    async def rows(self) -> dict[str, dict[str, Any]]:
        rows = await self.boards.rows(self.kept)
        for board in self.boards._boards.values():
            if board.task is not None:
                await board.task
        return {row["stream"]: row for row in rows}


def a_row(lane: str, *, age: float, dag: str = "orders", **more: Any) -> FleetRow:
    at = datetime.now(UTC) - timedelta(seconds=age)
    stream = lane.removesuffix(".green")
    owner = Owner(number=1, stream=stream, dag_id=dag, by="a task", reason="r", at=at)
    told: dict[str, Any] = {"word": "gave_up", "level": Level.DOWN, "reason": "Left."}
    return FleetRow(lane=lane, seen_at=at, **{**told, "owner": owner, **more})


async def test_only_the_rows_that_are_shown_are_looked_at(tmp_path: Path) -> None:
    home = LargeHome(tmp_path)
    home.leave(*home.kept)
    home.boards.show(home.kept[:3])

    await home.rows()
    rows = await home.rows()

    assert {*home.looks} == {"s000", "s001", "s002"}
    assert rows["s001"]["reason"] == "Looked."
    assert (rows["s100"]["state"], rows["s100"]["reason"]) == ("gave_up", "Left.")
    assert rows["s100"]["rank"] == Level.DOWN.rank
    assert 19 <= rows["s100"]["age"] <= 60


async def test_a_small_home_is_looked_at(tmp_path: Path) -> None:
    home = LargeHome(tmp_path, streams=99)
    home.leave(*home.kept)

    await home.rows()

    assert len(home.looks) == 99


@pytest.mark.parametrize(
    "more",
    [
        {"dag": "another"},
        {"owner": None},
        {"is_live": False},
        {"age": 76.0},
        {"age": -60.0},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_a_row_that_is_not_believed_is_looked_at(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    home = LargeHome(tmp_path)
    home.leave(*home.kept, **more)

    await home.rows()

    assert len(home.looks) == MANY


async def test_a_row_that_has_grown_old_is_looked_at(tmp_path: Path) -> None:
    home = LargeHome(tmp_path)
    home.leave(*home.kept)
    await home.rows()
    assert home.looks == []

    (tmp_path / "_rows" / "x.json").unlink()
    home.now += 80
    await home.rows()

    assert len(home.looks) == MANY


async def test_a_look_is_not_replaced_by_an_older_row(tmp_path: Path) -> None:
    home = LargeHome(tmp_path)
    await home.rows()
    home.now += 16
    home.leave(*home.kept, age=30.0)

    assert {row["reason"] for row in (await home.rows()).values()} == {"Looked."}


async def test_rows_after_a_pause_are_shown_at_once_with_their_age(tmp_path: Path) -> None:
    home = LargeHome(tmp_path)
    home.leave(*home.kept)
    await home.rows()
    home.now += 30

    rows = await home.rows()

    assert {row["state"] for row in rows.values()} == {"gave_up"}


async def test_the_row_of_the_live_lane_counts(tmp_path: Path) -> None:
    home = LargeHome(tmp_path)
    index = {"kind": "fleet_index", "version": 1, "rows": list[Any]()}
    for one in home.kept:
        index["rows"] += [  # type: ignore[operator]
            encode(a_row(one.stream, age=5, is_live=False, reason="Blue.")),
            encode(a_row(f"{one.stream}.green", age=5, reason="Green.")),
        ]
    (tmp_path / "_rows").mkdir()
    (tmp_path / "_rows" / "x.json").write_text(json.dumps(index))

    await home.rows()
    rows = await home.rows()

    assert {(row["lane"], row["color"]) for row in rows.values()} == {
        (f"{one.stream}.green", "green") for one in home.kept
    }
    assert home.looks == []
