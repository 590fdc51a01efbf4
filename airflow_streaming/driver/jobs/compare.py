"""
The driver of a comparison: reads two outputs and reports where they differ.

The files are listed once, when the output is opened; every count uses this list. Where a file sink
keeps a log, Spark lists the files of committed batches, so a batch is complete or absent. Files
that other writers replace meanwhile are read again.

It writes only its reports, one per line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.jobs.caller import leave_with_caller
from airflow_streaming.driver.jobs.compare_columns import (
    Absent,
    Unfit,
    check_time,
    columns_that_differ,
    open_output,
    spans_of,
    split,
    usable_keys,
    usable_sums,
    was_replaced,
    with_moment,
    within,
)
from airflow_streaming.driver.jobs.compare_counts import compare_groups, compare_rows
from airflow_streaming.driver.jobs.drill import leave_after
from airflow_streaming.driver.jobs.scratch_patch import sentence_of
from airflow_streaming.driver.script import error_of
from airflow_streaming.model.jobs.comparison import (
    CommonTime,
    CompareOrder,
    CompareReport,
    CompareResult,
    ComparisonRequest,
    LaterLooks,
    SideFound,
    common_time,
    judge_comparison,
    not_made,
)

TRIES: Final = 3
"""Times an output is read whose files are replaced meanwhile."""
LEAST_LOOKS: Final = 2
"""Least number of later looks at outputs that differ where rows may be in flight."""
MOST_LOOKS: Final = 12
"""Most later looks: each reads both outputs."""


def run(arguments: Sequence[str]) -> int:
    """Execute the order and end the process."""
    log_to_stderr()
    order = CompareOrder.from_bytes(Path(arguments[0]).read_bytes())
    leave_with_caller(order.held, order.scratch)
    leave_after(order.seconds, "The comparison")
    session = _session()
    for asked in order.asked:
        report = Comparison(session, asked).report()
        with Path(order.reports).open("ab") as file:
            file.write(report.to_bytes())
    return 0


class Comparison:
    """
    A comparison.

    :param session: Spark's session; see ``fitted`` for the settings that it needs.
    :param sleep: Sleeps for a number of seconds.
    """

    def __init__(
        self, session: Any, asked: ComparisonRequest, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._session, self._asked, self._sleep = session, asked, sleep

    def report(self) -> CompareReport:
        """Compare, and report the result; errors are part of the report."""
        begun = time.monotonic()
        report = self._look(None)
        in_flight = self._asked.bound.in_flight
        looks = LaterLooks.within(in_flight, least=LEAST_LOOKS, most=MOST_LOOKS)
        for number in range(1, looks.number + 1):
            if not self._may_be_in_flight(report):
                break
            self._sleep(looks.pause)
            before, common = report, CommonTime(begin=report.common_from, end=report.common_until)
            report = self._look(common)
            note = f"A look {looks.pause:.0f} s before this one found differences."
            report = replace(report, notes=(*report.notes, note))
            has_waited = number * looks.pause >= in_flight.total_seconds()
            if has_waited and _rows(report) == _rows(before):
                break
        seconds = round(time.monotonic() - begun, 3)
        return replace(report, seconds=seconds, spark=str(self._session.version))

    def _may_be_in_flight(self, report: CompareReport) -> bool:
        # If the end of the time is estimated from the last rows, a batch that is being committed
        # can be there in part. A real difference shows again at the next comparison.
        bound = self._asked.bound
        is_known = bound.until is not None or (bound.blue is not None and bound.green is not None)
        return report.result is CompareResult.DIFFERS and not report.columns and not is_known

    def _look(self, common: CommonTime | None) -> CompareReport:
        report = self._tried(datetime.now(UTC), common)
        if report.error:
            return report
        return judge_comparison(report, self._asked.terms, self._asked.bound)

    def _tried(self, at: datetime, common: CommonTime | None) -> CompareReport:
        for attempt in range(1, TRIES + 1):
            try:
                return self._measured(at, common)
            except Unfit as err:
                return not_made(self._asked, str(err), at=at, refused=True)
            except Exception as err:  # noqa: BLE001 - an error of measuring says nothing of green
                if attempt < TRIES and was_replaced(err):
                    logger.warning("Files were replaced while they were read; reading once more.")
                    continue
                told = sentence_of(error_of(err))
                return not_made(self._asked, f"The outputs could not be compared: {told}", at=at)
        raise AssertionError  # the last attempt has returned

    def _measured(self, at: datetime, common: CommonTime | None) -> CompareReport:
        asked = self._asked
        blue, blue_found = self._opened(asked.blue)
        green, green_found = self._opened(asked.green)
        empty = CompareReport(
            stream=asked.terms.stream,
            result=CompareResult.INCONCLUSIVE,
            reason="",
            at=at,
            blue=blue_found,
            green=green_found,
        )
        if blue is None and green is None:
            return empty
        # A side that is not there yet has no rows, and the other one's columns.
        none = (green if blue is None else blue).limit(0)
        blue, green = none if blue is None else blue, none if green is None else green
        return _figured(empty, blue, green, asked, common)

    def _opened(self, uri: str) -> tuple[Any, SideFound]:
        try:
            return open_output(self._session, uri, self._asked.terms), SideFound(uri=uri)
        except Absent as absent:
            return None, SideFound(uri=uri, exists=absent.exists)


def _rows(report: CompareReport) -> tuple[int, int]:
    return report.blue.rows, report.green.rows


def _figured(
    report: CompareReport,
    blue: Any,
    green: Any,
    request: ComparisonRequest,
    common: CommonTime | None,
) -> CompareReport:
    terms = request.terms
    columns = tuple(columns_that_differ(blue, green, terms))
    report = replace(report, columns=columns)
    keys, sums = usable_keys(blue, green, terms), usable_sums(blue, green, terms)
    if not check_time(blue, green, terms):
        # No time to cut both by; that difference is reported and outweighs everything else.
        return replace(
            report,
            blue=replace(report.blue, rows=blue.count()),
            green=replace(report.green, rows=green.count()),
        )
    blue, green = with_moment(blue, terms.time), with_moment(green, terms.time)
    found = spans_of(blue, green, (report.blue, report.green))
    common = common or common_time(terms, request.bound, *found)
    found = split(blue, green, found, common)
    report = replace(
        report,
        blue=found[0],
        green=found[1],
        common_from=common.begin,
        common_until=common.end,
    )
    blue, green = within(blue, common), within(green, common)
    groups = compare_groups(blue, green, terms, keys, sums)
    return replace(
        report,
        groups=groups.all,
        differing=groups.differing,
        differences=groups.named,
        full=compare_rows(blue, green, terms) if terms.full else None,
    )


def _session() -> Any:
    from pyspark.sql import SparkSession

    return fitted(SparkSession.builder.appName("airflow-streaming comparison").getOrCreate())


def fitted(session: Any) -> Any:
    """Return a session with the settings of a comparison."""
    # Times are compared as instants, and a sum that does not fit is an error, never a null.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "16")
    return session
