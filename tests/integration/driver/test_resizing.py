"""A driver on a standalone cluster gets more and fewer executors while its query runs; no row is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.model.status import Resizing
from tests.integration.driver.resized import MOST, Load, ResizedStream
from tests.integration.driver.running import World
from tests.integration.servers.standalone import standalone_cluster


@pytest.mark.nightly("It takes three minutes for each Spark.")
@pytest.mark.parametrize("decommission", ["false", "true"])
def test_executors_come_and_go_without_a_restart(
    world_on_each_spark: World, tmp_path: Path, decommission: str
) -> None:
    world = world_on_each_spark
    folder = tmp_path / "cluster"
    folder.mkdir()
    conf = {"spark.decommission.enabled": decommission}
    with (
        standalone_cluster(world.runtime, folder) as cluster,
        Load(world.folder / "input", 100.0) as load,
    ):
        stream = ResizedStream(world, cluster, conf)
        driver = stream.launch(2)
        stream.moves()
        driver.until(lambda: stream.alive() == 2, "The size at the start")

        for executors in (4, 1, 3, 2):
            end = stream.resize(executors)
            assert (end.result, end.executors) == (Resizing.IN_PLACE, executors), end.reason
            driver.until(lambda wanted=executors: stream.alive() == wanted, "The executors")
            stream.moves()
        status = driver.status()
        assert status is not None
        assert status.executors is not None
        assert (status.executors.wanted, status.executors.lost_last_hour) == (2, 0)

        refused = stream.resize(MOST + 1)
        assert refused.result is Resizing.REFUSED
        assert "spark.cores.max" in refused.reason

        # The driver dies in the middle of a change; the next one has the size from its start.
        stream.ask(4)
        driver.kill()
        driver = stream.launch(4)
        stream.moves()
        driver.until(lambda: stream.alive() == 4, "The size of the next driver")
        assert stream.home.size_end(6) is None, "nobody answers a change of a dead driver"

        stream.reads_all(load)
        driver.request_stop()
        assert driver.ended() == 0
        rows = stream.rows()
    assert sorted(rows) == [*range(load.written)], "no row is lost"
    assert set(rows.values()) == {1}, "no row is doubled"
