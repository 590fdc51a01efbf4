"""What a pod proves, and what is submitted to Kubernetes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher, submit_command
from airflow_streaming.launch.clusters.kubernetes_api import (
    Credentials,
    Namespace,
    Place,
    log_in,
    read_kubeconfig,
)
from airflow_streaming.launch.clusters.pods import (
    judge_pod,
    label_value,
    labels_of,
    pod_name,
    secret_of,
    submit_conf,
)
from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.port import ClusterApplication
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch
from tests.unit.launch.recorded_master import JsonServer
from tests.unit.launch.test_port_contract import cluster_request_for, make_contract_epoch

RUNNING, GONE, UNSEEN = ProcessState.RUNNING, ProcessState.GONE, ProcessState.UNSEEN
PLACE = "k8s://https://api:6443/streams"
NO_TOKEN = Credentials(server="https://api:6443").kubeconfig()
ENDED = [{"state": {"terminated": {"exitCode": 137}}}]
AT_WORK = [{"state": {"running": {"startedAt": "2026-01-05T12:00:00Z"}}}]


def pod(phase: str | None, containers: Any = (), **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "orders-e7", "uid": "u-1"},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (None, GONE),
        (pod("Pending"), RUNNING),
        (pod("Running", AT_WORK), RUNNING),
        ({**pod("Running", AT_WORK), "metadata": {"deletionTimestamp": "now"}}, RUNNING),
        (pod("Succeeded", ENDED), GONE),
        (pod("Failed", ENDED), GONE),
        (pod("Failed", [], reason="Evicted"), GONE),
        # Written by the control plane for the pods of a node that it has given up.
        (pod("Failed", AT_WORK, reason="DeletionByPodGC"), UNSEEN),
        (pod("Succeeded", AT_WORK), UNSEEN),
        (pod("Unknown", AT_WORK), UNSEEN),
        (pod("Running", AT_WORK, reason="NodeLost"), UNSEEN),
        # Nothing that an API server sends.
        (pod(None), UNSEEN),
        (pod("failed", ENDED), UNSEEN),
        ({}, UNSEEN),
        ({"status": ["Failed"]}, UNSEEN),
        ({"status": {"phase": "Failed", "containerStatuses": "x"}}, GONE),
    ],
)
def test_what_a_pod_proves(seen: dict[str, Any] | None, state: ProcessState) -> None:
    assert judge_pod(seen).state is state


def test_why_a_pod_waits_is_told_in_the_clusters_own_words() -> None:
    words = "0/3 nodes are available: 3 Insufficient memory."
    waiting = pod("Pending", conditions=[{"reason": "Unschedulable", "message": words}])
    pulling = pod("Pending", [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}])

    assert words in judge_pod(waiting).detail
    assert "ImagePullBackOff" in judge_pod(pulling).detail


@pytest.fixture
def epoch() -> Epoch:
    return make_contract_epoch(KubernetesLauncher(PLACE))


def test_names_tell_epochs_apart_and_are_names_of_pods(epoch: Epoch) -> None:
    streams = ["orders", "Orders", "or.ders", "a" * 100, "Ünïcode", "9", "x--y"]
    epochs = [
        replace(epoch, stream=stream, number=number, token=f"{index:08x}{number:024}")
        for index, stream in enumerate(streams)
        for number in (1, 17, 999_999_999)
    ]

    names = [pod_name(one) for one in epochs]

    assert len(set(names)) == len(names)
    assert all(len(name) <= 57 and name == name.lower() for name in names), "volumes add 7 letters"
    assert pod_name(replace(epoch, number=17)).startswith("orders-e17-")


def test_labels_are_different_for_different_texts() -> None:
    values = [label_value(text) for text in ("orders", "a" * 100, "a" * 99, "x.", "ü")]

    assert len(set(values)) == len(values)
    assert all(len(value) <= 63 for value in values)


def application(epoch: Epoch, folder: Path, **changes: Any) -> ClusterApplication:
    package = build_driver_package(folder / "package")
    request = cluster_request_for(epoch, folder, **changes)
    assert request.application is not None
    return replace(
        request.application, main=str(package.main), archive=str(package.archive), image="spark:4.3"
    )


def test_secrets_are_in_the_secret_only(epoch: Epoch, tmp_path: Path) -> None:
    made = application(
        epoch,
        tmp_path,
        conf={
            "spark.executor.memory": "1g",
            "spark.kubernetes.submission.waitAppCompletion": "true",
        },
        secret_conf={"spark.hadoop.fs.s3a.secret.key": "planted-1"},
        environment={"API": "planted-2"},
    )

    conf = submit_conf(epoch, made, Place.parse(PLACE))
    command = submit_command("spark-submit", epoch, made, tmp_path / "x.properties")
    secret = secret_of(epoch, made)

    assert "planted" not in json.dumps(conf) + " ".join(command)
    data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    assert json.loads(data["conf.json"]) == {"spark.hadoop.fs.s3a.secret.key": "planted-1"}
    assert data["env.API"] == b"planted-2"
    assert conf["spark.kubernetes.driver.secretKeyRef.API"] == f"{pod_name(epoch)}:env.API"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf["spark.kubernetes.container.image"] == "spark:4.3"
    assert conf["spark.executor.memory"] == "1g"
    labels = {f"spark.kubernetes.driver.label.{key}": v for key, v in labels_of(epoch).items()}
    assert labels.items() <= conf.items()


def test_a_secret_that_kubernetes_would_refuse_is_refused_first(
    epoch: Epoch, tmp_path: Path
) -> None:
    with pytest.raises(SpecError):
        secret_of(epoch, application(epoch, tmp_path, environment={"BIG": "x" * 2**20}))


@pytest.mark.parametrize(
    "text", ["", "k8s://", "k8s://https://api", "k8s://ftp://api/x", "k8s://https://u:p@api/x"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        Place.parse(text)


@pytest.mark.parametrize("text", [PLACE, f"{PLACE}?connection=prod"])
def test_a_place_survives_the_record(text: str) -> None:
    assert str(Place.parse(text)) == text


def test_a_token_is_not_sent_to_a_server_that_a_record_names(tmp_path: Path, epoch: Epoch) -> None:
    asked: list[str] = []

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        asked.append(path)
        return 200, {"items": []}

    forged = JsonServer(answer)
    config = tmp_path / "config"
    config.write_text(Credentials(server="https://api:6443", token="planted").kubeconfig())
    place = Place(server=f"http://{forged.address}", namespace="streams")
    namespace = Namespace(place, lambda place: log_in(place, {"KUBECONFIG": str(config)}))

    with pytest.raises(Unreachable):
        namespace.pods("")
    forged.close()

    assert asked == []


def test_a_kubeconfig_is_read_as_it_is_written(tmp_path: Path) -> None:
    written = Credentials(server="https://api:6443", token="t", authority="PEM", is_verified=False)
    (tmp_path / "config").write_text(written.kubeconfig())

    assert read_kubeconfig(tmp_path / "config") == written
    assert "PEM" not in repr(written)


@pytest.mark.parametrize(
    "text", ["", "[]", "users: 1", "current-context: x\ncontexts: []", NO_TOKEN]
)
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    with pytest.raises(SpecError):
        read_kubeconfig(tmp_path / "config")


def test_a_long_list_is_read_to_its_end(epoch: Epoch) -> None:
    pages = [
        {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}},
        {"items": [{"metadata": {"name": "b"}}], "metadata": {}},
    ]
    server = JsonServer(lambda method, path, body: (200, pages["continue=next" in path]))
    url = f"http://{server.address}"
    namespace = Namespace(Place(server=url, namespace="streams"), lambda _: Credentials(server=url))

    found = namespace.pods("")
    server.close()

    assert [one["metadata"]["name"] for one in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "body"), [(403, {"items": []}), (200, {}), (200, {"items": "x"}), (200, b"<html>")]
)
def test_an_answer_that_is_no_list_proves_nothing(epoch: Epoch, status: int, body: Any) -> None:
    server = JsonServer(lambda *_: (status, body))
    url = f"http://{server.address}"
    launcher = KubernetesLauncher(f"k8s://{url}/streams", login=lambda _: Credentials(server=url))
    asked = replace(epoch, host=launcher.host())

    assert launcher.probe(asked, None).state is UNSEEN
    assert launcher.kill(asked, None).state is UNSEEN
    server.close()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ((200, {}), GONE),
        ((404, {"reason": "NotFound"}), GONE),
        # Of something in between, which knows nothing of Secrets.
        ((404, b"<html>"), UNSEEN),
        ((403, {"reason": "Forbidden"}), UNSEEN),
        ((503, {}), UNSEEN),
    ],
)
def test_a_killed_driver_is_gone_once_no_later_pod_can_start(
    epoch: Epoch, answer: tuple[int, Any], state: ProcessState
) -> None:
    asked: list[str] = []

    def respond(method: str, path: str, body: Any) -> tuple[int, Any]:
        asked.append(f"{method} {path.rpartition('/streams/')[2].partition('?')[0]}")
        return answer if method == "DELETE" else (200, {"items": []})

    server = JsonServer(respond)
    url = f"http://{server.address}"
    launcher = KubernetesLauncher(f"k8s://{url}/streams", login=lambda _: Credentials(server=url))
    asked_for = replace(epoch, host=launcher.host())

    assert launcher.kill(asked_for, None).state is state
    server.close()

    assert asked == [f"DELETE secrets/{pod_name(asked_for)}", "GET pods"][: 1 + (state is GONE)]


COLUMNS = [{"name": "Name"}, {"name": "Ready"}, {"name": "Status"}]


def namespace_of(*answers: Any) -> Namespace:
    """Return a namespace whose server gives these answers, one after another."""
    left = list(answers)
    server = JsonServer(lambda *_: left.pop(0))
    url = f"http://{server.address}"
    return Namespace(Place(server=url, namespace="streams"), lambda _: Credentials(server=url))


def test_statuses_are_read_by_the_names_of_their_columns() -> None:
    rows = [{"cells": ["orders-e1", "1/1", "Running"]}, {"cells": ["a-e2", "0/1", "Pending"]}]

    found = namespace_of((200, {"columnDefinitions": COLUMNS, "rows": rows})).statuses("")

    assert found == {"orders-e1": "Running", "a-e2": "Pending"}


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"columnDefinitions": COLUMNS, "rows": []}),
        # A server that knows no tables answers with the pods.
        (200, {"kind": "PodList", "items": []}),
        (200, {"columnDefinitions": COLUMNS[:1], "rows": []}),
        (200, {"columnDefinitions": COLUMNS, "rows": [{"cells": ["orders-e1"]}]}),
        (200, {"columnDefinitions": COLUMNS, "rows": "x"}),
        (200, {"columnDefinitions": COLUMNS, "rows": [None]}),
        (200, b"<html>"),
    ],
)
def test_an_answer_that_is_no_table_says_nothing(answer: Any) -> None:
    with pytest.raises(Unreachable):
        namespace_of(answer).statuses("")


def lists(status: str, pending: Any = (), own: Any = ()) -> Any:
    """Return a server's answers about one pod: its row, the pods that wait, and the one asked for."""

    def answer(_: str, path: str, __: Any) -> tuple[int, Any]:
        if "includeObject" in path:
            rows = [{"cells": [NAME, "", status]}] if status else []
            return 200, {"columnDefinitions": COLUMNS, "rows": rows}
        return 200, {"items": list(pending if "fieldSelector" in path else own)}

    return answer


NAME = "orders-e1-"
WAITS = {"metadata": {"name": NAME}, "status": {"phase": "Pending", "reason": "Unschedulable"}}


@pytest.mark.parametrize(
    ("answer", "state", "asked"),
    [
        # The table is enough for a driver that runs.
        (lists("Running"), RUNNING, 1),
        # One that waits is shown with the cluster's words, from a list of those that wait.
        (lists("Pending", [WAITS]), RUNNING, 2),
        (lists("ContainerCreating", [WAITS]), RUNNING, 2),
        # Anything else is asked of the store itself.
        (lists("Terminating"), GONE, 3),
        (lists("Error"), GONE, 3),
        (lists(""), GONE, 2),
    ],
)
def test_one_request_answers_for_drivers_that_run(
    epoch: Epoch, monkeypatch: pytest.MonkeyPatch, answer: Any, state: ProcessState, asked: int
) -> None:
    paths: list[str] = []

    def noted(method: str, path: str, body: Any) -> tuple[int, Any]:
        paths.append(path)
        return answer(method, path, body)  # type: ignore[no-any-return]

    for module in ("kubernetes", "pods"):
        monkeypatch.setattr(f"airflow_streaming.launch.clusters.{module}.pod_name", lambda _: NAME)
    server = JsonServer(noted)
    url = f"http://{server.address}"
    launcher = KubernetesLauncher(f"k8s://{url}/streams", login=lambda _: Credentials(server=url))

    seen = launcher.probe(replace(epoch, host=launcher.host()), None)
    server.close()

    assert (seen.state, len(paths)) == (state, asked)
    assert ("Unschedulable" in seen.detail) is (
        WAITS in answer("", "fieldSelector", {})[1]["items"]
    )


def test_a_submission_whose_pod_cannot_be_looked_for_is_no_failed_launch(
    epoch: Epoch, tmp_path: Path
) -> None:
    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        return (201, {}) if method == "POST" else (503, {})

    server = JsonServer(answer)
    url = f"http://{server.address}"
    launcher = KubernetesLauncher(
        f"k8s://{url}/streams", login=lambda _: Credentials(server=url), run=lambda *_: 0
    )
    asked = replace(epoch, host=launcher.host())
    request = cluster_request_for(asked, tmp_path)
    request = replace(request, command=("spark-submit",), application=application(asked, tmp_path))

    launch = launcher.launch(request)

    assert launch.handle == {"pod": pod_name(asked)}
    assert launcher.probe(asked, launch).state is UNSEEN
    server.close()


@pytest.mark.parametrize("how", ["next launch", "death"])
def test_a_login_left_by_a_killed_submission_is_deleted(
    epoch: Epoch, tmp_path: Path, how: str
) -> None:
    class Killed(BaseException):
        """The worker of the task is killed while spark-submit runs."""

    def killed(request: Any, command: Any, environment: Any) -> int:
        assert "canary-4711" in Path(environment["KUBECONFIG"]).read_text()
        raise Killed

    server = JsonServer(lambda *_: (201, {"items": []}))
    url = f"http://{server.address}"
    login = Credentials(server=url, token="canary-4711")
    launcher = KubernetesLauncher(
        f"k8s://{url}/streams", login=lambda _: login, run=killed, folder=tmp_path
    )
    asked = replace(epoch, host=launcher.host())
    made = application(asked, tmp_path)
    request = replace(
        cluster_request_for(asked, tmp_path),
        command=("spark-submit",),
        application=made,
        log=tmp_path / epoch.stream / "log",
    )
    with pytest.MonkeyPatch.context() as patch:
        # A process that is killed runs no more code of its own.
        patch.setattr("airflow_streaming.launch.clusters.kubernetes.delete_secret", lambda _: None)
        with pytest.raises(Killed):
            launcher.launch(request)
    assert holding("canary-4711", tmp_path)

    if how == "death":
        launcher.clean_up(asked)
    else:
        later = replace(asked, number=epoch.number + 1)
        launcher._run = lambda *_: 1
        with pytest.raises(LaunchError):
            launcher.launch(replace(request, epoch=later))
    server.close()

    assert holding("canary-4711", tmp_path) == []


def holding(text: str, folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


def test_the_end_of_a_pods_log_is_shown(epoch: Epoch, tmp_path: Path) -> None:
    pods = {"items": [{"metadata": {"name": pod_name(epoch)}}]}
    server = JsonServer(
        lambda _, path, __: (200, b"first line\nlast line\n" if "/log?" in path else pods)
    )
    url = f"http://{server.address}"
    launcher = KubernetesLauncher(f"k8s://{url}/streams", login=lambda _: Credentials(server=url))
    asked = replace(epoch, host=launcher.host())

    shown = launcher.logs(asked, make_launch(asked), tmp_path / "log", 10)
    server.close()

    assert shown.tail == b"last line\n"


def make_launch(epoch: Epoch) -> Any:
    from airflow_streaming.model.records.epoch import Launch

    return Launch(epoch=7, token=epoch.token, host=epoch.host, launched_at=epoch.created_at)
