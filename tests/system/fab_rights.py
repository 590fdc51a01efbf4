"""
Holds every route of the plugin against the rights of Airflow's FAB auth manager, on a real API server's app.

    VENV/bin/python -m tests.system.fab_rights

The virtual environment needs ``apache-airflow-providers-fab`` beside this package; it is no part of
``make setup``. Five users ask for every route of one dag's stream: one who is not signed in, one whose
role reads another dag, one who reads this dag, one who edits it, and an administrator. What each is
answered is counted, held against what the role may, and printed as a table.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.plugin.api import RUN, add_dag, forge_xcom, settings_of

MANAGER: Final = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
READS: Final = ("DAG Runs", "Task Instances", "Task Logs", "XComs", "DAG Code", "Website")
NOBODY, OTHER, VIEWER, EDITOR, ADMIN = "nobody", "other", "viewer", "editor", "admin"
USERS: Final = (NOBODY, OTHER, VIEWER, EDITOR, ADMIN)
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
            patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", MANAGER)
            patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "a" * 64)
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
    app = create_app()
    _make_users()
    with TestClient(app, follow_redirects=False) as client:
        tokens = {user: _token(client, user) for user in USERS if user != NOBODY}
        wrong = 0
        for method, path in sorted(_routes(app)):
            wrong += _try_route(client, tokens, method, path)
    return 1 if wrong else 0


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

    reads = [("can_read", name) for name in READS]
    edits = [("can_edit", "Task Instances"), ("can_read", "Task Instances")]
    roles = {
        OTHER: [*reads, *edits, ("can_read", "DAG:other"), ("can_edit", "DAG:other")],
        VIEWER: [*reads, ("can_read", "DAG:orders")],
        EDITOR: [*reads, *edits, ("can_read", "DAG:orders"), ("can_edit", "DAG:orders")],
    }
    with get_application_builder() as builder:
        security: Any = builder.sm
        for name, permissions in roles.items():
            role = security.add_role(name)
            for action, resource in permissions:
                security.add_permission_to_role(role, security.create_permission(action, resource))
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
        if problem := _problem(user, method, path, reply):
            wrong.append(f"{user}: {problem}")
    _say(
        f"{method} {path} | "
        + " | ".join(map(str, found))
        + ("" if not wrong else f"  WRONG {wrong}")
    )
    _seen.update(found)
    return len(wrong)


_seen: Final[Counter[int]] = Counter()


def _problem(user: str, method: str, path: str, reply: Any) -> str | None:
    code, is_of_dag = reply.status_code, "{dag_id}" in path
    if user == NOBODY:
        return None if code == 401 else f"{code} without a session"
    if is_of_dag and user == OTHER:
        return None if code == 403 else f"{code} for the stream of another dag"
    if not is_of_dag and user == OTHER and path == "/api/fleet":
        names = {row["stream"] for row in reply.json()["streams"]}
        return None if names == {"other"} else f"sees {sorted(names)}"
    if method == "POST" and user == VIEWER:
        return None if code == 403 else f"{code} for an act without the right to edit"
    return f"{code}" if code in (401, 403, 500) else None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
