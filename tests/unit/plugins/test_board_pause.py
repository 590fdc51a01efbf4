"""A page that is opened after a pause shows what a new look has seen, and never rows of long ago."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_streaming.plugins.access.looks import Looks
from tests.unit.plugins.test_drivers import keeps

pytestmark = pytest.mark.filterwarnings("ignore")
PAUSE = 120.0


class Watched:
    """A board over streams whose looks a test may hold up, with a clock that the test moves."""

    def __init__(self, *names: str) -> None:
        from airflow_streaming.plugins.board import Boards

        self.now, self.state, self.error = 1_000.0, "healthy", ""
        self.may_look = threading.Event()
        self.may_look.set()
        self.takes, self.looks = 0.0, 0
        self.kept = [keeps("", stream=name) for name in names]
        self.boards = Boards(Looks(), clock=lambda: self.now)
        self.boards._look_at = self.look  # type: ignore[method-assign]

    def look(self, kept: Any) -> dict[str, Any]:
        self.may_look.wait(60)
        if self.error:
            raise OSError(self.error)
        self.now += self.takes
        self.looks += 1
        return {"state": self.state, "level": "well", "rank": 4}

    async def rows(self) -> list[tuple[str, float | None]]:
        return [(row["state"], row["age"]) for row in await self.boards.rows(self.kept)]

    async def looked(self) -> None:
        """Wait until no look is running."""
        for board in self.boards._boards.values():
            if board.task is not None:
                await board.task


async def test_the_first_rows_after_a_pause_are_those_of_a_new_look() -> None:
    watched = Watched("orders", "clicks")
    assert await watched.rows() == [("healthy", 0.0)] * 2
    watched.now, watched.state = watched.now + PAUSE, "degraded"

    assert await watched.rows() == [("degraded", 0.0)] * 2


async def test_a_look_that_lasts_is_shown_as_reading_and_not_as_the_rows_before_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow_streaming.plugins import board

    monkeypatch.setattr(board, "FIRST_WAIT", 0.01)
    watched = Watched("orders")
    await watched.rows()
    await watched.looked()
    before = watched.boards.seen_at(watched.kept)
    watched.now += PAUSE
    watched.may_look.clear()
    try:
        [row] = await watched.boards.rows(watched.kept)
        assert (row["state"], row["age"]) == ("reading", None)
        assert row["reason"] == "Last seen 2 min ago: healthy. A new look has begun."
        assert watched.boards.seen_at(watched.kept) != before  # no browser shows its old copy
    finally:
        watched.may_look.set()
    await watched.looked()
    assert await watched.rows() == [("healthy", 0.0)]


async def test_a_page_that_stays_open_keeps_its_rows_while_a_look_is_due() -> None:
    watched = Watched("orders")
    await watched.rows()
    await watched.looked()
    watched.may_look.clear()
    try:
        for age in (5.0, 10.0, 15.0, 20.0, 25.0):
            watched.now += 5.0
            assert await watched.rows() == [("healthy", age)]
    finally:
        watched.may_look.set()
    await watched.looked()


async def test_a_home_that_does_not_answer_after_a_pause_leaves_what_is_known_with_its_age() -> (
    None
):
    watched = Watched("orders")
    await watched.rows()
    await watched.looked()
    watched.now, watched.error = watched.now + PAUSE, "gone"
    await watched.rows()
    await watched.looked()

    [row] = await watched.boards.rows(watched.kept)

    assert (row["state"], row["age"], row["away"]) == ("healthy", PAUSE, "gone")


async def test_a_home_that_no_look_sees_whole_rests_as_long_as_the_look_took() -> None:
    watched = Watched(*(f"orders_{number}" for number in range(12)))
    watched.takes = (
        0.6  # three streams in a slice of 1.6 s; the first are due again after the fourth
    )
    for _ in range(4):
        await watched.rows()
        await watched.looked()
    assert watched.looks == 12

    watched.now += 1.7
    await watched.rows()
    await watched.looked()
    assert watched.looks == 12

    watched.now += 0.2
    await watched.rows()
    await watched.looked()
    assert watched.looks == 15


async def test_a_look_begins_with_the_streams_that_a_page_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(*(f"s{number:03d}" for number in range(100)))
    watched.takes = 0.2  # a look ends after a few streams
    order: list[str] = []
    look = watched.look
    monkeypatch.setattr(
        watched.boards, "_look_at", lambda kept: order.append(kept.stream) or look(kept)
    )
    watched.boards.show(watched.kept[97:99])

    await watched.rows()
    await watched.looked()

    assert order[:3] == ["s097", "s098", "s000"]
    assert len(order) < 100


async def test_a_page_of_a_large_home_waits_for_the_first_look_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow_streaming.plugins import board

    monkeypatch.setattr(board, "FIRST_WAIT", 60.0)
    watched = Watched(*(f"s{number:03d}" for number in range(100)))
    watched.takes = 0.2
    await watched.rows()
    await watched.looked()
    watched.now += 5.0
    watched.may_look.clear()  # the next look does not end
    try:
        rows = await asyncio.wait_for(watched.rows(), 5)
    finally:
        watched.may_look.set()
    states = [state for state, _ in rows]

    assert {"healthy", "reading"} == set(states)
    await watched.looked()
