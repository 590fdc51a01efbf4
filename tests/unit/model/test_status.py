"""What a status says of all its queries together, and of its host."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.supervision.builders import BEGUN, HOST, a_query, a_status, minutes


def test_the_batches_of_all_queries_are_counted() -> None:
    assert a_status(queries=(a_query(batches=2), a_query(batches=3))).batches == 5
    assert a_status(queries=()).batches == 0


@pytest.mark.parametrize(
    ("first", "at", "progressed_for"),
    [
        (None, BEGUN, timedelta(0)),
        (BEGUN, BEGUN + minutes(7), minutes(7)),
        (BEGUN + minutes(7), BEGUN, timedelta(0)),
    ],
    ids=["no batch yet", "seven minutes", "a clock set back"],
)
def test_progress_is_timed_by_the_clock_of_the_driver(
    first: Any, at: Any, progressed_for: timedelta
) -> None:
    assert a_status(first_progress_at=first, at=at).progressed_for == progressed_for


@pytest.mark.parametrize(
    ("earlier", "now", "proved"),
    [
        ({"boot": "b-2"}, {}, True),
        ({"boot": "b-2", "cards": ("c-9", "c-1")}, {}, True),
        ({}, {}, False),
        ({"boot": "b-2", "name": "worker-2"}, {}, False),
        ({"boot": "b-2", "machine": "m-2"}, {}, False),
        ({"boot": ""}, {}, False),
        ({}, {"boot": ""}, False),
        ({"boot": "b-2", "machine": ""}, {"machine": ""}, False),
        ({"boot": "b-2", "cards": ("c-2",)}, {}, False),
        ({"boot": "b-2", "cards": ()}, {"cards": ()}, False),
    ],
    ids=[
        "another boot of the same machine",
        "one more network card",
        "the same boot",
        "another name",
        "another machine",
        "boot unknown now",
        "boot unknown then",
        "machine unknown",
        "a clone with another network card",
        "no network card known",
    ],
)
def test_a_reboot_is_proved_by_the_same_machine_and_another_boot(
    now: dict[str, Any], earlier: dict[str, Any], proved: bool
) -> None:
    assert replace(HOST, **now).rebooted_since(replace(HOST, **earlier)) is proved


def test_a_network_card_that_comes_or_goes_makes_no_other_host() -> None:
    assert replace(HOST, cards=()) == HOST
