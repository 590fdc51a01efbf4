"""What wakes a task that has asked a user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from airflow_streaming.triggers import question
from airflow_streaming.triggers.question import CommandQuestionTrigger, StartQuestionTrigger
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.triggers.firing import first_event

ANSWER = {"chosen_options": ["Approve"], "timedout": False}


@pytest.fixture
def stream(tmp_path: Path) -> Cutting:
    cut = Cutting(tmp_path)
    cut.begin()
    cut.advance(CutoverState.CATCHING_UP)
    return cut


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the answers that Airflow has: the last one stays."""
    found: list[dict[str, Any]] = [{}]

    async def answer_to(_: str) -> dict[str, Any]:
        return found[0] if len(found) == 1 else found.pop(0)

    monkeypatch.setattr(question, "answer_to", answer_to)
    return found


def waiting(stream: Cutting, kind: Any = CommandQuestionTrigger, **more: Any) -> Any:
    told: dict[str, Any] = {
        "home": stream.uri,
        "stream": "orders",
        "ti_id": "01990000-0000-7000-8000-000000000001",
        "deferred_at": (datetime.now(UTC) - timedelta(hours=1)).isoformat(),
        "poll_seconds": 0.01,
    }
    if kind is CommandQuestionTrigger:
        told |= {"change": 1, "command": "promote"}
    return kind(**{**told, **more})


async def test_an_answer_that_came_before_the_deferral_is_read(
    stream: Cutting, answers: list[dict[str, Any]]
) -> None:
    answers[:] = [{}, {}, ANSWER]

    assert await first_event(waiting(stream)) == ANSWER


async def test_a_command_given_elsewhere_wakes_the_task(
    stream: Cutting, answers: list[dict[str, Any]]
) -> None:
    stream.engine().command(CutoverCommand.ABORT, "Wrong totals.")

    event = await first_event(waiting(stream))

    assert event["settled"]["answer"] == "no"
    assert "Wrong totals." in event["settled"]["reason"]


@pytest.mark.parametrize(
    ("asked", "is_settled"),
    [(["orders", 1], False), (["orders", 4], True), (["orders.green", 1], True)],
    ids=["as it was", "another deployment", "another lane"],
)
def test_another_deployment_settles_whether_a_change_may_start(
    asked: list[Any], is_settled: bool, stream: Cutting
) -> None:
    event, _ = waiting(stream, StartQuestionTrigger, asked={"orders": asked}).look_once()

    assert (event is not None) == is_settled


@pytest.mark.parametrize(
    ("until", "event"),
    [(timedelta(hours=-1), {"timedout": True}), (timedelta(hours=1), None), (None, None)],
)
def test_silence_ends_the_question_in_time(
    until: timedelta | None, event: dict[str, Any] | None, stream: Cutting
) -> None:
    over = None if until is None else (datetime.now(UTC) + until).isoformat()

    assert waiting(stream, until=over).look_once() == (event, None)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (CommandQuestionTrigger, {"change": 1, "command": "keep"}),
        (StartQuestionTrigger, {"asked": {"orders": ["orders", 3]}}),
    ],
)
def test_it_travels_and_a_row_of_a_newer_release_still_loads(
    kind: Any, own: dict[str, Any], stream: Cutting
) -> None:
    path, kwargs = waiting(stream, kind, until="2026-03-01T00:00:00+00:00", **own).serialize()

    again = kind(**kwargs, invented_later=True)

    assert path == f"airflow_streaming.triggers.question.{kind.__name__}"
    assert again.serialize() == (path, kwargs)
    assert {key: kwargs[key] for key in own} == own


def test_a_look_changes_nothing_in_the_home(stream: Cutting) -> None:
    def files() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in Path(stream.uri).rglob("*") if p.is_file()}

    before = files()
    waiting(stream).look_once()
    waiting(stream, StartQuestionTrigger, asked={"orders": ["orders", 1]}).look_once()

    assert files() == before


@pytest.mark.parametrize(("age", "event"), [(1, {"timedout": True}), (-1, None)])
def test_silence_is_an_answer_also_while_a_record_is_damaged(
    age: int, event: Any, stream: Cutting
) -> None:
    until = (datetime.now(UTC) - timedelta(hours=age)).isoformat()

    assert waiting(stream, until=until).damaged("changes/000001.json is torn") == event


async def test_an_answer_is_told_only_once_airflow_has_recorded_the_deferral(
    monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]]
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(question.asyncio, "sleep", sleep)
    answers[:] = [ANSWER]
    now = datetime.now(UTC).isoformat()

    event = await anext(question.AnswerTrigger(ti_id="x", deferred_at=now).run())

    assert event.payload == ANSWER
    assert 10 < slept[0] <= 15
