"""A stream that has opted in is changed by an edited dag when the gates say that it may."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.gates.findings import GateDecision, GateFinding, report_of
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    EventKind,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, UpgradeTerms
from tests.unit.world import World

EDIT = {"conf": {"spark.executor.memory": "2g"}}


def edited(world: World, *, apply_allowed: bool = True) -> Any:
    operator = world.operator(**EDIT)
    operator.apply_allowed = apply_allowed
    return operator


def deployed(world: World) -> int:
    deployment = world.home.newest_deployment()
    assert deployment is not None
    return deployment.number


def said(world: World) -> str:
    return [e for e in world.home.events() if e.event is EventKind.PROPOSED][-1].message


def answer(monkeypatch: pytest.MonkeyPatch, what: GateDecision | Exception) -> None:
    def gates(*_: Any, **__: Any) -> Any:
        if isinstance(what, Exception):
            raise what
        return report_of([GateFinding(rule="sink.path", severity=what, message="It moves.")])

    monkeypatch.setattr("airflow_streaming.changes.upgrade.preflight.ask_gates", gates)


def test_what_the_gates_allow_is_applied(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)

    world.run(edited(world))

    assert deployed(world) == 2


@pytest.mark.parametrize(
    "decision",
    [GateDecision.ALLOWED_WITH_CONSEQUENCE, GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED],
)
def test_what_is_less_than_allowed_stays_a_proposal(
    decision: GateDecision, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, decision)

    world.run(edited(world))

    assert deployed(world) == 1
    assert "It moves." in said(world)


def test_gates_that_cannot_be_asked_leave_the_stream_watched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, LaunchError("no Spark here"))

    world.run(edited(world))

    assert deployed(world) == 1
    assert "no Spark here" in said(world)
    assert world.launcher.living() == [1]


def test_without_the_word_of_the_author_no_gate_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)

    world.run(edited(world, apply_allowed=False))

    assert deployed(world) == 1


def begin_upgrade(world: World, proposed: Deployment, *, replaced: int = 1) -> None:
    terms = UpgradeTerms(
        change=1,
        proposed=replace(proposed, number=replaced + 1),
        rollback=RollbackPlan(way=RollbackMethod.RESUME, reason="It keeps nothing."),
    )
    world.home.begin_change(
        Change(
            number=1,
            stream="orders",
            what=ChangeKind.UPGRADE,
            replaced=replaced,
            deployment=replaced + 1,
            checkpoint=proposed.checkpoint,
            by="ann",
            reason="test",
            at=datetime.now(UTC),
            terms=world.home.keep_terms(terms),
        )
    )


def end_upgrade(world: World, outcome: ChangeOutcome) -> None:
    reason = "Ann has said so."
    world.home.end_change(
        ChangeEnd(number=1, outcome=outcome, by="ann", reason=reason, at=datetime.now(UTC))
    )


def test_what_a_kept_upgrade_has_replaced_is_not_brought_back_by_the_dag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)
    world.run(edited(world))
    begin_upgrade(world, world.home.deployment(2))
    end_upgrade(world, ChangeOutcome.DONE)
    as_before = world.operator()
    as_before.apply_allowed = True

    world.run(as_before)

    assert deployed(world) == 2
    assert "what change 1 has replaced" in said(world)
    assert "write that into the dag" in said(world)
    world.run(as_before, restart=True)
    assert deployed(world) == 3, "a person's word counts"


@pytest.mark.parametrize("outcome", [ChangeOutcome.ROLLED_BACK, ChangeOutcome.ABANDONED])
def test_what_an_upgrade_has_tried_and_taken_back_is_not_applied_by_the_dag(
    outcome: ChangeOutcome, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)
    current = world.home.deployment(1)
    tried = {**current.conf, **EDIT["conf"]}
    # The old deployment is back on another checkpoint than the one on which it was tried.
    begin_upgrade(world, replace(current, conf=tried, checkpoint="/before"))
    end_upgrade(world, outcome)

    world.run(edited(world))

    assert deployed(world) == 1
    assert "what change 1 has tried" in said(world)
    assert "Ann has said so." in said(world)


def test_what_no_upgrade_was_about_is_applied_after_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)
    begin_upgrade(world, world.home.deployment(1))
    end_upgrade(world, ChangeOutcome.ROLLED_BACK)

    world.run(edited(world))

    assert deployed(world) == 2


@pytest.mark.parametrize("restart", [True, False])
def test_nothing_is_applied_while_an_upgrade_is_open(
    restart: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)
    begin_upgrade(world, world.home.deployment(1))

    world.run(edited(world), restart=restart)

    assert deployed(world) == 1
    assert "Change 1 must finish first." in said(world)


def test_an_edit_is_applied_on_top_of_the_values_that_a_form_has_set(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    task = world.operator()
    by_form = {"spark.executor.cores": "2"}
    hook = task.open_edited_hook(world.context(), task.stream, conf=by_form)
    hook.controller.deploy(*hook.proposal())
    answer(monkeypatch, GateDecision.ALLOWED)

    world.run(edited(world))

    live = world.home.newest_deployment()
    assert live is not None
    assert (live.number, live.conf["spark.executor.memory"]) == (3, "2g")
    assert live.conf["spark.executor.cores"] == "2"


def test_a_dag_without_an_edit_takes_back_no_value_of_a_form(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    task = world.operator()
    hook = task.open_edited_hook(world.context(), task.stream, conf={"spark.executor.cores": "2"})
    hook.controller.deploy(*hook.proposal())
    answer(monkeypatch, GateDecision.ALLOWED)
    task.apply_allowed = True

    world.run(task)

    assert deployed(world) == 2
    assert "names another deployment than the live one (2)" in said(world)
