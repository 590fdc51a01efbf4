"""
Many streams to look at: real records in a local home, real processes, and heartbeats.

A process stands for the drivers of many streams: it carries all their tokens on its command line,
as a driver carries its own, and has a child and a grandchild as a JVM has its Python processes.
Run as a program, this module beats for the drivers: every status gets a new beat every 2 to 10 s.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.processes import ProcessHandle
from airflow_streaming.model.codec import encode
from airflow_streaming.model.host import this_host
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Host, Launch, LaunchCause, mark_of
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status
from airflow_streaming.model.storage import LocalStore

SHARED_BY: Final = 25
"""Streams of one process; their tokens make its command line about as long as a JVM's."""

QUERIES: Final = ("orders", "revenue")
BEAT: Final = (2.0, 10.0)
"""Seconds between two heartbeats of a real driver: 2 when idle, up to 10 under load."""

DRIVER: Final = 'sh -c "sleep 1000000; :" "$@"; :'
"""The semicolons keep the shell from replacing itself with its last command."""

HISTORY: Final = 100
"""Batches in the chunk of the progress history that is there at the start; every beat adds one."""

SCRIPT: Final = b"spark = None  # a script that would start queries\n"
NOW: Final = datetime.now(UTC)


def stream_name(number: int) -> str:
    """Return the name of one of the streams."""
    return f"stream-{number:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """
    Where a stream's driver runs, as its launch records it.

    :param name: What people call the driver.
    """

    launcher: str
    host: Host
    handle: Mapping[str, Any]
    name: str
    log: str
    pid: int = 1

    @classmethod
    def of_process(cls, pid: int, log: Path) -> Carrier:
        """Return the carrier of a driver that is a process of this host."""
        log.touch()
        handle = ProcessHandle.of(psutil.Process(pid)).to_dict()
        return cls(
            launcher="local",
            host=this_host(),
            handle=handle,
            name=f"pid {pid}",
            log=str(log),
            pid=pid,
        )


@contextlib.contextmanager
def laid_out(folder: Path, count: int) -> Iterator[Path]:
    """Lay out a home with this many streams whose drivers live and beat; yield the home."""
    home = folder / "home"
    with contextlib.ExitStack() as stack:
        for first in range(0, count, SHARED_BY):
            tokens = [uuid.uuid4().hex for _ in range(min(SHARED_BY, count - first))]
            driver = stack.enter_context(_driver(tokens))
            carrier = Carrier.of_process(driver.pid, folder / "driver.log")
            for number, token in enumerate(tokens, start=first):
                record_stream(home, make_epoch(number, token, carrier), carrier)
        stack.enter_context(beating(home, count))
        yield home


def beating(home: Path, count: int) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Beat for all drivers, in another process, until the end of the block."""
    return _ended([sys.executable, "-m", __name__, str(home), str(count)])


@contextlib.contextmanager
def _driver(tokens: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    named = itertools.chain.from_iterable(("--token", mark_of(token)) for token in tokens)
    with _ended(["sh", "-c", DRIVER, "driver", *named]) as process:
        yield process


@contextlib.contextmanager
def _ended(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def make_epoch(number: int, token: str, carrier: Carrier) -> Epoch:
    """Return the first epoch of one of the streams."""
    return Epoch(
        number=1,
        stream=stream_name(number),
        deployment=1,
        token=token,
        host=carrier.host,
        launcher=carrier.launcher,
        cause=LaunchCause.FIRST,
        reason="The stream has never run.",
        by="benchmark",
        created_at=NOW,
    )


def record_stream(home: Path, epoch: Epoch, carrier: Carrier) -> None:
    """Write what a launch leaves in the home, and a first status."""
    stream = StreamHome(LocalStore(str(home)), epoch.stream)
    stream.create_deployment(_deployment(stream.name, home), SCRIPT)
    stream.create_epoch(epoch)
    stream.record_launch(
        Launch(
            epoch=1,
            token=epoch.token,
            host=epoch.host,
            launched_at=NOW,
            handle=dict(carrier.handle),
            driver=carrier.name,
            log=carrier.log,
        )
    )
    status = _status(epoch, carrier.pid)
    stream.store.replace(
        Layout(stream.name).epoch(1, "status.json"), Layout(stream.name).bytes_of(status)
    )
    stream.store.create(_history(stream.name), HISTORY * _line(status))


def _deployment(stream: str, home: Path) -> Deployment:
    return Deployment(
        number=1,
        stream=stream,
        application=f"/dags/jobs/{stream}.py",
        application_sha256=hashlib.sha256(SCRIPT).hexdigest(),
        application_args=("--output", "{output}"),
        conf={f"spark.setting.number.{n}": str(n) for n in range(20)},
        env=("JAVA_HOME",),
        py_files=(),
        jars=(),
        packages=(),
        files=(),
        runtime="spark-4.3",
        spark_version="4.3.0",
        checkpoint=str(home / stream / "checkpoints" / "000001"),
        output=str(home / stream / "output" / "000001"),
        fair_pools=False,
        created_at=NOW,
        created_by="benchmark",
    )


def _status(epoch: Epoch, pid: int) -> Status:
    return Status(
        stream=epoch.stream,
        epoch=1,
        token=epoch.token,
        beat=1,
        state=DriverState.RUNNING,
        host=epoch.host,
        pid=pid,
        started_at=NOW - timedelta(hours=1),
        at=NOW,
        spark_version="4.3.0",
        ui_url="http://here:4040",
        first_progress_at=NOW - timedelta(minutes=50),
        queries=tuple(_query(name) for name in QUERIES),
    )


def _query(name: str) -> QueryStatus:
    return QueryStatus(
        name=name,
        id=str(uuid.uuid4()),
        run_id=str(uuid.uuid4()),
        checkpoint=f"/checkpoints/{name}",
        checkpoint_origin=CheckpointOrigin.DEPLOYMENT,
        active=True,
        processing=True,
        data_available=True,
        message="Processing new data",
        batches=400,
        processing_interval_s=10.0,
        recent_durations_ms=(900,) * 20,
        planned_batch=401,
        batch_for_s=0.5,
        quiet_for_s=0.0,
        committed_ago_s=8.0,
        active_tasks=2,
        progress=BatchProgress(
            query=name,
            batch_id=400,
            at=NOW.isoformat(),
            input_rows=1200,
            input_rows_per_second=400.0,
            processed_rows_per_second=1234.5,
            duration_ms=972,
            watermark=NOW.isoformat(),
            state_rows=24,
        ),
    )


def beat(home: Path, count: int) -> None:
    """Beat for all drivers until the process is ended."""
    store = LocalStore(str(home))
    paths = [Layout(stream_name(n)).epoch(1, "status.json") for n in range(count)]
    statuses = [Status.from_bytes(store.read(path) or b"") for path in paths]
    texts = [_parts(status) for status in statuses]
    start = time.monotonic()
    due = [(start + random.uniform(0, BEAT[1]), number) for number in range(count)]
    heapq.heapify(due)
    for turn in itertools.count(401):
        moment, number = due[0]
        time.sleep(max(0.0, moment - time.monotonic()))
        target = home / paths[number]
        # Whole, as every status is; not synced to the disk, which is not measured here.
        temporary = target.with_name(".status.tmp")
        temporary.write_bytes(str(turn).encode().join(texts[number]))
        temporary.replace(target)
        with (home / _history(stream_name(number))).open("ab") as history:
            history.write(_line(statuses[number]))
        heapq.heapreplace(due, (moment + random.uniform(*BEAT), number))


def _parts(status: Status) -> list[bytes]:
    """Return a status as the texts around its beat and the batches of its first query."""
    turn = 987654321
    first, *others = status.queries
    marked = replace(status, beat=turn, queries=(replace(first, batches=turn), *others))
    return marked.to_bytes().split(str(turn).encode())


def _history(stream: str) -> str:
    return f"{Layout(stream).progress(1)}/000001.jsonl"


def _line(status: Status) -> bytes:
    return json.dumps(encode(status.queries[0].progress)).encode() + b"\n"


if __name__ == "__main__":
    beat(Path(sys.argv[1]), int(sys.argv[2]))
