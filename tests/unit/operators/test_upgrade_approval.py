"""Who is asked about an upgrade, and when nobody is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.operators.upgrade import UpgradeApprovalOperator
from tests.unit.operators.upgrades import TaskInstance

REPORT = {("preflight", "report"): {"key": "k", "replaced": 1}}


def execute(
    monkeypatch: pytest.MonkeyPatch, xcoms: dict[tuple[str, str], Any], **asked: Any
) -> UpgradeApprovalOperator:
    """Execute the task until a person would be asked."""
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: "asked")
    task = UpgradeApprovalOperator(
        task_id="approve", preflight_task_id="preflight", subject="?", **asked
    )
    ti = TaskInstance(task_id="approve", run_id="run-1", xcoms=xcoms)
    task.answer = task.execute({"ti": ti})
    return task


@pytest.mark.parametrize(
    ("approvers", "allowed", "expected"),
    [
        pytest.param("", (), [], id="everybody who may edit the dag"),
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
        pytest.param({"need_approval": "False"}, None, id="not needed"),
        pytest.param({"need_approval": True}, "asked", id="needed"),
        pytest.param(
            {"need_approval": "False", "allowed_approvers": ("ann",)}, "asked", id="bound"
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


def test_silence_is_a_no_only_where_it_is_timed() -> None:
    timed = {"response_timeout": timedelta(hours=1)}
    told = {"task_id": "approve", "preflight_task_id": "preflight", "subject": "?"}

    assert UpgradeApprovalOperator(**told, **timed).defaults == ["Reject"]
    assert UpgradeApprovalOperator(**told).defaults is None
