"""
One triggerer process for ``benchmarks.shared_triggers``: takes triggers over as its parent says, and reports.

The triggers run as Airflow runs them, by its own ``TriggerRunner.run_trigger``, and count what they ask of the home.
Lines of JSON come in: ``{"take": [numbers]}``, ``{"measure": seconds}``, ``{"looks": since}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import psutil
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk.execution_time import task_runner

from airflow_streaming.model.storage import LocalStore
from benchmarks.blocking import lags_of
from benchmarks.figures import percentile
from benchmarks.one_triggerer import Looks, Supervisor, maker, start_trigger, warm

REQUESTS: Final = {
    "read": "GET",
    "names": "LIST",
    "create": "PUT",
    "replace": "PUT",
    "delete": "DELETE",
}
"""Methods of the store by the request that an object store gets for them."""


class Triggerer:
    """The triggers of one process."""

    def __init__(self, home: Path, poll: float) -> None:
        self.poll, self.looks, self.runner = poll, Looks(), TriggerRunner()
        self.make = maker("stream", home, poll, self.looks)
        self.taken: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.requests = counted_requests()

    async def serve(self) -> None:
        """Answer the parent until its pipe ends."""
        task_runner.SUPERVISOR_COMMS = Supervisor()
        watchdog = asyncio.create_task(self.runner.block_watchdog())
        await warm(self.runner, self.make)
        self.looks.begun.clear()
        self._say({"ready": True})
        reader = asyncio.StreamReader(limit=2**24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            (verb, value), *_ = json.loads(line).items()
            if verb == "take":
                self.take(value)
            elif verb == "measure":
                self._say(await self.measure(value))
            else:
                self._say({"looks": self.first_looks(value)})
        watchdog.cancel()

    def take(self, numbers: list[int]) -> None:
        """Run the triggers of these streams, too."""
        for number in numbers:
            self.taken.append(number)
            self.tasks.append(start_trigger(self.runner, number, self.make(number)))

    async def measure(self, seconds: float) -> dict[str, Any]:
        """Return the figures of the next seconds."""
        process, lags = psutil.Process(), list[float]()
        self.looks.seconds.clear()
        self.requests.clear()
        began, cpu = time.monotonic(), sum(process.cpu_times()[:2])
        probe = asyncio.create_task(lags_of(lags))
        await asyncio.sleep(seconds)
        probe.cancel()
        ended = time.monotonic()
        return {
            "triggers": len(self.taken),
            "ended": sum(task.done() for task in self.tasks),
            "cores": (sum(process.cpu_times()[:2]) - cpu) / (ended - began),
            "lag_p50": percentile(lags, 0.5),
            "lag_p99": percentile(lags, 0.99),
            "lag_max": max(lags),
            "rss_mib": process.memory_info().rss / 2**20,
            "requests": {name: count / (ended - began) for name, count in self.requests.items()},
            **self.looks.told(began, ended, self.poll),
        }

    def first_looks(self, since: float) -> dict[int, float]:
        """Return when each stream was first looked at after a moment."""
        found = {}
        for number, begun in zip(self.taken, self.looks.begun, strict=True):
            after = [moment for moment in begun if moment >= since]
            if after:
                found[number] = after[0]
        return found

    @staticmethod
    def _say(told: dict[str, Any]) -> None:
        print(json.dumps(told), flush=True)


def counted_requests() -> Counter[str]:
    """Count what is asked of the home, as the requests of an object store."""
    counts: Counter[str] = Counter()

    def counting(name: str, method: Any) -> Any:
        def asked(*args: Any, **kwargs: Any) -> Any:
            counts[REQUESTS[name]] += 1
            return method(*args, **kwargs)

        return asked

    for name in REQUESTS:
        setattr(LocalStore, name, counting(name, getattr(LocalStore, name)))
    return counts


def main() -> None:
    home, poll = sys.argv[1:]
    asyncio.run(Triggerer(Path(home), float(poll)).serve())


if __name__ == "__main__":
    main()
