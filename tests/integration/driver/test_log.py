"""The log of a driver of which every process floods it: by log4j, by prints and by Python workers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.model.names import older_part
from airflow_streaming.model.spark.conf import LOG_BYTES
from tests.integration.driver.running import World
from tests.patience import until

MOST: Final = 4_000_000
"""Bytes of a log with its older part."""
LINES: Final = 3_000
"""Lines of the driver, and as many of the JVM."""
LINE: Final = 10_000
"""Bytes of a line."""
FLOOD: Final = f"""
from threading import Thread
from pyspark.sql.functions import udf

line = "x" * {LINE}

@udf("long")
def noisy(value):
    import sys
    for number in range(20):
        print("WORKER", number, line, file=sys.stderr, flush=True)
    return value

def by_driver():
    for number in range({LINES}):
        print("DRIVER", number, line, flush=True)
        time.sleep(0.002)

def by_jvm():
    for number in range({LINES}):
        jvm.error(f"JVM {{number}} {{line}}")
        time.sleep(0.002)

jvm = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("flood")
query = (source().select(noisy("value").alias("value")).writeStream.queryName("q")
         .format("noop").trigger(processingTime="500 milliseconds").start())
threads = [Thread(target=flood) for flood in (by_driver, by_jvm)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
batch = query.lastProgress["batchId"]
while query.lastProgress["batchId"] < batch + 2:
    time.sleep(0.1)
query.stop()
jvm.error("JVM at last")
print("DRIVER at last", flush=True)
raise RuntimeError("The flood is over.")
"""


def size_of(log: Path) -> int:
    """Return the bytes of a log with all its parts."""
    return sum(part.stat().st_size for part in log.parent.glob(f"{log.name}*"))


@pytest.mark.nightly("Two drivers that write 60 MB each.")
@pytest.mark.parametrize("mode", ["ab", "wb"], ids=["appended", "written, as on YARN"])
def test_a_flood_by_each_process_of_a_driver_keeps_its_bound_and_its_last_lines(
    world: World, mode: str
) -> None:
    world.deploy(FLOOD)
    world.begin_epoch()
    driver = world.launch(1, env={LOG_BYTES: f"{MOST}"}, mode=mode)
    log, sizes = driver.log_file, [0]

    def has_ended() -> bool:
        sizes.append(size_of(log))
        return driver.process.poll() is not None

    until(has_ended, "the end of the flood", seen=lambda: f"{sizes[-1]} bytes")
    assert driver.process.returncode != 0

    # A log grows past its half for as long as the driver's next look takes.
    assert MOST / 2 < max(sizes) < LINES * LINE
    assert size_of(log) < 2 * MOST
    end = log.with_name(older_part(log.name)).read_text(errors="replace") + driver.log
    last = ("WORKER", "DRIVER at last", "JVM at last", "The flood is over.")
    assert [line for line in last if line not in end] == []
    assert "\0" not in end
    ended = driver.exit()
    assert ended is not None
    assert "The flood is over." in ended.reason
