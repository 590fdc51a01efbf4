"""What the API server asks of clusters and stores on the word of records that a stream can write."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeNotAllowed, NotTheOwner
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.launch import registry
from airflow_streaming.launch.registry import ON_KUBERNETES
from airflow_streaming.model.host import this_host
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.epoch import Epoch, Host, Launch, LaunchCause
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.spark.launchers import STANDALONE, YARN
from airflow_streaming.plugins.access.kept import Kept
from tests.unit.launch.jobs_launcher import JobsLauncher
from tests.unit.launch.recorded_master import JsonServer
from tests.unit.world import World

NOW = datetime.now(UTC)
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://SERVER"}}]
users: [{name: u, user: {token: secret}}]
"""
pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass
class Inside:
    """A server that the API server can reach, and that nobody has named to it."""

    asked: list[str] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    server: JsonServer = field(init=False)

    def __post_init__(self) -> None:
        self.may_answer.set()
        self.server = JsonServer(self.answer)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append(path)
        self.may_answer.wait(60)
        return 200, {"success": True, "driverState": "FINISHED", "items": []}

    @property
    def master(self) -> str:
        return f"spark://{self.server.address}"

    @property
    def places(self) -> dict[str, str]:
        """Return what a forged record names, by launcher."""
        return {
            STANDALONE: self.master,
            YARN: f"yarn://http://{self.server.address}",
            **dict.fromkeys(ON_KUBERNETES, f"k8s://http://{self.server.address}/streams"),
            "jobs": f"http://{self.server.address}",
        }


@pytest.fixture
def inside() -> Iterator[Inside]:
    found = Inside()
    yield found
    found.may_answer.set()
    found.server.close()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, inside: Inside) -> None:
    host, _, port = inside.server.address.partition(":")
    cluster = {"deploy-mode": "cluster", "rest-port": port}
    for name, told in (
        ("ELSEWHERE", {"conn_type": "spark", "host": "spark://other.example.com:7077"}),
        ("HERE", {"conn_type": "spark", "host": f"spark://{host}:7077", "extra": cluster}),
        ("AWS", {"conn_type": "aws", "login": "k", "password": "s"}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(told))


def an_epoch(launcher: str = "local", host: Host | None = None) -> Epoch:
    return Epoch(
        number=1,
        stream="orders",
        deployment=1,
        token="t" * 32,
        host=host or this_host(),
        launcher=launcher,
        cause=LaunchCause.FIRST,
        reason="The first launch.",
        by="test",
        created_at=NOW,
    )


def a_change(leader: str) -> Change:
    return Change(
        number=4,
        stream="orders",
        what=ChangeKind.CUTOVER,
        replaced=1,
        deployment=2,
        checkpoint="/ck",
        by="kim",
        reason="x",
        at=NOW,
        leader=leader,
    )


def keeps(conn_id: str, home: str = "/srv/streams", **more: Any) -> Kept:
    actor = Actor(dag_id="orders", bundle="b", file="f.py", team="")
    return Kept(
        **{
            "home": home,
            "home_conn_id": None,
            "stream": "orders",
            "written": home,
            "dag": actor,
            "conn_id": conn_id,
            "conn_written": conn_id,
            **more,
        }
    )


def launched(epoch: Epoch) -> Launch:
    return Launch(
        epoch=epoch.number,
        token=epoch.token,
        host=epoch.host,
        launched_at=epoch.created_at,
        handle={"submission": "driver-1"},
        driver="driver-1",
        log="",
    )


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("conn_id", ["elsewhere", "nosuch", "aws", ""])
def test_a_cluster_that_only_a_record_names_is_not_asked(
    inside: Inside, conn_id: str, tmp_path: Path
) -> None:
    from airflow_streaming.plugins.access.drivers import PageDrivers

    drivers = PageDrivers(keeps(conn_id))
    for launcher, host in inside.places.items():
        epoch = an_epoch(launcher=launcher, host=Host(name=host))
        assert drivers.probe(epoch, launched(epoch)).state is ProcessState.UNSEEN
        assert drivers.logs(epoch, launched(epoch), tmp_path / "x.log", 100).tail is None

    assert inside.asked == []


@pytest.mark.usefixtures("connections")
def test_the_cluster_of_the_tasks_connection_is_asked(inside: Inside) -> None:
    from airflow_streaming.plugins.access.drivers import PageDrivers

    epoch = an_epoch(launcher=STANDALONE, host=Host(name=inside.master))

    assert PageDrivers(keeps("here")).probe(epoch, launched(epoch)).state is ProcessState.GONE
    assert inside.asked == ["/v1/submissions/status/driver-1"]


@pytest.mark.usefixtures("connections")
def test_a_cluster_that_hangs_does_not_hold_the_page(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.plugins.access import drivers

    monkeypatch.setattr(drivers, "PATIENCE", 0.2)
    epoch = an_epoch(launcher=STANDALONE, host=Host(name=inside.master))
    inside.may_answer.clear()

    seen = drivers.PageDrivers(keeps("here")).probe(epoch, launched(epoch))

    assert (seen.state, inside.may_answer.is_set()) == (ProcessState.UNSEEN, False)


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize(
    ("written", "clusters", "is_asked"),
    [
        pytest.param("here", "", True, id="the_dag_file_spells_the_connection_out"),
        pytest.param(None, "", False, id="a_template_gives_the_connection"),
        pytest.param(None, "{}", True, id="the_cluster_is_listed"),
        pytest.param("here", "spark://other:6066", True, id="another_cluster_is_listed"),
    ],
)
def test_a_run_cannot_choose_the_cluster_that_pages_ask(
    inside: Inside,
    monkeypatch: pytest.MonkeyPatch,
    written: str | None,
    clusters: str,
    is_asked: bool,
) -> None:
    from airflow_streaming.plugins.access.drivers import PageDrivers

    monkeypatch.setenv("AIRFLOW__STREAMING__CLUSTERS", clusters.format(inside.master))
    epoch = an_epoch(launcher=STANDALONE, host=Host(name=inside.master))

    seen = PageDrivers(keeps("here", conn_written=written)).probe(epoch, launched(epoch))

    assert (seen.was_asked, bool(inside.asked)) == (is_asked, is_asked)


def test_a_task_without_a_known_connection_is_not_said_to_have_a_nameless_one(
    inside: Inside,
) -> None:
    from airflow_streaming.plugins.access.drivers import PageDrivers

    epoch = an_epoch(launcher=STANDALONE, host=Host(name=inside.master))

    seen = PageDrivers(keeps("", conn_written=None)).probe(epoch, launched(epoch))

    assert seen.detail.endswith("; no Spark connection of its task is known here")


@pytest.mark.usefixtures("connections")
def test_an_answer_that_drips_does_not_hold_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_streaming.launch.clusters.rest import Unreachable, answers_within, ask

    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()
        threading.Thread(target=_drip, args=(server, done), daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            with answers_within(0.5), pytest.raises(Unreachable, match="whole answer"):
                ask(address)
        finally:
            done.set()


def _drip(server: socket.socket, done: threading.Event) -> None:
    client, _ = server.accept()
    with client, contextlib.suppress(OSError):
        client.recv(4096)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not done.wait(0.02):
            client.sendall(b"x")


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("launcher", [STANDALONE, YARN, *ON_KUBERNETES, "jobs"])
def test_no_page_asks_the_cluster_of_a_forged_epoch(
    demo_home: Path,
    tmp_path: Path,
    inside: Inside,
    monkeypatch: pytest.MonkeyPatch,
    launcher: str,
) -> None:
    import shutil

    from fastapi.testclient import TestClient

    from tests.page.server import page_app

    home = Path(shutil.copytree(demo_home, tmp_path / "home"))
    stream = open_home(str(home)).stream("orders_eu")
    newest = stream.newest_epoch()
    assert newest is not None
    forged = replace(
        newest,
        number=newest.number + 1,
        launcher=launcher,
        host=Host(name=inside.places[launcher]),
    )
    standbys = stream.standbys()
    waiting = replace(forged, number=1, stream=standbys.name, serves=stream.name, standby=True)
    for records, epoch in ((stream, forged), (standbys, waiting)):
        records.create_epoch(epoch)
        records.record_launch(launched(epoch))
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG.replace("SERVER", inside.server.address))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setitem(
        registry._OWN, "jobs", lambda *_: JobsLauncher(f"http://{inside.server.address}", "t")
    )
    with TestClient(page_app(home, monkeypatch.setattr)) as client:
        found = client.get("/api/streams/orders_eu/orders_eu")
        reply = client.post(
            "/api/streams/orders_eu/orders_eu/acts/declare-dead",
            headers={"X-Streaming-Act": "1"},
            json={"reason": "x", "confirm": "orders_eu", "number": forged.number},
        )

    assert (found.status_code, inside.asked) == (200, []), found.text
    assert reply.status_code == 409, reply.text
    assert stream.death(forged.number) is None


@pytest.mark.usefixtures("connections")
def test_backups_are_not_opened_with_a_connection_of_another_type() -> None:
    from airflow_streaming.plugins.board import backups_of

    store = "s3://bucket/backups"
    opens = backups_of(keeps("", home_conn_id="aws", backup_store=store, backup_written=store))

    assert opens is not None
    with pytest.raises(HomeNotAllowed):
        opens()


def test_backups_are_opened_with_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_streaming.plugins import board

    given: list[bool] = []
    monkeypatch.setattr(
        board, "open_backup_store", lambda uri, *, looks_only=False, **_: given.append(looks_only)
    )
    opens = board.backups_of(keeps(""))
    assert opens is not None
    opens()

    assert given == [True]


def test_a_guest_of_a_cutover_does_not_command_the_stream_of_another_dag(world: World) -> None:
    from airflow_streaming.plugins.acts import _command

    guest, led = _guest_and_leader(world.home)
    kept = keeps("", stream=guest.name)

    with pytest.raises(NotTheOwner):
        _command(guest, kept, "cutover", "abort", by="kim", reason="x", number=4)
    assert led.name == "clicks"


def _guest_and_leader(home: StreamHome) -> tuple[StreamHome, StreamHome]:
    led = home.beside("clicks")
    led.claim_ownership(Actor(dag_id="clicks", bundle="b", file="g.py", team=""), by="t", now=NOW)
    home.claim_ownership(Actor(dag_id="orders", bundle="b", file="f.py", team=""), by="t", now=NOW)
    home.begin_change(a_change(leader="clicks/4"))
    return home, led


def test_a_leader_with_an_absurd_number_is_none(world: World) -> None:
    change = a_change(leader="clicks/" + "9" * 5000)

    led, number = world.home.leader_of(change)
    assert (led.name, number) == ("orders", change.number)
