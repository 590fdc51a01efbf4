"""The plain functions of the example scripts, without a stream and without Spark."""

from __future__ import annotations

import random
import runpy
from typing import Any

import pytest

from tests.conftest import REPOSITORY

DAGS = REPOSITORY / "dags"
RULE = runpy.run_path(str(DAGS / "fraud" / "jobs" / "fraud_rule.py"))
Payment = tuple[str, int, float, float]

BERLIN, POTSDAM, LONDON = (52.5, 13.4), (52.4, 13.1), (51.5, -0.1)


def paid(name: str, minute: int, place: tuple[float, float]) -> Payment:
    return (name, 60 * minute, *place)


@pytest.mark.parametrize(
    ("payments", "alerts"),
    [
        ([], []),
        ([paid("a", 0, BERLIN)], []),
        # 930 km: an hour and a half is enough for a plane, half an hour is not.
        ([paid("a", 0, BERLIN), paid("b", 30, LONDON)], [("a", "b")]),
        ([paid("a", 0, BERLIN), paid("b", 90, LONDON)], []),
        ([paid("a", 0, BERLIN), paid("b", 0, POTSDAM)], []),
        ([paid("a", 0, BERLIN), paid("b", 0, LONDON)], [("a", "b")]),
        ([paid("a", 0, BERLIN), paid("a", 0, BERLIN), paid("b", 1, LONDON)], [("a", "b")]),
        (
            [paid("a", 0, BERLIN), paid("b", 10, BERLIN), paid("c", 20, LONDON)],
            [("a", "c"), ("b", "c")],
        ),
    ],
)
def test_payments_between_which_nothing_travels_are_alerts(
    payments: list[Payment], alerts: list[tuple[str, str]]
) -> None:
    found = RULE["judge"]((), payments)[1]

    assert [alert[:2] for alert in found] == alerts


def test_the_alerts_do_not_depend_on_how_payments_are_cut_into_batches_or_ordered() -> None:
    chance = random.Random(3)
    places = (BERLIN, POTSDAM, LONDON)
    payments = [paid(f"p{n}", 7 * n, chance.choice(places)) for n in range(30)]
    whole = RULE["judge"]((), payments)[1]

    for _ in range(20):
        history: list[Payment] = []
        found: list[Any] = []
        for begin in range(0, 30, 5):
            batch = payments[begin : begin + 5] + payments[max(0, begin - 2) : begin]
            chance.shuffle(batch)
            history, alerts = RULE["judge"](history, batch)
            found += alerts
        assert sorted(found) == whole
    assert whole


def test_old_payments_are_forgotten() -> None:
    kept, _ = RULE["judge"]([paid("old", 0, BERLIN)], [paid("new", 241, BERLIN)])

    assert [one[0] for one in kept] == ["new"]


@pytest.fixture(scope="module")
def limited() -> Any:
    return runpy.run_path(str(DAGS / "kafka_to_kafka" / "jobs" / "python_kafka.py"))["limited"]


@pytest.mark.parametrize(
    ("start", "newest", "most", "end"),
    [
        ({"a": {"0": 0}}, {"a": {"0": 10}}, 0, {"a": {"0": 10}}),
        ({"a": {"0": 0}}, {"a": {"0": 10}}, 10, {"a": {"0": 10}}),
        ({"a": {"0": 0}}, {"a": {"0": 10}}, 4, {"a": {"0": 4}}),
        ({"a": {"0": 5}}, {"a": {"0": 5}}, 4, {"a": {"0": 5}}),
        ({"a": {"0": 0, "1": 0}}, {"a": {"0": 90, "1": 10}}, 10, {"a": {"0": 9, "1": 1}}),
        ({"a": {"0": 0, "1": 0}}, {"a": {"0": 99, "1": 1}}, 10, {"a": {"0": 9, "1": 1}}),
        ({"a": {"0": 5}}, {"a": {"0": 5}, "b": {"0": 3}}, 2, {"a": {"0": 5}, "b": {"0": 2}}),
    ],
)
def test_a_batch_is_shared_out_and_no_partition_is_left_behind(
    limited: Any, start: Any, newest: Any, most: int, end: Any
) -> None:
    assert limited(start, newest, most) == end
