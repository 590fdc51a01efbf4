"""Airflow with teams: what users of each team see and do, and which connections are read for whom."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_streaming.home.home import open_home
from airflow_streaming.hooks.connections import connection_of
from airflow_streaming.model.records.owner import Actor
from tests.integration.plugin.api import PASSWORDS, add_dag, settings_of

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.nightly(
        "starts an API server of its own; tests/unit/model/test_owner.py has the decisions"
    ),
]
TEAMS: Final = ("shop", "bank")
USERS: Final = "ann:admin,sue:user:shop,kim:user:bank,bob:viewer:shop"
ACT: Final = {"X-Streaming-Act": "1"}


def bundle_of(team: str, folder: Path) -> dict[str, Any]:
    return {
        "name": team,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder / team)},
        "team_name": team,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("teams")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    """An API server of two teams, with one stream each in one shared home."""
    with settings_of(folder) as patch:
        patch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", USERS)
        bundles = json.dumps([bundle_of(team, folder) for team in TEAMS])
        patch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", bundles)
        from airflow.api_fastapi.app import create_app
        from airflow.models.connection import Connection
        from airflow.models.team import Team
        from airflow.utils.db import initdb
        from airflow.utils.session import create_session

        initdb()
        with create_session() as session:
            for team in TEAMS:
                session.merge(Team(name=team))
            session.flush()
            session.add(Connection(conn_id="of_shop", conn_type="stream_home", team_name="shop"))
        home = str(folder / "home")
        for team in TEAMS:
            name = f"{team}_orders"
            add_dag(folder, name, home=home, stream=name, bundle=team)
            owner = Actor(dag_id=name, bundle=team, file=f"{name}.py", team=team)
            open_home(home).stream(name).claim_ownership(owner, by="t", now=datetime.now(UTC))
        # A DAG of the bank that names the stream of the shop.
        add_dag(folder, "bank_thief", home=home, stream="shop_orders", bundle="bank")
        with TestClient(create_app(apps="core"), follow_redirects=False) as client:
            yield client
        with create_session() as session:
            session.query(Connection).filter_by(conn_id="of_shop").delete()


def headers(client: TestClient, user: str) -> dict[str, str]:
    reply = client.post("/auth/token", json={"username": user, "password": PASSWORDS[user]})
    assert reply.status_code == 201, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}", **ACT}


SEES: Final = {
    "ann": {"bank_orders", "bank_thief", "shop_orders"},
    "sue": {"shop_orders"},
    "kim": {"bank_orders", "bank_thief"},
    "bob": {"shop_orders"},
}


@pytest.mark.parametrize("user", SEES)
def test_the_page_lists_the_streams_of_the_users_team(client: TestClient, user: str) -> None:
    rows = client.get("/streaming/api/fleet", headers=headers(client, user)).json()["streams"]

    assert {row["dag"] for row in rows} & {"bank_orders", "bank_thief", "shop_orders"} == SEES[user]


MAY_STOP: Final = {
    ("ann", "shop_orders"): True,
    ("sue", "shop_orders"): True,
    ("kim", "shop_orders"): False,
    ("bob", "shop_orders"): False,
    ("sue", "bank_orders"): False,
    ("kim", "bank_orders"): True,
}


@pytest.mark.parametrize(("user", "stream"), MAY_STOP)
def test_only_users_of_its_team_act_on_a_stream(
    client: TestClient, folder: Path, user: str, stream: str
) -> None:
    records = open_home(str(folder / "home")).stream(stream)
    before = records.desired()

    reply = client.post(
        f"/streaming/api/streams/{stream}/{stream}/acts/stop",
        headers=headers(client, user),
        json={"reason": f"{user} asks", "confirm": stream},
    )

    may = MAY_STOP[user, stream]
    assert (reply.status_code != 403) == may, reply.text
    assert may or records.desired() == before


def test_a_dag_of_another_team_shows_nothing_of_a_stream_that_it_names(client: TestClient) -> None:
    path = "/streaming/api/streams/bank_thief/shop_orders"

    reply = client.get(path, headers=headers(client, "kim"))

    assert reply.status_code == 403
    assert "of team 'shop'" in reply.json()["detail"]


@pytest.mark.parametrize(("team", "is_found"), [("shop", True), ("bank", False), ("", False)])
def test_the_page_reads_the_connections_of_the_streams_team(
    client: TestClient, team: str, is_found: bool
) -> None:
    if is_found:
        assert connection_of("of_shop", team).conn_type == "stream_home"
        return
    with pytest.raises(AirflowNotFoundException):
        connection_of("of_shop", team)
