"""Streams are shared among queues by a digest, or by a label."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.fleet.trigger_queues import (
    LONGEST_QUEUE,
    MOST_QUEUES,
    NO_QUEUES,
    TriggerQueues,
)

STREAMS = [f"stream-{number}" for number in range(2000)]
THREE = ("a", "b", "c")


def queues(*names: str, label: str = "") -> TriggerQueues:
    return TriggerQueues(names=names, label=label)


def of_all(shared: TriggerQueues) -> list[str | None]:
    return [shared.queue_of(stream, {}) for stream in STREAMS]


def test_each_queue_gets_about_its_share() -> None:
    counted = Counter(of_all(queues(*THREE)))

    assert counted.keys() == {*THREE}
    assert all(600 <= count <= 735 for count in counted.values())


def test_the_order_of_the_names_changes_nothing() -> None:
    assert of_all(queues("a", "b", "c")) == of_all(queues("c", "a", "b", "a"))


def test_a_queue_more_takes_its_share_and_moves_no_other_stream() -> None:
    before, after = of_all(queues(*THREE)), of_all(queues(*THREE, "d"))

    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert {*moved} == {"d"}
    assert 430 <= len(moved) <= 570


def test_a_queue_less_moves_its_own_streams_alone() -> None:
    before, after = of_all(queues(*THREE)), of_all(queues("a", "c"))

    assert {old for old, new in zip(before, after, strict=True) if old != new} == {"b"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"site": "north"}, "north"),
        ({"site": "south"}, "south"),
        ({"site": "west"}, None),
        ({"zone": "north"}, None),
        ({}, None),
    ],
)
def test_a_label_that_names_a_queue_decides(labels: dict[str, str], expected: str | None) -> None:
    by_name = queues("north", "south").queue_of("orders", {})

    found = queues("north", "south", label="site").queue_of("orders", labels)

    assert found == (expected or by_name)


def test_the_label_without_a_key_is_no_label() -> None:
    assert queues("north", "south").queue_of("orders", {"": "south"}) == queues(
        "north", "south"
    ).queue_of("orders", {"": "north"})


def test_without_names_a_stream_has_no_queue() -> None:
    assert NO_QUEUES.queue_of("orders", {"site": "north"}) is None


@pytest.mark.parametrize(
    ("names", "label", "error"),
    [
        (["q" * (LONGEST_QUEUE + 1)], "", "at most 256"),
        (["a\nb"], "", r"'a\\nb'"),
        ([f"q{number}" for number in range(MOST_QUEUES + 1)], "", "has 101 queues"),
        ([], "site", "trigger_queues is empty"),
    ],
)
def test_a_wrong_setting_is_refused(names: list[str], label: str, error: str) -> None:
    with pytest.raises(SpecError, match=error):
        queues(*names, label=label)


def test_the_bounds_are_accepted_and_encoded() -> None:
    found = queues("q" * LONGEST_QUEUE, *(f"q{n}" for n in range(MOST_QUEUES - 1)), label="site")

    assert TriggerQueues.from_dict(found.to_dict()) == found
    assert TriggerQueues.from_dict({}) == NO_QUEUES
