"""
A whole Airflow in one folder, as child processes that never outlive their parent's wish.

Each component is started separately and leads a process group of its own: a SIGTERM to
``airflow standalone`` was seen to orphan its children, and a terminal's Ctrl-C must reach the
parent only, which then takes everything down in order.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import psutil

from demo.processes import kill_group, processes_with
from demo.waiting import PATIENCE, Say, wait_for

COMPONENT: Final = "AIRFLOW_STREAMING_DEMO_COMPONENT"
"""Environment variable of each component's processes: its name."""
STOP_SECONDS: Final = 20.0
"""A component's time to end; then its whole group is killed."""

ENDED: Final = frozenset({"success", "failed"})
"""States of runs and tasks that do not change any more."""

REPEATABLE: Final = frozenset({"GET", "PATCH"})
SERVER_ERRORS: Final = 5
"""Errors of the server in a row that a call gets over."""

RETRY_SECONDS: Final = 2.0

MADE_DATABASE: Final = "AIRFLOW_STREAMING_DEMO_DATABASE"
"""Environment variable: an empty database of this Airflow, to begin with a copy of it. To make one
takes ten seconds of CPU time, and the tests begin six times."""


class Airflow:
    """
    An Airflow on SQLite with LocalExecutor and without passwords, on the loopback address only.

    A subclass has other parts: its own ``commands``, ``settings``, ``make_database`` and ``log_in``.

    :param home: AIRFLOW_HOME; made when missing.
    :param dags: Folder of the dag files.
    :param environment: More settings, as environment variables.
    :param port: Port of the API server; any free one is taken when it is in use.
    """

    PREFIX: ClassVar[str] = ""
    """Path of its pages below the address of the server."""

    def __init__(
        self,
        home: Path,
        *,
        dags: Path,
        environment: Mapping[str, str],
        port: int = 8080,
    ) -> None:
        self.home, self.dags = home, dags
        self.port = self.choose_port(port)
        self.url = f"http://127.0.0.1:{self.port}{self.PREFIX}"
        self.environment = {**os.environ, **self.settings(), **environment}
        self._components: dict[str, subprocess.Popen[bytes]] = {}
        self._token: str | None = None

    @staticmethod
    def choose_port(preferred: int) -> int:
        """Return the port of its pages."""
        return free_port(preferred)

    def start(self, say: Say) -> None:
        """
        Make the database, start every component and wait until all of them work.

        :raises RuntimeError: a component ended, or was not ready in time; names its log.
        """
        say("Making Airflow's database")
        self.make_database()
        for component in self.commands():
            self.start_component(component)
        wait_for(
            self.is_healthy,
            what=f"Airflow's {', '.join(self.commands())}",
            say=say,
            failing=self.ended_component,
        )

    def start_component(self, component: str) -> None:
        """Start one component; its output goes to ``logs/<component>.log``."""
        command = airflow_command(*self.commands()[component])
        with self.log(component).open("ab") as log:
            self._components[component] = subprocess.Popen(
                command,
                env={**self.environment, **self.names_of(component)},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def names_of(self, component: str) -> dict[str, str]:
        """Return the environment variables by which a component's processes are known."""
        return {COMPONENT: component}

    def commands(self) -> Mapping[str, tuple[str, ...]]:
        """Return the arguments of ``airflow`` for each component, by its name."""
        # The log servers of scheduler and triggerer listen on every address; here all read the same folder.
        return {
            "api-server": ("api-server", *self._address(self.port)),
            "scheduler": ("scheduler", "--skip-serve-logs"),
            "dag-processor": ("dag-processor",),
            "triggerer": ("triggerer", "--skip-serve-logs"),
        }

    @staticmethod
    def _address(port: int) -> tuple[str, ...]:
        return "--host", "127.0.0.1", "--port", str(port), "--workers", "1"

    def settings(self) -> dict[str, str]:
        """Return its settings as environment variables."""
        return settings(self.home, self.dags, self.url)

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.home / "logs" / f"{component}.log"

    def replace_component(self, component: str) -> str:
        """Kill a component with all of its processes and start it again; say what was killed."""
        killed = self.kill_component(component)
        self.start_component(component)
        return killed

    def kill_component(self, component: str) -> str:
        """Kill a component with all of its processes; say what was killed."""
        process = self._components.pop(component)
        kill_group(process.pid)
        process.wait()
        return f"group {process.pid}"

    @property
    def database(self) -> Path:
        """The file of its SQLite database."""
        return self.home / "airflow.db"

    def make_database(self) -> Path:
        """Make the database only, and return its file."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        self._migrate()
        return self.database

    def busy_workers(self) -> list[psutil.Process]:
        """Return the processes of LocalExecutor that run a task just now."""
        found = []
        for process in self.leftovers():
            with contextlib.suppress(psutil.Error):
                title = " ".join(process.cmdline())
                if "airflow worker -- LocalExecutor" in title and "<idle>" not in title:
                    found.append(process)
        return found

    def ended_component(self) -> str | None:
        """Return the component that ended without being stopped."""
        for component, process in self._components.items():
            if process.poll() is not None:
                return (
                    f"Airflow's {component} ended with code {process.returncode}; "
                    f"see {self.log(component)}."
                )
        return None

    def is_healthy(self) -> bool:
        """Tell whether every component works, by Airflow's own word."""
        try:
            health = self.get("/api/v2/monitor/health")
        except OSError:
            return False
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def has_dag(self, dag_id: str) -> bool:
        """Tell whether the dag processor has read a dag."""
        try:
            self.get(f"/api/v2/dags/{dag_id}")
        except OSError:
            return False
        return True

    def unpause(self, dag_id: str) -> None:
        """Let a dag run."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, **params: Any) -> str:
        """Unpause a dag, start a run of it, and return the run's id."""
        self.unpause(dag_id)
        body = {"logical_date": None, "conf": params}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a dag run."""
        return str(self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def await_run(
        self,
        dag_id: str,
        run_id: str,
        say: Say,
        *,
        failing: Callable[[], str | None] = lambda: None,
    ) -> str:
        """
        Wait until a dag run has ended, and return its state.

        :param failing: Says why waiting has become useless, or ``None``.
        """
        wait_for(
            lambda: self.run_state(dag_id, run_id) in ENDED,
            what=f"the run of {dag_id}",
            say=say,
            failing=lambda: self.ended_component() or failing(),
            seen=lambda: str(self.task_states(dag_id, run_id)),
        )
        return self.run_state(dag_id, run_id)

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Return the state of each task of a run."""
        found = self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return {one["task_id"]: one["state"] for one in found["task_instances"]}

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what a task of a run has returned."""
        task = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        return self.get(f"{task}/xcomEntries/return_value?deserialize=true")["value"]

    def get(self, path: str) -> Any:
        """Read from the REST API; raises ``OSError`` when it does not answer well."""
        return self.call("GET", path)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """
        Call the REST API; raises ``OSError`` when it does not answer well.

        What may be asked twice is asked again after an error of the server: SQLite has one writer,
        and on a crowded machine another one keeps it for longer than the server waits.
        """
        tries = SERVER_ERRORS if method in REPEATABLE else 0
        while True:
            try:
                return self._call_once(method, path, body)
            except urllib.error.HTTPError as err:
                if err.code < 500 or not tries:
                    raise
                tries -= 1
                time.sleep(RETRY_SECONDS)

    def _call_once(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        if self._token is None and not path.startswith("/auth"):
            self._token = self.log_in()
        request = urllib.request.Request(  # noqa: S310 - our own loopback address
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                **({"Authorization": f"Bearer {self._token}"} if self._token else {}),
            },
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310 - see above
            return json.load(response)

    def log_in(self) -> str:
        """Return a token of the user who acts; here everybody is an administrator."""
        return str(self.call("GET", "/auth/token")["access_token"])

    def text(self, path: str) -> str:
        """Read a page as a user who is logged in."""
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310 - as above
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310 - as above
            page: bytes = response.read()
            return page.decode(errors="replace")

    def stop(self) -> None:
        """End every component and whatever else its group holds; returns when all are gone."""
        for process in self._components.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self._components.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            kill_group(process.pid)
            process.wait()
        self._components.clear()
        # A worker whose scheduler was killed has a group of its own and is found by its settings.
        for leftover in self.leftovers():
            with contextlib.suppress(psutil.NoSuchProcess):
                leftover.kill()

    def leftovers(self) -> list[psutil.Process]:
        """Return the processes of this Airflow that are alive, other than the one that asks."""
        return [p for p in processes_with("AIRFLOW_HOME", str(self.home)) if p.pid != os.getpid()]

    def _migrate(self) -> None:
        if made := os.environ.get(MADE_DATABASE):
            shutil.copyfile(made, self.database)
        else:
            self.run_command("db", "migrate", what="Airflow's database cannot be made")

    def run_command(self, *arguments: str, what: str) -> None:
        """
        Run an Airflow command to its end.

        :param what: What its failure means.
        :raises RuntimeError: the command failed; names its log.
        """
        log = self.log(arguments[-1])
        with log.open("wb") as output:
            done = subprocess.run(
                airflow_command(*arguments),
                env=self.environment,
                cwd=self.home,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"{what}; see {log}.")


def settings(home: Path, dags: Path, url: str) -> dict[str, str]:
    """Return the environment of a small Airflow that reacts quickly and makes no outgoing calls."""
    fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        # A crowded machine takes longer than Airflow's 30 s to import it, and than its 5 s to answer.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": str(PATIENCE),
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": f"{PATIENCE:.0f}",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Tests run in Airflow's test mode. A scheduler in that mode never sleeps between its loops
        # and takes a whole core.
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__FERNET_KEY": fernet,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        # An edited file is read at once; to read all again takes some fifteen seconds of CPU time.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "180",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        # Airflow renames its processes; without this the new name would overwrite the environment
        # by which leftovers are found.
        "SPT_NOENV": "1",
    }


def airflow_command(*arguments: str) -> list[str]:
    """Return an Airflow command that runs in this program's own environment."""
    return [sys.executable, "-m", "airflow", *arguments]


def free_port(preferred: int = 0) -> int:
    """Return the preferred port of the loopback address if it is free, else any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            return free_port()
        port: int = probe.getsockname()[1]
        return port
