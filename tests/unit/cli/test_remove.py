"""The commands ``remove`` and ``reuse``, and all that could bring a removed stream back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import AlreadyExists, StreamRemoved
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.control import DesiredState, EventKind
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.storage.blobs import LocalBlobs
from airflow_streaming.supervision.decide import Action, decide
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.cli.host import Run
from tests.unit.home.make import SCRIPT, make_death, make_deployment, make_epoch
from tests.unit.supervision.checkpoints import Checkpoint

NOW = datetime.now(UTC)
DONE = ("remove", "orders", "--reason", "replaced", "--released-by", "orders_dag")


@pytest.fixture
def orders(home: Home) -> StreamHome:
    """A stopped stream of a dag, with a checkpoint, an output, a green lane and a standby folder."""
    root = Path(home.store.uri)
    for name in ("orders", other_lane("orders")):
        lane, number = home.stream(name), 3
        places = {
            "checkpoint": str(root / name / "checkpoints/000001"),
            "output": str(root / name / "output/000001"),
        }
        lane.create_deployment(make_deployment(1, stream=name, **places), SCRIPT)
        lane.create_epoch(make_epoch(number, stream=name))
        lane.declare_dead(make_death(number))
        Checkpoint(root / name / "checkpoints/000001/revenue").run(1, 2)
        (root / name / "output/000001").mkdir(parents=True)
        (root / name / "output/000001/part-0").write_text("1234")
    standbys = home.stream("orders").standbys()
    standbys.create_epoch(make_epoch(7, stream="orders.standby", serves="orders"))
    standbys.declare_dead(make_death(7))
    stream = home.stream("orders")
    stream.claim_ownership(Actor(dag_id="orders_dag"), by="run", now=NOW)
    stream.want(DesiredState.STOPPED, by="ada", reason="it goes", now=NOW)
    return stream


def left(home: Home) -> dict[str, list[str]]:
    root = Path(home.store.uri)
    return {
        folder.name: sorted(one.name for one in folder.iterdir())
        for folder in sorted(root.iterdir())
        if folder.name.startswith("orders")
    }


def test_a_dry_run_writes_nothing_and_names_what_is_in_the_way(
    run: Run, home: Home, orders: StreamHome
) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(home.store.uri).rglob("*")}

    code, text, _ = run("remove", "orders", "--dry-run", "--json")

    told = json.loads(text)
    assert code == 1
    assert len(told["refusals"]) == 1
    assert "--released-by orders_dag" in told["refusals"][0]
    assert "orders.green/checkpoints" in told["removed"]
    assert {path: path.stat().st_mtime_ns for path in Path(home.store.uri).rglob("*")} == before
    assert run("remove", "orders", "--dry-run", "--released-by", "orders_dag")[0] == 0


def test_a_removal_leaves_a_backup_a_fence_and_the_history(
    run: Run, home: Home, orders: StreamHome
) -> None:
    code, text, errors = run(*DONE, "--json")

    told = json.loads(text)
    assert (code, errors) == (0, "")
    assert len(told["backups"]) == 2
    assert left(home) == {
        "orders": ["changes", "desired", "epochs", "events"],
        "orders.green": ["epochs"],
        "orders.standby": ["epochs"],
    }
    fence = orders.newest_epoch()
    assert fence is not None
    assert (fence.number, fence.cause) == (4, LaunchCause.FENCE)
    assert orders.death(4) is not None
    event = next(one for one in orders.events() if one.event is EventKind.REMOVED)
    assert (event.by, event.message) == ("ada", "Removed: replaced")
    assert (event.facts["dag"], event.facts["store"]) == (
        "orders_dag",
        f"{home.store.uri}/_backups",
    )
    assert event.facts["backup"].split(", ") == told["backups"]
    verified = run("checkpoint", "list", event.facts["store"])[1]
    assert verified.count(" full\n") == 2
    assert run("list")[1].count("orders") == 0


def test_outputs_are_kept_when_asked_for(run: Run, home: Home, orders: StreamHome) -> None:
    _, text, _ = run(*DONE, "--keep-output", "--json")

    assert "orders/output" in json.loads(text)["kept"]
    assert (Path(home.store.uri) / "orders.green/output/000001/part-0").exists()


REVIVALS: dict[str, Callable[[StreamHome], object]] = {
    "a deployment": lambda home: home.create_deployment(make_deployment(2), SCRIPT),
    "an epoch": lambda home: home.create_epoch(make_epoch(5)),
    "a start": lambda home: home.want(DesiredState.RUNNING, by="x", reason="x", now=NOW),
    "an owner": lambda home: home.claim_ownership(Actor(dag_id="other"), by="x", now=NOW),
    "the green lane": lambda home: home.beside("orders.green").create_epoch(
        make_epoch(9, stream="orders.green")
    ),
    "a standby": lambda home: home.standbys().create_epoch(
        make_epoch(9, stream="orders.standby", serves="orders")
    ),
}


@pytest.mark.parametrize("act", REVIVALS.values(), ids=REVIVALS)
def test_nothing_brings_a_removed_stream_back(
    run: Run, orders: StreamHome, act: Callable[[StreamHome], object]
) -> None:
    assert run(*DONE)[0] == 0

    with pytest.raises(StreamRemoved, match=r"removed by ada .* replaced\. .* reuse orders"):
        act(orders)


def test_a_task_that_looked_before_the_removal_finds_the_epoch_taken(
    run: Run, orders: StreamHome
) -> None:
    assert run(*DONE)[0] == 0

    with pytest.raises(AlreadyExists):
        super(StreamHome, orders).create_epoch(make_epoch(4, token="old task"))


@pytest.mark.parametrize("command", ["start", "stop", "status", "prune"])
def test_commands_say_that_the_stream_was_removed(
    run: Run, orders: StreamHome, command: str
) -> None:
    assert run(*DONE)[0] == 0

    code, _, errors = run(command, "orders")

    assert code != 0
    assert "was removed by ada" in errors


def test_the_task_that_kept_it_parks(run: Run, orders: StreamHome) -> None:
    assert run(*DONE)[0] == 0

    step = decide(Observer(orders, FakeLauncher()).situation(watched=3))

    assert step.action is Action.PARK
    assert "The stream was removed by ada" in step.reason


def test_a_run_that_was_killed_is_finished_by_the_next_one(
    run: Run, home: Home, orders: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    class Killed(Exception):
        pass

    def dying(real: Callable[..., Any], after: int) -> Callable[..., Any]:
        def act(*given: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > after:
                raise Killed
            return real(*given, **named)

        return act

    for after in range(12):
        steps = 0
        with monkeypatch.context() as patch:
            for name in ("delete", "delete_tree"):
                patch.setattr(LocalBlobs, name, dying(getattr(LocalBlobs, name), after % 3))
            for name in ("begin_change", "create_epoch", "request_stop", "declare_dead"):
                patch.setattr(StreamHome, name, dying(getattr(StreamHome, name), after % 3))
            try:
                run(*DONE)
            except Killed:
                continue
            break

    assert run(*DONE)[0] == 0
    assert left(home) == {
        "orders": ["changes", "desired", "epochs", "events"],
        "orders.green": ["epochs"],
        "orders.standby": ["epochs"],
    }
    assert len(orders.changes()) == 1


def test_a_driver_that_starts_at_the_same_moment_wins(
    run: Run, home: Home, orders: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_change = StreamHome.begin_change

    def begun(stream: StreamHome, change: Any) -> None:
        orders.store.create("orders/epochs/000004.json", make_epoch(4).to_bytes())
        begin_change(stream, change)

    monkeypatch.setattr(StreamHome, "begin_change", begun)

    code, _, errors = run(*DONE)

    assert code == 1
    assert "Nothing was removed" in errors
    assert orders.removal() is None
    assert (Path(home.store.uri) / "orders/checkpoints/000001").exists()


def test_a_promoted_standby_is_as_dead_as_the_lane_says(run: Run, orders: StreamHome) -> None:
    standbys = orders.standbys()
    standbys.create_epoch(make_epoch(8, stream="orders.standby", serves="orders", token="one"))
    orders.create_epoch(make_epoch(4, promotes=8, token="one"))

    assert "not proved dead" in run(*DONE)[2]
    orders.declare_dead(make_death(4))
    assert run(*DONE)[0] == 0


def test_a_living_driver_is_in_the_way(run: Run, orders: StreamHome) -> None:
    orders.create_epoch(make_epoch(4))

    code, _, errors = run(*DONE)

    assert code == 1
    assert "epoch 4 of orders is not proved dead" in errors


def test_a_removal_without_a_reason_is_wrong_use(run: Run, orders: StreamHome) -> None:
    assert run("remove", "orders", "--released-by", "orders_dag")[0] == 2


def test_an_unknown_stream_is_named(run: Run, orders: StreamHome) -> None:
    assert "Stream 'clicks' does not exist" in run("remove", "clicks", "--reason", "x")[2]


def test_a_freed_name_continues_the_numbers(run: Run, orders: StreamHome) -> None:
    assert run("reuse", "orders", "--reason", "back")[0] == 1
    assert run(*DONE)[0] == 0

    code, _, _ = run("reuse", "orders", "--reason", "back")

    desired = orders.desired()
    assert code == 0
    assert desired is not None
    assert desired.state is DesiredState.RUNNING
    assert orders.next_deployment() == 2
    orders.create_deployment(make_deployment(2), SCRIPT)
    orders.create_epoch(make_epoch(5, deployment=2))
    assert orders.owner() is None
    assert run("reuse", "orders", "--reason", "back")[0] == 1


def test_a_name_is_not_freed_before_the_removal_is_finished(
    run: Run, home: Home, orders: StreamHome
) -> None:
    assert run(*DONE)[0] == 0
    (Path(home.store.uri) / "orders.green/deployments").mkdir()

    code, _, errors = run("reuse", "orders", "--reason", "back")

    assert (code, "is not finished" in errors) == (1, True)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_password_in_a_place_of_a_forged_deployment_is_not_printed(
    run: Run, orders: StreamHome, form: tuple[str, ...]
) -> None:
    forged = {**orders.deployment(1).to_dict(), "output": "s3://key:hunter2secret@host/out"}
    orders.store.replace("orders/deployments/000001.json", json.dumps(forged).encode())

    _, out, errors = run("remove", "orders", "--dry-run", *form)

    assert "hunter2secret" not in out + errors
    assert "s3://key:(redacted)@host/out" in out


@pytest.mark.parametrize("path", ["checkpoints", "output", "epochs/000002"])
def test_a_link_is_named_before_anything_is_removed(
    run: Run, home: Home, orders: StreamHome, tmp_path: Path, path: str
) -> None:
    place, elsewhere = Path(home.store.uri) / "orders" / path, tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
    place.symlink_to(elsewhere)

    code, _, errors = run(*DONE)

    assert code == 1
    assert f"orders/{path} is a symbolic link" in errors
    assert "delete the link" in errors
    assert orders.removal() is None
    place.unlink()
    assert run(*DONE)[0] == 0
    assert elsewhere.is_dir()
