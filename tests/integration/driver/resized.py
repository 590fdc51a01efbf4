"""A stateful stream under load on a standalone cluster, whose number of executors changes."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.size_change import SizeChange, SizeCode
from airflow_streaming.model.status import SizeChangeEnd
from tests.integration.driver.running import STREAM, Driver, World
from tests.integration.servers.standalone import Cluster
from tests.patience import PATIENCE

MOST: Final = 4
SCRIPT: Final = """
from pyspark.sql.functions import col, expr

pause = expr("reflect('java.lang.Thread', 'sleep', 5L)")
rows = spark.readStream.text(str(folder / "input")).repartition(4)
rows = rows.where(pause.isNotNull()).select(col("value").cast("long")).dropDuplicates(["value"])
writer = rows.writeStream.queryName("q").format("json").option("path", str(folder / "out"))
writer.trigger(processingTime="1 second").start().awaitTermination()
"""
"""An executor of one core reads about 200 rows a second, however fast the machine is."""


class Load:
    """
    Writes numbered rows into files, twice a second, in a thread.

    :param folder: Where the stream reads them.
    """

    EVERY: Final = 0.5

    def __init__(self, folder: Path, rows_a_second: float) -> None:
        self.folder, self.rows_a_second, self.written = folder, rows_a_second, 0
        self._chance, self._over = random.Random(1), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        folder.mkdir(exist_ok=True)

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
        for number in range(10**9):
            if self._over.wait(self.EVERY):
                return
            now = time.monotonic()
            level = self._chance.uniform(0.7, 1.3)
            count = round(self.rows_a_second * level * (now - before))
            before = now
            hidden = self.folder / f".{number:06}"
            hidden.write_text("\n".join(map(str, range(self.written, self.written + count))))
            hidden.rename(self.folder / f"{number:06}")
            self.written += count


class ResizedStream:
    """
    A stream of a world on a cluster.

    :param conf: Added to the configuration of every driver.
    """

    def __init__(self, world: World, cluster: Cluster, conf: dict[str, str] | None = None) -> None:
        self.world, self.cluster, self.epoch = world, cluster, 0
        self.home = StreamHome(world.store, STREAM)
        self._conf = conf or {}
        world.deploy(SCRIPT)

    def launch(self, executors: int | None = 2, most: int = MOST) -> Driver:
        """Begin the next epoch and start its driver, as a keep-alive task does."""
        self.epoch += 1
        self.world.begin_epoch(self.epoch, executors=executors)
        conf = {
            "spark.master": f"spark://127.0.0.1:{self.cluster.port}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(most),
            "spark.sql.shuffle.partitions": "4",
            # A job that lists the many input files would take longer than the batch.
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
            "spark.pyspark.python": str(self.world.runtime / "bin" / "python"),
            **({} if executors is None else {"spark.executor.instances": str(executors)}),
            **self._conf,
        }
        settings = [part for pair in conf.items() for part in ("--conf", "=".join(pair))]
        self.driver = self.world.launch(self.epoch, submit=settings)
        return self.driver

    def resize(self, executors: int) -> SizeChangeEnd:
        """Record another size, as the scaler does, and wait for the driver's answer."""
        number = self.ask(executors)
        end: SizeChangeEnd = self.driver.until(
            lambda: self.home.size_end(number), f"The answer to change {number}"
        )
        return end

    def ask(self, executors: int) -> int:
        """Record another size, as the scaler does; return the number of the change."""
        newest = self.home.newest_size()
        number = 1 if newest is None else newest.number + 1
        change = SizeChange(
            number=number,
            epoch=self.epoch,
            code=SizeCode.UP,
            executors=executors,
            before=1,
            configured=2,
            reason="A test wants it.",
            by="a test",
            at=datetime.now(UTC),
        )
        assert self.home.add_size(change)
        return number

    def alive(self) -> int:
        """Return the executors in the driver's status."""
        status = self.driver.status()
        found = None if status is None else status.executors
        return 0 if found is None else found.alive

    def commits(self) -> int:
        """Return the newest committed batch, -1 before the first."""
        folder = self.world.checkpoint() / "commits"
        names = [one.name for one in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def moves(self, batches: int = 3) -> None:
        """Wait until some more batches are committed."""
        before = self.commits()
        self.driver.until(lambda: self.commits() >= before + batches, "More batches")

    def rows(self) -> Counter[int]:
        """Return how often each row is in the output, by the commits of the sink."""
        return rows_of(self.world.folder / "out")

    def reads_all(self, load: Load) -> None:
        """End the load and wait until every row is in the output."""
        load.end()
        self.driver.until(lambda: len(self.rows()) >= load.written, "All rows")


def rows_of(output: Path) -> Counter[int]:
    """Return how often each value is in a file sink's committed files."""
    log = output / "_spark_metadata"
    files: set[str] = set()
    names = log.iterdir() if log.exists() else ()
    for name in names:
        if name.name.removesuffix(".compact").isdecimal():
            lines = name.read_text().splitlines()[1:]
            files.update(json.loads(line)["path"] for line in lines)
    found: Counter[int] = Counter()
    for file in files:
        text = Path(file.removeprefix("file://")).read_text()
        found.update(json.loads(line)["value"] for line in text.splitlines())
    return found
