"""The whole story unattended: launch, kill, return, and not a row lost or doubled; of an example, shorter."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from airflow_streaming.advice.examined import RiskLevel
from airflow_streaming.model.records.epoch import Epoch
from demo.events import COLUMNS, LATENESS, Shop, synthetic_files
from demo.figures import figures
from demo.pipelines import Pipeline
from demo.stage import REPOSITORY, Stage
from demo.waiting import Say, wait_for

DAYS: Final = 16
BATCHES_BEFORE_THE_KILL: Final = 3
BATCHES_AFTER_THE_KILL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what was seen."""

    what: str
    seen: str
    holds: bool


def tell_story(
    folder: Path, runtime: Path, say: Say, *, dags: Path = REPOSITORY / "dags"
) -> list[Check]:
    """
    Run the story once and return what was checked.

    :param dags: Folder of the dag files; those of the story are among them.
    :raises RuntimeError: the story could not continue; nothing is left running.
    """
    shop = Shop()
    files = synthetic_files(DAYS, shop)
    stage = Stage(folder, runtime=runtime, files=files, dags=dags, say=say)
    with stage:
        took = launch(stage, say)
        checks = [
            Check(what="launched from a dag and well", seen=f"after {took:.0f} s", holds=True),
            _kill_and_return(stage, say),
            *_finish(stage, shop, say),
        ]
    return [*checks, _left(stage)]


def tell_example(stage: Stage, example: Pipeline, say: Say) -> list[Check]:
    """
    Run one of the examples, kill its driver once, and return what was checked and counted.

    :param stage: Made for the example, and prepared.
    :raises RuntimeError: the story could not continue; nothing is left running.
    """
    with stage:
        took = launch(stage, say, example.name)
        launched = Check(what="launched from a dag", seen=f"after {took:.0f} s", holds=True)
        if example.gives_up:
            checks = [launched, *_kill_and_give_up(stage, example.gives_up, say)]
        else:
            checks = [launched, *_kill_and_count(stage, example, say)]
        checks.append(_one_at_a_time(stage))
    return [*checks, _left(stage)]


def _kill_and_count(stage: Stage, example: Pipeline, say: Say) -> list[Check]:
    returned = _kill_and_return(stage, say)
    _wait(stage, say, lambda: _is_done(stage, example), "rows in every part of the output")
    stage.stream.stop(say)
    found = figures(stage.stream.records, example.written(stage))
    return [returned, Check(what="rows", seen=str(found), holds=found.restarts > 0)]


def _is_done(stage: Stage, example: Pipeline) -> bool:
    """Tell whether it has worked on after the kill, or come to its end, and written all it writes."""
    status = stage.stream.status
    if example.ends:
        has_worked = stage.stream.has_completed()
    else:
        has_worked = status is not None and status.batches >= BATCHES_AFTER_THE_KILL
    return has_worked and example.has_written(stage)


def _left(stage: Stage) -> Check:
    left = [f"{process.pid} {process.name()}" for process in stage.leftovers()]
    return Check(what="processes left behind", seen=", ".join(left) or "none", holds=not left)


def _one_at_a_time(stage: Stage) -> Check:
    count = stage.drivers
    return Check(
        what="drivers alive at once",
        seen=f"at most {count.most} in {count.looks} looks",
        holds=count.most == 1,
    )


def launch(stage: Stage, say: Say, dag: str = "retail_revenue") -> float:
    """
    Let the files arrive and the stream begin; return the seconds until its first batch.

    :param dag: The dag that launches it.
    :raises RuntimeError: it did not come to that; says why.
    """
    stage.arrivals.start()
    say(f"Synthetic events arrive in {stage.orders}")
    wait_for(
        lambda: stage.airflow.has_dag(dag),
        what="the dag processor to read the dags",
        say=say,
        failing=stage.airflow.ended_component,
    )
    stage.airflow.unpause(dag)
    return _wait(stage, say, lambda: _works(stage), "the stream to be launched and commit a batch")


def _works(stage: Stage) -> bool:
    return stage.stream.is_well() or stage.stream.has_completed()


def _kill(stage: Stage, say: Say) -> Epoch:
    """Kill the driver once it has worked; return its epoch."""
    stream = stage.stream

    def has_worked() -> bool:
        status = stream.status
        return status is not None and status.batches >= BATCHES_BEFORE_THE_KILL

    _wait(stage, say, has_worked, f"{BATCHES_BEFORE_THE_KILL} committed batches")
    killed = stream.epoch
    if killed is None:
        raise RuntimeError("The stream has a status and no epoch.")
    say(f"Killed the driver's JVM, process {stream.kill_driver()}, with SIGKILL")
    return killed


def _kill_and_return(stage: Stage, say: Say) -> Check:
    stream = stage.stream
    killed, moment = _kill(stage, say), time.monotonic()

    def has_returned() -> bool:
        epoch = stream.epoch
        return epoch is not None and epoch.number > killed.number and _works(stage)

    _wait(stage, say, has_returned, "the stream to come back and commit a batch")
    took, epoch = time.monotonic() - moment, stream.epoch
    cause = epoch.cause.value if epoch else "no driver"
    return Check(
        what="back after SIGKILL",
        seen=f"epoch {killed.number} to {epoch.number if epoch else '?'} ({cause}), "
        f"next batch after {took:.0f} s",
        holds=cause == "restart",
    )


def _kill_and_give_up(stage: Stage, kind: str, say: Say) -> list[Check]:
    stream = stage.stream
    killed = _kill(stage, say).number
    named = sorted(one.rule for one in stream.advice() if one.level is RiskLevel.HIGH)
    wait_for(
        lambda: stream.failure() is not None,
        what="the stream to give up",
        say=say,
        failing=stage.airflow.ended_component,
        seen=stream.table,
    )
    newest = stream.epoch
    end = stream.records.exit(newest.number) if newest else None
    seen = f"epoch {end.epoch}: {end.failure_kind}: {end.reason}" if end else "no exit record"
    holds = end is not None and (end.epoch, end.failure_kind) == (killed + 1, kind)
    return [
        Check(what="named by the doctor", seen=", ".join(named), holds="source-replay" in named),
        Check(what="given up after one restart", seen=seen, holds=holds),
    ]


def _finish(stage: Stage, shop: Shop, say: Say) -> list[Check]:
    report = stage.airflow.trigger("retail_report")
    final = _newest_event(shop) - LATENESS
    _wait(stage, say, lambda: stage.stream.has_passed(final), "all files to be consumed")
    arrived = stage.arrivals.dropped
    gated = stage.airflow.await_run("retail_report", report, say, failing=stage.stream.failure)
    return [
        Check(what="input consumed", seen=f"{arrived} of {DAYS} files", holds=arrived == DAYS),
        Check(what="report gated by the sensor", seen=gated, holds=gated == "success"),
        _stop(stage, say),
        _compare(stage, say),
        _one_at_a_time(stage),
    ]


def _newest_event(shop: Shop) -> datetime:
    column = COLUMNS.index("InvoiceDate")
    newest = max(line[column] for line in shop.day(DAYS - 1))
    return datetime.fromisoformat(f"{newest}+00:00")


def _compare(stage: Stage, say: Say) -> Check:
    say("Comparing the output with a batch run over the same files")
    result = stage.compare()
    differs = result["lost"] or result["doubled"] or result["wrong"]
    return Check(
        what="output equals a batch run",
        seen="{found} rows of {expected}, {lost} lost, {doubled} doubled, {wrong} wrong".format(
            **result
        ),
        holds=not differs and result["expected"] > 0,
    )


def _stop(stage: Stage, say: Say) -> Check:
    run = stage.airflow.trigger("stream_switch", action="stop", reason="The story ends.")
    state, gone = stage.airflow.await_run("stream_switch", run, say), stage.stream.is_gone()
    return Check(
        what="stopped from a dag",
        seen=f"{state}, driver {'gone' if gone else 'still there'}",
        holds=state == "success" and gone,
    )


def _wait(stage: Stage, say: Say, condition: Callable[[], bool], what: str) -> float:
    def failing() -> str | None:
        return stage.airflow.ended_component() or stage.stream.failure()

    return wait_for(condition, what=what, say=say, failing=failing, seen=stage.stream.table)


def show(checks: list[Check]) -> str:
    """Return the checks as a table."""
    width = max(len(check.what) for check in checks) + 2
    return "\n".join(
        f"{'ok' if check.holds else 'NOT OK':<8}{check.what:<{width}}{check.seen}"
        for check in checks
    )
