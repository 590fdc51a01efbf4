"""The change gate names a sink that skips batches together with state in checkpoint format 2."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.findings import GateDecision
from tests.unit.gates.change.builders import (
    a_checkpoint,
    a_sink,
    a_stateless,
    an_aggregation,
    decision_of,
    rules_of,
)

RULE = "sink.skips_state"
FORMAT_2 = a_checkpoint(state_format=2)
CASES = {
    "a file sink": (an_aggregation(), FORMAT_2, True),
    "a function": (an_aggregation(sink=a_sink("foreachbatch")), FORMAT_2, True),
    "a table": (an_aggregation(sink=a_sink("delta")), FORMAT_2, True),
    "Kafka": (an_aggregation(sink=a_sink("kafka")), FORMAT_2, False),
    "format 1": (an_aggregation(), a_checkpoint(state_format=1), False),
    "no state": (a_stateless(), a_checkpoint(state_format=2, operators=()), False),
    "no checkpoint": (an_aggregation(), None, False),
}


@pytest.mark.parametrize(("plan", "checkpoint", "is_named"), CASES.values(), ids=CASES.keys())
def test_the_combination_is_named(plan: object, checkpoint: object, is_named: bool) -> None:
    assert (RULE in rules_of(plan, plan, checkpoint=checkpoint)) is is_named  # type: ignore[arg-type]


def test_it_stands_against_no_change() -> None:
    plan = an_aggregation()

    assert decision_of(plan, plan, checkpoint=FORMAT_2) is GateDecision.ALLOWED
