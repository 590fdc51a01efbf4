"""What a task hands to the trigger that watches in its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.operators.common.stream import TriggerFactory
from tests.unit.supervision.builders import a_restart, a_situation, seconds
from tests.unit.world import World


@pytest.mark.parametrize(
    ("situation", "due_in"),
    [
        ({}, None),
        ({"decision": a_restart(due_in=seconds(40))}, 40.0),
        ({"decision": a_restart(due_in=seconds(-1))}, None),
    ],
    ids=["no restart is decided", "one that waits", "one that is due"],
)
def test_the_trigger_knows_how_long_a_restart_waits_by_the_clock_of_the_task(
    world: World, situation: dict[str, Any], due_in: float | None
) -> None:
    waiting = TriggerFactory(
        spec=world.spec(),
        home_conn_id=None,
        poll_interval=timedelta(seconds=5),
        rollover_after=None,
    )

    trigger = waiting.trigger(a_situation(**situation), lane="orders", run_started_at=None)

    assert trigger.due_in_seconds == due_in
