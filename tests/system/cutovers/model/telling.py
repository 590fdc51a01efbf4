"""What a modeled driver tells of itself: its heartbeat, its batches, its last words."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress, SourceProgress
from airflow_streaming.model.records.epoch import Exit, Outcome
from airflow_streaming.model.status import QueryStatus
from tests.unit.home.make import make_query, make_status

if TYPE_CHECKING:
    from tests.system.cutovers.model.driver import ModelDriver

BEAT_S: Final = 2.0
QUERY: Final = "counts"
KEPT: Final = 50


class Telling:
    """The records that a driver writes of itself."""

    def __init__(self, driver: ModelDriver) -> None:
        self._driver, self._world = driver, driver.world
        self._beat, self._said_at = 0, -1e9
        self._rows: list[BatchProgress] = []
        self._lines: list[str] = []
        self._committed_at = self._started_at = driver.world.t
        self._first: Any = None

    def beat(self) -> None:
        """Say that the driver lives, when it is time again."""
        if self._world.t - self._said_at >= BEAT_S:
            self.say()

    def say(self) -> None:
        """Write the status, and the batches since the last one."""
        self._beat, self._said_at = self._beat + 1, self._world.t
        epoch, world = self._driver.epoch, self._world
        status = make_status(
            epoch.number,
            stream=epoch.stream,
            token=epoch.token,
            beat=self._beat,
            at=world.now,
            started_at=world.now - timedelta(seconds=world.t - self._started_at),
            first_progress_at=self._first,
            queries=(self._query(),) if self._driver.started and not self._driver.stands_by else (),
            standby=self._driver.stands_by,
        )
        self._replace("status.json", status.to_bytes())
        if self._rows:
            self._replace("progress/000001.jsonl", "\n".join(self._lines).encode())

    def committed(self, batch: int, rows: int) -> None:
        """Take note of a batch."""
        self._committed_at = self._world.t
        self._first = self._first or self._world.now
        left = self._world.sea.files(self._world.t) - self._driver.checkpoint.read()
        self._rows = [
            *self._rows[-KEPT:],
            BatchProgress(
                query=QUERY,
                batch_id=batch,
                at=self._world.now.isoformat(),
                input_rows=rows,
                input_rows_per_second=1.0,
                processed_rows_per_second=10.0,
                duration_ms=400,
                sources=(
                    SourceProgress(source="FileStreamSource[sea]", backlog_files=float(left)),
                ),
            ),
        ]

        self._lines = [*self._lines[-KEPT:], json.dumps(encode(self._rows[-1]))]

    def last_words(self, outcome: Outcome) -> None:
        """Say why the driver ends."""
        epoch = self._driver.epoch
        said = Exit(
            epoch=epoch.number,
            outcome=outcome,
            reason=f"The model {outcome}.",
            ended_at=self._world.now,
        )
        path = Layout(epoch.stream).epoch(epoch.number, "exit.json")
        self._world.home(epoch.stream).store.create(path, said.to_bytes(epoch.stream))

    def _query(self) -> QueryStatus:
        return make_query(
            QUERY,
            checkpoint=self._driver.place,
            batches=self._driver.batches,
            active=True,
            processing=False,
            data_available=False,
            message="Waiting for data to arrive",
            progress=self._rows[-1] if self._rows else None,
            committed_ago_s=self._world.t - self._committed_at,
        )

    def _replace(self, name: str, data: bytes) -> None:
        epoch = self._driver.epoch
        path = Layout(epoch.stream).epoch(epoch.number, name)
        self._world.home(epoch.stream).store.replace(path, data)
