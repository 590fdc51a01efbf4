"""One query of two dies in a driver that lives: the first status that tells it is a verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path

from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.supervision.health import judge
from airflow_streaming.supervision.observer import Observer
from tests.integration.stream.conftest import RealStream, first_event

SCRIPT = """
import pathlib, sys
from pyspark.sql import SparkSession

folder = pathlib.Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()


def fail_when_told(rows, batch):
    rows.count()
    if (folder / "fail").exists():
        raise RuntimeError("told to fail")


def rows():
    return spark.readStream.format("rate").option("rowsPerSecond", 5).load()


for name, work in (("sound", lambda rows, _: rows.count()), ("sick", fail_when_told)):
    query = rows().writeStream.queryName(name).foreachBatch(work)
    query.trigger(processingTime="500 milliseconds").start()
"""


def watch_until_dead(real: RealStream) -> None:
    """Look until the verdict speaks of the dead query; no status may have told of it before."""
    observer = Observer(real.home, LocalLauncher(), rules=HealthRules())

    def is_known_dead() -> bool:
        seen = observer.situation().seen
        assert seen is not None
        verdict = judge(seen, HealthRules())
        if verdict.has_ended or verdict.query == "sick":
            return True
        queries = seen.status.queries if seen.status is not None else ()
        assert all(query.active for query in queries), verdict
        return False

    real.until(is_known_dead, "A verdict on the dead query")


async def test_a_dead_query_in_a_live_driver_is_found_and_the_stream_comes_back(
    real: RealStream, tmp_path: Path
) -> None:
    real.script.write_text(SCRIPT)
    operator = real.operator(application_args=[str(tmp_path)])
    trigger = real.run(operator)
    real.until(lambda: real.batches(1) >= 6, "some batches of both queries")

    (tmp_path / "fail").touch()
    event, _ = await asyncio.gather(first_event(trigger), asyncio.to_thread(watch_until_dead, real))

    assert event["action"] == "settle"
    assert "told to fail" in event["reason"]
    (tmp_path / "fail").unlink()
    real.wake(trigger, operator, **event)
    decision = real.home.restart_decision(1)
    assert decision is not None
    assert (decision.failure_kind, decision.query) == (FailureKind.USER_CODE, "sick")
    real.until(lambda: real.batches(2) >= 4, "batches of the next driver")
