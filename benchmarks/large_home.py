"""
Reads a home with thousands of streams: `list`, `top`, the names, `doctor` and `status` of one stream, the fleet page.

    python -m benchmarks.large_home --streams 10000 [--rows] [--s3 [--thin]]

Each stream has what a living one has after a day: one deployment, three epochs with launches and
statuses, forty events, six alerts, an owner, a desired state and a supervision record.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.cli.main import main as command
from airflow_streaming.cli.status import view_stream
from airflow_streaming.home.home import open_home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.alert import AlertKind
from airflow_streaming.model.records.control import DesiredState, Event, EventKind
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.plugins.access.kept import Kept
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.board import Boards
from airflow_streaming.plugins.fleet_page import FleetView, page_of
from airflow_streaming.services.fleet_writer import IndexWriter, row_of
from airflow_streaming.supervision.alerts.alerting import RESTART_KEY, Alert
from tests.integration.home.servers import seaweedfs
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_death,
    make_decision,
    make_deployment,
    make_epoch,
    make_launch,
    make_status,
)

EPOCHS: Final = 3
EVENTS: Final = 40
ALERTS: Final = 6
TEMPLATE: Final = "orders"
OWNER: Final = Actor(dag_id=TEMPLATE, bundle="dags-folder", file="streams.py", team="")


def make_template(home: str, events: int) -> Path:
    """Record one stream; return its folder."""
    stream = open_home(home).stream(TEMPLATE)
    stream.create_deployment(make_deployment(stream=TEMPLATE), SCRIPT)
    stream.want(DesiredState.RUNNING, by="kim", reason="First.", now=NOON)
    stream.claim_ownership(OWNER, by="kim", now=NOON)
    stream.supervise(Supervision(number=0, by="kim", at=NOON))
    for number in range(1, EPOCHS + 1):
        stream.create_epoch(make_epoch(number))
        stream.record_launch(make_launch(number))
        path = Layout(TEMPLATE).epoch(number, "status.json")
        stream.store.replace(path, make_status(number).to_bytes())
        if number < EPOCHS:
            stream.declare_dead(make_death(number))
            stream.record_restart_decision(make_decision(number))
    for number in range(events):
        at = NOON + timedelta(seconds=number)
        stream.add_event(
            Event(event=EventKind.LAUNCHED, at=at, by="kim", message=f"Event {number}.")
        )
    for number in range(ALERTS):
        stream.add_alert(an_alert(number))
    return Path(home, TEMPLATE)


def an_alert(number: int) -> Alert:
    return Alert(
        stream=TEMPLATE,
        by="kim",
        alert=AlertKind.RECOVERED if number % 2 else AlertKind.RESTARTED,
        at=NOON + timedelta(minutes=number),
        key=RESTART_KEY,
        reason="Driver failed.",
        epoch=1,
    )


def make_home(home: Path, streams: int, events: int = EVENTS) -> None:
    """Copy the records of one stream under other names; its name is in their bytes."""
    template = make_template(str(home), events)
    files = [(path.relative_to(template), path.read_bytes()) for path in template.rglob("*.json")]
    for number in range(streams):
        name = f"{TEMPLATE}_{number:05d}"
        for path, data in files:
            place = home / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            named = data.replace(b'"orders"', f'"{name}"'.encode())
            place.write_bytes(named.replace(b"/orders/", f"/{name}/".encode()))


@contextlib.contextmanager
def on_s3(home: Path, *, thin: bool) -> Iterator[str]:
    """
    Give the URI of the same home on the S3 server of the tests.

    :param thin: Only the deployment of each stream, which is enough for readers of the rows.
    """
    with seaweedfs(Path(tempfile.mkdtemp())) as server:
        os.environ["AWS_ACCESS_KEY_ID"] = server.options["key"]
        os.environ["AWS_SECRET_ACCESS_KEY"] = server.options["secret"]
        os.environ["AWS_ENDPOINT_URL"] = server.endpoint
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
        uri = "s3://streams/fleet"
        store = open_home(uri).store
        found = home.glob("*/deployments/*.json") if thin else home.rglob("*")
        files = [path for path in found if path.is_file()]
        with ThreadPoolExecutor(16) as threads:
            put = [
                threads.submit(store.replace, str(file.relative_to(home)), file.read_bytes())
                for file in files
            ]
            for one in put:
                one.result()
        print(f"{len(files)} objects on S3")
        yield uri


def leave_rows(home: str, streams: int) -> None:
    """Leave the rows that triggerers would, as one of them writes them."""
    stream = open_home(home).stream(TEMPLATE)
    status = view_stream(stream, lambda *_: Process.unseen("a benchmark"), patience=0).status
    row = replace(row_of(status, stream.owner()), seen_at=datetime.now(UTC))
    writer = IndexWriter(stream.store)
    writer._due = 0.0
    writer.note(row)
    _, text = writer._rows.pop(TEMPLATE)
    for number in range(streams):
        lane = f"{TEMPLATE}_{number:05d}"
        writer._rows[lane] = (row.seen_at, text.replace(f'"{TEMPLATE}"', f'"{lane}"'))
    began, used = time.perf_counter(), time.process_time()
    writer.write_if_due()
    print(
        f"rows written in {time.perf_counter() - began:.2f} s, {time.process_time() - used:.2f} s CPU"
    )


def fleet(home: str, streams: int) -> None:
    """Print the answer that the fleet page gets, again and again until it shows each stream."""
    kept = [
        Kept(home=home, home_conn_id=None, stream=f"{TEMPLATE}_{n:05d}", written=home, dag=OWNER)
        for n in range(streams)
    ]

    async def ask() -> None:
        boards = Boards(Looks(), open_home=lambda one: open_home(one.home))
        for _ in range(100):
            begun, used = time.perf_counter(), _cpu()
            page = page_of(await boards.rows(kept), FleetView())
            seconds, cpu = time.perf_counter() - begun, _cpu() - used
            body = json.dumps(page.to_dict())
            print(
                f"  answer in {seconds:.2f} s, {cpu:.2f} s CPU: {len(body) / 1e3:.0f} kB, {page.reading} not seen",
                file=sys.__stdout__,
            )
            if not page.reading:
                return
            await asyncio.sleep(5)

    asyncio.run(ask())


def timed(act: Callable[[], Any]) -> tuple[float, float, int]:
    """Return the seconds, the CPU seconds and the bytes printed of an act."""
    began, used, out = time.perf_counter(), _cpu(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        act()
    return time.perf_counter() - began, _cpu() - used, len(out.getvalue())


def _cpu() -> float:
    """Return the CPU seconds of this process and of those that it forked and that have ended."""
    own, forked = (
        resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + forked.ru_utime + forked.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=EVENTS, help="of each stream")
    parser.add_argument("--home", type=Path, help="keep the home here, and use it if it is there")
    parser.add_argument("--rows", action="store_true", help="with rows that triggerers have left")
    parser.add_argument("--s3", action="store_true", help="on the S3 server of the tests")
    parser.add_argument("--thin", action="store_true", help="one object of each stream on S3")
    parser.add_argument("--only", default="", help="commands to run, by commas")
    arguments = parser.parse_args()
    home = arguments.home or Path(tempfile.mkdtemp())
    if not (home / TEMPLATE).exists():
        home.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        make_home(home, arguments.streams, arguments.events)
        print(f"{arguments.streams} streams written in {time.perf_counter() - began:.0f} s")
    with (
        on_s3(home, thin=arguments.thin)
        if arguments.s3
        else contextlib.nullcontext(str(home)) as uri
    ):
        measure(uri, arguments)
    if arguments.home is None:
        shutil.rmtree(home)


def measure(uri: str, arguments: argparse.Namespace) -> None:
    """Print the seconds of each command."""
    os.environ["AIRFLOW_STREAMING_HOME"] = uri
    one = f"{TEMPLATE}_00007"
    acts = {
        "list": lambda: command(["list"]),
        "list --json": lambda: command(["list", "--json"]),
        "top": lambda: command(["top", "--once"]),
        "names": lambda: open_home(uri).streams(),
        "doctor": lambda: command(["doctor", one]),
        "status": lambda: command(["status", "nosuch"]),
        "page": lambda: fleet(uri, arguments.streams),
    }
    for name, act in acts.items():
        if not arguments.only or name in arguments.only.split(","):
            if arguments.rows:
                leave_rows(uri, arguments.streams)
            seconds, cpu, size = timed(act)
            load = os.getloadavg()[0]
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name:12} {seconds:6.1f} s  {cpu:6.1f} s CPU  {size / 1e6:6.2f} MB printed"
                f"  {memory:5.0f} MB peak  load {load:.1f}"
            )


if __name__ == "__main__":
    main()
