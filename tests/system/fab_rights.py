"""
Holds every route of the plugin against the rights of Airflow's FAB auth manager, on a real API server's app.

    VENV/bin/python -m tests.system.fab_rights

The virtual environment needs ``apache-airflow-providers-fab`` beside this package; it is no part of
``make setup``. Users of the roles in ``ROLES`` ask for every route of dag "orders", whose stream has run.
What each is answered has to be what the rights of its role say, by the table ``NEEDS``; it is printed.
So are the requests to Airflow's own API in ``ACTS``, also by the roles that FAB makes itself.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.plugin.api import RUN, add_dag, forge_xcom, settings_of
from tests.patience import PATIENCE

MANAGER: Final = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
READ, EDIT, DELETE = "can_read", "can_edit", "can_delete"
SEES: Final = ("DAG Runs", "Task Instances")
EDITS: Final = frozenset((EDIT, name) for name in SEES)
READS: Final = frozenset((READ, name) for name in (*SEES, "Task Logs", "XComs"))
NO_SESSION, ADMIN = "no session", "administrator"
ROLES: Final[dict[str, frozenset[tuple[str, str]]]] = {
    "nothing": frozenset(),
    "another dag": READS | EDITS | {(READ, "DAG:other"), (EDIT, "DAG:other")},
    "no logs, no XComs": READS - {(READ, "Task Logs"), (READ, "XComs")} | {(READ, "DAG:orders")},
    "only logs": frozenset({(READ, "Task Logs"), (READ, "DAG:orders")}),
    "reader": READS | {(READ, "DAG:orders")},
    "reader, edits another": READS
    | EDITS
    | {(READ, "DAG:orders"), (READ, "DAG:other"), (EDIT, "DAG:other")},
    "edits the dag, no tasks": READS | {(READ, "DAG:orders"), (EDIT, "DAG:orders")},
    "editor": READS | EDITS | {(READ, "DAG:orders"), (EDIT, "DAG:orders")},
    "reader of all": READS | {(READ, "DAGs")},
    "editor of all": READS | EDITS | {(READ, "DAGs"), (EDIT, "DAGs")},
}
AIRFLOWS: Final[dict[str, frozenset[tuple[str, str]]]] = {
    "Viewer": READS | {(READ, "DAGs")},
    "User": READS | EDITS | {(READ, "DAGs"), (EDIT, "DAGs")},
    "Op": READS
    | EDITS
    | {(READ, "DAGs"), (EDIT, "DAGs"), (DELETE, "DAGs"), (DELETE, "Connections")},
}
"""Roles that FAB makes itself, with the rights that concern the plugin."""
RIGHTS: Final = {**ROLES, **AIRFLOWS}
USERS: Final = (NO_SESSION, *RIGHTS, ADMIN)
NEEDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "POST /api/streams/{dag_id}/{stream}/removal": ((DELETE, ""), (DELETE, "Connections")),
    "POST /api/streams/": ((EDIT, ""), *((EDIT, name) for name in SEES)),
    "GET /api/streams/": ((READ, ""), *((READ, name) for name in SEES)),
    "GET /api/external/": ((READ, ""), *((READ, name) for name in SEES)),
    "GET /api/reports/": ((READ, ""), (READ, "XComs")),
    "GET /tasks/": ((READ, ""), (READ, "Task Logs")),
    "GET /api/fleet": (),
    "GET /api/installation": ((DELETE, "Connections"),),
    "GET /app": (),
}
"""Rights that a route needs, by its beginning; one without a name is that on the dag."""
KEY: Final = "a" * 64
"""Airflow's key, which no answer may hold."""
_RUN_OF: Final = f"/dags/orders/dagRuns/{RUN}/taskInstances/keep"
ACTS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("POST", "/dags/orders/dagRuns"): ("User", "Op", ADMIN),
    ("PATCH", f"{_RUN_OF}/-1/hitlDetails"): ("User", "Op", ADMIN),
    ("GET", "/variables/script"): ("Op", ADMIN),
    ("POST", "/variables"): ("Op", ADMIN),
    ("GET", "/connections"): ("Op", ADMIN),
    ("POST", "/connections"): ("Op", ADMIN),
    ("GET", "/config/section/api_auth/option/jwt_secret"): ("Op", ADMIN),  # without its value
    ("GET", "/config"): ("Op", ADMIN),
}
"""Requests to Airflow's own API on which the table of rights rests, and who may make them."""
BODIES: Final[dict[str, Any]] = {
    "/dags/orders/dagRuns": {"logical_date": None, "conf": {"conf": {"spark.plugins": "evil.P"}}},
    f"{_RUN_OF}/-1/hitlDetails": {"chosen_options": ["Approve"], "params_input": {}},
    "/variables": {"key": "made", "value": "1"},
    "/connections": {"connection_id": "made", "conn_type": "http"},
}
ABSENT: Final = ("GET /api/external/", "/spark-ui")
"""What the stream of the program has not: 404 for those who may see it."""
NOT_DEPLOYED: Final = "/removal"
"""What the home refuses to those who have the right, because its stream has no deployment: 409."""
PLACES: Final = {
    "dag_id": "orders",
    "stream": "orders",
    "act": "start",
    "run_id": RUN,
    "task_id": "keep",
    "map_index": "-1",
    "name": "app.js",
}


def main() -> int:
    """Try everything; return 1 when an answer is not what the role may have."""
    argparse.ArgumentParser(prog="tests.system.fab_rights", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with settings_of(folder) as patch:
            patch.setenv("AIRFLOW_HOME", str(folder / "airflow"))
            patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", MANAGER)
            patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", KEY)
            patch.setenv("AIRFLOW__API__EXPOSE_CONFIG", "non-sensitive-only")
            # A busy machine is no refusal.
            patch.setenv("AIRFLOW__STREAMING__PAGE_DEADLINE", "30")
            return _try_all(folder, patch)


def _try_all(folder: Path, patch: pytest.MonkeyPatch) -> int:
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    initdb()
    home = str(folder / "home")
    for dag in ("orders", "other"):
        add_dag(folder, dag, home=home, stream=dag)
        _make_stream(folder, home, dag)
    forge_xcom("orders", home=home, stream="orders", home_conn_id=None)
    _report_of("orders")
    app = create_app()
    _make_users()
    with TestClient(app, follow_redirects=False) as client:
        tokens = {user: _token(client, user) for user in USERS if user != NO_SESSION}
        _wait_for_streams(client, tokens[ADMIN])
        _say("| route | " + " | ".join(USERS) + " |\n|---" + "|---" * len(USERS) + "|")
        wrong = 0
        routes = sorted(_routes(app))
        for method, path in routes:
            wrong += _try_route(client, tokens, method, path)
        wrong += sum(_try_act(client, tokens, *act) for act in ACTS)
    asked = (len(routes) + len(ACTS)) * len(USERS)
    _say(f"{len(USERS)} users, {asked} requests, {wrong} wrong.")
    return 1 if wrong else 0


def _wait_for_streams(client: Any, admin: dict[str, str]) -> None:
    """Ask until the fleet has been read once; a row says "reading" before."""
    until = time.monotonic() + PATIENCE
    while True:
        rows = client.get("/streaming/api/fleet", headers=admin).json()["streams"]
        if rows and all(row["state"] != "reading" for row in rows):
            return
        assert time.monotonic() < until, rows
        time.sleep(0.2)


def _report_of(dag: str) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        XComModel.set(
            key="markdown",
            value="# Allowed",
            dag_id=dag,
            task_id="keep",
            run_id=RUN,
            session=session,
        )


def _make_stream(folder: Path, home: str, dag: str) -> None:
    from tests.integration.plugin import test_routes

    made: Any = test_routes.make_stream
    made(folder, home, dag)


def _routes(app: Any) -> set[tuple[str, str]]:
    from tests.integration.plugin.test_routes import streaming_app

    routes: Any = streaming_app(app).routes
    return {(method, route.path) for route in routes for method in route.methods}


def _make_users() -> None:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        security: Any = builder.sm
        for name, rights in ROLES.items():
            role = security.add_role(name)
            for action, resource in sorted(rights):
                security.add_permission_to_role(role, security.create_permission(action, resource))
            security.add_user(name, name, name, f"{hash(name)}@example.com", role, password=name)
        for name in AIRFLOWS:
            role = security.find_role(name)
            security.add_user(name, name, name, f"{name}@example.com", role, password=name)
        admin = security.find_role("Admin")
        security.add_user(ADMIN, ADMIN, ADMIN, "admin@example.com", admin, password=ADMIN)


def _token(client: Any, user: str) -> dict[str, str]:
    reply = client.post("/auth/token", json={"username": user, "password": user})
    assert reply.status_code == 201, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}"}


def _try_route(client: Any, tokens: dict[str, dict[str, str]], method: str, path: str) -> int:
    filled = re.sub(r":path", "", path)
    for name, value in PLACES.items():
        filled = filled.replace("{" + name + "}", value)
    found, wrong = [], []
    for user in USERS:
        headers = {**tokens.get(user, {}), "X-Streaming-Act": "1"}
        body = {"reason": "x", "confirm": "orders"} if method == "POST" else None
        reply = client.request(method, f"/streaming{filled}", headers=headers, json=body)
        found.append(reply.status_code)
        if problem := _problem(user, f"{method} {path}", reply):
            wrong.append(f"{user}: {problem}: {reply.text[:200]}")
    _say(f"| `{method} {path}` | " + " | ".join(map(str, found)) + " |")
    for line in wrong:
        _say(f"WRONG {line}")
    return len(wrong)


def _try_act(client: Any, tokens: dict[str, dict[str, str]], method: str, path: str) -> int:
    """Try a request to Airflow's API: 401 or 403 for all who are not named, and no key for anybody."""
    allowed = ACTS[method, path]
    found, wrong = [], []
    for user in USERS:
        reply = client.request(
            method, f"/api/v2{path}", headers=tokens.get(user, {}), json=BODIES.get(path)
        )
        found.append(reply.status_code)
        is_refused = reply.status_code in (401, 403)
        if is_refused is (user in allowed) or KEY in reply.text:
            wrong.append(f"{user}: {reply.status_code}: {reply.text[:200]}")
    _say(f"| `{method} {path}` | " + " | ".join(map(str, found)) + " |")
    for line in wrong:
        _say(f"WRONG {line}")
    return len(wrong)


def _problem(user: str, route: str, reply: Any) -> str | None:
    wanted = _wanted(user, route)
    if reply.status_code not in wanted:
        return f"{reply.status_code}, not {wanted}"
    if route == "GET /api/fleet" and user != NO_SESSION:
        names = {row["stream"] for row in reply.json()["streams"]}
        if names != (wanted_names := _streams_of(user)):
            return f"sees {sorted(names)}, not {sorted(wanted_names)}"
    if route.endswith("/reports") and reply.status_code == 200:
        is_listed = bool(reply.json()["reports"])
        if is_listed is not _has(user, (READ, "XComs")):
            return "lists reports" if is_listed else "lists no report"
    return None


def _wanted(user: str, route: str) -> tuple[int, ...]:
    if user == NO_SESSION:
        return (401,)
    needed = next(rights for begins, rights in NEEDS.items() if route.startswith(begins))
    if not all(_has(user, right) for right in needed):
        return (403,)
    if NOT_DEPLOYED in route:
        return (409,)
    return (404,) if any(part in route for part in ABSENT) else (200, 307)


def _streams_of(user: str) -> set[str]:
    if not all(_has(user, (READ, name)) for name in SEES):
        return set()
    return {dag for dag in ("orders", "other") if _has(user, (READ, ""), dag)}


def _has(user: str, right: tuple[str, str], dag: str = "orders") -> bool:
    if user == ADMIN:
        return True
    action, name = right
    names = (name,) if name else ("DAGs", f"DAG:{dag}")
    return any((action, one) in RIGHTS[user] for one in names)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
