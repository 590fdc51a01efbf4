"""The command ``windows``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.products.windows import (
    AnnouncedWindow,
    ClaimOutcome,
    SeriesState,
    WindowClaim,
    window_key,
)

DAY = datetime(2026, 11, 21, tzinfo=UTC)
HOUR = timedelta(hours=1)
SERIES = "3600s"
RANGE = ("--from", "2026-11-21T06:00Z", "--until", "2026-11-21T09:00Z")


def claim(
    stream: StreamHome,
    number: int,
    until: int,
    outcome: ClaimOutcome | None = ClaimOutcome.ANNOUNCED,
    *,
    base: int = 0,
    series: str = SERIES,
) -> None:
    """Record a claim of the last hour before ``until``, and its outcome."""
    of_airflow: dict[str, Any] = {
        **dict.fromkeys(("receipts", "receipts_uri", "dag_id", "run_id", "task_id", "ti_id"), "x"),
        "map_index": -1,
    }
    made = WindowClaim(
        series=series,
        number=number,
        windows=(AnnouncedWindow(start=DAY + (until - 1) * HOUR, revision=1),),
        state=SeriesState(since=DAY, until=DAY + until * HOUR),
        base=base,
        by="dag",
        at=DAY,
        **of_airflow,
    )
    assert stream.claim_windows(made)
    if outcome is not None:
        stream.end_window_claim(made, outcome, by="dag", now=DAY)


def shown(run: Any, *arguments: str) -> dict[str, Any]:
    code, out, _ = run("windows", "orders", "--json", *arguments)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("outcomes", "until", "outcome"),
    [
        pytest.param((ClaimOutcome.ANNOUNCED,), 1, "announced", id="announced"),
        pytest.param((None,), 1, "not settled", id="not settled"),
        pytest.param(
            (ClaimOutcome.ANNOUNCED, ClaimOutcome.ABANDONED),
            *(1, "abandoned"),
            id="an abandoned claim announces nothing",
        ),
        pytest.param((ClaimOutcome.ANNOUNCED, None), 2, "not settled", id="a claim after another"),
    ],
)
def test_a_series_is_shown_up_to_the_last_claim_that_counts(
    run: Any,
    stream: StreamHome,
    outcomes: tuple[ClaimOutcome | None, ...],
    until: int,
    outcome: str,
) -> None:
    for number, one in enumerate(outcomes, start=1):
        claim(stream, number, number, one, base=number - 1)

    told = shown(run)["series"][SERIES]

    assert told["since"] == window_key(DAY)
    assert told["until"] == window_key(DAY + until * HOUR)
    assert (told["claim"], told["outcome"]) == (len(outcomes), outcome)


def test_a_request_is_recorded_and_open_until_a_claim_counts_it(
    run: Any, stream: StreamHome
) -> None:
    claim(stream, 1, 10)

    code, out, _ = run("windows", "orders", *RANGE, "--reason", "late file", "--by", "kim")

    assert (code, out.startswith("Request 1:")) == (0, True)
    [recorded] = stream.window_requests(SERIES)
    assert (recorded.start, recorded.end) == (DAY + 6 * HOUR, DAY + 9 * HOUR)
    assert (recorded.by, recorded.reason) == ("kim", "late file")
    assert shown(run)["series"][SERIES]["requests"] == 1
    assert shown(run, *RANGE)["request"]["number"] == 2


def test_the_line_for_people_has_the_range_and_the_outcome(run: Any, stream: StreamHome) -> None:
    claim(stream, 1, 3)
    claim(stream, 1, 3, series="revenue.60s")

    code, out, _ = run("windows", "orders")

    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == [SERIES, "revenue.60s"]
    assert f"announced {window_key(DAY)} to {window_key(DAY + 3 * HOUR)}" in out
    assert "(announced, 1 windows), 0 open requests" in out


@pytest.mark.usefixtures("stream")
def test_a_stream_without_windows_says_so(run: Any) -> None:
    assert run("windows", "orders")[:2] == (0, "No windows of orders have been announced.\n")


@pytest.mark.parametrize(
    ("series", "arguments", "why"),
    [
        ((), RANGE, "has 0 series of windows"),
        ((SERIES, "60s"), RANGE, "Name one with --series"),
        ((SERIES,), RANGE[:2], "Give --from and --until"),
        ((SERIES,), RANGE[2:], "Give --from and --until"),
        ((SERIES,), ("--from", "2026-11-21T09:00Z", "--until", "2026-11-21T09:00Z"), "later end"),
        ((SERIES,), ("--series", "60s", *RANGE), "has no windows '60s'"),
        ((SERIES,), ("--series", "60s"), f"its series: {SERIES}"),
        ((SERIES,), ("--series", "../orders", *RANGE), "has no windows"),
    ],
)
def test_a_wrong_request_records_nothing(
    run: Any, stream: StreamHome, series: tuple[str, ...], arguments: tuple[str, ...], why: str
) -> None:
    for name in series:
        claim(stream, 1, 1, series=name)

    code, _, error = run("windows", "orders", *arguments)

    assert code == 2
    assert why in error
    assert not (Path(stream.store.uri) / "orders/window_requests").exists()


@pytest.mark.parametrize("time", ["2026-11-21T09:00", "soon", "9999-99-99T00:00Z"])
def test_a_time_without_a_zone_or_that_is_none_is_wrong_use(
    run: Any, stream: StreamHome, time: str
) -> None:
    claim(stream, 1, 1)
    with pytest.raises(SystemExit) as ended:
        run("windows", "orders", "--from", time, "--until", "2026-11-22T00:00Z")
    assert ended.value.code == 2


def test_a_forged_claim_is_named_and_not_shown(run: Any, stream: StreamHome) -> None:
    claim(stream, 1, 1)
    folder = Path(stream.store.uri) / "orders/windows" / SERIES
    (folder / "000002.json").write_bytes((folder / "000001.json").read_bytes())

    code, out, error = run("windows", "orders")

    assert (code, out) == (1, "")
    assert "its number is 1, not 2" in error
