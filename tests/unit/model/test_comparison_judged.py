"""What figures of two outputs say, and the time in which they can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.changes.judging.lane_figures import bound_of
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    Bound,
    ColumnDiffers,
    CommonTime,
    CompareReport,
    CompareResult,
    GroupDiffers,
    RowsDiffer,
    SideFound,
    bucket_of,
    common_time,
    judge_comparison,
)
from airflow_streaming.reports.comparison import comparison_report
from airflow_streaming.reports.markdown import markdown
from tests.unit.supervision.builders import NOW, a_batch, minutes, seconds

TERMS = CompareTerms(stream="sales", time="at", keys=("store",), sums=("amount",))
SAME, DIFFERS, INCONCLUSIVE = CompareResult
NONE = SideFound(uri="/blue", exists=False)


def clock(text: str) -> datetime:
    return NOW.replace(hour=int(text[:2]), minute=int(text[3:]))


def a_side(first: str = "04:10", last: str = "09:50", **changes: Any) -> SideFound:
    fields: dict[str, Any] = {
        "uri": "/out",
        "rows": 40,
        "first": clock(first),
        "last": clock(last),
        "compared": 30,
    }
    return SideFound(**fields | changes)


@pytest.mark.parametrize(
    ("bound", "blue", "green", "begin", "end"),
    [
        pytest.param(
            *(Bound(blue=clock("09:00"), green=clock("08:30")), a_side(), a_side()),
            *("04:00", "08:30"),
            id="until-the-older-watermark",
        ),
        pytest.param(
            *(Bound(), a_side(last="09:50"), a_side(last="09:20"), "04:00", "09:20"),
            id="without-watermarks-until-the-last-row-of-the-side-behind",
        ),
        pytest.param(
            *(Bound(blue=clock("09:00")), a_side(), a_side(last="08:00"), "04:00", "08:00"),
            id="with-one-watermark",
        ),
        pytest.param(
            *(Bound(until=clock("09:30")), a_side(), a_side(last="08:00"), "04:00", "09:30"),
            id="until-a-time-that-is-known",
        ),
        pytest.param(
            *(Bound(blue=clock("09:00"), green=clock("09:00")), a_side(), a_side("05:10")),
            *("06:00", "09:00"),
            id="from-the-first-whole-bucket-of-the-side-that-begins-later",
        ),
        pytest.param(
            *(Bound(since=clock("05:30"), blue=clock("09:00"), green=clock("09:00")),),
            *(a_side(), a_side("06:10"), "05:30", "09:00"),
            id="from-a-time-that-is-known",
        ),
    ],
)
def test_outputs_are_compared_in_the_time_that_both_have_written(
    bound: Bound, blue: SideFound, green: SideFound, begin: str, end: str
) -> None:
    found = common_time(TERMS, bound, blue, green)

    assert found == CommonTime(begin=clock(begin), end=clock(end))


def test_where_both_have_come_to_the_same_last_row_it_is_compared() -> None:
    found = common_time(TERMS, Bound(), a_side(), a_side())

    assert found.end is not None
    assert found.end > clock("09:50")


@pytest.mark.parametrize("empty", ["blue", "green"])
def test_beside_a_lane_without_rows_the_time_has_no_begin(empty: str) -> None:
    sides = {"blue": a_side(), "green": a_side(), empty: SideFound(uri="/out", rows=0)}

    assert common_time(TERMS, Bound(blue=NOW, green=NOW), **sides).begin is None


def test_rows_that_may_be_in_flight_are_left_out() -> None:
    bound = Bound(blue=clock("09:00"), green=clock("08:00"))
    found = common_time(replace(TERMS, settled=minutes(10)), bound, a_side(), a_side())

    assert found.end == clock("07:50")


def test_without_a_time_column_everything_is_compared() -> None:
    found = common_time(replace(TERMS, time=""), Bound(blue=NOW), a_side(), a_side())

    assert found == CommonTime()


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-(10**15), 10**15).map(lambda micros: NOW + seconds(micros / 1e6)),
    st.integers(1, 10**11).map(lambda micros: seconds(micros / 1e6)),
)
def test_a_bucket_begins_at_or_before_its_moments(moment: datetime, length: Any) -> None:
    begin = bucket_of(moment, length)

    assert begin <= moment < begin + length
    assert bucket_of(begin, length) == begin


def a_report(**changes: Any) -> CompareReport:
    fields: dict[str, Any] = {
        "stream": "sales",
        "result": INCONCLUSIVE,
        "reason": "",
        "at": NOW,
        "blue": a_side(),
        "green": a_side(),
        "common_from": clock("04:00"),
        "common_until": clock("09:00"),
        "groups": 12,
    }
    return CompareReport(**fields | changes)


def a_difference(**changes: Any) -> GroupDiffers:
    fields: dict[str, Any] = {
        "bucket": "2026-11-21T06:00:00+00:00",
        "key": {"store": "s2"},
        "what": "sum of amount",
        "blue": "6.50",
        "green": "6.00",
    }
    return GroupDiffers(**fields | changes)


LATER = a_side(after=7, compared=33)
WRONG = a_report(differing=2, differences=(a_difference(), a_difference(what="rows")))
WHOLE = Bound(from_beginning=True)
EMPTY = replace(NONE, exists=True)


@pytest.mark.parametrize(
    ("report", "bound", "result", "says"),
    [
        pytest.param(a_report(), Bound(), SAME, "30 rows in 12 buckets and keys", id="same"),
        pytest.param(
            a_report(blue=LATER), Bound(), SAME, "Not compared: 7 later rows of blue", id="later"
        ),
        pytest.param(a_report(blue=EMPTY, green=NONE), WHOLE, INCONCLUSIVE, "Neither", id="none"),
        pytest.param(
            a_report(green=NONE), WHOLE, DIFFERS, "Green has written no row", id="no-rows"
        ),
        pytest.param(
            a_report(green=NONE), Bound(since=NOW), DIFFERS, "no row", id="no-rows-since-it-began"
        ),
        pytest.param(
            a_report(green=NONE), Bound(), INCONCLUSIVE, "not known", id="no-rows-perhaps-rightly"
        ),
        pytest.param(
            a_report(blue=a_side(compared=0), green=NONE),
            WHOLE,
            INCONCLUSIVE,
            "not known",
            id="no-rows-and-blue-none-that-is-settled",
        ),
        pytest.param(
            a_report(blue=EMPTY), WHOLE, DIFFERS, "Blue has written no row", id="only-green"
        ),
        pytest.param(
            a_report(columns=(ColumnDiffers(column="amount", blue="double", green=""),)),
            Bound(),
            DIFFERS,
            "amount is double in blue and missing in green",
            id="columns",
        ),
        pytest.param(
            a_report(blue=a_side(compared=0), green=a_side(compared=0)),
            Bound(),
            INCONCLUSIVE,
            "Too few rows",
            id="nothing-in-common-time",
        ),
        pytest.param(
            a_report(blue=a_side(compared=1), green=a_side(compared=1)),
            Bound(),
            SAME,
            "same",
            id="one-row-is-enough",
        ),
        pytest.param(
            WRONG, Bound(), DIFFERS, "store=s2: sum of amount 6.50 in blue, 6.00", id="groups"
        ),
        pytest.param(
            WRONG, Bound(late_rows=1), DIFFERS, "differ", id="more-than-late-rows-explain"
        ),
        pytest.param(WRONG, Bound(late_rows=2), INCONCLUSIVE, "dropped as late", id="late-rows"),
        pytest.param(
            a_report(full=RowsDiffer(blue=2, green=1, sample=("blue: {}",))),
            Bound(),
            DIFFERS,
            "2 rows are only in blue and 1 only in green",
            id="rows",
        ),
        pytest.param(
            a_report(full=RowsDiffer(blue=2, green=1)),
            Bound(late_rows=2),
            INCONCLUSIVE,
            "dropped as late",
            id="late-rows-one-by-one",
        ),
        pytest.param(
            a_report(green=a_side("06:10")),
            WHOLE,
            INCONCLUSIVE,
            "blue has rows before 2026-11-21T06:00:00Z and green has none",
            id="begins-later-than-it-should",
        ),
        pytest.param(a_report(green=a_side("06:10")), Bound(), SAME, "same", id="begins-later"),
    ],
)
def test_a_difference_is_one_only_where_nothing_else_explains_it(
    report: CompareReport, bound: Bound, result: CompareResult, says: str
) -> None:
    found = judge_comparison(report, TERMS, bound)

    assert found.result is result, found.reason
    assert says in found.reason


LACKING = a_difference(bucket="2026-11-21T08:00:00+00:00", what="rows", blue="3", green="0")


@pytest.mark.parametrize(
    ("differences", "terms", "bound", "result"),
    [
        pytest.param((LACKING,), TERMS, Bound(), INCONCLUSIVE, id="not-closed-yet"),
        pytest.param((LACKING, a_difference()), TERMS, Bound(), DIFFERS, id="earlier-ones-too"),
        pytest.param(
            (replace(LACKING, green="2"),), TERMS, Bound(), DIFFERS, id="rows-on-both-sides"
        ),
        pytest.param(
            (LACKING,), replace(TERMS, settled=minutes(1)), Bound(), DIFFERS, id="it-is-settled"
        ),
        pytest.param((LACKING,), TERMS, Bound(until=NOW), DIFFERS, id="both-are-complete"),
        pytest.param(
            (LACKING,), replace(TERMS, bucket=minutes(1440)), Bound(), DIFFERS, id="a-single-bucket"
        ),
    ],
)
def test_windows_that_one_side_has_not_closed_are_no_difference_yet(
    differences: tuple[GroupDiffers, ...], terms: CompareTerms, bound: Bound, result: CompareResult
) -> None:
    report = a_report(differing=len(differences), differences=differences)

    assert judge_comparison(report, terms, bound).result is result


def test_no_rows_are_named_before_a_schema_that_nobody_wrote() -> None:
    columns = (ColumnDiffers(column="amount", blue="double", green=""),)

    assert "no row" in judge_comparison(a_report(green=NONE, columns=columns), TERMS, WHOLE).reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda report: report, "## Comparison of sales\n\nResult: **differs**\n\nTwo differ.\n"),
        (lambda report: report, "| 2026-11-21T06:00:00+00:00 | s2 | sum of amount | 6.50 | 6.00 |"),
        (lambda report: replace(report, green=NONE), "/blue (nothing there)"),
        (lambda report: replace(report, stream="[a](b)"), r"\[a\](b)"),
        (
            lambda report: replace(report, full=RowsDiffer(sample=("blue: `x`",))),
            "- `` blue: `x` ``",
        ),
    ],
    ids=["result", "difference", "nothing-there", "no-markup", "rows"],
)
def test_the_page_shows_both_sides_and_every_difference(
    change: Callable[[CompareReport], CompareReport], says: str
) -> None:
    assert says in markdown(
        comparison_report(change(replace(WRONG, result=DIFFERS, reason="Two differ.")))
    )


def test_the_bound_is_what_committed_batches_have_written() -> None:
    blue = [
        a_batch(batch_id=1, watermark="2026-11-21T10:00:00.000Z"),
        a_batch(batch_id=2, watermark="2026-11-21T11:00:00.000Z", dropped_rows=2),
        a_batch(query="counts", watermark="2026-11-21T10:30:00.000Z"),
        a_batch(query="plain"),
    ]
    green = [a_batch(watermark="1970-01-01T00:00:00.000Z", dropped_rows=1)]

    bound = bound_of(blue, green, from_beginning=True)

    assert bound == Bound(
        blue=NOW.replace(hour=10, minute=30), green=None, from_beginning=True, late_rows=3
    )
