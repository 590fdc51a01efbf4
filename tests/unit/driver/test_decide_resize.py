"""A driver carries out a change of its size by itself, or leaves it to a restart, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.driver.resizing.decide import (
    LIMIT_SECONDS,
    ResizeAct,
    ResizeView,
    decide_resize,
    leaving,
    most_executors,
    refusal,
)
from airflow_streaming.model.records.size_change import SizeChange, SizeCode
from tests.unit.driver.fakes import NOON

UP = SizeChange(
    number=1,
    epoch=7,
    code=SizeCode.UP,
    executors=4,
    before=2,
    configured=2,
    reason="It falls behind.",
    by="ann",
    at=NOON,
)
DOWN = replace(UP, code=SizeCode.DOWN, executors=1)
SAME = replace(UP, executors=2)
WOULD = replace(UP, code=SizeCode.WOULD_UP)
LATE = {"working_for": LIMIT_SECONDS}
ASKED = {"is_asked": True}

CASES: list[tuple[str, SizeChange, dict[str, Any], ResizeAct]] = [
    ("more", UP, {}, ResizeAct.GROW),
    ("fewer", DOWN, {}, ResizeAct.HOLD),
    ("fewer_between_batches", DOWN, {"is_held": True}, ResizeAct.SHRINK),
    ("between_batches_after_the_limit", DOWN, {"is_held": True, **LATE}, ResizeAct.SHRINK),
    ("the_batch_does_not_end", DOWN, LATE, ResizeAct.REFUSE),
    ("cannot_be_held", DOWN, {"cannot_hold": "It is continuous."}, ResizeAct.REFUSE),
    ("more_needs_no_hold", UP, {"cannot_hold": "It is continuous."}, ResizeAct.GROW),
    ("the_size_it_has", SAME, {}, ResizeAct.DONE),
    ("of_an_older_epoch", replace(UP, epoch=6), {}, ResizeAct.IGNORE),
    ("of_a_newer_epoch", replace(DOWN, epoch=8), {"is_held": True}, ResizeAct.IGNORE),
    ("recommended_only", WOULD, {}, ResizeAct.IGNORE),
    ("refused", UP, {"refusal": "Local mode."}, ResizeAct.REFUSE),
    ("refused_in_a_pause", UP, {"refusal": "Local.", "is_paused": True}, ResizeAct.REFUSE),
    ("no_context_yet", UP, {"refusal": None}, ResizeAct.WAIT),
    ("never_a_context", UP, {"refusal": None, **LATE}, ResizeAct.REFUSE),
    ("more_in_a_pause", UP, {"is_paused": True}, ResizeAct.WAIT),
    ("fewer_in_a_pause", DOWN, {"is_paused": True, **LATE}, ResizeAct.WAIT),
    ("some_have_come", UP, {**ASKED, "alive": 3}, ResizeAct.WAIT),
    ("all_have_come", UP, {**ASKED, "alive": 4}, ResizeAct.DONE),
    ("the_cluster_is_full", UP, {**ASKED, "alive": 2, **LATE}, ResizeAct.DONE),
    ("its_state_is_spread", UP, {**ASKED, "alive": 4, "has_state": True}, ResizeAct.HOLD),
    ("part_of_it_too", UP, {**ASKED, **LATE, "alive": 3, "has_state": True}, ResizeAct.HOLD),
    (
        "spread_between_batches",
        UP,
        {**ASKED, "alive": 4, "has_state": True, "is_held": True},
        ResizeAct.DONE,
    ),
    (
        "state_in_a_pause_stays",
        UP,
        {**ASKED, "alive": 4, "has_state": True, "is_paused": True},
        ResizeAct.DONE,
    ),
    (
        "state_that_cannot_be_held_stays",
        UP,
        {**ASKED, "alive": 4, "has_state": True, "cannot_hold": "It is continuous."},
        ResizeAct.DONE,
    ),
    (
        "a_batch_without_an_end_keeps_its_state",
        UP,
        {**ASKED, "alive": 4, "has_state": True, "working_for": 2 * LIMIT_SECONDS},
        ResizeAct.DONE,
    ),
    ("gone_with_state", DOWN, {**ASKED, "alive": 1, "has_state": True}, ResizeAct.DONE),
    ("one_goes_still", DOWN, {**ASKED, "alive": 2}, ResizeAct.WAIT),
    ("all_have_gone", DOWN, {**ASKED, "alive": 1}, ResizeAct.DONE),
    ("one_more_was_lost", DOWN, {**ASKED, "alive": 0}, ResizeAct.DONE),
    ("one_does_not_go", DOWN, {**ASKED, "alive": 2, **LATE}, ResizeAct.REFUSE),
    ("asked_before_a_pause", UP, {**ASKED, "alive": 4, "is_paused": True}, ResizeAct.DONE),
]


@pytest.mark.parametrize(
    ("change", "seen", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_the_next_act(change: SizeChange, seen: dict[str, Any], expected: ResizeAct) -> None:
    step = decide_resize(ResizeView(change=change, epoch=7, size=2, **seen))

    assert step.act is expected
    if expected is ResizeAct.REFUSE:
        assert step.reason


def test_executors_that_the_cluster_owes_are_named() -> None:
    view = ResizeView(change=UP, epoch=7, size=2, is_asked=True, alive=3, working_for=LIMIT_SECONDS)

    assert "3 of 4" in decide_resize(view).reason


STANDALONE = {
    "spark.master": "spark://master:7077",
    "spark.cores.max": "8",
    "spark.executor.cores": "2",
}
YARN = {"spark.master": "yarn", "spark.executor.instances": "2"}
DYNAMIC = {**YARN, "spark.dynamicAllocation.enabled": "true"}


@pytest.mark.parametrize(
    ("conf", "executors", "is_elastic", "can"),
    [
        (STANDALONE, 4, True, True),
        (STANDALONE, 5, True, False),
        ({**STANDALONE, "spark.executor.cores": "x"}, 5, True, True),
        (YARN, 50, True, True),
        ({**YARN, "spark.cores.max": "2", "spark.executor.cores": "2"}, 50, True, True),
        ({**YARN, "spark.master": "k8s://https://api"}, 50, True, True),
        (YARN, 3, False, False),
        (DYNAMIC, 3, True, False),
        ({"spark.master": "local[4]"}, 3, True, False),
    ],
)
def test_an_application_that_cannot_change_its_size_says_why(
    conf: dict[str, str], executors: int, is_elastic: bool, can: bool
) -> None:
    assert (refusal(conf, executors, is_elastic=is_elastic) == "") is can


def test_the_masters_limit_is_in_executors() -> None:
    assert most_executors(STANDALONE) == 4
    assert most_executors(YARN) is None


def test_executors_with_the_least_state_go_and_the_youngest_first() -> None:
    loaded = {"0": 3, "1": 2, "9": 2}

    assert leaving(["0", "1", "9", "10"], loaded, 2) == ["10", "9"]
    assert leaving(["0", "1", "9", "10"], {}, 2) == ["10", "9"]
    assert leaving(["0", "1"], loaded, 0) == []
