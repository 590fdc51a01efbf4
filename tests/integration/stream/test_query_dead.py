"""One query of two dies in a driver that lives: found within one heartbeat and one poll."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from airflow_streaming.core.failures.kind import FailureKind
from airflow_streaming.core.health import judge
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.observe.stream import Observer
from airflow_streaming.spec import HealthRules
from tests.integration.stream.conftest import RealStream, first_event, until

HEARTBEAT = 10.0
"""Seconds; 2 on an idle machine, at most 10 under load."""

POLL = 5.0

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


def known_dead(real: RealStream) -> float:
    """Look as often as a trigger does; return when the verdict spoke of the dead query."""
    observer = Observer(real.home, LocalLauncher(), rules=HealthRules())
    for _ in range(24):
        seen = observer.situation().seen
        assert seen is not None
        verdict = judge(seen, HealthRules())
        if verdict.has_ended or verdict.query == "sick":
            return time.time()
        time.sleep(POLL)
    raise AssertionError("The verdict never spoke of the dead query.")


async def test_a_dead_query_in_a_live_driver_is_found_and_the_stream_comes_back(
    real: RealStream, tmp_path: Path
) -> None:
    real.script.write_text(SCRIPT)
    operator = real.operator(application_args=[str(tmp_path)])
    trigger = real.run(operator)
    until(lambda: real.batches(1) >= 6, "some batches of both queries")

    (tmp_path / "fail").touch()
    event, found_at = await asyncio.gather(
        first_event(trigger), asyncio.to_thread(known_dead, real)
    )

    assert found_at - float((tmp_path / "failed_at").read_text()) <= HEARTBEAT + POLL
    assert event["action"] == "settle"
    assert "told to fail" in event["reason"]
    (tmp_path / "fail").unlink()
    real.wake(trigger, operator, **event)
    decision = real.home.restart_decision(1)
    assert decision is not None
    assert (decision.failure_kind, decision.query) == (FailureKind.USER_CODE, "sick")
    until(lambda: real.batches(2) >= 4, "batches of the next driver")
