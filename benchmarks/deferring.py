"""The task and the trigger of the benchmark of deferrals; Airflow's processes import them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

FOLDER = "BENCH_FOLDER"
HOLD = "BENCH_HOLD"
TIMES = "BENCH_TIMES"


class Deferring(BaseOperator):
    """
    Defers as often as it is told to, and notes each time on a line of its own file.

    A line holds the number of the try, so that a file tells how many tries Airflow has failed.
    """

    def execute(self, context: Any, event: Any = None) -> None:
        """Note it, and defer once more unless it is done."""
        notes = Path(os.environ[FOLDER]) / self.task_id
        done = notes.read_text().splitlines() if notes.exists() else []
        with notes.open("a") as file:
            file.write(f"{context['ti'].try_number}\n")
        if len(done) >= int(os.environ[TIMES]):
            (notes.parent / f"{self.task_id}.done").touch()
            return
        fires = Fires(at=time.time() + float(os.environ[HOLD]))
        self.defer(trigger=fires, method_name="execute")


class Fires(BaseTrigger):
    """Fires at a moment."""

    def __init__(self, *, at: float) -> None:
        super().__init__()
        self.at = at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the database keeps of it."""
        return "benchmarks.deferring.Fires", {"at": self.at}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire."""
        await asyncio.sleep(self.at - time.time())
        yield TriggerEvent(None)
