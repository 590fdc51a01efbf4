"""What ``airflow-streaming compare`` does, and how it shows what it found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.page import NOT_WRITTEN, write_page
from airflow_streaming.cli.program import runtime_named
from airflow_streaming.cli.table import printable
from airflow_streaming.core.cutover.comparing.judge import shown
from airflow_streaming.core.cutover.comparing.page import as_markdown
from airflow_streaming.core.cutover.comparing.report import (
    Bound,
    CompareReport,
    CompareResult,
    SideFound,
)
from airflow_streaming.core.cutover.terms import CompareTerms
from airflow_streaming.core.uris import check_uri
from airflow_streaming.cutover.outputs import compare
from airflow_streaming.exceptions import SpecError

WRONG_USE: Final = 2

CODES: Final = {
    CompareResult.SAME: 0,
    CompareResult.DIFFERS: 1,
    CompareResult.INCONCLUSIVE: 3,
}


def run(arguments: argparse.Namespace) -> int:
    """
    Compare, show what was found, and return the exit code.

    :raises SpecError: an argument that cannot be.
    """
    found = compare(
        _terms(arguments),
        check_uri(arguments.blue, "output of blue"),
        check_uri(arguments.green, "output of green"),
        runtime_named(arguments.runtime),
        bound=Bound(since=arguments.since, until=arguments.until),
        timeout=timedelta(seconds=arguments.seconds),
        progress=Told(),
    )
    if found.refused:
        raise SpecError(found.error)
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print("\n".join(printable(line) for line in lines(found)))
    if not write_page(arguments.report, as_markdown(found)):
        return NOT_WRITTEN
    return CODES[found.result]


def lines(found: CompareReport) -> Iterator[str]:
    """Return a report as lines of text."""
    yield f"{found.result.value.upper()}: {found.reason}"
    for name, side in (("blue", found.blue), ("green", found.green)):
        yield f"  {name:5} {side.uri}: {_side(side)}"
    for column in found.columns:
        yield f"  column {column.column}: {column.blue or 'none'} / {column.green or 'none'}"
    for difference in found.differences:
        yield f"  {shown(difference)}"
    if found.full is not None:
        for row in found.full.sample:
            yield f"  only in {row}"
    for note in found.notes:
        yield f"  {note}"


def _side(side: SideFound) -> str:
    if not side.exists:
        return "there is nothing"
    return (
        f"{side.rows:,} rows, {side.compared:,} compared, {side.before:,} earlier, "
        f"{side.after:,} later"
    )


def _terms(arguments: argparse.Namespace) -> CompareTerms:
    if arguments.bucket <= 0:
        raise SpecError("--bucket is the length of a time bucket in seconds; it has to be above 0.")
    return CompareTerms(
        stream="output",
        format=arguments.format,
        time=arguments.time,
        bucket=timedelta(seconds=arguments.bucket),
        keys=tuple(arguments.key),
        sums=tuple(arguments.sum),
        full=arguments.full,
        ignore=tuple(arguments.ignore),
        tolerance=arguments.tolerance,
        settled=timedelta(seconds=arguments.settled),
        least_rows=arguments.least_rows,
        options=dict(arguments.option),
    )
