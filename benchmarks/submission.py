"""
What does it cost a worker to submit a driver to Kubernetes?

From ``execute()`` to the deferral, each time in a fresh interpreter, against a real API server: by
``spark-submit``, and as a resource of either Spark operator. Beside it stands the Spark provider's hook, told not to
wait for the application (``track_driver_via_k8s_api``). CPU is what the interpreter and all its children used, user
and system. No kubelet runs the pods. Needs an API server to start, as the tests have one.

    python -m benchmarks.submission --each 5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_streaming.launch.runtime import resolve_runtime
from benchmarks.figures import machine, table
from benchmarks.one_launch import HOOK_IMAGE, Cost, measured
from demo.stage import REPOSITORY
from demo.waiting import Progress, Say
from tests.integration.servers.kubernetes import NAMESPACE, ApiServer, api_server
from tests.integration.servers.operators import install

HOOK: Final = "hook"
SPARK_SUBMIT: Final = "spark-submit"
WAYS: Final[Mapping[str, str]] = {
    HOOK: "SparkSubmitHook, not waiting",
    SPARK_SUBMIT: "this provider, spark-submit",
    "apache": "this provider, Apache's operator",
    "kubeflow": "this provider, Kubeflow's operator",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--each", type=int, default=5, help="submissions of each way, in turns")
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-bench-") as made:
        folder = Path(made).resolve()
        with api_server(folder) as server:
            install(server)
            costs = measure(server, folder, args.runtime.absolute(), args.each, Progress())
    print(f"\n{machine()}\n\nOne submission, each in a fresh interpreter: median (most)")
    rows = [
        [
            WAYS[way],
            str(len(of_way)),
            *(
                f"{statistics.median(values):.2f} ({max(values):.2f})"
                for values in ([one.seconds for one in of_way], [one.cpu for one in of_way])
            ),
        ]
        for way, of_way in costs.items()
    ]
    print(table(["", "n", "seconds", "CPU seconds"], rows))
    return 0


def measure(
    server: ApiServer, folder: Path, path: Path, each: int, say: Say
) -> Mapping[str, list[Cost]]:
    """Return what each way's submissions cost; the ways take turns, so that all meet the same machine."""
    (folder / "home").mkdir()
    (folder / "script.py").write_text("raise SystemExit\n")
    config = folder / "kubeconfig"
    config.write_text(server.credentials("airflow", by_front=True).kubeconfig())
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for turn in range(1, each + 1):
        for way, of_way in costs.items():
            environment = environment_of(way, server, folder, path)
            what = ["submit_pod", str(folder)]
            if way != HOOK:
                what = ["execute", str(folder), f"{way}-{turn}"]
            of_way.append(measured(*what, environment=environment))
            say(f"{WAYS[way]}, {turn} of {each}: {of_way[-1].seconds:.2f} s")
    return costs


def environment_of(way: str, server: ApiServer, folder: Path, path: Path) -> Mapping[str, str]:
    """Return the environment of a worker whose Spark connection submits that way."""
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(path)})
    extra = {"deploy-mode": "cluster", "namespace": NAMESPACE}
    if way not in (HOOK, SPARK_SUBMIT):
        extra["spark-operator"] = way
    connection = {"conn_type": "spark", "host": f"k8s://{server.front}", "extra": extra}
    return {
        **os.environ,
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__STREAMING__RUNTIMES": json.dumps(
            {"spark-4.3": {"path": str(path), "image": HOOK_IMAGE}}
        ),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PATH": f"{runtime.spark_home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": str(runtime.spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(runtime.python),
    }


if __name__ == "__main__":
    sys.exit(main())
