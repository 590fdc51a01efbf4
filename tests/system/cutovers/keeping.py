"""
Who keeps the streams of the cutovers alive.

What an Airflow task does for that is done by a thread here, with the same decision.
"""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.supervision.decide import Action, decide
from tests.system.cutovers.stage import Stage

LOOK_SECONDS: Final = 0.5
"""Between two looks."""


class KeepAlive:
    """Keeps the live lane of every stream alive, in a thread, as the keep-alive tasks do."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.said: list[str] = []
        self._memories: dict[str, Any] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-alive", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            for stream in self._stage.streams:
                with contextlib.suppress(StreamingError):
                    self.look(stream)

    def look(self, stream: str) -> Action:
        """Look at the live lane once and do what it needs."""
        lane = self._stage.live_lane(stream)
        observer = self._stage.observer(lane, self._memories.get(lane))
        situation = observer.situation()
        self._memories[lane] = observer.memory()
        step, controller, seen = (
            decide(situation),
            self._stage.controller(lane, "keep-alive"),
            situation.seen,
        )
        if not step.is_passive:
            self.said.append(f"{lane}: {step.action}: {step.reason}")
        if step.action is Action.LAUNCH:
            controller.begin(situation, step)
        elif step.action is Action.SETTLE:
            controller.settle(situation)
        elif step.action is Action.STOP and seen is not None:
            controller.stop(seen, step.reason, timedelta(seconds=30))
        elif step.action is Action.KILL and seen is not None:
            controller.kill(seen, step.reason)
        return step.action


def start(stage: Stage, application: Path) -> None:
    """Make the first deployment of every stream; whoever keeps it alive starts it."""
    for stream in stage.streams:
        deployment, source = stage.proposal(stream, application, fresh=False)
        stage.controller(stream, "a test").deploy(deployment, source)


def want(stage: Stage, lane: str, state: DesiredState) -> None:
    """Say that a lane is to run, or to be stopped."""
    controller = stage.controller(lane, "a test")
    stage.lane(lane).want(state, by="a test", reason="The test says so.", now=controller._now())
