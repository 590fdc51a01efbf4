"""The order in which the streams of a maintenance start again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.model.records.control import HeldStream, Maintenance
from airflow_streaming.services.maintenance import losing, starts

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("losses", "at_once", "minutes"),
    [
        pytest.param([None, None, None], 10, [0, 0, 0], id="together"),
        pytest.param([None, None, None], 1, [0, 1, 2], id="one by one, in the order of data"),
        pytest.param([None, 3, 2], 1, [2, 1, 0], id="little time to data loss first"),
        pytest.param([None, 3, 2, None], 2, [1, 0, 0, 1], id="two at a time"),
    ],
)
def test_a_stream_that_loses_data_sooner_starts_sooner(
    losses: list[int | None], at_once: int, minutes: list[int]
) -> None:
    named = {str(n): None if h is None else NOON + h * HOUR for n, h in enumerate(losses)}

    found = starts(named, NOON, at_once=at_once, spacing=MINUTE)

    assert [found[name] for name in named] == [NOON + n * MINUTE for n in minutes]


def test_streams_that_lose_data_before_their_end_are_found() -> None:
    streams = (
        HeldStream(name="a", until=NOON),
        HeldStream(name="b", until=NOON, loss_at=NOON - MINUTE),
        HeldStream(name="c", until=NOON, loss_at=NOON + MINUTE),
    )
    told = {"number": 1, "selector": "", "key": "", "reason": "", "by": "", "at": NOON}

    assert [one.name for one in losing(Maintenance(**told, until=NOON, streams=streams))] == ["b"]
