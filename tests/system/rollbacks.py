"""
Is a stream that was upgraded and rolled back as if the upgrade had never been tried?

``python -m tests.system.rollbacks [--old spark-3.5] [--new spark-4.3]`` runs three queries on the
old Spark (file sink, foreachBatch that overwrites by batch id, foreachBatch that remembers ids),
takes the boundary's backup, lets bad code on the new Spark write three wrong batches with other
limits, restores the boundary with the sinks in step, and goes on on the old Spark. All rows are then
compared with those of a stream that was never upgraded. Beside it the same is done with the
checkpoint alone, as one would by hand, to show what that loses; with code whose first batch fails;
and with a new Spark that met no data, after which the old one may go on where it is.

The process ends with 1 when a row is lost, doubled or wrong after the full way back.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.upgrade.rollback import restore_boundary, why_restore
from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG, Source
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import Origin, SinkReplaySemantics
from airflow_streaming.model.arguments.rewinding import Rewinding
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.storage.folders import open_folders
from tests.conftest import find_runtimes
from tests.unit.home.make import SCRIPT, make_deployment

PROGRAM: Final = Path(__file__).parent / "shapes" / "rolled_back.py"
QUERIES: Final = ("files", "table", "ledger")
CODES: Final = {"full": "bad", "by_hand": "bad", "broken": "broken", "idle": "good"}
"""What the new deployment of each world does."""

WORLDS: Final = (*CODES, "control")
WHOLE: Final = " 0 lost, 0 doubled or wrong"
ROWS: Final = 10
"""Rows in each input file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One stream: its home, input and output."""

    folder: Path
    name: str

    @property
    def input(self) -> Path:
        return self.folder / "in"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def home(self) -> StreamHome:
        return StreamHome(LocalStore(str(self.folder / "home")), "orders")

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "home/orders/checkpoints/000001")

    @property
    def sinks(self) -> tuple[SinkFacts, ...]:
        return (
            SinkFacts(
                query="files",
                sink="file",
                habit=SinkReplaySemantics.FILE_LOG,
                target=str(self.out / "files"),
            ),
            SinkFacts(query="table", sink="foreachbatch", habit=SinkReplaySemantics.OVERWRITES),
            SinkFacts(query="ledger", sink="foreachbatch", habit=SinkReplaySemantics.REMEMBERS),
        )

    def feed(self, first: int, last: int) -> None:
        """Write input files, one second apart by their clocks, so that they are read in order."""
        self.input.mkdir(parents=True, exist_ok=True)
        for number in range(first, last + 1):
            rows = (
                {"id": number * ROWS + n, "k": "a b" if n % 3 else "c=d", "v": n}
                for n in range(ROWS)
            )
            file = self.input / f"{number:04}.json"
            file.write_text("\n".join(map(json.dumps, rows)))
            os.utime(file, (1_790_000_000 + number, 1_790_000_000 + number))

    def order(self, code: str, checkpoint: str | None = None) -> dict[str, str]:
        return {
            "code": code,
            "input": str(self.input),
            "out": str(self.out),
            "checkpoint": checkpoint or self.checkpoint,
        }

    def back_up(self, store: BackupStore) -> Backup:
        sources = [
            Source(
                folder=name,
                folders=open_folders(f"{self.checkpoint}/{name}"),
                sink_log=open_folders(str(self.out / name / SINK_LOG)) if name == "files" else None,
            )
            for name in QUERIES
        ]
        return take_backup(
            sources, store, stream="orders", origin=Origin.BEFORE_UPGRADE, by="rollbacks"
        )

    def take_out(self, asked: Rewinding) -> None:
        """Take batches out of the sinks that are no file sinks: what an author would write."""
        for number in range(asked.batch + 1, (asked.newest or asked.batch) + 1):
            (self.out / asked.query / f"{number}.json").unlink(missing_ok=True)
            for file in (self.out / asked.query).glob(f"batch={number}/*"):
                file.unlink()


def spark(runtime: Path, orders: Sequence[dict[str, str]], folder: Path) -> list[dict[str, Any]]:
    """Do what is ordered in one Spark."""
    told = folder / "orders.json"
    told.write_text(json.dumps(orders))
    python = str(runtime / "bin/python")
    done = subprocess.run(
        [python, str(PROGRAM), str(told)],
        env={**os.environ, "PYSPARK_PYTHON": python},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    answers = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]
    if len(answers) != len(orders):
        raise RuntimeError(f"Spark ended with {done.returncode}: {done.stderr[-3000:]}")
    return answers


def roll_back(world: World, store: BackupStore, backup: Backup) -> str:
    """Go back as an upgrade does; return where the stream goes on."""
    home = world.home
    change = Change(
        number=1,
        stream="orders",
        what=ChangeKind.UPGRADE,
        replaced=1,
        deployment=2,
        checkpoint=world.checkpoint,
        by="rollbacks",
        reason="Bad code.",
        at=datetime.now(UTC),
    )
    home.begin_change(change)
    home.create_deployment(make_deployment(2, checkpoint=world.checkpoint), SCRIPT)
    why = why_restore(home, store, backup.id, sinks=world.sinks)
    print(f"{world.name}: {why or 'nothing was left'}")
    if not why:
        return world.checkpoint
    begun = time.monotonic()
    # The author's function takes out of the ledger alone: overwriting by id needs nobody.
    rewind = SinkRewind(lambda asked: world.take_out(asked) if asked.query == "ledger" else None)
    restored = restore_boundary(
        home, store, backup.id, change, launcher=None, sinks=world.sinks, rewind=rewind
    )
    for plan in restored.rewound:
        print(f"{world.name}: {plan.query}: batches {plan.batches}, {plan.files} files aside")
    print(f"{world.name}: restored in {time.monotonic() - begun:.2f} s")
    return restored.checkpoint


def by_hand(world: World, store: BackupStore, backup: Backup) -> str:
    """Go back with the checkpoint alone."""
    from airflow_streaming.checkpoints.restore.replay import RefusalCode
    from airflow_streaming.checkpoints.restore.restore import Place, restore

    place = Place(to=str(world.folder / "by-hand"))
    restore(store, backup.id, place, accept={RefusalCode.SINK_GAP})
    return place.to


def differences(found: dict[str, list[str]], control: dict[str, list[str]]) -> dict[str, str]:
    """Return how many rows of each query are lost and how many are too many."""
    told = {}
    for query in QUERIES:
        there, wanted = Counter(found[query]), Counter(control[query])
        lost, extra = sum((wanted - there).values()), sum((there - wanted).values())
        told[query] = f"{sum(wanted.values())} rows, {lost} lost, {extra} doubled or wrong"
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", default="spark-3.5")
    parser.add_argument("--new", default="spark-4.3")
    given = parser.parse_args(arguments)
    runtimes = find_runtimes()
    old, new = runtimes[given.old], runtimes[given.new]
    with tempfile.TemporaryDirectory(prefix="rollbacks-") as scratch:
        folder = Path(scratch)
        worlds = {name: World(folder=folder / name, name=name) for name in WORLDS}
        judged = tried(worlds, old, new, folder)
    for name, told in judged.items():
        for query, words in told.items():
            print(f"{name:8} {query:8} {words}")
    del judged["by_hand"]
    whole = [words.endswith(WHOLE) for told in judged.values() for words in told.values()]
    return int(not all(whole))


def tried(
    worlds: dict[str, World], old: Path, new: Path, folder: Path
) -> dict[str, dict[str, str]]:
    """Take every world through its story; return how its output differs from the control's."""
    control = worlds.pop("control")
    control.feed(0, 12)
    stores = {}
    for name, world in worlds.items():
        world.feed(0, 4)
        world.home.create_deployment(make_deployment(1, checkpoint=world.checkpoint), SCRIPT)
        stores[name] = open_backup_store(str(folder / f"store-{name}"), create=True)
    spark(old, [world.order("good") for world in (control, *worlds.values())], folder)
    backups = {name: world.back_up(stores[name]) for name, world in worlds.items()}
    for name, world in worlds.items():
        world.feed(5, 4 if name == "idle" else 10)
    orders = [world.order(CODES[name]) for name, world in worlds.items()]
    print("new:", spark(new, orders, folder))
    places = {
        name: (by_hand if name == "by_hand" else roll_back)(world, stores[name], backups[name])
        for name, world in worlds.items()
    }
    for name, world in worlds.items():
        world.feed(5 if name == "idle" else 11, 12)
    again = [world.order("good", places[name]) for name, world in worlds.items()]
    reads = [{"read": str(world.out)} for world in (control, *worlds.values())]
    answers = spark(old, [*again, *reads], folder)
    print("old:", answers[: len(again)])
    wanted, *found = answers[len(again) :]
    return {name: differences(rows, wanted) for name, rows in zip(worlds, found, strict=True)}


if __name__ == "__main__":
    sys.exit(main())
