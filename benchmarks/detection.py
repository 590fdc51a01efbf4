"""
How long does it take until the trigger knows?

Real processes, real records and real triggers with the default poll of 5 s, to which a process's end
is told by its pidfd; only Spark is left out,
so that hundreds of misfortunes can be watched at once. Each process beats as a driver does and
meets with one misfortune at a random moment: SIGKILL, SIGSTOP, or a query that stands still while
the heartbeat continues. The clock runs from there to the trigger's event.

    python -m benchmarks.detection --gone 200 --suspended 40 --stalled 40

The peer beside it is what Airflow has without the provider: a task that is heartbeaten by its
worker and found missing after ``[scheduler] task_instance_heartbeat_timeout``, of a process it
knows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from airflow.sdk.configuration import conf

from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.records.epoch import mark_of
from airflow_streaming.triggers.stream import StreamTrigger
from benchmarks.figures import heed_signals, machine, percentile, table
from benchmarks.many_streams import Carrier, make_epoch, record_stream, stream_name

AT_ONCE: Final = 40
POLL: Final = 5.0
STALL_AFTER: Final = timedelta(seconds=30)
SPREAD: Final = 3 * POLL
"""Seconds over which the misfortunes of a group are spread, so that they fall anywhere in a poll."""

SETTLED: Final = 2 * POLL
"""Seconds in which every trigger has looked once before anything happens."""

LONG_AGO: Final = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfortune:
    """
    What happens to a driver, and by when it must be known.

    :param signal: What is sent to its process group.
    :param action: What the trigger must ask for.
    :param goal: Percentile and seconds.
    """

    name: str
    signal: signal.Signals
    action: str
    goal: tuple[float, float]
    rules: HealthRules


MISFORTUNES: Final = (
    Misfortune(
        name="gone",
        signal=signal.SIGKILL,
        action="settle",
        # The system tells its end; the poll alone was measured at p99 5.0 s.
        goal=(0.99, 1.0),
        rules=HealthRules(),
    ),
    Misfortune(
        name="suspended",
        signal=signal.SIGSTOP,
        action="kill",
        goal=(0.95, 45.0),
        rules=HealthRules(),
    ),
    Misfortune(
        name="stalled",
        signal=signal.SIGUSR1,
        action="stop",
        # The driver tells it with its next beat.
        goal=(0.95, STALL_AFTER.total_seconds() + POLL + 2.0),
        rules=HealthRules(stall_after=STALL_AFTER, stall_factor=0.0, stalled=Severity.RESTART),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--gone", type=int, default=200)
    parser.add_argument("--suspended", type=int, default=40)
    parser.add_argument("--stalled", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    heed_signals()
    random.seed(args.seed)
    print(machine())
    rows, met = [], True
    for misfortune in MISFORTUNES:
        seconds = asyncio.run(measure(misfortune, getattr(args, misfortune.name)))
        row, is_met = told(misfortune, seconds)
        rows.append(row)
        met = met and is_met
    print(table(("driver", "cases", "median", "p95", "p99", "longest", "goal", "met"), rows))
    timeout = conf.getint("scheduler", "task_instance_heartbeat_timeout")
    print(
        f"\nWithout the provider: Airflow finds a task whose process is gone after {timeout} s "
        "without its heartbeat, and never one that is suspended or stands still."
    )
    return 0 if met else 1


def told(misfortune: Misfortune, seconds: Sequence[float]) -> tuple[list[str], bool]:
    """Return one row of the table, and whether the goal was met."""
    share, goal = misfortune.goal
    figures = [percentile(seconds, at) for at in (0.5, 0.95, 0.99, 1.0)]
    is_met = percentile(seconds, share) <= goal
    return [
        misfortune.name,
        str(len(seconds)),
        *(f"{figure:.1f} s" for figure in figures),
        f"p{share * 100:.0f} <= {goal:.0f} s",
        "yes" if is_met else "NO",
    ], is_met


async def measure(misfortune: Misfortune, cases: int) -> list[float]:
    """Return how long each case took, group by group."""
    seconds: list[float] = []
    for first in range(0, cases, AT_ONCE):
        count = min(AT_ONCE, cases - first)
        with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as folder:
            async with drivers(Path(folder), count) as pids:
                await asyncio.to_thread(beating, Path(folder), count)
                watches = [watched(Path(folder), n, pids[n], misfortune) for n in range(count)]
                seconds += await asyncio.gather(*watches)
        print(f"{misfortune.name}: {len(seconds)} of {cases}", file=sys.stderr)
    return seconds


async def watched(home: Path, number: int, pid: int, misfortune: Misfortune) -> float:
    """Let one driver meet with its misfortune; return the seconds until its trigger knows."""
    trigger = StreamTrigger(
        home=str(home),
        stream=stream_name(number),
        deferred_at=LONG_AGO,
        poll_seconds=POLL,
        watched=1,
        rules=misfortune.rules.to_dict(),
        until_parked=False,
    )
    event = asyncio.create_task(first_event(trigger))
    await asyncio.sleep(SETTLED + random.uniform(0, SPREAD))
    began = time.monotonic()
    os.killpg(pid, misfortune.signal)
    payload = await event
    ended = time.monotonic()
    if payload["action"] != misfortune.action:
        raise RuntimeError(f"Expected {misfortune.action}, got {payload}")
    return ended - began


async def first_event(trigger: StreamTrigger) -> dict[str, object]:
    """Return the payload of the trigger's event."""
    async for event in trigger.run():
        payload: dict[str, object] = event.payload
        return payload
    raise RuntimeError("The trigger ended without an event.")


@contextlib.asynccontextmanager
async def drivers(home: Path, count: int) -> AsyncIterator[list[int]]:
    """Start so many processes that beat; none is left afterwards."""
    processes = [_start(home, number) for number in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(home: Path, number: int) -> subprocess.Popen[bytes]:
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "benchmarks.beating_driver", str(home), str(number)]
    process = subprocess.Popen([*command, "--token", mark_of(token)], start_new_session=True)
    carrier = Carrier.of_process(process.pid, home / "driver.log")
    record_stream(home, make_epoch(number, token, carrier), carrier)
    return process


def beating(home: Path, count: int, patience: float = 120.0) -> None:
    """Wait until every driver has beaten twice."""
    from airflow_streaming.home.home import open_home

    records = open_home(str(home))
    _until(
        lambda: all(
            (status := records.stream(stream_name(n)).status(1)) is not None and status.beat > 2
            for n in range(count)
        ),
        patience,
    )


def _until(condition: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The drivers do not all beat after {patience:.0f} s.")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
