"""A stream in the cluster mode of a standalone cluster: killed, restarted, stopped; nothing is lost."""

# ruff: noqa: T201 - it prints what it has measured

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.records.epoch import Outcome
from tests.conftest import RUNS_NIGHTLY
from tests.integration.servers.standalone import processes_with
from tests.integration.stream.conftest import CANARY, UNBOUNDED, ClusterStream, Most, first_event

DRIVER_KILLS = 10 if RUNS_NIGHTLY else 2
EXECUTOR_KILLS = 5 if RUNS_NIGHTLY else 1
IN_CLIENT_MODE = pytest.param(
    "client",
    marks=pytest.mark.nightly("A cluster mode more."),
)


@pytest.mark.nightly("It kills drivers and executors of a cluster for a minute and a half.")
@pytest.mark.parametrize("mode", ["cluster", IN_CLIENT_MODE])
async def test_kills_of_driver_and_executors_lose_and_double_nothing(
    clustered: ClusterStream, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    stream, begun, executors = clustered, time.monotonic(), 0
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(stream.cluster.connection(mode)))
    operator = stream.operator(restart=UNBOUNDED)
    trigger = stream.run(operator)
    with Most(stream.drivers) as drivers:
        for epoch in range(1, DRIVER_KILLS + 1):
            stream.until(lambda epoch=epoch: stream.batches(epoch) >= 3, f"batches of {epoch}")
            assert stream.epochs() == epoch
            if epoch <= EXECUTOR_KILLS:
                executors += stream.kill_executors()
            assert _shows(stream) == []
            stream.driver(epoch).kill()
            at = time.monotonic() - begun
            print(f"{at:.0f} s: driver {epoch} killed, {executors} executors killed", flush=True)
            while stream.epochs() == epoch:
                trigger = stream.wake(trigger, operator, **(await first_event(trigger)))
            assert stream.home.death(epoch) is not None or stream.is_gone(epoch)
            _check_log(stream, epoch, mode)
        newest = stream.epochs()
        stream.until(lambda: stream.batches(newest) >= 3, f"batches of epoch {newest}")
        assert stream.stop().outcome is Outcome.STOPPED
    numbers = stream.numbers()
    print(f"{len(numbers)} rows, at most {len(drivers.most)} drivers in {drivers.looks} looks")
    assert executors >= EXECUTOR_KILLS
    assert len(drivers.most) == 1
    assert numbers == list(range(len(numbers))), "no row lost or doubled"


def _check_log(stream: ClusterStream, epoch: int, mode: str) -> None:
    """Check that a driver's output is kept with its epoch, and shown by the worker after its end."""
    kept = stream.home.driver_log(epoch)
    assert kept is not None
    assert kept.text
    assert CANARY not in kept.text
    if mode == "cluster":
        shown = open_launcher(policy=ask_recorded).logs(
            stream.home.epoch(epoch), stream.launch(epoch), None, 2**16
        )
        assert shown.tail is not None, shown.trouble
        assert b"\n==== stderr\n" in shown.tail
        assert "\n==== stderr\n" in kept.text


def _shows(stream: ClusterStream) -> list[str]:
    """Return where a planted secret can be read: command lines, and files of the home and worker."""
    lines = [" ".join(process.cmdline()) for process in processes_with(CANARY)]
    files = [path for path in stream.folder.rglob("*") if path.is_file() and path.suffix != ".jar"]
    return lines + [str(path) for path in files if CANARY.encode() in _bytes(path)]


def _bytes(path: Path) -> bytes:
    """Return what a file holds; nothing of one that Spark has renamed or deleted meanwhile."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
