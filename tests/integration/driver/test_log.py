"""The log of a driver of which every process writes without an end, by log4j, prints and Python workers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.model.names import older_part
from airflow_streaming.model.spark.conf import LOG_BYTES
from tests.integration.driver.running import World

MOST: Final = 4_000_000
"""Bytes of a log with its older part."""
FLOOD: Final = """
from threading import Thread
from pyspark.sql.functions import udf

line = "x" * 10_000

@udf("long")
def noisy(value):
    import sys
    for number in range(200):
        print("WORKER", number, line, file=sys.stderr, flush=True)
    return value

def by_driver():
    while not over.is_set():
        print("DRIVER", line, flush=True)

def by_jvm():
    log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("flood")
    while not over.is_set():
        log.error("JVM " + line)

over = threading.Event()
query = (source().select(noisy("value").alias("value")).writeStream.queryName("q")
         .format("noop").start())
threads = [Thread(target=flood) for flood in (by_driver, by_jvm)]
for thread in threads:
    thread.start()
while not (folder / "enough").exists():
    time.sleep(0.1)
over.set()
for thread in threads:
    thread.join()
query.stop()
raise RuntimeError("The flood is over.")
"""


def size_of(log: Path) -> int:
    """Bytes of a log with all its parts."""
    return sum(part.stat().st_size for part in log.parent.glob(f"{log.name}*"))


@pytest.mark.nightly("A driver that writes until its log was full ten times.")
def test_a_flood_by_each_process_of_a_driver_keeps_its_bound_and_its_last_lines(
    world: World,
) -> None:
    driver = world.run(FLOOD, env={LOG_BYTES: f"{MOST}"})
    log = driver.log_file
    older = log.with_name(older_part(log.name))
    driver.has_committed(1)
    fulls, largest = set(), 0

    def is_often_full() -> bool:
        nonlocal largest
        largest = max(largest, size_of(log))
        if older.exists():
            fulls.add(older.stat().st_ino)
        return len(fulls) >= 10

    driver.until(is_often_full, "a log that was full ten times")
    (world.folder / "enough").touch()
    assert driver.ended() != 0

    # A log grows past its half for as long as the driver's next look takes.
    assert largest < 3 * MOST
    end = older.read_text(errors="replace") + driver.log
    assert [writer for writer in ("WORKER", "DRIVER", "JVM") if writer not in end] == []
    assert "The flood is over." in driver.log
    ended = driver.exit()
    assert ended is not None
    assert "The flood is over." in ended.reason
