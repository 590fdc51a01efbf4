"""A size is carried out by the driver or by a restart: exactly one of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from airflow_streaming.model.records.size_change import SizeChange, SizeCode
from airflow_streaming.model.status import Resizing, SizeStatus
from airflow_streaming.supervision.scaling.carry_out import (
    ANSWER_WITHIN,
    WORK_WITHIN,
    CarryOut,
    SizeState,
    carry_out,
)
from tests.unit.supervision.builders import EPOCH, NOW, seconds

CHANGE: Final = SizeChange(
    number=3,
    epoch=EPOCH,
    code=SizeCode.UP,
    executors=6,
    before=4,
    configured=4,
    reason="It is busy.",
    by="a task",
    at=NOW,
)
ABLE: Final = SizeStatus(executors=4, number=2, state=Resizing.IN_PLACE)
STATE: Final = SizeState(epoch=EPOCH, wanted=6, started_with=4, now=NOW, driver=ABLE, newest=CHANGE)


def driver(**changes: Any) -> SizeStatus:
    return replace(ABLE, number=3, **changes)


CASES: Final[dict[str, tuple[dict[str, Any], CarryOut]]] = {
    "not managed": ({"wanted": None}, CarryOut.NOTHING),
    "it has the size": ({"wanted": 4}, CarryOut.NOTHING),
    "an older driver has it": ({"driver": None, "started_with": 6}, CarryOut.NOTHING),
    "an older driver has another": ({"driver": None}, CarryOut.RESTART),
    "its size is unknown": ({"driver": None, "started_with": None}, CarryOut.NOTHING),
    "just recorded": ({}, CarryOut.IN_PLACE),
    "not seen in time": ({"now": NOW + ANSWER_WITHIN}, CarryOut.RESTART),
    "in work": (
        {"driver": driver(state=Resizing.WORKING), "now": NOW + WORK_WITHIN * 9},
        CarryOut.IN_PLACE,
    ),
    "in work for too long": (
        {"driver": driver(state=Resizing.WORKING, working_for_s=WORK_WITHIN.total_seconds())},
        CarryOut.RESTART,
    ),
    "refused": ({"driver": driver(state=Resizing.REFUSED)}, CarryOut.RESTART),
    "reached": ({"driver": driver(state=Resizing.IN_PLACE, executors=6)}, CarryOut.NOTHING),
    "the limits changed afterwards": ({"wanted": 5}, CarryOut.RESTART),
    "the limits changed before any record": ({"newest": None}, CarryOut.RESTART),
    "recorded for an older driver": (
        {"newest": replace(CHANGE, epoch=EPOCH - 1)},
        CarryOut.RESTART,
    ),
    "recommended only": (
        {"newest": replace(CHANGE, code=SizeCode.WOULD_UP)},
        CarryOut.RESTART,
    ),
    "a clock that is behind": ({"now": NOW - seconds(30)}, CarryOut.IN_PLACE),
}


@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES.keys())
def test_the_way_to_a_size(given: dict[str, Any], expected: CarryOut) -> None:
    step = carry_out(replace(STATE, **given))

    assert step.how is expected
    assert bool(step.reason) is (expected is not CarryOut.NOTHING)


def test_the_reason_of_the_driver_is_the_reason_of_the_restart() -> None:
    refused = driver(state=Resizing.REFUSED, reason="Spark runs in local mode.")

    assert carry_out(replace(STATE, driver=refused)).reason == "Spark runs in local mode."
