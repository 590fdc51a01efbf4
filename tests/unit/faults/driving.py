"""A driver's own durable writes: heartbeat, history, summary, claims on checkpoints, last words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ExitRecordWriter, ShutdownState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.monitoring import history
from airflow_streaming.driver.monitoring.heartbeat import Report
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.model.records.epoch import Exit, Outcome
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import (
    LAYOUT,
    NOON,
    CheckpointFolder,
    FakeQuery,
    make_deployment,
    make_epoch,
    make_tracked,
)
from tests.unit.driver.test_heartbeat import FakeJvm
from tests.unit.faults.disk import FaultyDisk

BATCHES = 5
ID = "11111111-2222-3333-4444-555555555555"


class Driven:
    """
    A driver from its first sign of life to its exit record, and its successor where it was killed.

    A fault of one write costs at most that write: the queries are not disturbed, a later beat writes
    what is missing, and what a reader finds is whole.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setattr("airflow_streaming.driver.exit_status._BETWEEN", 0.0)
        patch.setattr(history, "_WRITE_EVERY", 0.0)
        patch.setattr(history, "CHUNK_ROWS", 2)
        self._store = LocalStore(str(folder / "home"))
        self._checkpoint = CheckpointFolder(str(folder / "checkpoint"))
        self._checkpoint.create("metadata", json.dumps({"id": ID}).encode())
        self._epoch, self._is_over = 0, False

    def live_on(self, disk: FaultyDisk) -> None:
        pass

    def drivers(self) -> int:
        return 0 if self._is_over else 1

    def do(self) -> None:
        if self._is_over:
            return
        self._epoch += 1
        self._run(self._epoch)
        self._is_over = True

    def _run(self, epoch: int) -> None:
        claims = Claims(self._store, LAYOUT, deployment=1, epoch=epoch)
        queries, query = Queries(), FakeQuery()
        report = self._report(epoch, claims, queries)
        report.beat()
        claims.check("q", self._checkpoint, self._checkpoint.location)
        claims.keep("q", ID, self._checkpoint.location)
        queries.add(make_tracked(query))
        for batch in range(BATCHES):
            query.commit(batch)
            report.beat()
        # Whatever could not be written is written by the next beats.
        report.beat()
        report.beat(final=True)
        said = Exit(epoch=epoch, outcome=Outcome.COMPLETED, reason="Done.", ended_at=NOON)
        ExitRecordWriter(self._store, LAYOUT, epoch).say(said)

    def _report(self, epoch: int, claims: Claims, queries: Queries) -> Report:
        ending = ShutdownState()
        return Report(
            LaunchContext(
                home=self._store.uri,
                epoch=make_epoch(epoch),
                deployment=make_deployment(),
                source=b"",
            ),
            self._store,
            queries=queries,
            claims=claims,
            ending=ending,
            jvm=FakeJvm(),
            on_failure=ending.fail,
        )

    def outcome(self) -> Any:
        """Return what the newest driver has left, and whether all that any has left is whole."""
        return (
            self._exit(self._epoch),
            self._batches(self._epoch),
            self._status_of(self._epoch),
            self._claim(),
            all(self._is_whole(number) for number in range(1, self._epoch)),
        )

    def _exit(self, epoch: int) -> Outcome | None:
        data = self._store.read(LAYOUT.epoch(epoch, "exit.json"))
        return None if data is None else Exit.from_bytes(data).outcome

    def _batches(self, epoch: int) -> list[int]:
        """Return the batches of a history, in the order of its lines."""
        folder = LAYOUT.progress(epoch)
        chunks = (self._store.read(f"{folder}/{name}") for name in self._store.names(folder))
        lines = [line for chunk in chunks if chunk for line in chunk.splitlines()]
        return [json.loads(line)["batch_id"] for line in lines]

    def _status_of(self, epoch: int) -> int | None:
        data = self._store.read(LAYOUT.epoch(epoch, "status.json"))
        return None if data is None else Status.from_bytes(data).batches

    def _claim(self) -> tuple[str, bool]:
        claims = Claims(self._store, LAYOUT, deployment=1, epoch=self._epoch + 1)
        found = claims.check("q", self._checkpoint, self._checkpoint.location)
        return ("", False) if found is None else (found.query_id, found.epoch <= self._epoch)

    def _is_whole(self, epoch: int) -> bool:
        batches = self._batches(epoch)
        self._status_of(epoch)
        return batches == list(range(len(batches)))
