"""Twenty pauses between batches on a real Spark, with kills at every step: no row is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import BatchPause, BatchPauseEnd
from airflow_streaming.model.status import PauseStatus
from tests.integration.driver.running import STREAM, World

TO_FILES = """
writer = source(20).writeStream.queryName("q").format("json").option("path", str(folder / "out"))
writer.trigger(processingTime="0 seconds").start()
held = source(5).groupBy("value").count().writeStream.queryName("counts").format("noop")
held.outputMode("update").trigger(processingTime="200 milliseconds").start()
spark.streams.awaitAnyTermination()
"""
SHORT, LONG = 4.0, 600.0


class Pauses:
    """A stream whose pauses are opened and closed by records, as operators do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.home = StreamHome(world.store, STREAM)
        self.driver = world.run(TO_FILES)
        self.moves()

    def open(self, longest: float = LONG) -> BatchPause:
        now = datetime.now(UTC)
        wanted = BatchPause(
            number=1, by="a test", reason="vacuum", at=now, begin_within=120.0, longest=longest
        )
        return self.home.begin_pause(wanted, now)

    def close(self, pause: BatchPause) -> None:
        end = BatchPauseEnd(number=pause.number, by="a test", reason="", at=datetime.now(UTC))
        assert self.home.end_pause(end)

    def held(self, pause: BatchPause) -> PauseStatus:
        def found() -> PauseStatus | None:
            status = self.driver.status()
            hold = None if status is None else status.pause
            is_there = hold is not None and hold.number == pause.number and hold.is_held
            return hold if is_there else None

        hold: PauseStatus = self.driver.until(found, f"The hold of pause {pause.number}")
        return hold

    def moves(self) -> None:
        """Wait until both queries commit two more batches."""
        for query in ("q", "counts"):
            before = self.committed(query)
            self.driver.until(
                lambda query=query, before=before: self.committed(query) >= before + 2,
                f"The next batches of {query}",
            )

    def committed(self, query: str) -> int:
        return newest(self.world.checkpoint(query) / "commits")

    def is_between_batches(self) -> None:
        """Check that every planned batch is committed."""
        for query in ("q", "counts"):
            checkpoint = self.world.checkpoint(query)
            assert newest(checkpoint / "offsets") == newest(checkpoint / "commits")

    def stands_still(self) -> None:
        """Check that nothing is written in two seconds."""
        before = self._written()
        self.driver.until(later(2.0), "Two seconds")
        assert self._written() == before

    def _written(self) -> dict[str, int]:
        logs = [(query, log) for query in ("q", "counts") for log in ("offsets", "commits")]
        found = {f"{q}/{log}": newest(self.world.checkpoint(q) / log) for q, log in logs}
        return {**found, "rows": len(list((self.world.folder / "out").glob("*.json")))}

    def kill(self) -> None:
        """Kill the driver, and start the next epoch as a keep-alive task does."""
        self.driver.kill()
        number = self.driver.epoch + 1
        self.world.begin_epoch(number)
        self.driver = self.world.launch(number)


def newest(log: Path) -> int:
    return max((int(one.name) for one in log.glob("[0-9]*") if one.name.isdigit()), default=-1)


def later(seconds: float) -> Callable[[], bool]:
    due = time.monotonic() + seconds
    return lambda: time.monotonic() >= due


def rows_of(sink: Path) -> Counter[int]:
    """Return how often each value is in the files that the sink's log names."""
    logs = {
        int(one.name.partition(".")[0]): one for one in (sink / "_spark_metadata").glob("[0-9]*")
    }
    since = max((number for number, log in logs.items() if log.suffix == ".compact"), default=-1)
    files = {
        json.loads(line)["path"]
        for number, log in logs.items()
        if number >= since
        for line in log.read_text().splitlines()[1:]
    }
    found: Counter[int] = Counter()
    for file in files:
        text = (sink / file.rpartition("/")[2]).read_text()
        found.update(json.loads(line)["value"] for line in text.splitlines())
    return found


@pytest.mark.nightly("Twenty pauses and five drivers.")
def test_twenty_pauses_with_kills_at_every_step(world_on_each_spark: World) -> None:
    stream = Pauses(world_on_each_spark)
    for turn in range(4):
        # A pause as it should be.
        pause = stream.open()
        stream.held(pause)
        stream.is_between_batches()
        stream.stands_still()
        stream.close(pause)
        stream.moves()

        # The opener dies before the stream is held, so the stream continues before anybody closes the pause.
        pause = stream.open(SHORT)
        stream.driver.until(later(1.0), "A second")
        stream.moves()
        stream.close(pause)

        # The tasks die in the pause, and the teardown comes late.
        pause = stream.open(SHORT)
        stream.held(pause)
        stream.moves()
        stream.close(pause)

        # The driver stops for a while, and the pause ends meanwhile.
        pause = stream.open()
        stream.held(pause)
        pid = stream.driver.python_pid()
        os.kill(pid, signal.SIGSTOP)
        stream.close(pause)
        stream.driver.until(later(0.5), "Half a second")
        os.kill(pid, signal.SIGCONT)
        stream.moves()

        # The driver dies: before it holds its queries in even turns, while it holds them in odd turns.
        pause = stream.open()
        if turn % 2:
            stream.held(pause)
            stream.is_between_batches()
        stream.kill()
        stream.held(pause)
        stream.stands_still()
        stream.close(pause)
        stream.moves()

    assert [one.number for one in stream.home.batch_pauses()] == [*range(1, 21)]
    pause = stream.open()
    stream.held(pause)
    stream.driver.request_stop()
    assert stream.driver.ended() == 0
    rows = rows_of(stream.world.folder / "out")
    assert sorted(rows) == [*range(len(rows))], "no row is lost"
    assert set(rows.values()) == {1}, "no row is doubled"
