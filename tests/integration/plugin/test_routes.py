"""The pages behind a task's links, on a real API server, and users who would have more of them."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.host import this_host
from airflow_streaming.model.records.epoch import Epoch, Host, Launch, LaunchCause
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.status import DriverState, Status
from airflow_streaming.model.uris import digest_of
from tests.integration.plugin.api import BUNDLE, PASSWORDS, RUN, add_dag, forge_xcom, settings_of

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

# What Airflow's own API server warns about at its start is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

NOW = datetime.now(UTC)
SECRET = "a line of the driver\n"


def page(dag: str, name: str = "driver-log") -> str:
    return f"/streaming/tasks/{dag}/{RUN}/keep/-1/{name}"


@dataclass
class Listener:
    """A server that attackers would like the API server to connect to."""

    port: int = 0
    connected: list[socket.socket] = field(default_factory=list)

    def forget(self) -> None:
        for connection in self.connected:
            connection.close()
        self.connected.clear()

    def listen(self, listening: socket.socket) -> None:
        while True:
            try:
                self.connected.append(listening.accept()[0])
            except OSError:
                return


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    found = Listener()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        found.port = listening.getsockname()[1]
        threading.Thread(target=found.listen, args=(listening,), daemon=True).start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)
    found.forget()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def app(folder: Path, listener: Listener) -> Iterator[FastAPI]:
    """Return Airflow's own app with our plugin in it, two users, and dags that have run."""
    with settings_of(folder) as patch:
        away = {"endpoint_url": f"http://127.0.0.1:{listener.port}", "region": "eu-1"}
        for name, kind in (("ours", "stream_home"), ("theirs", "aws")):
            stored = {"conn_type": kind, "login": "key", "password": "secret", "extra": away}
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(stored))
        from airflow.api_fastapi.app import create_app
        from airflow.utils.db import initdb

        initdb()
        home = str(folder / "home")
        add_dag(folder, "orders", home=home)
        add_dag(folder, "thief", home=home)
        add_dag(folder, "templated", home="{{ params.home }}", chosen=home)
        add_dag(folder, "theirs", home="s3://bucket/streams", conn="theirs")
        add_dag(folder, "ours", home="s3://bucket/streams", conn="ours")
        for scheme in ("http", "ftp"):
            add_dag(folder, scheme, home=f"{scheme}://127.0.0.1:{listener.port}/streams")
        yield create_app(apps="core")


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, follow_redirects=False) as client:
        yield client


@pytest.fixture(scope="module")
def bob(client: TestClient) -> dict[str, str]:
    """Return the headers of a viewer."""
    return token(client, "bob")


def token(client: TestClient, user: str) -> dict[str, str]:
    reply = client.post("/auth/token", json={"username": user, "password": PASSWORDS[user]})
    assert reply.status_code == 201, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}"}


def streaming_app(app: FastAPI) -> FastAPI:
    (mounted,) = [route for route in app.routes if getattr(route, "path", "") == "/streaming"]
    found: Any = mounted.app  # type: ignore[attr-defined]
    assert isinstance(found, FastAPI)
    return found


@pytest.fixture(scope="module")
def home(app: FastAPI, folder: Path) -> StreamHome:
    """Return the stream of dag ``orders``, with one launched driver."""
    return make_stream(folder, str(folder / "home"), "orders")


def make_stream(folder: Path, home: str, name: str) -> StreamHome:
    """Return the stream of a dag of its name, with one launched driver and its log."""
    stream = open_home(home).stream(name)
    owner = Actor(dag_id=name, bundle=BUNDLE, file=f"{name}.py")
    stream.claim_ownership(owner, by="a task", now=NOW)
    stream.create_epoch(
        Epoch(
            number=1,
            stream=name,
            deployment=1,
            token="t",
            host=this_host(),
            launcher="local",
            cause=LaunchCause.FIRST,
            reason="r",
            by="b",
            created_at=NOW,
        )
    )
    log = folder / "drivers" / digest_of(home) / name / "000001.log"
    log.parent.mkdir(parents=True)
    log.write_text(SECRET)
    stream.record_launch(
        Launch(
            epoch=1,
            token="t",
            host=this_host(),
            launched_at=NOW,
            handle={"pid": "1", "started": "0.0"},
            driver="pid 1",
            log=str(log),
        )
    )
    return stream


def test_every_route_refuses_a_stranger(app: FastAPI, client: TestClient) -> None:
    routes: Any = streaming_app(app).routes
    asked = [(method, route.path) for route in routes for method in route.methods]
    assert {method for method, _ in asked} == {"GET", "POST"}
    for method, path in asked:
        filled = re.sub(r"[{}]|:path", "", path.replace("{map_index}", "-1"))
        reply = client.request(method, f"/streaming{filled}", follow_redirects=False)
        assert reply.status_code in (401, 403), path


def test_a_task_that_has_not_started_has_no_page(client: TestClient, bob: dict[str, str]) -> None:
    other_run = page("orders").replace(RUN, "run-2")

    assert client.get(other_run, headers=bob).status_code == 404


def test_the_log_page_shows_the_end_of_the_drivers_log(
    home: StreamHome, client: TestClient, bob: dict[str, str]
) -> None:
    reply = client.get(page("orders"), headers=bob)

    assert reply.status_code == 200
    assert SECRET in reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_forged_log_path_is_named_and_never_read(
    home: StreamHome, client: TestClient, bob: dict[str, str], tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of another user")
    record = Path(home.store.uri) / "orders/epochs/000001/launch.json"
    before = record.read_text()
    launch = home.launch(1)
    assert launch is not None
    record.write_text(before.replace(launch.log, str(secret)))
    try:
        reply = client.get(page("orders"), headers=bob)
    finally:
        record.write_text(before)

    assert str(secret) in reply.text
    assert "of another user" not in reply.text


def launch_of(stream: StreamHome) -> Launch:
    launch = stream.launch(1)
    assert launch is not None
    return launch


def test_the_log_of_another_home_is_not_shown(
    home: StreamHome, client: TestClient, bob: dict[str, str], tmp_path: Path
) -> None:
    drivers = Path(launch_of(home).log).parents[2]
    other = drivers / digest_of("/another/home") / "orders" / "000001.log"
    other.parent.mkdir(parents=True)
    other.write_text("of another stream")
    record = Path(home.store.uri) / "orders/epochs/000001/launch.json"
    before = record.read_text()
    record.write_text(before.replace(launch_of(home).log, str(other)))
    try:
        reply = client.get(page("orders"), headers=bob)
    finally:
        record.write_text(before)

    assert "of another stream" not in reply.text


def test_the_log_of_another_stream_is_not_shown_for_a_forged_epoch(
    home: StreamHome, client: TestClient, bob: dict[str, str]
) -> None:
    other = Path(launch_of(home).log).parents[1] / "payments" / "000002.log"
    other.parent.mkdir(parents=True)
    other.write_text("of another stream")
    forged = replace(home.epoch(1), number=2, stream="payments")
    launch = replace(launch_of(home), epoch=2, log=str(other))
    home.store.create("orders/epochs/000002.json", forged.to_bytes())
    home.store.create("orders/epochs/000002/launch.json", launch.to_bytes("orders"))
    try:
        reply = client.get(page("orders"), headers=bob)
    finally:
        home.store.delete("orders/epochs/000002/launch.json")
        home.store.delete("orders/epochs/000002.json")

    assert "of another stream" not in reply.text
    assert "its stream is 'payments', not 'orders'" in reply.text


@pytest.mark.parametrize(
    ("url", "code", "location"),
    [
        (None, 404, None),
        ("http://{host}:4040", 307, "http://{host}:4040"),
        ("http://{host}:4040/auth/logout", 403, None),
        # The browser of the test is on another host.
        ("http://127.0.0.1:4040", 403, None),
        ("http://evil.example.com/", 403, None),
        ("http://{host}@evil.example.com/", 403, None),
    ],
)
def test_the_spark_ui_is_followed_only_to_hosts_that_airflow_knows(
    home: StreamHome,
    client: TestClient,
    bob: dict[str, str],
    url: str | None,
    code: int,
    location: str | None,
) -> None:
    host = this_host().name.lower()
    # The stream can write both records.
    record = Path(home.store.uri) / "orders/epochs/000001/launch.json"
    launch = Launch.from_bytes(record.read_bytes())
    forged = replace(launch, host=Host(name="evil.example.com"))
    record.write_bytes(forged.to_bytes("orders"))
    home.store.replace(
        "orders/epochs/000001/status.json",
        status(url and url.format(host=host)).to_bytes(),
    )

    reply = client.get(page("orders", "spark-ui"), headers=bob)
    record.write_bytes(launch.to_bytes("orders"))

    assert reply.status_code == code, reply.text
    assert reply.headers.get("location") == (location and location.format(host=host))


def status(url: str | None) -> Status:
    return Status(
        stream="orders",
        epoch=1,
        token="t",
        host=this_host(),
        pid=1,
        state=DriverState.RUNNING,
        beat=1,
        at=NOW,
        started_at=NOW,
        spark_version="4.3.0",
        ui_url=url,
    )


@pytest.mark.parametrize(
    ("scheme", "conn"),
    [
        ("http://127.0.0.1:{port}/streams", None),
        ("ftp://127.0.0.1:{port}/streams", None),
        ("zip://*.zip::http://127.0.0.1:{port}/streams.zip", None),
        ("s3://bucket/streams", "ours"),
        ("s3://bucket/streams", "theirs"),
    ],
    ids=["http", "ftp", "zip chain", "another connection", "a connection of another type"],
)
def test_forged_xcom_leads_the_api_server_nowhere(
    home: StreamHome,
    client: TestClient,
    bob: dict[str, str],
    listener: Listener,
    scheme: str,
    conn: str | None,
) -> None:
    listener.forget()
    forge_xcom("orders", home=scheme.format(port=listener.port), home_conn_id=conn, stream="orders")

    reply = client.get(page("orders"), headers=bob)

    assert listener.connected == []
    assert (reply.status_code, SECRET in reply.text) == (200, True)


def test_forged_xcom_does_not_show_the_stream_of_another_dag(
    home: StreamHome, client: TestClient, bob: dict[str, str]
) -> None:
    forge_xcom("thief", home=home.store.uri, home_conn_id=None, stream="orders")

    reply = client.get(page("thief"), headers=bob)

    assert reply.status_code == 403
    assert SECRET not in reply.text
    assert "belongs to dag 'orders'" in reply.text


@pytest.mark.parametrize("dag", ["http", "ftp", "theirs"])
def test_the_api_server_asks_no_other_host_for_a_dag_either(
    client: TestClient, bob: dict[str, str], listener: Listener, dag: str
) -> None:
    listener.forget()

    assert client.get(page(dag), headers=bob).status_code == 403
    assert listener.connected == []


def test_a_home_behind_a_connection_of_ours_is_asked_and_given_up_in_time(
    client: TestClient, bob: dict[str, str], listener: Listener
) -> None:
    listener.forget()
    until = time.monotonic() + 60

    # The first look may spend its time on importing the store's client.
    while not listener.connected and time.monotonic() < until:
        reply = client.get(page("ours"), headers=bob)
        assert reply.status_code == 503
        assert int(reply.headers["Retry-After"]) >= 1
        time.sleep(1)

    assert listener.connected, reply.text


def test_a_home_that_a_run_has_chosen_needs_the_list(
    home: StreamHome, client: TestClient, bob: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = home.owner()
    assert owner is not None
    assert client.get(page("templated"), headers=bob).status_code == 403

    monkeypatch.setenv("AIRFLOW__STREAMING__HOMES", f"s3://bucket, {home.store.uri}")
    reply = client.get(page("templated"), headers=bob)

    # It may be opened now; the stream is still that of another dag.
    assert reply.status_code == 403
    assert "belongs to dag 'orders'" in reply.text


def test_a_dag_in_the_owners_file_may_show_the_stream(
    home: StreamHome, client: TestClient, bob: dict[str, str]
) -> None:
    moved = Actor(dag_id="orders", bundle=BUNDLE, file="thief.py")
    home.claim_ownership(moved, by="a task", now=NOW)
    try:
        assert client.get(page("thief"), headers=bob).status_code == 200
    finally:
        home.claim_ownership(
            Actor(dag_id="orders", bundle=BUNDLE, file="orders.py"), by="a task", now=NOW
        )
