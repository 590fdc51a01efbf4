"""The form of a cutover: what is on offer, what stands there, and what reaches the tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Param, TriggerRule
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.options import CutoverOptions
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import StreamSpec

SPEC = StreamSpec(
    name="orders",
    application="orders.py",
    home="{{ var.value.home }}",
    runtime="spark-3.5",
    conf={"spark.my.password": "canary-4711"},
)
OTHER = replace(SPEC, name="returns")


@pytest.fixture(autouse=True)
def runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"spark-4.3": "/opt/spark-4.3", "spark-3.5": "/opt/spark-3.5"}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(table))


def schema(param: Param) -> dict[str, Any]:
    shown: dict[str, Any] = param.schema
    return shown


def test_what_stands_in_the_form_may_be_sent_as_it_is_and_only_looks() -> None:
    form = cutover_params(SPEC)

    for param in form.values():
        value = param.resolve()
        assert param.description
        assert schema(param)["title"]
        # Airflow's form starts no run before what may not be null is filled in.
        assert value not in (None, "") or "null" in schema(param)["type"]
    assert form["dry_run"].resolve() is True
    assert next(iter(form)) == "dry_run"


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("way", ["parallel", "handover"]),
        ("start", ["by_gate", "fresh", "cloned", "migrated", "carried"]),
        ("approval_begin", ["ask", "auto"]),
        ("approval_switch", ["ask", "auto"]),
        ("approval_end", ["ask", "auto"]),
        ("runtime", ["as it is live", "spark-3.5", "spark-4.3"]),
    ],
)
def test_only_what_there_is_can_be_chosen(name: str, choices: list[str]) -> None:
    param = cutover_params(SPEC)[name]

    assert schema(param)["enum"] == choices
    assert set(schema(param).get("values_display", choices)) == set(choices)
    with pytest.raises(ParamValidationError):
        param.resolve("another")


def test_the_authors_wishes_stand_there() -> None:
    form = cutover_params(
        SPEC,
        way="handover",
        approvers=["ann"],
    )

    assert form["way"].resolve() == "handover"
    assert (form["soak_minutes"].resolve(), form["retain_hours"].resolve()) == (None, None)
    with pytest.raises(ParamValidationError):
        form["approval_begin"].resolve("auto")
    with pytest.raises(ParamValidationError):
        form["retain_hours"].resolve(0)


def test_streams_that_switch_together_are_not_given_one_script() -> None:
    assert "application" in cutover_params(SPEC)
    assert "application" not in cutover_params([SPEC, OTHER])


def group(streams: Any = SPEC, **more: Any) -> DAG:
    with DAG("d", schedule=None) as dag:
        blue_green(streams, CutoverOptions(**more))
    return dag


def preflight(params: dict[str, Any]) -> Any:
    task = group().get_task("blue_green.preflight")
    task.render_template_fields({"params": params, "ti": None, "var": {"value": {"home": "/h"}}})
    return task


def test_what_is_typed_reaches_the_tasks() -> None:
    sent = {name: param.resolve() for name, param in cutover_params(SPEC).items()}

    task = preflight(
        {**sent, "way": "handover", "start": "fresh", "replay_from": "2026-03-01T00:00:00Z"}
    )

    assert (task.way, task.start, task.replay_from) == (
        *("handover", "fresh"),
        "2026-03-01T00:00:00Z",
    )
    assert (task.approval, task.retain_hours, task.is_dry_run) == (
        {"switch": "ask", "end": "auto"},
        "",
        "True",
    )
    assert task.asked_course().retain_blue == timedelta(days=1)


def test_without_a_form_it_is_what_the_dag_says() -> None:
    task = preflight({})

    assert (task.way, task.start, task.replay_from) == ("parallel", "by_gate", "")
    assert task.asked_course().soak == SoakTerms()


def test_the_home_of_every_stream_is_rendered_and_no_secret_is_in_the_dag() -> None:
    dag = group([SPEC, OTHER])
    task: Any = dag.get_task("blue_green.switch")

    assert "canary-4711" not in str(DagSerialization.to_dict(dag))
    task.render_template_fields({"params": {}, "ti": None, "var": {"value": {"home": "/h"}}})
    assert [one.home for one in task.streams] == ["/h", "/h"]


def test_nothing_is_begun_before_somebody_was_asked_and_the_end_always_comes() -> None:
    dag = group(approval={"end": "ask"})

    assert dag.get_task("blue_green.start_green").upstream_task_ids == {"blue_green.approve"}
    assert dag.get_task("blue_green.settle").trigger_rule == TriggerRule.ALL_DONE
    assert dag.get_task("blue_green.retire").upstream_task_ids == {"blue_green.settle"}
    assert all(task.retries for task in dag.tasks)


def test_green_is_tended_while_a_person_thinks() -> None:
    dag = group(approval={"end": "ask"})

    for question, beside in (("approve_switch", "switch"), ("approve_end", "soak")):
        asked, waits = dag.get_task(f"blue_green.{question}"), dag.get_task(f"blue_green.{beside}")
        assert asked.upstream_task_ids == waits.upstream_task_ids
        assert not asked.downstream_task_ids, "a no must not skip the tasks that carry it out"


def test_the_switch_keeps_its_worker_until_green_is_live() -> None:
    dag = group(replace(SPEC, stop_grace=timedelta(minutes=5)))

    assert dag.get_task("blue_green.switch").patience > timedelta(minutes=5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"approval": {"end": "maybe"}}, r"approval\['end'\] is 'maybe'"),
        ({"deadlines": {"napping": timedelta(1)}}, "'napping' has no deadline"),
    ],
    ids=["approval", "deadlines"],
)
def test_what_cannot_be_is_said_when_the_dag_is_parsed(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        group(**given)


def test_the_dag_of_a_stream_shows_what_its_author_wants() -> None:
    dag = stream_dags(SPEC, cutover=CutoverOptions(way="handover", retain_blue=timedelta(hours=6)))[
        "orders_blue_green"
    ]

    assert (dag.params["way"], dag.params["retain_hours"]) == ("handover", None)
    plan: Any = dag.get_task("blue_green.preflight")
    assert plan.course.retain_blue == timedelta(hours=6)
    assert "params" in plan.way, "the form decides"
