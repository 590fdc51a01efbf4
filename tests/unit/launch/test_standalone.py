"""What a standalone master's answers mean, and what is submitted to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.clusters.rest import Answer
from airflow_streaming.launch.clusters.standalone import (
    DriverStatus,
    StandaloneLauncher,
    rest_addresses,
    state_of,
    submission,
    ui_addresses,
)
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.spark.conf import PRIVATE_CONF
from tests.unit.launch.recorded_master import RecordedMaster
from tests.unit.launch.test_port_contract import cluster_request_for, make_contract_epoch

RUNNING, GONE, UNSEEN = ProcessState.RUNNING, ProcessState.GONE, ProcessState.UNSEEN


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"success": True, "driverState": "SUBMITTED"}, RUNNING),
        ({"success": True, "driverState": "RUNNING"}, RUNNING),
        ({"success": True, "driverState": "RELAUNCHING"}, RUNNING),
        ({"success": True, "driverState": "FINISHED"}, GONE),
        ({"success": True, "driverState": "FAILED"}, GONE),
        ({"success": True, "driverState": "KILLED"}, GONE),
        ({"success": True, "driverState": "ERROR", "message": "Exception from the worker"}, GONE),
        # The master has lost the worker; the driver may run on.
        ({"success": True, "driverState": "ERROR"}, UNSEEN),
        # After a fail-over, until the worker registers.
        ({"success": True, "driverState": "UNKNOWN"}, UNSEEN),
        # Forgotten; or a master that is not the active one.
        ({"success": False}, UNSEEN),
        ({"success": False, "message": "Current state is not alive: STANDBY."}, UNSEEN),
        # Nothing that a master sends.
        ({}, UNSEEN),
        ({"success": "true", "driverState": "FINISHED"}, UNSEEN),
        ({"success": True, "driverState": "finished"}, UNSEEN),
        ({"success": True, "driverState": ["FINISHED"]}, UNSEEN),
        ({"success": True}, UNSEEN),
    ],
)
def test_what_a_state_proves(body: dict[str, object], state: ProcessState) -> None:
    assert state_of(DriverStatus.of(Answer(status=200, body=body))) is state


def test_no_error_of_a_server_is_a_proof() -> None:
    body = {"success": True, "driverState": "FINISHED"}

    assert state_of(DriverStatus.of(Answer(status=500, body=body))) is UNSEEN


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://m1:6066", ("http://m1:6066",)),
        ("spark://m1:6066,m2:6067", ("http://m1:6066", "http://m2:6067")),
    ],
)
def test_every_master_is_asked(master: str, addresses: tuple[str, ...]) -> None:
    assert rest_addresses(master) == addresses


@pytest.mark.parametrize(
    ("place", "pages"),
    [
        ("spark://m1:6066", ("http://m1:8080",)),
        ("spark://m1:6066,m2:6067?ui=8090", ("http://m1:8090", "http://m2:8090")),
    ],
)
def test_the_pages_of_masters_are_beside_their_submission_servers(
    place: str, pages: tuple[str, ...]
) -> None:
    assert ui_addresses(place) == pages


@pytest.mark.parametrize(
    "master",
    [
        "",
        "spark://",
        "spark://m1:6066?ui=",
        "spark://m1:6066?ui=1&x=2",
        "spark://m1",
        "spark://m1:6066/x",
        "spark://u:p@m1:6066",
        "yarn",
    ],
)
def test_another_address_is_refused_before_an_epoch_is_taken(master: str) -> None:
    with pytest.raises(SpecError):
        StandaloneLauncher(master).host()


@pytest.fixture
def masters() -> Iterator[list[RecordedMaster]]:
    made = [RecordedMaster(), RecordedMaster()]
    yield made
    for master in made:
        master.close()


def launcher_of(*masters: RecordedMaster) -> StandaloneLauncher:
    url = "spark://" + ",".join(master.address for master in masters)
    return StandaloneLauncher(url, pause=lambda _: None)


def test_after_a_fail_over_a_driver_is_unseen_until_its_worker_registers(
    masters: list[RecordedMaster], tmp_path: Path
) -> None:
    old, new = masters
    new.is_standby = True
    launcher = launcher_of(old, new)
    epoch = make_contract_epoch(launcher)
    launch = launcher.launch(cluster_request_for(epoch, tmp_path))
    (driver,) = old.drivers
    assert launcher.probe(epoch, launch).state is RUNNING

    old.close()
    assert launcher.probe(epoch, launch).state is UNSEEN, "no master is active"

    new.is_standby, new.drivers = False, {driver: {"driverState": "UNKNOWN"}}
    assert launcher.probe(epoch, launch).state is UNSEEN
    assert launcher.kill(epoch, launch).state is UNSEEN

    new.drivers[driver]["driverState"] = "RUNNING"
    assert launcher.probe(epoch, launch).state is RUNNING
    old.close = lambda: None  # type: ignore[method-assign]  # it is closed


def test_a_standby_master_is_passed_over(masters: list[RecordedMaster], tmp_path: Path) -> None:
    standby, active = masters
    standby.is_standby = True
    launcher = launcher_of(standby, active)
    epoch = make_contract_epoch(launcher)

    launch = launcher.launch(cluster_request_for(epoch, tmp_path))

    assert (len(standby.submitted), len(active.submitted)) == (0, 1)
    assert launcher.probe(epoch, launch).state is RUNNING
    assert launcher.kill(epoch, launch).state is GONE


def test_where_no_master_takes_it_nothing_was_started(
    masters: list[RecordedMaster], tmp_path: Path
) -> None:
    for master in masters:
        master.is_standby = True
    launcher = launcher_of(*masters)

    with pytest.raises(LaunchError):
        launcher.launch(cluster_request_for(make_contract_epoch(launcher), tmp_path))


def test_a_submission_whose_answer_is_lost_is_not_repeated_elsewhere(
    masters: list[RecordedMaster], tmp_path: Path
) -> None:
    first, second = masters
    first.loses_answers = True
    launcher = launcher_of(first, second)
    epoch = make_contract_epoch(launcher)

    launch = launcher.launch(cluster_request_for(epoch, tmp_path))

    assert (len(first.drivers), len(second.drivers)) == (1, 0)
    assert launcher.probe(epoch, launch).state is UNSEEN, "it may well be there"


def test_a_damaged_handle_is_no_part_of_an_address(
    masters: list[RecordedMaster], tmp_path: Path
) -> None:
    launcher = launcher_of(masters[0])
    epoch = make_contract_epoch(launcher)
    launch = launcher.launch(cluster_request_for(epoch, tmp_path))

    for forged in ("", "../../x", "a b", "driver?x=1", "x" * 300):
        damaged = replace(launch, handle={"submission": forged})
        assert launcher.probe(epoch, damaged).state is UNSEEN


def test_secrets_are_in_the_environment_only(tmp_path: Path) -> None:
    epoch = make_contract_epoch(StandaloneLauncher("spark://m1:6066"))
    request = cluster_request_for(
        epoch,
        tmp_path,
        conf={"spark.executor.memory": "1g"},
        secret_conf={"spark.hadoop.fs.s3a.secret.key": "planted-1"},
        environment={"API_KEY": "planted-2"},
        jars=("a.jar", "b.jar"),
    )
    assert request.application is not None

    body = submission(request.application, epoch)

    environment = body.pop("environmentVariables")
    assert not re.search("planted", json.dumps(body))
    assert environment["API_KEY"] == "planted-2"
    assert json.loads(environment[PRIVATE_CONF]) == {"spark.hadoop.fs.s3a.secret.key": "planted-1"}
    assert "planted" not in repr(request)


KEYS = {
    "spark.hadoop.fs.s3a.bucket.streams.access.key": "id",
    "spark.hadoop.fs.s3a.bucket.streams.secret.key": "planted",
}


@pytest.mark.parametrize(
    ("main", "keys", "expected"),
    [
        ("s3a://streams/home/main.py", KEYS, ("id", "planted")),
        ("s3a://other/home/main.py", KEYS, (None, None)),
        ("/shared/main.py", KEYS, (None, None)),
        ("s3a://streams/main.py", {"spark.hadoop.fs.s3a.access.key": "all"}, ("all", None)),
        ("s3a://streams/main.py", {}, (None, None)),
    ],
)
def test_spark_submit_can_read_the_package_before_python_reads_the_secret_configuration(
    tmp_path: Path, main: str, keys: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    epoch = make_contract_epoch(StandaloneLauncher("spark://m1:6066"))
    request = cluster_request_for(epoch, tmp_path, secret_conf=keys)
    assert request.application is not None

    body = submission(replace(request.application, main=main), epoch)

    environment = body.pop("environmentVariables")
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert tuple(environment.get(name) for name in names) == expected
    assert "planted" not in json.dumps(body)


def test_keys_of_the_streams_environment_stay(tmp_path: Path) -> None:
    epoch = make_contract_epoch(StandaloneLauncher("spark://m1:6066"))
    own = {"AWS_ACCESS_KEY_ID": "own"}
    request = cluster_request_for(epoch, tmp_path, secret_conf=KEYS, environment=own)
    assert request.application is not None

    body = submission(replace(request.application, main="s3a://streams/main.py"), epoch)

    assert body["environmentVariables"]["AWS_ACCESS_KEY_ID"] == "own"


@pytest.mark.parametrize(
    ("version", "given", "is_opened"),
    [
        ("3.5.9", "-Xss4m", True),
        ("3.5.9", "", True),
        ("4.3.0", "-Xss4m", False),
        ("4.3.0", "", False),
    ],
)
def test_a_driver_of_spark_3_gets_the_packages_that_it_needs_of_java_17(
    tmp_path: Path, version: str, given: str, is_opened: bool
) -> None:
    key = "spark.driver.extraJavaOptions"
    epoch = make_contract_epoch(StandaloneLauncher("spark://m1:6066"))
    request = cluster_request_for(epoch, tmp_path, conf={key: given} if given else {})
    assert request.application is not None

    body = submission(replace(request.application, spark_version=version), epoch)

    options = body["sparkProperties"].get(key, "").split()
    assert ("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in options) is is_opened
    assert ("-Xss4m" in options) is bool(given)


def test_the_cluster_never_restarts_a_driver_itself(tmp_path: Path) -> None:
    epoch = make_contract_epoch(StandaloneLauncher("spark://m1:6066"))
    request = cluster_request_for(epoch, tmp_path, conf={"spark.driver.supervise": "true"})
    assert request.application is not None

    body = submission(request.application, epoch)

    assert body["sparkProperties"]["spark.driver.supervise"] == "false"
    assert body["appArgs"][-2:] == ["--token", epoch.mark]
