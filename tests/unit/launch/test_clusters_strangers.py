"""Drivers of other users of a cluster, with the names, tags and labels of ours, are not ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher
from airflow_streaming.launch.clusters.kubernetes_api import Credentials
from airflow_streaming.launch.clusters.pods import CLOCKS, RESOURCE, is_drivers, labels_of, pod_name
from airflow_streaming.launch.clusters.spark_operators import OperatorLauncher
from airflow_streaming.launch.clusters.yarn import YarnLauncher, mark_tag
from airflow_streaming.launch.clusters.yarn_api import Application, AppState, driver_among
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.launchers import KUBEFLOW_OPERATOR, KUBERNETES, YARN
from tests.unit.home.make import NOON, make_epoch, make_launch
from tests.unit.launch.recorded_master import JsonServer

RUNNING, GONE, UNSEEN = ProcessState.RUNNING, ProcessState.GONE, ProcessState.UNSEEN
LATER = NOON + CLOCKS + timedelta(minutes=1)


def app(number: int, user: str, state: AppState = AppState.RUNNING) -> Application:
    return Application(id=f"application_1772366400000_{number:04d}", state=state, user=user)


OURS, ENDED = app(9, "spark"), app(9, "spark", AppState.KILLED)
THEIRS, AGAIN = app(10, "mallory"), app(11, "spark")


@pytest.mark.parametrize(
    ("found", "recorded", "expected"),
    [
        pytest.param([], {}, None, id="none"),
        pytest.param([OURS], {}, OURS, id="ours"),
        pytest.param([THEIRS, OURS], {}, OURS, id="the_first_is_ours"),
        pytest.param([THEIRS, ENDED], {}, ENDED, id="ours_has_ended"),
        pytest.param([THEIRS, ENDED], {"user": "spark"}, ENDED, id="ours_is_recorded"),
        pytest.param([THEIRS], {"user": "spark"}, None, id="ours_is_forgotten"),
        pytest.param([ENDED, AGAIN, THEIRS], {}, AGAIN, id="a_second_one_of_ours_lives"),
        pytest.param(
            [app(10_000, "m"), app(9_999, "spark")], {}, app(9_999, "spark"), id="as_numbers"
        ),
    ],
)
def test_the_application_of_another_user_is_no_driver(
    found: list[Application], recorded: dict[str, str], expected: Application | None
) -> None:
    assert driver_among(found, recorded) == expected


def a_pod(epoch: Epoch, **metadata: Any) -> dict[str, Any]:
    told = {"name": pod_name(epoch), "uid": "ours", "creationTimestamp": format_time(NOON)}
    labels = {**labels_of(epoch), "spark-role": "driver"}
    return {"metadata": {"labels": labels, **told, **metadata}, "status": {"phase": "Running"}}


LATE = {"creationTimestamp": format_time(LATER)}


@pytest.mark.parametrize(
    ("launcher", "handle", "metadata", "expected"),
    [
        pytest.param(KUBERNETES, {"uid": "ours"}, {}, True, id="ours"),
        pytest.param(KUBERNETES, {"uid": "ours"}, {"uid": "x", **LATE}, False, id="another_uid"),
        pytest.param(KUBERNETES, {"uid": "x"}, {}, True, id="a_damaged_record"),
        pytest.param(KUBERNETES, {"uid": "x"}, {"creationTimestamp": "?"}, True, id="no_time"),
        pytest.param(KUBERNETES, {}, {"uid": "x", **LATE}, True, id="no_uid_recorded"),
        pytest.param(KUBERNETES, None, {"uid": "x", **LATE}, True, id="no_record"),
        pytest.param(KUBERNETES, None, {"name": "other"}, False, id="another_name"),
        pytest.param(KUBERNETES, {"uid": "ours"}, {"name": "other"}, False, id="its_uid_and_name"),
        pytest.param(
            KUBEFLOW_OPERATOR, {"resource": "r"}, {"name": "other"}, True, id="operators_name"
        ),
        pytest.param(
            KUBEFLOW_OPERATOR,
            {"resource": "r"},
            {"ownerReferences": [{"kind": RESOURCE, "uid": "r"}], **LATE},
            True,
            id="of_our_resource",
        ),
        pytest.param(
            KUBEFLOW_OPERATOR,
            {"resource": "r"},
            {"ownerReferences": [{"kind": RESOURCE, "uid": "x"}], **LATE},
            False,
            id="of_another_resource",
        ),
        pytest.param(
            KUBEFLOW_OPERATOR,
            {"resource": "r"},
            {"ownerReferences": [7], **LATE},
            True,
            id="no_owner",
        ),
    ],
)
def test_the_pod_of_another_creator_is_no_driver(
    launcher: str, handle: dict[str, str] | None, metadata: dict[str, Any], expected: bool
) -> None:
    epoch = make_epoch(launcher=launcher)
    launch = None if handle is None else make_launch(handle=handle)

    assert is_drivers(a_pod(epoch, **metadata), epoch, launch) is expected


def test_a_resource_that_another_user_made_again_is_no_driver() -> None:
    epoch, launch = make_epoch(launcher=KUBEFLOW_OPERATOR), make_launch(handle={"resource": "r"})

    assert is_drivers({**a_pod(epoch, uid="r"), "kind": RESOURCE}, epoch, launch)
    assert not is_drivers({**a_pod(epoch, uid="x", **LATE), "kind": RESOURCE}, epoch, launch)


@dataclass
class Cluster:
    """A server that shows what strangers have made, and notes what is deleted or killed."""

    pods: list[dict[str, Any]] = field(default_factory=list)
    resource: dict[str, Any] | None = None
    apps: list[dict[str, Any]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    server: JsonServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = JsonServer(self.answer)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method in ("DELETE", "PUT"):
            self.changed.append(path)
            return 200, {"state": "KILLED"}
        if "/apps?" in path:
            return 200, {"apps": {"app": self.apps}}
        if "includeObject" in path:
            rows = [{"cells": [one["metadata"]["name"], "Running"]} for one in self.pods]
            return 200, {"columnDefinitions": [{"name": "Name"}, {"name": "Status"}], "rows": rows}
        if "sparkapplications/" in path:
            return (200, self.resource) if self.resource else (404, {"reason": "NotFound"})
        return 200, {"items": self.pods}

    @property
    def deleted(self) -> list[str]:
        return [path for path in self.changed if not re.search("/secrets/", path)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    yield found
    found.server.close()


def on_kubernetes(kind: str, cluster: Cluster) -> tuple[Any, Epoch, Launch]:
    url = f"http://{cluster.server.address}"
    place = f"k8s://{url}/streams"
    more = {"login": lambda _: Credentials(server=url)}
    made: Callable[..., Any] = KubernetesLauncher if kind == KUBERNETES else OperatorLauncher
    launcher = made(place, **more) if kind == KUBERNETES else made(kind, place, **more)
    handle = {"uid": "ours"} if kind == KUBERNETES else {"resource": "ours"}
    epoch = make_epoch(launcher=kind, host=Host(name=place))
    return launcher, epoch, make_launch(host=epoch.host, handle=handle)


@pytest.mark.parametrize("kind", [KUBERNETES, KUBEFLOW_OPERATOR])
def test_a_strangers_pod_neither_keeps_a_dead_stream_down_nor_is_deleted(
    cluster: Cluster, kind: str
) -> None:
    launcher, epoch, launch = on_kubernetes(kind, cluster)
    owner = {"ownerReferences": [{"kind": RESOURCE, "uid": "theirs"}]}
    theirs = {"uid": "theirs", **LATE, **(owner if kind == KUBEFLOW_OPERATOR else {})}
    cluster.pods = [a_pod(epoch, **theirs)]
    cluster.resource = {**a_pod(epoch, uid="theirs", **LATE), "kind": RESOURCE}

    assert launcher.probe(epoch, launch).state is GONE
    assert launcher.kill(epoch, launch).state is GONE
    assert launcher.logs(epoch, launch, None, 99).tail is None
    assert cluster.deleted == []


@pytest.mark.parametrize("kind", [KUBERNETES, KUBEFLOW_OPERATOR])
def test_our_pod_beside_a_strangers_is_seen(cluster: Cluster, kind: str) -> None:
    launcher, epoch, launch = on_kubernetes(kind, cluster)
    cluster.pods = [a_pod(epoch, name="stranger", uid="theirs", **LATE), a_pod(epoch)]

    assert launcher.probe(epoch, launch).state is RUNNING


def as_told(epoch: Epoch, number: int, user: str, state: str = "RUNNING") -> dict[str, Any]:
    tags = f"airflow-streaming,{mark_tag(epoch)}"
    name = f"application_1772366400000_{number:04d}"
    return {"id": name, "user": user, "state": state, "applicationTags": tags, "startedTime": 1}


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_strangers_application_neither_keeps_a_dead_stream_down_nor_is_killed(
    cluster: Cluster, is_recorded: bool
) -> None:
    place = f"yarn://http://{cluster.server.address}"
    epoch = make_epoch(launcher=YARN, host=Host(name=place), token=f"token-{is_recorded}")
    launcher = YarnLauncher(place, clock=lambda: 0.0, pause=lambda _: None)
    cluster.apps = [as_told(epoch, 2, "mallory"), as_told(epoch, 1, "spark", "KILLED")]
    handle = {"application": cluster.apps[1]["id"], "user": "spark"}
    launch = make_launch(host=epoch.host, handle=handle) if is_recorded else None

    assert launcher.probe(epoch, launch).state is GONE
    assert launcher.kill(epoch, launch).state is GONE
    assert launcher.find(epoch) is None
    cluster.apps = [as_told(epoch, 2, "mallory")]
    if launch is not None:
        assert launcher.probe(epoch, replace(launch)).state is UNSEEN
    assert cluster.changed == []
