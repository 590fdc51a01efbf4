"""
Many streams whose drivers are pods of a real API server: bodies of the size that Spark's have, all running.

No kubelet runs them. The benchmark creates the pods as the administrator and writes their status; the home is
that of ``many_streams``, and so are the heartbeats.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from airflow_streaming.launch.clusters.kubernetes import launched
from airflow_streaming.launch.clusters.kubernetes_api import Namespace
from airflow_streaming.launch.clusters.pods import labels_of, pod_name
from airflow_streaming.launch.clusters.rest import Answer
from airflow_streaming.model.records.epoch import Epoch, Host
from benchmarks.many_streams import Carrier, beating, make_epoch, record_stream
from tests.integration.servers.kubernetes import ApiServer, api_server

AT_ONCE: Final = 8
ENVIRONMENT: Final = 12
"""Variables of a container, each from the pod's Secret."""
VOLUMES: Final = ("spark-local-dir-1", "spark-conf-volume-driver", "airflow-streaming")
ARGUMENTS: Final = ("--home", "s3://bucket/streams", "--stream", "orders", "--epoch", "1")


@contextlib.contextmanager
def laid_out_as_pods(folder: Path, count: int) -> Iterator[Path]:
    """Lay out a home with this many streams whose drivers' pods run and beat; yield the home."""
    home = folder / "home"
    with api_server(folder) as server:
        config = folder / "kubeconfig"
        config.write_text(server.credentials("airflow").kubeconfig())
        os.environ["KUBECONFIG"] = str(config)
        carrier = Carrier(
            launcher="kubernetes", host=Host(name=str(server.place())), handle={}, name="", log=""
        )
        epochs = [make_epoch(number, uuid.uuid4().hex, carrier) for number in range(count)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda epoch: _place(server, home, epoch), epochs))
        with beating(home, count):
            yield home


def _place(server: ApiServer, home: Path, epoch: Epoch) -> None:
    """Create the pod of an epoch's driver, let it run, and record its launch."""
    admin = server.namespace()
    pod = dict(_asked(admin, "POST", "pods", pod_of(epoch)).body)
    status = {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [_container_status()]}
    _asked(
        *(admin, "PATCH", f"pods/{pod_name(epoch)}/status", {"status": status}),
        content="application/merge-patch+json",
    )
    launch = launched(epoch, pod)
    carrier = Carrier(
        launcher=epoch.launcher,
        host=epoch.host,
        handle=launch.handle,
        name=launch.driver,
        log=launch.log,
    )
    record_stream(home, epoch, carrier)


def _asked(
    namespace: Namespace, method: str, path: str, body: Any, content: str = "application/json"
) -> Answer:
    answer = namespace.ask(method, path, body, content=content)
    if not answer.is_success:
        raise RuntimeError(f"{method} {path}: {answer.status} {answer.text('message')}")
    return answer


def pod_of(epoch: Epoch) -> dict[str, Any]:
    """Return a driver's pod as Spark 4.3 submits it."""
    name = pod_name(epoch)
    secret = {"secretKeyRef": {"name": name, "key": "env.MY_API"}}
    resources = {"cpu": "1", "memory": "1408Mi"}
    container = {
        "name": "spark-kubernetes-driver",
        "image": "registry.example.org/spark:4.3.0",
        "args": ["driver", "--properties-file", "/opt/spark/conf/spark.properties", *ARGUMENTS],
        "env": [
            {"name": "SPARK_DRIVER_BIND_ADDRESS", "value": "10.0.0.7"},
            *({"name": f"SETTING_{n}", "valueFrom": secret} for n in range(ENVIRONMENT)),
        ],
        "ports": [
            {"name": port, "containerPort": number, "protocol": "TCP"}
            for port, number in (
                ("driver-rpc-port", 7078),
                ("blockmanager", 7079),
                ("spark-ui", 4040),
            )
        ],
        "resources": {"limits": {"memory": "1408Mi"}, "requests": resources},
        "volumeMounts": [{"name": one, "mountPath": f"/var/{one}"} for one in VOLUMES],
    }
    return {
        "metadata": {
            "name": name,
            "labels": {
                **labels_of(epoch),
                "spark-role": "driver",
                "spark-app-selector": f"spark-{epoch.token}",
                "spark-app-name": epoch.stream,
                "spark-version": "4.3.0",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "spark",
            "securityContext": {"runAsUser": 185, "fsGroup": 185},
            "containers": [container],
            "volumes": [{"name": one, "emptyDir": {}} for one in VOLUMES],
        },
    }


def _container_status() -> dict[str, Any]:
    return {
        "name": "spark-kubernetes-driver",
        "image": "registry.example.org/spark:4.3.0",
        "imageID": f"registry.example.org/spark@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
