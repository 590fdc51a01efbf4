"""A driver at the barrier: it absorbs what the other lane has read, and goes on in its output."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.epoch import (
    OrderAct,
    Outcome,
    QueryClaim,
    StandbyAnswer,
    StandbyOrder,
)
from airflow_streaming.model.storage import LocalStore
from tests.conftest import find_runtimes
from tests.integration.driver.running import STREAM, Driver, World, world_in

WINDOWS = """
from pyspark.sql import functions as F

spark.conf.set("spark.sql.streaming.stateStore.providerClass", sys.argv[3])
given = Path(sys.argv[4])

def windows(files):
    rows = (spark.readStream.schema("t TIMESTAMP, n INT").option("maxFilesPerTrigger", files)
            .json(str(given / "in")))
    return (rows.withWatermark("t", "10 seconds").groupBy(F.window("t", "10 seconds"))
            .agg(F.count("*").alias("rows"), F.sum("n").alias("n")))

def into(ledger):
    def write(batch, number):
        found = [{"batch": number, "from": str(row.window.start), "rows": row.rows, "n": row.n}
                 for row in batch.collect()]
        with open(given / ledger, "a") as file:
            file.write(json.dumps({"batch": number, "windows": found}) + chr(10))
    return write

def begin(name, ledger, files):
    return (windows(files).writeStream.queryName(name).foreachBatch(into(ledger))
            .trigger(processingTime="100 milliseconds").start())
"""

BOTH = f"""
import json
{WINDOWS}
blue, green = begin("blue", "sink", 1), begin("green", "shadow", 3)
while not (given / "stop-green").exists():
    time.sleep(0.05)
green.stop()
(given / "green-stopped").touch()
blue.awaitTermination()
"""

GREEN = f"""
import json
{WINDOWS}
green = begin("green", "sink", 3)
beside = (spark.readStream.text(str(given / "in")).writeStream.queryName("beside")
          .foreachBatch(lambda batch, _: batch.count()).start())
(given / "ids").write_text(" ".join((str(green.id), str(beside.id))))
spark.streams.awaitAnyTermination()
"""

STORES = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


class Lanes:
    """Blue and green of one stream, each with a home of its own, over one input."""

    def __init__(self, folder: Path, blue: World, green: World, provider: str) -> None:
        self.folder, self.blue, self.green = folder, blue, green
        self._arguments = (str(folder), "{stream}", provider, str(folder))
        self.home = StreamHome(LocalStore(str(green.home)), STREAM)
        self.given: Counter[str] = Counter()
        self.standing: Driver
        self._files = 0
        (folder / "in").mkdir()

    def give(self, *seconds: int) -> None:
        """Add a file with rows of these seconds."""
        stamps = [stamp(second) for second in seconds]
        self.given.update(stamp(second // 10 * 10) for second in seconds)
        file = self.folder / "in" / f".{self._files:03d}.json"
        file.write_text("".join(json.dumps({"t": t, "n": 1}) + "\n" for t in stamps))
        # Spark takes files by their times, and those of one millisecond in any order.
        os.utime(file, (self._files, self._files))
        file.rename(file.with_name(file.name[1:]))
        self._files += 1

    def run_both(self) -> Driver:
        return self.blue.run(BOTH, application_args=self._arguments)

    def stand_by(self) -> Driver:
        """Start green's next driver, on its own checkpoint and blue's output."""
        self.green.deploy(
            GREEN,
            application_args=self._arguments,
            checkpoint=str(self.blue.checkpoint("green").parent),
        )
        self.green.begin_epoch(queries=("green", "beside"))
        self.standing = self.green.launch()
        return self.standing

    def plan(self) -> int:
        """Plan the batch that takes green from where it is to where blue is; return its number."""
        blue, green = self.blue.checkpoint("blue"), self.blue.checkpoint("green")
        done, reached = newest(blue / "commits"), newest(green / "commits")
        theirs, ours = lines(blue / f"offsets/{done}"), lines(green / f"offsets/{reached}")
        batch, log = reached + 1, json.loads(ours[2])["logOffset"]
        last = json.loads(theirs[2])["logOffset"]
        missing = sorted(files_in(blue, last) - files_in(green, log))
        assert missing, "there is something to absorb"
        entry = [json.dumps({"path": p, "timestamp": 1, "batchId": log + 1}) for p in missing]
        (green / f"sources/0/{log + 1}").write_text("\n".join(["v1", *entry]))
        ours[1] = json.dumps(
            json.loads(ours[1]) | {"batchWatermarkMs": json.loads(theirs[1])["batchWatermarkMs"]}
        )
        ours[2] = json.dumps({"logOffset": log + 1})
        (green / f"offsets/{batch}").write_text("\n".join(ours))
        return batch

    def order(self, number: int, act: OrderAct, **more: dict[str, int]) -> StandbyAnswer:
        order = StandbyOrder(
            epoch=1, number=number, act=act, at=datetime.now(UTC), by="a test", **more
        )
        self.home.give_order(order)
        found = self.standing.until(lambda: self.home.answer(1, number), f"An answer to {act}")
        answer: StandbyAnswer = found
        return answer

    def waiting(self) -> set[str]:
        """Return the queries that wait at the barrier."""
        barrier = self.home.barrier(1)
        return set() if barrier is None else {*barrier.queries}

    def query_id(self, query: str) -> str:
        """Return the id of a query of green's, as its checkpoint has it."""
        metadata = self.blue.checkpoint("green").parent / query / "metadata"
        return str(json.loads(metadata.read_text())["id"])

    def claim(self, shift: int) -> None:
        """Record green's claim as it is to be after the handover."""
        found = json.loads(self.blue.claim("green").read_text())
        claim = QueryClaim(
            query="green",
            query_id=found["query_id"],
            checkpoint=found["checkpoint"],
            epoch=1,
            batch_shift=shift,
        )
        self.home.add_claim(1, claim)

    def written(self, ledger: str = "sink") -> list[dict[str, Any]]:
        path = self.folder / ledger
        found = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in found]

    def windows(self, ledger: str = "sink") -> Counter[str]:
        found: Counter[str] = Counter()
        for batch in self.written(ledger):
            for window in batch["windows"]:
                assert window["from"] not in found, "a window is written once"
                found[window["from"]] = window["rows"]
        return found

    def blue_has_read_all(self) -> bool:
        checkpoint = self.blue.checkpoint("blue")
        done = newest(checkpoint / "commits")
        if done < 0:
            return False
        log = json.loads(lines(checkpoint / f"offsets/{done}")[2])["logOffset"]
        return len(files_in(checkpoint, log)) == self._files


def stamp(second: int) -> str:
    """Return a second of a certain day as Spark writes it."""
    return f"2026-01-01 00:{second // 60:02d}:{second % 60:02d}"


def newest(folder: Path) -> int:
    return max((int(f.name) for f in folder.glob("*") if f.name.isdigit()), default=-1)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def files_in(checkpoint: Path, log: int) -> set[str]:
    """Return the files that a file source has taken up to an entry of its log."""
    entries = (path for path in (checkpoint / "sources/0").glob("*") if path.stem.isdigit())
    read = [path for path in entries if int(path.stem) <= log]
    return {json.loads(line)["path"] for path in read for line in lines(path)[1:]}


ON_DEMAND = pytest.mark.nightly("It covers what Spark 4.3 does.")


@pytest.fixture(
    params=[
        pytest.param(("spark-4.3", "rocksdb"), id="spark-4.3-rocksdb"),
        pytest.param(("spark-3.5", "hdfs"), id="spark-3.5-hdfs", marks=ON_DEMAND),
    ]
)
def lanes(request: pytest.FixtureRequest, tmp_path: Path, package: Path) -> Iterator[Lanes]:
    spark, store = request.param
    runtime = find_runtimes().get(spark)
    if runtime is None:
        pytest.skip(f"There is no .runtimes/{spark}; run 'make setup'.")
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
    with (
        world_in(tmp_path / "blue", runtime, package) as blue,
        world_in(tmp_path / "green", runtime, package) as green,
    ):
        yield Lanes(tmp_path, blue, green, STORES[store])


@pytest.mark.nightly("Three drivers one after the other.")
def test_green_absorbs_blues_rows_and_goes_on_in_its_output(lanes: Lanes) -> None:
    for start in (0, 7, 14, 21):
        lanes.give(start, start + 3, start + 12)
    both = lanes.run_both()
    both.until(lanes.blue_has_read_all, "Reading all files")
    both.until(lambda: lanes.windows("shadow"), "A window of green's own")
    (lanes.folder / "stop-green").touch()
    both.until((lanes.folder / "green-stopped").exists, "The end of green's shadow")

    # Blue goes on while green's next driver starts: windows are emitted that green has not seen.
    lanes.give(28, 45, 33)
    lanes.give(52, 60)
    standing = lanes.stand_by()
    both_wait = {"green", "beside"}
    standing.until(lambda: lanes.waiting() == both_wait, "Both queries at the barrier")
    status = standing.until(standing.status, "A status")
    assert status.standby
    both.until(lanes.blue_has_read_all, "Reading more files")
    first = lanes.plan()
    assert lanes.order(1, OrderAct.ABSORB, absorb={"green": first}).committed == {"green": first}

    lanes.give(63, 71, 58)
    both.until(lanes.blue_has_read_all, "Reading another file")
    both.request_stop()
    assert both.ended() == 0, both.log
    second = lanes.plan()
    nowhere = lanes.order(2, OrderAct.ABSORB, absorb={"green": second, "other": 1})
    assert nowhere.committed == {"green": second}
    assert "'other' is not at the barrier" in nowhere.error
    ledger = lanes.written()
    assert standing.exit() is None
    assert lanes.order(3, OrderAct.ABSORB, absorb={"green": second + 4}).error

    next_of_sink = ledger[-1]["batch"] + 1
    shift = next_of_sink - (second + 1)
    lanes.claim(shift)
    assert lanes.order(4, OrderAct.RELEASE).error == ""
    lanes.give(80, 200)
    standing.until(lambda: len(lanes.windows()) == len(lanes.given) - 1, "All windows")
    told = standing.until(lambda: standing.query("green"), "A query in the status")
    ids = (lanes.folder / "ids").read_text().split()
    assert ids == [lanes.query_id("green"), lanes.query_id("beside")], "a stand-in is the query"
    standing.request_stop()
    assert standing.ended() == 0, standing.log

    assert lanes.windows() + Counter({stamp(200): 1}) == lanes.given
    numbers = [batch["batch"] for batch in lanes.written()]
    assert numbers == list(range(len(numbers))), "the sink's numbers go on without a gap"
    assert told.batch_shift == shift
    last, ended = standing.status(), standing.exit()
    assert last is not None
    assert ended is not None
    assert (last.standby, ended.outcome) == (False, Outcome.STOPPED)
