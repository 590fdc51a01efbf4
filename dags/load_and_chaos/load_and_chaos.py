"""
Ten times the load, and drivers killed at random: the first overload, and lost rows.

``load_10x`` copies files that arrived into a stream's input, at a multiple of the busiest minute
seen and with event times as new as the stream's, and reports which health rule fires first and the
doctor's advice. ``chaos`` kills the stream's driver at random moments and then runs a command that
compares its output. Both stop automatically, leave their report in an asset event, and refuse a
stream that is not marked by ``conf={"spark.airflow_streaming.chaos": "allowed"}``, as the stream
``load_and_chaos`` is.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
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
MOST_MINUTES: Final = 24 * 60
MOST_KILLS: Final = 1_000
LOOK_EVERY: Final = 15.0
"""Seconds between two looks at a stream that is loaded, or at an output that is not yet equal."""
TELL_EVERY: Final = 600.0
"""Seconds between two lines of progress in the task's log."""
COPY: Final = "load-"
"""Prefix of the names of copies."""
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


def tell(line: str) -> None:
    """Print a line of progress into the task's log."""
    print(line, flush=True)  # noqa: T201 - goes to the task log


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


def originals(folder: Path) -> list[Path]:
    """Return the original files of a folder, without copies, by name."""
    with os.scandir(folder) as entries:
        names = [one.name for one in entries if not one.name.startswith((".", COPY))]
    return [folder / name for name in sorted(names)]


def with_times(text: str, column: str, change: Callable[[datetime], datetime]) -> str:
    """Change the event times in lines of JSON, or of CSV with a header; leave other lines."""

    def changed(told: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            time_ = change(datetime.fromisoformat(told)).isoformat("T" if "T" in told else " ")
            return time_.replace("+00:00", "Z") if told.endswith("Z") else time_
        return told

    if text.lstrip().startswith("{"):
        return "".join(_json_lines(text, column, changed))
    rows = csv.reader(io.StringIO(text, newline=""))
    header = next(rows, [])
    place = header.index(column) if column in header else None
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        if place is not None and place < len(row):
            row[place] = changed(row[place])
        writer.writerow(row)
    return written.getvalue()


def _json_lines(text: str, column: str, changed: Callable[[Any], Any]) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        row = None
        with contextlib.suppress(ValueError):
            row = json.loads(line)
        if isinstance(row, dict) and column in row:
            yield json.dumps({**row, column: changed(row[column])}) + "\n"
        else:
            yield line


def newest_time(text: str, column: str) -> datetime | None:
    """Return the newest event time in lines, ``None`` without any."""
    newest: datetime | None = None

    def note(moment: datetime) -> datetime:
        nonlocal newest
        newest = moment if newest is None else max(newest, moment)
        return moment

    with_times(text, column, note)
    return newest


class Renewal:
    """
    Gives copies of files event times as new as in the newest arrived file.

    :param column: Column of the event time; empty to leave files as they are.
    """

    def __init__(self, folder: Path, column: str) -> None:
        self._folder, self._column = folder, column
        self._newest: datetime | None = None
        self.look()

    def look(self) -> None:
        """Read the newest file that arrived; a stream's own files move its watermark on."""
        files = originals(self._folder)
        if self._column and files:
            newest = max(files, key=lambda file: file.stat().st_mtime)
            self._newest = newest_time(newest.read_text(), self._column) or self._newest

    def copy(self, file: Path, target: Path) -> None:
        """Copy a file, with its newest event time moved to the stream's newest."""
        if not self._column:
            shutil.copyfile(file, target)
            return
        text = file.read_text()
        own = newest_time(text, self._column)
        if own is None or self._newest is None:
            raise ValueError(
                f"{file} has no event time in column {self._column!r}. Name its column in "
                "time_column, or leave that empty to copy files as they are."
            )
        by = self._newest - own
        target.write_text(with_times(text, self._column, lambda moment: moment + by))


def load(
    folder: Path, times: int, minutes: int, column: str, look: Callable[[float, int], None]
) -> int:
    """
    Copy files for so many minutes; return how many.

    :param column: Column of the event time, which copies get anew; empty to copy files as they are.
    :param look: Called now and then with the seconds since the start and the files copied so far.
    """
    files = originals(folder)
    if not files:
        raise ValueError(f"{folder} holds no file whose arrival could be multiplied.")
    renewal = Renewal(folder, column)
    start, sent, due = time.monotonic(), 0, LOOK_EVERY
    for moment, file in plan(files, times, minutes):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        since = time.monotonic() - start
        if since > 60 * minutes:
            break
        if since >= due:
            renewal.look()
            look(since, sent)
            due = since + LOOK_EVERY
        part = folder / f".{COPY}{sent}.part"
        renewal.copy(file, part)
        part.rename(folder / f"{COPY}{int(start)}-{sent:07}{file.suffix}")
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


def not_judged(seen: Mapping[str, Any]) -> dict[str, str]:
    """Return the rules that could not be judged yet, with the reasons: a mean may need more time than was seen."""
    return {one["rule"]: one["reason"] for one in seen["rules"] if one["state"] == "unknown"}


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
    """Kill a process of the driver at random times within so many minutes; return them."""
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
                tell(f"Kill {len(killed)} of {kills}, in epoch {killed[-1]['epoch']}")
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
    Whether a stream's output is correct.

    :param is_equal: The command succeeded in time.
    :param found: The last line that it printed.
    """

    is_equal: bool
    found: str


def compared_within(compare: str, minutes: int) -> Compared:
    """
    Run a command until it succeeds, for so many minutes at most; return its result.

    A healthy stream may not have read and written everything yet.
    """
    until = time.monotonic() + 60 * minutes
    while True:
        done = subprocess.run(shlex.split(compare), stdout=subprocess.PIPE, text=True, check=False)
        found = (done.stdout.splitlines() or [""])[-1]
        tell(found)
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
        "time_column": Param(
            "InvoiceDate",
            type="string",
            title="Time column",
            description="Column of the event time, which copies get as new as the stream's newest file; "
            "empty copies files as they are.",
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
        """Feed, then report the fired rules and the doctor's advice."""
        given = get_current_context()["params"]
        stream, minutes, start = given["stream"], int(given["minutes"]), time.monotonic()
        seen = status(home, stream)
        check_is_marked(seen)
        fired, told = Fired(seen), 0.0

        def look(seconds: float, files: int) -> None:
            nonlocal told
            seen = status(home, stream)
            fired.look(seen, seconds, files)
            if seconds - told >= TELL_EVERY:
                told = seconds
                rules = ", ".join(firing(seen)) or "no rule"
                tell(f"{seconds / 60:.0f} of {minutes} min: {files} files; firing: {rules}")

        column, folder = given["time_column"], Path(given["input"] or orders)
        sent = load(folder, int(given["times"]), minutes, column, look)
        seen = status(home, stream)
        fired.look(seen, time.monotonic() - start, sent)
        advice = json.loads(command("doctor", stream, "--home", home, "--json").stdout)["advice"]
        report = {
            "files": sent,
            "fired_before": fired.before,
            "fired_first": fired.first,
            "not_judged": not_judged(seen),
            "verdict": seen["verdict"],
            "advice": [one for one in advice if one["outcome"] == "risk"],
        }
        tell(json.dumps(report, indent=2))
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
        tell(json.dumps(report, indent=2))
        yield Metadata(CHAOS_REPORT, report)
        if not is_well or output == "different":
            raise RuntimeError(f"Stream {stream} did not come through: {report}")

    kill_and_report(HOME)
