"""Which sinks a launch puts back, which it leaves alone, and which it refuses; by values alone."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.checkpoints.repair.decide import (
    NOTHING,
    RepairCode,
    SinkPosition,
    decide_repair,
)

AHEAD: dict[str, Any] = {
    "query": "counts",
    "planned": 6,
    "committed": 5,
    "sink": 6,
    "has_state_ids": True,
}
CASES: dict[str, tuple[dict[str, Any], RepairCode]] = {
    "the sink has the planned batch": ({}, RepairCode.PUT_BACK),
    "the first batch": ({"planned": 0, "committed": -1, "sink": 0}, RepairCode.PUT_BACK),
    "no commit is missing": ({"committed": 6}, RepairCode.NOTHING),
    "the killed batch is not in the sink": ({"sink": 5}, RepairCode.NOTHING),
    "nothing was planned": ({"planned": -1, "committed": -1, "sink": -1}, RepairCode.NOTHING),
    "the state has no ids": ({"has_state_ids": False}, RepairCode.NOTHING),
    "two plans without a commit": ({"planned": 7}, RepairCode.NOTHING),
    "the sink has a later batch": ({"sink": 7}, RepairCode.NOT_ONE_BATCH),
    "the sink has lost batches": ({"sink": 3}, RepairCode.NOT_ONE_BATCH),
    "an empty sink of an old query": ({"sink": -1}, RepairCode.NOT_ONE_BATCH),
    "an unseen sink": ({"sink": None, "unseen": "No route."}, RepairCode.UNSEEN),
    "an unseen sink without an open batch": (
        {"sink": None, "committed": 6},
        RepairCode.NOTHING,
    ),
    "a hole in the sink's log": ({"lost": "4"}, RepairCode.LOG_INCOMPLETE),
    "a second query in the folder": ({"writers": ("query 'b'",)}, RepairCode.SHARED),
    "a second query that is further": (
        {"writers": ("query 'b'",), "sink": 9},
        RepairCode.SHARED,
    ),
    "a second query and no open batch": (
        {"writers": ("query 'b'",), "committed": 6},
        RepairCode.NOTHING,
    ),
}


@pytest.mark.parametrize(("changes", "code"), CASES.values(), ids=CASES.keys())
def test_one_look_decides(changes: dict[str, Any], code: RepairCode) -> None:
    decision = decide_repair(SinkPosition(**AHEAD | changes))

    assert decision.code is code
    assert decision.is_refused is (code not in (RepairCode.NOTHING, RepairCode.PUT_BACK))
    assert bool(decision.reason) is (decision != NOTHING)


def test_a_batch_that_a_user_has_put_back_stays() -> None:
    seen = SinkPosition(**AHEAD)

    assert decide_repair(seen, {6}).code is RepairCode.UNDONE
    assert decide_repair(seen, {5}).code is RepairCode.PUT_BACK


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["'counts' has batch 6", "committed 5"]),
        ({"sink": None, "unseen": "No route."}, ["Batch 6", "No route.", "start the stream again"]),
        ({"sink": 9}, ["has batch 9", "committed 5", "planned 6", "--rewind"]),
        (
            {"writers": ("query 'b'", "query 'c'")},
            ["has batch 6", "query 'b' and query 'c'", "output folder of its own"],
        ),
        ({"lost": "4"}, ["lacks entry 4", "--rewind"]),
    ],
    ids=str,
)
def test_a_reason_has_the_values_and_what_to_do(changes: dict[str, Any], words: list[str]) -> None:
    reason = decide_repair(SinkPosition(**AHEAD | changes)).reason

    assert [word for word in words if word not in reason] == []
