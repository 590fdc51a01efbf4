"""A stream is removed from its page by users who administer Airflow, with the refusals of the command."""

from __future__ import annotations

import asyncio
import shutil
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.services import streams
from airflow_streaming.services.removing import RemovedStream
from tests.page.homes import write_home
from tests.patience import PATIENCE
from tests.unit.supervision.checkpoints import Checkpoint

with warnings.catch_warnings():
    # Starlette would rather have a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

    from airflow_streaming.plugins.admin.removal import MOST, Removals, _is_inside
    from tests.page.server import page_app

pytestmark = pytest.mark.filterwarnings("ignore")
ADMIN = {"user": "admin", "X-Streaming-Act": "1"}
PATH = "/api/streams/off_eu/off_eu"
DONE = {"dry_run": False, "reason": "replaced", "confirm": "off_eu"}


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    """A home with a stream that was stopped, whose driver has ended, beside others that run."""
    folder = Path(shutil.copytree(demo_home, tmp_path / "home"))
    write_home(folder, {"off_eu": "off"}, hours=1, batch=60)
    streams.stop(off(folder), by="ann", reason="it goes")
    Checkpoint(folder / "off_eu/checkpoints/000001/revenue").run(1, 2)
    return folder


def off(home: Path) -> StreamHome:
    return open_home(str(home)).stream("off_eu")


@pytest.fixture
def keeps() -> dict[str, bool]:
    return {"still": False}


@pytest.fixture
def client(
    home: Path, keeps: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    app = page_app(home, monkeypatch.setattr, keeps_still=lambda: keeps["still"])
    with TestClient(app) as client:
        yield client


def files(home: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in home.rglob("*")}


@pytest.mark.parametrize("user", ["viewer", "editor"])
def test_a_user_who_does_not_administer_airflow_removes_nothing(
    client: TestClient, home: Path, user: str
) -> None:
    before = files(home)

    asked = client.post(f"{PATH}/removal", headers={**ADMIN, "user": user}, json=DONE)
    shown = client.get(PATH, headers={"user": user}).json()

    assert asked.status_code == 403
    assert shown["can_remove"] is False
    assert client.get(PATH, headers=ADMIN).json()["can_remove"] is True
    assert files(home) == before


def test_a_request_of_another_site_removes_nothing(client: TestClient, home: Path) -> None:
    before = files(home)
    assert client.post(f"{PATH}/removal", headers={"user": "admin"}, json=DONE).status_code == 403
    assert files(home) == before


def test_a_dry_run_writes_nothing_and_says_what_would_go(client: TestClient, home: Path) -> None:
    before = files(home)

    told = client.post(f"{PATH}/removal", headers=ADMIN, json={}).json()

    assert told["refusals"] == []
    assert "off_eu/deployments" in told["removed"]
    assert told["removed_total"] == len(told["removed"])
    assert files(home) == before


@pytest.mark.parametrize(
    ("body", "still", "name", "text"),
    [
        ({**DONE, "confirm": "off"}, False, "off_eu", "was not confirmed"),
        ({**DONE, "reason": " "}, False, "off_eu", "needs a reason"),
        (DONE, True, "off_eu", "DAG 'off_eu' owns off_eu"),
        ({**DONE, "confirm": "orders_eu"}, False, "orders_eu", 'is not "stopped"'),
        ({**DONE, "confirm": "orders_eu"}, False, "orders_eu", "is not proved dead"),
        ({**DONE, "confirm": "fraud_eu"}, False, "fraud_eu", "(cutover) of fraud_eu is open"),
    ],
    ids=["not confirmed", "no reason", "claimed", "wanted running", "living driver", "open change"],
)
def test_what_speaks_against_a_removal_is_said_and_nothing_is_removed(
    client: TestClient,
    home: Path,
    keeps: dict[str, bool],
    body: dict[str, Any],
    still: bool,
    name: str,
    text: str,
) -> None:
    keeps["still"], before = still, files(home)

    reply = client.post(f"/api/streams/{name}/{name}/removal", headers=ADMIN, json=body)

    assert reply.status_code == 409
    assert text in reply.json()["detail"]
    assert files(home) == before


def test_a_removal_leaves_a_tombstone_and_the_page_says_who_removed_the_stream(
    client: TestClient, home: Path
) -> None:
    assert client.get(PATH, headers=ADMIN).status_code == 200
    reply = client.post(f"{PATH}/removal", headers=ADMIN, json=DONE)

    assert reply.status_code == 200, reply.text
    [backup] = reply.json()["backups"]
    assert list((home / "_backups").rglob(f"*{backup}*"))
    removal = off(home).removal()
    assert removal is not None
    assert (removal.by, removal.reason) == ("admin", "replaced")
    fence = off(home).newest_epoch()
    assert fence is not None
    assert fence.cause is LaunchCause.FENCE
    assert not (home / "off_eu/deployments").exists()
    gone = client.get(PATH, headers=ADMIN)
    assert gone.status_code == 404
    assert "admin" in gone.json()["detail"]
    assert "airflow-streaming reuse off_eu" in gone.json()["detail"]
    [row] = [r for r in client.get("/api/fleet").json()["streams"] if r["stream"] == "off_eu"]
    assert (row["state"], row["level"]) == ("removed", "off")
    again = client.post(f"{PATH}/removal", headers=ADMIN, json=DONE)
    assert again.status_code == 200


def test_a_checkpoint_outside_of_the_home_is_not_opened_by_the_api_server(
    client: TestClient, home: Path
) -> None:
    outside = home.parent / "secrets"
    (outside / "offsets").mkdir(parents=True)
    stream = off(home)
    newest = stream.newest_deployment()
    assert newest is not None
    made = replace(newest, number=newest.number + 1, checkpoint=str(outside))
    stream.create_deployment(made, b"print('a stream')\n")

    reply = client.post(f"{PATH}/removal", headers=ADMIN, json=DONE)

    assert reply.status_code in (409, 503), reply.text
    assert "outside of home" in reply.json()["detail"]
    assert (home / "off_eu/deployments").exists()


@pytest.mark.parametrize(
    ("uri", "is_there"),
    [
        ("{home}/orders/checkpoints", True),
        ("{home}", False),
        ("{home}x/orders", False),
        ("{home}/../x", False),
        ("{home}/link", False),
        ("s3://bucket/home/orders", False),
    ],
)
def test_a_place_is_inside_a_home_with_its_links_followed(
    uri: str, is_there: bool, tmp_path: Path
) -> None:
    root = tmp_path / "home"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)

    assert _is_inside(uri.format(home=root), str(root)) is is_there
    assert _is_inside("s3a://bucket/home/orders", "s3://bucket/home")


def test_a_second_request_waits_for_the_removal_at_work_and_others_are_bounded() -> None:
    removals, may_end, calls = Removals(), threading.Event(), []

    def work() -> RemovedStream:
        calls.append(1)
        may_end.wait(PATIENCE)
        return RemovedStream(stream="orders")

    async def ask(name: str) -> str:
        try:
            return (await removals.run(("home", name, False), work)).stream
        except Exception as err:  # noqa: BLE001 - the text is compared
            return str(err)

    async def all_of_them() -> list[str]:
        waiting = [asyncio.ensure_future(ask(name)) for name in ("a", "a", "b")]
        await asyncio.sleep(0)
        refused = await ask("c")
        may_end.set()
        return [*await asyncio.gather(*waiting), refused]

    told = asyncio.run(all_of_them())

    assert told[:3] == ["orders"] * 3
    assert "at work on this API server" in told[3]
    assert len(calls) == MOST
