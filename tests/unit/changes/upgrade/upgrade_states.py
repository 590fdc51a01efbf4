"""States of an upgrade, and the sights that go with them, for the tests of its decisions."""

from __future__ import annotations

from typing import Any, Final

from airflow_streaming.changes.judging.soak import SoakResult, SoakVerdict
from airflow_streaming.changes.upgrade.state import UpgradeView
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.model.records.epoch import LaunchCause, Outcome
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeTransition, WarmUp
from airflow_streaming.supervision.decide import STOP_MARGIN
from tests.unit.home.make import an_upgrade_step
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_death,
    a_deployment,
    a_situation,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
    minutes,
    observed,
    seconds,
)

GONE, UNSEEN = ProcessState.GONE, ProcessState.UNSEEN
OLD, NEW, BACK = 3, 4, 5
FENCE: Final = EPOCH + 1

BEFORE: Final = (Stage.BEGUN, Stage.BACKED_UP)
DOWN: Final = (*BEFORE, Stage.STOPPED)
READY: Final = (*BEFORE, Stage.READY)
APPLYING: Final = (*DOWN, Stage.APPLYING)
DEPLOYED: Final = (*APPLYING, Stage.DEPLOYED)
LAUNCHED: Final = (*DEPLOYED, Stage.LAUNCHED)
JUDGED: Final = (*LAUNCHED, Stage.JUDGED)
ROLLING: Final = (*LAUNCHED, Stage.ROLLING_BACK)
RESTORED: Final = (*ROLLING, Stage.RESTORED)

FACTS: Final[dict[Stage, dict[str, str]]] = {
    Stage.READY: {"warm_up": WarmUp.WARM},
    Stage.STOPPED: {"fence": str(FENCE), "boundary": "b-2"},
    Stage.LAUNCHED: {"epoch": str(FENCE + 1)},
    Stage.JUDGED: {"verdict": "good"},
    Stage.RESTORED: {"checkpoint": "/c"},
}


def an_upgrade(*stages: Stage, **changes: Any) -> UpgradeView:
    """Return an upgrade that has come so far; ``situation`` holds what differs from the usual."""
    verdict = changes.pop("verdict", "good")
    warm_up = changes.pop("warm_up", WarmUp.WARM)
    facts = {**FACTS, Stage.JUDGED: {"verdict": verdict}, Stage.READY: {"warm_up": warm_up}}
    history: list[UpgradeTransition] = []
    for stage in stages:
        if stage is not Stage.BEGUN:
            told = {"change": 2, "at": NOW, "facts": facts.get(stage, {})}
            history.append(an_upgrade_step(history, stage, **told))
    way = changes.pop("way", RollbackMethod.REWIND)
    terms = UpgradeTerms(
        change=2,
        proposed=a_deployment(number=NEW, runtime="spark-4.9"),
        rollback=RollbackPlan(way=way, reason="So it is."),
        keeps_by_itself=changes.pop("keeps_by_itself", True),
        prewarm=changes.pop("prewarm", False),
    )
    change = Change(
        number=2,
        stream="orders",
        what=ChangeKind.UPGRADE,
        replaced=OLD,
        deployment=NEW,
        checkpoint="/c",
        by="kim",
        reason="A release.",
        at=NOW,
        terms="ab" * 32,
    )
    situation = a_situation(**changes.pop("situation", {}))
    return UpgradeView(change=change, terms=terms, history=history, situation=situation, **changes)


def deployed(number: int) -> Any:
    """Return what is the current deployment when the upgrade has made this one."""
    runtime = "spark-4.9" if number == NEW else "spark-4.3"
    return a_deployment(number=number, runtime=runtime)


def driver(number: int, deployment: int, cause: LaunchCause, **changes: Any) -> Any:
    """Return the observation of an epoch that the upgrade has begun."""
    epoch = an_epoch(number=number, deployment=deployment, cause=cause, change=2)
    return observed(changes.pop("process", ProcessState.RUNNING), epoch=epoch, **changes)


def fence(number: int = FENCE, deployment: int = OLD, **changes: Any) -> dict[str, Any]:
    """Return the situation behind a finished fence."""
    told = {"process": GONE, "launch": None, "status": None, "death": a_death(epoch=number)}
    return {
        "seen": driver(number, deployment, LaunchCause.FENCE, **told | changes),
        "stop": a_stop(epoch=number),
    }


STOPPED: Final = {"desired": DesiredState.STOPPED}
ENDED: Final = {"seen": observed(GONE, exit=an_exit(Outcome.STOPPED)), "stop": a_stop()}
OURS: Final = a_stop(change=2)
UNFINISHED: Final = fence(death=None, status=a_status())
OVERDUE: Final = {"stop": OURS, "stopping_for": seconds(60) + STOP_MARGIN}
LOST: Final = observed(UNSEEN, silent_for=minutes(1))
RUNS: Final = {
    "deployment": deployed(NEW),
    "seen": driver(FENCE + 1, NEW, LaunchCause.UPGRADE),
}
DIED: Final = {
    "deployment": deployed(NEW),
    "seen": driver(FENCE + 1, NEW, LaunchCause.UPGRADE, process=GONE, exit=an_exit()),
}
UNBORN: Final = {"launch": None, "status": None, "process": GONE}
BEHIND_FENCE: Final = {"deployment": deployed(NEW), **fence()}
FENCED_AGAIN: Final = {"deployment": deployed(NEW), **fence(FENCE + 2, NEW)}
OLD_RUNS: Final = {
    "deployment": deployed(BACK),
    "seen": driver(FENCE + 3, BACK, LaunchCause.ROLLBACK),
}
OTHER: Final = a_deployment(number=NEW, runtime="somebody else's")


def soak(result: SoakResult) -> dict[str, Any]:
    return {"soak": SoakVerdict(result=result, reason="So it soaks.")}
