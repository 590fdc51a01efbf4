"""When a question about a change is settled without its own answer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_streaming.changes.answers import (
    Answer,
    Running,
    Settled,
    command_settled,
    start_settled,
)
from airflow_streaming.model.records.control import ChangeEnd, ChangeOutcome
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverCommand,
    CutoverEvent,
    CutoverTransition,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
E = CutoverEvent
READY = (E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME)
SOAKING = (*READY, E.PROMOTE, E.SWITCHED, E.GREEN_COMMITTED)
PROMOTE, KEEP = CutoverCommand.PROMOTE, CutoverCommand.KEEP


def history(*events: CutoverEvent) -> list[CutoverTransition]:
    steps: list[CutoverTransition] = []
    for event in events:
        told = {"change": 1, "reason": "Because.", "at": AT, "by": "kim"}
        steps.append(CutoverTransition.next_of(steps, CUTOVER, event, **told))
    return steps


@pytest.mark.parametrize(
    ("command", "events", "answer"),
    [
        pytest.param(PROMOTE, (), None, id="nothing yet"),
        pytest.param(PROMOTE, READY, None, id="ready"),
        pytest.param(PROMOTE, (*READY, E.GREEN_FELL_BEHIND), None, id="green is judged again"),
        pytest.param(PROMOTE, (*READY, E.LOOK_AGAIN), None, id="compared once more"),
        pytest.param(PROMOTE, (*READY, E.PROMOTE), Answer.YES, id="promoted"),
        pytest.param(PROMOTE, (*READY, E.HAND_OVER), Answer.YES, id="handed over"),
        pytest.param(PROMOTE, SOAKING, Answer.YES, id="promoted long ago"),
        pytest.param(PROMOTE, (*READY, E.ABORT), Answer.NO, id="aborted"),
        pytest.param(PROMOTE, (*READY, E.ABORT, E.UNDONE), Answer.NO, id="aborted long ago"),
        pytest.param(PROMOTE, (*READY, E.DEADLINE), Answer.VOID, id="too long"),
        pytest.param(PROMOTE, (*READY, E.GREEN_FAILED), Answer.VOID, id="green failed"),
        pytest.param(KEEP, SOAKING[:-1], None, id="live"),
        pytest.param(KEEP, SOAKING, None, id="soaking"),
        pytest.param(KEEP, (*SOAKING, E.KEEP), Answer.YES, id="kept"),
        pytest.param(KEEP, (*SOAKING, E.KEEP, E.BLUE_STOPPED), Answer.YES, id="kept long ago"),
        pytest.param(KEEP, (*SOAKING, E.ROLL_BACK), Answer.NO, id="rolled back"),
        pytest.param(KEEP, (*READY, E.PROMOTE, E.ABORT), Answer.NO, id="aborted in the switch"),
        pytest.param(KEEP, (*SOAKING, E.SOAK_PASSED), Answer.VOID, id="finalized by the soak"),
        pytest.param(KEEP, (*SOAKING, E.SOAK_FAILED), Answer.VOID, id="bad soak"),
    ],
)
def test_the_question_of_a_command_is_settled_by_the_steps_of_the_cutover(
    command: CutoverCommand, events: tuple[CutoverEvent, ...], answer: Answer | None
) -> None:
    found = command_settled(command, history(*events), None)

    assert (None if found is None else found.answer) == answer


def test_it_names_who_has_answered_and_why() -> None:
    found = command_settled(PROMOTE, history(*READY, E.PROMOTE), None)

    assert found is not None
    assert found.reason == "Promote by kim: Because."


def test_a_cutover_that_ended_without_a_step_leaves_nothing_to_answer() -> None:
    end = ChangeEnd(number=1, outcome=ChangeOutcome.ABANDONED, by="kim", reason="Gone.", at=AT)

    assert command_settled(PROMOTE, [], end) == Settled(Answer.VOID, "The cutover has ended: Gone.")


WAS = {"orders": Running("orders", 3), "items": Running("items.green", 7)}


@pytest.mark.parametrize(
    ("now", "settled"),
    [
        pytest.param({}, None, id="as it was"),
        pytest.param({"orders": Running("orders", 4)}, "orders", id="another deployment"),
        pytest.param({"items": Running("items", 7)}, "items", id="another lane"),
        pytest.param({"items": Running("items", None)}, None, id="a home that is not mounted"),
    ],
)
def test_whether_a_change_may_start_is_settled_once_another_deployment_runs(
    now: dict[str, Running], settled: str | None
) -> None:
    found = start_settled(WAS, {**WAS, **now})

    assert (None if found is None else found.answer) == (settled and Answer.VOID)
    assert found is None or found.reason.startswith(f"Stream {settled!r} now runs deployment")
