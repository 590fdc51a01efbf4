"""A stream on a standalone cluster whose load triples and falls again: its size follows, no row is lost."""

# ruff: noqa: T201 - it prints what it has measured

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import pytest

from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.records.size_change import SizeChange, SizeCode
from airflow_streaming.model.status import SizeChangeEnd
from airflow_streaming.spec import Autoscale
from airflow_streaming.supervision.observer import Observer
from tests.integration.stream.conftest import UNBOUNDED, ClusterStream, KeptStream
from tests.patience import PATIENCE

SCRIPT: Final = """
import sys, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

source, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

@udf("long")
def slowly(text):
    time.sleep(0.01)
    return int(text)

rows = spark.readStream.text(source).repartition(12).select(slowly("value").alias("value"))
rows.writeStream.queryName("numbers").format("parquet")\\
    .trigger(processingTime="5 seconds").start(output)
"""
"""An executor of one core reads about 100 rows a second, however fast the machine is."""
BASE: Final = 40.0
"""Rows a second, from which on the load triples."""
FIRST: Final = 5.0
"""Rows a second until the first driver commits, so that it starts without a backlog."""
POLICY: Final = Autoscale(
    min=1,
    max=4,
    up_after=timedelta(seconds=20),
    down_after=timedelta(seconds=60),
    catch_up=timedelta(seconds=60),
    cool_down=timedelta(seconds=20),
)
CONF: Final = {"spark.executor.instances": 1, "spark.executor.cores": 1}


class Load:
    """
    Writes numbered rows into files, twice a second, in a thread.

    :param folder: Where the stream reads them.
    """

    EVERY: Final = 0.5

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows_a_second, self.written = folder, FIRST, 0
        self._chance, self._over = random.Random(1), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        folder.mkdir()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        before = time.monotonic()
        level = 1.0
        for number in range(10**9):
            if self._over.wait(self.EVERY):
                return
            if number % 10 == 0:
                # A level for each batch: batches of one size do not show what a row costs.
                level = self._chance.uniform(0.7, 1.3)
            now = time.monotonic()
            count = round(self.rows_a_second * level * (now - before))
            before = now
            hidden = self.folder / f".{number:06}"
            hidden.write_text("\n".join(map(str, range(self.written, self.written + count))))
            hidden.rename(self.folder / f"{number:06}")
            self.written += count


class SizedStream(KeptStream):
    """A stream under a load, and what is seen of its size."""

    def __init__(self, real: ClusterStream, load: Load) -> None:
        conf = {**real.spec().conf, **CONF}
        del conf["spark.cores.max"]
        super().__init__(
            real,
            application_args=[str(load.folder), "{output}"],
            conf=conf,
            autoscale=POLICY,
            restart=UNBOUNDED,
        )
        self._load, self._begun = load, time.monotonic()
        self._observer = Observer(self.home, open_launcher(policy=ask_recorded))
        self._told = ""

    def changes(self) -> list[SizeChange]:
        return [self.home.size_change(number) for number in self.home.size_numbers()]

    def answer(self) -> SizeChangeEnd | None:
        """Return the driver's answer to the newest change."""
        return self.home.size_end(self.home.size_numbers()[-1])

    def committed(self) -> int:
        """Return the rows of all batches that drivers have told of."""
        numbers = range(1, self.real.epochs() + 1)
        return sum(batch.input_rows for n in numbers for batch in self.home.read_progress(n, 2000))

    def report(self) -> None:
        """Print one line about load, backlog and size, where the answer is another than before."""
        size = self._observer.situation(autoscale=POLICY).size
        if size is None:
            return
        told = f"epoch {self.real.epochs()}, {size.present} executors, {size.step.code.value}"
        if told != self._told:
            self._told = told
            backlog = self._load.written - self.committed()
            at = time.monotonic() - self._begun
            print(
                f"{at:4.0f} s: {self._load.rows_a_second:.0f} rows/s, {backlog} wait, {told}: "
                f"{size.step.reason}",
                flush=True,
            )

    def keep_until(self, condition: Any, what: str, every: float = 1.0) -> None:
        def is_so() -> Any:
            self.report()
            return condition()

        super().keep_until(is_so, what, every)


@pytest.mark.nightly("It takes seven minutes.")
def test_the_size_follows_a_load_that_triples_and_falls_again(
    clustered: ClusterStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.supervision.scaling.sizing.LOOK_EVERY", 5.0)
    clustered.script.write_text(SCRIPT)
    with Load(clustered.folder / "input") as load:
        stream = SizedStream(clustered, load)
        stream.keep_until(lambda: clustered.batches(1) >= 2, "batches of the first driver")
        load.rows_a_second = BASE
        stream.keep_until(lambda: clustered.batches(1) >= 10, "batches of the first load")

        load.rows_a_second = 3 * BASE
        stream.keep_until(lambda: stream.changes(), "a larger size")
        stream.keep_until(stream.answer, "the driver's answer")
        seen = clustered.batches(1)
        stream.keep_until(lambda: clustered.batches(1) >= seen + 10, "batches of the larger size")

        load.rows_a_second = BASE
        stream.keep_until(lambda: stream.changes()[-1].code is SizeCode.DOWN, "a smaller size")
        stream.keep_until(stream.answer, "the driver's answer")
        seen = clustered.batches(1)
        stream.keep_until(lambda: clustered.batches(1) >= seen + 5, "batches of the smaller size")
        load.end()
        stream.keep_until(lambda: stream.committed() >= load.written, "all rows")
    assert clustered.stop().outcome is Outcome.STOPPED

    changes = stream.changes()
    for change in changes:
        print(f"{change.code.value} {change.before} -> {change.executors}: {change.reason}")
    numbers = clustered.numbers()
    print(f"{load.written} rows written, {len(numbers)} read, {clustered.epochs()} epochs")
    assert changes[0].code is SizeCode.UP
    assert changes[-1].code is SizeCode.DOWN
    assert max(change.executors for change in changes) >= 2
    assert clustered.epochs() == 1, "no change restarted the driver"
    assert numbers == list(range(load.written)), "no row lost or doubled"
