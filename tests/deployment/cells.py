"""Acts on a stream of a deployment, and parts that die in the middle of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState
from airflow_streaming.model.records.upgrade_table import Stage as UpgradeStage
from airflow_streaming.services import streams
from demo.airflow import ENDED
from demo.events import COLUMNS, LATENESS, Shop
from demo.stream import Stream
from demo.waiting import Say, wait_for
from tests.deployment.deployed import STREAM, Deployment
from tests.deployment.fetching import fetch_output
from tests.deployment.table import Outcome
from tests.system.victims import worker as busy_worker

DOWN_SECONDS: Final = 5.0
"""How long a part is away before it is started again."""
CELL_SECONDS: Final = 1200.0
"""A cutover builds the state of green anew, and on a crowded machine each of its steps takes minutes."""
LOOK_EVERY: Final = 1.0
MIDDLE_EVERY: Final = 0.3
"""The middle of an act may last a second."""
FAILED: Final = ("failed", "up_for_retry")
POD: Final = "this worker is a pod of KubernetesExecutor"
"""Of the sentence by which a local driver is refused there."""
BUSY: Final = ("running", "queued", "scheduled", "restarting")
OVER: Final = (
    CutoverState.FINALIZED,
    CutoverState.RETIRED,
    CutoverState.ABORTED,
    CutoverState.ROLLED_BACK,
)


@dataclass
class World:
    """
    Deployment on which acts and kills work.

    :param edits: Counts upgrades and cutovers, so that each has something to change.
    """

    made: Deployment
    say: Say
    edits: int = 0
    run: tuple[str, str] = ("", "")
    before: int = 0

    @property
    def stream(self) -> Stream:
        """Return the live lane of the stream."""
        return Stream(self.made.stage.home, self.lane)

    @property
    def lane(self) -> str:
        """Return the name of the live lane."""
        return live_lane(open_home(self.made.stage.home), STREAM)

    @property
    def home(self) -> StreamHome:
        """Return the records of the stream."""
        return self.made.stage.stream.records

    @property
    def epoch(self) -> int:
        """Return the number of the live lane's newest epoch."""
        newest = self.stream.epoch
        return newest.number if newest else 0

    def until(self, condition: Callable[[], bool], what: str, every: float = LOOK_EVERY) -> None:
        """Wait for something; a look that fails counts as "not yet", because a part may be away."""
        wait_for(
            lambda: bool(looked(condition)),
            what=what,
            say=self.say,
            seconds=CELL_SECONDS,
            failing=self.made.airflow.ended_component,
            every=every,
        )

    def trigger(self, kind: str, **form: Any) -> None:
        """Start a run of one of the stream's dags, as soon as Airflow takes it."""
        dag = f"{STREAM}_{kind}"
        self.run = dag, self.made.airflow.trigger(dag, **form)

    def run_state(self) -> str:
        """Return the state of that run."""
        return self.made.airflow.run_state(*self.run)

    def tasks(self, dag: str, run: str = "~") -> list[dict[str, Any]]:
        """Return the task instances of a run, or of all runs."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=100&order_by=-start_date"
        found: list[dict[str, Any]] = self.made.airflow.get(path)["task_instances"]
        return found

    def acting(self) -> list[dict[str, Any]]:
        """Return the task instances that run or are deferred: of the run, else of the keep-alive task."""
        own = self.tasks(*self.run) if self.run[0] else []
        found = [*own, *self.tasks(STREAM)]
        return [one for one in found if one["state"] in (*BUSY, "deferred")]


def looked(condition: Callable[[], Any]) -> Any:
    """Look, and return ``None`` where a part of the deployment does not answer."""
    try:
        return condition()
    except OSError:
        return None


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


def _works_again(world: World) -> bool:
    return world.epoch > world.before and world.stream.is_well()


def _is_launching(world: World) -> bool:
    return any(one["state"] == "running" for one in world.tasks(STREAM)) or (
        world.epoch > world.before
    )


def _stopped(world: World) -> None:
    by, reason = "a test", "an act begins"
    streams.stop(world.stream.records, by=by, reason=reason)
    world.until(world.stream.is_gone, "the driver to stop")


def _launch(world: World) -> None:
    _stopped(world)
    streams.start(world.stream.records, by="a test", reason="an act begins")


def _kill_driver(world: World) -> None:
    world.stream.kill_driver()


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
    _stopped(world)
    world.trigger("restore", dry_run=False, rewind=True, level="quick")


def _start_restored(world: World) -> str:
    if wrong := _succeeded(world):
        return wrong
    streams.start(world.stream.records, by="a test", reason="It is restored.")
    world.until(lambda: _works_again(world), "the restored stream")
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
    "launch": Act(begin=_launch, midway=_is_launching, over=_works_again),
    "driver-kill": Act(begin=_kill_driver, midway=_is_launching, over=_works_again),
    "backup": Act(begin=_back_up, midway=_run_works, over=_run_is_over, check=_succeeded),
    "restore": Act(begin=_restore, midway=_run_works, over=_run_is_over, check=_start_restored),
    "page": Act(begin=_act_of_the_page, midway=_is_launching, over=_works_again),
    "upgrade": Act(begin=_upgrade, midway=_upgrade_began, over=_run_is_over, check=_upgrade_kept),
    "blue-green": Act(begin=_cut_over, midway=_green_runs, over=_cutover_over, check=_cutover_made),
}


def _worker(world: World) -> str:
    airflow = world.made.airflow
    for one in world.acting():
        if one["state"] == "running" and one["hostname"] in airflow.commands():
            return _component(world, one["hostname"])
    if "worker-1" in airflow.commands():
        return _component(world, "worker-1")
    return busy_worker(world.made.stage) or "no worker was busy"


def _triggerer(world: World) -> str:
    for one in world.acting():
        job = one.get("triggerer_job") or {}
        if job.get("hostname") in world.made.airflow.commands():
            return _component(world, job["hostname"])
    return _component(world, _first(world, "triggerer"))


def _first(world: World, kind: str) -> str:
    return next(name for name in world.made.airflow.commands() if name.startswith(kind))


def _any(world: World, kind: str) -> str:
    return _component(world, _first(world, kind))


def _component(world: World, name: str) -> str:
    killed = world.made.airflow.kill_component(name)
    time.sleep(DOWN_SECONDS)
    world.made.airflow.start_component(name)
    return f"{name}, {killed}"


def _server(world: World, *names: str) -> str:
    name = next(name for name in names if name in world.made.servers)
    server = world.made.servers[name]
    server.stop()
    time.sleep(DOWN_SECONDS)
    server.start()
    server.ready(world.say)
    return server.name


PARTS: Final[Mapping[str, Callable[[World], str]]] = {
    "worker": _worker,
    "triggerer": _triggerer,
    "scheduler": partial(_any, kind="scheduler"),
    "api-server": partial(_any, kind="api-server"),
    "database": lambda world: _server(world, "postgresql", "mariadb"),
    "redis": lambda world: _server(world, "redis"),
    "proxy": lambda world: _server(world, "proxy"),
}
"""Kill a part, or stop it in order where it is a server of others, and start it again after a while."""

Cell = tuple[str, str]


def chosen(text: str) -> list[Cell]:
    """
    Return the cells of a command line: ``ACT:PART,ACT:PART``; ``all`` stands for every act or part.

    :raises RuntimeError: an act or a part is unknown.
    """
    cells: list[Cell] = []
    for one in filter(None, text.split(",")):
        act, _, part = one.partition(":")
        rows = [name for name in ACTS if ACTS[name].needs_stream] if act == "all" else [act]
        columns = ["none", *PARTS] if part == "all" else [part or "none"]
        cells += [(row, column) for row in rows for column in columns]
    names = {name for cell in cells for name in cell}
    if unknown := names - {*ACTS, *PARTS, "none"}:
        raise RuntimeError(f"Unknown act or part: {', '.join(sorted(unknown))}.")
    return cells


def run_cells(
    made: Deployment,
    cells: Sequence[Cell],
    say: Say,
    results: Path | None,
    pause: Callable[[World], None] = lambda world: None,
) -> list[Outcome]:
    """
    Let the stream run, run the cells one after the other, and count the rows at the end.

    :param pause: Waits before each cell, and after the last one.
    """
    world = World(made, say)
    made.stage.arrivals.start()
    world.until(lambda: made.airflow.has_dag(STREAM), "the dags")
    made.airflow.unpause(STREAM)
    has_stream = any(ACTS[act].needs_stream for act, _ in cells)
    if has_stream:
        world.until(lambda: _works_again(world), "the stream to be well")
    outcomes = []
    for cell in cells:
        pause(world)
        outcomes.append(_run_cell(world, *cell))
        say(f"{outcomes[-1]}")
        if results is not None:
            with results.open("a") as lines:
                lines.write(json.dumps(asdict(outcomes[-1])) + "\n")
    pause(world)
    if not has_stream:
        return outcomes
    rows = _count(world)
    say(f"Rows: {rows}; ended on their own: {made.airflow.revived or 'no component'}")
    counted = (rows["lost"], rows["doubled"], rows["wrong"])
    return [replace(one, rows=counted) for one in outcomes]


def _run_cell(world: World, name: str, part: str) -> Outcome:
    act, begun = ACTS[name], time.monotonic()
    world.run, world.before = ("", ""), world.epoch
    world.say(f"== {name}, killed: {part}")
    failure = ""
    try:
        if act.needs_stream:
            world.until(world.stream.is_well, "the stream to be well")
        world.before = world.epoch
        act.begin(world)
        if part != "none":
            world.until(
                lambda: act.midway(world) or act.over(world), "the middle of the act", MIDDLE_EVERY
            )
            world.say(f"Killed {PARTS[part](world)}")
        world.until(lambda: act.over(world), "the end of the act")
        failure = act.check(world)
    except (RuntimeError, OSError) as err:
        failure = str(err)
    return Outcome(
        act=name,
        part=part,
        seconds=time.monotonic() - begun,
        failure=failure,
        drivers=world.made.stage.drivers.most,
    )


def _count(world: World) -> dict[str, Any]:
    stage = world.made.stage
    stage.arrivals.stop()
    column = COLUMNS.index("InvoiceDate")
    newest = max(line[column] for line in Shop().day(stage.arrivals.dropped - 1))
    final = datetime.fromisoformat(f"{newest}+00:00") - LATENESS
    world.until(lambda: world.stream.has_passed(final), "all files to be consumed")
    stage.stream = world.stream
    _stopped(world)
    if not world.made.profile.is_stored:
        return stage.compare()
    return stage.compare(str(fetch_output(stage.stream.output, stage.folder / "fetched")))
