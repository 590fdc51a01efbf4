"""A stream belongs to the dag that deployed it first, until it is handed over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.prune import StreamPruneOperator
from airflow_streaming.operators.switch import StartStreamOperator, StopStreamOperator
from tests.unit.world import World


def dag(dag_id: str, file: str = "orders.py") -> DAG:
    made = DAG(dag_id, schedule=None)
    made.relative_fileloc = file
    return made


def keep(world: World, dag_id: str, file: str = "orders.py", **spec: Any) -> Any:
    """Return a keep-alive task of a dag, which is the one that acts from now on."""
    world.ti.dag_id = dag_id
    return world.operator(dag=dag(dag_id, file), **spec)


def owner(world: World) -> str | None:
    found = world.home.owner()
    return found.dag_id if found else None


def test_the_first_deployment_records_the_dag_its_bundle_file_and_team(world: World) -> None:
    world.ti.bundle_instance = SimpleNamespace(name="shop-dags")  # type: ignore[attr-defined]
    operator = keep(world, "orders")
    context = world.context()
    context["dag_run"].team_name = "shop"

    world.deferral(lambda: operator.execute(context))

    found = world.home.owner()
    assert found is not None
    told = (found.dag_id, found.bundle, found.file, found.team, found.stream)
    assert told == ("orders", "shop-dags", "orders.py", "shop", "orders")


def test_a_second_dag_with_the_same_home_and_stream_is_refused(world: World) -> None:
    world.run(keep(world, "orders"))
    script = world.folder / "thief.py"
    script.write_text("print('mine now')\n")
    thief = keep(world, "thief", "thief.py", application=str(script))

    with pytest.raises(AirflowFailException, match="hand-over orders --to thief"):
        thief.execute(world.context(restart=True))

    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert (deployment.number, deployment.application) == (1, str(world.script))
    assert owner(world) == "orders"


def test_a_second_keep_alive_in_the_owners_own_file_is_refused_too(world: World) -> None:
    world.run(keep(world, "orders"))

    with pytest.raises(AirflowFailException):
        keep(world, "copied").execute(world.context())


def test_a_dag_that_could_not_deploy_owns_nothing(world: World) -> None:
    broken = keep(world, "broken", application=str(world.folder / "missing.py"))
    with pytest.raises(AirflowFailException):
        broken.execute(world.context())

    world.run(keep(world, "orders"))

    assert owner(world) == "orders"


def test_a_stream_of_an_older_release_gets_its_owner_when_its_task_wakes(world: World) -> None:
    operator = keep(world, "orders")
    trigger = world.run(operator)
    (record,) = (world.folder / "home/orders/owners").glob("*.json")
    record.unlink()

    world.wake(trigger, operator)

    assert owner(world) == "orders"


def test_after_a_hand_over_the_earlier_owner_stops_acting_and_the_new_one_adopts(
    world: World,
) -> None:
    earlier = keep(world, "orders")
    trigger = world.run(earlier)
    world.home.hand_over("orders2", by="ann", reason="It moved.", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException):
        world.wake(trigger, earlier)
    world.run(keep(world, "orders2", "new.py"))

    found = world.home.owner()
    assert found is not None
    assert (found.dag_id, found.file) == ("orders2", "new.py")
    assert world.epochs() == 1


def test_a_damaged_record_of_the_owner_does_not_leave_what_runs_unwatched(world: World) -> None:
    operator = keep(world, "orders")
    trigger = world.run(operator)
    (record,) = (world.folder / "home/orders/owners").glob("*.json")
    record.write_text("{")

    assert world.wake(trigger, operator).watched == 1


OPERATING = {
    "stop": lambda world: StopStreamOperator(task_id="t", home=world.uri, stream="orders"),
    "start": lambda world: StartStreamOperator(task_id="t", home=world.uri, stream="orders"),
    "backup": lambda world: CheckpointBackupOperator(task_id="t", home=world.uri, stream="orders"),
    "prune": lambda world: StreamPruneOperator(task_id="t", home=world.uri, stream="orders"),
}


@pytest.mark.parametrize("act", OPERATING)
@pytest.mark.parametrize(
    ("team", "is_refused"),
    [
        pytest.param("shop", False, id="own team"),
        pytest.param("bank", True, id="another team"),
        pytest.param(None, False, id="no team"),
    ],
)
def test_a_dag_of_another_team_does_not_operate_a_stream(
    world: World, act: str, team: str | None, is_refused: bool
) -> None:
    def of_team(name: str | None) -> Any:
        context = world.context()
        context["dag_run"].team_name = name
        return context

    owner = keep(world, "orders")
    world.deferral(lambda: owner.execute(of_team("shop")))
    before = {path: path.stat().st_mtime_ns for path in Path(world.uri).rglob("*")}
    world.ti.dag_id = "janitor"

    refused = refusal_of(lambda: OPERATING[act](world).execute(of_team(team)))

    assert ("belongs to dag 'orders' of team 'shop'" in refused) == is_refused
    if is_refused:
        assert before == {path: path.stat().st_mtime_ns for path in Path(world.uri).rglob("*")}


def refusal_of(act: Callable[[], Any]) -> str:
    """Return why a task was refused for good; a stop is deferred, and a backup finds no checkpoint yet."""
    try:
        act()
    except AirflowFailException as err:
        return str(err)
    except (TaskDeferred, AirflowSkipException):
        pass
    return ""
