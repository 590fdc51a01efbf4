"""Spark runs the stages of each query in the scheduler pool of the query."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.integration.driver.running import World
from tests.integration.home.servers import free_ports
from tests.patience import PATIENCE

TWO_QUERIES = """
def begin(rows, name, mode):
    writer = rows.writeStream.queryName(name).format("noop").outputMode(mode)
    return writer.trigger(processingTime="1 second").start()

begin(source().groupBy("value").count(), "counts", "update")
begin(source(), "rows", "append")
spark.streams.awaitAnyTermination()
"""


@pytest.mark.nightly("A driver of its own.")
def test_every_stage_of_a_query_runs_in_its_pool(world: World) -> None:
    [port] = free_ports(1)
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.scheduler.mode": "FAIR",
    }
    world.deploy(TWO_QUERIES, fair_pools=True)
    world.begin_epoch()
    submit = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    driver = world.launch(submit=submit)
    driver.has_committed(3, "counts").has_committed(3, "rows")
    status = driver.status()
    assert status is not None

    address = f"http://127.0.0.1:{port}/api/v1/applications/{status.application_id}/stages"
    with urllib.request.urlopen(address, timeout=PATIENCE) as reply:
        stages = json.loads(reply.read())

    # The description of a batch's jobs begins with the query's name.
    ran = {
        (one["description"].partition("<br/>")[0].split()[0], one["schedulingPool"])
        for one in stages
    }
    assert ran == {("counts", "counts"), ("rows", "rows")}
    assert len(stages) >= 9
