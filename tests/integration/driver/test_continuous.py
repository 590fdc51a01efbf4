"""A continuous query, of which Spark reports no progress: it is counted, continues after a kill, and stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.model.records.epoch import Outcome
from tests.integration.driver.running import World

CONTINUOUS: Final = """
rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = (rate.writeStream.queryName("q").format("noop")
         .trigger(continuous="1 second").start())
query.awaitTermination()
"""


def commits(checkpoint: Path) -> list[int]:
    """Return the epochs of Spark that a checkpoint has committed."""
    return sorted(
        int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()
    )


def read_until(checkpoint: Path, epoch: int) -> int:
    """Return the least value of a partition in the offsets of an epoch."""
    lines = (checkpoint / "offsets" / f"{epoch}").read_text().splitlines()
    places: dict[str, dict[str, int]] = json.loads(lines[-1])
    return min(place["value"] for place in places.values())


@pytest.mark.nightly("Two drivers.")
def test_a_continuous_query_is_counted_continues_after_a_kill_and_stops(world: World) -> None:
    world.run(CONTINUOUS).has_committed(2).kill()
    last = commits(world.checkpoint())[-1]
    value = read_until(world.checkpoint(), last)

    world.begin_epoch(2)
    driver = world.launch(2).has_committed(2)
    driver.request_stop()
    assert driver.ended() == 0, driver.log

    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    newest = commits(world.checkpoint())[-1]
    assert newest > last
    assert read_until(world.checkpoint(), newest) > value
    assert inspect(str(world.checkpoint())).is_sound
