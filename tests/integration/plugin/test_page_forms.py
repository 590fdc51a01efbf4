"""The page's acts against Airflow's own API: its forms, its sign-in, its audit log, its database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.records.control import DesiredState
from tests.integration.plugin.api import add_file, run_task, serving, settings_of, signed_in
from tests.page.chrome import Page, browsing, chromium
from tests.page.homes import write_home
from tests.page.visitor import Visitor

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed; no page is opened."),
]
STREAM = "orders_eu"
FILE = """
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import StreamSpec

globals().update(
    stream_dags(
        StreamSpec(name={stream!r}, application="a.py", home={home!r}, runtime="spark-4.3")
    )
)
"""


@dataclass
class Served:
    """
    A real API server with one stream.

    :param visitor: A browser; nobody is signed in.
    """

    visitor: Visitor
    home: StreamHome

    def sign_in(self, user: str) -> Visitor:
        """Sign a user in, as Airflow's own page does."""
        header = signed_in(self.visitor.url, user)["Authorization"]
        self.visitor.page.cookie(self.visitor.url, "_token", header.removeprefix("Bearer "))
        self.visitor.open(STREAM)
        return self.visitor

    def runs(self, dag: str) -> list[Any]:
        """Return the runs of a dag that were triggered by a user."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            mine = (DagRun.dag_id == dag, DagRun.triggering_user_name.is_not(None))
            return [*session.scalars(select(DagRun).where(*mine).order_by(DagRun.id))]

    def logged(self) -> set[tuple[str | None, str, str | None]]:
        """Return dag, event and user of Airflow's audit log."""
        from airflow.models.log import Log
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            return {(one.dag_id, one.event, one.owner) for one in session.scalars(select(Log))}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, page: Page) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("forms")
    home = folder / "home"
    write_home(home, {STREAM: "healthy"}, hours=1, batch=60)
    with settings_of(folder):
        from airflow.api_fastapi.app import create_app
        from airflow.utils.db import initdb

        initdb()
        dags = add_file(folder, "streams", FILE.format(stream=STREAM, home=str(home)))
        run_task(dags[STREAM], "stream")
        with serving(create_app(apps="core")) as address:
            yield Served(Visitor(page, address), open_home(str(home)).stream(STREAM))


RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("Back up now", "_backup", {}),
    ("Upgrade …", "_upgrade", {"application": "/jobs/new.py"}),
    ("Upgrade …", "_upgrade", {"conf": {"spark.executor.memory": "4g"}, "dry_run": False}),
    ("Blue-green cutover …", "_blue_green", {"application": "/jobs/new.py", "dry_run": False}),
    ("Rescale …", "_rescale", {"executors": 3, "dry_run": False}),
    ("Apply the dag's edited spec", "", {"restart": True}),
]
"""Label, the end of the dag's id, and what is filled in."""


@pytest.mark.parametrize(("label", "end", "given"), RUNS)
def test_a_form_becomes_a_run_that_airflow_has_checked_in_the_users_name(
    served: Served, label: str, end: str, given: dict[str, Any]
) -> None:
    dag = f"{STREAM}{end}"
    before, visitor = len(served.runs(dag)), served.sign_in("ann")
    visitor.choose(label)
    visitor.fill(**{name: value for name, value in given.items() if name != "restart"})
    is_grave = given.get("dry_run") is False or "restart" in given
    visitor.confirm(name=STREAM if is_grave else "")

    runs = served.runs(dag)
    assert len(runs) == before + 1
    assert runs[-1].triggering_user_name == "ann"
    assert {name: runs[-1].conf.get(name) for name in given} == given
    assert (dag, "trigger_dag_run", "ann") in served.logged()


@pytest.mark.parametrize(("act", "is_dry"), [("Verify …", True), ("Restore …", False)])
def test_a_backup_is_verified_and_restored_by_a_run(served: Served, act: str, is_dry: bool) -> None:
    visitor = served.sign_in("ann")
    visitor.open(STREAM, tab="backups")
    visitor.click(act)
    visitor.page.until("document.querySelector('dialog[open]')")
    visitor.confirm(name="" if is_dry else STREAM)

    conf = served.runs(f"{STREAM}_restore")[-1].conf
    assert conf["backup_id"]
    assert conf.get("dry_run", True) is is_dry


def test_the_runs_are_listed_as_airflow_tells_them(served: Served) -> None:
    visitor = served.sign_in("ann")
    visitor.choose("Rescale …")
    visitor.confirm()
    # What was triggered is followed where changes are shown.
    visitor.page.until("document.querySelector('.runs tr')")
    newest = "document.querySelector('.runs tr').innerText"
    visitor.page.until(f"{newest}.includes('{STREAM}_rescale')")
    assert "queued" in visitor.page.eval(newest)


def test_stop_and_start_are_records_in_the_users_name(served: Served) -> None:
    visitor = served.sign_in("ann")
    for act, state in (("Stop", DesiredState.STOPPED), ("Start", DesiredState.RUNNING)):
        visitor.open(STREAM)
        visitor.choose(act)
        visitor.confirm(reason="a test", name=STREAM if act == "Stop" else "")
        desired = served.home.desired()
        assert desired is not None
        assert (desired.state, desired.by) == (state, "ann")


def test_a_viewer_is_offered_nothing_and_a_stranger_sees_nothing(served: Served) -> None:
    visitor = served.sign_in("bob")
    visitor.page.eval("document.querySelector('.menu > button').click()")
    items = "[...document.querySelectorAll('[role=menuitem]')].map((one) => one.textContent)"
    assert visitor.page.eval(items) == ["Open the dag"]
    visitor.page.cookie(visitor.url, "_token", "nobody")
    visitor.page.open(f"{visitor.url}/streaming/app/")
    assert visitor.page.eval("document.querySelectorAll('tr.row').length") == 0
