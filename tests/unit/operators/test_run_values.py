"""What a run fills in is judged when a task's fields are rendered, before it does anything."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import jinja2
import pytest
from airflow.sdk import DAG, BaseOperator, ObjectStoragePath
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.form_policy import RULES, FormPolicy
from airflow_streaming.operators.common.base import RunValuesTask
from airflow_streaming.operators.common.run_values import run_values, unrendered
from airflow_streaming.operators.common.templates import DEFAULT, Templates
from airflow_streaming.operators.gate import ChangeGateOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.restore import CheckpointVerifyOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.options import UpgradeOptions
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


@pytest.mark.parametrize(
    ("count", "reasons", "ends"),
    [
        (3, 3, "(conf=...)."),
        (5, 3, "\n- also conf['evil.0003'], conf['evil.0004']"),
        (43, 3, "conf['evil.0042']"),
        (5000, 3, "conf['evil.0042'] and 4957 more"),
    ],
)
def test_every_refused_value_is_named_up_to_a_bound(
    count: int, reasons: int, ends: str, dags: dict[str, DAG]
) -> None:
    with pytest.raises(AirflowFailException) as error:
        render(task_of(TASKS[0], dags), conf={f"evil.{number:04d}": "1" for number in range(count)})
    text = str(error.value)
    assert text.endswith(ends)
    assert text.count("FormPolicy(conf=...)") == reasons
    assert len(text) < 3000


@pytest.mark.parametrize("name", [one for one in TASKS if "rescale" not in one])
@pytest.mark.parametrize("application", ["http://evil.example/evil.py", "/tmp/evil.py"])
def test_no_form_brings_a_script(
    name: str, application: str, dags: dict[str, DAG], tmp_path: Path
) -> None:
    task = task_of(name, dags)
    task.stream = replace(SPEC, home=str(tmp_path / "home"))
    with pytest.raises(AirflowFailException, match=r"FormPolicy\(applications=...\)"):
        render(task, application=application)


PREFLIGHTS: Final = tuple(name for name in TASKS if name.endswith("preflight"))
OF_UPGRADES: Final = tuple(name for name in PREFLIGHTS if "blue_green" not in name)


@pytest.mark.parametrize("name", sorted({*PREFLIGHTS} - {*OF_UPGRADES}))
@pytest.mark.parametrize("code", ["rollback.replay", "rollback.none"])
def test_a_cutover_refuses_codes_of_upgrades_by_its_own_codes(
    name: str, code: str, dags: dict[str, DAG]
) -> None:
    # No FormPolicy would help: a cutover has no finding of these codes.
    task = render(task_of(name, dags), accept=["live.older_spark", code])

    with pytest.raises(SpecError, match=rf"accept has '{code}'; give live\.older_spark, "):
        task._request()


@pytest.mark.parametrize("name", OF_UPGRADES)
@pytest.mark.parametrize("code", ["rollback.replay", "rollback.none"])
def test_no_form_gives_up_a_rollback(name: str, code: str, dags: dict[str, DAG]) -> None:
    with pytest.raises(AirflowFailException, match=r"nothing was done") as error:
        render(task_of(name, dags), accept=["live.older_spark", code])
    assert f"accept is '{code}'" in str(error.value)
    assert "FormPolicy(accept=...)" in str(error.value)


def test_the_author_gives_up_a_rollback_in_the_options_or_lets_a_run_do_so() -> None:
    code = "rollback.replay"
    preflight = "orders_upgrade:upgrade.preflight"
    own = stream_dags(SPEC, upgrade=UpgradeOptions(accept=[code, "{{ var.value.root }}"]))
    assert render(task_of(preflight, own)).accept == [code, "/srv"]
    opened = stream_dags(replace(SPEC, form_policy=FormPolicy(accept=[code])))
    assert render(task_of(preflight, opened), accept=[code]).accept == code
    with pytest.raises(AirflowFailException, match=r"rollback\.none"):
        render(task_of(preflight, opened), accept=[code, "rollback.none"])


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
    assert DEFAULT.is_authors(template) is is_authors


def test_each_templated_field_of_a_task_and_of_a_spec_has_a_rule() -> None:
    tasks = [kind for kind in PUBLIC.values() if is_task(kind) and issubclass(kind, RunValuesTask)]
    named = {name for kind in tasks for name in kind.template_fields} - {"also", "streams"}
    assert {*named, *StreamSpec.template_fields} - RULES.keys() == set()
    assert RULES.keys() - {*named, *StreamSpec.template_fields} == set()
    assert len(tasks) > 10


EVIL_SCRIPT: Final = "/tmp/evil.py"
ANGLES: Final = {"variable_start_string": "<<", "variable_end_string": ">>"}


def script_task(text: Any, *, kind: Any = RehearsalOperator, **settings: Any) -> Any:
    """Return a task whose script is a text, in a DAG with Jinja settings of its own."""
    with DAG("d", **settings):
        task = kind(task_id="t", stream=replace(SPEC, form_policy=FormPolicy(applications=["/ok"])))
    task.application = text
    return task


@jinja2.pass_context
def from_run(context: Any, _: Any = None) -> str:
    return str(context["params"]["x"])


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        pytest.param("<< params.x >>", {"jinja_environment_kwargs": ANGLES}, id="delimiters"),
        pytest.param(
            "<% set y = params.x %><% print(y) %>",
            {"jinja_environment_kwargs": {"block_start_string": "<%", "block_end_string": "%>"}},
            id="blocks_unknown_to_print",
        ),
        pytest.param(
            "<% for y in [params.x] %>{{ y }}<% endfor %>",
            {"jinja_environment_kwargs": {"block_start_string": "<%", "block_end_string": "%>"}},
            id="blocks",
        ),
        pytest.param(
            "% for y in [params.x]\n{{ y }}\n% endfor",
            {"jinja_environment_kwargs": {"line_statement_prefix": "%"}},
            id="line_statements",
        ),
        pytest.param(
            "{{ params.x }}", {"render_template_as_native_obj": True}, id="native_objects"
        ),
        pytest.param("{{ pick(params) }}", {"user_defined_macros": {"pick": str}}, id="macro"),
        pytest.param(
            "{{ pick() }}", {"user_defined_macros": {"pick": from_run}}, id="context_macro"
        ),
        pytest.param("{{ 1 | pick }}", {"user_defined_filters": {"pick": from_run}}, id="filter"),
        pytest.param("{{ ds.format(params.x) }}", {}, id="argument"),
    ],
)
def test_a_script_of_a_run_is_judged_whatever_the_jinja_settings_of_the_dag(
    text: str, settings: dict[str, Any]
) -> None:
    task = script_task(text, **settings)
    context: Any = {"params": {"x": EVIL_SCRIPT}, "ti": None, "ds": "{}"}

    with pytest.raises((AirflowFailException, jinja2.TemplateError)) as error:
        task.render_template_fields(context)
    assert isinstance(error.value, jinja2.TemplateError) or "applications" in str(error.value)


def test_a_pipeline_of_a_run_is_judged_as_a_script_is() -> None:
    with DAG("d"):
        stream = replace(SPEC, application="", pipeline="{{ params.x }}")
        task = SparkStreamOperator(task_id="t", stream=stream)
    context: Any = {"params": {"x": "s3://evil/pipeline.yml"}, "ti": None}

    with pytest.raises(AirflowFailException, match=r"pipeline is 's3://evil/pipeline\.yml'"):
        task.render_template_fields(context)


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        ("<< ds >>/x.py", {"jinja_environment_kwargs": ANGLES}, "2026/x.py"),
        ("<<ds", {}, "<<ds"),
        ("{{ ds | year }}.py", {"user_defined_filters": {"year": str}}, "2026.py"),
        ("{{ ds | upper }}.py", {"render_template_as_native_obj": True}, "2026.py"),
    ],
)
def test_the_author_s_own_script_is_rendered_with_the_jinja_settings_of_the_dag(
    text: str, settings: dict[str, Any], expected: str
) -> None:
    task = script_task(text, **settings)
    task.render_template_fields({"ds": "2026", "ti": None})  # type: ignore[typeddict-item]

    assert task.application == expected


class TemplateFileTask(RehearsalOperator):
    template_ext = (".sql", ".sh")


def test_a_template_in_a_file_is_judged_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "run.sql").write_text("{{ params.x }}")
    (tmp_path / "own.sh").write_text("{{ ds }}.py")
    settings: Any = {"template_searchpath": [str(tmp_path)]}
    context: Any = {"params": {"x": EVIL_SCRIPT}, "ti": None, "ds": "2026"}

    own = script_task("own.sh", kind=TemplateFileTask, **settings)
    own.render_template_fields(context)
    assert own.application == "2026.py"
    with pytest.raises(AirflowFailException, match="applications"):
        script_task("run.sql", kind=TemplateFileTask, **settings).render_template_fields(context)


@pytest.mark.parametrize("ending", [".sql", ".sh", ".py", ".json"])
def test_no_field_of_a_task_names_a_template_file_and_no_typed_name_is_read(
    ending: str, tmp_path: Path
) -> None:
    (tmp_path / f"x{ending}").write_text("read")
    tasks = [kind for kind in PUBLIC.values() if is_task(kind) and issubclass(kind, RunValuesTask)]
    assert {kind.template_ext for kind in tasks} == {()}

    task = script_task("{{ params.x }}", template_searchpath=[str(tmp_path)])
    task.form_policy = FormPolicy(fields=["application"])
    task.render_template_fields({"params": {"x": f"x{ending}"}, "ti": None})  # type: ignore[typeddict-item]
    assert task.application == f"x{ending}"


def test_a_form_in_a_dag_with_other_delimiters_is_refused_and_not_taken_as_text() -> None:
    task = script_task("{{ params.x }}", jinja_environment_kwargs=ANGLES)

    with pytest.raises(AirflowFailException, match="jinja_environment_kwargs"):
        task.render_template_fields({"params": {"x": EVIL_SCRIPT}, "ti": None})  # type: ignore[typeddict-item]


def test_the_path_of_an_object_is_judged_as_a_text() -> None:
    path = ObjectStoragePath("file:///tmp/{{ params.x }}")

    (value,) = run_values("application", path, ObjectStoragePath("file:///tmp/evil.py"))
    assert "params.x" in value.source
    assert [*run_values("application", ObjectStoragePath("file:///srv/a.py"), "x")] == []


@pytest.mark.parametrize("is_native", [False, True])
def test_conf_and_switches_of_a_form_are_the_same_in_native_form(
    is_native: bool, dags: dict[str, DAG]
) -> None:
    task = task_of("orders_upgrade:upgrade.preflight", dags)
    task.render_template_as_native_obj = is_native
    conf = {"spark.executor.memory": "4g", "spark.sql.shuffle.partitions": 8}
    render(task, conf=conf)
    given = task.conf if isinstance(task.conf, dict) else json.loads(task.conf)

    assert given == conf
    again = task_of("orders_upgrade:upgrade.preflight", dags)
    again.render_template_as_native_obj = is_native
    with pytest.raises(AirflowFailException, match="nothing was done"):
        render(again, conf={"spark.plugins": "evil.Plugin"})


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " x"])
def test_a_text_that_jinja_changes_is_rendered_and_one_that_it_keeps_is_not(ending: str) -> None:
    angles = Templates(jinja2.Environment(autoescape=True, **ANGLES))
    assert unrendered(["{{ params.x }}" + ending], angles)
    assert unrendered(["{% raw %}{{ ds }}{% endraw %}" + ending], DEFAULT) == ""
