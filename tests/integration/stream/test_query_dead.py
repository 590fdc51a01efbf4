"""One query of two dies in a driver that lives: found within one heartbeat and one poll."""

from __future__ import annotations

import time
from pathlib import Path

from airflow_streaming.core.failures.kind import FailureKind
from tests.integration.stream.conftest import RealStream, first_event, until

HEARTBEAT = 10.0
"""Seconds; 2 on an idle machine, at most 10 under load."""

POLL = 5.0
ENDING = 10.0
"""Seconds that the driver may take to bring the other query to a batch boundary and to end."""

SCRIPT = """
import pathlib, sys, time
from pyspark.sql import SparkSession

folder = pathlib.Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()


def fail_when_told(rows, batch):
    rows.count()
    if (folder / "fail").exists():
        (folder / "failed_at").write_text(str(time.time()))
        raise RuntimeError("told to fail")


def rows():
    return spark.readStream.format("rate").option("rowsPerSecond", 5).load()


for name, work in (("sound", lambda rows, _: rows.count()), ("sick", fail_when_told)):
    query = rows().writeStream.queryName(name).foreachBatch(work)
    query.trigger(processingTime="500 milliseconds").start()
"""


async def test_a_dead_query_in_a_live_driver_is_found_and_the_stream_comes_back(
    real: RealStream, tmp_path: Path
) -> None:
    real.script.write_text(SCRIPT)
    operator = real.operator(application_args=[str(tmp_path)])
    trigger = real.run(operator)
    until(lambda: real.batches(1) >= 6, "some batches of both queries")

    (tmp_path / "fail").touch()
    event = await first_event(trigger)
    found_at = time.time()

    seconds = found_at - float((tmp_path / "failed_at").read_text())
    assert event["action"] == "settle"
    assert "told to fail" in event["reason"]
    assert seconds <= HEARTBEAT + POLL + ENDING
    print(f"a dead query was found {seconds:.1f} s after it had failed")  # noqa: T201 - for -s
    (tmp_path / "fail").unlink()
    real.wake(trigger, operator, **event)
    decision = real.home.restart_decision(1)
    assert decision is not None
    assert (decision.failure_kind, decision.query) == (FailureKind.USER_CODE, "sick")
    until(lambda: real.batches(2) >= 4, "batches of the next driver")
