"""Lineage of a stream: the datasets of its plans, and whose child a driver is."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.hooks.lineage import driver_lineage
from airflow_streaming.model.names import Layout
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from tests.unit.model.test_datasets import FILES, plan
from tests.unit.world import World

NAMESPACE = "prod"
PARENT = "spark.openlineage.parentRunId"


@pytest.fixture
def openlineage() -> Any:
    """Airflow's OpenLineage provider, where it is installed."""
    return pytest.importorskip(
        "airflow.providers.openlineage",
        reason="apache-airflow-providers-openlineage is not installed.",
    )


def test_without_the_switches_a_driver_is_given_nothing(world: World) -> None:
    assert driver_lineage(world.context(), {"spark.a": "b"}) == {}


def test_without_the_provider_there_are_no_facets_and_the_home_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", None)
    operator = world.operator(home="/nowhere/at/all")

    assert operator.get_openlineage_facets_on_start() is None
    assert operator.get_openlineage_facets_on_complete(world.ti) is None


@pytest.fixture
def task(world: World, openlineage: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task instance as the provider's macros look at it, and the switches on."""
    del openlineage
    switches = {
        "NAMESPACE": NAMESPACE,
        "SPARK_INJECT_PARENT_JOB_INFO": "True",
        "SPARK_INJECT_TRANSPORT_INFO": "True",
        "TRANSPORT": '{"type": "http", "url": "http://lineage:5000", '
        '"auth": {"type": "api_key", "apiKey": "canary-7331"}}',
    }
    for name, value in switches.items():
        monkeypatch.setenv(f"AIRFLOW__OPENLINEAGE__{name}", value)
    run = SimpleNamespace(
        logical_date=datetime(2026, 1, 1, tzinfo=UTC),
        run_after=datetime(2026, 1, 1, tzinfo=UTC),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        conf={},
        clear_number=0,
    )
    world.ti.dag_run = run  # type: ignore[attr-defined]
    world.ti.get_template_context = lambda: {"dag_run": run}  # type: ignore[attr-defined]
    return world.ti


def test_a_driver_is_the_child_of_the_task_that_launches_it(world: World, task: Any) -> None:
    from airflow.providers.openlineage.plugins.macros import lineage_run_id

    world.run(world.operator())

    (request,) = world.launcher.launched
    lines = request.private_files[0].read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line.startswith("spark.openlineage."))
    assert given["spark.openlineage.parentJobNamespace"] == NAMESPACE
    assert given["spark.openlineage.parentJobName"] == "orders.orders"
    assert given[PARENT] == lineage_run_id(task)
    assert given["spark.openlineage.transport.type"] == "http"
    # Another run of the dag is no other deployment, and no secret of the transport is recorded.
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert not any(key.startswith("spark.openlineage.") for key in deployment.conf)
    home = (path for path in (world.folder / "home").rglob("*") if path.is_file())
    assert not any(b"canary-7331" in path.read_bytes() for path in home)


def test_what_the_stream_says_of_its_parent_counts(world: World, task: Any) -> None:
    del task

    given = driver_lineage(world.context(), {PARENT: "of my own"})

    assert not any(key.startswith("spark.openlineage.parent") for key in given)


def test_the_provider_gets_the_datasets_of_the_live_lane(world: World, task: Any) -> None:
    world.run(world.operator())
    planned = plan(SinkPlan(sink="file", format="parquet", target="s3a://lake/out"), FILES)
    world.home.store.replace(
        Layout("orders").place(QueryPlan, epoch=1, query=planned.query),
        Layout("orders").bytes_of(planned),
    )

    from airflow.providers.openlineage.extractors.manager import ExtractorManager

    operator = world.operator()
    extractor = ExtractorManager()._get_extractor(operator)
    assert extractor is not None
    for found in (extractor.extract(), extractor.extract_on_complete(task)):
        assert [(one.namespace, one.name) for one in found.inputs] == [
            ("file", "/in/a"),
            ("file", "/in/b"),
        ]
        assert [(one.namespace, one.name) for one in found.outputs] == [("s3://lake", "out")]


def test_what_the_task_declares_is_reported_beside_its_plans(world: World, task: Any) -> None:
    del task
    from openlineage.client.event_v2 import Dataset

    model, table = Dataset("s3://lake", "models/7"), Dataset("postgres://db:5432", "shop.orders")
    world.run(world.operator())
    planned = plan(SinkPlan(sink="foreachbatch", target="write"), FILES)
    world.home.store.replace(
        Layout("orders").place(QueryPlan, epoch=1, query=planned.query),
        Layout("orders").bytes_of(planned),
    )
    again = Dataset("file", "/in/a")

    operator = world.operator()
    # A dag gives assets, whose conversion is the business of the providers that own their schemes.
    operator.inlets, operator.outlets = [model, again, "no dataset"], [table]
    found = operator.get_openlineage_facets_on_start()

    assert found is not None
    assert sorted((one.namespace, one.name) for one in found.inputs) == [
        ("file", "/in/a"),
        ("file", "/in/b"),
        ("s3://lake", "models/7"),
    ]
    assert [(one.namespace, one.name) for one in found.outputs] == [
        ("postgres://db:5432", "shop.orders")
    ]
