"""One run after the other on one stage: a cutover by workers that are killed, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import Transition
from airflow_streaming.live import live
from tests.system.cutovers import applications
from tests.system.cutovers.asked import Asked, Course
from tests.system.cutovers.baselines import run_steadily
from tests.system.cutovers.consumer import Consumer, new_rows
from tests.system.cutovers.dying import KILLED, Step, read_steps
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import STREAM, KeepAlive, Stage, start
from tests.system.cutovers.truth import judge, judge_rows
from tests.system.cutovers.waiting import until

REPOSITORY: Final = Path(__file__).resolve().parents[3]
STEADY_S: Final = 8.0
PATIENCE_S: Final = 400.0
S: Final = CutoverState
ENDS: Final = {
    Course.FORWARD: (S.FINALISED, S.RETIRED),
    Course.ABORT: (S.ABORTED,),
    Course.ROLL_BACK: (S.ROLLED_BACK,),
}


class Runs:
    """
    Cutovers of one stream that goes on from run to run.

    :param folder: A new one; everything lies here.
    :param spark: Folder of the runtime.
    :param sink: ``ledger`` or ``parquet``.
    """

    def __init__(self, folder: Path, spark: Path, sink: str) -> None:
        self.spark = spark
        self.stage = Stage.at(folder, spark, sink)
        self.applications = applications.write(folder / "jobs")
        self._shop = Shop(self.stage.input)
        self._keep_alive = KeepAlive(self.stage)
        self.consumer = Consumer(self.stage.home_uri, STREAM)
        self.crowd = Crowd(self.stage)

    def __enter__(self) -> Self:
        start(self.stage, self.applications["old"])
        for part in (self._shop, self._keep_alive, self.consumer, self.crowd):
            part.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self.crowd, self.consumer, self._keep_alive, self._shop):
            part.__exit__()
        self.stage.end()

    def play(self, asked: Asked) -> dict[str, Any]:
        """Take one cutover to its end; return what was seen."""
        self.poison.unlink(missing_ok=True)
        run_steadily(self.consumer, STEADY_S)
        began, blue = time.time(), self.stage.live_lane()
        asked_file = asked.write(self.stage.folder / f"run-{asked.number}.asked.json")
        workers = self._carry_out(asked, asked_file, began)
        seconds = time.time() - began
        run_steadily(self.consumer, STEADY_S / 2)
        return self._told(asked, began, blue) | {"workers": workers, "seconds": round(seconds, 1)}

    @property
    def poison(self) -> Path:
        """The file that an application fails at, when it is made to fail later."""
        return self.stage.folder / applications.POISON

    def _carry_out(self, asked: Asked, asked_file: Path, began: float) -> int:
        for number in range(1, 1000):
            if time.time() - began > PATIENCE_S:
                raise TimeoutError(f"No end after {number - 1} workers.")
            if self._work(asked, asked_file) == 0:
                return number
        raise RuntimeError("A thousand workers came to no end.")

    def _work(self, asked: Asked, asked_file: Path) -> int:
        log = self.stage.folder / f"run-{asked.number}.log"
        with log.open("ab") as output:
            worker = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.system.cutovers.worker"),
                    *(str(self.stage.folder), str(self.spark), str(asked_file)),
                    str(self._steps_file(asked)),
                ],
                cwd=REPOSITORY,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            until(lambda: self._is_over(worker, asked), "the worker", PATIENCE_S)
        finally:
            worker.kill()
            code = worker.wait()
        if code not in (0, KILLED):
            raise RuntimeError(f"The worker ended with {code}: {log.read_text()[-1500:]}")
        return code

    def _is_over(self, worker: subprocess.Popen[bytes], asked: Asked) -> bool:
        is_poisoned = asked.application == "fails_later"
        if is_poisoned and not self.poison.exists() and self._has_switched():
            self.poison.touch()
        return worker.poll() is not None

    def _has_switched(self) -> bool:
        history = self._history()
        return bool(history) and history[-1].after is S.SOAKING

    def _steps_file(self, asked: Asked) -> Path:
        return self.stage.folder / f"run-{asked.number}.steps"

    def _history(self) -> list[Transition]:
        change = self._change()
        return [] if change is None else self.stage.lane(STREAM).steps(change.number)

    def _change(self) -> Change | None:
        home = self.stage.lane(STREAM)
        led = [change for change in home.changes() if home.leads(change)]
        return led[-1] if led else None

    def _told(self, asked: Asked, began: float, blue: str) -> dict[str, Any]:
        right = expected(self.stage.input)
        found = live(STREAM, home=self.stage.home_uri)
        history = self._history()
        steps = read_steps(self._steps_file(asked))
        seen = judge(self.consumer.times, self.consumer.rows, right)
        output = judge_rows(new_rows(found.output, set()), right)
        told = {
            "run": asked.number,
            "way": asked.way.value,
            "course": asked.course.value,
            "application": asked.application,
            "from": blue,
            "live": found.lane,
            "state": history[-1].after.value,
            "reasons": [f"{step.event}: {step.reason}" for step in history[-4:]],
            "times": {f"{one.number} {one.after}": round(_at(one) - began, 2) for one in history},
            "consumer": seen.to_dict(),
            "output": output.to_dict(),
            "steps": len(steps),
            "kills": [
                f"{_state_at(step, history)}: {step.what}" for step in steps if step.is_killed
            ],
            "most_drivers": self.crowd.most,
            "failures": self.consumer.failures[-3:],
            **pauses(self.consumer, began, history, steps),
        }
        told |= back(history)
        is_right = seen.is_whole and output.is_whole and not self.consumer.failures
        is_there = history[-1].after in _wanted(asked) and self.crowd.is_lawful
        is_there = is_there and _is_said(asked, history)
        return told | {"holds": is_right and is_there}


def _wanted(asked: Asked) -> tuple[CutoverState, ...]:
    if asked.application in applications.BAD:
        return (S.ABORTED, S.ROLLED_BACK)
    return ENDS[asked.course]


def _is_said(asked: Asked, history: Sequence[Transition]) -> bool:
    """Tell whether a bad application was given up for what is bad about it."""
    bad = applications.BAD.get(asked.application)
    return bad is None or any(bad.says in one.reason for one in history)


def back(history: Sequence[Transition]) -> dict[str, float]:
    """Return the seconds from the step that gives green up to the one with which blue is back."""
    begun = [_at(one) for one in history if one.after in (S.ABORTING, S.ROLLING_BACK)]
    return {"back_s": round(_at(history[-1]) - begun[0], 2)} if begun else {}


def pauses(
    consumer: Consumer, began: float, history: Sequence[Transition], steps: Sequence[Step]
) -> dict[str, Any]:
    """
    Return the longest times without a fresher row.

    ``usual`` is the longest in the steady time before the run, and while both drivers run steadily:
    one batch. ``switch`` is the longest that touches a hand-over of the output, there or back;
    ``anywhere`` the longest of the whole run, in which drivers also start on this machine.
    """
    steady = consumer.pauses(began - STEADY_S, began - 1)
    for first, last in _beside(history):
        steady += consumer.pauses(first, last)
    usual = max(steady, default=0.0)
    anywhere = max(consumer.pauses(began, time.time()), default=0.0)
    told: dict[str, Any] = {"usual_s": round(usual, 2), "anywhere_s": round(anywhere, 2)}
    windows = list(_switches(history))
    if windows:
        longest = max(max(consumer.pauses(*window), default=0.0) for window in windows)
        hit = [one.what for one in steps if one.is_killed and _is_in(one.at, windows)]
        told |= {
            "switch_s": round(longest, 2),
            "without_fresh_s": round(max(0.0, longest - usual), 2),
            "killed_in_switch": len(hit),
        }
    return told


def _beside(history: Sequence[Transition]) -> list[tuple[float, float]]:
    """Return the times during which green kept pace beside blue, and nothing else was done."""
    steps = pairwise(history)
    return [(_at(one), _at(later)) for one, later in steps if one.after is S.SHADOWING]


def _switches(history: Sequence[Transition]) -> list[tuple[float, float]]:
    """Return the times during which the output goes from one lane to the other."""
    found, begun = list[tuple[float, float]](), None
    for one in history:
        if one.after in (S.DRAINING, S.SWITCHING, S.ROLLING_BACK):
            begun = begun if begun is not None else _at(one)
        elif begun is not None and one.after is not S.LIVE and one.after is not S.ABORTING:
            found.append((begun, _at(one) + 2.0))
            begun = None
    return found


def _is_in(at: float, windows: Sequence[tuple[float, float]]) -> bool:
    return any(first <= at <= last for first, last in windows)


def _at(step: Transition) -> float:
    return step.at.timestamp()


def _state_at(step: Step, history: Sequence[Transition]) -> str:
    before = [one.after.value for one in history if _at(one) <= step.at]
    return before[-1] if before else "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    lane: str
    epochs: tuple[int, ...]


class Crowd:
    """Looks all the time how many drivers each lane has; more than one is against the law."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._end = stage, threading.Event()
        self.most, self.looks = 0, 0
        self.offences: list[_Look] = []
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)

    @property
    def is_lawful(self) -> bool:
        """Tell whether no lane ever had two drivers."""
        return not self.offences

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.5):
            drivers = self._stage.drivers()
            self.looks, self.most = self.looks + 1, max(self.most, len(drivers))
            for lane in {lane for lane, _ in drivers}:
                epochs = tuple(epoch for one, epoch in drivers if one == lane)
                if len(epochs) > 1:
                    self.offences.append(_Look(lane=lane, epochs=epochs))
