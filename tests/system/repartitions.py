"""
Another number of state partitions, on a real Spark 4.3: which shapes it can do, and with what result.

    python -m tests.system.repartitions [--runtime .runtimes/spark-4.3] [--shapes a,b] [--stores rocksdb]

Each shape runs over half of its input, is backed up, repartitioned from 3 to 5 and, restored, from
3 to 2, and runs over the rest. All rows that it wrote must be those of a run that was never touched.
Then the backup is restored elsewhere and runs over the rest too: the way back. Where Spark refuses, its
own condition is printed, what it left behind, and what our gate says beforehand.
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.gates.state_partitions import is_done, plan_repartition
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.testing import StreamTester, StreamTestError
from tests.quick_java import kit_environment

ROOT: Final = Path(__file__).parents[2]
JOB: Final = ROOT / "tests/integration/upgrade/repartitioned_job.py"
FILES: Final = 10
BEFORE: Final = 3
REWIND: Final = RollbackPlan(way=RollbackMethod.REWIND, reason="For this program.")
SHAPES: Final = (
    *("aggregate", "window", "session", "dedup", "dedup_watermark", "join_inner", "join_left"),
    *("pandas_state", "with_state_value", "with_state_list", "with_state_map", "with_state_ttl"),
    *("chained", "limit"),
)
STORES: Final = ("rocksdb", "changelog", "format2", "hdfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    What became of one shape and number.

    :param gate: Rules that our gate names beforehand.
    :param condition: Spark's condition, empty when it did it; ``told`` its sentence.
    :param is_same: All rows are those of the run that was never touched.
    :param is_back: The same after the way back.
    :param starts: It starts again after Spark refused.
    """

    shape: str
    store: str
    sink: str
    to: int
    gate: tuple[str, ...]
    condition: str = ""
    told: str = ""
    is_same: bool = False
    is_back: bool = False
    starts: str = ""
    rows: int = 0
    seconds: float = 0.0


def shared_spark(runtime: Path) -> StreamTester:
    """Return the one Spark of a run; it imports the driver's part of the package."""
    return StreamTester(
        runtime.absolute() / "bin/python",
        conf={"spark.sql.codegen.factoryMode": "FALLBACK"},
        environment={"PYTHONPATH": str(ROOT), **kit_environment(runtime.absolute())},
    )


def arrive(folder: Path, numbers: range) -> None:
    """Put files into both inputs; the same number is the same file."""
    for number in numbers:
        for side in ("left", "right"):
            chance = random.Random(number * 7 + (side == "right"))
            rows = []
            for row in range(24):
                second = number * 6 + row // 4
                at = f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000Z"
                rows.append({"k": f"k{chance.randrange(12)}", "v": chance.randrange(40), "ts": at})
            file = folder / side / f"{number:03}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            os.utime(file, (1_700_000_000 + number,) * 2)


def rows_of(output: Path, spark: StreamTester, sink: str) -> list[str]:
    """Return all rows that a run has written, sorted."""
    if sink == "files":
        return sorted(json.dumps(row, sort_keys=True) for row in spark.rows(output, format="json"))
    return sorted(line for file in output.glob("*.json") for line in file.read_text().splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """
    What a shape has come to with half of its input; the rest lies there since.

    :param rows: Its output then.
    :param backup: Of its checkpoint then.
    """

    inputs: Path
    rows: Path
    backup: str


class Proof:
    """Runs one shape on one state store, in a folder of its own."""

    def __init__(
        self, spark: StreamTester, folder: Path, shape: str, store: str, sink: str = "function"
    ) -> None:
        self._spark, self._folder = spark, folder
        self._shape, self._store, self._sink = shape, store, sink
        self._backups = open_backup_store(str(folder / "backups"), create=True)
        self._half: Half | None = None
        self._is_back: bool | None = None
        arrive(folder / "all", range(FILES))
        self._run(folder / "all", folder / "untouched", folder / "expected")
        self._expected = rows_of(folder / "expected", spark, sink)

    def _run(self, inputs: Path, checkpoint: Path, output: Path) -> None:
        given = (self._shape, self._store, inputs, checkpoint, output, BEFORE, self._sink)
        self._spark.call(JOB, "run", *given)

    def to(self, partitions: int) -> Found:
        """Repartition half-way, and go back; return what became of it."""
        here = self._folder / f"to{partitions}"
        checkpoint, output = here / "checkpoint", here / "out"
        half = self._begun(here)
        report = inspect(str(checkpoint))
        plan = plan_repartition({"": report}, partitions, (4, 3, 0), rollback=REWIND)
        began = time.monotonic()
        told = self._spark.call(JOB, "repartition", checkpoint, partitions, self._store)
        took = time.monotonic() - began
        gate = tuple(finding.rule for finding in plan.findings)
        if self._is_back is None:
            self._is_back = self._sink == "function" and self._goes_back(half)
        starts = self._again(half.inputs, checkpoint, output)
        try:
            found = rows_of(output, self._spark, self._sink)
        except StreamTestError as err:
            found, starts = [], next(line for line in str(err).splitlines() if "exist" in line)
        is_same = found == self._expected and is_done([inspect(str(checkpoint))], partitions)
        return Found(
            shape=self._shape,
            store=self._store,
            sink=self._sink,
            to=partitions,
            gate=gate,
            condition=told[0],
            told=told[1],
            is_same=is_same and not told[0],
            is_back=self._is_back,
            starts=starts,
            rows=len(found),
            seconds=took,
        )

    def _begun(self, here: Path) -> Half:
        """Run half of the input, or restore what came of it: a file sink's log knows where its files lie."""
        checkpoint, output = here / "checkpoint", here / "out"
        if self._half is not None and self._sink == "function":
            restore(self._backups, self._half.backup, Place(to=str(checkpoint)))
            shutil.copytree(self._half.rows, output)
            return self._half
        inputs, rows = here / "in", here / "half"
        arrive(inputs, range(FILES // 2))
        self._run(inputs, checkpoint, output)
        shutil.copytree(output, rows)
        backup = self._back_up(self._backups, checkpoint)
        arrive(inputs, range(FILES // 2, FILES))
        self._half = Half(inputs=inputs, rows=rows, backup=backup)
        return self._half

    def _goes_back(self, half: Half) -> bool:
        """Restore the backup elsewhere, and run the rest on the rows that were there when it was taken."""
        back, rows = self._folder / "back", self._folder / "back-out"
        restore(self._backups, half.backup, Place(to=str(back)))
        shutil.copytree(half.rows, rows)
        self._run(half.inputs, back, rows)
        is_whole = rows_of(rows, self._spark, self._sink) == self._expected
        return is_whole and inspect(str(back)).shuffle_partitions == BEFORE

    def _again(self, inputs: Path, checkpoint: Path, output: Path) -> str:
        try:
            self._run(inputs, checkpoint, output)
        except Exception as err:  # noqa: BLE001 - what Spark says is the answer
            return getattr(err, "condition", None) or str(err).splitlines()[0][:200]
        return ""

    @staticmethod
    def _back_up(store: BackupStore, checkpoint: Path) -> str:
        sources = sources_of(open_folders(str(checkpoint)))
        return take_backup(sources, store, stream="s", origin=Origin.MANUAL, by="repartitions").id


def proofs(
    spark: StreamTester, folder: Path, shapes: tuple[str, ...], stores: tuple[str, ...], sink: str
) -> Iterator[Found]:
    """Return what became of each, one after another."""
    for store in stores:
        for shape in shapes:
            place = folder / f"{shape}-{store}-{sink}"
            place.mkdir(parents=True)
            proof = Proof(spark, place, shape, store, sink)
            for partitions in (5, 2):
                yield proof.to(partitions)


def main() -> None:
    """Print one line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runtime", type=Path, default=ROOT / ".runtimes/spark-4.3")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--stores", default="rocksdb,format2")
    parser.add_argument("--sink", choices=("function", "files"), default="function")
    given = parser.parse_args()
    shapes, stores = tuple(given.shapes.split(",")), tuple(given.stores.split(","))
    with tempfile.TemporaryDirectory() as folder, shared_spark(given.runtime) as spark:
        for found in proofs(spark, Path(folder), shapes, stores, given.sink):
            verdict = "same" if found.is_same else "refused" if found.condition else "DIFFERS"
            print(
                f"{found.shape:17} {found.store:9} {BEFORE}->{found.to} {verdict:8} "
                f"back {'same' if found.is_back else '-'} {found.seconds:5.1f} s {found.rows:4} rows "
                f"gate {','.join(found.gate)} {found.condition} {found.told[:160]} {found.starts}",
                flush=True,
            )


if __name__ == "__main__":
    main()
