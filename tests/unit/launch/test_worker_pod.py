"""A local driver in the pod of a worker would end with its task."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.worker_pod import WORKER_POD, check_outlives_task
from tests.unit.world import World


@pytest.mark.parametrize(
    ("launcher", "environment", "is_refused"),
    [
        ("local", {}, False),
        ("local", {WORKER_POD: ""}, False),
        ("local", {WORKER_POD: "True"}, True),
        ("kubernetes", {WORKER_POD: "True"}, False),
        ("standalone", {WORKER_POD: "True"}, False),
        ("a_package.launcher", {WORKER_POD: "True"}, False),
    ],
)
def test_only_a_local_driver_of_a_pod_is_refused(
    launcher: str, environment: dict[str, str], is_refused: bool
) -> None:
    if not is_refused:
        check_outlives_task(launcher, environment)
        return
    with pytest.raises(SpecError, match="k8s://, spark://, yarn"):
        check_outlives_task(launcher, environment)


def test_a_task_in_a_pod_writes_and_starts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORKER_POD, "True")

    with pytest.raises(AirflowFailException, match="pod of KubernetesExecutor"):
        world.operator().execute(world.context())

    assert world.home.newest_deployment() is None
    assert world.launcher.launched == []
