"""The check names a queue that no triggerer serves."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.advice.installation.check_line import CheckOutcome, Line
from airflow_streaming.advice.installation.installation_checks import judge
from airflow_streaming.advice.installation.queue_checks import (
    SeenQueue,
    queue_lines,
    queue_setting_line,
)
from airflow_streaming.advice.installation.queue_probe import MOST_LOOKS, look_at_queues
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.model.fleet.trigger_queues import NO_QUEUES, TriggerQueues
from airflow_streaming.model.records.control import DesiredState
from benchmarks.many_streams import Carrier, make_epoch, record_stream, stream_name
from tests.unit.advice.test_installation import AIRFLOW, WELL

TWO = TriggerQueues(names=("a", "b"))
STREAMS = 12
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for number in range(STREAMS):
        epoch = make_epoch(number, f"token{number}", carrier := _carrier(tmp_path))
        record_stream(tmp_path, epoch, carrier)
    return open_home(str(tmp_path))


def _carrier(folder: Path) -> Carrier:
    return Carrier.of_process(os.getpid(), folder / "driver.log")


def names(queue: str) -> list[str]:
    return [
        name for number in range(STREAMS) if TWO.queue_of(name := stream_name(number), {}) == queue
    ]


def by_name(seen: tuple[SeenQueue, ...]) -> dict[str, SeenQueue]:
    return {one.name: one for one in seen}


def test_a_queue_whose_streams_have_no_rows_is_unwatched(home: Home) -> None:
    seen = by_name(look_at_queues(home, TWO, {*names("a")[:1], "gone"}))

    assert seen == {
        "a": SeenQueue(name="a", streams=len(names("a")), watched=1),
        "b": SeenQueue(name="b", streams=len(names("b")), unwatched=names("b")[0]),
    }


def test_stopped_given_up_and_damaged_streams_need_no_triggerer(home: Home, tmp_path: Path) -> None:
    stopped, given_up, damaged, *others = names("b")
    for name in (stopped, *others):
        home.stream(name).want(DesiredState.STOPPED, by="me", reason="-", now=NOW)
    home.stream(given_up).open_circuit(epoch=1, by="me", reason="-", now=NOW)
    for record in tmp_path.glob(f"{damaged}/epochs/*.json"):
        record.write_text("{")

    assert by_name(look_at_queues(home, TWO, ()))["b"].unwatched == ""


def test_a_label_shares_the_streams(home: Home) -> None:
    for number in range(STREAMS):
        stream = home.stream(stream_name(number))
        stream.supervise(replace(stream.supervision(), labels={"site": "b"}))

    seen = by_name(look_at_queues(home, replace(TWO, label="site"), ()))

    assert (seen["a"].streams, seen["b"].streams) == (0, STREAMS)


def test_without_queues_the_home_is_not_looked_at(home: Home) -> None:
    assert look_at_queues(home, NO_QUEUES, ()) == ()


def lines(*queues: SeenQueue) -> list[Line]:
    return [*queue_lines("/data", queues)]


def test_an_unwatched_queue_is_a_problem_with_the_command() -> None:
    (line,) = lines(SeenQueue(name="b", streams=3, unwatched="orders"))

    assert line == Line(
        check="home /data: queue b",
        outcome=CheckOutcome.PROBLEM,
        seen="0 of 3 watched; 'orders' should be",
        expected="a triggerer for each queue",
        next="Start a triggerer: airflow triggerer --queues b",
    )


def test_a_watched_queue_is_in_order_and_an_empty_one_a_note() -> None:
    found = lines(SeenQueue(name="a", streams=2, watched=1), SeenQueue(name="b"))

    assert [(line.outcome, line.next) for line in found] == [
        (CheckOutcome.OK, ""),
        (CheckOutcome.NOTE, ""),
    ]


@pytest.mark.parametrize(
    ("queues", "enabled", "outcome"),
    [
        (TWO, True, CheckOutcome.OK),
        (TWO, False, CheckOutcome.PROBLEM),
        (NO_QUEUES, True, CheckOutcome.WARNING),
        (NO_QUEUES, False, CheckOutcome.OK),
    ],
)
def test_the_settings_of_airflow_and_of_the_provider_fit(
    queues: TriggerQueues, enabled: bool, outcome: CheckOutcome
) -> None:
    assert queue_setting_line(queues, enabled=enabled).outcome is outcome


def test_the_lines_are_part_of_the_check() -> None:
    queue = SeenQueue(name="b", streams=3, unwatched="orders")
    found = replace(
        WELL,
        homes=(replace(WELL.homes[0], queues=(queue,)),),
        airflow=replace(AIRFLOW, trigger_queues=TWO),
    )

    checks = {line.check: line.outcome for line in judge(found)}
    assert checks["home /data/streams: queue b"] is CheckOutcome.PROBLEM
    assert checks["triggerer queues"] is CheckOutcome.PROBLEM, "Airflow's are not enabled"


def test_more_streams_than_the_bound_are_not_looked_at(tmp_path: Path) -> None:
    for number in range(MOST_LOOKS + 2):
        record_stream(tmp_path, make_epoch(number, f"t{number}", c := _carrier(tmp_path)), c)
    home, one = open_home(str(tmp_path)), TriggerQueues(names=("a",))
    for number in range(MOST_LOOKS):
        home.stream(stream_name(number)).want(DesiredState.STOPPED, by="me", reason="-", now=NOW)

    (seen,) = look_at_queues(home, one, ())
    assert (seen.streams, seen.unwatched) == (MOST_LOOKS + 2, "")
