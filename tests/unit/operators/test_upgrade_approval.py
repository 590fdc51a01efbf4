"""Who is asked about an upgrade, and when nobody is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
    TaskDeferred,
)

from airflow_streaming.operators.common.form_edits import pulled
from airflow_streaming.operators.upgrade import UpgradeApprovalOperator
from airflow_streaming.triggers.question import AnswerTrigger, StartQuestionTrigger
from tests.unit.operators.upgrades import TaskInstance

REPORT = {("preflight", "report"): {"key": "k", "stream": "orders", "replaced": 1}}
PLACE = {"home": "/srv/home", "stream": "orders"}


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each report as recorded; ``test_run_report`` has forged ones."""
    tasks = "airflow_streaming.operators.upgrade"
    monkeypatch.setattr(f"{tasks}.UpgradeApprovalOperator.records", lambda _: None)
    monkeypatch.setattr(
        f"{tasks}.report_of_run", lambda context, _, task: pulled(context, task, "report")
    )


def execute(
    monkeypatch: pytest.MonkeyPatch, xcoms: dict[tuple[str, str], Any], **asked: Any
) -> UpgradeApprovalOperator:
    """Execute the task until a person would be asked."""
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: "asked")
    task = UpgradeApprovalOperator(
        task_id="approve", preflight_task_id="preflight", subject="?", **PLACE, **asked
    )
    ti = TaskInstance(task_id="approve", run_id="run-1", xcoms=xcoms)
    task.answer = task.execute({"ti": ti})
    return task


@pytest.mark.parametrize(
    ("approvers", "allowed", "expected"),
    [
        pytest.param("", (), [], id="every user who may edit the DAG"),
        pytest.param("", ("ann", "bob"), ["ann", "bob"], id="all whom the author named"),
        pytest.param("bob", ("ann", "bob"), ["bob"], id="fewer"),
        pytest.param(" ann , bob,", (), ["ann", "bob"], id="whom the form names"),
        pytest.param(["ann"], (), ["ann"], id="a list"),
    ],
)
def test_those_are_asked_who_may_answer(
    approvers: Any, allowed: tuple[str, ...], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = execute(monkeypatch, dict(REPORT), approvers=approvers, allowed_approvers=allowed)

    assert task.answer == "asked"
    assert [user["id"] for user in task.assigned_users or []] == expected


def test_nobody_makes_himself_an_approver_in_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="mallory may not approve this; ann may"):
        execute(monkeypatch, dict(REPORT), approvers="ann,mallory", allowed_approvers=("ann",))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        pytest.param({"approval": {"begin": "auto"}}, None, id="not needed"),
        pytest.param({"approval": {"begin": "ask"}}, "asked", id="needed"),
        pytest.param({}, "asked", id="not said"),
        pytest.param(
            {"approval": {"begin": "auto"}, "allowed_approvers": ("ann",)}, "asked", id="bound"
        ),
    ],
)
def test_whether_anybody_is_asked(
    asked: dict[str, Any], answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert execute(monkeypatch, dict(REPORT), **asked).answer == answer


def test_where_there_is_nothing_to_do_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    xcoms: dict[tuple[str, str], Any] = {("preflight", "ended"): "It runs already."}

    with pytest.raises(AirflowSkipException, match="It runs already"):
        execute(monkeypatch, xcoms)

    assert xcoms["approve", "ended"] == "It runs already."


ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {},
    "responded_at": datetime(2026, 3, 1, tzinfo=UTC),
    "responded_by_user": {"id": "7", "name": "ann"},
    "timedout": False,
}


def later_try(xcoms: dict[tuple[str, str], Any], **try_of: int) -> tuple[Any, Any]:
    task = UpgradeApprovalOperator(
        task_id="approve", preflight_task_id="preflight", subject="?", retries=3, **PLACE
    )
    ti = TaskInstance(task_id="approve", run_id="run-1", xcoms=xcoms, **try_of)
    return task, {"ti": ti, "task": task}


def test_a_retry_reads_the_answer_that_was_given_instead_of_dropping_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: pytest.fail("It asks again."))
    task, context = later_try(dict(REPORT), try_number=2, max_tries=3)

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)

    assert isinstance(deferred.value.trigger, AnswerTrigger)
    assert deferred.value.trigger.ti_id == context["ti"].id
    assert deferred.value.method_name == "on_answer"
    assert task.on_answer(context, ANSWER)["chosen_options"] == ["Approve"]


def test_a_no_that_was_given_to_an_earlier_try_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    xcoms: dict[tuple[str, str], Any] = dict(REPORT)
    task, context = later_try(xcoms, try_number=2, max_tries=3)

    task.on_answer(context, {**ANSWER, "chosen_options": ["Reject"]})

    assert xcoms["approve", "ended"] == "ann rejected it."


@pytest.mark.parametrize(
    "try_of",
    [
        pytest.param({"try_number": 1, "max_tries": 3}, id="the first try"),
        pytest.param({"try_number": 2, "max_tries": 4}, id="cleared by a person"),
    ],
)
def test_whoever_clears_the_task_is_asked_anew(
    try_of: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: "asked")
    task, context = later_try(dict(REPORT), **try_of)

    assert task.execute(context) == "asked"


def test_a_retry_asks_when_nobody_had_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: "asked")
    task, context = later_try(dict(REPORT), try_number=2, max_tries=3)

    assert task.on_answer(context, {}) == "asked"


class Detail(SimpleNamespace):
    """What Airflow has kept of a question."""


UNANSWERED = Detail(response_received=False, chosen_options=None)
ANSWERED = Detail(
    response_received=True,
    chosen_options=["Approve"],
    params_input=None,
    responded_at=ANSWER["responded_at"],
    responded_by_user=SimpleNamespace(id="7", name="ann"),
)


@pytest.mark.parametrize(
    ("detail", "event"),
    [
        pytest.param(ANSWERED, ANSWER, id="answered"),
        pytest.param(UNANSWERED, {}, id="not yet"),
        pytest.param(RuntimeError("not found"), {}, id="never asked"),
    ],
)
def test_the_trigger_tells_the_answer_that_airflow_has_kept(
    detail: Any, event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(ti_id: Any) -> Any:
        if isinstance(detail, Exception):
            raise detail
        return detail

    monkeypatch.setattr("airflow.sdk.execution_time.hitl.get_hitl_detail_content_detail", kept)
    path, kwargs = AnswerTrigger(ti_id=TaskInstance.id).serialize()
    assert path == "airflow_streaming.triggers.question.AnswerTrigger"

    async def first() -> Any:
        return await anext(AnswerTrigger(**kwargs).run())

    assert asyncio.run(first()).payload == event


def test_silence_is_a_no_only_where_it_is_timed() -> None:
    timed = {"response_timeout": timedelta(hours=1)}
    told = {"task_id": "approve", "preflight_task_id": "preflight", "subject": "?", **PLACE}

    assert UpgradeApprovalOperator(**told, **timed).defaults == ["Reject"]
    assert UpgradeApprovalOperator(**told).defaults is None


def parked(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> Any:
    """Return the trigger with which the task waits for an answer of an hour at most."""

    def park(*_: Any) -> None:
        raise TaskAwaitingInput(method_name="execute_complete", timeout=timedelta(hours=1))

    monkeypatch.setattr(ApprovalOperator, "execute", park)
    task = UpgradeApprovalOperator(
        task_id="approve", preflight_task_id="preflight", subject="?", **PLACE
    )
    ti = TaskInstance(task_id="approve", run_id="run-1", xcoms={("preflight", "report"): report})
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"ti": ti})
    assert deferred.value.method_name == "execute_complete"
    return deferred.value.trigger


@pytest.mark.parametrize(
    ("report", "asked"),
    [
        pytest.param(
            {"stream": "orders.green", "replaced": 4},
            {"orders": ["orders.green", 4]},
            id="upgrade",
        ),
        pytest.param(
            {"pairs": [{"stream": "orders", "blue": "orders", "replaced": 2}]},
            {"orders": ["orders", 2]},
            id="cutover",
        ),
    ],
)
def test_while_the_user_thinks_the_streams_of_the_report_are_watched(
    report: dict[str, Any], asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = parked(monkeypatch, report)
    _, told = trigger.serialize()

    assert isinstance(trigger, StartQuestionTrigger)
    assert told["asked"] == asked
    assert told["home"] == "/srv/home"
    waits = datetime.fromisoformat(told["until"]) - datetime.fromisoformat(told["deferred_at"])
    assert waits == timedelta(hours=1)


def test_a_question_that_another_run_has_overtaken_ends_the_run() -> None:
    xcoms: dict[tuple[str, str], Any] = dict(REPORT)
    task, context = later_try(xcoms)
    event = {"settled": {"answer": "void", "reason": "Deployment 2 runs."}}

    with pytest.raises(AirflowSkipException, match="Deployment 2 runs"):
        task.execute_complete(context, event)

    assert xcoms["approve", "ended"] == "Deployment 2 runs."


def test_silence_that_the_trigger_reports_is_a_no() -> None:
    xcoms: dict[tuple[str, str], Any] = dict(REPORT)
    task, context = later_try(xcoms)

    task.execute_complete(context, {"timedout": True})

    assert xcoms["approve", "ended"] == "The approval timed out."
