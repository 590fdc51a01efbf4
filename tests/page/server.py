"""
The page alone, without Airflow's database: its app with stand-ins for who asks and what is kept.

Run as a program: ``python -m tests.page.server HOME --port 8099``. The user is named by the header
or cookie ``user``: ``viewer``, ``editor`` (the default) or ``nobody``.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException, Request

from airflow_streaming.home.home import open_home
from airflow_streaming.model.names import GREEN_SUFFIX, Layout
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.plugins import api
from airflow_streaming.plugins.board import Boards
from airflow_streaming.plugins.kept import Kept
from airflow_streaming.plugins.looks import Looks
from airflow_streaming.plugins.routes import create_app

RIGHTS: dict[str, dict[str, set[str]]] = {
    "editor": {"GET": {"*"}, "PUT": {"*"}},
    "viewer": {"GET": {"*"}, "PUT": set()},
    "stranger": {"GET": {"elsewhere"}, "PUT": {"elsewhere"}},
}
"""By user, the dags that may be seen and edited; ``*`` for all."""


@dataclass
class User:
    """Who asks."""

    name: str

    def get_name(self) -> str:
        return self.name

    def get_id(self) -> str:
        return self.name


@dataclass
class Manager:
    """Airflow's auth manager, as far as the page asks it."""

    dags: Callable[[], Collection[str]]
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def get_authorized_dag_ids(self, *, user: User, method: str = "GET") -> set[str]:
        allowed = RIGHTS[user.name][method]
        return set(self.dags()) if "*" in allowed else set(allowed)

    def is_authorized_dag(
        self, *, method: str, details: Any = None, user: User, access_entity: Any = None
    ) -> bool:
        dag_id = details.id if details is not None else None
        self.asked.append((method, dag_id))
        allowed = RIGHTS[user.name]["GET" if method == "GET" else "PUT"]
        return "*" in allowed or dag_id in allowed


@dataclass
class FixedKeepers:
    """What is kept, without a database."""

    kept: list[Kept]

    def of(self, dag_ids: Collection[str]) -> list[Kept]:
        return [one for one in self.kept if one.dag.dag_id in dag_ids]

    def all(self) -> list[Kept]:
        return self.kept


def kept_in(folder: Path) -> list[Kept]:
    """Return every stream of a home, each kept by a dag of its name."""
    uri = str(folder)
    names = open_home(uri, probe=False).streams() if folder.exists() else []
    return [
        Kept(
            home=uri,
            home_conn_id=None,
            stream=name,
            written=uri,
            dag=Actor(dag_id=name, bundle="dags-folder", file="streams.py", team=""),
            run_id="scheduled__2026-11-20",
            task_id="stream",
        )
        for name in names
        if not name.endswith(GREEN_SUFFIX) and not name.startswith("_")
    ]


def page_app(folder: Path, patch: Callable[[Any, str, Any], None], **changes: Any) -> FastAPI:
    """
    Return the app for one home.

    :param patch: Sets an attribute, as ``monkeypatch.setattr`` does.
    :param changes: Of every stream that is kept.
    """
    from airflow.api_fastapi.core_api import security

    kept = [replace(one, **changes) for one in kept_in(folder)]
    manager = Manager(lambda: [one.dag.dag_id for one in kept])
    for module in (api, security):
        patch(module, "get_auth_manager", lambda: manager)
    patch(security.DagModel, "get_team_name", lambda *_, **__: None)
    patch(
        api,
        "dags_of",
        lambda stream, _: {"upgrade": f"{stream}_upgrade", "backup": f"{stream}_backup"},
    )
    patch(api, "all_reports", lambda _: REPORTS)
    patch(api, "one_report", lambda *asked: REPORT if asked[2] == "gate" else None)
    patch(api, "action_logging", lambda: _not_logged)
    app = create_app(Looks())
    app.dependency_overrides[get_user] = _user
    app.state.keepers = FixedKeepers(kept)
    app.state.boards = Boards(app.state.looks)
    app.state.manager = manager
    return app


def _not_logged() -> None:
    """Stand in for Airflow's audit log, which needs its database."""


def _user(request: Request) -> User:
    name = request.headers.get("user") or request.cookies.get("user") or "editor"
    if name not in RIGHTS:
        raise HTTPException(401, "Not authenticated")
    return User(name)


REPORTS = [
    {
        "dag": "orders_eu_upgrade",
        "run": "manual__1",
        "task": "gate",
        "at": "2026-11-22T09:12:00+00:00",
    }
]
REPORT = {
    **REPORTS[0],
    "text": """# Gate: not allowed

The new code cannot resume from checkpoint `orders_eu/checkpoints/000001`.

| severity | rule | what | measured |
|---|---|---|---|
| **not allowed** | `aggregation.key` | grouping key changed from `region` to `country` | 4.1, 4.3 |
| with consequence | `source.option` | `maxOffsetsPerTrigger` 100000 to 400000 | 4.1, 4.3 |
| allowed | `conf.shuffle` | `spark.sql.shuffle.partitions` is fixed by the checkpoint | 3.5 to 4.3 |

## What to do

- Start a green lane with a fresh checkpoint: **DAG `orders_eu_blue_green`**.
- Or keep the key and add the new column to the aggregation.
""",
}


def beat(folder: Path, stop: threading.Event) -> None:
    """Let the drivers that have not ended go on beating."""
    home = open_home(str(folder), probe=False)
    alive: list[tuple[Any, int]] = []
    for name in home.streams():
        stream = home.stream(name)
        epoch = stream.newest_epoch()
        status = stream.status(epoch.number) if epoch else None
        silent = datetime.now(UTC) - status.at if status else timedelta(days=1)
        if epoch and stream.exit(epoch.number) is None and silent < timedelta(minutes=3):
            alive.append((stream, epoch.number))
    while not stop.wait(3):
        for stream, number in alive:
            status = stream.status(number)
            path = Layout(stream.name).epoch(number, "status.json")
            stream.store.replace(path, replace(status, at=datetime.now(UTC)).to_bytes())


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--port", type=int, default=8099)
    arguments = parser.parse_args()
    threading.Thread(target=beat, args=(arguments.home, threading.Event()), daemon=True).start()
    root = FastAPI()
    root.mount("/streaming", page_app(arguments.home, setattr))
    uvicorn.run(root, host="127.0.0.1", port=arguments.port, log_level="warning", ws="none")


if __name__ == "__main__":
    main()
