"""
The Spark operators' resources on an API server, and the controller that the tests play.

The definitions have the fields that the launchers write, with the types of the operators' own, and
nothing else: the API server drops what is not defined, so a test sees a field that is misspelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.launch.clusters.spark_operators import APACHE, KUBEFLOW, OPERATORS
from tests.integration.servers.kubernetes import ApiServer, PlayedPart
from tests.patience import until

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
    """Define the resources of both operators, and wait until they are served."""
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
    namespace = server.namespace()
    for one in OPERATORS.values():
        until(
            lambda api=one.api: namespace.ask("GET", "sparkapplications", api=api).is_success,
            "the resources' definitions",
        )


@dataclass(frozen=True, kw_only=True)
class States:
    """The states that an operator writes in turn; with restarts switched off none follows the last."""

    submitted: str
    running: str
    failed: str
    ended: str

    def after(self, state: str, phase: str | None) -> str:
        """Return the state that follows one, given the phase of the pod; ``None`` without a pod."""
        if state in (self.failed, self.ended):
            return self.ended
        if phase == "Pending":
            return self.submitted
        return self.running if phase in ("Running", "Unknown") else self.failed


STATES: Final = {
    APACHE: States(
        submitted="DriverRequested",
        running="RunningHealthy",
        failed="Failed",
        ended="TerminatedWithoutReleaseResources",
    ),
    KUBEFLOW: States(submitted="SUBMITTED", running="RUNNING", failed="FAILING", ended="FAILED"),
}
FINALIZERS: Final = {APACHE: ["sparkapplications.spark.apache.org/finalizer"], KUBEFLOW: []}
"""Apache's operator deletes the pod itself before it lets the resource go; Kubeflow's leaves it to the
garbage collector."""
Submit = Callable[[Mapping[str, Any]], object]
"""Makes the driver's pod of a resource."""


class PlayedOperator(PlayedPart):
    """
    Plays an operator: makes the pod of a resource once, and writes what it sees into its status.

    :param submit: Makes the pods; by default ones without Spark's configuration.
    :param is_away: It does nothing.
    :param late: Seconds for which it has not noticed yet what became of a pod.
    """

    def __init__(self, server: ApiServer, kind: str, submit: Submit | None = None) -> None:
        self._kind, self._api = kind, OPERATORS[kind].api
        self.submit = submit or self._make_pod
        self.is_away = False
        self.late = 0.0
        self.made: list[str] = []
        self._states: dict[str, str] = {}
        self._noticed: dict[tuple[str, str], float] = {}
        super().__init__(server)

    def resources(self) -> list[dict[str, Any]]:
        body = self._namespace.ask("GET", "sparkapplications", api=self._api).body
        found: list[dict[str, Any]] = body.get("items", [])
        return found

    def look(self) -> None:
        for resource in [] if self.is_away else self.resources():
            self._tend(resource)

    def _tend(self, resource: Mapping[str, Any]) -> None:
        metadata = resource["metadata"]
        uid, pod = metadata["uid"], f"pods/{driver_pod(resource)}"
        if metadata.get("deletionTimestamp"):
            self._namespace.ask("DELETE", pod)
            self._patch(metadata["name"], {"metadata": {"finalizers": None}})
        elif uid not in self.made:
            self._patch(metadata["name"], {"metadata": {"finalizers": FINALIZERS[self._kind]}})
            self.made.append(uid)
            self.submit(resource)
            self._report(resource, STATES[self._kind].submitted)
        else:
            found = self._namespace.ask("GET", pod)
            phase = found.body.get("status", {}).get("phase") if found.is_success else None
            self._notice(resource, STATES[self._kind].after(self._states.get(uid, ""), phase))

    def _notice(self, resource: Mapping[str, Any], state: str) -> None:
        uid = resource["metadata"]["uid"]
        noticed = self._noticed.setdefault((uid, state), time.monotonic())
        if state != self._states.get(uid) and time.monotonic() - noticed >= self.late:
            self._report(resource, state)

    def _make_pod(self, resource: Mapping[str, Any]) -> None:
        conf, prefix = resource["spec"]["sparkConf"], "spark.kubernetes.driver."
        labels = {
            key.removeprefix(f"{prefix}label."): value
            for key, value in conf.items()
            if key.startswith(f"{prefix}label.")
        }
        secrets = [
            key.removeprefix(f"{prefix}secrets.")
            for key in conf
            if key.startswith(f"{prefix}secrets.")
        ]
        metadata = {
            "name": driver_pod(resource),
            "labels": {**labels, "spark-role": "driver"},
            "ownerReferences": [owner_of(resource)],
        }
        image = conf.get("spark.kubernetes.container.image", "spark:4.3.0")
        spec = {
            "containers": [{"name": "spark-kubernetes-driver", "image": image}],
            "restartPolicy": "Never",
            "volumes": [{"name": name, "secret": {"secretName": name}} for name in secrets],
        }
        self._namespace.ask("POST", "pods", {"metadata": metadata, "spec": spec})

    def _report(self, resource: Mapping[str, Any], state: str) -> None:
        status: dict[str, Any] = {"applicationState": {"state": state}}
        if self._kind == APACHE:
            status = {"currentState": {"currentStateSummary": state, "message": "played"}}
        self._states[resource["metadata"]["uid"]] = state
        self._patch(f"{resource['metadata']['name']}/status", {"status": status})

    def _patch(self, path: str, body: Mapping[str, Any]) -> None:
        merge = "application/merge-patch+json"
        path = f"sparkapplications/{path}"
        self._namespace.ask("PATCH", path, body, content=merge, api=self._api)


def driver_pod(resource: Mapping[str, Any]) -> str:
    """Return the name of a resource's driver pod."""
    name: str = resource["spec"]["sparkConf"]["spark.kubernetes.driver.pod.name"]
    return name


def owner_of(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the reference by which a pod belongs to a resource."""
    metadata = resource["metadata"]
    kind = {"apiVersion": resource["apiVersion"], "kind": resource["kind"]}
    return {**kind, "name": metadata["name"], "uid": metadata["uid"]}
