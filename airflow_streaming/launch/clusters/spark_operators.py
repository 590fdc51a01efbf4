"""
Drivers as ``SparkApplication`` resources of a Spark operator: Apache Spark's own, and Kubeflow's.

A resource has the name of its driver's pod, so the API server refuses a second one of an epoch
(409). The operator makes the pod from it, with the labels and the Secret of ``pods``. Its own
restart is switched off: only one controller may restart a stream. The resource and the operator
never prove that a driver is gone, since the pod may outlive both; they prove whether a pod is still
to come.

The fields follow ``spark.apache.org/v1`` and ``sparkoperator.k8s.io/v1beta2``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.exceptions import LaunchError, SpecError, closed
from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher, launched
from airflow_streaming.launch.clusters.kubernetes_api import (
    Credentials,
    Namespace,
    Place,
    is_absent,
    log_in,
    trouble,
)
from airflow_streaming.launch.clusters.pods import (
    MOUNT,
    RESOURCE,
    is_drivers,
    judge_pod,
    labels_of,
    mapping,
    pod_name,
    submit_conf,
)
from airflow_streaming.launch.clusters.rest import Answer, Unreachable
from airflow_streaming.launch.port import ClusterApplication, LaunchRequest
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch

APACHE: Final = "apache-operator"
KUBEFLOW: Final = "kubeflow-operator"
KEPT_SECONDS: Final = 7 * 24 * 3600
"""How long the operator keeps the resource of a driver that ended, and with it the pod and its log."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class PodPhase(StrEnum):
    """The phase of a driver's pod by its resource."""

    AWAITED = "awaited"
    """The operator may still make it."""
    MADE = "made"
    """It was made, and no second one will be."""
    ENDED = "ended"
    """The operator has done with the application."""


@dataclass(frozen=True, slots=True)
class Operator:
    """
    The resources of one operator.

    :param api: Group and version.
    :param spec: Builds the resource's ``spec``.
    :param state: Returns the state in a resource's ``status``; empty without one.
    :param phases: The pod's phase for each state; for any other state the pod is awaited.
    """

    kind: str
    api: str
    spec: Callable[[ClusterApplication, Mapping[str, str]], dict[str, Any]]
    state: Callable[[Mapping[str, Any]], str]
    phases: Mapping[str, PodPhase]


def _main() -> str:
    return f"local://{MOUNT}/main.py"


def _shipped(application: ClusterApplication) -> list[str]:
    return [f"local://{MOUNT}/airflow_streaming.zip", *application.py_files]


def _with_dependencies(application: ClusterApplication, conf: Mapping[str, str]) -> dict[str, str]:
    listed = {
        "spark.jars": application.jars,
        "spark.jars.packages": application.packages,
        "spark.files": application.files,
    }
    return {**conf, **{key: ",".join(entries) for key, entries in listed.items() if entries}}


def apache_spec(application: ClusterApplication, conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``spec`` for Apache Spark's operator."""
    return {
        "pyFiles": _main(),
        "driverArgs": list(application.arguments),
        "sparkConf": {
            **_with_dependencies(application, conf),
            # The operator takes its own field for the script.
            "spark.submit.pyFiles": ",".join(_shipped(application)),
        },
        "runtimeVersions": {"sparkVersion": application.spark_version},
        "applicationTolerations": {
            "restartConfig": {"restartPolicy": "Never"},
            # It deletes the pod of a driver that ended otherwise, and with it the log.
            "resourceRetainPolicy": "Always",
            "ttlAfterStopMillis": KEPT_SECONDS * 1000,
            # Late executors are not a reason to end a stream; our own rules watch them.
            "instanceConfig": {"initExecutors": 0, "minExecutors": 0},
        },
    }


def kubeflow_spec(application: ClusterApplication, conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``spec`` for Kubeflow's operator."""
    spec = {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": application.spark_version,
        "mainApplicationFile": _main(),
        "arguments": list(application.arguments),
        "sparkConf": _with_dependencies(application, conf),
        "deps": {"pyFiles": _shipped(application)},
        "driver": {"podName": conf["spark.kubernetes.driver.pod.name"]},
        "executor": {},
        "restartPolicy": {"type": "Never"},
        "timeToLiveSeconds": KEPT_SECONDS,
    }
    return {**spec, "image": application.image} if application.image else spec


def _text(status: Mapping[str, Any], key: str, part: str) -> str:
    value = mapping(status, key).get(part)
    return value if isinstance(value, str) else ""


_RAN: Final = PodPhase.MADE
OPERATORS: Final[Mapping[str, Operator]] = {
    APACHE: Operator(
        APACHE,
        "apis/spark.apache.org/v1",
        apache_spec,
        lambda status: _text(status, "currentState", "currentStateSummary"),
        {
            **dict.fromkeys(
                (
                    "DriverStarted",
                    "DriverReady",
                    "InitializedBelowThresholdExecutors",
                    "RunningHealthy",
                    "RunningWithPartialCapacity",
                    "RunningWithBelowThresholdExecutors",
                    "DriverReadyTimedOut",
                    "ExecutorsStartTimedOut",
                    "Succeeded",
                    "Failed",
                    "DriverEvicted",
                ),
                _RAN,
            ),
            "ResourceReleased": PodPhase.ENDED,
            "TerminatedWithoutReleaseResources": PodPhase.ENDED,
        },
    ),
    KUBEFLOW: Operator(
        KUBEFLOW,
        "apis/sparkoperator.k8s.io/v1beta2",
        kubeflow_spec,
        lambda status: _text(status, "applicationState", "state"),
        {
            **dict.fromkeys(("RUNNING", "SUCCEEDING", "FAILING", "UNKNOWN"), _RAN),
            "COMPLETED": PodPhase.ENDED,
            "FAILED": PodPhase.ENDED,
        },
    ),
}


def resource_of(
    operator: Operator, epoch: Epoch, application: ClusterApplication, place: Place
) -> dict[str, Any]:
    """Return the resource of an epoch's driver; no secret is in it."""
    conf = submit_conf(epoch, application, place)
    return {
        "apiVersion": operator.api.removeprefix("apis/"),
        "kind": RESOURCE,
        "metadata": {"name": pod_name(epoch), "labels": labels_of(epoch)},
        "spec": operator.spec(application, conf),
    }


def judge_resource(
    operator: Operator, resource: Mapping[str, Any] | None, pod: Mapping[str, Any] | None
) -> Process:
    """
    Return the state of a driver that a resource and its pod prove.

    :param resource: Read *before* the pod; ``None`` if it does not exist.
    """
    if resource is None:
        return judge_pod(pod)
    status = mapping(resource, "status")
    state = operator.state(status)
    name = mapping(resource, "metadata").get("name")
    message = f"SparkApplication {name} is {state or 'not taken by an operator yet'}{_why(status)}"
    if pod is not None:
        seen = judge_pod(pod)
        return Process(state=seen.state, detail=f"{seen.detail}; {message}")
    is_awaited = operator.phases.get(state, PodPhase.AWAITED) is PodPhase.AWAITED
    if is_awaited and not mapping(resource, "metadata").get("deletionTimestamp"):
        return Process(state=ProcessState.RUNNING, detail=message)
    return Process.gone(f"{message}, and its driver's pod is gone")


def _why(status: Mapping[str, Any]) -> str:
    """Return the operator's own words."""
    words = _text(status, "currentState", "message") or _text(
        status, "applicationState", "errorMessage"
    )
    return f" ({' '.join(words.split())[:500]})" if words else ""


class OperatorLauncher(KubernetesLauncher):
    """
    Starts drivers as resources of a Spark operator.

    :param kind: Which operator, one of ``OPERATORS``.
    :param place: As with ``KubernetesLauncher``.
    :param login: As with ``KubernetesLauncher``.
    """

    def __init__(
        self,
        kind: str,
        place: str = "",
        *,
        login: Callable[[Place], Credentials] = log_in,
        **options: Any,
    ) -> None:
        super().__init__(place, login=login, **options)
        self.kind, self._operator = kind, OPERATORS[kind]

    def launch(self, request: LaunchRequest) -> Launch:
        epoch, application = request.epoch, request.application
        if application is None:
            raise LaunchError(
                f"Stream {epoch.stream!r} was not submitted: the request holds no application for a "
                "cluster."
            )
        namespace = self._namespace(epoch)
        try:
            self._create_secret(namespace, epoch, application)
            answer = self._create(namespace, epoch, application)
        except Unreachable as err:
            raise LaunchError(f"Stream {epoch.stream!r} was not submitted: {closed(err)}") from err
        if answer is None:
            return launched(epoch, {})
        self._hand_to(namespace, epoch, {**answer.body, "apiVersion": self._api})
        return launched(epoch, {**answer.body, "kind": RESOURCE})

    def find(self, epoch: Epoch) -> Launch | None:
        try:
            resource = self._resource(epoch, None)
            if self._look(epoch, None).state is ProcessState.GONE:
                return None
            return launched(epoch, resource or self._pod(epoch, None) or {})
        except (Unreachable, SpecError):
            return None

    @property
    def _api(self) -> str:
        return self._operator.api.removeprefix("apis/")

    def _create(
        self, namespace: Namespace, epoch: Epoch, application: ClusterApplication
    ) -> Answer | None:
        """
        Create the resource and return it; ``None`` if its existence is not known.

        :raises LaunchError: the API server refuses it, so it does not exist.
        """
        body = resource_of(self._operator, epoch, application, namespace.place)
        try:
            answer = namespace.ask("POST", "sparkapplications", body, api=self._operator.api)
            if answer.status == _CONFLICT:  # of an earlier try of the same epoch
                answer = self._ask(epoch, "GET")
        except Unreachable as err:
            if err.was_never_sent:
                raise
            return None
        if not answer.is_success:
            self.clean_up(epoch)
            raise LaunchError(
                f"The SparkApplication of stream {epoch.stream!r} could not be created in "
                f"{namespace.place}: {trouble(answer)}. Check that the operator's resources of "
                f"{self._api} are installed and that the connection's user has the Role of "
                "docs/launchers.md."
            )
        return answer

    def _look(self, epoch: Epoch, launch: Launch | None) -> Process:
        # The pod is read last: it may be made while the resource is being read.
        resource = self._resource(epoch, launch)
        pod = self._pod(epoch, launch)
        return self._noted(epoch, judge_resource(self._operator, resource, pod))

    def _resource(self, epoch: Epoch, launch: Launch | None) -> Mapping[str, Any] | None:
        answer = self._ask(epoch, "GET")
        if is_absent(answer):
            return None
        if not answer.is_success:
            raise Unreachable(f"SparkApplication {pod_name(epoch)} is not shown: {trouble(answer)}")
        return answer.body if is_drivers(answer.body, epoch, launch) else None

    def _delete_all(self, epoch: Epoch, launch: Launch | None) -> None:
        # The resource first, so that the operator makes no pod after the look.
        resource = self._resource(epoch, launch)
        if resource is not None:
            uid = mapping(resource, "metadata").get("uid")
            options = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": uid},
            }
            answer = self._ask(epoch, "DELETE", options)
            if not answer.is_success and answer.status not in (_NOT_FOUND, _CONFLICT):
                raise Unreachable(
                    f"SparkApplication {pod_name(epoch)} cannot be deleted: {trouble(answer)}"
                )
        super()._delete_all(epoch, launch)

    def _ask(self, epoch: Epoch, method: str, body: Mapping[str, Any] | None = None) -> Answer:
        path = f"sparkapplications/{pod_name(epoch)}"
        return self._namespace(epoch).ask(method, path, body, api=self._operator.api)
