"""A running deployment with its stream, as acts and kills see it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.home.live_lane import live_lane
from demo.stream import Stream
from demo.waiting import Say, wait_for
from tests.deployment.deployed import STREAM, Deployment

CELL_SECONDS: Final = 1200.0
"""A cutover builds the state of green anew, and on a crowded machine each of its steps takes minutes."""
LOOK_EVERY: Final = 1.0
BUSY: Final = ("running", "queued", "scheduled", "restarting")


@dataclass
class World:
    """
    Deployment on which acts and kills work.

    :param edits: Counts upgrades and cutovers, so that each has something to change.
    :param before: Newest epoch, or number of changes, when the act began.
    :param ends_at: Monotonic time at which every wait ends; ``None`` for no such time.
    """

    made: Deployment
    say: Say
    edits: int = 0
    run: tuple[str, str] = ("", "")
    before: int = 0
    ends_at: float | None = None

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

    def until(
        self,
        condition: Callable[[], bool],
        what: str,
        every: float = LOOK_EVERY,
        seen: Callable[[], str] = lambda: "",
    ) -> None:
        """
        Wait for something; a look that fails counts as "not yet", because a part may be away.

        :param seen: Tells what there is instead, for the error.
        """
        wait_for(
            lambda: bool(looked(condition)),
            what=what,
            say=self.say,
            seconds=min(CELL_SECONDS, self._left()),
            failing=self.made.airflow.ended_component,
            seen=lambda: looked(seen) or "",
            every=every,
        )

    @property
    def is_late(self) -> bool:
        """Tell whether the time of the deployment is over."""
        return self._left() <= 0

    def _left(self) -> float:
        return math.inf if self.ends_at is None else self.ends_at - time.monotonic()

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
