"""One page of the fleet: 50 rows of any number, searched, filtered and ordered by the server."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.plugins.fleet_page import MOST_GROUPS, ROWS, Column, FleetView, page_of
from airflow_streaming.supervision.stream_status import Level


def a_row(stream: str, level: Level = Level.WELL, **more: Any) -> dict[str, Any]:
    told = {"dag": f"dag_{stream}", "state": "healthy", "reason": "", "age": 1.0, "away": ""}
    return {**told, "stream": stream, "level": level.value, "rank": level.rank, **more}


def names(rows: list[dict[str, Any]], **view: Any) -> list[str]:
    return [row["stream"] for row in page_of(rows, FleetView(**view)).rows]


def test_the_worst_of_ten_thousand_comes_first_and_a_page_has_fifty_rows() -> None:
    rows = [a_row(f"s{number:05d}") for number in range(10_000)]
    rows[7_000] = a_row("s07000", Level.DOWN)
    rows[3_000] = a_row("s03000", Level.WARN)

    page = page_of(rows, FleetView())

    assert [row["stream"] for row in page.rows[:3]] == ["s07000", "s03000", "s00000"]
    assert (len(page.rows), page.pages, page.total, page.found) == (ROWS, 200, 10_000, 10_000)
    assert page.counts == {"down": 1, "warn": 1, "well": 9_998}


def test_pages_have_each_row_once() -> None:
    rows = [a_row(f"s{number:03d}", [*Level][number % 6]) for number in range(120)]
    seen = [name for page in (1, 2, 3) for name in names(rows, page=page)]

    assert sorted(seen) == sorted(row["stream"] for row in rows)
    assert page_of(rows, FleetView(page=99)).page == 3
    assert page_of([], FleetView(page=99)).page == 1


ORDERS = {
    "state": [{"rank": 0}, {"rank": 3, "change": {"kind": "upgrade", "waits": True}}, {"rank": 3}],
    "flow": [{"input_rate": 5.0}, {"input_rate": 0.0}, {"input_rate": None}],
    "backlog": [{"backlog": {"records": 7}}, {"backlog": {"records": 0}}, {"backlog": None}],
    "watermark": [{"watermark_delay_s": 60.0}, {"watermark_delay_s": 1.0}, {}],
    "batch": [{"batch_ms": 900}, {"batch_ms": 10}, {}],
    "restarts": [{"restarts_24h": 3}, {"restarts_24h": 0}, {}],
    "backup": [{"backup": None}, {"backup": {"at": "2026-11-01T00:00:00+00:00"}}, {"backup": {"at": "2026-11-02T00:00:00+00:00"}}],
    "version": [{"spark": ""}, {"spark": "4.2.0", "deployment": 1}, {"spark": "4.2.0", "deployment": 2}],
    "change": [{"event": {"at": "2026-11-02T00:00:00+00:00"}}, {"event": {"at": "2026-11-01T00:00:00+00:00"}}, {}],
}  # fmt: skip
"""By column, what is first, second and third."""


@pytest.mark.parametrize("column", ORDERS)
def test_a_column_orders_and_is_reversed(column: Column) -> None:
    first, second, third = (
        a_row(name, **more) for name, more in zip("cab", ORDERS[column], strict=True)
    )
    rows = [third, first, second]

    assert names(rows, column=column) == ["c", "a", "b"]
    assert names(rows, column=column, is_reversed=True) == ["b", "a", "c"]


def test_the_newest_of_one_level_comes_first_and_names_decide_the_rest() -> None:
    rows = [
        a_row("b", since="2026-11-01T00:00:00+00:00"),
        a_row("c", since="2026-11-02T00:00:00+00:00"),
        a_row("a", since="2026-11-01T00:00:00+00:00"),
    ]

    assert names(rows) == ["c", "a", "b"]
    assert names(rows, column="stream") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders", ["orders_eu"]),
        ("ORDERS  4.3", ["orders_eu"]),
        ("gave up", ["clicks"]),
        ("not working", ["payments"]),
        ("upgrade", ["orders_eu"]),
        ("external", ["partner"]),
        ("team=shop tier=1", ["payments"]),
        ("team=", ["clicks", "payments"]),
        ("orders nosuch", []),
        ("", ["clicks", "payments", "orders_eu", "partner"]),
    ],
)
def test_a_search_finds_rows_that_have_every_word(text: str, found: list[str]) -> None:
    rows = [
        a_row("orders_eu", spark="4.3.0", change={"kind": "upgrade"}),
        a_row("clicks", Level.DOWN, state="gave_up", labels=["team=web"]),
        a_row("payments", Level.BAD, state="hung", labels=["team=shop", "tier=1"]),
        a_row("partner", external=True),
    ]

    assert names(rows, text=text) == found


def test_filters_by_level_and_dag_leave_the_figures_of_all_streams() -> None:
    rows = [a_row("a", Level.DOWN), a_row("b"), a_row("c", Level.DOWN)]

    page = page_of(rows, FleetView(level=Level.DOWN, dag="dag_c"))

    assert [row["stream"] for row in page.rows] == ["c"]
    assert (page.found, page.total, page.counts) == (1, 3, {"down": 2, "well": 1})


def test_what_was_not_seen_is_counted_and_the_oldest_look_is_told() -> None:
    rows = [
        a_row("a", age=None, state="reading"),
        a_row("b", age=40.5, away="The home is away."),
        a_row("c", age=2.0, away="The home is away."),
    ]

    page = page_of(rows, FleetView())

    assert (page.reading, page.oldest, page.away) == (1, 40.5, ["The home is away."])
    assert page_of([], FleetView()).oldest is None


def test_streams_are_grouped_by_a_label_and_the_worst_group_comes_first() -> None:
    rows = [
        a_row("a", labels=["team=web", "tier=1"]),
        a_row("b", labels=["team=web"]),
        a_row("c", Level.WARN, labels=["team=shop"]),
        a_row("d"),
    ]

    told = page_of(rows, FleetView(group="team", label="team=web")).to_dict()

    assert told["keys"] == {"team": 3, "tier": 1}
    assert told["groups"] == [
        {"label": "team=shop", "streams": 1, "urgent": 1},
        {"label": "team=web", "streams": 2, "urgent": 0},
    ]
    assert [row["stream"] for row in told["streams"]] == ["a", "b"]
    assert told["found"] == 2
    assert page_of(rows, FleetView()).groups == ()


def test_a_page_has_a_bounded_number_of_groups() -> None:
    rows = [a_row(f"s{n}", labels=[f"key{n}=1", f"team={n}"]) for n in range(500)]

    page = page_of(rows, FleetView(group="team"))

    assert len(page.groups) == len(page.keys) == MOST_GROUPS
