"""The driver of a comparison around Spark: later looks and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from math import ceil
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.jobs.compare import MOST_LOOKS, Comparison
from airflow_streaming.driver.jobs.compare_columns import Unfit, columns_that_differ, was_replaced
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    PAUSE,
    Bound,
    CompareReport,
    CompareResult,
    ComparisonRequest,
    SideFound,
)
from tests.unit.supervision.builders import NOW

TERMS = CompareTerms(stream="sales", time="at")
ASKED = ComparisonRequest(terms=TERMS, blue="/blue", green="/green")
GONE = RuntimeError("[FAILED_READ_FILE.FILE_NOT_EXIST] File file:/out/part-0 does not exist.")


def found(*, differing: int, rows: int = 10) -> CompareReport:
    side = SideFound(uri="/out", rows=rows, first=NOW, last=NOW, compared=rows)
    return CompareReport(
        stream="sales",
        result=CompareResult.INCONCLUSIVE,
        reason="",
        at=NOW,
        blue=side,
        green=side,
        common_from=NOW,
        common_until=NOW,
        groups=5,
        differing=differing,
    )


Looks = Callable[..., tuple[CompareReport, list[Any]]]


@pytest.fixture
def waits() -> list[float]:
    """The pauses of the comparison, in seconds."""
    return []


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> Looks:
    def look(
        *answers: CompareReport | Exception, bound: Bound | None = None
    ) -> tuple[CompareReport, list[Any]]:
        left: Iterator[CompareReport | Exception] = iter(answers)
        seen: list[Any] = []

        def measured(_: Any, __: Any, common: Any) -> CompareReport:
            seen.append(common)
            answer = next(left)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(Comparison, "_measured", measured)
        asked = replace(ASKED, bound=bound or Bound())
        session = SimpleNamespace(version="4.3.0")
        report = Comparison(session, asked, waits.append).report()
        return report, seen

    return look


def test_rows_that_were_in_flight_are_no_difference(look: Looks) -> None:
    report, seen = look(found(differing=1), found(differing=0, rows=11))

    assert report.result is CompareResult.SAME
    # The second look is at the same span of time, not at a later one with rows in flight again.
    assert [common and (common.begin, common.end) for common in seen] == [None, (NOW, NOW)]


def test_what_differs_for_good_is_looked_at_until_nothing_changes(look: Looks) -> None:
    report, seen = look(found(differing=1), found(differing=1, rows=11), found(differing=1))

    assert (report.result, len(seen)) == (CompareResult.DIFFERS, 3)
    report, seen = look(found(differing=1), found(differing=1))
    assert (report.result, len(seen)) == (CompareResult.DIFFERS, 2)


@pytest.mark.parametrize("seconds", [20, 60, 3600])
def test_a_lane_with_a_long_trigger_has_the_time_to_write_the_rows_of_the_other(
    look: Looks, waits: list[float], seconds: int
) -> None:
    bound = Bound(in_flight=timedelta(seconds=seconds))
    differs = [found(differing=1)] * MOST_LOOKS

    report, _ = look(*differs[: ceil(seconds / PAUSE)], found(differing=0, rows=11), bound=bound)
    assert report.result is CompareResult.SAME
    assert sum(waits) == seconds, "it has waited, although no row arrived"

    report, _ = look(*differs, found(differing=1), bound=bound)
    assert report.result is CompareResult.DIFFERS
    assert sum(waits) == 2 * seconds, "a real difference is reported in time"


@pytest.mark.parametrize("bound", [Bound(blue=NOW, green=NOW), Bound(until=NOW)])
def test_where_everything_is_known_to_be_written_one_look_is_enough(
    look: Looks, bound: Bound
) -> None:
    report, seen = look(found(differing=1), bound=bound)

    assert (report.result, len(seen)) == (CompareResult.DIFFERS, 1)


def test_outputs_whose_files_are_replaced_are_read_again(look: Looks) -> None:
    report, seen = look(GONE, GONE, found(differing=0))

    assert (report.result, len(seen)) == (CompareResult.SAME, 3)


@pytest.mark.parametrize(
    ("answers", "refused"),
    [
        pytest.param((GONE, GONE, GONE), False, id="replaced-every-time"),
        pytest.param((RuntimeError("no space left"),), False, id="another-error"),
        pytest.param((Unfit("There is no such column."),), True, id="terms-that-do-not-fit"),
    ],
)
def test_what_cannot_be_measured_proves_nothing(
    look: Looks, answers: tuple[Exception, ...], *, refused: bool
) -> None:
    report, seen = look(*answers)

    assert report.result is CompareResult.INCONCLUSIVE
    assert str(answers[0])[-10:] in report.error
    assert (report.refused, len(seen)) == (refused, len(answers))


def test_only_errors_of_files_that_are_gone_are_tried_again() -> None:
    assert was_replaced(GONE)
    assert not was_replaced(RuntimeError("[DIVIDE_BY_ZERO] Division by zero."))


def test_columns_differ_by_type_whatever_their_order() -> None:
    blue = SimpleNamespace(dtypes=[("a", "int"), ("b", "string"), ("old", "int"), ("x", "int")])
    green = SimpleNamespace(dtypes=[("b", "string"), ("a", "bigint"), ("new", "int")])

    told = columns_that_differ(blue, green, replace(TERMS, ignore=("x",)))

    assert [(one.column, one.blue, one.green) for one in told] == [
        ("a", "int", "bigint"),
        ("old", "int", ""),
        ("new", "", "int"),
    ]
