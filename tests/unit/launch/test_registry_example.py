"""The launcher that the documentation shows is the one that is tested, and starts one driver only."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch import registry
from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.model.observation import ProcessState
from tests.conftest import REPOSITORY
from tests.unit.launch.jobs_launcher import JobsLauncher
from tests.unit.launch.played_jobs import JobService
from tests.unit.launch.test_port_contract import make_contract_epoch, request_for

SOURCE = Path(__file__).with_name("jobs_launcher.py")
PAGE = REPOSITORY / "docs" / "launcher-example.md"


@pytest.fixture
def service() -> Iterator[JobService]:
    made = JobService()
    yield made
    made.close()


def test_the_page_shows_the_code_that_is_tested() -> None:
    code = re.search(
        r"# \[START launcher\]\n(.*?)\n+# \[END launcher\]", SOURCE.read_text(), re.DOTALL
    )
    blocks = re.findall(r"```python\n(.*?)\n```", PAGE.read_text(), re.DOTALL)

    assert code is not None
    assert code[1] in blocks


def test_an_entry_point_makes_it_a_launcher_of_streams(
    service: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("jobs", f"{JobsLauncher.__module__}:JobsLauncher", registry.GROUP)
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda group, name: [point] if name == "jobs" else [],
    )
    monkeypatch.setenv("JOBS_SERVER", service.url)
    monkeypatch.setenv("JOBS_TOKEN", "planted-token")
    launcher = registry.open_launcher("jobs", policy=ask_recorded)
    epoch = make_contract_epoch(launcher)

    launch = launcher.launch(request_for(epoch, tmp_path, "spark-submit"))

    assert epoch.launcher == "jobs"
    assert (
        registry.open_launcher(policy=ask_recorded).probe(epoch, launch).state
        is ProcessState.RUNNING
    )
    assert (
        registry.open_launcher(policy=ask_recorded).kill(epoch, launch).state is ProcessState.GONE
    )


def test_a_second_launch_of_an_epoch_starts_no_second_driver(
    service: JobService, tmp_path: Path
) -> None:
    launcher = JobsLauncher(service.url, "planted-token")
    epoch = make_contract_epoch(launcher)

    launches = [launcher.launch(request_for(epoch, tmp_path, "spark-submit")) for _ in range(2)]

    assert len(service.started) == 1
    assert launches[0].handle == launches[1].handle


def test_an_answer_that_is_lost_is_no_failed_launch(service: JobService, tmp_path: Path) -> None:
    launcher = JobsLauncher(service.url, "planted-token")
    epoch = make_contract_epoch(launcher)
    service.loses_answers = True

    launch = launcher.launch(request_for(epoch, tmp_path, "spark-submit"))

    assert launch.handle == {}
    assert launcher.probe(epoch, launch).state is ProcessState.UNSEEN
    assert launcher.find(epoch) is None
    service.loses_answers = False
    assert launcher.probe(epoch, launch).state is ProcessState.RUNNING
    service.loses_answers = True
    assert launcher.kill(epoch, launch).state is ProcessState.UNSEEN, "it may have been killed"


def test_a_service_that_is_not_there_or_refuses_started_nothing(
    service: JobService, tmp_path: Path
) -> None:
    for launcher in (JobsLauncher("http://127.0.0.1:9", "t"), JobsLauncher(service.url, "wrong")):
        epoch = make_contract_epoch(launcher)
        with pytest.raises(LaunchError):
            launcher.launch(request_for(epoch, tmp_path, "spark-submit"))
        assert launcher.probe(epoch, None).state is ProcessState.UNSEEN


def test_a_record_with_another_server_gets_no_credentials(
    service: JobService, tmp_path: Path
) -> None:
    epoch = make_contract_epoch(JobsLauncher(service.url, "planted-token"))

    elsewhere = JobsLauncher("http://127.0.0.1:9", "planted-token")

    assert elsewhere.probe(epoch, None).state is ProcessState.UNSEEN
