"""What a status says of all its queries together, and of its host."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.model.records.epoch import Host
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
        (HOST, Host(name="worker-1", machine="m-1", boot="b-2"), True),
        (HOST, HOST, False),
        (HOST, Host(name="worker-2", machine="m-1", boot="b-2"), False),
        (HOST, Host(name="worker-1", machine="m-2", boot="b-2"), False),
        (HOST, Host(name="worker-1", machine="m-1", boot=""), False),
        (Host(name="worker-1", machine="m-1"), HOST, False),
        (Host(name="localhost", boot="b-1"), Host(name="localhost", boot="b-2"), False),
    ],
    ids=[
        "another boot of the same machine",
        "the same boot",
        "another name",
        "another machine",
        "boot unknown now",
        "boot unknown then",
        "machine unknown",
    ],
)
def test_a_reboot_is_proved_by_the_same_machine_and_another_boot(
    earlier: Host, now: Host, proved: bool
) -> None:
    assert now.rebooted_since(earlier) is proved
