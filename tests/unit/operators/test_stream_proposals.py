"""What the dag asks for against what runs: proposals, secrets, and specs that cannot run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.spec import FormPolicy
from tests.unit.world import World

NO_BUDGET = RestartPolicy(budgets=(Budget(restarts=0, window=timedelta(hours=1)),))


def test_applying_a_new_deployment_closes_the_circuit(world: World) -> None:
    operator = world.operator(restart=NO_BUDGET)
    trigger = world.run(operator)
    world.crash()
    with pytest.raises(AirflowFailException):
        operator.execute_complete(world.context(), {"watched": trigger.watched})

    world.run(world.operator(conf={"spark.executor.memory": "2g"}), restart=True)

    assert world.epoch().deployment == 2
    assert world.launcher.living() == [2]


def test_another_output_is_another_deployment(world: World) -> None:
    world.run()

    world.run(world.operator(output="/elsewhere"))

    proposed = [e for e in world.home.events() if e.event is EventKind.PROPOSED]
    assert ": output /" in proposed[-1].message


def test_an_edited_spec_is_a_proposal_until_a_restart_is_asked(world: World) -> None:
    world.run()
    edited = world.operator(conf={"spark.sql.shuffle.partitions": 4})

    world.run(edited)
    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert deployment.number == 1
    proposed = [e for e in world.home.events() if e.event is EventKind.PROPOSED]
    assert "spark.sql.shuffle.partitions not set → 4" in proposed[-1].message

    trigger = world.run(edited, restart=True)
    assert world.home.stop_request(1) is not None
    world.last_words(Outcome.STOPPED)
    world.wake(trigger, edited)
    assert world.epoch().deployment == 2
    changed = world.home.deployment(2)
    assert changed.checkpoint == deployment.checkpoint, "the state is carried on"


def test_a_script_edited_on_disk_does_not_run_by_itself(world: World) -> None:
    trigger = world.run()
    world.script.write_text("edited = True\n")
    world.crash()

    world.wake(trigger)

    assert world.epoch().deployment == 1
    assert b"edited" not in world.home.application(1)


def test_a_broken_edit_leaves_the_running_stream_watched(world: World) -> None:
    world.run()
    world.script.unlink()

    world.run()

    told = [e for e in world.home.events() if e.event is EventKind.PROPOSED]
    assert "was not found" in told[-1].message
    with pytest.raises(AirflowFailException, match="was not found"):
        world.operator().execute(world.context(restart=True))


def test_secrets_reach_spark_by_a_private_file_only(world: World) -> None:
    canary, other = "canary-4711", "canary-0815"
    operator = world.operator(
        conf={"spark.hadoop.fs.s3a.secret.key": canary}, env={"API_TOKEN": other}
    )
    world.run(operator)

    request = world.launcher.launched[0]
    properties = next((world.folder / "drivers").rglob("*.conf"))
    assert canary in properties.read_text()
    assert properties.stat().st_mode & 0o777 == 0o600
    assert canary not in " ".join(request.command)
    assert request.environment["API_TOKEN"] == other
    records = [file.read_text() for file in (world.folder / "home").rglob("*") if file.is_file()]
    assert records
    assert not [text for text in records if canary in text or other in text]
    assert canary not in repr(operator.stream)


def test_a_rotated_secret_is_no_new_deployment(world: World) -> None:
    world.run(world.operator(conf={"spark.my.password": "old"}))
    world.crash()

    world.run(world.operator(conf={"spark.my.password": "new"}))

    assert world.epoch().deployment == 1
    files = sorted((world.folder / "drivers").rglob("*.conf"))
    assert "new" in files[-1].read_text()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param({"runtime": "spark-9"}, "spark-9", id="unknown runtime"),
        pytest.param(
            {"application": "/no/such/script.py"}, "was not found. Looked at", id="no script"
        ),
        pytest.param({"name": "a/b"}, "cannot be used for folders", id="slash in the name"),
        pytest.param({"name": ".."}, "cannot be used for folders", id="dots as the name"),
        pytest.param({"home": "relative/home"}, "Give an absolute path", id="relative home"),
        pytest.param({"conf": "master=yarn"}, "is of type str", id="no conf"),
    ],
)
def test_a_bad_spec_fails_without_retries_and_starts_nothing(
    world: World, spec: dict[str, Any], sentence: str
) -> None:
    # As a template that a run fills in badly; what a dag file spells out is refused at its parse.
    opened = FormPolicy(fields=list(spec))
    templates = {name: "{{ params." + name + " }}" for name in spec}
    operator = world.operator(**templates, form_policy=opened)

    def run() -> None:
        operator.render_template_fields({"params": spec})
        operator.execute(world.context())

    with pytest.raises(AirflowFailException, match=sentence):
        run()

    assert world.launcher.launched == []


def test_a_script_that_is_not_python_is_refused(world: World) -> None:
    world.script.write_text("def broken(:\n")

    with pytest.raises(AirflowFailException, match="is not valid Python"):
        world.operator().execute(world.context())


def test_templates_inside_the_spec_are_rendered(world: World) -> None:
    operator = world.operator(application_args=["--day", "{{ ds }}"], home="{{ var.root }}/home")

    operator.render_template_fields({"ds": "2026-11-21", "var": {"root": "/data"}})

    assert operator.stream.home == "/data/home"
    assert list(operator.stream.application_args) == ["--day", "2026-11-21"]


def test_the_operator_declares_its_links() -> None:
    assert {link.name for link in SparkStreamOperator.operator_extra_links} == {
        "Spark UI",
        "Driver log",
    }


def set_by_form(world: World, **conf: str) -> None:
    """Make a deployment with settings that only a form has set."""
    task = world.operator()
    keys = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
    hook = task.open_edited_hook(world.context(), task.stream, conf=keys)
    hook.controller.deploy(*hook.proposal())


def test_a_run_of_the_dag_keeps_the_values_of_a_form_and_reports_the_difference(
    world: World,
) -> None:
    world.run()
    set_by_form(world, executor_memory="4g")

    world.run()

    assert world.home.newest_deployment().number == 2
    told = [e for e in world.home.events() if e.event is EventKind.PROPOSED][-1].message
    assert "names another deployment than the live one (2): spark.executor.memory 4g" in told
    deviation = world.home.deviation()
    assert [(one.what, one.value, one.dag) for one in deviation.values] == [
        ("spark.executor.memory", "4g", "")
    ]


def test_a_restart_writes_the_dags_values_over_the_live_ones_and_says_so(world: World) -> None:
    world.run()
    set_by_form(world, executor_memory="4g")

    world.run(restart=True)

    live = world.home.newest_deployment()
    assert (live.number, live.overrides) == (3, ())
    assert "spark.executor.memory" not in live.conf
    told = [e for e in world.home.events() if e.event is EventKind.DEPLOYED][-1].message
    assert "written over the live ones: spark.executor.memory 4g → not set" in told


def test_a_retry_of_a_run_with_restart_leaves_a_deployment_that_is_newer_than_the_run(
    world: World,
) -> None:
    world.run()
    edited = world.operator(conf={"spark.executor.memory": "2g"})
    world.run_started_at = datetime.now(UTC)
    world.run(edited, restart=True)
    assert world.home.newest_deployment().number == 2
    set_by_form(world, executor_memory="4g")

    world.run(edited, restart=True)

    live = world.home.newest_deployment()
    assert (live.number, live.conf["spark.executor.memory"]) == (3, "4g")
    told = [e for e in world.home.events() if e.event is EventKind.PROPOSED][-1].message
    assert "Deployment 3 is newer than this run, so its restart=True has no effect" in told

    world.run_started_at = None
    world.run(edited, restart=True)
    assert world.home.newest_deployment().number == 4, "a new run asks anew"


def test_the_difference_is_recorded_once_and_taken_back_when_the_dag_follows(
    world: World,
) -> None:
    world.run()
    edited = world.operator(conf={"spark.executor.memory": "2g"})

    for operator in (edited, edited, world.operator()):
        world.run(operator)

    assert world.home.deviation().number == 2
    assert world.home.deviation().values == ()
