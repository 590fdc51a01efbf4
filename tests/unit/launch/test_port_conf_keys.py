"""Every key that a stream may have comes to Spark as it was written, whoever starts the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli.advice import _setting
from airflow_streaming.cli.common import pair
from airflow_streaming.launch.clusters import yarn
from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher
from airflow_streaming.launch.clusters.kubernetes_api import Place
from airflow_streaming.launch.clusters.pods import submit_conf as pod_conf
from airflow_streaming.launch.clusters.spark_operators import (
    APACHE,
    KUBEFLOW,
    OPERATORS,
    resource_of,
)
from airflow_streaming.launch.clusters.standalone import submission
from airflow_streaming.launch.environment import properties_text
from airflow_streaming.launch.port import ClusterApplication
from airflow_streaming.model.records.epoch import Epoch
from tests.conf_keys import ODD_KEYS, read_properties
from tests.unit.launch.test_port_contract import cluster_request_for, make_contract_epoch

PLACE = "k8s://https://api:6443/streams"
CONF = {key: f"v={number}: x" for number, key in enumerate(ODD_KEYS)}
Submit = Callable[[Epoch, ClusterApplication], Mapping[str, Any]]


def to_pods(epoch: Epoch, made: ClusterApplication) -> Mapping[str, Any]:
    return read_properties(properties_text(pod_conf(epoch, made, Place.parse(PLACE))))


def to_yarn(epoch: Epoch, made: ClusterApplication) -> Mapping[str, Any]:
    return read_properties(properties_text(yarn.submit_conf(epoch, made)))


def to_a_master(epoch: Epoch, made: ClusterApplication) -> Mapping[str, Any]:
    sent: Mapping[str, Any] = json.loads(json.dumps(submission(made, epoch)))
    return dict(sent["sparkProperties"])


def to_an_operator(kind: str) -> Submit:
    def submit(epoch: Epoch, made: ClusterApplication) -> Mapping[str, Any]:
        sent = json.loads(json.dumps(resource_of(OPERATORS[kind], epoch, made, Place.parse(PLACE))))
        return dict(sent["spec"]["sparkConf"])

    return submit


@pytest.mark.parametrize(
    "submit",
    [
        pytest.param(to_pods, id="kubernetes"),
        pytest.param(to_yarn, id="yarn"),
        pytest.param(to_a_master, id="standalone"),
        pytest.param(to_an_operator(APACHE), id="apache_operator"),
        pytest.param(to_an_operator(KUBEFLOW), id="kubeflow_operator"),
    ],
)
def test_a_cluster_is_given_every_key_as_it_was_written(tmp_path: Path, submit: Submit) -> None:
    epoch = make_contract_epoch(KubernetesLauncher(PLACE))
    request = cluster_request_for(epoch, tmp_path, conf=CONF)
    assert request.application is not None

    submitted = submit(epoch, request.application)

    assert {key: submitted.get(key) for key in CONF} == CONF


@pytest.mark.parametrize("key", ODD_KEYS)
@pytest.mark.parametrize("read", [pair, _setting], ids=["--conf", "--set"])
def test_a_key_on_the_command_line_ends_at_its_first_equals_sign(
    read: Callable[[str], tuple[str, str]], key: str
) -> None:
    assert read(f"{key}=a=b") == (key, "a=b")
