"""A stream that has opted in is changed by an edited dag when the gates say that it may."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_streaming.core.change import Change, ChangeSort
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding, report_of
from airflow_streaming.core.control import EventKind
from airflow_streaming.core.upgrade.terms import RollbackPlan, RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import LaunchError
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

    monkeypatch.setattr("airflow_streaming.upgrade.preflight.ask_gates", gates)


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


@pytest.mark.parametrize("restart", [True, False])
def test_nothing_is_applied_while_an_upgrade_is_open(
    restart: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    answer(monkeypatch, GateDecision.ALLOWED)
    current = world.home.deployment(1)
    terms = UpgradeTerms(
        change=1,
        proposed=replace(current, number=2),
        rollback=RollbackPlan(way=RollbackWay.RESUME, reason="It keeps nothing."),
    )
    world.home.begin_change(
        Change(
            number=1,
            stream="orders",
            what=ChangeSort.UPGRADE,
            replaced=1,
            deployment=2,
            checkpoint=current.checkpoint,
            by="ann",
            reason="test",
            at=datetime.now(UTC),
            terms=world.home.keep_terms(terms),
        )
    )

    world.run(edited(world), restart=restart)

    assert deployed(world) == 1
    assert "has to wait for the end of change 1" in said(world)
