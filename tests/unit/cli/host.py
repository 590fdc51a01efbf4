"""A stream in a home, and a host whose processes a test decides on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Heartbeat
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from tests.unit.home.make import make_epoch, make_exit, make_launch, make_status

Run = Callable[..., tuple[int, str, str]]

RUNNING = Process(state=ProcessState.RUNNING, detail="pid 4711 runs", cpu_seconds=8.0)
GONE = Process.gone("no process has the token")
UNSEEN = Process.unseen("node-1 is not this host")


class FakeHost:
    """The processes of this host, as a launcher would see them."""

    def __init__(self) -> None:
        self.process = RUNNING
        self.asked: list[tuple[Epoch, Launch | None]] = []

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        self.asked.append((epoch, launch))
        return self.process


def begin(stream: StreamHome, number: int = 1, **status: Any) -> None:
    """Give the stream an epoch whose driver has just written its heartbeat."""
    now = datetime.now(UTC)
    stream.create_epoch(make_epoch(number, created_at=now - timedelta(hours=1)))
    stream.record_launch(make_launch(number))
    beat = make_status(number, **{"at": now, **status})
    stream.store.replace(f"orders/epochs/{number:06d}/status.json", beat.to_bytes())


def end(stream: StreamHome, number: int = 1, **changes: Any) -> None:
    record = make_exit(number, **changes)
    stream.store.create(f"orders/epochs/{number:06d}/exit.json", record.to_bytes("orders"))
