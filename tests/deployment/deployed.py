"""A deployment of a profile: its servers, an Airflow of several processes, and the stage of the demo around it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import fsspec.config

from demo.airflow import Airflow, free_port
from demo.events import Shop, synthetic_files
from demo.processes import kill_group
from demo.stage import APPLICATION, REPOSITORY, Stage
from demo.waiting import PATIENCE, Say
from tests.deployment import servers
from tests.deployment.profiles import (
    BUCKET,
    PREFIX,
    PROFILES,
    STORE_CONNECTION,
    Executor,
    Ports,
    Profile,
    commands,
    missing,
    settings,
    stored,
)
from tests.deployment.requests import NAME_VARIABLE, PROGRAM
from tests.integration.home.servers import ACCESS_KEY, S3A, SECRET_KEY, S3Server, seaweedfs
from tests.integration.servers.standalone import standalone_cluster

DAGS: Final = Path(__file__).parent / "dags"
STREAM: Final = "orders"
DAG_IDS: Final = tuple(
    f"{STREAM}{kind}" for kind in ("", "_upgrade", "_blue_green", "_rescale", "_backup", "_restore")
)
FILES: Final = 5_000
MOST_STARTS: Final = 20
EVERY: Final = 2.0
"""Seconds between two files."""

AHEAD: Final = 20
"""Files that may lie there unread: a crowded machine takes a quarter of a minute for a batch."""


class DeployedAirflow(Airflow):
    """
    The processes of Airflow by a profile.

    :param profile: What runs, and how often.
    :param ports: Where it listens.
    """

    def __init__(self, home: Path, *, profile: Profile, ports: Ports, **given: Any) -> None:
        self.profile, self.ports = profile, ports
        self.revived: dict[str, int] = {}
        self._prefix = PREFIX if profile.has_proxy else ""
        super().__init__(home, port=ports.page, **given)

    @property
    def PREFIX(self) -> str:  # type: ignore[override]
        """Path of its pages below the address of the proxy."""
        return self._prefix

    @staticmethod
    def choose_port(preferred: int) -> int:
        # The proxy listens there already.
        return preferred

    def commands(self) -> Mapping[str, tuple[str, ...]]:
        return commands(self.profile, self.ports)

    def names_of(self, component: str) -> dict[str, str]:
        return {**super().names_of(component), NAME_VARIABLE: component}

    def settings(self) -> dict[str, str]:
        return {**super().settings(), **settings(self.profile, self.ports)}

    def make_database(self) -> Path:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        self.run_command("db", "migrate", what="Airflow's database cannot be made")
        if self.profile.has_roles:
            self._make_users()
        return self.home

    def _make_users(self) -> None:
        with self.log("people").open("wb") as log:
            done = subprocess.run(
                [sys.executable, "-m", "tests.deployment.people", *DAG_IDS],
                env=self.environment,
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"Airflow's users cannot be made; see {self.log('people')}.")

    def is_healthy(self) -> bool:
        return super().is_healthy() and all(map(self._serves_tasks, self.ports.api_servers))

    def _serves_tasks(self, port: int) -> bool:
        """
        Tell whether an API server answers tasks.

        Its first such request makes all versions of the routes, which takes seconds of CPU time in which it
        answers nothing else.
        """
        url = f"http://127.0.0.1:{port}{self.PREFIX}/execution/health"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
                return bool(reply.status == HTTPStatus.OK)
        except OSError:
            return False

    def ended_component(self) -> str | None:
        """Start each component again that has ended, as a service manager does; tell when one ends too often."""
        for name, process in list(self._components.items()):
            if process.poll() is None:
                continue
            self.revived[name] = self.revived.get(name, 0) + 1
            if self.revived[name] > MOST_STARTS:
                return f"Airflow's {name} ended {self.revived[name]} times; see {self.log(name)}."
            kill_group(process.pid)
            self.start_component(name)
        return None

    def pids(self) -> dict[str, int]:
        """Return the process id of each component, by its name."""
        return {name: process.pid for name, process in list(self._components.items())}

    def log_in(self) -> str:
        return self.token_of("admin") if self.profile.has_roles else super().log_in()

    def token_of(self, user: str) -> str:
        """Return a token of one of FAB's users, whose password is the name."""
        body = {"username": user, "password": user}
        return str(self.call("POST", "/auth/token", body)["access_token"])

    def act_as(self, user: str, path: str, body: Any) -> tuple[int, Any]:
        """
        Send an act of the Streams page; return the status and the answer.

        :param user: Name of a FAB user; ignored in a profile without roles.
        """
        token = self.token_of(user) if self.profile.has_roles else self.log_in()
        request = urllib.request.Request(  # noqa: S310 - our own loopback address
            self.url + path,
            method="POST",
            data=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                "X-Streaming-Act": "1",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:  # noqa: S310 - as above
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as err:
            return err.code, err.read().decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """
    Sparks of this machine.

    :param s3a: Folder with the jars by which Spark 3.5 opens ``s3a://``.
    """

    spark_4_3: Path
    spark_3_5: Path
    s3a: Path


@dataclass(frozen=True)
class Deployment:
    """
    A running deployment.

    :param servers: By the names of the parts that can die.
    :param metrics: Address of the S3 server's metrics; empty where the home is a folder.
    :param requests: Log of the requests to the S3 server; ``None`` where the home is a folder.
    """

    profile: Profile
    stage: Stage
    servers: Mapping[str, servers.Server]
    metrics: str = ""
    requests: Path | None = None

    @property
    def airflow(self) -> DeployedAirflow:
        """Return its Airflow."""
        airflow = self.stage.airflow
        assert isinstance(airflow, DeployedAirflow)
        return airflow


@contextlib.contextmanager
def deployment(
    name: str, folder: Path, machine: Machine, say: Say, more: int = 0
) -> Iterator[Deployment]:
    """
    Run a deployment; everything has ended afterwards.

    :param name: A profile.
    :param folder: Emptied; everything but the database lies here.
    :param more: Streams beside ``orders``, which need no input.
    :raises RuntimeError: the machine lacks a part, with a sentence for each; or a part does not start.
    """
    profile = PROFILES[name]
    if lacks := missing(profile, lambda one: servers.find_program(one) is not None, _has_module):
        raise RuntimeError("\n".join(lacks))
    ports = _ports(profile)
    with contextlib.ExitStack() as stack:
        # A server of another user must be able to enter every folder above its own.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deployment-")))
        place.chmod(0o755)
        logs = place / "logs"
        logs.mkdir()
        parts = _servers(profile, place, logs, ports)
        # The proxy first answers once an API server does.
        stack.enter_context(servers.running(parts.values(), say))
        environment: dict[str, str] = {}
        home, metrics, requests = None, "", None
        if profile.is_stored:
            port = free_port()
            served = f"-metricsPort={port}"
            store = stack.enter_context(seaweedfs(_made(place / "s3"), served))
            store, requests = _counted(stack, store, place / "store-proxy", logs, say)
            home, metrics = f"{BUCKET}/home", f"http://127.0.0.1:{port}/metrics"
            environment |= _stored(store)
        if profile.has_cluster:
            made = standalone_cluster(machine.spark_4_3, _made(place / "cluster"))
            connection = json.dumps(stack.enter_context(made).connection())
            environment["AIRFLOW_CONN_SPARK_DEFAULT"] = connection
        stage = Stage(
            folder,
            runtime=machine.spark_4_3,
            runtimes={"spark-3.5": machine.spark_3_5},
            say=say,
            files=synthetic_files(FILES, Shop()),
            every=EVERY,
            ahead=AHEAD,
            dags=DAGS,
            stream=STREAM,
            home=home,
            environment={
                **environment,
                "PYTHONPATH": str(REPOSITORY),
                "DEPLOYMENT_JOB": str(APPLICATION),
                "DEPLOYMENT_MORE": str(more),
                "DEPLOYMENT_HOME_CONNECTION": STORE_CONNECTION if profile.is_stored else "",
                # Spark 3.5 fits the jars of S3 that a Python package carries.
                "DEPLOYMENT_RUNTIME": "spark-3.5" if profile.is_stored else "spark-4.3",
                "DEPLOYMENT_JARS": json.dumps(s3a_jars(machine.s3a) if profile.is_stored else []),
            },
            airflow=partial(DeployedAirflow, profile=profile, ports=ports),
        )
        with stage:
            yield Deployment(
                profile=profile, stage=stage, servers=parts, metrics=metrics, requests=requests
            )


def _servers(profile: Profile, place: Path, logs: Path, ports: Ports) -> dict[str, servers.Server]:
    found = {
        profile.database.value: servers.database(
            profile.database, place / "database", logs, ports.database
        )
    }
    if profile.executor is Executor.CELERY:
        found["redis"] = servers.redis(place / "redis", logs, ports.redis)
    if profile.has_proxy:
        found["proxy"] = servers.proxy(place / "proxy", logs, ports)
    return found


def _counted(
    stack: contextlib.ExitStack, store: S3Server, folder: Path, logs: Path, say: Say
) -> tuple[S3Server, Path]:
    """Put a proxy before the store; return the store at the proxy's address, and the log of its requests."""
    port, behind = free_port(), urlsplit(store.endpoint).port or 0
    proxy = servers.store_proxy(folder, logs, port, behind)
    stack.enter_context(servers.running([proxy], say))
    return replace(store, endpoint=f"http://127.0.0.1:{port}"), folder / "requests.log"


def _stored(server: S3Server) -> dict[str, str]:
    # This program looks at the home as the command line does: by the options of its environment.
    os.environ[NAME_VARIABLE] = PROGRAM.replace(" ", "_")
    fsspec.config.conf["s3"] = server.options
    return stored(server.endpoint, ACCESS_KEY, SECRET_KEY)


def s3a_jars(folder: Path) -> list[str]:
    """
    Return the jars that Spark 3.5 lacks to open ``s3a://``.

    :raises RuntimeError: there are none.
    """
    jars = sorted(str(jar) for jar in folder.rglob("*.jar") if S3A.match(jar.name))
    if not jars:
        raise RuntimeError(
            f"The jars of hadoop-aws are missing in {folder}: make {folder} (bodo-iceberg-connector from PyPI)."
        )
    return jars


def _ports(profile: Profile) -> Ports:
    page = free_port(8080)
    behind = tuple(free_port() for _ in range(profile.count("api-server")))
    return Ports(
        page=page,
        api_servers=behind if profile.has_proxy else (page,),
        database=free_port(),
        redis=free_port(),
    )


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
