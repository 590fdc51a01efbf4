"""A real Airflow API server with our plugin, two users, and dags whose tasks have run."""

from __future__ import annotations

import json
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from airflow_streaming.model.host import this_host

PASSWORDS: Final = {"ann": "a", "bob": "b", "sue": "s", "kim": "k"}
RUN: Final = "run-1"
BUNDLE: Final = "dags-folder"

FILE: Final = """
from airflow.sdk import DAG, Param
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import FormPolicy, StreamSpec

with DAG({dag!r}, schedule=None, params={{"home": Param("none", type="string")}}):
    SparkStreamOperator(
        task_id="keep",
        home_conn_id={conn!r},
        stream=StreamSpec(
            name={stream!r},
            application="a.py",
            home={home!r},
            runtime="spark-4.3",
            form_policy=FormPolicy(fields=["home"]),
        ),
    )
"""


@contextmanager
def settings_of(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Set Airflow up for the block: two users, and the folders of dags and drivers."""
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    dags = folder / "dags"
    dags.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "ann:admin,bob:viewer")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        patch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
        patch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(folder / "drivers"))
        yield patch


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an app on a port of its own for the block; give its address."""
    import uvicorn

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread.start()
        until = time.monotonic() + 60
        while not server.started and time.monotonic() < until:
            time.sleep(0.05)
    assert server.started
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def signed_in(address: str, user: str) -> dict[str, str]:
    """Return the headers of a user who has signed in."""
    reply = httpx.post(
        f"{address}/auth/token", json={"username": user, "password": PASSWORDS[user]}, timeout=60
    )
    assert reply.status_code == 201, reply.text
    return {"Authorization": f"Bearer {reply.json()['access_token']}"}


def add_dag(
    folder: Path,
    dag: str,
    *,
    home: str,
    stream: str = "orders",
    conn: str | None = None,
    chosen: str = "",
    bundle: str = BUNDLE,
) -> None:
    """
    Let a dag with one keep-alive task be parsed and run, as far as its first rendered fields.

    :param chosen: The home that the run was given as a parameter.
    :param bundle: Bundle of the file, in the folder of its name if it is not the default bundle.
    """
    text = FILE.format(dag=dag, home=home, stream=stream, conn=conn)
    run_task(add_file(folder, dag, text, bundle)[dag], "keep", chosen)


def add_file(folder: Path, name: str, text: str, bundle: str = BUNDLE) -> dict[str, Any]:
    """Let a dag file be parsed; return its dags by their ids."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.utils.session import create_session

    path = folder / ("dags" if bundle == BUNDLE else bundle)
    path.mkdir(exist_ok=True)
    (path / f"{name}.py").write_text(text)
    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    bag = BundleDagBag(dag_folder=path, bundle_path=path, bundle_name=bundle)
    assert not bag.import_errors, bag.import_errors
    sync_bag_to_db(bag, bundle, None)
    return dict(bag.dags)


def run_task(dag: Any, task_id: str, chosen: str = "") -> None:
    """Let a run of a dag have started a task, as far as its rendered fields."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    task = dag.get_task(task_id)
    task.render_template_fields({"params": {"home": chosen}})
    with create_session() as session:
        stored = SerializedDagModel.get(dag.dag_id, session=session)
        assert stored is not None
        run = stored.dag.create_dagrun(
            run_id=RUN,
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        instance = run.get_task_instance(task_id, session=session)
        instance.task = task
        instance.start_date = datetime.now(UTC)
        instance.hostname = this_host().name
        fields = RenderedTaskInstanceFields(
            instance, render_templates=False, rendered_fields=_serialize_rendered_fields(task)
        )
        fields.write(session=session)


def forge_xcom(dag: str, **value: Any) -> None:
    """Write what a user with the right to edit XCom may write beside a task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        XComModel.set(
            key="stream",
            value=value,
            dag_id=dag,
            task_id="keep",
            run_id=RUN,
            session=session,
        )
