"""The example for a cluster, run by a real Airflow in cluster mode on a real standalone master."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from airflow_streaming.model.records.epoch import LaunchCause
from demo.stage import Stage
from demo.story import launch
from demo.waiting import Progress, wait_for
from tests.integration.servers.standalone import processes_with, standalone_cluster

NAME: Final = "on_a_cluster"
METRICS: Final = "http://127.0.0.1:9464/metrics"

pytestmark = pytest.mark.nightly("A whole Airflow and a cluster for some five minutes.")


def test_the_example_runs_on_the_cluster_is_killed_and_comes_back(
    tmp_path: Path, spark_4_3: Path
) -> None:
    say, servers = Progress(), tmp_path / "cluster"
    servers.mkdir()
    with standalone_cluster(spark_4_3, servers) as cluster:
        connections = {
            "SPARK_CLUSTER": cluster.connection(),
            # A folder that both sides reach needs no credentials.
            "STREAMS_HOME": {"conn_type": "stream_home"},
        }
        environment = {f"AIRFLOW_CONN_{key}": json.dumps(one) for key, one in connections.items()}
        folder = tmp_path / "demo"
        environment["AIRFLOW_VAR_CLUSTER_HOME"] = str(folder / "streams")
        stage = Stage(folder, runtime=spark_4_3, say=say, stream=NAME, environment=environment)
        with stage:
            took = launch(stage, say, NAME)
            say(f"Launched on the cluster, first batch after {took:.0f} s: {sinks(stage)}")
            say(f"{metrics()} lines of metrics")
            kill(stage)

            def is_back() -> bool:
                epoch = stage.stream.epoch
                return epoch is not None and epoch.number > 1 and stage.stream.is_well()

            took = wait_for(is_back, what="the next driver", say=say, failing=stage.stream.failure)
            say(f"Back after {took:.0f} s")
            epoch = stage.stream.epoch
            assert epoch is not None
            assert epoch.cause is LaunchCause.RESTART
            for dag, given in (
                (f"{NAME}_backup", {}),
                ("stream_switch", {"stream": NAME, "action": "stop"}),
            ):
                run = stage.airflow.trigger(dag, **given)
                assert stage.airflow.await_run(dag, run, say) == "success"
            assert stage.stream.is_gone()

    assert stage.drivers.most == 1
    assert stage.leftovers() == []


def kill(stage: Stage) -> None:
    """Kill every process of the newest driver."""
    epoch = stage.stream.epoch
    assert epoch is not None
    found = processes_with("org.apache.spark.deploy.SparkSubmit", epoch.mark)
    assert found
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def sinks(stage: Stage) -> list[tuple[Any, ...]]:
    """Return what has become of the progress reports."""
    status = stage.stream.status
    return (
        [(one.sink, one.sent, one.dropped, one.trouble) for one in status.sinks] if status else []
    )


def metrics() -> int:
    """Return how many lines the driver shows to Prometheus, 0 where it shows none."""
    with contextlib.suppress(OSError), urllib.request.urlopen(METRICS, timeout=10) as answer:
        return len(answer.read().splitlines())
    return 0
