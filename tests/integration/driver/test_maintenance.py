"""Twenty maintenance windows on a real Spark, with kills at every step: no row is lost or doubled."""

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
from airflow_streaming.model.records.control import Maintenance, MaintenanceEnd
from airflow_streaming.model.status import HoldStatus
from tests.integration.driver.running import STREAM, World

TO_FILES = """
writer = source(20).writeStream.queryName("q").format("json").option("path", str(folder / "out"))
writer.trigger(processingTime="0 seconds").start()
held = source(5).groupBy("value").count().writeStream.queryName("counts").format("noop")
held.outputMode("update").trigger(processingTime="200 milliseconds").start()
spark.streams.awaitAnyTermination()
"""
SHORT, LONG = 4.0, 600.0


class Windows:
    """A stream whose windows are opened and closed by records, as operators do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.home = StreamHome(world.store, STREAM)
        self.driver = world.run(TO_FILES)
        self.moves()

    def open(self, longest: float = LONG) -> Maintenance:
        now = datetime.now(UTC)
        wanted = Maintenance(
            number=1, by="a test", reason="vacuum", at=now, begin_within=120.0, longest=longest
        )
        return self.home.begin_maintenance(wanted, now)

    def close(self, window: Maintenance) -> None:
        end = MaintenanceEnd(number=window.number, by="a test", reason="", at=datetime.now(UTC))
        assert self.home.end_maintenance(end)

    def held(self, window: Maintenance) -> HoldStatus:
        def found() -> HoldStatus | None:
            status = self.driver.status()
            hold = None if status is None else status.hold
            is_there = hold is not None and hold.maintenance == window.number and hold.is_held
            return hold if is_there else None

        hold: HoldStatus = self.driver.until(found, f"The hold of window {window.number}")
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


@pytest.mark.nightly("Twenty windows and five drivers.")
def test_twenty_windows_with_kills_at_every_step(world_on_each_spark: World) -> None:
    stream = Windows(world_on_each_spark)
    for turn in range(4):
        # A window as it should be.
        window = stream.open()
        stream.held(window)
        stream.is_between_batches()
        stream.stands_still()
        stream.close(window)
        stream.moves()

        # The opener dies before the stream is held, so the stream continues before anybody closes the window.
        window = stream.open(SHORT)
        stream.driver.until(later(1.0), "A second")
        stream.moves()
        stream.close(window)

        # The tasks die in the window, and the teardown comes late.
        window = stream.open(SHORT)
        stream.held(window)
        stream.moves()
        stream.close(window)

        # The driver stops for a while, and the window ends meanwhile.
        window = stream.open()
        stream.held(window)
        pid = stream.driver.python_pid()
        os.kill(pid, signal.SIGSTOP)
        stream.close(window)
        stream.driver.until(later(0.5), "Half a second")
        os.kill(pid, signal.SIGCONT)
        stream.moves()

        # The driver dies: before it holds its queries in even turns, while it holds them in odd turns.
        window = stream.open()
        if turn % 2:
            stream.held(window)
            stream.is_between_batches()
        stream.kill()
        stream.held(window)
        stream.stands_still()
        stream.close(window)
        stream.moves()

    assert [one.number for one in stream.home.maintenance_windows()] == [*range(1, 21)]
    window = stream.open()
    stream.held(window)
    stream.driver.request_stop()
    assert stream.driver.ended() == 0
    rows = rows_of(stream.world.folder / "out")
    assert sorted(rows) == [*range(len(rows))], "no row is lost"
    assert set(rows.values()) == {1}, "no row is doubled"
