"""The command ``windows``: the complete windows that a stream has announced, and requests for more."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_streaming.cli.common import (
    OK,
    Person,
    add_json,
    add_person,
    add_stream,
    moment,
)
from airflow_streaming.cli.output import show_json, show_lines
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.products.windows import ClaimOutcome, WindowClaim, window_key
from airflow_streaming.services.windows import request_windows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``windows``."""
    add_stream(parser)
    parser.add_argument("--series", metavar="NAME", help="which windows (default: the only series)")
    again = parser.add_argument_group("announce a range again")
    again.add_argument(
        "--from", dest="start", type=moment, metavar="TIME", help="begin, ISO 8601 with a zone"
    )
    again.add_argument("--until", type=moment, metavar="TIME", help="end of the range")
    add_json(parser)
    add_person(parser)


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """
    List the series of a stream, or request that a range is announced again.

    :raises SpecError: the range or the series is missing, unknown or empty.
    """
    start, end = arguments.start, arguments.until
    if (start is None) != (end is None):
        raise SpecError(
            f"A range of windows of stream {stream.name!r} has a begin and an end. Give --from and --until."
        )
    if start is None:
        return _list(stream, arguments)
    request = request_windows(
        *(stream, arguments.series or _only_series(stream), start, end),
        by=person.name,
        reason=person.reason,
    )
    if arguments.json:
        show_json({"stream": stream.name, "request": encode(request)})
    else:
        show_lines(
            [
                f"Request {request.number}: the windows {request.series} of {request} are announced again.",
                "The DAG that announces the windows follows it within a minute, if it is not paused.",
            ]
        )
    return OK


def _only_series(stream: StreamHome) -> str:
    known = stream.window_series()
    if len(known) == 1:
        return known[0]
    raise SpecError(
        f"Stream {stream.name!r} has {len(known)} series of windows: {', '.join(known) or 'none'}. "
        + ("Name one with --series." if known else "Run the DAG that announces the windows first.")
    )


def _list(stream: StreamHome, arguments: argparse.Namespace) -> int:
    wanted = [arguments.series] if arguments.series else stream.window_series()
    found = {name: _told(stream, name) for name in wanted}
    if arguments.json:
        show_json({"stream": stream.name, "series": found})
        return OK
    for name, told in found.items():
        line = (
            f"{name}: announced {told['since']} to {told['until']}; last claim {told['claim']} "
            f"({told['outcome']}, {told['windows']} windows), {told['requests']} open requests"
        )
        show_lines([line])
    if not found:
        show_lines([f"No windows of {stream.name} have been announced."])
    return OK


def _told(stream: StreamHome, series: str) -> dict[str, Any]:
    claim = stream.newest_window_claim(series)
    if claim is None:
        raise SpecError(
            f"Stream {stream.name!r} has no windows {series!r}; its series: "
            f"{', '.join(stream.window_series()) or 'none'}."
        )
    end = stream.window_claim_end(series, claim.number)
    counts = _counting(stream, claim)
    state = (counts or claim).state
    return {
        "since": window_key(state.since),
        "until": window_key(state.until),
        "claim": claim.number,
        "windows": len(claim.windows),
        "outcome": "not settled" if end is None else end.outcome.value,
        "requests": len(stream.window_requests(series, after=state.requests)),
    }


def _counting(stream: StreamHome, claim: WindowClaim) -> WindowClaim | None:
    """Return the newest claim that is not abandoned."""
    end = stream.window_claim_end(claim.series, claim.number)
    if end is None or end.outcome is ClaimOutcome.ANNOUNCED or not claim.base:
        return claim
    return stream.window_claim(claim.series, claim.base)
