"""Freshness figures are those of a clock that asks every second whether the data is on time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.products.freshness import (
    BURN_ALERTS,
    Completed,
    Span,
    Timeline,
    begun,
    extended,
    figures,
    joined_spans,
    shortened,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
QUARTER = Freshness(complete_within=timedelta(minutes=15), over=timedelta(days=1))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def span(begin: float, end: float) -> Span:
    return Span(begin=at(begin), end=at(end))


def commits(*pairs: tuple[float, float]) -> list[Completed]:
    return [Completed(at=at(moment), until=at(until)) for moment, until in pairs]


def timeline(until: float, *pairs: tuple[float, float], of: Freshness = QUARTER) -> Timeline:
    told = commits(*pairs)
    return extended(begun(of, told[0]), told, at(until))


def every_minute(end: int, outages: list[tuple[int, int]], delay: int = 60) -> list[Completed]:
    """Return the commits of a stream that commits each minute, but not in its outages."""
    moments = range(0, end, 60)
    down = [any(begin <= one < until for begin, until in outages) for one in moments]
    return commits(
        *((one, one - delay) for one, is_down in zip(moments, down, strict=True) if not is_down)
    )


def late_seconds(told: list[Completed], end: int, within: int) -> list[bool]:
    """Ask in the middle of every second whether the data is late; all edges are whole seconds."""
    found, position = [], -1
    for second in range(end):
        while position + 1 < len(told) and told[position + 1].at <= at(second):
            position += 1
        found.append(told[position].until < at(second + 0.5) - timedelta(seconds=within))
    return found


def test_data_is_late_from_complete_within_after_the_watermark_to_the_next_commit() -> None:
    found = timeline(7200, (0, 0), (3000, 2990), (7000, 6990))

    assert found.late == (span(900, 3000), span(3890, 7000))
    assert found.complete_until == at(6990)


def test_a_commit_that_does_not_catch_up_leaves_the_data_late() -> None:
    found = timeline(7200, (0, 0), (3000, 1000), (4000, 3900))

    assert found.late == (span(900, 4000), span(4800, 7200))


def test_a_restored_watermark_makes_the_data_late() -> None:
    found = timeline(2000, (0, 0), (600, 590), (700, -1000), (1500, 1490))

    assert found.late == (span(700, 1500),)


def test_a_timeline_that_is_extended_in_steps_is_the_same() -> None:
    told = every_minute(20_000, [(3000, 7000), (9000, 9900), (12_000, 16_000)])
    whole = extended(begun(QUARTER, told[0]), told, at(20_000))
    steps = begun(QUARTER, told[0])
    for until in range(0, 20_001, 137):
        steps = extended(steps, told, at(until))
    steps = extended(steps, told, at(20_000))

    assert steps == whole


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_a_simulation_with_known_outages_is_exact(seed: int) -> None:
    chance, day = random.Random(seed), 86_400
    outages = [
        (begin, begin + chance.randrange(60, 9000)) for begin in chance.choices(range(day), k=6)
    ]
    told = every_minute(day, [one for one in outages if one[0] > 60], chance.randrange(0, 800))
    truth = late_seconds(told, day, 900)

    found = figures(QUARTER, extended(begun(QUARTER, told[0]), told, at(day)))

    assert any(truth)
    assert found.counted == timedelta(seconds=day)
    assert found.late == timedelta(seconds=sum(truth))
    assert found.share == 1 - sum(truth) / day


def test_known_outages_cost_exactly_their_length_beyond_the_allowance() -> None:
    # Three outages; each is late from 15 minutes after its last watermark to its end.
    told = every_minute(86_400, [(3600, 7200), (20_040, 20_640), (50_040, 60_000)], delay=0)

    found = figures(QUARTER, extended(begun(QUARTER, told[0]), told, at(86_400)))

    first = 7200 - (3540 + 900)
    third = 60_000 - (49_980 + 900)
    assert found.late == timedelta(seconds=first + third)
    assert found.share == 1 - (first + third) / 86_400


@pytest.mark.parametrize(("counts", "late", "counted"), [(True, 6300, 10_000), (False, 300, 4000)])
def test_planned_stops_count_as_the_spec_says(counts: bool, late: int, counted: int) -> None:
    of = Freshness(
        complete_within=timedelta(minutes=15),
        over=timedelta(days=1),
        count_planned_stops=counts,
    )
    found = timeline(10_000, (0, 0), (2000, 2000), (9200, 9200), of=of)

    # Stopped for 6,000 of the 7,400 late seconds, by two records that overlap.
    shown = figures(of, found, [span(2900, 6000), span(5000, 8900)])

    assert shown.counted == timedelta(seconds=counted)
    assert shown.late == timedelta(seconds=late + 1100)


def test_the_period_is_the_newest_part_of_the_timeline() -> None:
    of = Freshness(complete_within=timedelta(minutes=15), over=timedelta(days=1))
    told = every_minute(3 * 86_400, [(3600, 40_000)])
    found = extended(begun(of, told[0]), told, at(3 * 86_400))

    assert found.late
    assert figures(of, found).share == 1.0
    assert shortened(found, at(86_400)).late == ()


@pytest.mark.parametrize(
    ("down", "fast", "slow"),
    [
        pytest.param(0, False, False, id="on time"),
        pytest.param(3 * 60, False, False, id="short"),
        pytest.param(6 * 60, True, False, id="more than 14.4 times the budget of an hour"),
        pytest.param(20 * 60, True, True, id="long: both"),
    ],
)
def test_the_budget_of_a_fast_outage_burns_at_both_rates(down: int, fast: bool, slow: bool) -> None:
    end = 12 * 3600
    told = every_minute(end, [(end - 900 - down, end)], delay=0)

    found = figures(QUARTER, extended(begun(QUARTER, told[0]), told, at(end)))

    assert {burn.alert.name: burn.fires for burn in found.burns} == {"fast": fast, "slow": slow}


def test_an_alert_ends_soon_after_the_outage() -> None:
    end = 12 * 3600
    told = every_minute(end, [(end - 3600, end - 400)], delay=0)

    found = figures(QUARTER, extended(begun(QUARTER, told[0]), told, at(end)))

    fast, slow = found.burns
    assert fast.long >= fast.bound > fast.short
    assert not fast.fires
    assert slow.fires


def test_a_total_outage_fires_whatever_the_objective() -> None:
    of = Freshness(complete_within=timedelta(minutes=1), objective=0.9)
    found = timeline(12 * 3600, (0, 0), of=of)

    assert [burn.fires for burn in figures(of, found).burns] == [True] * len(BURN_ALERTS)


def test_a_flapping_stream_keeps_its_timeline_small_and_no_late_time_is_lost() -> None:
    told = [one for hour in range(500) for one in commits((hour * 3600, hour * 3600))]
    found = extended(begun(QUARTER, told[0]), told, at(500 * 3600))

    short = shortened(found, START, most=100)

    assert len(short.late) == 100
    assert (short.late[0].begin, short.late[-1].end) == (found.late[0].begin, found.late[-1].end)
    assert sum(((one.end - one.begin) for one in short.late), timedelta(0)) >= sum(
        ((one.end - one.begin) for one in found.late), timedelta(0)
    )


def test_a_timeline_survives_its_record() -> None:
    found = timeline(7200, (0, 0), (3000, 2990))

    assert Timeline.from_bytes(found.to_bytes("orders")) == found


def test_spans_that_touch_are_joined() -> None:
    assert joined_spans([span(5, 9), span(0, 5), span(20, 21), span(6, 7)]) == [
        span(0, 9),
        span(20, 21),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"complete_within": timedelta(0)},
        {"complete_within": timedelta(minutes=1), "objective": 1.0},
        {"complete_within": timedelta(minutes=1), "objective": 99.5},
        {"complete_within": timedelta(minutes=1), "over": timedelta(hours=1)},
    ],
)
def test_an_objective_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        Freshness(**wrong)  # type: ignore[arg-type]


def test_the_time_that_stops_and_late_times_share_is_found_in_one_pass() -> None:
    chance = random.Random(28)
    late, stops = ([*_spans(chance)] for _ in range(2))
    of = Freshness(
        complete_within=timedelta(minutes=15), over=timedelta(days=28), count_planned_stops=False
    )
    made = Timeline(
        number=1,
        complete_within=of.complete_within,
        query=None,
        since=START,
        until=at(40_000),
        complete_until=at(40_000),
        late=tuple(span(*one) for one in late),
    )

    found = figures(of, made, [span(*one) for one in stops])

    seconds = [
        {second for begin, end in some for second in range(begin, end)} for some in (late, stops)
    ]
    assert found.late == timedelta(seconds=len(seconds[0] - seconds[1]))
    assert found.counted == timedelta(seconds=40_000 - len(seconds[1]))


def _spans(chance: random.Random) -> list[tuple[int, int]]:
    edges = sorted(chance.sample(range(40_000), 2_000))
    return [*zip(edges[::2], edges[1::2], strict=True)]
