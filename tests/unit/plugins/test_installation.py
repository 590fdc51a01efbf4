"""The check of the installation on the page, for users who administer Airflow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.plugins.admin import installation as module

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

    from tests.page.server import page_app

pytestmark = pytest.mark.filterwarnings("ignore")
AIRFLOW = {
    "version": "3.3.2",
    "executor": "LocalExecutor",
    "capacity": 1000,
    "queues_enabled": False,
    "base_url": "http://127.0.0.1:9",
}
HEALTH = dict.fromkeys(("metadatabase", "scheduler", "dag_processor"), "healthy")


@pytest.fixture
def client(
    demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """A server that knows one home, a folder that is none, and no triggerer."""
    told: dict[str, Any] = {
        "airflow": AIRFLOW,
        "homes": [str(demo_home), str(tmp_path)],
        "health": HEALTH,
    }
    monkeypatch.setattr("airflow_streaming.plugins.api.server_facts", lambda: told)
    with TestClient(page_app(demo_home, monkeypatch.setattr)) as client:
        yield client


def test_an_administrator_sees_each_line(
    client: TestClient, demo_home: Path, tmp_path: Path
) -> None:
    reply = client.get("/api/installation", headers={"user": "admin"})

    assert reply.status_code == 200, reply.text
    found = {line["check"]: line for line in reply.json()["checks"]}
    assert reply.json()["outcome"] == "problem"
    assert found["triggerer"]["outcome"] == "problem"
    assert found["triggerer"]["next"].startswith("Start it")
    assert found[f"home {tmp_path}"]["outcome"] == "problem"
    assert "java" not in found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("user", ["viewer", "editor"])
def test_other_users_see_nothing_of_it(client: TestClient, user: str) -> None:
    reply = client.get("/api/installation", headers={"user": user})

    assert reply.status_code == 403
    assert "checks" not in reply.text
    assert client.get("/api/fleet", headers={"user": user}).json()["may_check"] is False


def test_an_administrators_list_leads_to_it(client: TestClient) -> None:
    assert client.get("/api/fleet", headers={"user": "admin"}).json()["may_check"] is True


def test_health_is_read_from_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "facts", lambda: {"airflow": AIRFLOW, "homes": []})
    monkeypatch.setattr(
        "airflow.api.common.airflow_health.get_airflow_health",
        lambda: {"scheduler": {"status": "healthy"}, "triggerer": {"status": None}},
    )
    assert module.server_facts()["health"] == {"scheduler": "healthy", "triggerer": ""}
