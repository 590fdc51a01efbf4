"""What a SparkApplication and its pod prove together, and what is written into one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.launch.clusters.kubernetes_api import Place
from airflow_streaming.launch.clusters.pods import pod_name
from airflow_streaming.launch.clusters.spark_operators import (
    APACHE,
    KUBEFLOW,
    OPERATORS,
    OperatorLauncher,
    judge_resource,
    resource_of,
)
from airflow_streaming.model.observation import ProcessState
from tests.unit.launch.test_kubernetes import AT_WORK, ENDED, pod
from tests.unit.launch.test_port_contract import cluster_request_for, make_contract_epoch

RUNNING, GONE, UNSEEN = ProcessState.RUNNING, ProcessState.GONE, ProcessState.UNSEEN
PLACE = "k8s://https://api:6443/streams"


def resource(kind: str, state: Any, **metadata: Any) -> dict[str, Any]:
    status = {"applicationState": {"state": state}}
    if kind == APACHE:
        status = {"currentState": {"currentStateSummary": state}}
    return {"metadata": {"name": "orders-e7", **metadata}, "status": status}


WITHOUT_POD = [
    *((KUBEFLOW, state, RUNNING) for state in ("", "SUBMITTED", "SUBMISSION_FAILED")),
    *((KUBEFLOW, state, RUNNING) for state in ("PENDING_RERUN", "INVALIDATING", "a new one")),
    *((KUBEFLOW, state, GONE) for state in ("RUNNING", "SUCCEEDING", "FAILING", "UNKNOWN")),
    *((KUBEFLOW, state, GONE) for state in ("COMPLETED", "FAILED")),
    *((APACHE, state, RUNNING) for state in ("", "Submitted", "ScheduledToRestart")),
    *((APACHE, state, RUNNING) for state in ("DriverRequested", "DriverStartTimedOut")),
    *((APACHE, state, RUNNING) for state in ("SchedulingFailure", "a new one")),
    *((APACHE, state, GONE) for state in ("DriverStarted", "DriverReady", "RunningHealthy")),
    *((APACHE, state, GONE) for state in ("Failed", "Succeeded", "DriverEvicted")),
    *((APACHE, state, GONE) for state in ("ResourceReleased", "TerminatedWithoutReleaseResources")),
]


@pytest.mark.parametrize(("kind", "state", "proved"), WITHOUT_POD)
def test_without_a_pod_the_operator_says_whether_one_will_come(
    kind: str, state: str, proved: ProcessState
) -> None:
    assert judge_resource(OPERATORS[kind], resource(kind, state), None).state is proved


@pytest.mark.parametrize("kind", list(OPERATORS))
@pytest.mark.parametrize("state", ["FAILED", "ResourceReleased", "", None, ["x"]])
@pytest.mark.parametrize(
    ("seen", "proved"),
    [
        (pod("Running", AT_WORK), RUNNING),
        (pod("Pending"), RUNNING),
        (pod("Failed", ENDED), GONE),
        (pod("Failed", AT_WORK, reason="DeletionByPodGC"), UNSEEN),
        (pod("Unknown", AT_WORK), UNSEEN),
    ],
)
def test_a_pod_is_believed_before_the_operator(
    kind: str, state: Any, seen: dict[str, Any], proved: ProcessState
) -> None:
    assert judge_resource(OPERATORS[kind], resource(kind, state), seen).state is proved


@pytest.mark.parametrize("kind", list(OPERATORS))
def test_of_a_resource_that_is_being_deleted_no_pod_comes(kind: str) -> None:
    going = resource(kind, "", deletionTimestamp="2026-11-22T20:00:00Z")

    assert judge_resource(OPERATORS[kind], going, None).state is GONE
    assert judge_resource(OPERATORS[kind], None, None).state is GONE
    assert judge_resource(OPERATORS[kind], None, pod("Running", AT_WORK)).state is RUNNING
    assert judge_resource(OPERATORS[kind], {"status": []}, None).state is RUNNING


@pytest.mark.parametrize("kind", list(OPERATORS))
def test_a_resource_is_never_restarted_and_holds_no_secret(kind: str, tmp_path: Path) -> None:
    epoch = make_contract_epoch(OperatorLauncher(kind, PLACE))
    request = cluster_request_for(
        epoch,
        tmp_path,
        secret_conf={"spark.my.password": "planted-1"},
        environment={"API": "planted-2"},
        jars=("a.jar", "b.jar"),
        py_files=("lib.zip",),
        image="spark:4.3.0",
    )
    assert request.application is not None

    made = resource_of(OPERATORS[kind], epoch, request.application, Place.parse(PLACE))

    text = json.dumps(made)
    assert '"Never"' in text
    assert "OnFailure" not in text
    assert "planted" not in text
    assert epoch.token not in text
    assert made["metadata"]["name"] == pod_name(epoch)
    conf = made["spec"]["sparkConf"]
    assert conf["spark.kubernetes.driver.pod.name"] == pod_name(epoch)
    assert conf["spark.kubernetes.driver.label.airflow-streaming/token"] == epoch.mark
    assert conf["spark.jars"] == "a.jar,b.jar"
    assert "lib.zip" in text
    assert conf["spark.kubernetes.container.image"] == "spark:4.3.0"
