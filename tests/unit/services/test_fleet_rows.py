"""Which rows of triggers a reader believes, and what a forged row cannot say."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.wire import decode
from airflow_streaming.services.fleet_rows import (
    CLOCKS_APART,
    FRESH,
    MOST_TEXT,
    FleetIndex,
    FleetRow,
    believed,
)
from airflow_streaming.supervision.stream_status import Level
from tests.unit.home.make import NOON

SECOND = timedelta(seconds=1)


def a_row(lane: str = "orders", age: timedelta = SECOND, **more: Any) -> FleetRow:
    told: dict[str, Any] = {"word": "healthy", "level": Level.WELL, "reason": "All is well."}
    return FleetRow(lane=lane, seen_at=NOON - age, **{**told, **more})


def an_owner(stream: str = "orders") -> Owner:
    return Owner(number=1, stream=stream, dag_id=stream, by="a task", reason="r", at=NOON)


ROWS: dict[str, tuple[timedelta, datetime | str | None, bool]] = {
    "young": (SECOND, "no act", True),
    "as old as may be": (FRESH, "no act", True),
    "old": (FRESH + SECOND, "no act", False),
    "of a clock that goes ahead": (-CLOCKS_APART, "no act", True),
    "of a date to come": (-CLOCKS_APART - SECOND, "no act", False),
    "of a year to come": (-timedelta(days=365), "no act", False),
    "long after an act": (SECOND, NOON - CLOCKS_APART - 2 * SECOND, True),
    "too close behind an act": (SECOND, NOON - CLOCKS_APART - SECOND, False),
    "from before an act": (20 * SECOND, NOON - SECOND, False),
    "with an act that cannot be read": (SECOND, None, False),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_is_believed_while_it_is_young_and_no_user_has_acted(case: str) -> None:
    age, acted, is_believed = ROWS[case]
    acts = {} if isinstance(acted, str) else {"orders": acted}
    index = FleetIndex(rows=(a_row(age=age),), acts=acts)

    assert ("orders" in believed(index, ["orders"], NOON)) is is_believed


def test_an_act_on_one_lane_leaves_the_others() -> None:
    index = FleetIndex(rows=(a_row(), a_row("refunds")), acts={"orders": None})

    assert [*believed(index, ["orders", "refunds"], NOON)] == ["refunds"]


def test_the_youngest_row_counts_that_is_not_of_a_date_to_come() -> None:
    rows = [a_row(age=age, epoch=n) for n, age in enumerate([3 * SECOND, SECOND, 2 * SECOND])]
    to_come = a_row(age=-timedelta(hours=1), epoch=9)

    for order in (rows, rows[::-1]):
        found = believed(FleetIndex(rows=(to_come, *order)), ["orders"], NOON)
        assert found["orders"].epoch == 1


def test_a_lane_that_the_home_does_not_have_gets_no_row() -> None:
    index = FleetIndex(rows=(a_row("nosuch"), a_row("../etc"), a_row("orders.green")))

    assert believed(index, ["orders", "orders.green"], NOON).keys() == {"orders.green"}


FORGED: dict[str, dict[str, Any]] = {
    "a state that is none": {"word": "<img src=x>"},
    "a level that is none": {"level": "splendid"},
    "a wish that is none": {"desired": "perhaps"},
    "a number below 0": {"epoch": -1},
    "a number that nobody counts to": {"deployment": 10**15},
    "a count of queries": {"queries": 10**12},
    "a number beyond 64 bits": {"restarts_24h": 10**30},
    "a text for a number": {"input_rate": "many"},
    "a truth for a number": {"incidents": True},
    "a list for a text": {"reason": ["x"]},
    "a number for the lane": {"lane": 7},
    "no time": {"seen_at": "yesterday"},
    "a time without a zone": {"seen_at": "2026-03-01T12:00:00"},
    "the owner of another stream": {"owner": encode(an_owner("refunds"))},
    "an owner that is none": {"owner": {"dag_id": "orders"}},
    "a backlog of texts": {"backlog": {"records": "7"}},
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_value_is_refused(case: str) -> None:
    told = {**encode(a_row(owner=an_owner())), **FORGED[case]}

    with pytest.raises(RecordError):
        decode(FleetRow, told, "row")


def test_a_row_travels_whole() -> None:
    row = a_row(
        owner=an_owner(), since=NOON, backlog={"records": 7.0, "files": None}, epoch=3, queries=2
    )

    assert decode(FleetRow, encode(row), "row") == row


def test_a_text_of_a_row_is_short_and_steers_nothing() -> None:
    row = a_row(reason="\x1b[31m\u202e" + "x" * 10_000, spark="4\x00", launcher="\x9b")

    assert len(row.reason) == MOST_TEXT
    assert not {"\x1b", "\u202e", "\x00", "\x9b"} & {*row.reason, *row.spark, *row.launcher}


def test_a_row_of_a_green_lane_has_the_owner_of_its_stream() -> None:
    assert a_row("orders.green", owner=an_owner()).owner is not None


def test_the_standing_is_that_of_the_look() -> None:
    row = a_row(word="gave_up", level=Level.DOWN, reason="Why.", remedy="Do.", since=NOON)

    assert (row.standing.words, row.standing.level) == ("gave up", Level.DOWN)
    assert (row.standing.reason, row.standing.remedy) == ("Why.", "Do.")
    assert row.standing.since == NOON
