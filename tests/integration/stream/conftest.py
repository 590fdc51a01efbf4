"""A stream whose every part is real but the scheduler: the test hands events to the task itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Launch
from tests.patience import PATIENCE, tail, until
from tests.unit.world import World

SCRIPT = """
import sys
from pyspark.sql import SparkSession

output = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
numbers = (
    spark.readStream.format("rate-micro-batch")
    .option("rowsPerBatch", 10).option("numPartitions", 1).load()
)
numbers.writeStream.queryName("numbers").format("parquet")\\
    .trigger(processingTime="200 milliseconds").start(output)
"""


class RealStream(World):
    """The small world of the unit tests, with real drivers in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.script.write_text(SCRIPT)
        self.output = folder / "output"

    def spec(self, **changes: Any) -> Any:
        asked: dict[str, Any] = {
            "application_args": ["{output}"],
            "output": str(self.output),
            "conf": {
                "spark.driver.memory": "512m",
                # Half the start-up time of a short-lived JVM is spent on optimizing it.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
                "spark.ui.enabled": False,
                "spark.sql.shuffle.partitions": 1,
            },
        }
        return super().spec(**{**asked, **changes})

    def launch(self, epoch: int) -> Launch:
        found = self.home.launch(epoch)
        assert found is not None
        return found

    def signal(self, epoch: int, what: signal.Signals) -> None:
        """Signal the whole process group of a driver."""
        os.killpg(int(self.launch(epoch).handle["pid"]), what)

    def is_gone(self, epoch: int) -> bool:
        seen = LocalLauncher().probe(self.home.epoch(epoch), self.launch(epoch))
        return seen.state is ProcessState.GONE

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something that the drivers do; a failure shows what they logged."""
        until(condition, what, seen=lambda: "\n".join(map(tail, sorted(self._logs()))))

    def _logs(self) -> Iterator[Path]:
        launches = (self.home.launch(number) for number in range(1, self.epochs() + 1))
        return (Path(launch.log) for launch in launches if launch is not None)

    def batches(self, epoch: int) -> int:
        status = self.home.status(epoch)
        return status.batches if status else 0

    def first_batch(self, epoch: int) -> int:
        """Return the first batch of an epoch, given that it committed every batch since."""
        status = self.home.status(epoch)
        assert status is not None
        (query,) = status.queries
        assert query.progress is not None
        return query.progress.batch_id - query.batches + 1

    def commits(self) -> dict[int, str]:
        """Return what every commit file of the checkpoint holds, by batch."""
        folder = Path(self.home.deployment(1).checkpoint) / "numbers" / "commits"
        return {int(f.name): f.read_text() for f in folder.glob("[0-9]*") if f.name.isdigit()}

    def numbers(self) -> list[int]:
        """Return the rows that the sink's log vouches for, sorted."""
        log, found = self.output / "_spark_metadata", list[int]()
        compacted = max((int(file.stem) for file in log.glob("[0-9]*.compact")), default=-1)
        batches = [f for f in log.glob("[0-9]*") if f.name.isdigit() and int(f.name) > compacted]
        for batch in [*log.glob(f"{compacted}.compact"), *batches]:
            for line in batch.read_text().splitlines()[1:]:
                file = json.loads(line)["path"].removeprefix("file://")
                found += pyarrow.parquet.read_table(file, columns=["value"])["value"].to_pylist()
        return sorted(found)

    def end(self) -> None:
        """Leave no process behind."""
        for number in range(1, self.epochs() + 1):
            with contextlib.suppress(ProcessLookupError):
                self.signal(number, signal.SIGKILL)


async def first_event(trigger: Any) -> dict[str, Any]:
    """Let a trigger look until it fires."""
    async with asyncio.timeout(PATIENCE):
        events = [event.payload async for event in trigger.run()]
    payload: dict[str, Any] = events[0]
    return payload


@pytest.fixture
def real(tmp_path: Path, spark_4_3: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealStream]:
    """Return a stream on Spark 4.3; its drivers are gone when the test ends."""
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(spark_4_3)}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"})
    )
    # An event at once: there is no scheduler here that has to see the deferral first.
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    stream = RealStream(tmp_path)
    yield stream
    stream.end()
