"""A stream with files as drivers left them, most of them too old to be of use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_streaming.changes.pruning.decide import Pruned
from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    DesiredState,
)
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.services.pruning import prune
from airflow_streaming.storage.blobs import Blobs, LocalBlobs
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch, make_exit

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


class Kept:
    """A home with files as drivers leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.folder.mkdir()
        self.home: Home = open_home(str(self.folder))
        self.blobs: Blobs = LocalBlobs(str(self.folder))

    def lane(self, name: str = "orders") -> StreamHome:
        return self.home.stream(name)

    def deploy(self, days: float, *, place: str = "", lane: str = "orders") -> int:
        home = self.lane(lane)
        number = len(home.deployment_numbers()) + 1
        place = place or numbered(number)
        made = make_deployment(
            number,
            stream=lane,
            created_at=ago(days),
            checkpoint=f"{self.folder}/{lane}/checkpoints/{place}",
            output=f"{self.folder}/{lane}/output/{place}",
        )
        home.create_deployment(made, SCRIPT)
        for uri in (made.checkpoint, made.output):
            self.write(Path(uri) / "revenue" / "metadata")
            self.write(Path(uri) / "revenue" / "offsets" / "0")
        return number

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")

    def run(
        self, days: float, *, lane: str = "orders", outcome: Outcome | None = Outcome.STOPPED
    ) -> int:
        home = self.lane(lane)
        number = max(home.epoch_numbers(), default=0) + 1
        deployment = home.deployment_numbers()[-1]
        home.create_epoch(
            make_epoch(number, stream=lane, deployment=deployment, created_at=ago(days))
        )
        folder = self.folder / lane / "epochs" / numbered(number)
        self.write(folder / "status.json")
        self.write(folder / "progress" / "000001.jsonl")
        if outcome is not None:
            ended = make_exit(number, outcome=outcome, ended_at=ago(days))
            self.write(folder / "exit.json")
            (folder / "exit.json").write_bytes(ended.to_bytes(lane))
        return number

    def change(self, days: float, *, ends: float | None, lane: str = "orders", **more: Any) -> None:
        home = self.lane(lane)
        values: dict[str, Any] = {
            "what": ChangeKind.RESTORE,
            "replaced": 1,
            "deployment": 2,
            "checkpoint": f"{self.folder}/{lane}/checkpoints/000002",
        }
        number = home.next_change()
        home.begin_change(
            Change(number=number, stream=lane, by="kim", reason="", at=ago(days), **values | more)
        )
        if ends is not None:
            home.end_change(
                ChangeEnd(
                    number=number, outcome=ChangeOutcome.DONE, by="kim", reason="", at=ago(ends)
                )
            )

    def prune(self, *, blobs: Blobs | None = None, **more: Any) -> Pruned:
        policy = more.pop("policy", PrunePolicy(keep_epochs=3))
        return prune(
            *(self.home, blobs or self.blobs, "orders", policy),
            by="kim",
            clock=lambda: NOW,
            **more,
        )

    def files(self) -> set[str]:
        return {
            str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if file.is_file()
        }


def old_stream(folder: Path) -> Kept:
    """Return a stream of two deployments and eleven epochs, of which four stay."""
    made = Kept(folder)
    made.deploy(100)
    for days in range(90, 60, -5):
        made.run(days)
    made.deploy(50)
    made.run(45, outcome=Outcome.FAILED)
    for days in (40, 35, 30, 1):
        made.run(days)
    made.lane().want(DesiredState.RUNNING, by="kim", reason="", now=ago(100))
    return made
