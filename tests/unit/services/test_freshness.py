"""The freshness of a stream is measured from the history of its batches, over epochs, lanes and stops."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.history import PartCache
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.model.arguments.policies import Freshness
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout, numbered
from airflow_streaming.model.products.freshness import Completed, Span, begun, extended, figures
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.operators.freshness import FreshnessOperator
from airflow_streaming.plugins.views import StreamWatch
from airflow_streaming.services.freshness import (
    commits_since,
    planned_stops,
    read_freshness,
    record_freshness,
)
from airflow_streaming.supervision.alerts.alerting import about_freshness
from tests.unit.world import World, make_world

START = datetime(2026, 11, 21, tzinfo=UTC)
OF = Freshness(complete_within=timedelta(minutes=15), over=timedelta(days=1), objective=0.9)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(tmp_path, monkeypatch)
    made.run()
    return made


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def a_batch(minute: float, until: float, query: str = "revenue") -> BatchProgress:
    return BatchProgress(
        query=query,
        batch_id=int(minute),
        at=at(minute).isoformat(),
        input_rows=1,
        input_rows_per_second=1.0,
        processed_rows_per_second=1.0,
        duration_ms=0,
        watermark=at(until).isoformat(),
        sources=(),
    )


def play(world: World, epoch: int, *batches: BatchProgress, chunk: int = 1) -> None:
    """Write the history of an epoch as its driver does."""
    lines = "\n".join(json.dumps(encode(one)) for one in batches)
    path = f"{Layout(world.lane).progress(epoch)}/{numbered(chunk)}.jsonl"
    open_home(world.uri).store.replace(path, (lines + "\n").encode())


def home_of(world: World) -> Home:
    return open_home(world.uri)


def late_minutes(world: World, until: float, of: Freshness = OF) -> float:
    found = read_freshness(home_of(world), "orders", of, at(until))
    assert found is not None
    return found.figures.late / timedelta(minutes=1)


def add_epoch(world: World) -> int:
    newest = world.epoch()
    world.home.create_epoch(
        replace(newest, number=newest.number + 1, token=f"{newest.token}x", cause=newest.cause)
    )
    return newest.number + 1


def test_the_late_time_of_one_outage(world: World) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in [*range(60), *range(120, 180)]))

    # From 15 minutes after the last watermark, 59, to the next commit.
    assert late_minutes(world, 180) == 120 - (59 + 15)


def test_the_query_that_is_furthest_behind_counts(world: World) -> None:
    rows = [a_batch(minute, minute) for minute in range(100)]
    behind = [a_batch(minute, minute - 20, "slow") for minute in range(100)]
    play(world, 1, *rows, *behind)

    assert late_minutes(world, 100) == 100
    assert late_minutes(world, 100, replace(OF, query="revenue")) == 0


def test_an_outage_between_two_epochs_counts(world: World) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in range(60)))
    play(world, add_epoch(world), *(a_batch(minute, minute) for minute in range(100, 130)))

    assert late_minutes(world, 130) == 100 - (59 + 15)


def test_a_recorded_timeline_gives_the_same_figures(world: World) -> None:
    minutes = [*range(60), *range(120, 200)]
    told = []
    for minute in minutes:
        told.append(a_batch(minute, minute))
        play(world, 1, *told)
        found = read_freshness(home_of(world), "orders", OF, at(minute + 0.6))
        assert found is not None
        record_freshness(home_of(world), "orders", found)

    recorded = world.home.timeline()
    assert recorded is not None
    assert recorded.number == 3  # at the first look, and then once an hour
    assert late_minutes(world, 200) == 120 - (59 + 15)


def of_the_page(world: World, freshness: Freshness | None) -> Any:
    world.run(world.operator(freshness=freshness))
    page = StreamWatch(home=world.home, parts=PartCache(), probe=world.launcher.probe)
    return page.whole(datetime.now(UTC))["freshness"]


def test_the_page_has_the_figures_of_the_recorded_timeline(world: World) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in [*range(60), *range(120, 180)]))
    found = read_freshness(home_of(world), "orders", OF, at(180))
    assert found is not None
    assert record_freshness(home_of(world), "orders", found)
    Path(world.uri, Layout("orders").progress(1), "000001.jsonl").unlink()

    shown = of_the_page(world, OF)

    assert shown["share"] == pytest.approx(1 - 46 / 180, abs=0.01)
    assert shown["budget_left"] == pytest.approx(1 - 46 / 144)
    assert (shown["objective"], shown["is_late"]) == (0.9, False)
    assert shown["at"].startswith("2026-11-21T02:59:30")


@pytest.mark.parametrize("objective", [None, replace(OF, complete_within=timedelta(minutes=5))])
def test_the_page_shows_no_figures_of_another_objective(
    world: World, objective: Freshness | None
) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in range(60)))
    found = read_freshness(home_of(world), "orders", OF, at(60))
    assert found is not None
    assert record_freshness(home_of(world), "orders", found)

    assert of_the_page(world, objective) is None


def test_a_damaged_timeline_leaves_the_page_whole(world: World) -> None:
    folder = Path(world.uri, "orders/freshness")
    folder.mkdir()
    (folder / "000001.json").write_text("{")

    assert of_the_page(world, OF) is None


def test_planned_stops_are_left_out_where_the_objective_says_so(world: World) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in [*range(60), *range(120, 180)]))
    stops = {"by": "ann", "reason": "maintenance"}
    world.home.want(DesiredState.STOPPED, now=at(60), **stops)
    world.home.want(DesiredState.RUNNING, now=at(110), **stops)

    assert late_minutes(world, 180) == 46
    assert late_minutes(world, 180, replace(OF, count_planned_stops=False)) == 10


@pytest.mark.parametrize(
    "watermark", ["2026-11-21T00:30:00", "2026-11-21T01:30:00+01:00", "2026-11-21T00:30:00Z"]
)
def test_a_watermark_has_the_zone_that_it_names_else_that_of_spark(
    world: World, watermark: str
) -> None:
    play(world, 1, replace(a_batch(40, 0), watermark=watermark))

    found = commits_since(home_of(world), "orders", None, since=at(0))

    assert [one.until for one in found] == [at(30)]


@pytest.mark.parametrize("year", ["9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59-14:00"])
def test_a_watermark_without_an_end_is_on_time(world: World, year: str) -> None:
    play(world, 1, *(replace(a_batch(minute, 0), watermark=year) for minute in range(60)))
    found = read_freshness(home_of(world), "orders", OF, at(60))

    assert found is not None
    assert record_freshness(home_of(world), "orders", found)
    assert late_minutes(world, 600) == 0


FAR = ("9999-12-31T23:59:59.000000+00:00", "0001-01-01T00:00:00.000000+00:00")


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, far) for field in ("since", "until", "complete_until") for far in FAR]
    + [("complete_within", seconds) for seconds in (8e13, -8e13, 0)],
)
def test_a_forged_timeline_is_refused(world: World, field: str, value: Any) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in range(60)))
    found = read_freshness(home_of(world), "orders", OF, at(60))
    assert found is not None
    assert record_freshness(home_of(world), "orders", found)
    file = Path(world.uri, "orders/freshness/000001.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))

    with pytest.raises(RecordError, match=r"freshness/000001\.json cannot be read"):
        world.home.timeline()
    assert of_the_page(world, OF) is None


def test_without_a_watermark_nothing_is_measured(world: World) -> None:
    assert read_freshness(home_of(world), "orders", OF, at(10)) is None


def run(world: World, sent: list[str]) -> dict[str, Any]:
    task: Any = FreshnessOperator(
        task_id="freshness",
        stream="orders",
        home=world.uri,
        freshness=replace(OF, objective=0.995),
        on_late=lambda context: sent.append(context["alert"]["key"]),
        on_recovered=lambda context: sent.append(f"over {context['alert']['key']}"),
    )
    found: dict[str, Any] = task.execute(world.context())
    return found


def test_the_task_alerts_once(world: World) -> None:
    now = (datetime.now(UTC) - START) / timedelta(minutes=1)
    sent: list[str] = []
    play(world, 1, *(a_batch(now - 600 + minute, now - 600 + minute) for minute in range(300)))

    late = run(world, sent)
    run(world, sent)
    assert sorted(sent) == ["freshness/fast", "freshness/slow"]
    assert late["is_late"]
    assert late["budget_left"] < 0


def test_an_incident_is_closed_when_the_budget_burns_no_more() -> None:
    alert = about(late=True, log=[])
    over = about(late=False, log=[*alert])

    assert {one.key: one.alert for one in alert} == {
        "freshness/fast": AlertKind.UNHEALTHY,
        "freshness/slow": AlertKind.UNHEALTHY,
    }
    assert about(late=True, log=[*alert]) == ()
    assert {one.key: one.alert for one in over} == {
        "freshness/fast": AlertKind.RECOVERED,
        "freshness/slow": AlertKind.RECOVERED,
    }
    assert about(late=False, log=[*alert, *over]) == ()


def about(*, late: bool, log: list[Alert]) -> tuple[Alert, ...]:
    commits = [] if late else [Completed(at=at(0.1 + i), until=at(0.1 + i)) for i in range(720)]
    timeline = extended(begun(OF, Completed(at=at(0), until=at(0))), commits, at(720))
    return about_freshness(OF, figures(OF, timeline), stream="orders", epoch=1, log=log)


@pytest.mark.parametrize(
    ("recorded", "until", "is_written"),
    [
        (None, 0.5, False),
        (None, 0.6, True),
        (60, 119.9, False),
        (60, 120, True),
        (60, 121, True),
    ],
)
def test_a_timeline_is_recorded_every_hour(
    world: World, recorded: float | None, until: float, is_written: bool
) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in range(130)))
    home = home_of(world)
    if recorded is not None:
        first = read_freshness(home, "orders", OF, at(recorded + 0.5))
        assert first is not None
        assert record_freshness(home, "orders", first)
    found = read_freshness(home, "orders", OF, at(until))
    assert found is not None

    assert record_freshness(home, "orders", found) is is_written


def test_only_the_last_commit_up_to_a_moment_is_kept(world: World) -> None:
    play(world, 1, *(a_batch(minute, minute) for minute in range(6)))

    found = commits_since(home_of(world), "orders", None, since=at(3))

    assert [one.at for one in found] == [at(3), at(4), at(5)]


def test_a_stop_is_planned_until_the_end_that_its_user_gave_it(world: World) -> None:
    make = partial(world.home.want, DesiredState.STOPPED, by="ann", reason="x")
    make(now=at(5), until=at(20))
    make(now=at(10), until=at(30))

    assert [*planned_stops(world.home, at(60))] == [
        Span(begin=at(5), end=at(10)),
        Span(begin=at(10), end=at(30)),
    ]


@pytest.mark.parametrize(("end", "stops"), [(5, []), (6, [(5, 6)])])
def test_a_stop_that_ends_at_once_is_none(
    world: World, end: float, stops: list[tuple[float, float]]
) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=at(5))

    found = [*planned_stops(world.home, at(end))]

    assert found == [Span(begin=at(a), end=at(b)) for a, b in stops]
