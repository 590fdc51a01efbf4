"""What a change of the size has brought, what it costs, and the quota of a home."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.home.home import Home
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.records.size_change import SizeCode
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.scaling.size_effect import (
    blocked_until,
    gain_of,
    memory_text,
    rounds_text,
    within_quota,
)
from airflow_streaming.supervision.scaling.sizing import executors_elsewhere
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch, make_exit
from tests.unit.supervision.builders import NOW, minutes
from tests.unit.supervision.test_autoscale import SIZED, a_change


@pytest.mark.parametrize(
    ("before", "after", "capacity", "now", "gain"),
    [
        pytest.param(2, 4, 100.0, 200.0, 1.0, id="as expected"),
        pytest.param(2, 4, 100.0, 150.0, 0.5, id="half of it"),
        pytest.param(2, 4, 100.0, 90.0, -0.1, id="slower"),
        pytest.param(4, 5, 100.0, 125.0, 1.0, id="the smallest step that tells"),
        pytest.param(5, 6, 100.0, 120.0, None, id="a step within the noise"),
        pytest.param(2, 4, 0.0, 90.0, None, id="no pace was recorded"),
        pytest.param(2, 4, 100.0, math.inf, None, id="no rows to measure"),
    ],
)
def test_the_gain_of_a_change(
    before: int, after: int, capacity: float, now: float, gain: float | None
) -> None:
    change = a_change(minutes(6), before=before, executors=after, figures={"pace": capacity})
    assert gain_of(change, now) == (None if gain is None else pytest.approx(gain))


def test_a_change_without_figures_tells_no_gain() -> None:
    assert gain_of(a_change(minutes(6)), 100.0) is None


def test_the_newest_undo_blocks() -> None:
    undone = [a_change(minutes(age), SizeCode.UNDO) for age in (500, 100, 30)]
    assert blocked_until(undone, NOW, minutes(120)) == NOW + minutes(90)
    assert blocked_until(undone, NOW, minutes(10)) is None
    assert blocked_until([a_change(minutes(1))], NOW, minutes(120)) is None


@pytest.mark.parametrize(
    ("executors", "cores", "partitions", "words"),
    [
        (4, 2, 32, ""),
        (5, 2, 32, "10 cores do not divide 32 state partitions: 4 rounds, 20% of their time idle."),
        (32, 2, 32, "1 rounds, 50% of their time idle."),
        (5, 2, None, ""),
        (5, 0, 32, ""),
    ],
)
def test_cores_that_do_not_divide_the_partitions_cost_time(
    executors: int, cores: int, partitions: int | None, words: str
) -> None:
    text = rounds_text(executors, cores, partitions)
    assert text.endswith(words)
    assert bool(text) is bool(words)


@pytest.mark.parametrize(("share", "is_told"), [(None, False), (0.09, False), (0.1, True)])
def test_garbage_collection_is_a_reason(share: float | None, is_told: bool) -> None:
    assert bool(memory_text(share)) is is_told


@pytest.mark.parametrize(
    ("wanted", "elsewhere", "quota", "left"),
    [(8, 20, None, 8), (8, 20, 30, 8), (8, 20, 26, 6), (8, 20, 24, 4), (8, 50, 24, 4)],
)
def test_a_stream_grows_within_the_quota_and_keeps_what_it_has(
    wanted: int, elsewhere: int, quota: int | None, left: int
) -> None:
    assert within_quota(wanted, 4, elsewhere, quota) == left


def test_the_executors_of_the_other_lanes_that_run_are_counted(tmp_path: Path) -> None:
    home = Home(LocalStore(str(tmp_path)))
    for name, executors, has_ended in (
        ("orders", 9, False),
        ("trips", None, False),
        ("trips.green", 3, False),
        ("old", 50, True),
    ):
        stream = home.stream(name)
        stream.create_deployment(make_deployment(stream=name, conf=SIZED), SCRIPT)
        stream.create_epoch(make_epoch(stream=name, executors=executors))
        if has_ended:
            stream.store.create(f"{name}/epochs/000001/exit.json", make_exit().to_bytes(name))
    home.stream("new").create_deployment(make_deployment(stream="new", conf=SIZED), SCRIPT)

    assert executors_elsewhere(home.stream("orders")) == 4 + 3


@pytest.mark.parametrize(
    ("cron", "hours", "blackout"),
    [
        ("0 9 * * 1-5", 8, Blackout(start="09:00", end="17:00", days=(0, 1, 2, 3, 4))),
        ("30 22 * * *", 4, Blackout(start="22:30", end="02:30")),
        ("5 0 * * 0,6", 24, Blackout(start="00:05", end="00:05", days=(5, 6))),
        ("5 0 * * 5-7", 1, Blackout(start="00:05", end="01:05", days=(4, 5, 6))),
    ],
)
def test_a_blackout_by_cron(cron: str, hours: int, blackout: Blackout) -> None:
    assert Blackout.from_cron(cron, timedelta(hours=hours)) == blackout
