"""A connection that hangs holds up the pages of its own home only."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_streaming.plugins.access.looks import Looks
from tests.unit.plugins.test_drivers import keeps

pytestmark = pytest.mark.filterwarnings("ignore")


async def test_one_connection_that_hangs_leaves_the_home_to_others() -> None:
    from airflow_streaming.plugins.board import Boards

    may_answer = threading.Event()

    def open_home(kept: Any) -> Any:
        if kept.home_conn_id == "hangs":
            may_answer.wait(60)
        raise OSError("closed")

    looks = Looks(deadline=0.3)
    boards = Boards(looks, open_home=open_home)
    hangs = [keeps("", home_conn_id="hangs", stream=f"s{number}") for number in range(3)]
    try:
        await boards.rows(hangs)
        await asyncio.sleep(0.35)  # the deadline of the look that hangs
        await boards.rows(hangs)
        assert await looks.look(keeps("").place, lambda: "at once") == "at once"
        assert looks._slots.rest_of(hangs[0].place, looks._clock()) > 0
    finally:
        may_answer.set()


def test_a_home_is_known_by_its_uri_and_its_connection() -> None:
    places = {keeps("", home_conn_id=conn).place for conn in (None, "a", "b")}

    assert len(places) == 3
