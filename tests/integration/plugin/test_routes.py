"""The pages behind a task's links, on a real API server."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from airflow_streaming.core.epoch import Epoch, Launch, LaunchCause
from airflow_streaming.files.host import this_host
from airflow_streaming.home.home import StreamHome, open_home

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

# What Airflow's own API server warns about at its start is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

PASSWORDS = {"ann": "a", "bob": "b"}
LOG = "/streaming/tasks/orders/run-1/orders/-1/driver-log"
UI = "/streaming/tasks/orders/run-1/orders/-1/spark-ui"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """Return Airflow's own app with our plugin in it, and two users."""
    folder = tmp_path_factory.mktemp("api")
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "ann:admin,bob:viewer")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        patch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(folder / "drivers"))
        from airflow.api_fastapi.app import create_app
        from airflow.utils.db import initdb

        initdb()
        yield create_app(apps="core")


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, follow_redirects=False) as client:
        yield client


def token(client: TestClient, user: str) -> dict[str, str]:
    reply = client.post("/auth/token", json={"username": user, "password": PASSWORDS[user]})
    assert reply.status_code == 201, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}"}


def streaming_app(app: FastAPI) -> FastAPI:
    (mounted,) = [route for route in app.routes if getattr(route, "path", "") == "/streaming"]
    found: Any = mounted.app  # type: ignore[attr-defined]
    assert isinstance(found, FastAPI)
    return found


def test_every_route_refuses_a_stranger(app: FastAPI, client: TestClient) -> None:
    paths = [route.path for route in streaming_app(app).routes]  # type: ignore[attr-defined]
    assert len(paths) == 2
    for path in paths:
        filled = path.replace("{map_index}", "-1").replace("{", "").replace("}", "")
        assert client.get(f"/streaming{filled}").status_code in (401, 403), path


def test_a_task_that_keeps_no_stream_has_no_page(client: TestClient) -> None:
    reply = client.get(LOG, headers=token(client, "bob"))

    assert reply.status_code == 404
    assert "has not said which stream" in reply.text


@pytest.fixture
def home(app: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamHome]:
    """Return a stream with one launched driver, which every task is taken to keep."""
    from airflow_streaming.plugin.routes import stream_of

    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    stream, now = open_home(str(tmp_path / "home")).stream("orders"), datetime.now(UTC)
    stream.create_epoch(
        Epoch(
            number=1,
            stream="orders",
            deployment=1,
            token="t",
            host=this_host(),
            launcher="local",
            cause=LaunchCause.FIRST,
            reason="r",
            by="b",
            created_at=now,
        )
    )
    log = tmp_path / "drivers" / "orders" / "000001.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line of the driver\n")
    stream.record_launch(
        Launch(
            epoch=1,
            token="t",
            host=this_host(),
            pid=1,
            started=0.0,
            log=str(log),
            launched_at=now,
        )
    )
    ours = streaming_app(app)
    ours.dependency_overrides[stream_of] = lambda: stream
    yield stream
    ours.dependency_overrides.clear()


def test_the_log_page_shows_the_end_of_the_drivers_log(
    home: StreamHome, client: TestClient
) -> None:
    reply = client.get(LOG, headers=token(client, "bob"))

    assert reply.status_code == 200
    assert "a line of the driver" in reply.text
    assert reply.headers["content-type"].startswith("text/plain")


def test_a_forged_log_path_is_named_and_never_read(
    home: StreamHome, client: TestClient, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of another user")
    record = tmp_path / "home/orders/epochs/000001/launch.json"
    launch = home.launch(1)
    assert launch is not None
    record.write_text(record.read_text().replace(launch.log, str(secret)))

    reply = client.get(LOG, headers=token(client, "bob"))

    assert str(secret) in reply.text
    assert "of another user" not in reply.text


def test_the_spark_ui_is_not_known_before_the_driver_has_told_it(
    home: StreamHome, client: TestClient
) -> None:
    reply = client.get(UI, headers=token(client, "ann"))

    assert reply.status_code == 404
    assert "has not told" in reply.text
