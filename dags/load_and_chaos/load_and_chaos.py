"""
Ten times the load, and drivers killed at random: what breaks first, and what is lost.

``load_10x`` copies files that arrived into a stream's input, at a multiple of the busiest minute seen,
and reports which health rule fires first and what the doctor advises. ``chaos`` kills the stream's driver
at random moments and then runs a command that compares its output. Both stop by themselves, leave their
report in an asset event, and refuse a stream that is not marked by
``conf={"spark.airflow_streaming.chaos": "allowed"}``, as the stream ``load_and_chaos`` is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow.sdk import DAG, Asset, Metadata, Param, get_current_context, task

from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
ORDERS = "{{ var.value.get('streams_input', '/opt/airflow/input') }}/order_lines"
MARK: Final = "spark.airflow_streaming.chaos"
MOST_MINUTES: Final = 240
MOST_KILLS: Final = 100
LOOK_EVERY: Final = 15.0
"""Seconds between two looks at a stream that is loaded, or at an output that is not yet equal."""
LOAD_REPORT = Asset("load_10x_report")
CHAOS_REPORT = Asset("chaos_report")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``airflow-streaming``; its exit code says whether the stream is well."""
    program = Path(sys.executable).with_name("airflow-streaming")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def status(home: str, stream: str) -> dict[str, Any]:
    """Return what ``airflow-streaming status`` knows."""
    done = command("status", stream, "--home", home, "--json")
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"The status of {stream} cannot be read: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_is_marked(seen: Mapping[str, Any]) -> None:
    """Refuse a stream whose deployment does not allow this."""
    conf = (seen.get("deployment") or {}).get("conf") or {}
    if conf.get(MARK) != "allowed":
        raise ValueError(
            f"Stream {seen['stream']} is not marked. Add conf={{'{MARK}': 'allowed'}} to its spec "
            "and deploy it, if it may be loaded and killed."
        )


def busiest_minute(files: Sequence[Path]) -> int:
    """Return the most files that arrived within a minute of the clock."""
    minutes = Counter(int(file.stat().st_mtime // 60) for file in files)
    return max(minutes.values(), default=0)


def plan(files: Sequence[Path], times: int, minutes: int) -> Iterator[tuple[float, Path]]:
    """Yield when, in seconds from the start, which file is to be copied."""
    rate = busiest_minute(files) * times
    for number in range(rate * minutes):
        yield 60 * number / rate, files[number % len(files)]


def load(folder: Path, times: int, minutes: int, look: Callable[[float, int], None]) -> int:
    """
    Copy files for so many minutes; return how many.

    :param look: Called now and then with the seconds since the start and the files copied so far.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name[0] != ".")
    if not files:
        raise ValueError(f"{folder} holds no file whose arrival could be multiplied.")
    start, sent, due = time.monotonic(), 0, LOOK_EVERY
    for moment, file in plan(files, times, minutes):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        since = time.monotonic() - start
        if since > 60 * minutes:
            break
        if since >= due:
            look(since, sent)
            due = since + LOOK_EVERY
        part = folder / f".load-{sent}.part"
        shutil.copyfile(file, part)
        part.rename(folder / f"load-{int(start)}-{sent:07}{file.suffix}")
        sent += 1
    return sent


class Fired:
    """The rules of a stream that fired, each with the first moment it was seen to."""

    def __init__(self, seen: Mapping[str, Any]) -> None:
        self.before = firing(seen)
        self.first: list[dict[str, Any]] = []

    def look(self, seen: Mapping[str, Any], seconds: float, files: int) -> None:
        """Note the rules that had not fired before."""
        known = {*self.before, *(one["rule"] for one in self.first)}
        for rule in firing(seen):
            if rule not in known:
                self.first.append({"rule": rule, "after_seconds": round(seconds), "files": files})


def firing(seen: Mapping[str, Any]) -> list[str]:
    """Return the names of the rules that fire."""
    return sorted({one["rule"] for one in seen["rules"] if one["state"] == "firing"})


def processes_of(token: str) -> list[int]:
    """Return the processes of this host that were started for an epoch's token."""
    # A command line shows a digest of the token.
    mark = hashlib.sha256(f"airflow-streaming driver {token}".encode()).hexdigest()[:32].encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if b"--token" in words and words[words.index(b"--token") + 1] == mark:
                    found.append(int(folder.name))
    return found


def kill_at_random(home: str, stream: str, kills: int, minutes: int) -> list[dict[str, Any]]:
    """Kill a process of the driver so many times within so many minutes; return what was killed."""
    chance, start, killed = random.SystemRandom(), time.monotonic(), []
    moments = sorted(chance.uniform(0, 60 * minutes) for _ in range(kills))
    for moment in moments:
        time.sleep(max(0.0, start + moment - time.monotonic()))
        seen = status(home, stream)
        check_is_marked(seen)
        victims = processes_of((seen.get("epoch") or {}).get("token", ""))
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victims[chance.randrange(len(victims))], 9)
                at = datetime.now(UTC).isoformat(timespec="seconds")
                killed.append({"at": at, "epoch": seen["epoch"]["number"]})
    return killed


def await_health(home: str, stream: str, minutes: int) -> bool:
    """Wait until the stream is well again; return whether it is."""
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        if status(home, stream)["all_right"]:
            return True
        time.sleep(5)
    return False


class Compared(NamedTuple):
    """
    Whether a stream's output is what it should be.

    :param is_equal: The command succeeded in time.
    :param found: The last line that it printed.
    """

    is_equal: bool
    found: str


def compared_within(compare: str, minutes: int) -> Compared:
    """
    Run a command until it succeeds, for so many minutes at most; return what it found.

    A stream that is well may not have read and written everything yet.
    """
    until = time.monotonic() + 60 * minutes
    while True:
        done = subprocess.run(shlex.split(compare), stdout=subprocess.PIPE, text=True, check=False)
        found = (done.stdout.splitlines() or [""])[-1]
        print(found)  # noqa: T201 - goes to the task log
        if done.returncode == 0 or time.monotonic() > until:
            return Compared(done.returncode == 0, found)
        time.sleep(LOOK_EVERY)


STREAM = Param(
    "load_and_chaos",
    type="string",
    minLength=1,
    title="Stream",
    description="Name of a marked stream.",
)

with DAG(
    "load_and_chaos",
    schedule="@continuous",
    # Without a start date Airflow gives the second run the logical date of the first, and skips it.
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    tags=["streaming", "example"],
    doc_md=__doc__,
):
    SparkStreamOperator(
        task_id="revenue",
        stream=StreamSpec(
            name="load_and_chaos",
            application="../jobs/retail_revenue.py",
            application_args=["--input", ORDERS, "--output", "{output}"],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2, MARK: "allowed"},
            health=HealthRules.recommended(backlog_files=50),
        ),
        conn_id="spark_default",
    )

with DAG(
    "load_10x",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={
        "stream": STREAM,
        "input": Param(
            "",
            type="string",
            title="Input",
            description="Folder of its input files; empty for the example's.",
        ),
        "times": Param(
            10,
            type="integer",
            minimum=1,
            maximum=100,
            title="Times",
            description="How many times the files of the busiest minute.",
        ),
        "minutes": Param(
            10,
            type="integer",
            minimum=1,
            maximum=MOST_MINUTES,
            title="Minutes",
            description="How long it lasts.",
        ),
    },
    tags=["streaming", "example"],
    doc_md=__doc__,
):

    @task(outlets=[LOAD_REPORT])
    def feed_and_report(home: str, orders: str) -> Iterator[Metadata]:
        """Feed, then tell which rules fired and what the doctor advises."""
        given = get_current_context()["params"]
        stream, minutes, start = given["stream"], int(given["minutes"]), time.monotonic()
        seen = status(home, stream)
        check_is_marked(seen)
        fired = Fired(seen)

        def look(seconds: float, files: int) -> None:
            fired.look(status(home, stream), seconds, files)

        sent = load(Path(given["input"] or orders), int(given["times"]), minutes, look)
        seen = status(home, stream)
        fired.look(seen, time.monotonic() - start, sent)
        advice = json.loads(command("doctor", stream, "--home", home, "--json").stdout)["advice"]
        report = {
            "files": sent,
            "fired_before": fired.before,
            "fired_first": fired.first,
            "verdict": seen["verdict"],
            "advice": [one for one in advice if one["outcome"] == "risk"],
        }
        print(json.dumps(report, indent=2))  # noqa: T201 - goes to the task log
        yield Metadata(LOAD_REPORT, report)

    feed_and_report(HOME, ORDERS)

with DAG(
    "chaos",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={
        "stream": STREAM,
        "kills": Param(
            5,
            type="integer",
            minimum=1,
            maximum=MOST_KILLS,
            title="Kills",
            description="How often the driver is killed.",
        ),
        "minutes": Param(
            10,
            type="integer",
            minimum=1,
            maximum=MOST_MINUTES,
            title="Minutes",
            description="How long it lasts.",
        ),
        "compare": Param(
            "",
            type="string",
            title="Compare",
            description="Command that fails when rows differ; none when it is empty.",
        ),
    },
    tags=["streaming", "example"],
    doc_md=__doc__,
):

    @task(outlets=[CHAOS_REPORT])
    def kill_and_report(home: str) -> Iterator[Metadata]:
        """Kill, wait for health, compare."""
        given = get_current_context()["params"]
        stream, minutes = given["stream"], int(given["minutes"])
        check_is_marked(status(home, stream))
        killed = kill_at_random(home, stream, int(given["kills"]), minutes)
        is_well, output = await_health(home, stream, minutes), "not compared"
        report: dict[str, Any] = {"killed": killed, "well_again": is_well}
        if given["compare"]:
            compared = compared_within(given["compare"], minutes)
            output = "equal" if compared.is_equal else "different"
            report["compared"] = compared.found
        report["output"] = output
        print(json.dumps(report, indent=2))  # noqa: T201 - goes to the task log
        yield Metadata(CHAOS_REPORT, report)
        if not is_well or output == "different":
            raise RuntimeError(f"Stream {stream} did not come through: {report}")

    kill_and_report(HOME)
