"""A standalone Spark cluster on the loopback address: one master with its REST server, one worker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil

from airflow_streaming.launch.clusters.rest import Unreachable, ask
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.runtime import find_pyspark, resolve_runtime
from tests.integration.home.servers import free_ports
from tests.patience import tail, until


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """
    :param rest_port: Of the master's submission server.
    :param ui_port: Of the master's pages.
    :param work: Folder of the worker: logs of drivers and executors.
    """

    port: int
    rest_port: int
    ui_port: int
    work: Path

    def connection(self, mode: str = "cluster") -> dict[str, Any]:
        """Return an Airflow connection for a deploy mode."""
        ports = {"rest-port": self.rest_port, "webui-port": self.ui_port}
        return {
            "conn_type": "spark",
            "host": "spark://127.0.0.1",
            "port": self.port,
            "extra": {"deploy-mode": mode, **ports},
        }

    def logs(self) -> str:
        """Return the ends of the drivers' logs, for a failure."""
        found = sorted(self.work.glob("driver-*/std*"))
        return "\n".join(f"{log}:\n{tail(log)}" for log in found[-4:])


def processes_with(*texts: str) -> list[psutil.Process]:
    """Return the processes of this user that have all the texts on their command lines."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if all(text in line for text in texts):
                found.append(process)
    return found


@contextlib.contextmanager
def standalone_cluster(runtime: Path, folder: Path) -> Iterator[Cluster]:
    """Run a cluster until the end of the block; its JVMs map the runtime's class data archive, if any."""
    home = find_pyspark(runtime)
    assert home is not None
    port, rest_port, ui_port = free_ports(3)
    cluster = Cluster(port=port, rest_port=rest_port, ui_port=ui_port, work=folder / "work")
    environment = {
        **driver_environment({}, resolve_runtime("spark", {"spark": str(runtime)}), {}),
        "PATH": os.environ["PATH"],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(cluster.work),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("ab") as log:
            started.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *arguments],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    deploy, loopback = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port")
    try:
        start(
            "master",
            "-Dspark.master.rest.enabled=true",
            f"-Dspark.master.rest.port={cluster.rest_port}",
            *(f"{deploy}.master.Master", *loopback, str(ui_port), "--port", str(cluster.port)),
        )
        address = f"spark://127.0.0.1:{cluster.port}"
        # More cores than the machine has: one for the driver and some executors.
        worker = ("--cores", "6", "--memory", "6g", address)
        start("worker", f"{deploy}.worker.Worker", *loopback, "0", *worker)
        until(
            lambda: _is_ready(cluster, folder),
            "The standalone cluster",
            seen=lambda: tail(folder / "master.log") + tail(folder / "worker.log"),
        )
        yield cluster
    finally:
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_ready(cluster: Cluster, folder: Path) -> bool:
    try:
        answer = ask(f"http://127.0.0.1:{cluster.rest_port}/v1/submissions/readyz")
    except Unreachable:
        return False
    has_registered = "Successfully registered" in (folder / "worker.log").read_text()
    # Spark 3.5 has no such address, and a later master refuses until it has recovered.
    return answer.status != HTTPStatus.SERVICE_UNAVAILABLE and has_registered
