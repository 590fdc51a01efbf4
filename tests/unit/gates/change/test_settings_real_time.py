"""State of checkpoint format 1 does not go on in real-time mode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from tests.unit.gates.change.builders import (
    a_checkpoint,
    a_sink,
    a_stateless,
    an_aggregation,
    rules_of,
)

RULE = "trigger.real_time_state"


@pytest.mark.parametrize(
    ("is_stateful", "trigger", "checkpoint", "is_named"),
    [
        pytest.param(True, "real time 1 minute", a_checkpoint(state_format=1), True, id="format 1"),
        pytest.param(
            True, "real time 1 minute", a_checkpoint(state_format=2), False, id="format 2"
        ),
        pytest.param(True, "real time 1 minute", None, False, id="no checkpoint"),
        pytest.param(True, "1 minute", a_checkpoint(state_format=1), False, id="batches"),
        pytest.param(
            False, "real time 1 minute", a_checkpoint(state_format=1), False, id="no state"
        ),
    ],
)
def test_state_of_format_1_is_refused(
    is_stateful: bool, trigger: str, checkpoint: Checkpoint | None, is_named: bool
) -> None:
    old = replace(an_aggregation() if is_stateful else a_stateless(), sink=a_sink("kafka"))
    new = replace(old, processing_trigger=trigger)

    assert (RULE in rules_of(old, new, checkpoint=checkpoint)) is is_named
