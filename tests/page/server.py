"""
The page alone, without Airflow's database: its app with stand-ins for who asks and what is kept.

Run as a program: ``python -m tests.page.server HOME --port 8099``. The user is named by the header
or cookie ``user``: ``viewer``, ``editor`` (the default) or ``nobody``.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException, Request
from starlette.datastructures import State

from airflow_streaming.home.home import open_home
from airflow_streaming.model.names import GREEN_SUFFIX, Layout
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.plugins import api
from airflow_streaming.plugins.access.kept import Kept, external_name
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.admin import installation, removal
from airflow_streaming.plugins.board import Boards
from airflow_streaming.plugins.routes import create_app

RIGHTS: dict[str, dict[str, set[str]]] = {
    "admin": {"GET": {"*"}, "PUT": {"*"}, "DELETE": {"*"}},
    "editor": {"GET": {"*"}, "PUT": {"*"}},
    "viewer": {"GET": {"*"}, "PUT": set()},
    "stranger": {"GET": {"elsewhere"}, "PUT": {"elsewhere"}},
}
"""By user, the dags that may be seen and edited; ``*`` for all."""


DAG_ACTS = ("upgrade", "blue_green", "rescale", "backup", "restore")
"""What a stream has dags for, by the end of their ids."""


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
        allowed = RIGHTS[user.name].get(
            method if method == "DELETE" else "GET" if method == "GET" else "PUT", set()
        )
        # Without a dag it is asked whether there is one, as Airflow's managers take it.
        return "*" in allowed or (dag_id in allowed if dag_id else bool(allowed))

    def is_authorized_connection(self, *, method: str, user: User) -> bool:
        return method in RIGHTS[user.name] and user.name == "admin"


@dataclass
class FixedKeepers:
    """What is kept, without a database."""

    find: Callable[[], list[Kept]]

    def of(self, dag_ids: Collection[str]) -> list[Kept]:
        return [one for one in self.find() if one.dag.dag_id in dag_ids]

    def all(self) -> list[Kept]:
        return self.find()


def kept_in(folder: Path) -> list[Kept]:
    """Return every stream of a home, each kept by a dag of its name."""
    uri = str(folder)
    names = open_home(uri).streams() if folder.exists() else []
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


def external_in(checkpoint: Path, dag_id: str = "lake_report") -> Kept:
    """Return an external stream as a sensor of a dag names it."""
    return Kept(
        home=str(checkpoint),
        home_conn_id=None,
        stream=external_name(str(checkpoint)),
        written=str(checkpoint),
        dag=Actor(dag_id=dag_id, bundle="dags-folder", file="reports.py", team=""),
        run_id="scheduled__2026-11-20",
        task_id="wait_for_lake",
        is_external=True,
    )


@dataclass
class AirflowApi:
    """
    Airflow's public API, as far as the page uses it: it records who asks for which run.

    :param calls: Method, dag, user and body of every call that changes something.
    :param paused: Dags that are paused.
    :param asking: Dags of which a run waits for an answer.
    """

    calls: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)
    asking: set[str] = field(default_factory=set)

    def add_to(self, root: FastAPI) -> None:
        dag = "/api/v2/dags/{dag_id}"
        root.get(f"{dag}/details")(self.details)
        root.patch(dag)(self.patch)
        root.post(f"{dag}/dagRuns")(self.trigger)
        root.post(f"{dag}/dagRuns/list")(self.runs)
        root.get(f"{dag}/dagRuns/~/hitlDetails")(self.questions)

    def details(self, dag_id: str) -> dict[str, Any]:
        return {"dag_id": dag_id, "is_paused": dag_id in self.paused, "params": form_of(dag_id)}

    def runs(self, dag_id: str, body: dict[str, Any]) -> dict[str, Any]:
        states = ("running", "failed", "success")
        found = zip(body["dag_ids"], states, strict=False)
        at = datetime.now(UTC).isoformat()
        rows = [{"dag_id": d, "dag_run_id": "r", "state": s, "run_after": at} for d, s in found]
        return {"dag_runs": rows, "total_entries": len(rows)}

    def questions(self, dag_id: str) -> dict[str, Any]:
        task = {"id": "1", "dag_run_id": "r", "task_id": "upgrade.approve"}
        asked = [
            {"subject": "Upgrade orders_eu <b>now</b>?", "task_instance": {**task, "dag_id": one}}
            for one in self.asking
        ]
        return {"hitl_details": asked, "total_entries": len(asked)}

    def patch(self, dag_id: str, body: dict[str, Any], request: Request) -> dict[str, Any]:
        self.calls.append(("PATCH", dag_id, _user(request).name, body))
        self.paused.discard(dag_id)
        return {"dag_id": dag_id}

    def trigger(self, dag_id: str, body: dict[str, Any], request: Request) -> dict[str, Any]:
        user = _user(request)
        if not RIGHTS[user.name]["PUT"]:
            raise HTTPException(403, "Forbidden")
        self.calls.append(("POST", dag_id, user.name, body))
        return {"dag_run_id": "manual__1", "dag_id": dag_id}


@cache
def _dags() -> dict[str, Any]:
    from airflow_streaming.orchestration.stream_dags import stream_dags
    from airflow_streaming.spec import StreamSpec

    spec = StreamSpec(name="s", application="s.py", home="/h", runtime="spark-4.3")
    return dict(stream_dags(spec))


def form_of(dag_id: str) -> dict[str, Any]:
    """Return the parameters of a stream's dag as Airflow's API tells them."""
    act = next((act for act in DAG_ACTS if dag_id.endswith(f"_{act}")), None)
    params = _dags()[f"s_{act}" if act else "s"].params
    return {
        name: {"value": one.value, "schema": one.schema, "description": one.description}
        for name, one in ((name, params.get_param(name)) for name in params)
    }


def page_app(
    folder: Path,
    patch: Callable[[Any, str, Any], None],
    *,
    every: float = 0.0,
    keeps_still: Callable[[], bool] = lambda: True,
    **changes: Any,
) -> FastAPI:
    """
    Return the app for one home.

    :param patch: Sets an attribute, as ``monkeypatch.setattr`` does.
    :param every: Seconds between two looks at which streams there are; ``Keepers`` takes 10.
    :param keeps_still: Tells whether the dag of a stream still has its keep-alive task.
    :param changes: Of every stream that is kept.
    """
    from airflow.api_fastapi.core_api import security

    lake = folder.parent / "lake"
    known = [replace(one, **changes) for one in kept_in(folder)]
    found: list[Kept] = []
    found_at = float("-inf")

    def find() -> list[Kept]:
        nonlocal found, found_at
        if time.monotonic() - found_at >= every:
            ours = {one.stream: one for one in known}
            ours |= {one.stream: one for one in (replace(o, **changes) for o in kept_in(folder))}
            found = [*ours.values(), *([external_in(lake)] if lake.is_dir() else [])]
            found_at = time.monotonic()
        return found

    manager = Manager(lambda: [one.dag.dag_id for one in find()])
    for module in (api, security, removal, installation):
        patch(module, "get_auth_manager", lambda: manager)
    patch(security.DagModel, "get_team_name", lambda *_, **__: None)
    patch(
        api,
        "dags_of",
        lambda stream, _: {act: f"{stream}_{act}" for act in DAG_ACTS},
    )
    patch(removal, "keeps_still", lambda _: keeps_still())
    patch(api, "all_reports", lambda _: REPORTS)
    patch(api, "one_report", lambda *asked: REPORT if asked[2] == "gate" else None)
    patch(api, "action_logging", lambda: _not_logged)
    app, looks = copy(_routed()), Looks()
    app.state = State(
        {
            "looks": looks,
            "answers": {},
            "keepers": FixedKeepers(find),
            "boards": Boards(looks),
            "removals": removal.Removals(),
            "manager": manager,
        }
    )
    return app


@cache
def _routed() -> FastAPI:
    """Return the app with its routes: to add them takes longer than most of what is asked of them."""
    app = create_app(Looks())
    app.dependency_overrides[get_user] = _user
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
    home = open_home(str(folder))
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
    parser.add_argument("--quiet", action="store_true", help="let no driver beat")
    arguments = parser.parse_args()
    if not arguments.quiet:
        threading.Thread(target=beat, args=(arguments.home, threading.Event()), daemon=True).start()
    root = FastAPI()
    AirflowApi().add_to(root)
    root.mount("/streaming", page_app(arguments.home, setattr, every=10.0))
    uvicorn.run(root, host="127.0.0.1", port=arguments.port, log_level="warning", ws="none")


if __name__ == "__main__":
    main()
