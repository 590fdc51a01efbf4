"""The distance of green to blue while it catches up, for people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.changes.judging.lag import QueryLag, lags_of
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.progress import MAX_OFFSET, BatchProgress, SourceProgress
from airflow_streaming.model.status import Status
from tests.unit.supervision.builders import NOW, a_batch, a_query, a_status

ENDS = '{"orders":{"0":900,"1":700}}'


def source(**told: Any) -> SourceProgress:
    return SourceProgress(source="orders", **told)


def batch(*sources: SourceProgress, watermark: str | None = None, ago: float = 0) -> BatchProgress:
    at = format_time(NOW - timedelta(seconds=ago))
    return a_batch(batch_id=int(1_000 - ago), at=at, sources=sources, watermark=watermark)


def lane(newest: BatchProgress | None, name: str = "revenue") -> Status:
    count = 0 if newest is None else 7
    return a_status(queries=(a_query(name=name, progress=newest, batches=count),))


def lag(
    green: BatchProgress | None, blue: BatchProgress | None, *earlier: BatchProgress
) -> QueryLag:
    [found] = lags_of(lane(green), lane(blue), earlier)
    return found


NOT_TOLD = "distance not known, because its sources report no backlog"


@pytest.mark.parametrize(
    ("green", "blue", "text"),
    [
        pytest.param(
            source(end_offset='{"orders":{"0":400,"1":699}}', backlog_records=2_000.0),
            source(end_offset=ENDS, backlog_records=3.0),
            "501 records behind blue, 2,000 records left to read",
            id="positions-of-partitions",
        ),
        pytest.param(
            source(end_offset='{"orders":{"0":899,"1":9000}}'),
            source(end_offset=ENDS),
            "1 record behind blue",
            id="a-partition-ahead-makes-up-for-none",
        ),
        pytest.param(
            source(end_offset='{"orders":{"0":900,"1":700,"2":5}}', backlog_records=0.0),
            source(end_offset=ENDS, backlog_records=0.0),
            "level with blue",
            id="level",
        ),
        pytest.param(
            source(end_offset='{"orders":{"0":900}}', backlog_records=250.0),
            source(end_offset=ENDS, backlog_records=50.0),
            "200 records behind blue, 250 records left to read",
            id="a-partition-that-green-lacks",
        ),
        pytest.param(
            source(end_offset=ENDS[: MAX_OFFSET - 2] + " ...", backlog_records=40.0),
            source(end_offset=ENDS, backlog_records=50.0),
            "level with blue, 40 records left to read",
            id="an-offset-that-was-cut",
        ),
        pytest.param(
            source(end_offset='{"logOffset":3}', backlog_files=120.0),
            source(end_offset='{"logOffset":900}', backlog_files=20.0),
            "100 files behind blue, 120 files left to read",
            id="files",
        ),
        pytest.param(
            source(backlog_files=120.0),
            source(backlog_bytes=20.0),
            "120 files left to read",
            id="other-units",
        ),
        pytest.param(source(end_offset="7"), source(end_offset="9"), NOT_TOLD, id="numbers"),
    ],
)
def test_the_distance_is_told_in_the_unit_of_the_source(
    green: SourceProgress, blue: SourceProgress, text: str
) -> None:
    assert lag(batch(green), batch(blue)).text() == f"query 'revenue': {text}"


def test_all_sources_of_a_query_count() -> None:
    mine = batch(source(end_offset='{"a":{"0":1}}'), source(end_offset='{"b":{"0":5}}'))
    blues = batch(source(end_offset='{"a":{"0":4}}'), source(end_offset='{"b":{"0":9}}'))
    half = batch(source(end_offset='{"a":{"0":4}}'), source(end_offset="9"))

    assert "7 records behind" in lag(mine, blues).text()
    assert lag(mine, half).behind is None


@pytest.mark.parametrize(
    ("green", "blue", "seconds"),
    [
        ("2026-11-21T10:00:00.000Z", "2026-11-21T11:30:00.000Z", 5_400),
        ("2026-11-21T11:40:00.000Z", "2026-11-21T11:30:00.000Z", 0),
        ("1970-01-01T00:00:00.000Z", "2026-11-21T11:30:00.000Z", None),
        (None, "2026-11-21T11:30:00.000Z", None),
        ("2026-11-21T11:40:00.000Z", None, None),
        ("soon", "2026-11-21T11:30:00.000Z", None),
    ],
)
def test_event_time_is_compared_where_both_have_a_watermark(
    green: str | None, blue: str | None, seconds: float | None
) -> None:
    found = lag(batch(source(), watermark=green), batch(source(), watermark=blue))

    assert found.event_time_s == seconds
    assert ("90 min of event time behind blue" in found.text()) is bool(seconds)
    assert (NOT_TOLD in found.text()) is (seconds is None)


def test_rows_that_are_read_and_event_time_that_lags_are_not_level() -> None:
    here = source(end_offset=ENDS)
    found = lag(
        batch(here, watermark="2026-11-21T10:00:00Z"),
        batch(here, watermark="2026-11-21T10:00:30Z"),
    )

    assert not found.is_level
    assert "30 s of event time behind blue" in found.text()


def test_the_present_speed_tells_when_it_is_level() -> None:
    earlier = [
        batch(source(backlog_files=left), ago=ago) for ago, left in ((60, 700.0), (30, 600.0))
    ]
    found = lag(batch(source(backlog_files=400.0)), batch(source(backlog_files=100.0)), *earlier)

    assert found.level_in_s == 60
    assert found.text().endswith("level in about 1 min at its present speed")


def test_only_the_newest_twenty_batches_make_the_speed() -> None:
    slow = [batch(source(backlog_files=9_000.0), ago=ago) for ago in range(900, 30, -30)]
    fast = [batch(source(backlog_files=300.0 + 10 * ago), ago=ago) for ago in range(19, 0, -1)]
    found = lag(batch(source(backlog_files=300.0)), batch(source(backlog_files=0.0)), *slow, *fast)

    assert found.level_in_s == 30


def test_a_backlog_that_grows_says_so() -> None:
    earlier = batch(source(backlog_records=100.0), ago=10)
    found = lag(
        batch(source(backlog_records=15_100.0)), batch(source(backlog_records=0.0)), earlier
    )

    assert found.level_in_s is None
    assert "not catching up: its backlog grows by 1,500 records a second" in found.text()


@pytest.mark.parametrize(
    "earlier",
    [
        pytest.param([], id="one-batch"),
        pytest.param([batch(source(backlog_bytes=99.0), ago=9)], id="another-unit"),
        pytest.param([batch(source(backlog_files=5.0), ago=9)], id="no-move"),
        pytest.param([replace(batch(source(backlog_files=9.0)), batch_id=1)], id="one-moment"),
    ],
)
def test_no_time_is_promised_without_two_figures(earlier: list[BatchProgress]) -> None:
    found = lag(batch(source(backlog_files=5.0)), batch(source(backlog_files=0.0)), *earlier)

    assert found.level_in_s is None
    assert "level in" not in found.text()


def test_a_query_before_its_first_batch_has_no_distance() -> None:
    found = lag(None, batch(source(backlog_files=9.0)))

    assert found.text() == "query 'revenue': its driver has committed no batch yet"
    assert found.to_dict()["behind"] is None


def test_a_query_that_blue_lacks_shows_its_own_backlog() -> None:
    mine, earlier = batch(source(backlog_files=90.0)), batch(source(backlog_files=180.0), ago=30)
    [found] = lags_of(lane(mine), lane(batch(source(backlog_files=0.0)), name="old"), [earlier])

    assert found.text() == (
        "query 'revenue': blue has no query of this name, 90 files left to read, "
        "level in about 30 s at its present speed"
    )


def test_lanes_without_a_driver_have_no_distance() -> None:
    assert lags_of(None, None) == ()
    [found] = lags_of(lane(batch(source(backlog_files=1.0))), None)
    assert found.behind is None


def test_a_program_gets_amounts_with_their_unit() -> None:
    found = lag(batch(source(backlog_files=3.0)), batch(source(backlog_files=1.0)))

    assert found.to_dict() == {
        "query": "revenue",
        "batches": 7,
        "behind": {"unit": "files", "amount": 2.0},
        "left": {"unit": "files", "amount": 3.0},
        "event_time_s": None,
        "level_in_s": None,
        "text": "2 files behind blue, 3 files left to read",
    }
