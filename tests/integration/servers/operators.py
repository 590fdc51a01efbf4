"""
The Spark operators' resources on an API server, and the controller that the tests play.

The definitions have the fields that the launchers write, with the types of the operators' own, and
nothing else: the API server drops what is not defined, so a test sees a field that is misspelled.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.clusters.spark_operators import APACHE, KUBEFLOW, OPERATORS
from tests.integration.servers.kubernetes import ApiServer
from tests.patience import PATIENCE

TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "array", "items": TEXT}
NUMBER: Final = {"type": "integer"}
CONF: Final = {"type": "object", "additionalProperties": TEXT}
ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def one_of(*values: str) -> dict[str, Any]:
    return {**TEXT, "enum": list(values)}


def fields(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    found = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


SPECS: Final = {
    APACHE: fields(
        ("runtimeVersions",),
        pyFiles=TEXT,
        driverArgs=TEXTS,
        sparkConf=CONF,
        runtimeVersions=fields(("sparkVersion",), sparkVersion=TEXT),
        applicationTolerations=fields(
            restartConfig=fields(
                restartPolicy=one_of("Always", "Never", "OnFailure", "OnInfrastructureFailure")
            ),
            resourceRetainPolicy=one_of("Always", "Never", "OnFailure"),
            ttlAfterStopMillis=NUMBER,
            instanceConfig=fields(initExecutors=NUMBER, minExecutors=NUMBER),
        ),
    ),
    KUBEFLOW: fields(
        ("type", "sparkVersion", "mainApplicationFile", "driver", "executor"),
        type=one_of("Java", "Python", "Scala", "R"),
        pythonVersion=one_of("2", "3"),
        mode=one_of("cluster", "client"),
        sparkVersion=TEXT,
        image=TEXT,
        mainApplicationFile=TEXT,
        arguments=TEXTS,
        sparkConf=CONF,
        deps=fields(pyFiles=TEXTS),
        driver=fields(podName=TEXT),
        executor=fields(),
        restartPolicy=fields(type=one_of("Never", "Always", "OnFailure")),
        timeToLiveSeconds=NUMBER,
    ),
}


def install(server: ApiServer) -> None:
    """Define the resources of both operators."""
    for kind, spec in SPECS.items():
        group, version = OPERATORS[kind].api.removeprefix("apis/").split("/")
        names = {"plural": "sparkapplications", "singular": "sparkapplication"}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"sparkapplications.{group}",
                # The API server asks for it in groups of its own name.
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {**names, "kind": "SparkApplication", "listKind": "SparkApplicationList"},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": fields(spec=spec, status=ANYTHING)},
                    }
                ],
            },
        }
        server.apply("apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)


RUNNING: Final = {APACHE: "RunningHealthy", KUBEFLOW: "RUNNING"}
FAILED: Final = {APACHE: "Failed", KUBEFLOW: "FAILED"}


class PlayedOperator:
    """
    Plays an operator: makes the pod of a resource once, and writes what it sees into its status.

    :param is_away: It does nothing.
    """

    def __init__(self, server: ApiServer, kind: str) -> None:
        self._namespace, self._kind = server.namespace(), kind
        self._api = OPERATORS[kind].api
        self.is_away = False
        self.made: list[str] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(PATIENCE)

    def resources(self) -> list[dict[str, Any]]:
        body = self._namespace.ask("GET", "sparkapplications", api=self._api).body
        found: list[dict[str, Any]] = body.get("items", [])
        return found

    def _work(self) -> None:
        while not self._closing.wait(0.2):
            with contextlib.suppress(Unreachable):
                for resource in [] if self.is_away else self.resources():
                    self._tend(resource)

    def _tend(self, resource: Mapping[str, Any]) -> None:
        metadata, conf = resource["metadata"], resource["spec"]["sparkConf"]
        name = conf["spark.kubernetes.driver.pod.name"]
        if metadata.get("deletionTimestamp"):
            return
        if metadata["uid"] not in self.made:
            self.made.append(metadata["uid"])
            self._make(name, resource, conf)
            return
        pod = self._namespace.ask("GET", f"pods/{name}")
        phase = pod.body.get("status", {}).get("phase") if pod.is_success else "Failed"
        known = {"Running": RUNNING, "Failed": FAILED, "Succeeded": FAILED}
        if phase in known:
            self._report(metadata["name"], known[phase][self._kind])

    def _make(self, name: str, resource: Mapping[str, Any], conf: Mapping[str, str]) -> None:
        prefix = "spark.kubernetes.driver.label."
        labels = {k.removeprefix(prefix): v for k, v in conf.items() if k.startswith(prefix)}
        owner = {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "name": resource["metadata"]["name"],
            "uid": resource["metadata"]["uid"],
        }
        metadata = {
            "name": name,
            "labels": {**labels, "spark-role": "driver"},
            "ownerReferences": [owner],
        }
        image = conf.get("spark.kubernetes.container.image", "spark:4.3.0")
        container = {"name": "spark-kubernetes-driver", "image": image}
        spec = {"containers": [container], "restartPolicy": "Never"}
        self._namespace.ask("POST", "pods", {"metadata": metadata, "spec": spec})

    def _report(self, name: str, state: str) -> None:
        status: dict[str, Any] = {"applicationState": {"state": state}}
        if self._kind == APACHE:
            status = {"currentState": {"currentStateSummary": state, "message": "played"}}
        self._namespace.ask(
            "PATCH",
            f"sparkapplications/{name}/status",
            {"status": status},
            content="application/merge-patch+json",
            api=self._api,
        )
