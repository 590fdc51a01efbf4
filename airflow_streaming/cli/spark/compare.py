"""``airflow-streaming compare``: two outputs, by time bucket and key."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from typing import Final

from airflow_streaming.cli.common import (
    INCONCLUSIVE,
    OK,
    PROBLEM,
    add_repeated,
    add_report,
    add_runtime,
    duration,
    moment,
    number,
    pair,
    place_of,
    positive,
)
from airflow_streaming.cli.output import NOT_WRITTEN, answer, progress, write_page
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import Bound, CompareReport, CompareResult
from airflow_streaming.model.spark.plan import KAFKA
from airflow_streaming.model.uris import check_uri
from airflow_streaming.reports.comparison import comparison_report
from airflow_streaming.reports.markdown import markdown

CODES: Final = {
    CompareResult.SAME: OK,
    CompareResult.DIFFERS: PROBLEM,
    CompareResult.INCONCLUSIVE: INCONCLUSIVE,
}
_HOUR: Final = timedelta(hours=1)
_MOST_SECONDS: Final = 3_155_760_000.0
"""A hundred years."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(run=run)
    for color, what in (("blue", "the output that is trusted"), ("green", "the one to compare")):
        parser.add_argument(
            f"--{color}",
            required=True,
            metavar="URI",
            help=f"{what}; a topic with --format kafka (required)",
        )
    add_runtime(parser, "reads both outputs (required, but for topics)", required=False)
    _add_terms(parser.add_argument_group("what is compared"))
    _add_bound(parser.add_argument_group("which time is compared"))
    parser.add_argument(
        "--seconds",
        type=duration,
        default=timedelta(minutes=30),
        metavar="SECONDS",
        help="time limit of the Spark job (default: 1800)",
    )
    add_report(parser)


def _add_terms(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        default="parquet",
        help="of both outputs; kafka compares topics without a Spark (default: %(default)s)",
    )
    group.add_argument("--headers", action="store_true", help="compare the headers of records too")
    read = "option of the reader; repeatable; `schema` gives the columns; of topics {env.NAME} for a secret"
    add_repeated(group, "--option", "KEY=VALUE", read, pair)
    for name, what in (
        ("key", "by which rows belong together"),
        ("sum", "that is summed by bucket and key"),
        ("ignore", "that may differ, or be in one output only"),
    ):
        add_repeated(group, f"--{name}", "COLUMN", f"column {what}; repeatable")
    group.add_argument(
        "--time",
        default="",
        metavar="COLUMN",
        help="column with the event time; of topics value.FIELD, key or headers.NAME (default of topics: "
        "value.window.start)",
    )
    group.add_argument(
        "--bucket",
        type=number(0.001, _MOST_SECONDS, "seconds"),
        default=_HOUR.total_seconds(),
        metavar="SECONDS",
        help="length of a time bucket (default: %(default)g)",
    )
    group.add_argument("--full", action="store_true", help="compare every row as well")
    group.add_argument(
        "--tolerance",
        type=number(0, 0.999_999),
        default=0.0,
        metavar="SHARE",
        help="relative difference of a sum that is accepted, e.g. 0.001 (default: 0)",
    )
    group.add_argument(
        "--least-rows",
        type=positive,
        default=1,
        metavar="N",
        help="with fewer rows in the common time the result is inconclusive (default: %(default)s)",
    )


def _add_bound(group: argparse._ArgumentGroup) -> None:
    for name, what in (("since", "begin"), ("until", "end")):
        group.add_argument(
            f"--{name}",
            type=moment,
            metavar="TIME",
            help=f"{what} of the time in which both are complete, ISO 8601 with a zone (default: from "
            "the outputs)",
        )
    group.add_argument(
        "--complete-from",
        type=moment,
        metavar="TIME",
        help="of topics: leave out records whose --time is earlier, e.g. windows that began before a replay",
    )
    group.add_argument(
        "--settled",
        type=number(0, _MOST_SECONDS, "seconds"),
        default=0.0,
        metavar="SECONDS",
        help="leave out rows this close to the end of the common time (default: 0)",
    )


def run(arguments: argparse.Namespace) -> int:
    """
    Compare, print the findings, and return the exit code.

    :raises SpecError: an invalid argument.
    """
    terms = _terms(arguments)
    found = _topics(terms, arguments) if terms.format == KAFKA else _outputs(terms, arguments)
    if found.refused:
        raise SpecError(found.error)
    report = comparison_report(found)
    answer(report, found.to_dict(), as_json=arguments.json)
    is_written = write_page(arguments.report, lambda: markdown(report))
    return CODES[found.result] if is_written else NOT_WRITTEN


def _topics(terms: CompareTerms, arguments: argparse.Namespace) -> CompareReport:
    """
    Compare two topics in this process.

    :raises SpecError: a broker or an end of the time is missing.
    """
    from airflow_streaming.changes.topic_comparison import TopicRange, compare_topics
    from airflow_streaming.changes.topic_connection import (
        SERVERS,
        Launched,
        NoConnection,
        connection_of,
    )

    if not terms.options.get(SERVERS, "").strip():
        raise SpecError("Topics need --option kafka.bootstrap.servers=HOST:PORT.")
    if arguments.until is not None:
        raise SpecError("Topics are compared up to their ends. Leave --until out.")
    ranges = [
        TopicRange(topic=topic, since=arguments.since)
        for topic in (arguments.blue, arguments.green)
    ]
    try:
        options = connection_of({}, terms.options, Launched(env=os.environ))
    except NoConnection as err:
        raise SpecError(str(err)) from None
    return compare_topics(
        terms,
        *ranges,
        options=options,
        complete_from=arguments.complete_from,
        timeout=arguments.seconds,
    )


def _outputs(terms: CompareTerms, arguments: argparse.Namespace) -> CompareReport:
    from airflow_streaming.cli.spark.runtime import runtime_named
    from airflow_streaming.spark_jobs.compare import compare

    if arguments.runtime is None:
        raise SpecError("Outputs are read by a Spark. Give its --runtime.")
    with progress() as told:
        return compare(
            terms,
            check_uri(place_of(arguments.blue), "output of blue"),
            check_uri(place_of(arguments.green), "output of green"),
            runtime_named(arguments.runtime),
            bound=Bound(since=arguments.since, until=arguments.until),
            timeout=arguments.seconds,
            progress=told,
        )


def _terms(arguments: argparse.Namespace) -> CompareTerms:
    return CompareTerms(
        stream="output",
        format=arguments.format,
        headers=arguments.headers,
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
