"""The whole story without a person: launch, kill, return, and not a row lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from demo.events import FIRST_DAY, Shop, synthetic_files
from demo.stage import Stage
from demo.waiting import Say, wait_for

DAYS: Final = 16
BATCHES_BEFORE_THE_KILL: Final = 3
START_SECONDS: Final = 240.0
"""Time for the scheduler to run the task, and for Spark to start and commit a batch."""

LATENESS: Final = timedelta(days=1)
"""What the application allows; the watermark trails the newest event by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what was seen."""

    what: str
    seen: str
    holds: bool


def tell_story(folder: Path, runtime: Path, say: Say) -> list[Check]:
    """
    Run the story once and return what was checked.

    :raises RuntimeError: the story could not go on; nothing is left running.
    """
    shop = Shop()
    stage = Stage(folder, runtime=runtime, files=synthetic_files(DAYS, shop), say=say)
    with stage:
        checks = [*_launch(stage, say), *_kill_and_return(stage, say), *_finish(stage, shop, say)]
    left = [f"{process.pid} {process.name()}" for process in stage.leftovers()]
    return [
        *checks,
        Check(what="processes left behind", seen=", ".join(left) or "none", holds=not left),
    ]


def _launch(stage: Stage, say: Say) -> list[Check]:
    stage.arrivals.start()
    wait_for(
        lambda: stage.airflow.has_dag("retail_revenue"),
        what="the dag processor to read the dags",
        seconds=START_SECONDS,
        say=say,
    )
    stage.airflow.unpause("retail_revenue")
    took = _wait(stage, say, stage.stream.is_well, "the stream to be launched and commit a batch")
    return [
        Check(what="launched from a dag and well", seen=f"after {took:.0f} s", holds=True),
    ]


def _kill_and_return(stage: Stage, say: Say) -> list[Check]:
    stream = stage.stream

    def has_worked() -> bool:
        status = stream.status
        return status is not None and status.batches >= BATCHES_BEFORE_THE_KILL

    _wait(stage, say, has_worked, f"{BATCHES_BEFORE_THE_KILL} committed batches")
    killed = stream.epoch
    if killed is None:
        raise RuntimeError("The stream has a status and no epoch.")
    pid, moment = stream.kill_driver(), time.monotonic()
    say(f"Killed the driver's JVM, process {pid}, with SIGKILL")

    def has_returned() -> bool:
        epoch = stream.epoch
        return epoch is not None and epoch.number > killed.number and stream.is_well()

    _wait(stage, say, has_returned, "the stream to come back and commit a batch")
    took, epoch = time.monotonic() - moment, stream.epoch
    cause = epoch.cause.value if epoch else "nobody"
    return [
        Check(
            what="back after SIGKILL",
            seen=f"epoch {killed.number} to {epoch.number if epoch else '?'} ({cause}), "
            f"next batch after {took:.0f} s",
            holds=cause == "restart",
        )
    ]


def _finish(stage: Stage, shop: Shop, say: Say) -> list[Check]:
    report = _start_report(stage)
    last = FIRST_DAY + timedelta(days=DAYS - 1)
    watermark = max(line[4] for line in shop.day(DAYS - 1))
    final = last.fromisoformat(f"{watermark}+00:00") - LATENESS
    _wait(stage, say, lambda: stage.stream.has_passed(final), "all files to be consumed")
    checks = [
        Check(
            what="input consumed",
            seen=f"{stage.arrivals.dropped} of {DAYS} files",
            holds=stage.arrivals.dropped == DAYS,
        ),
        _finish_report(stage, report, say),
    ]
    stage.stream.stop(say)
    say("Comparing the output with a batch run over the same files")
    result = stage.compare()
    equal = not (result["lost"] or result["doubled"] or result["wrong"]) and result["expected"] > 0
    checks.append(
        Check(
            what="output equals a batch run",
            seen="{found} rows of {expected}, {lost} lost, {doubled} doubled, {wrong} wrong".format(
                **result
            ),
            holds=equal,
        )
    )
    return [
        *checks,
        Check(
            what="drivers alive at once",
            seen=f"at most {stage.drivers.most} in {stage.drivers.looks} looks",
            holds=stage.drivers.most == 1,
        ),
    ]


def _start_report(stage: Stage) -> str:
    stage.airflow.unpause("retail_report")
    return stage.airflow.trigger("retail_report")


def _finish_report(stage: Stage, run: str, say: Say) -> Check:
    def is_over() -> bool:
        return stage.airflow.run_state("retail_report", run) in ("success", "failed")

    _wait(stage, say, is_over, "the report that waits for a healthy stream")
    state = stage.airflow.run_state("retail_report", run)
    return Check(what="report gated by the sensor", seen=state, holds=state == "success")


def _wait(stage: Stage, say: Say, condition: Callable[[], bool], what: str) -> float:
    def failing() -> str | None:
        return stage.airflow.ended_component() or stage.stream.failure()

    return wait_for(condition, what=what, seconds=START_SECONDS, say=say, failing=failing)


def show(checks: list[Check]) -> str:
    """Return the checks as a table."""
    width = max(len(check.what) for check in checks) + 2
    return "\n".join(
        f"{'ok' if check.holds else 'NOT OK':<8}{check.what:<{width}}{check.seen}"
        for check in checks
    )
