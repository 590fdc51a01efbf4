"""One call gives all dags of a stream."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from airflow.sdk import DAG, TriggerRule
from airflow.serialization.serialized_objects import DagSerialization
from jinja2 import Template

from airflow_streaming.exceptions import SpecError
from airflow_streaming.options import (
    CutoverOptions,
    PruneOptions,
    PrunePolicy,
    RehearsalOptions,
    RehearseWhen,
    SideBySide,
    Soaked,
    SwitchMethod,
    UpgradeOptions,
)
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.stream_dags import CUTOVER_RUNS, stream_dags
from airflow_streaming.orchestration.upgrade import rolling_restart, upgrade_in_place
from airflow_streaming.spec import StreamSpec
from tests.conftest import REPOSITORY

SPEC = StreamSpec(
    name="orders",
    application="jobs/orders.py",
    home="{{ var.value.home }}",
    runtime="spark-4.3",
    conf={"spark.my.password": "canary-4711"},
)
NAMES = [
    "orders",
    *(f"orders_{act}" for act in ("upgrade", "blue_green", "rescale", "backup", "restore")),
]


def checks_out(_: Soaked) -> None:
    """Find nothing wrong."""


def is_beside(_: SideBySide) -> None:
    """Find nothing wrong."""


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return stream_dags(
        SPEC,
        approvers=["ann"],
        tags=["shop"],
        upgrade=UpgradeOptions(
            checks=[checks_out], rehearsal=RehearsalOptions(when=RehearseWhen.NEVER)
        ),
        cutover=CutoverOptions(checks=[is_beside], way=SwitchMethod.HANDOVER),
    )


def test_every_dag_is_there_by_its_id(dags: dict[str, DAG]) -> None:
    assert list(dags) == NAMES
    assert [dag.dag_id for dag in dags.values()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_dag_has_a_page_a_start_one_run_at_a_time_and_tags(
    name: str, dags: dict[str, DAG]
) -> None:
    dag = dags[name]

    assert "`orders`" in str(dag.doc_md)
    assert dag.start_date is not None
    # A cutover that only keeps its blue for a while must not hold up the next one.
    assert dag.max_active_runs == (CUTOVER_RUNS if name == "orders_blue_green" else 1)
    assert dag.catchup is False
    assert set(dag.tags) == {"shop", "orders"}
    assert dag.description


@pytest.mark.parametrize("name", NAMES)
def test_airflow_can_store_every_dag_and_no_secret_is_in_it(
    name: str, dags: dict[str, DAG]
) -> None:
    assert "canary-4711" not in str(DagSerialization.to_dict(dags[name]))


def test_every_dag_that_a_page_names_exists(dags: dict[str, DAG]) -> None:
    named = {name for dag in dags.values() for name in re.findall(r"`(orders_\w+)`", dag.doc_md)}

    assert named
    assert named <= set(dags)


@pytest.mark.parametrize("name", ["upgrade", "blue_green"])
def test_every_task_that_a_page_names_exists_and_the_other_way_round(
    name: str, dags: dict[str, DAG]
) -> None:
    dag = dags[f"orders_{name}"]
    rows = re.findall(r"^\| `(\w+)` \|", str(dag.doc_md), re.MULTILINE)

    assert {f"{name}.{row}" for row in rows} == set(dag.task_ids)


def test_every_task_of_every_dag_runs_in_the_pool_that_is_given() -> None:
    made = stream_dags(SPEC, pool="streams", prune=PruneOptions(policy=PrunePolicy()))

    pools = {
        f"{name}.{task.task_id}": task.pool for name, dag in made.items() for task in dag.tasks
    }
    assert len(pools) > 25
    assert {name for name, pool in pools.items() if pool != "streams"} == set()
    assert made["orders_backup"].get_task("backup").retries == 2


FACTORIES: dict[str, Callable[[], object]] = {
    "upgrade_in_place": lambda: upgrade_in_place(SPEC),
    "rolling_restart": lambda: rolling_restart(SPEC),
    "blue_green": lambda: blue_green(SPEC),
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES.keys())
def test_every_stage_of_a_task_group_runs_in_the_pool_of_its_dag(
    factory: Callable[[], object],
) -> None:
    with DAG("d", default_args={"pool": "streams"}) as dag:
        factory()

    assert len(dag.tasks) > 4
    assert {task.task_id for task in dag.tasks if task.pool != "streams"} == set()


def test_scripts_are_looked_for_beside_the_authors_file(dags: dict[str, DAG]) -> None:
    assert {dag.fileloc for dag in dags.values()} == {__file__}


def test_the_keep_alive_dag_follows_itself(dags: dict[str, DAG]) -> None:
    assert type(dags["orders"].timetable).__name__ == "ContinuousTimetable"


def test_the_author_says_more_of_the_upgrade(dags: dict[str, DAG]) -> None:
    dag = dags["orders_upgrade"]

    assert dag.get_task("upgrade.checks").checks == (checks_out,)
    assert dag.params["rehearse"] == "never"
    assert dag.get_task("upgrade.approve").allowed_approvers == ("ann",)


def test_nothing_is_begun_before_somebody_was_asked_and_the_end_always_comes(
    dags: dict[str, DAG],
) -> None:
    dag = dags["orders_upgrade"]

    assert dag.get_task("upgrade.back_up").upstream_task_ids == {"upgrade.approve"}
    assert dag.get_task("upgrade.settle").trigger_rule == TriggerRule.ALL_DONE
    assert all(task.retries for task in dag.tasks)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param("allowed_with_consequence", "**The rehearsal decides: allowed with", id="ran"),
        pytest.param(None, "", id="skipped"),
    ],
)
def test_whoever_approves_reads_what_the_rehearsal_has_decided(
    decision: str | None, expected: str
) -> None:
    approve = stream_dags(SPEC)["orders_upgrade"].get_task("upgrade.approve")
    pages = {"upgrade.preflight": "It has to be rehearsed."}
    if decision is not None:
        pages["upgrade.rehearse"] = "The rehearsal went well."

    def pull(task_ids: str, key: str = "") -> str | None:
        return pages.get(task_ids) if key else decision

    body = Template(approve.body).render(ti=SimpleNamespace(xcom_pull=pull))

    assert "It has to be rehearsed." in body
    assert ("The rehearsal went well." in body) is (decision is not None)
    assert ("The rehearsal decides" in body) is bool(expected)
    assert expected in body


@pytest.mark.parametrize(("approvers", "asks"), [((), None), (("ann",), True)])
def test_a_restart_of_which_nobody_is_asked_knows_it(
    approvers: tuple[str, ...], asks: bool | None
) -> None:
    dag = stream_dags(SPEC, approvers=approvers)["orders_rescale"]
    look, approve = dag.get_task("rescale.preflight"), dag.get_task("rescale.approve")

    assert look.same_code
    assert look.approval == (approve.approval if asks is None else {"begin": "ask"})
    assert look.is_dry_run == approve.is_dry_run


def test_the_exchange_keeps_its_worker_until_the_new_driver_is_started() -> None:
    dag = stream_dags(replace(SPEC, stop_grace=timedelta(minutes=5)))["orders_upgrade"]

    assert dag.get_task("upgrade.switch").patience > timedelta(minutes=5)


def test_a_name_that_is_a_template_is_refused() -> None:
    with pytest.raises(SpecError, match="Give the name itself"):
        stream_dags(replace(SPEC, name="{{ var.value.name }}"))


def test_one_approver_as_text_is_refused() -> None:
    with pytest.raises(SpecError):
        stream_dags(SPEC, approvers="ann")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_is_found_as_airflow_finds_dags() -> None:
    path = REPOSITORY / "dags" / "example_stream_dags.py"
    found = {name: value for name, value in vars(load(path)).items() if isinstance(value, DAG)}

    assert {dag.dag_id for dag in found.values()} == set(found)
    assert len(found) == len(NAMES)
    assert {dag.fileloc for dag in found.values()} == {str(path)}


def test_a_restore_verifies_first_and_restores_what_was_verified(dags: dict[str, DAG]) -> None:
    dag = dags["orders_restore"]
    verify, restore = dag.get_task("verify"), dag.get_task("restore")

    assert restore.upstream_task_ids == {"verify"}
    assert "ti.xcom_pull(task_ids='verify')" in restore.backup_id
    assert (verify.home, verify.stream) == (restore.home, restore.stream)
    assert dag.params["dry_run"] is True
    assert dag.params["backup_id"] is None


def test_old_things_are_removed_by_a_dag_of_their_own_when_asked_for():
    made = stream_dags(SPEC, prune=PruneOptions(policy=PrunePolicy(outputs=True)))
    task = made["orders_prune"].get_task("prune")

    assert list(made) == [*NAMES, "orders_prune"]
    assert (task.stream, task.home, task.policy.outputs) == ("orders", SPEC.home, True)


def test_prune_options_are_options():
    with pytest.raises(SpecError):
        stream_dags(SPEC, prune=PrunePolicy())  # type: ignore[arg-type]
