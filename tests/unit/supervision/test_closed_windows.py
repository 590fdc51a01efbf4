"""Which windows are due: closed ones once and in order, requested and corrected ones again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.products.windows import SeriesState, WindowRequest, series_name
from airflow_streaming.supervision.readiness.closed_windows import (
    MOST_AHEAD,
    MOST_REVISIONS,
    SeriesTerms,
    begun,
    closed_windows,
    committed_until,
    contents_to_read,
)
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot

HOURLY = SeriesTerms(interval=timedelta(hours=1))
DAILY = SeriesTerms(interval=timedelta(hours=1), roll_up=timedelta(days=1))
DAY = datetime(2026, 11, 21, tzinfo=UTC)


def at(hours: float) -> datetime:
    return DAY + timedelta(hours=hours)


def announced(until: float, since: float = 0, **more: Any) -> SeriesState:
    return SeriesState(since=at(since), until=at(until), **more)


def request(start: float, end: float, number: int = 1) -> WindowRequest:
    return WindowRequest(
        series="3600s", number=number, start=at(start), end=at(end), by="ann", reason="r", at=DAY
    )


def due(state: SeriesState, until: float, terms: SeriesTerms = HOURLY, **more: Any) -> Any:
    found = closed_windows(state, at(until), terms, **more)
    hours = [(one.start - DAY) / timedelta(hours=1) for one in found.windows]
    return [
        (int(hour), one.revision) for hour, one in zip(hours, found.windows, strict=True)
    ], found.state


@pytest.mark.parametrize(
    ("state", "until", "expected", "announced_until"),
    [
        pytest.param(announced(3), 3.99, [], 3, id="an open window is not due"),
        pytest.param(announced(3), 4, [(3, 1)], 4, id="a window is due when its end is reached"),
        pytest.param(announced(3), 6.5, [(3, 1), (4, 1), (5, 1)], 6, id="several come in order"),
        pytest.param(announced(3), 1.5, [], 3, id="a restored watermark makes nothing due"),
        pytest.param(announced(3), 3.2, [], 3, id="a replay up to the same time makes nothing due"),
    ],
)
def test_closed_windows_are_due_once(
    state: SeriesState, until: float, expected: Any, announced_until: float
) -> None:
    found, after = due(state, until)

    assert (found, after.until) == (expected, at(announced_until))


def test_a_series_begins_with_the_window_that_is_open() -> None:
    assert begun(HOURLY, at(10.6)) == announced(10, since=10)


def test_a_series_begins_where_the_author_says() -> None:
    terms = SeriesTerms(interval=timedelta(hours=1), since=at(2.3))

    assert begun(terms, at(10.6)) == announced(2, since=2)


def test_a_backlog_is_announced_in_parts_without_a_gap() -> None:
    first, state = due(announced(0), 250)
    second, state = due(state, 250)
    third, state = due(state, 250)

    assert [one for one, _ in [*first, *second, *third]] == [*range(250)]
    assert state.until == at(250)


def test_a_request_gives_the_announced_windows_of_its_range_the_next_revision() -> None:
    found, state = due(announced(6), 6.5, requests=[request(1.5, 3)])
    again, state = due(state, 7.5, requests=[request(2, 3, number=2)])

    assert found == [(1, 2), (2, 2)]
    assert again == [(2, 3), (6, 1)]
    assert (state.requests, state.requested_until) == (2, None)


def test_a_request_for_windows_to_come_leaves_them_to_the_watermark() -> None:
    found, state = due(announced(3), 3.5, requests=[request(2, 9)])
    later, _ = due(state, 5)

    assert found == [(2, 2)]
    assert state.requests == 1
    assert later == [(3, 1), (4, 1)]


def test_a_request_before_the_series_begins_announces_the_first_revision() -> None:
    found, state = due(announced(6, since=4), 6, requests=[request(2, 5)])
    again, _ = due(state, 6, requests=[request(2, 3, number=2)])

    assert found == [(2, 1), (3, 1), (4, 2)]
    assert again == [(2, 2)]


def test_a_large_request_continues_where_it_was() -> None:
    state, found = announced(300), []
    for _ in range(3):
        part, state = due(state, 300, requests=[request(0, 250)])
        found += part
    none, _ = due(state, 300, requests=[])

    assert [hour for hour, _ in found] == [*range(250)]
    assert none == []


@pytest.mark.parametrize("terms", [HOURLY, DAILY])
def test_a_request_up_to_the_last_year_of_the_calendar_does_not_stop_the_series(
    terms: SeriesTerms,
) -> None:
    endless = replace(request(1, 3), end=datetime(9999, 12, 31, 23, 59, tzinfo=UTC))

    again, state = due(announced(24), 24, terms, requests=[endless])

    assert again[-1] == (23, 2)
    assert state.requests == 1


def test_a_request_from_the_first_year_of_the_calendar_begins_in_1970() -> None:
    ancient = replace(request(1, 3), start=datetime(1, 1, 1, tzinfo=UTC))
    weekly = SeriesTerms(interval=timedelta(days=7))

    found = closed_windows(announced(24), at(24), weekly, requests=[ancient])

    assert found.windows[0].start == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_request_waits_while_the_restored_output_is_behind_its_range() -> None:
    found, state = due(announced(6), 2.5, requests=[request(1, 4)])
    rest, state = due(state, 4, requests=[request(1, 4)])

    assert (found, rest) == ([(1, 2)], [(2, 2), (3, 2)])
    assert state.requests == 1


def test_a_window_with_another_content_gets_a_revision() -> None:
    _, state = due(
        announced(0), 2, contents={"2026-11-21T00:00:00": "a", "2026-11-21T01:00:00": "b"}
    )
    same, _ = due(state, 2, contents={"2026-11-21T00:00:00": "a"})
    other, state = due(state, 2, contents={"2026-11-21T00:00:00": "A"})
    after, _ = due(state, 2, contents={"2026-11-21T00:00:00": "A"})

    assert (same, other, after) == ([], [(0, 2)], [])


def test_a_correction_in_a_complete_day_announces_the_whole_day() -> None:
    state = announced(30, contents={"2026-11-21T05:00:00": "a"})

    found, _ = due(state, 30, DAILY, contents={"2026-11-21T05:00:00": "b"})

    assert found == [(hour, 2) for hour in range(24)]


def test_a_correction_in_an_open_day_announces_its_window_only() -> None:
    state = announced(12, contents={"2026-11-21T05:00:00": "a"})

    found, _ = due(state, 12, DAILY, contents={"2026-11-21T05:00:00": "b"})

    assert found == [(5, 2)]


def test_a_request_takes_whole_days_where_days_are_rolled_up() -> None:
    found, _ = due(announced(60), 60, DAILY, requests=[request(25, 26)])

    assert found == [(hour, 2) for hour in range(24, 48)]


def test_contents_are_compared_for_the_recent_windows_only() -> None:
    terms = SeriesTerms(interval=timedelta(hours=1), recheck=timedelta(hours=2))
    keys = {f"2026-11-21T{hour:02}:00:00": "x" for hour in range(6)}

    _, state = due(announced(0), 6, terms, contents=keys)

    assert [one.hour for one in contents_to_read(state, at(7), terms)] == [4, 5, 6]


def test_the_state_of_a_series_stays_small() -> None:
    state = announced(MOST_REVISIONS + 500)
    for number in range(1, 60):
        _, state = due(state, 0, requests=[])
        _, state = due(
            state, MOST_REVISIONS + 500, requests=[request(0, MOST_REVISIONS + 500, number)]
        )

    assert len(state.revisions) <= MOST_REVISIONS


def snapshot(*queries: QuerySnapshot) -> StreamSnapshot:
    verdict = Verdict(state=VerdictState.HEALTHY, reason="Commits.")
    return StreamSnapshot(who="stream 'orders'", verdict=verdict, queries=queries)


def query(name: str, watermark: float | None, **more: Any) -> QuerySnapshot:
    mark = None if watermark is None else at(watermark)
    return QuerySnapshot(
        **{"name": name, "batch_id": 7, "watermark": mark, "has_watermark": True, **more}
    )


@pytest.mark.parametrize(
    ("queries", "name", "expected"),
    [
        pytest.param([query("a", 5), query("b", 3)], None, at(3), id="the slowest query counts"),
        pytest.param([query("a", 5), query("b", 3)], "a", at(5), id="the named query counts"),
        pytest.param(
            [query("a", 5), query("b", None, has_watermark=False)],
            *(None, at(5)),
            id="a query without a watermark does not count",
        ),
        pytest.param(
            [query("a", 5), query("b", None)], None, None, id="a query without rows holds"
        ),
        pytest.param([query("a", 5, batch_id=None)], None, None, id="only committed output counts"),
        pytest.param([], None, None, id="no query is known"),
        pytest.param([query("a", 5)], "b", None, id="the named query is unknown"),
    ],
)
def test_the_committed_output_is_complete_up_to(
    queries: Any, name: str | None, expected: datetime | None
) -> None:
    found = committed_until(snapshot(*queries), name, now=DAY)

    assert found.until == expected
    assert (found.until is None) == bool(found.reason)
    assert not found.never


@pytest.mark.parametrize(
    ("mark", "closes"),
    [
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), False),
        (DAY + MOST_AHEAD + timedelta(seconds=1), False),
        (DAY + MOST_AHEAD, True),
        (DAY, True),
    ],
)
def test_a_watermark_years_ahead_closes_no_window(mark: datetime, closes: bool) -> None:
    ahead = replace(query("orders", 5), watermark=mark)

    found = committed_until(snapshot(ahead), now=DAY)

    assert found.until == (mark if closes else None)
    assert closes or f"Query 'orders' has the watermark {mark}" in found.reason
    assert not found.never


def test_a_stream_without_any_watermark_never_completes_a_window() -> None:
    found = committed_until(snapshot(query("a", None, has_watermark=False)), now=DAY)

    assert found.never
    assert "withWatermark()" in found.reason


def test_series_are_named_by_query_and_length() -> None:
    assert series_name(timedelta(hours=1)) == "3600s"
    assert series_name(timedelta(minutes=1.5), "revenue") == "revenue.90s"
