"""What a run fills in is judged when a task's fields are rendered, before it does anything."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.arguments.form_policy import RULES, FormPolicy
from airflow_streaming.operators.common.run_values import (
    RunValuesTask,
    is_authors_template,
    run_values,
)
from airflow_streaming.operators.gate import ChangeGateOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.restore import CheckpointVerifyOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import StreamSpec
from tests.unit.fuzz.test_public_arguments import PUBLIC, is_task
from tests.unit.world import World

SPEC: Final = StreamSpec(
    name="orders", application="orders.py", home="/srv/no-such-home", runtime="spark-3.5"
)
EVIL: Final = {
    "spark.jars": "http://evil.example/evil.jar",
    "spark.jars.packages": "evil:evil:1",
    "spark.plugins": "evil.Plugin",
    "spark.driver.extraJavaOptions": "-javaagent:/tmp/evil.jar",
    "spark.executor.extraJavaOptions": "-javaagent:/tmp/evil.jar",
    "spark.pyspark.python": "/tmp/evil",
    "spark.sql.extensions": "evil.Extensions",
    "spark.sql.streaming.streamingQueryListeners": "evil.Listener",
    "spark.submit.pyFiles": "http://evil.example/evil.zip",
    "spark.kubernetes.driver.podTemplateFile": "http://evil.example/pod.yaml",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "admin",
    "spark.kubernetes.driver.volumes.hostPath.root.options.path": "/",
    "spark.kubernetes.container.image": "evil.example/evil",
}
TASKS: Final = (
    *(f"orders_upgrade:upgrade.{name}" for name in ("preflight", "rehearse", "back_up", "switch")),
    *(f"orders_upgrade:upgrade.{name}" for name in ("soak", "settle")),
    *(f"orders_rescale:rescale.{name}" for name in ("preflight", "switch", "settle")),
    *(f"orders_blue_green:blue_green.{name}" for name in ("preflight", "start_green", "settle")),
)


def render(task: Any, **params: Any) -> Any:
    context: Any = {"params": params, "ti": None, "var": SimpleNamespace(value={"root": "/srv"})}
    task.render_template_fields(context)
    return task


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return stream_dags(SPEC)


def task_of(name: str, dags: dict[str, DAG]) -> Any:
    dag_id, _, task_id = name.partition(":")
    return copy.copy(dags[dag_id].get_task(task_id))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("key", EVIL)
def test_no_form_brings_code_by_the_configuration(
    name: str, key: str, dags: dict[str, DAG]
) -> None:
    with pytest.raises(AirflowFailException, match=r"nothing was done") as error:
        render(task_of(name, dags), conf={key: EVIL[key]})
    assert key in str(error.value)
    assert "FormPolicy(conf=...)" in str(error.value)


@pytest.mark.parametrize(("count", "ends"), [(3, "(conf=...)."), (5, "\n- and 2 more")])
def test_three_refused_values_are_named_and_the_others_counted(
    count: int, ends: str, dags: dict[str, DAG]
) -> None:
    conf = dict(list(EVIL.items())[:count])
    with pytest.raises(AirflowFailException) as error:
        render(task_of(TASKS[0], dags), conf=conf)
    assert str(error.value).endswith(ends)
    assert sum(key in str(error.value) for key in conf) >= 3


@pytest.mark.parametrize("name", [one for one in TASKS if "rescale" not in one])
@pytest.mark.parametrize("application", ["http://evil.example/evil.py", "/tmp/evil.py"])
def test_no_form_brings_a_script(
    name: str, application: str, dags: dict[str, DAG], tmp_path: Path
) -> None:
    task = task_of(name, dags)
    task.stream = replace(SPEC, home=str(tmp_path / "home"))
    with pytest.raises(AirflowFailException, match=r"FormPolicy\(applications=...\)"):
        render(task, application=application)


@pytest.mark.parametrize("name", TASKS)
def test_sizes_and_plain_settings_of_a_form_reach_the_tasks(
    name: str, dags: dict[str, DAG]
) -> None:
    conf = {"spark.executor.memory": "4g", "spark.sql.shuffle.partitions": 8}
    task = render(task_of(name, dags), conf=conf, runtime="spark-4.3", executors=3)
    assert json.loads(task.conf) == conf


def test_the_author_opens_more_for_all_dags_of_a_stream() -> None:
    policy = FormPolicy(conf=["spark.jars"], applications=["/srv/jobs"])
    dags = stream_dags(replace(SPEC, form_policy=policy))
    given = {"conf": {"spark.jars": "/srv/x.jar"}, "application": "/srv/jobs/v2.py"}
    for name in TASKS:
        task = render(task_of(name, dags), **given)
        assert json.loads(task.conf) == given["conf"]
        with pytest.raises(AirflowFailException):
            render(task_of(name, dags), conf={"spark.plugins": "x"})
    tasks = [task for dag in dags.values() for task in dag.tasks if isinstance(task, RunValuesTask)]
    assert all(task.form_policy == policy for task in tasks)


def test_the_scripts_of_the_dag_and_of_the_running_deployment_may_be_typed(world: World) -> None:
    world.run()
    deployed = world.home.newest_deployment()
    assert deployed is not None
    spec = replace(world.spec(), application="elsewhere.py")
    for application in (deployed.application, "elsewhere.py"):
        task = RehearsalOperator(task_id="t", stream=spec, application="{{ params.application }}")
        assert render(task, application=application).application == application
    other = RehearsalOperator(task_id="t", stream=spec, application="{{ params.application }}")
    with pytest.raises(AirflowFailException, match=r"applications"):
        render(other, application="other.py")


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("application", "{{ params.x }}"),
        ("home", "{{ params.x }}"),
        ("output", "{{ dag_run.conf['x'] }}"),
        ("conf", {"spark.jars": "{{ params.x }}"}),
        ("env", {"A": "{{ params.x }}"}),
        ("application_args", ["--a", "{{ params.x }}"]),
        ("jars", ["{{ params.x }}"]),
        ("py_files", ["{{ params.x }}"]),
    ],
)
def test_a_spec_of_the_keep_alive_dag_takes_no_code_from_a_run(field: str, written: Any) -> None:
    spec = replace(SPEC, **{field: written})
    task = SparkStreamOperator(task_id="t", stream=spec)
    given = "/tmp/evil"
    with pytest.raises(AirflowFailException, match=f"{field}.* from "):
        task.render_template_fields(
            {"params": {"x": given}, "dag_run": SimpleNamespace(conf={"x": given}), "ti": None}  # type: ignore[arg-type]
        )


def test_a_script_that_a_spec_takes_from_a_run_is_not_known_for_being_in_the_spec(
    tmp_path: Path,
) -> None:
    spec = replace(SPEC, application="{{ params.x }}", home=str(tmp_path / "home"))
    with pytest.raises(AirflowFailException, match=r"applications"):
        render(SparkStreamOperator(task_id="t", stream=spec), x="/tmp/evil.py")


def test_what_the_author_writes_is_never_judged() -> None:
    spec = replace(
        SPEC, conf={"spark.jars": "/x.jar", "spark.a": "{{ ds }}"}, home="{{ var.value.root }}/home"
    )
    task = ChangeGateOperator(
        task_id="t", stream=spec, application="/srv/new.py", conf={"spark.plugins": "a.B"}
    )
    task.render_template_fields(
        {"ds": "2026-11-21", "var": SimpleNamespace(value=SimpleNamespace(root="/srv"))}  # type: ignore[typeddict-item]
    )
    assert task.stream.home == "/srv/home"
    assert task.stream.conf == {"spark.jars": "/x.jar", "spark.a": "2026-11-21"}


def test_a_drill_takes_no_script_and_no_home_from_a_run() -> None:
    for field in ("script", "home", "store"):
        given = {"home": "/srv/h", "stream": "orders", field: "{{ params.x }}"}
        with pytest.raises(AirflowFailException, match=field):
            render(CheckpointVerifyOperator(task_id="t", **given), x="/tmp/evil")
    allowed = CheckpointVerifyOperator(
        task_id="t",
        home="{{ params.x }}",
        stream="orders",
        form_policy=FormPolicy(places=["/srv"]),
    )
    assert render(allowed, x="/srv/h").home == "/srv/h"


def test_what_another_task_returns_and_a_mapping_are_judged() -> None:
    with DAG("d"):
        before = BaseOperator(task_id="before")
        task = ChangeGateOperator(task_id="t", stream=SPEC, application=XComArg(before))  # type: ignore[arg-type]
    (value,) = run_values("application", task.application, "/tmp/evil.py")
    assert (value.field, value.value) == ("application", "/tmp/evil.py")
    mapped = "/tmp/evil.py"
    assert [*run_values("application", mapped, mapped)] == []
    assert [one.value for one in run_values("application", mapped, mapped, is_mapped=True)] == [
        mapped
    ]


def rendered_as_mapped(mapped: Any, values: Any) -> Any:
    """Render a mapped task as Airflow does, with what the task before it has returned."""
    kwargs, seen = expanded(mapped, values)
    task = mapped.unmap(kwargs)
    task._do_render_template_fields(
        parent=task,
        template_fields=mapped.template_fields,
        context={"ds": "/tmp/evil.py"},
        jinja_env=task.get_template_env(),
        seen_oids=seen,
    )
    return task


def expanded(mapped: Any, values: Any) -> tuple[dict[str, Any], set[int]]:
    """Return the first expansion; its set is empty, as Airflow's is for results of a task."""
    given = mapped._get_specified_expand_input().value
    if isinstance(given, dict):
        return {k: values if isinstance(v, XComArg) else v[0] for k, v in given.items()}, set()
    if isinstance(given, XComArg):
        return values, set()
    return {k: values if isinstance(v, XComArg) else v for k, v in given[0].items()}, set()


SCRIPT_OF_RUN: Final = {"application": "/tmp/evil.py"}
PLUGIN: Final = {"spark.plugins": "evil.Plugin"}


@pytest.mark.parametrize(
    ("kind", "how", "returned"),
    [
        (ChangeGateOperator, lambda task, x: task.expand(application=x), "/tmp/evil.py"),
        (ChangeGateOperator, lambda task, x: task.expand(conf=x), PLUGIN),
        (ChangeGateOperator, lambda task, x: task.expand_kwargs(x), SCRIPT_OF_RUN),
        (ChangeGateOperator, lambda task, x: task.expand_kwargs([{"conf": x}]), PLUGIN),
        (RehearsalOperator, lambda task, x: task.expand(application_args=x), ["--jar=evil"]),
        (RehearsalOperator, lambda task, x: task.expand_kwargs(x), {"conf": PLUGIN}),
        (ChangeGateOperator, lambda task, x: task.expand_kwargs(x), {"application": "{{ ds }}"}),
    ],
)
def test_a_mapping_of_another_task_s_result_is_judged(kind: Any, how: Any, returned: Any) -> None:
    with DAG("d"):
        before = BaseOperator(task_id="before")
        mapped = how(kind.partial(task_id="t", stream=SPEC), XComArg(before))

    with pytest.raises(AirflowFailException, match=r"from the mapping of the task"):
        rendered_as_mapped(mapped, returned)


@pytest.mark.parametrize(
    "how",
    [
        lambda task: task.expand(application=["/tmp/mine.py"]),
        lambda task: task.expand_kwargs([{"application": "/tmp/mine.py"}]),
    ],
)
def test_a_mapping_that_the_author_has_written_out_is_the_author_s(how: Any) -> None:
    with DAG("d"):
        mapped = how(ChangeGateOperator.partial(task_id="t", stream=SPEC))

    assert rendered_as_mapped(mapped, None).application == "/tmp/mine.py"


@pytest.mark.parametrize(
    ("template", "is_authors"),
    [
        ("{{ var.value.x }}", True),
        ("{{ conn.spark.host }}/{{ ds }}", True),
        ("{{ data_interval_start | ds }}", True),
        ("{{ params.x }}", False),
        ("{{ dag_run.conf }}", False),
        ("{{ run_id }}", False),
        ("{{ ti.xcom_pull('a') }}", False),
        ("{{ var.value.get('x', params.y) }}", False),
        ("{% set var = params %}{{ var.x }}", False),
        ("{% for var in params.values() %}{{ var }}{% endfor %}", False),
        ("{% include 'x' %}", False),
        ("{{ a_macro_of_the_dag() }}", False),
        ("{{ broken", False),
    ],
)
def test_a_template_is_the_authors_when_it_names_nothing_that_a_run_gives(
    template: str, is_authors: bool
) -> None:
    assert is_authors_template(template) is is_authors


def test_each_templated_field_of_a_task_and_of_a_spec_has_a_rule() -> None:
    tasks = [kind for kind in PUBLIC.values() if is_task(kind) and issubclass(kind, RunValuesTask)]
    named = {name for kind in tasks for name in kind.template_fields} - {"also"}
    assert {*named, *StreamSpec.template_fields} - RULES.keys() == set()
    assert RULES.keys() - {*named, *StreamSpec.template_fields} == set()
    assert len(tasks) > 10
