"""
One triggerer process for ``benchmarks.triggers``: runs its triggers and prints what that took.

The triggers run as Airflow runs them, by its own ``TriggerRunner.run_trigger`` and beside its own
watchdog. Only the supervisor at the other end of the socket is played: it counts what is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psutil
from airflow.executors.workloads.task import TaskInstanceDTO
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.providers.standard.triggers.file import FileTrigger
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import DRCount
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_streaming.launch.clusters import kubernetes_api
from airflow_streaming.launch.clusters.rest import ask
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.triggers.stream import StreamTrigger
from benchmarks.blocking import collections, lags_of
from benchmarks.figures import percentile
from benchmarks.many_streams import stream_name

AT_ONCE: Final = 50
"""Triggers that a triggerer takes over in one round of a second ([triggerer]
max_trigger_to_select_per_loop)."""

WARM_UP: Final = 12.0
"""Seconds left out after the last one was started: each has looked twice by then."""


class StatTrigger(BaseTrigger):
    """The least a trigger can do: ask for one file's age, in the event loop, and sleep."""

    def __init__(self, path: str, poll_seconds: float) -> None:
        super().__init__()
        self.path, self.poll_seconds = path, poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            if not os.stat(self.path).st_size:  # noqa: PTH116 - the floor
                yield TriggerEvent(None)
            await asyncio.sleep(self.poll_seconds)


class Supervisor:
    """Counts what triggers ask Airflow; every question costs it a query of its database."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def send(self, msg: Any) -> DRCount:
        self.asked[type(msg).__name__] += 1
        return DRCount(count=0)


class Requests:
    """Notes what is asked of a Kubernetes API server."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.bytes: list[int] = []

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, and note how long the answer took and how large it was."""
        begun = time.monotonic()
        answer = ask(*args, **kwargs)
        self.seconds.append(time.monotonic() - begun)
        self.bytes.append(len(answer.raw))
        return answer

    def told(self, seconds: float) -> dict[str, float]:
        """Return the figures of a time that took so long."""
        return {
            "requests_per_second": len(self.seconds) / seconds,
            "answer_kib": percentile(self.bytes, 0.5) / 1024 if self.bytes else 0.0,
            "answer_p50": percentile(self.seconds, 0.5) if self.seconds else 0.0,
            "answer_max": max(self.seconds, default=0.0),
        }


class Looks:
    """When each trigger looked."""

    def __init__(self) -> None:
        self.begun: list[list[float]] = []
        self.seconds: list[float] = []
        self.failed = 0

    def counted(self, trigger: StreamTrigger) -> StreamTrigger:
        """Note the time of every look of a trigger."""
        look, begun = trigger.look, []
        self.begun.append(begun)

        def noted(observer: Any) -> Any:
            begun.append(time.monotonic())
            try:
                found = look(observer)
            except Exception:
                self.failed += 1
                raise
            self.seconds.append(time.monotonic() - begun[-1])
            if found is not None:
                self.failed += 1
                raise RuntimeError(f"A stream that is well made its trigger fire: {found}")
            return None

        trigger.look = noted  # type: ignore[method-assign]
        return trigger

    def told(self, since: float, until: float, poll: float) -> dict[str, float]:
        """Return how many looks were made and how many were missed."""
        gaps, made = [], 0
        for begun in self.begun:
            inside = [moment for moment in begun if since <= moment < until]
            made += len(inside)
            edges = [since, *inside, until]
            gaps += [after - before for before, after in itertools.pairwise(edges)]
        late = [gap for gap in gaps if gap > 2 * poll]
        return {
            "due": len(self.begun) * (until - since) / poll,
            "made": made,
            "missed": len(late),
            "failed": self.failed,
            "longest_gap": max(gaps, default=0.0),
            "look_p50": percentile(self.seconds, 0.5) if self.seconds else 0.0,
            "look_p99": percentile(self.seconds, 0.99) if self.seconds else 0.0,
        }


async def measure(
    make: Callable[[int], BaseTrigger], count: int, seconds: float, looks: Looks, poll: float
) -> dict[str, Any]:
    """Run the triggers and return the figures of the time after the warm-up."""
    supervisor, runner, process = Supervisor(), TriggerRunner(), psutil.Process()
    requests = Requests()
    kubernetes_api.ask = requests.ask  # type: ignore[assignment]
    task_runner.SUPERVISOR_COMMS = supervisor
    watchdog = asyncio.create_task(runner.block_watchdog())
    await warm(runner, make)
    looks.begun.clear()
    empty = process.memory_info().rss
    probe = asyncio.create_task(lags_of(starting := []))
    tasks = []
    for number in range(count):
        tasks.append(start_trigger(runner, number, make(number)))
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(1.0)
    await asyncio.sleep(WARM_UP)
    probe.cancel()
    supervisor.asked.clear()
    looks.seconds.clear()
    requests.seconds.clear()
    requests.bytes.clear()
    began, cpu = time.monotonic(), sum(process.cpu_times()[:2])
    with contextlib.suppress(TimeoutError), collections() as pauses:
        await asyncio.wait_for(lags_of(lags := []), seconds)
    ended = time.monotonic()
    figures = {
        "triggers": count,
        "cores": (sum(process.cpu_times()[:2]) - cpu) / (ended - began),
        "lag_p50": percentile(lags, 0.5),
        "lag_p99": percentile(lags, 0.99),
        "lag_max": max(lags),
        "lag_max_at_start": max(starting),
        "gc_max": max(pauses, default=0.0),
        # A trigger asks now and then whether another run of its dag is queued; looks ask nothing.
        "asked_per_second": supervisor.asked["GetDRCount"] / (ended - began),
        "asked_by_looks": supervisor.asked.total() - supervisor.asked["GetDRCount"],
        "kib_per_trigger": (process.memory_info().rss - empty) / 1024 / max(count, 1),
        "rss_mib": process.memory_info().rss / 2**20,
        "threads": process.num_threads(),
        "ended": sum(task.done() for task in tasks),
        **requests.told(ended - began),
        **looks.told(began, ended, poll),
    }
    runner.stop = True
    watchdog.cancel()
    return figures


def start_trigger(runner: TriggerRunner, number: int, trigger: BaseTrigger) -> asyncio.Task[None]:
    """Run a trigger as Airflow's runner does."""
    name = f"trigger-{number}"
    trigger.trigger_id = number
    trigger.task_instance = TaskInstanceDTO(
        id=uuid.uuid4(),
        dag_version_id=uuid.uuid4(),
        task_id="stream",
        dag_id=stream_name(number),
        run_id="scheduled__1",
        try_number=1,
        map_index=-1,
        pool_slots=1,
        queue="default",
        priority_weight=1,
    )
    runner.triggers[number] = {"name": name, "events": 0, "is_watcher": False}
    return asyncio.create_task(runner.run_trigger(number, trigger), name=name)


async def warm(runner: TriggerRunner, make: Callable[[int], BaseTrigger]) -> None:
    """Run a trigger for a moment."""
    # What is imported at the first look, and the threads, belong to no single trigger.
    first = start_trigger(runner, 0, make(0))
    await asyncio.sleep(8)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first


def maker(kind: str, home: Path, poll: float, looks: Looks) -> Callable[[int], BaseTrigger]:
    """Return what makes the triggers of one kind."""
    rules, policy = HealthRules.recommended().to_dict(), RestartPolicy().to_dict()
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    def stream(number: int) -> BaseTrigger:
        trigger = StreamTrigger(
            home=str(home),
            stream=stream_name(number),
            deferred_at=long_ago,
            poll_seconds=poll,
            watched=1,
            run_started_at=long_ago,
            rollover_seconds=7 * 86400.0,
            rules=copy.deepcopy(rules),  # as if each came from a row of its own
            policy=copy.deepcopy(policy),
        )
        return looks.counted(trigger)

    def file(number: int) -> BaseTrigger:
        return FileTrigger(str(home / stream_name(number) / "none"), poke_interval=poll)

    def stat(number: int) -> BaseTrigger:
        return StatTrigger(str(home / stream_name(number) / "epochs/000001/status.json"), poll)

    return {"stream": stream, "file": file, "stat": stat}[kind]


def main() -> None:
    kind, home, count, seconds, poll = sys.argv[1:]
    looks = Looks()
    make = maker(kind, Path(home), float(poll), looks)
    print(json.dumps(asyncio.run(measure(make, int(count), float(seconds), looks, float(poll)))))


if __name__ == "__main__":
    main()
