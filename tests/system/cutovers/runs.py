"""One run after the other on one stage: a cutover by workers that are killed, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.live import live
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.cutover_table import (
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from demo.waiting import PATIENCE
from tests.system.cutovers import applications
from tests.system.cutovers.asked import Asked, Course
from tests.system.cutovers.baselines import run_steadily
from tests.system.cutovers.consumer import Consumer, joined
from tests.system.cutovers.crowd import Crowd
from tests.system.cutovers.dying import KILLED, read_steps
from tests.system.cutovers.keeping import KeepAlive, start
from tests.system.cutovers.pauses import STEADY_S, at_of, back, pauses, state_at
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import QUERY, STREAM, Stage
from tests.system.cutovers.truth import Verdict, judge, judge_rows
from tests.system.cutovers.waiting import until

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PATIENCE_S: Final = 3 * PATIENCE
"""Seconds for a whole cutover, all of its workers together."""

S: Final = CutoverState
ENDS: Final = {
    Course.FORWARD: (S.FINALIZED, S.RETIRED),
    Course.ABORT: (S.ABORTED,),
    Course.ROLL_BACK: (S.ROLLED_BACK,),
}


class Runs:
    """
    Cutovers of one stream that goes on from run to run, or of several that are moved together.

    :param folder: A new one; everything lies here.
    :param spark: Folder of the runtime.
    :param sink: ``ledger`` or ``parquet``.
    :param queries: What the application starts; each has a consumer of its own.
    """

    def __init__(
        self,
        folder: Path,
        spark: Path,
        sink: str,
        *,
        queries: tuple[str, ...] = (QUERY,),
        streams: tuple[str, ...] = (STREAM,),
    ) -> None:
        self.spark = spark
        self.stage = Stage.at(folder, spark, sink, queries=queries, streams=streams)
        self.applications = applications.write(folder / "jobs")
        self._shop = Shop(self.stage.input)
        self._keep_alive = KeepAlive(self.stage)
        self.consumers = {
            (stream, query): Consumer(
                self.stage.home_uri, stream, folder=query if len(queries) > 1 else ""
            )
            for stream in streams
            for query in queries
        }
        self.consumer = self.consumers[streams[0], queries[0]]
        self.crowd = Crowd(self.stage)
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        self._began = time.time()
        start(self.stage, self.applications["old"])
        self._parts.callback(self.stage.end)
        parts: list[AbstractContextManager[object]] = [self._shop, self._keep_alive]
        for part in (*parts, *self.consumers.values(), self.crowd):
            self._parts.enter_context(part)
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

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
    def start_s(self) -> float:
        """The seconds from the first driver's launch to its first rows, on this machine."""
        return self.consumer.arrivals[0].at - self._began

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

    def _history(self) -> list[CutoverTransition]:
        change = self._change()
        return [] if change is None else self.stage.lane(STREAM).steps(change.number)

    def _change(self) -> Change | None:
        home = self.stage.lane(STREAM)
        led = [change for change in home.changes() if home.leads(change)]
        return led[-1] if led else None

    def _told(self, asked: Asked, began: float, blue: str) -> dict[str, Any]:
        found = live(STREAM, home=self.stage.home_uri)
        history = self._history()
        steps = read_steps(self._steps_file(asked))
        seen, written = [*self._seen()], [*self._written(asked)]
        failures = [one for consumer in self.consumers.values() for one in consumer.failures]
        told = {
            "run": asked.number,
            "way": asked.way.value,
            "course": asked.course.value,
            "application": asked.application,
            "start": asked.start.value,
            "sink": asked.writes,
            "queries": asked.queries,
            "streams": asked.streams,
            "from": blue,
            "live": found.lane,
            "state": history[-1].after.value,
            "reasons": [f"{step.event}: {step.reason}" for step in history[-4:]],
            "times": {f"{one.number} {one.after}": round(at_of(one) - began, 2) for one in history},
            "consumer": together(seen).to_dict(),
            "output": together(written).to_dict(),
            "steps": len(steps),
            "kills": [
                f"{state_at(step, history)}: {step.what}" for step in steps if step.is_killed
            ],
            "most_drivers": self.crowd.most,
            "failures": failures[-3:],
            **pauses(self.consumer, began, history, steps),
        }
        told |= back(history)
        is_right = all(one.is_whole for one in (*seen, *written)) and not failures
        is_there = history[-1].after in _wanted(asked) and self.crowd.is_lawful
        is_there = is_there and _is_said(asked, history)
        return told | {"holds": is_right and is_there}

    def _seen(self) -> Iterator[Verdict]:
        """Judge what each consumer has seen."""
        for (_, query), consumer in self.consumers.items():
            # What is right is looked up last: lines arrive all the time.
            times, rows = consumer.taken()
            yield judge(times, rows, expected(self.stage.input, query))

    def _written(self, asked: Asked) -> Iterator[Verdict]:
        """Judge what lies in the live output, with those before it where it begins later."""
        for stream, query in self.consumers:
            found = live(stream, home=self.stage.home_uri, history=True)
            before = [] if asked.start is StartWay.FRESH else [one.output for one in found.history]
            outputs = dict.fromkeys([*before, found.output])
            rows = [*joined(self.stage.place(output, query) for output in outputs)]
            yield judge_rows(rows, expected(self.stage.input, query))


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what verdicts count together."""
    return sum(verdicts[1:], verdicts[0])


def _wanted(asked: Asked) -> tuple[CutoverState, ...]:
    if asked.application in applications.BAD:
        return (S.ABORTED, S.ROLLED_BACK)
    return ENDS[asked.course]


def _is_said(asked: Asked, history: Sequence[CutoverTransition]) -> bool:
    """Tell whether a bad application was given up for what is bad about it, and a person asked."""
    if asked.asks and not any(one.event is CutoverEvent.KEEP for one in history):
        return False
    bad = applications.BAD.get(asked.application)
    told = " ".join(one.reason for one in history)
    return bad is None or any(part in told for part in bad.says)
