"""Acts on the stream of a deployment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState
from airflow_streaming.model.records.upgrade_table import Stage as UpgradeStage
from airflow_streaming.services import streams
from demo.airflow import ENDED
from tests.deployment.deployed import STREAM
from tests.deployment.world import World

FAILED: Final = ("failed", "up_for_retry")
POD: Final = "this worker is a pod of KubernetesExecutor"
"""Of the sentence by which a local driver is refused there."""
OVER: Final = (
    CutoverState.FINALIZED,
    CutoverState.RETIRED,
    CutoverState.ABORTED,
    CutoverState.ROLLED_BACK,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """
    Act on the stream.

    :param begin: Begins it.
    :param midway: Tells that it has begun and is not over.
    :param over: Tells that it is over.
    :param check: Says what is wrong with its end; empty when nothing is.
    :param needs_stream: It begins with a stream that is well.
    """

    begin: Callable[[World], None]
    midway: Callable[[World], bool]
    over: Callable[[World], bool]
    check: Callable[[World], str] = lambda world: ""
    needs_stream: bool = True


def works_again(world: World) -> bool:
    """Tell whether a driver that began after the act did is well."""
    return world.epoch > world.before and world.stream.is_well()


def _is_launching(world: World) -> bool:
    return any(one["state"] == "running" for one in world.tasks(STREAM)) or (
        world.epoch > world.before
    )


def _bring_down(world: World) -> None:
    by, reason = "a test", "an act begins"
    streams.stop(world.stream.records, by=by, reason=reason)
    world.until(world.stream.is_gone, "the driver to stop")


def _launch(world: World) -> None:
    _bring_down(world)
    streams.start(world.stream.records, by="a test", reason="an act begins")


def _kill_driver(world: World) -> None:
    if not world.made.profile.has_cluster:
        world.stream.kill_driver()
        return
    epoch = world.stream.epoch
    # The records of a driver on a cluster name no process of this host.
    pids = world.made.stage.drivers.alive().get(epoch.mark if epoch else "", [])
    if not pids:
        raise RuntimeError(f"Stream {world.stream.name} has no driver to kill.")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _edit(world: World) -> dict[str, str]:
    world.edits += 1
    return {"spark.ui.retainedJobs": str(100 + world.edits)}


def _run_is_over(world: World) -> bool:
    return world.run_state() in ENDED


def _run_works(world: World) -> bool:
    return any(one["state"] == "running" for one in world.tasks(*world.run))


def _succeeded(world: World) -> str:
    state = world.run_state()
    return "" if state == "success" else f"the run is {state}"


def _upgrade(world: World) -> None:
    world.trigger("upgrade", dry_run=False, conf=_edit(world), rehearse="never")


def _upgrade_stages(world: World) -> list[UpgradeStage]:
    change = world.stream.records.newest_change()
    return [*world.stream.records.stages(change.number)] if change else []


def _upgrade_began(world: World) -> bool:
    return world.stream.records.unfinished_change() is not None


def _upgrade_kept(world: World) -> str:
    kept = UpgradeStage.KEPT in _upgrade_stages(world)
    return _succeeded(world) or ("" if kept else f"stages {_upgrade_stages(world)}")


def _cut_over(world: World) -> None:
    world.before = len(world.home.changes())
    world.trigger("blue_green", dry_run=False, conf=_edit(world), start="fresh", way="parallel")


def _cutover(world: World) -> CutoverState | None:
    if len(world.home.changes()) == world.before:
        return None
    return CUTOVER.state_of(world.home.steps(world.home.changes()[-1].number))


def _green_runs(world: World) -> bool:
    return _cutover(world) not in (None, CutoverState.PLANNED, *OVER)


def _cutover_over(world: World) -> bool:
    return _cutover(world) in OVER or _run_is_over(world)


def _cutover_made(world: World) -> str:
    state = _cutover(world)
    return "" if state is CutoverState.FINALIZED else f"the cutover is {state}"


def _back_up(world: World) -> None:
    world.trigger("backup")


def _restore(world: World) -> None:
    _bring_down(world)
    world.trigger("restore", dry_run=False, rewind=True, level="quick")


def _start_restored(world: World) -> str:
    if wrong := _succeeded(world):
        return wrong
    streams.start(world.stream.records, by="a test", reason="It is restored.")
    world.until(lambda: works_again(world), "the restored stream")
    return ""


def _page(world: World, act: str) -> None:
    path = f"/streaming/api/streams/{STREAM}/{STREAM}/acts/{act}"
    body = {"reason": "an act of the page", "confirm": STREAM}
    status, answer = world.made.airflow.act_as("team", path, body)
    if status != 200:
        raise RuntimeError(f"The page answers {status}: {answer}")


def _act_of_the_page(world: World) -> None:
    _page(world, "stop")
    world.until(world.stream.is_gone, "the driver to stop")
    _page(world, "start")


def _has_failed(world: World) -> bool:
    return any(one["state"] in FAILED for one in world.tasks(STREAM))


def _refused(world: World) -> str:
    logs = (world.made.airflow.home / "logs" / f"dag_id={STREAM}").rglob("*.log")
    is_told = any(POD in log.read_text(errors="replace") for log in logs)
    if world.made.stage.drivers.most:
        return "a driver ran"
    return "" if is_told else f"no log of the task has {POD!r}"


ACTS: Final[Mapping[str, Act]] = {
    "refusal": Act(
        begin=lambda world: None,
        midway=_has_failed,
        over=_has_failed,
        check=_refused,
        needs_stream=False,
    ),
    "launch": Act(begin=_launch, midway=_is_launching, over=works_again),
    "driver-kill": Act(begin=_kill_driver, midway=_is_launching, over=works_again),
    "backup": Act(begin=_back_up, midway=_run_works, over=_run_is_over, check=_succeeded),
    "restore": Act(begin=_restore, midway=_run_works, over=_run_is_over, check=_start_restored),
    "page": Act(begin=_act_of_the_page, midway=_is_launching, over=works_again),
    "upgrade": Act(begin=_upgrade, midway=_upgrade_began, over=_run_is_over, check=_upgrade_kept),
    "blue-green": Act(begin=_cut_over, midway=_green_runs, over=_cutover_over, check=_cutover_made),
}
