"""A connection that hangs holds up the pages of its own home only."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeNotAllowed
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.supervision.stream_status import Level
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


def test_a_home_that_no_look_may_open_needs_a_user() -> None:
    from airflow_streaming.plugins.board import Boards

    def open_home(kept: Any) -> Any:
        raise HomeNotAllowed("Home '/data' is not among [streaming] homes.")

    row = Boards(Looks(), open_home=open_home)._look_at(keeps(""))

    assert (row["state"], row["level"], row["rank"]) == ("unreadable", "warn", Level.WARN.rank)
