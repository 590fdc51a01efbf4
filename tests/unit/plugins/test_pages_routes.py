"""Every route of the page asks for a right; lists are filtered; nothing but a POST changes anything."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.history import ended_at
from airflow_streaming.model.jobs.migration import (
    Carry,
    Merge,
    Move,
    OperatorMigration,
    StateColumn,
    StateMigration,
)
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState, Event, EventKind
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.records.upgrade_table import UpgradeEvent as E
from tests.page.open_changes import write_upgrade
from tests.patience import until
from tests.system.fab_rights import NEEDS

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

    from airflow_streaming.plugins.pages import POLICY, all_files
    from tests.page.server import RIGHTS, page_app

pytestmark = pytest.mark.filterwarnings("ignore")
STREAM = "/api/streams/orders_eu/orders_eu"
ACT = {"X-Streaming-Act": "1"}


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_home, tmp_path / "home"))


@pytest.fixture
def app(home: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    return page_app(home, monkeypatch.setattr)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def as_user(name: str, **more: str) -> dict[str, str]:
    return {"user": name, **more}


def api_routes(app: FastAPI) -> list[APIRoute]:
    found: list[APIRoute] = []

    def walk(routes: Any) -> None:
        for route in routes:
            if isinstance(route, APIRoute):
                found.append(route)
            elif hasattr(route, "routes"):
                walk(route.routes)
            else:
                raise AssertionError(f"{route} is no route that this test understands")

    walk(app.routes)
    return found


USERS = {
    "nobody": {"GET": 401, "POST": 401},
    "stranger": {"GET": 403, "POST": 403},
    "viewer": {"GET": 200, "POST": 403},
    "editor": {"GET": 200, "POST": 200},
    "admin": {"GET": 200, "POST": 200},
}
"""By user and method, what a route about one dag answers."""
OF_NO_DAG = {"/app", "/app/{name:path}", "/api/fleet"}
"""Routes that every signed-in user may ask; the fleet is filtered."""
OF_ADMINS = ("/removal", "/installation")
"""Ends of routes for users who administer Airflow."""


PLACES = {
    "dag_id": "orders_eu",
    "stream": "orders_eu",
    "act": "start",
    "run_id": "r",
    "task_id": "gate",
    "map_index": "-1",
    "name": "app.js",
}


def path_of(route: APIRoute) -> str:
    path = route.path.replace(":path", "")
    for name, value in PLACES.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, path
    return path


def test_there_are_all_routes(app: FastAPI) -> None:
    assert len(api_routes(app)) >= 15


def test_no_route_answers_somebody_who_is_not_signed_in(app: FastAPI, client: TestClient) -> None:
    for route in api_routes(app):
        for method in route.methods:
            reply = client.request(
                method, path_of(route), headers=as_user("nobody", **ACT), json={"reason": "x"}
            )
            assert reply.status_code == 401, (method, route.path, reply.text)


@pytest.mark.parametrize("user", USERS)
def test_every_route_answers_a_user_by_his_right_to_the_dag(
    app: FastAPI, client: TestClient, user: str
) -> None:
    for route in api_routes(app):
        # These read Airflow's database; tests/integration/plugin asks them of a real Airflow.
        if route.path.startswith("/tasks/") and user not in ("nobody", "stranger"):
            continue
        for method in route.methods:
            reply = client.request(
                method,
                path_of(route),
                headers=as_user(user, **ACT),
                json={"reason": "x"},
                follow_redirects=False,
            )
            wanted = USERS[user][method]
            if route.path in OF_NO_DAG and user == "stranger":
                wanted = 200
            if route.path == "/app" and wanted == 200:
                wanted = 307
            if "external" in route.path and wanted == 200:
                wanted = 404  # the dag has a stream of ours and no other
            if route.path.endswith(OF_ADMINS) and user in ("viewer", "editor"):
                wanted = 403
            assert reply.status_code == wanted, (method, route.path, reply.text)


EVIL = "<script>alert(1)</script>\u202e"


def test_a_hostile_stream_is_answered_and_is_small(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stream(home)
    status = one.status(2)
    assert status is not None
    large = EVIL + "x" * 500_000  # twice: as much as a record may hold
    worst = replace(status.queries[0], message=large, error=large, name=EVIL)
    path = Layout("orders_eu").epoch(2, "status.json")
    one.store.replace(path, replace(status, queries=(worst,)).to_bytes())
    one.store.replace(
        f"{Layout('orders_eu').progress(2)}/000099.jsonl",
        b'{"query": "revenue", "input_rows_per_second": NaN, "duration_ms": Infinity}\n'
        b'{"query": "revenue", "batch_id": 1e999, "at": "2999-01-01T00:00:00Z"}\n' + b"[" * 9_000,
    )
    later = datetime(2999, 1, 1, tzinfo=UTC)
    one.add_event(Event(event=EventKind.BLOCKED, at=later, by=EVIL, message=large))
    number = max(one.deployment_numbers()) + 1
    before = one.deployment(number - 1)
    conf = {"spark.evil": large[:20_000], EVIL: EVIL}
    one.create_deployment(
        replace(before, number=number, conf=conf, created_by=EVIL), b"print('a stream')\n"
    )
    for route in ("", "/series", "/series?part=all", "/timeline", "/deployments", "/changes"):
        reply = client.get(f"{STREAM}{route}")
        assert reply.status_code == 200, (route, reply.text[:300])
        assert len(reply.content) < 300_000, route
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
        json.loads(reply.content, parse_constant=pytest.fail)
    assert client.get("/api/fleet").status_code == 200


def test_a_hostile_name_is_not_found_and_opens_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (EVIL, "../orders_eu", "x" * 3_000, "a/b", "\x00"):
        app = page_app(home, monkeypatch.setattr, stream=name)
        with TestClient(app) as client:
            rows = client.get("/api/fleet").json()["streams"]
            assert {row["state"] for row in rows} <= {"unreadable", "reading"}, name
            path = quote(name, safe="")
            reply = client.get(f"/api/streams/orders_eu/{path}")
            assert reply.status_code in (403, 404, 422, 503), (name, reply.text)


def test_an_external_stream_is_shown_as_such_and_takes_no_act(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = home.parent / "lake"
    for folder in ("offsets", "commits"):
        (lake / folder).mkdir(parents=True)
    (lake / "metadata").write_text('{"id": "7f1f1f7e-0000-4000-8000-0000000000aa"}')
    plan = '{"batchWatermarkMs":0,"batchTimestampMs":1763800000000,"conf":{}}'
    (lake / "offsets/41").write_text(f'v1\n{plan}\n{{"lake":{{"0":41}}}}')
    (lake / "commits/41").write_text('v1\n{"nextBatchWatermarkMs":0}')
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    with TestClient(page_app(home, monkeypatch.setattr)) as client:
        rows = client.get("/api/fleet").json()["streams"]
        [row] = [row for row in rows if row["external"]]
        told = client.get(f"/api/external/lake_report/{row['stream']}").json()
        act = f"/api/streams/lake_report/{row['stream']}/acts/stop"
        acted = client.post(
            act, headers=as_user("editor", **ACT), json={"reason": "x", "confirm": row["stream"]}
        )
        other = client.get("/api/external/orders_eu/orders_eu")
        theirs = client.get(
            f"/api/external/lake_report/{row['stream']}", headers=as_user("stranger")
        )
    assert (row["title"], row["launcher"]) == ("lake", "external")
    assert [query["batch"] for query in told["queries"]] == [41]
    assert told["acts"] == []
    assert [acted.status_code, other.status_code, theirs.status_code] == [404, 404, 403]
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


def test_a_viewer_of_another_dag_gets_nothing_of_this_one(app: FastAPI, client: TestClient) -> None:
    for route in api_routes(app):
        for method in route.methods:
            reply = client.request(
                method,
                path_of(route),
                headers=as_user("stranger", **ACT),
                json={"reason": "x"},
                follow_redirects=False,
            )
            if "{dag_id}" in route.path:
                assert reply.status_code == 403, (method, route.path, reply.text)
            else:
                assert b"orders_eu" not in reply.content, route.path


def test_a_viewer_sees_and_may_not_act(client: TestClient) -> None:
    rows = client.get("/api/fleet", headers=as_user("viewer")).json()["streams"]
    assert {row["stream"] for row in rows} == {"orders_eu", "clicks_eu", "fraud_eu"}
    told = client.get(STREAM, headers=as_user("viewer")).json()
    assert (told["can_edit"], told["acts"]) == (False, [])
    reply = client.post(
        f"{STREAM}/acts/stop", headers=as_user("viewer", **ACT), json={"reason": "x"}
    )
    assert reply.status_code == 403


def test_the_rights_of_every_route_are_tried(app: FastAPI) -> None:
    routes = [f"{method} {one.path}" for one in api_routes(app) for method in one.methods]

    assert len(routes) > 15
    assert [one for one in routes if not one.startswith(tuple(NEEDS))] == []


def test_no_get_changes_a_file(app: FastAPI, client: TestClient, home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    for route in api_routes(app):
        is_of_this = "GET" in route.methods and "external" not in route.path
        if is_of_this and not route.path.startswith("/tasks/"):
            reply = client.get(path_of(route), headers=as_user("admin"), follow_redirects=False)
            assert reply.status_code < 400, (route.path, reply.text)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**ACT, "Origin": "https://evil.example"},
        {**ACT, "Origin": "null"},
        {**ACT, "Sec-Fetch-Site": "cross-site"},
        {**ACT, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_request_that_another_site_can_make_does_nothing(
    client: TestClient, home: Path, headers: dict[str, str]
) -> None:
    reply = client.post(
        f"{STREAM}/acts/stop",
        headers=as_user("editor", **headers),
        json={"reason": "x", "confirm": "orders_eu"},
    )
    assert reply.status_code == 403
    assert stream(home).desired() is None


def stream(home: Path, name: str = "orders_eu") -> StreamHome:
    return open_home(str(home)).stream(name)


def test_an_editor_stops_and_starts_a_stream_in_his_own_name(
    client: TestClient, home: Path
) -> None:
    told = {"reason": "maintenance", "confirm": "orders_eu"}
    headers = as_user("editor", **ACT)
    assert client.post(f"{STREAM}/acts/stop", headers=headers, json=told).status_code == 200
    desired, request = stream(home).desired(), stream(home).stop_request(2)
    assert desired is not None
    assert (desired.state, desired.by, desired.reason) == (
        DesiredState.STOPPED,
        "editor",
        "maintenance",
    )
    assert request is not None
    assert request.by == "editor"
    acts = {one["act"] for one in client.get(STREAM).json()["acts"]}
    assert "start" in acts
    assert "stop" not in acts
    assert client.post(f"{STREAM}/acts/start", headers=headers, json=told).status_code == 200
    desired = stream(home).desired()
    assert desired is not None
    assert desired.state is DesiredState.RUNNING


def test_a_start_on_the_page_closes_the_circuit(client: TestClient, home: Path) -> None:
    reply = client.post(
        "/api/streams/clicks_eu/clicks_eu/acts/start",
        headers=as_user("editor", **ACT),
        json={"reason": "broker is back"},
    )
    assert reply.status_code == 200, reply.text
    circuit = stream(home, "clicks_eu").circuit()
    assert circuit is not None
    assert (circuit.state.value, circuit.by) == ("closed", "editor")


def test_a_cutover_is_given_up_from_the_page(client: TestClient, home: Path) -> None:
    path = "/api/streams/fraud_eu/fraud_eu"
    acts = {one["act"]: one for one in client.get(path).json()["acts"]}
    assert acts["cutover.abort"]["asks_name"]
    reply = client.post(
        f"{path}/acts/cutover.abort",
        headers=as_user("editor", **ACT),
        json={
            "reason": "looks good",
            "confirm": "fraud_eu",
            "number": acts["cutover.abort"]["change"],
        },
    )
    assert reply.status_code == 200, reply.text
    newest = stream(home, "fraud_eu").steps(1)[-1]
    assert (newest.event.value, newest.by) == ("abort", "editor")


@pytest.mark.parametrize(
    ("act", "body"),
    [
        ("stop", {"reason": "x"}),
        ("stop", {"reason": "x", "confirm": "clicks_eu"}),
        ("declare-dead", {"reason": "x", "confirm": "orders_eu"}),
        ("declare-dead", {"reason": "x", "confirm": "orders_eu", "number": 1}),
        ("upgrade.keep", {"reason": "x", "confirm": "orders_eu", "number": 1}),
        ("cutover.promote", {"reason": "x", "confirm": "orders_eu"}),
        ("format-disk", {"reason": "x", "confirm": "orders_eu"}),
    ],
)
def test_what_is_not_confirmed_or_not_there_is_refused_and_nothing_is_written(
    client: TestClient, home: Path, act: str, body: dict[str, Any]
) -> None:
    before = sorted(home.rglob("*"))
    reply = client.post(f"{STREAM}/acts/{act}", headers=as_user("editor", **ACT), json=body)
    assert reply.status_code == 409, reply.text
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    "body", [b'{"reason": "x", "number": NaN}', b'{"reason": "\\ud800"}', b'{"reason": ' * 999]
)
def test_a_body_that_cannot_be_repeated_is_refused_and_not_repeated(
    client: TestClient, body: bytes
) -> None:
    headers = as_user("editor", **ACT, **{"Content-Type": "application/json"})
    reply = client.post(f"{STREAM}/acts/start", headers=headers, content=body)
    assert reply.status_code in (400, 422)
    assert "NaN" not in reply.text


@pytest.mark.parametrize("index", [2**31, 2**63, 2**64, -2, "9" * 400, "1.5", "nan"])
def test_a_map_index_that_no_task_has_is_refused(client: TestClient, index: object) -> None:
    path = f"/tasks/orders_eu/r/keep/{index}/driver-log"
    assert client.get(path, headers=as_user("viewer")).status_code == 422


def test_an_act_without_a_reason_is_refused(client: TestClient) -> None:
    reply = client.post(
        f"{STREAM}/acts/start", headers=as_user("editor", **ACT), json={"reason": ""}
    )
    assert reply.status_code == 422


@pytest.mark.parametrize("name", sorted(all_files()))
def test_a_file_has_the_policy_and_its_type(client: TestClient, name: str) -> None:
    reply = client.get(f"/app/{name}")
    assert reply.status_code == 200
    assert reply.headers["Content-Security-Policy"] == POLICY
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    again = client.get(f"/app/{name}", headers={"If-None-Match": reply.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "name", ["../routes.py", "%2e%2e/routes.py", "vendor", "x.js", "/etc/passwd"]
)
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/app/{name}").status_code == 404


def test_nothing_inline_is_in_the_page() -> None:
    html = all_files()["index.html"].data.decode()
    assert "<script>" not in html
    assert "style=" not in html
    assert " on" not in html.replace(" only", "")


def test_a_list_that_has_no_news_is_not_sent_again(client: TestClient) -> None:
    client.get("/api/fleet")
    first = client.get("/api/fleet")
    again = client.get("/api/fleet", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code in (200, 304)
    changes = client.get(f"{STREAM}/changes")
    tag = {"If-None-Match": changes.headers["ETag"]}
    assert client.get(f"{STREAM}/changes", headers=tag).status_code == 304


def test_a_list_is_shared_only_by_users_who_see_the_same_streams(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIGHTS, "partner", {"GET": {"orders_eu"}, "PUT": set()})
    for _ in range(2):
        all_of_them = client.get("/api/fleet", headers=as_user("viewer")).json()["streams"]
        one_of_them = client.get("/api/fleet", headers=as_user("partner")).json()["streams"]
        none_of_them = client.get("/api/fleet", headers=as_user("stranger")).json()["streams"]
        assert len(all_of_them) == 3
        assert [row["stream"] for row in one_of_them] == ["orders_eu"]
        assert none_of_them == []


@pytest.mark.parametrize("part", ["main", "state", "observed"])
def test_a_part_of_a_series_has_its_own_figures_only(client: TestClient, part: str) -> None:
    [whole] = client.get(f"{STREAM}/series?part=all").json()["series"]
    [series] = client.get(f"{STREAM}/series?part={part}").json()["series"]
    others = ("state.", "observed.")
    mine = {
        n
        for n in whole["figures"]
        if (n.startswith(f"{part}.") if part != "main" else not n.startswith(others))
    }
    assert mine
    assert {name: whole["figures"][name] for name in mine} == series["figures"]


def test_a_timeline_goes_back_as_far_as_it_is_asked(client: TestClient) -> None:
    whole = client.get(f"{STREAM}/timeline").json()["entries"]
    between = datetime.fromisoformat(whole[1]["at"]).timestamp()
    found = client.get(f"{STREAM}/timeline?since={between}").json()["entries"]
    assert found == [
        one for one in whole if datetime.fromisoformat(one["at"]).timestamp() >= between
    ]
    assert 0 < len(found) < len(whole)


@pytest.mark.parametrize("seconds", [900, 3600, 7200])
def test_a_series_has_the_extremes_that_the_home_holds(
    client: TestClient, home: Path, seconds: int
) -> None:
    told = client.get(f"{STREAM}/series?seconds={seconds}&part=all").json()
    [series] = told["series"]
    rows = [
        row
        for number in (1, 2)
        for row in stream(home).read_progress(number, limit=100_000)
        if told["begin"] <= _ended(row) <= told["end"]
    ]
    figure = series["figures"]["duration_ms"]
    assert max(figure.get("max", figure["last"])) == pytest.approx(
        max(r.duration_ms for r in rows), rel=0.001
    )
    assert series["at"] == sorted(series["at"])
    assert len(series["at"]) <= 240


def _ended(row: Any) -> float:
    return ended_at(row) or 0.0


@pytest.mark.parametrize("query", ["seconds=1", "seconds=x", "end=nan", "lane=../x", "part=none"])
def test_a_question_that_makes_no_sense_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"{STREAM}/series?{query}").status_code in (404, 422)


def test_a_lane_of_another_stream_is_not_shown(client: TestClient) -> None:
    reply = client.get("/api/streams/fraud_eu/fraud_eu/series?lane=orders_eu")
    assert reply.status_code == 404
    green = client.get("/api/streams/fraud_eu/fraud_eu/series?lane=fraud_eu.green")
    assert green.status_code == 200


def test_a_stream_that_does_not_belong_to_the_dag_is_not_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page_app(
        home, monkeypatch.setattr, dag=Actor(dag_id="other", bundle="b", file="f.py", team="")
    )
    with TestClient(app) as client:
        reply = client.get("/api/streams/other/orders_eu")
        rows = client.get("/api/fleet").json()["streams"]
    assert reply.status_code == 403
    assert {row["state"] for row in rows} <= {"unreadable", "reading"}


@pytest.mark.parametrize("left", [(), ("_rows",)], ids=["nothing", "rows of triggers"])
def test_a_home_that_is_away_leaves_the_page_with_what_is_known(
    home: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]
) -> None:
    app, later = page_app(home, monkeypatch.setattr), [0.0]
    app.state.boards._clock = lambda: time.monotonic() + later[0]

    def rows() -> list[dict[str, Any]]:
        later[0] += 60.0  # so that a new look is due
        app.state.answers.clear()
        return list(client.get("/api/fleet").json()["streams"])

    def away() -> list[dict[str, Any]]:
        shown = rows()
        return shown if all(row["away"] for row in shown) else []

    with TestClient(app) as client:
        known = until(
            lambda: [r for r in rows() if r["state"] not in ("reading", "unreadable")], "a look"
        )
        shutil.move(home, f"{home}.away")
        for name in left:
            (home / name).mkdir(parents=True)
        # More than once: what was known of it is given up at the first contradiction.
        shown = [until(away, "the home to be found away") for _ in range(3)][-1]
        reply = client.get(STREAM)
        shutil.rmtree(home, ignore_errors=True)
        shutil.move(f"{home}.away", home)
        back = until(lambda: [row for row in rows() if not row["away"]], "the home to be back")
    assert {row["stream"]: row["state"] for row in shown} == {
        r["stream"]: r["state"] for r in known
    }
    assert min(row["age"] for row in shown) > 60
    assert reply.status_code == 503
    assert len(back) == len(known)


def test_a_stream_that_was_never_launched_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestClient(
        page_app(home, monkeypatch.setattr, stream="new_eu", dag=Actor(dag_id="new_eu"))
    ) as client:
        reply = client.get("/api/streams/new_eu/new_eu")
    assert reply.status_code == 403
    assert "first launch" in reply.json()["detail"]


def test_a_change_says_the_same_end_above_the_charts_and_in_its_table(
    client: TestClient, home: Path
) -> None:
    launched = (E.BACKUP_HOLDS, E.OLD_STOPPED, E.APPLY, E.DEPLOYMENT_MADE, E.NEW_STARTED)
    write_upgrade(stream(home), *launched)
    for one in ("orders_eu", "fraud_eu"):
        whole = client.get(f"/api/streams/{one}/{one}").json()["change"]
        [table] = client.get(f"/api/streams/{one}/{one}/changes").json()["changes"][:1]
        assert whole["until"] == table["until"] is not None, one
        assert whole["since"] == table["since"], one


def test_an_upgrade_lists_the_stages_that_it_has(client: TestClient, home: Path) -> None:
    write_upgrade(stream(home), E.BACKUP_HOLDS)

    [upgrade] = client.get(f"{STREAM}/changes").json()["changes"][:1]

    stages = [row["state"] for row in upgrade["table"]]
    assert stages[:2] == ["begun", "backed_up"]
    assert not {"repartitioning", "repartitioned", "migrating", "migrated"} & set(stages)
    assert upgrade["migration"] == []


def test_an_upgrade_lists_the_columns_of_its_migrated_state(client: TestClient, home: Path) -> None:
    added = StateColumn(name="max", type="bigint", move=Move.ADD, initial="NULL", of="max(x)")
    kept = StateColumn(name="sum", type="bigint", move=Move.KEEP, source=0, of="sum(x)")
    merged = replace(kept, name="count", of="count(1)", move=Move.MERGE, merge=Merge.SUM)
    operator = OperatorMigration(
        operator=1,
        name="stateStoreSave",
        carry=Carry.COLUMNS,
        source=1,
        value=(kept, merged, added),
        dropped=("min(x)",),
    )
    whole = OperatorMigration(operator=2, name="dedupe", carry=Carry.WHOLE, source=0)
    write_upgrade(
        stream(home),
        E.BACKUP_HOLDS,
        migrations=(StateMigration(query="totals", operators=(operator, whole)),),
    )

    [upgrade] = client.get(f"{STREAM}/changes").json()["changes"][:1]

    assert {"migrating", "migrated"} <= {row["state"] for row in upgrade["table"]}
    own = {"query": "totals", "operator": 1}
    assert upgrade["migration"] == [
        {**own, "column": "sum(x)", "becomes": "keep", "initial": ""},
        {**own, "column": "count(1)", "becomes": "merge sum", "initial": ""},
        {**own, "column": "max(x)", "becomes": "add", "initial": "NULL"},
        {**own, "column": "min(x)", "becomes": "drop", "initial": ""},
        {**own, "operator": 2, "column": "dedupe", "becomes": "whole", "initial": ""},
    ]


def test_a_stage_without_a_deadline_shows_none(client: TestClient, home: Path) -> None:
    write_upgrade(stream(home), E.BACKUP_HOLDS)
    assert client.get(STREAM).json()["change"]["until"] is None


def test_a_page_shows_no_secret_of_a_record_that_no_driver_masked(
    client: TestClient, home: Path
) -> None:
    stream = open_home(str(home)).stream("orders_eu")
    secret = "password=hunter2secret"
    for path in [
        *(home / "orders_eu/events").glob("*.json"),
        *(home / "orders_eu/desired").glob("*.json"),
        *(home / "orders_eu/alerts").glob("*.json"),
    ]:
        found = json.loads(path.read_text())
        path.write_text(
            json.dumps(
                {**found, **{name: secret for name in ("reason", "message") if name in found}}
            )
        )
    path = home / f"orders_eu/deployments/{max(stream.deployment_numbers()):06d}.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "output": "s3://key:hunter2secret@host/out"})
    )

    shown = [
        client.get(path, headers=as_user("viewer")).text
        for path in ("/api/fleet", STREAM, f"{STREAM}/timeline", f"{STREAM}/deployments")
    ]

    assert not any("hunter2secret" in text for text in shown)
    assert "password=(redacted)" in shown[2]
    assert "s3://key:(redacted)@host/out" in shown[3]


REFUSED_VIEWS = (
    "page=0",
    "page=-1",
    "page=1e3",
    "page=NaN",
    "page=99999999999999999999",
    "sort=__class__",
    "sort=state&sort=zz-evil",
    "order=zz-evil",
    "level=zz-evil",
    "level=down%00",
    f"q={'z' * 201}",
    f"dag={'z' * 251}",
)
HARMLESS_VIEWS = (
    "q=%00",
    "q=(((",
    "q=.*",
    "q=%ED%A0%80",
    "q=%E2%80%AE",
    "dag=..%2F..",
    "page=999999",
)


def test_a_view_of_the_fleet_is_checked_and_a_refusal_repeats_nothing_of_it(
    client: TestClient,
) -> None:
    for view in REFUSED_VIEWS:
        reply = client.get(f"/api/fleet?{view}")
        assert reply.status_code == 422, view
        assert "zz" not in reply.text
    for view in HARMLESS_VIEWS:
        assert client.get(f"/api/fleet?{view}").status_code == 200, view


def test_the_server_searches_filters_and_turns_pages(client: TestClient) -> None:
    until(lambda: client.get("/api/fleet").json()["reading"] == 0, "every stream to be read")
    whole = client.get("/api/fleet").json()
    name = whole["streams"][-1]["stream"]

    one = client.get("/api/fleet", params={"q": name, "page": 7}).json()
    other = client.get("/api/fleet", params={"dag": name}).json()

    assert [row["stream"] for row in one["streams"]] == [name]
    assert [row["stream"] for row in other["streams"]] == [name]
    assert (one["found"], one["page"], one["pages"]) == (1, 1, 1)
    assert one["total"] == whole["total"] == len(whole["streams"])
    assert one["counts"] == whole["counts"]


def test_an_open_cutover_shows_how_far_each_query_of_green_is_behind_blue(
    client: TestClient,
) -> None:
    [cutover, *_] = client.get("/api/streams/fraud_eu/fraud_eu/changes").json()["changes"]

    assert cutover["state"] == "ready"
    shown = {(lag["lane"], lag["query"]): lag["text"] for lag in cutover["lags"]}
    assert list(shown) == [("fraud_eu.green", "revenue")]
    assert "blue" in shown["fraud_eu.green", "revenue"]
