"""What the answers of YARN prove, what is submitted to it, and which ResourceManager is believed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.launch_context import take_private_conf
from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.clusters.yarn import YarnLauncher, mark_tag, submit_conf, tags_of
from airflow_streaming.launch.clusters.yarn_api import (
    Application,
    ManagerInfo,
    NodeReport,
    absence_is_proof,
    judge,
    judge_node,
    parse_place,
    place_of,
)
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.spark.conf import DIES_WITH_JVM, PRIVATE_CONF
from tests.unit.launch.recorded_yarn import STARTED
from tests.unit.launch.test_port_contract import (
    YarnWorld,
    cluster_request_for,
    make_contract_epoch,
)

RUNNING, GONE, UNSEEN = ProcessState.RUNNING, ProcessState.GONE, ProcessState.UNSEEN
EXITED = (
    "Application application_1795377600000_0001 failed 1 times (global limit =2; local limit is =1) "
    "due to AM Container for appattempt_1795377600000_0001_000001 exited with  exitCode: {code}\n"
    "Failing this attempt.Diagnostics: [2026-11-22 20:00:00.000]Exception from container-launch."
)
TIMED_OUT = (
    "Application application_1795377600000_0001 failed 1 times due to ApplicationMaster for attempt "
    "appattempt_1795377600000_0001_000001 timed out. Failing the application."
)
CONTAINER = (
    "http://node1:8042/node/containerlogs/container_e17_1795377600000_0001_01_000001/airflow"
)


def application(**fields: Any) -> Application:
    body = {
        "id": "application_1795377600000_0001",
        "state": "RUNNING",
        "startedTime": STARTED + 86_400_000,
        "amContainerLogs": CONTAINER,
        **fields,
    }
    found = Application.of(body)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        *(({"state": s}, RUNNING) for s in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")),
        ({"state": "RUNNING"}, RUNNING),
        # The NodeManager has reported that the process has ended.
        ({"state": "FAILED", "diagnostics": EXITED.format(code=13)}, GONE),
        ({"state": "FAILED", "diagnostics": EXITED.format(code=137)}, GONE),
        ({"state": "FAILED", "diagnostics": EXITED.format(code=-104)}, GONE),
        # The ResourceManager has given it up: a lost node, a preemption, a silent master.
        ({"state": "FAILED", "diagnostics": EXITED.format(code=-100)}, None),
        ({"state": "FAILED", "diagnostics": EXITED.format(code=-102)}, None),
        ({"state": "FAILED", "diagnostics": TIMED_OUT}, None),
        # What an application says of itself is not what its node says.
        ({"state": "FAILED", "diagnostics": f"User: {EXITED.format(code=1)}"}, None),
        ({"state": "KILLED", "diagnostics": EXITED.format(code=137)}, None),
        ({"state": "KILLED"}, None),
        ({"state": "FINISHED"}, None),
        # Killed in the queue.
        ({"state": "KILLED", "amContainerLogs": None}, GONE),
        ({"state": "FINISHED", "amContainerLogs": None}, UNSEEN),
        # A reader without rights sees the state and no details.
        ({"state": "KILLED", "amContainerLogs": None, "startedTime": None}, UNSEEN),
        # Nothing that YARN sends.
        ({"state": "finished"}, UNSEEN),
        ({"state": ["FINISHED"]}, UNSEEN),
        ({"state": None}, UNSEEN),
    ],
)
def test_what_a_state_proves(fields: dict[str, Any], state: ProcessState | None) -> None:
    seen = judge(application(**fields))

    assert (seen.state if seen else None) is state


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (NodeReport(is_known=True, state="DONE"), GONE),
        (NodeReport(is_known=True, state="COMPLETE"), GONE),
        (NodeReport(is_known=True, state="RUNNING"), RUNNING),
        (NodeReport(is_known=True, state="KILLING"), RUNNING),
        (NodeReport(is_known=False, up_since=STARTED), GONE),
        # Started after the application: a container may live on that it has never heard of.
        (NodeReport(is_known=False, up_since=STARTED + 86_400_001), UNSEEN),
        # As far as the clocks of two hosts can be trusted.
        (NodeReport(is_known=False, up_since=STARTED + 86_400_000 - 60_000), UNSEEN),
        (NodeReport(is_known=False), UNSEEN),
        (NodeReport(), UNSEEN),
    ],
)
def test_what_a_node_proves(report: NodeReport, state: ProcessState) -> None:
    assert judge_node(application(state="KILLED"), report).state is state


@pytest.mark.parametrize(
    ("since", "store", "is_proof"),
    [
        (timedelta(days=-1), "org.apache...recovery.NullRMStateStore", True),
        (timedelta(days=-1), "", True),
        (timedelta(minutes=-5), "org.apache...recovery.NullRMStateStore", False),
        (timedelta(hours=1), "org.apache...recovery.NullRMStateStore", False),
        (timedelta(hours=1), "", False),
        (timedelta(hours=1), "org.apache...recovery.ZKRMStateStore", True),
        (None, "", False),
    ],
)
def test_when_absence_proves_that_nothing_was_submitted(
    since: timedelta | None, store: str, is_proof: bool
) -> None:
    began = datetime(2026, 11, 22, tzinfo=UTC)
    at = None if since is None else int((began + since).timestamp() * 1000)

    assert absence_is_proof(ManagerInfo(since=at, store=store), began) is is_proof


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        ("http://rm1:8088", ("http://rm1:8088",)),
        ("rm1:8088, https://rm2:8090/", ("http://rm1:8088", "https://rm2:8090")),
    ],
)
def test_every_resource_manager_is_asked(addresses: str, found: tuple[str, ...]) -> None:
    assert parse_place(place_of(addresses)) == found


@pytest.mark.parametrize(
    "addresses", ["", ",", "http://u:p@rm1:8088", "http://rm1:8088/x", "ftp://rm"]
)
def test_another_address_is_refused(addresses: str) -> None:
    with pytest.raises(SpecError):
        place_of(addresses)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[YarnWorld]:
    made = YarnWorld(tmp_path)
    yield made
    made.close()


def test_a_second_submission_of_an_epoch_finds_the_first(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)

    first, second = world.start(epoch), world.made().launch(world.request(epoch))

    assert first.handle == second.handle
    assert len(world.cluster.submitted) == 1


def test_the_driver_of_another_epoch_is_not_taken_for_it(world: YarnWorld) -> None:
    epoch, other = (make_contract_epoch(world.launcher) for _ in range(2))
    world.start(other)

    assert world.launcher.find(epoch) is None
    assert world.launcher.probe(epoch, None).state is GONE
    assert world.launcher.kill(epoch, None).state is GONE
    assert world.launcher.probe(other, None).state is RUNNING


@pytest.mark.parametrize("standby", ["redirect", "text"])
def test_a_standby_is_no_answer(world: YarnWorld, standby: str) -> None:
    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)
    for manager in world.managers:
        manager.standby = standby

    launcher = world.made(clock=lambda: 1e9)

    assert launcher.probe(epoch, launch).state is UNSEEN
    assert launcher.probe(epoch, None).state is UNSEEN
    assert launcher.kill(epoch, launch).state is UNSEEN
    assert launcher.find(epoch) is None
    with pytest.raises(LaunchError):
        launcher.launch(world.request(make_contract_epoch(launcher)))
    assert len(world.cluster.submitted) == 1

    world.managers[0].standby = ""
    assert launcher.probe(epoch, launch).state is RUNNING


def test_a_killed_application_is_gone_once_its_node_says_so(world: YarnWorld) -> None:
    world.cluster.kills_at_once = False
    times = iter(range(0, 1000, 2))
    launcher = world.made(clock=lambda: float(next(times)))
    epoch = make_contract_epoch(launcher)
    launch = launcher.launch(world.request(epoch))
    container = world.cluster.container(launch.handle["application"])

    assert launcher.kill(epoch, launch).state is RUNNING, "the node has not killed it yet"

    world.cluster.node.is_silent = True
    assert launcher.probe(epoch, launch).state is UNSEEN
    world.cluster.node.is_silent = False
    world.cluster.node.containers[container] = "DONE"
    assert launcher.probe(epoch, launch).state is GONE
    assert len(world.cluster.killed_by) == 1


def test_a_node_that_was_restarted_proves_nothing(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)
    world.cluster.end(launch.handle["application"], "FAILED", TIMED_OUT)
    world.cluster.node.started = STARTED + 10 * 86_400_000

    assert world.launcher.probe(epoch, launch).state is UNSEEN


def test_an_application_that_was_forgotten_is_unseen(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)
    world.cluster.applications.clear()
    assert world.made(clock=lambda: 1e9).probe(epoch, launch).state is UNSEEN

    world.cluster.store = "org.apache.hadoop...recovery.NullRMStateStore"
    world.cluster.active_since = int(datetime.now(UTC).timestamp() * 1000)
    assert world.launcher.probe(epoch, None).state is UNSEEN


def test_a_submission_that_leaves_no_application_failed(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)
    launcher = world.made()
    launcher._run = lambda *_: 1

    with pytest.raises(LaunchError):
        launcher.launch(world.request(epoch))

    assert list((world.folder / "logs").iterdir()) == []


def test_a_submission_that_cannot_be_looked_up_is_no_failed_one(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)
    launcher = world.made()

    def fails_over(*_: Any) -> int:
        world.managers[1].standby = "redirect"
        return 1

    launcher._run = fails_over
    launch = launcher.launch(world.request(epoch))

    assert launch.handle == {}
    assert launcher.probe(epoch, launch).state is UNSEEN


def test_one_list_answers_for_all_streams(world: YarnWorld) -> None:
    epochs = [make_contract_epoch(world.launcher) for _ in range(20)]
    launches = [world.start(epoch) for epoch in epochs]
    asked = world.managers[1].asked
    world.made(clock=lambda: 5.0).probe(epochs[0], launches[0])
    before = len(asked)

    states = {
        world.made(clock=lambda: 5.0).probe(epoch, launch).state
        for epoch, launch in zip(epochs, launches, strict=True)
    }

    assert states == {RUNNING}
    assert len(asked) - before <= 1


def test_kerberos_is_answered_with_a_ticket(world: YarnWorld) -> None:
    hosts: list[str] = []

    def ticket(host: str) -> str:
        hosts.append(host)
        return "Negotiate ticket"

    world.managers[1].wants_kerberos = True
    launcher = world.made(negotiate=ticket)
    epoch = make_contract_epoch(launcher)

    launch = launcher.launch(world.request(epoch))

    assert launcher.kill(epoch, launch).state is GONE
    assert set(hosts) == {"127.0.0.1"}


def test_without_a_ticket_nothing_is_seen(world: YarnWorld) -> None:
    def no_ticket(host: str) -> str:
        raise Unreachable("there is no ticket")

    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)
    world.managers[1].wants_kerberos = True

    assert world.made(negotiate=no_ticket, clock=lambda: 1e9).probe(epoch, launch).state is UNSEEN


def test_a_stream_is_tagged_and_never_restarted_by_yarn(tmp_path: Path) -> None:
    epoch = replace(make_contract_epoch(YarnLauncher("yarn://http://rm1:8088")), stream="Orders.v2")
    conf = {"spark.yarn.maxAppAttempts": "4", "spark.yarn.tags": "team-a"}
    request = cluster_request_for(epoch, tmp_path, conf=conf)
    assert request.application is not None

    submitted = submit_conf(epoch, request.application)

    assert submitted["spark.yarn.maxAppAttempts"] == "1"
    assert submitted["spark.yarn.submit.waitAppCompletion"] == "false"
    assert submitted[f"spark.yarn.appMasterEnv.{DIES_WITH_JVM}"] == "1"
    tags = submitted["spark.yarn.tags"].split(",")
    assert tags == ["team-a", *tags_of(epoch)]
    assert {"airflow-streaming-stream-orders.v2", "airflow-streaming-epoch-7"} <= set(tags)
    assert mark_tag(epoch).endswith(epoch.mark)
    assert all(tag == tag.lower() and tag.isascii() and len(tag) <= 100 for tag in tags)
    assert epoch.token not in submitted["spark.yarn.tags"]


def test_secrets_travel_in_the_private_file_and_the_driver_learns_what_to_hide(
    world: YarnWorld,
) -> None:
    epoch = make_contract_epoch(world.launcher)
    secret = {"spark.hadoop.fs.s3a.secret.key": 'planted"$1'}

    launch = world.launcher.launch(
        world.request(epoch, secret_conf=secret, environment={"API": "planted-2"})
    )

    (submitted,) = world.cluster.submitted
    assert submitted["spark.hadoop.fs.s3a.secret.key"] == 'planted"$1'
    assert submitted["spark.yarn.appMasterEnv.API"] == "planted-2"
    environment = {PRIVATE_CONF: submitted[f"spark.yarn.appMasterEnv.{PRIVATE_CONF}"]}
    assert json.loads(base64.b64decode(environment[PRIVATE_CONF])) == secret
    assert take_private_conf(environment) == secret
    assert environment == {}
    assert submitted["spark.redaction.regex"].endswith(r"|spark\.yarn\.appMasterEnv\.")
    assert "planted" not in json.dumps(launch.to_dict())
    assert list((world.folder / "logs").iterdir()) == [], "the file is gone after the submission"


@pytest.mark.parametrize(
    ("conf", "defaults", "expected"),
    [
        ({"spark.redaction.regex": "mine"}, "spark.redaction.regex theirs", "(?:mine)|"),
        ({}, "spark.a b\nspark.redaction.regex   theirs\n", "(?:theirs)|"),
    ],
)
def test_what_a_user_redacts_is_redacted_as_well(
    tmp_path: Path, conf: dict[str, str], defaults: str, expected: str
) -> None:
    epoch = make_contract_epoch(YarnLauncher("yarn://http://rm1:8088"))
    request = cluster_request_for(epoch, tmp_path, conf=conf, defaults=defaults)
    assert request.application is not None

    regex = submit_conf(epoch, request.application)["spark.redaction.regex"]

    assert regex.startswith(expected)


@pytest.mark.parametrize("value", ['a"b', "a$HOME", "`id`", "a\\b", "a\nb"])
def test_what_a_shell_would_change_is_refused(tmp_path: Path, value: str) -> None:
    epoch = make_contract_epoch(YarnLauncher("yarn://http://rm1:8088"))
    request = cluster_request_for(epoch, tmp_path, environment={"API": value})
    assert request.application is not None

    with pytest.raises(SpecError):
        submit_conf(epoch, request.application)


def test_the_log_is_where_yarn_keeps_it(world: YarnWorld) -> None:
    epoch = make_contract_epoch(world.launcher)
    launch = world.start(epoch)

    shown = world.launcher.logs(epoch, launch, world.folder / "log", 1000)

    application = launch.handle["application"]
    assert shown.tail is None
    assert world.cluster.container(application) in shown.place
    assert application in shown.place
