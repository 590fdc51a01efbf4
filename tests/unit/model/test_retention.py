"""When a source removes data that was not read."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.products.retention import (
    KEPT_FOR,
    LEAST_WATCHED,
    MOST_LOOKS,
    Look,
    LossGap,
    Outlook,
    Partition,
    kept_for,
    of_age,
    of_log,
    parse_kept_for,
    remembered,
    soonest,
)
from airflow_streaming.spec import StreamSpec

NOW = 1_000_000.0
HOUR = 3_600.0


@pytest.mark.parametrize(
    ("oldest", "kept", "left", "read_ago", "gap"),
    [
        pytest.param(NOW - HOUR, 7 * HOUR, 6 * HOUR, HOUR, None, id="an hour behind"),
        pytest.param(None, 7 * HOUR, 7 * HOUR, 0, None, id="everything is read"),
        pytest.param(NOW - 9 * HOUR, 7 * HOUR, 0, 9 * HOUR, None, id="overdue"),
        pytest.param(NOW + HOUR, 7 * HOUR, 7 * HOUR, 0, None, id="a clock that is ahead"),
        pytest.param(NOW - HOUR, None, None, HOUR, LossGap.NO_RETENTION, id="not declared"),
    ],
)
def test_data_that_is_kept_for_a_time(
    oldest: float | None,
    kept: float | None,
    left: float | None,
    read_ago: float,
    gap: LossGap | None,
) -> None:
    found = of_age(oldest, kept_for=kept, now=NOW)
    assert (found.seconds_left(NOW), found.read_until, found.gap) == (left, NOW - read_ago, gap)


def looks(pace: float, over: float = 10 * HOUR) -> list[Look]:
    return [Look(NOW - over, {"t-0": int(1_000 - pace * over)}), Look(NOW - 1, {"t-0": 999})]


UNREAD = Partition(earliest=1_000, committed=4_600, latest=9_000)


@pytest.mark.parametrize(
    ("part", "earlier", "kept", "by_size", "left", "gap"),
    [
        pytest.param(UNREAD, looks(0.1), None, True, 36_000, None, id="the oldest position moves"),
        pytest.param(UNREAD, looks(0), None, True, None, LossGap.NO_REMOVAL, id="it stands still"),
        pytest.param(UNREAD, [], None, True, None, LossGap.NO_REMOVAL, id="the first look"),
        pytest.param(
            UNREAD,
            looks(0.1, over=LEAST_WATCHED - 1),
            *(None, True, None, LossGap.NO_REMOVAL),
            id="watched too shortly",
        ),
        pytest.param(UNREAD, looks(0), None, False, None, LossGap.KEPT, id="kept for good"),
        pytest.param(
            UNREAD._replace(written_at=NOW - HOUR), [], 8 * HOUR, False, 7 * HOUR, None, id="by age"
        ),
        pytest.param(
            UNREAD._replace(written_at=NOW - HOUR),
            *(looks(1.0), 8 * HOUR, True, HOUR, None),
            id="by size before its age",
        ),
        pytest.param(
            UNREAD._replace(committed=1_000),
            *([], None, True, None, LossGap.NO_REMOVAL),
            id="the next record is the oldest one",
        ),
        pytest.param(
            UNREAD._replace(committed=900), [], None, True, 0, None, id="records are gone already"
        ),
        pytest.param(
            UNREAD._replace(committed=9_000),
            looks(9),
            8 * HOUR,
            True,
            8 * HOUR,
            None,
            id="all read",
        ),
        pytest.param(UNREAD, [], 8 * HOUR, False, None, LossGap.FAILED, id="no age was found"),
    ],
)
def test_a_log(
    part: Partition,
    earlier: list[Look],
    kept: float | None,
    by_size: bool,
    left: float | None,
    gap: LossGap | None,
) -> None:
    found = of_log({"t-0": part}, earlier, kept_for=kept, by_size=by_size, now=NOW)
    assert (found.seconds_left(NOW), found.gap) == (left, gap)


def test_the_part_that_loses_first_counts() -> None:
    old, new = (UNREAD._replace(written_at=NOW - age) for age in (6 * HOUR, HOUR))
    read = UNREAD._replace(committed=9_000)
    found = of_log(
        {"t-0": new, "t-1": old, "t-2": read}, [], kept_for=8 * HOUR, by_size=False, now=NOW
    )
    assert (found.seconds_left(NOW), found.read_until) == (2 * HOUR, NOW - 6 * HOUR)


def test_how_far_was_read_is_unknown_while_the_age_of_one_part_is() -> None:
    parts = {"t-0": UNREAD._replace(written_at=NOW - HOUR), "t-1": UNREAD}
    assert of_log(parts, [], kept_for=None, by_size=True, now=NOW).read_until is None


def test_of_several_logs_the_first_loss_and_the_least_that_was_read_count() -> None:
    near = Outlook(loss_at=NOW + 5, kept_for=9.0, read_until=NOW - 1)
    far = Outlook(loss_at=NOW + 50, kept_for=90.0, read_until=NOW - 7)
    assert soonest([far, near, Outlook(gap=LossGap.KEPT, read_until=NOW)]) == Outlook(
        loss_at=NOW + 5, kept_for=9.0, read_until=NOW - 7
    )
    assert soonest([near, Outlook(gap=LossGap.KEPT)]).read_until is None
    assert soonest([Outlook(gap=LossGap.KEPT)]).gap is LossGap.KEPT


def test_remembered_looks_are_few_and_span_the_whole_time() -> None:
    found: tuple[Look, ...] = ()
    for second in range(1_000):
        found = remembered(found, Look(second, {}))
    assert len(found) <= MOST_LOOKS
    assert (found[0].at, found[-1].at) == (0, 999)


def test_a_declared_retention() -> None:
    declared = parse_kept_for("/data/in=7d, s3a://b/x?a=1 = 1.5h ,events=30min,")
    assert declared == (("/data/in", 604_800), ("s3a://b/x?a=1", 5_400), ("events", 1_800))
    assert kept_for("FileStreamSource[file:/data/in/events]", declared) == 1_800
    assert kept_for("FileStreamSource[file:/other]", declared) is None
    assert parse_kept_for("  ") == ()


@pytest.mark.parametrize(
    "text", ["7d", "/in=7", "/in=7w", "/in=0d", "=7d", "/in=-7d", "/in=7d;/x=1d"]
)
def test_a_declaration_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"keptFor has .*Write PART=TIME"):
        parse_kept_for(text)


@pytest.mark.parametrize("gap", LossGap)
def test_every_gap_has_words(gap: LossGap) -> None:
    assert gap.words


def test_a_spec_refuses_a_declaration_in_another_form() -> None:
    spec = {"name": "s", "application": "a.py", "home": "/h", "runtime": "r"}
    StreamSpec(**spec, conf={KEPT_FOR: "/data/in=7d"})
    with pytest.raises(SpecError, match=r"conf of stream 's': .*Write PART=TIME"):
        StreamSpec(**spec, conf={KEPT_FOR: "seven days"})
