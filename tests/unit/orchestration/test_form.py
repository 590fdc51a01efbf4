"""The forms of an upgrade: what is on offer, what stands there, and what cannot be typed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import ParamValidationError

from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.operators.common.form_edits import bounded
from airflow_streaming.options import CutoverOptions, RestartOptions, UpgradeOptions
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.form import rescale_params, upgrade_params
from airflow_streaming.orchestration.upgrade import rescale, rolling_restart, upgrade_in_place
from airflow_streaming.spec import FormPolicy, StreamSpec

SPEC = StreamSpec(name="orders", application="orders.py", home="/home", runtime="spark-3.5")


@pytest.fixture(autouse=True)
def runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"spark-4.3": "/opt/spark-4.3", "spark-3.5": "/opt/spark-3.5"}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(table))


def schema(param: Param) -> dict[str, Any]:
    shown: dict[str, Any] = param.schema
    return shown


@pytest.mark.parametrize("form", [upgrade_params(SPEC), rescale_params()], ids=["upgrade", "size"])
def test_what_stands_in_a_form_may_be_sent_as_it_is(form: dict[str, Param]) -> None:
    for param in form.values():
        value = param.resolve()
        assert param.description
        # Airflow's form starts no run before what may not be null is filled in.
        assert value not in (None, "") or "null" in schema(param)["type"]


def test_a_form_says_what_it_accepts_and_which_right_means_code() -> None:
    code = "Who starts a run may run code as the worker's user."
    usual = upgrade_params(SPEC)
    assert all(code not in str(usual[name].description) for name in ("application", "conf"))
    policy = FormPolicy(applications=["/srv/jobs"], conf=["spark.jars"], runtimes=["spark-4.3"])
    opened = upgrade_params(replace(SPEC, form_policy=policy))
    for name, listed in (("application", "/srv/jobs"), ("conf", "spark.jars")):
        assert listed in str(opened[name].description)
        assert code in str(opened[name].description)
    assert code in str(rescale_params(form_policy=policy)["conf"].description)
    assert schema(opened["runtime"])["enum"] == ["as it is live", "spark-4.3"]


def test_a_form_that_is_sent_as_it_is_only_looks() -> None:
    assert upgrade_params(SPEC)["dry_run"].resolve() is True
    assert rescale_params()["dry_run"].resolve() is True


def test_the_runtimes_that_are_known_are_on_offer() -> None:
    runtime = upgrade_params(SPEC)["runtime"]

    assert schema(runtime)["enum"] == ["as it is live", "spark-3.5", "spark-4.3"]
    assert runtime.resolve() == "as it is live"
    with pytest.raises(ParamValidationError):
        runtime.resolve("spark-9")


def test_a_runtime_that_is_left_as_it_is_names_none() -> None:
    runtime = upgrade_params(SPEC)["runtime"]

    task = render(upgrade_in_place, "upgrade.back_up", {"runtime": runtime.resolve()})

    assert schema(runtime)["enum"][1:] == ["spark-3.5", "spark-4.3"]
    assert task.runtime == ""


@pytest.mark.parametrize("setting", ["", "{not json", "{}"])
def test_a_place_that_knows_no_runtime_takes_any_name(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", setting)

    assert upgrade_params(SPEC)["runtime"].resolve("spark-4.3") == "spark-4.3"


def test_whom_the_author_has_named_nobody_can_do_without() -> None:
    form = upgrade_params(SPEC, approvers=["ann", "bob"])

    assert form["approval_begin"].resolve() == "ask"
    with pytest.raises(ParamValidationError):
        form["approval_begin"].resolve("auto")
    assert form["approvers"].resolve(["ann"]) == ["ann"]
    with pytest.raises(ParamValidationError):
        form["approvers"].resolve(["mallory"])


def test_without_named_approvers_the_form_decides() -> None:
    form = upgrade_params(SPEC, approval={"begin": "auto"})

    assert form["approval_begin"].resolve() == "auto"
    assert form["approval_begin"].resolve("ask") == "ask"
    assert form["approvers"].resolve(["ann"]) == ["ann"]


@pytest.mark.parametrize("form", [upgrade_params(SPEC), rescale_params(), cutover_params(SPEC)])
def test_a_form_leaves_the_soak_to_the_dag_or_gives_minutes(form: dict[str, Param]) -> None:
    assert form["soak_minutes"].resolve() is None
    assert form["soak_minutes"].resolve(7.5) == 7.5
    with pytest.raises(ParamValidationError):
        form["soak_minutes"].resolve(0)


@pytest.mark.parametrize(
    ("typed", "at_least", "at_most"),
    [(None, 10, 30), (45, 10, 45), (7, 7, 7)],
    ids=["left to the dag", "longer", "shorter than at_least"],
)
@pytest.mark.parametrize(
    ("group", "options", "look"),
    [
        (upgrade_in_place, UpgradeOptions, "upgrade.preflight"),
        (rescale, RestartOptions, "rescale.preflight"),
        (blue_green, CutoverOptions, "blue_green.preflight"),
    ],
    ids=["upgrade", "rescale", "cutover"],
)
def test_minutes_of_a_form_replace_the_bound_of_the_dags_soak(
    group: Any, options: Any, look: str, typed: int | None, at_least: int, at_most: int
) -> None:
    terms = SoakTerms(at_least=timedelta(minutes=10), at_most=timedelta(minutes=30), batches=7)
    task = render(group, look, {"soak_minutes": typed}, options=options(soak=terms))

    soak = (
        task.asked_course().soak
        if look.startswith("blue_green")
        else bounded(task.soak, task.soak_minutes)
    )
    assert soak == SoakTerms(
        at_least=timedelta(minutes=at_least), at_most=timedelta(minutes=at_most), batches=7
    )


def test_the_form_of_an_upgrade_leaves_the_time_of_the_rehearsal_to_the_dag_or_gives_minutes() -> (
    None
):
    field = upgrade_params(SPEC)["rehearsal_minutes"]

    assert (field.resolve(), field.resolve(45)) == (None, 45)
    for wrong in (0, 24 * 60 + 1):
        with pytest.raises(ParamValidationError):
            field.resolve(wrong)


@pytest.mark.parametrize("task_id", ["upgrade.preflight", "upgrade.rehearse"])
@pytest.mark.parametrize(("typed", "given"), [(None, ""), (45, "45")])
def test_minutes_of_a_form_reach_both_tasks_that_may_rehearse(
    task_id: str, typed: int | None, given: str
) -> None:
    task = render(upgrade_in_place, task_id, sent(rehearsal_minutes=typed))

    assert task.rehearsal_minutes == given


def render(
    group: Any, task_id: str, params: dict[str, Any], spec: StreamSpec = SPEC, **more: Any
) -> Any:
    with DAG("d", schedule=None) as dag:
        group(spec, **more)
    task = dag.get_task(task_id)
    task.render_template_fields({"params": params, "ti": None})
    return task


def sent(**changes: Any) -> dict[str, Any]:
    return {**{name: param.resolve() for name, param in upgrade_params(SPEC).items()}, **changes}


def test_what_is_typed_reaches_the_tasks() -> None:
    params = sent(
        runtime="spark-4.3",
        application="s3://bucket/it's.py",
        conf={"spark.a": "<'\">", "spark.b": None},
    )

    policy = FormPolicy(applications=["s3://bucket"], conf=["spark.a", "spark.b"])
    spec = replace(SPEC, form_policy=policy)
    task = render(upgrade_in_place, "upgrade.back_up", params, spec)

    assert (task.runtime, task.application) == ("spark-4.3", "s3://bucket/it's.py")
    assert json.loads(task.conf) == {"spark.a": "<'\">", "spark.b": None}


@pytest.mark.parametrize("standby", [True, False])
def test_whether_it_is_pre_warmed_is_what_the_stream_pays_for_and_the_form_says(
    standby: bool,
) -> None:
    form = upgrade_params(replace(SPEC, standby=standby))
    assert form["prewarm"].resolve() is standby
    assert upgrade_params(SPEC, prewarm=True)["prewarm"].resolve() is True
    task = render(upgrade_in_place, "upgrade.preflight", sent(prewarm=standby))
    assert task.prewarm == str(standby)
    task = render(
        upgrade_in_place, "upgrade.preflight", {}, options=UpgradeOptions(prewarm=standby)
    )
    assert task.prewarm is standby


@pytest.mark.parametrize("params", [{}, {"runtime": "", "application": None, "conf": None}])
def test_what_is_left_empty_is_what_the_dag_says(params: dict[str, Any]) -> None:
    task = render(upgrade_in_place, "upgrade.preflight", params)

    assert (task.runtime, task.application, json.loads(task.conf)) == ("", "", {})


@pytest.mark.parametrize(
    ("params", "dry_run", "approval", "approvers"),
    [
        pytest.param({}, "True", "ask", "", id="no form"),
        pytest.param(sent(dry_run=False, approvers=["a", "b"]), "False", "ask", "a,b", id="a form"),
    ],
)
def test_who_is_asked_and_whether_anything_is_done(
    params: dict[str, Any], dry_run: str, approval: str, approvers: str
) -> None:
    with DAG("d", schedule=None) as dag:
        upgrade_in_place(SPEC)
    task = dag.get_task("upgrade.approve")
    task.body = ""
    task.render_template_fields({"params": params})

    assert (task.is_dry_run, task.approval, task.approvers) == (
        dry_run,
        {"begin": approval},
        approvers,
    )


def test_another_size_reaches_the_tasks() -> None:
    params = {"executors": 4, "executor_memory": "8g", "shuffle_partitions": None, "conf": {}}

    task = render(rescale, "rescale.switch", params)

    assert task.size == {
        "executors": "4",
        "executor_cores": "",
        "executor_memory": "8g",
        "shuffle_partitions": "",
    }


def test_a_rolling_restart_changes_no_code_and_is_not_rehearsed() -> None:
    with DAG("d", schedule=None) as dag:
        rolling_restart(SPEC)

    assert "restart.rehearse" not in dag.task_ids
    assert dag.get_task("restart.preflight").same_code


def test_a_form_in_which_nothing_is_typed_takes_the_advice() -> None:
    params = {name: param.resolve() for name, param in rescale_params().items()}

    assert render(rescale, "rescale.preflight", params).size["executors"] == "advised"


@pytest.mark.parametrize(
    ("typed", "executors"),
    [
        pytest.param({"executors": 4}, "4", id="another number"),
        pytest.param({"executor_memory": "8g"}, "", id="another size"),
        pytest.param({"conf": {"spark.task.maxFailures": "1"}}, "", id="configuration"),
        pytest.param({"take_advice": False}, "", id="a plain restart"),
    ],
)
def test_what_is_typed_into_a_form_counts_alone(typed: dict[str, Any], executors: str) -> None:
    params = {name: param.resolve() for name, param in rescale_params().items()}

    assert render(rescale, "rescale.preflight", {**params, **typed}).size["executors"] == executors


def test_without_a_form_no_advice_is_taken() -> None:
    assert render(rescale, "rescale.preflight", {}).size["executors"] == ""
