"""What an author writes into options is checked where it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from math import inf, nan
from pathlib import Path, PurePosixPath
from types import FunctionType
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_streaming.assets import stream_asset
from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.changes.pointers.spark import SparkView
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.cutover import CutoverStepOperator
from airflow_streaming.operators.doctor import StreamDoctorOperator
from airflow_streaming.operators.stream import SparkStreamOperator
from airflow_streaming.operators.upgrade import UpgradeCheckOperator, UpgradeStepOperator
from airflow_streaming.options import (
    BackupOptions,
    Connections,
    CutoverOptions,
    PruneOptions,
    RehearsalOptions,
    RestartOptions,
    UpgradeOptions,
)
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.orchestration.upgrade import rescale, rolling_restart, upgrade_in_place
from airflow_streaming.pointers import CallablePointer, SqlPointer
from airflow_streaming.sensors.stream import StreamHealthSensor
from airflow_streaming.spec import (
    Autoscale,
    Blackout,
    Budget,
    CompareTerms,
    HealthRule,
    HealthRules,
    Metric,
    ReadyTerms,
    RestartPolicy,
    RetentionPolicy,
    Severity,
    SoakTerms,
    StreamSpec,
)


def a_comparison(**given: Any) -> CompareTerms:
    return CompareTerms(stream="orders", **given)


def a_health_sensor(**given: Any) -> StreamHealthSensor:
    return StreamHealthSensor(task_id="t", **given)


def a_doctor(**given: Any) -> StreamDoctorOperator:
    return StreamDoctorOperator(task_id="t", **given)


def a_sql_pointer(**given: Any) -> SqlPointer:
    return SqlPointer(conn_id="c", **given)


def a_spec(**given: Any) -> StreamSpec:
    return replace(SPEC, **given)


def a_sensor(**given: Any) -> StreamHealthSensor:
    return StreamHealthSensor(task_id="t", checkpoint="/c", **given)


def a_view(**given: Any) -> SparkView:
    return SparkView(view="lake.orders", runtime="spark-4.3", **given)


def a_task(kind: Callable[..., Any], **given: Any) -> Any:
    return kind(task_id="t", stream=SPEC, **given)


def a_backup(**given: Any) -> Any:
    return CheckpointBackupOperator(task_id="t", home="/srv/h", stream="orders", **given)


WRONG: list[tuple[Callable[..., Any], str, Any]] = [
    (RehearsalOptions, "batches", nan),
    (RehearsalOptions, "batches", -1),
    (RehearsalOptions, "batches", True),
    (RehearsalOptions, "time_limit", timedelta(-1)),
    (RehearsalOptions, "backup_id", 7),
    (UpgradeOptions, "soak", 5),
    (UpgradeOptions, "dry_run", object()),
    (UpgradeOptions, "accept", 5),
    (UpgradeOptions, "rehearsal", "always"),
    (RestartOptions, "approval_timeout", 60),
    (CutoverOptions, "retain_blue", 3),
    (CutoverOptions, "ready", SoakTerms()),
    (CutoverOptions, "keeps_blue_running", None),
    (Connections, "conn_id", None),
    (BackupOptions, "max_age", 5),
    (BackupOptions, "schedule", timedelta(hours=1)),
    (BackupOptions, "retention", "7 days"),
    (PruneOptions, "policy", {"keep": 7}),
    (PruneOptions, "schedule", 5),
    (UpgradeOptions, "checks", "has_written"),
    (UpgradeOptions, "checks", [True]),
    (UpgradeOptions, "rewind_with", "undo"),
    (UpgradeOptions, "edits", "conf"),
    (UpgradeOptions, "prewarm", "maybe"),
    (UpgradeOptions, "dry_run", ""),
    (CutoverOptions, "approval", "ja"),
    (RestartOptions, "checks", 1),
    (CutoverOptions, "deadlines", [timedelta(hours=1)]),
    (CutoverOptions, "approval_notifiers", 5),
    (CutoverOptions, "sink_habits", ["orders"]),
    (CutoverOptions, "approvers", None),
    (RehearsalOptions, "passing", None),
    (RehearsalOptions, "time_limit", timedelta(0)),
    (BackupOptions, "max_age", timedelta(0)),
    (RetentionPolicy, "keep_for", "7 days"),
    (RetentionPolicy, "keep_for", timedelta(0)),
    (RetentionPolicy, "keep_last", -1),
    (SoakTerms, "queries", "orders"),
    (SoakTerms, "batches", 10**30),
    (ReadyTerms, "measuring_errors", 0),
    (UpgradeOptions, "approval", ["begin"]),
]


def a_blackout(**given: Any) -> Blackout:
    return Blackout(**{"start": "01:00", "end": "02:00", **given})


def a_budget(**given: Any) -> Budget:
    return Budget(**{"restarts": 1, "window": timedelta(1), **given})


def a_rule(**given: Any) -> HealthRule:
    return HealthRule(**{"name": "n", "metric": Metric.BATCH_SECONDS, "bound": 1, **given})


WRONG += [
    (RestartPolicy, "first_delay", 5),
    (RestartPolicy, "max_delay", None),
    (RestartPolicy, "poison_after", "3"),
    (RestartPolicy, "reset_batches", True),
    (RestartPolicy, "reset_after", timedelta(-1)),
    (RestartPolicy, "half_open_after", 60),
    (RestartPolicy, "budgets", Budget(restarts=1, window=timedelta(1))),
    (RestartPolicy, "blackouts", "01:00-02:00"),
    (a_budget, "restarts", 1.5),
    (a_budget, "restarts", -1),
    (a_budget, "window", 600),
    (a_blackout, "start", 1),
    (a_blackout, "end", None),
    (a_blackout, "days", "0"),
    (a_blackout, "timezone", None),
    (HealthRules, "hang_after", 45),
    (HealthRules, "stall_factor", nan),
    (HealthRules, "stall_factor", "30"),
    (HealthRules, "stalled", "loud"),
    (HealthRules, "rules", a_rule()),
    (a_rule, "name", 7),
    (a_rule, "metric", "loud"),
    (a_rule, "comparison", "loud"),
    (a_rule, "severity", "loud"),
    (a_rule, "bound", "1"),
    (a_rule, "bound", inf),
    (a_rule, "clear_bound", nan),
    (a_rule, "sustained_for", 60),
    (a_rule, "clear_for", timedelta(-1)),
]


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_a_wrong_field_is_refused_by_its_name(
    kind: Callable[..., Any], name: str, value: Any
) -> None:
    with pytest.raises(SpecError, match=rf"\.{name}(\[0\])? is "):
        kind(**{name: value})


class Checks:
    """A check that is an object, or one of its methods."""

    def __call__(self, soaked: object) -> None:
        """Take what it is given."""

    def none(self) -> None:
        """Take nothing."""


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None, Checks().none])
@pytest.mark.parametrize(
    ("options", "name", "given"),
    [
        (UpgradeOptions, "checks", "Soaked"),
        (UpgradeOptions, "rewind_with", "Rewinding"),
        (RestartOptions, "checks", "Soaked"),
        (RestartOptions, "rewind_with", "Rewinding"),
        (CutoverOptions, "checks", "SideBySide"),
    ],
)
def test_a_function_that_cannot_take_what_it_is_given_is_refused(
    options: Callable[..., Any], name: str, given: str, function: Callable[..., Any]
) -> None:
    is_list = name == "checks"
    with pytest.raises(SpecError, match=rf"{options.__name__}\.{name}.* is called with a {given}"):
        options(**{name: [Checks(), function] if is_list else function})


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda f: CallablePointer(name="p", forward=f, backward=print), "CallablePointer.forward"),
        (
            lambda f: CallablePointer(name="p", forward=print, backward=f),
            "CallablePointer.backward",
        ),
        (lambda f: UpgradeOptions(approval_notifiers=[f]), "UpgradeOptions.approval_notifiers[0]"),
        (lambda f: a_task(UpgradeCheckOperator, checks=[f], preflight_task_id="p"), "checks[0]"),
        (
            lambda f: a_task(
                UpgradeStepOperator, rewind_with=f, until="ready", preflight_task_id="p"
            ),
            "rewind_with",
        ),
        (lambda f: a_task(CutoverStepOperator, checks=[f], until="ready"), "checks[0]"),
        (lambda f: a_task(SparkStreamOperator, on_gave_up=f), "on_gave_up"),
        (lambda f: a_task(SparkStreamOperator, on_restart=[print, f]), "on_restart[1]"),
        (lambda f: a_backup(on_late=f), "on_late"),
    ],
)
def test_a_function_is_refused_wherever_one_is_given(
    build: Callable[[Callable[..., Any]], Any], where: str
) -> None:
    with DAG("d"), pytest.raises(SpecError, match=f"^{re.escape(where)} is called with "):
        build(lambda: None)


@pytest.mark.parametrize(
    "function",
    [
        print,
        Checks(),
        lambda one, *more: None,
        lambda one, more=1: None,
        lambda *a: None,
    ],
)
def test_a_function_that_can_take_it_is_taken(function: Callable[..., Any]) -> None:
    UpgradeOptions(checks=[function], rewind_with=function)
    RestartOptions(checks=[function], rewind_with=function)
    CutoverOptions(checks=function)


NONSENSE: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (SoakTerms, {"batches": 0, "at_least": timedelta(0)}, "without any evidence"),
    (SoakTerms, {"queries": ("",)}, r"SoakTerms\.queries has an empty name"),
    (SoakTerms, {"queries": ("a", "a")}, "'a' twice"),
    (a_comparison, {"keys": ("k",), "ignore": ("x", "k")}, "'k' in keys and in ignore"),
    (a_comparison, {"format": "parqet"}, r"format is 'parqet'; did you mean 'parquet'\?"),
    (a_comparison, {"format": "jsonl"}, r"format is 'jsonl'; did you mean 'json'\?"),
    (a_comparison, {"sums": ("x", "x")}, r"CompareTerms\.sums has 'x' twice"),
    (a_comparison, {"keys": ("",)}, r"CompareTerms\.keys has an empty name"),
    (a_view, {"select": "SELECT * FROM parquet.`/lake/blue`"}, "whichever lane is live"),
    (a_view, {"select": "SELECT * FROM lake.{stream}"}, "whichever lane is live"),
    (a_view, {"select": "SELECT * FROM {outptu} {lane}"}, r"{outptu}, .* mean {output}\?"),
    (a_comparison, {"format": ""}, r"^CompareTerms\.format is empty"),
    (a_comparison, {"format": "parket"}, r"mean 'parquet'\?"),
    (a_comparison, {"format": "5 minutes"}, "give the name of a format"),
    (CompareTerms, {"stream": " "}, r"^CompareTerms\.stream is empty"),
    (a_sql_pointer, {"sql": "SELECT 1"}, "whichever lane is live"),
    (a_sql_pointer, {"sql": ["SELECT {stream}"]}, "whichever lane is live"),
    (SqlPointer, {"conn_id": "", "sql": "SELECT {lane}"}, r"^SqlPointer\.conn_id is empty"),
    (a_sql_pointer, {"name": " ", "sql": "SELECT {lane}"}, r"^SqlPointer\.name is empty"),
    (SparkView, {"view": "v", "runtime": ""}, r"^SparkView\.runtime is empty"),
    (CallablePointer, {"name": "", "forward": print, "backward": print}, r"\.name is empty"),
    (a_health_sensor, {"stream": "", "home": "/h"}, r"^StreamHealthSensor\.stream is empty"),
    (a_health_sensor, {"stream": "orders", "home": " "}, r"^StreamHealthSensor\.home is empty"),
    (a_health_sensor, {"checkpoint": ""}, r"^StreamHealthSensor\.checkpoint is empty"),
    (a_doctor, {"stream": "", "home": "/h"}, r"^StreamDoctorOperator\.stream is empty"),
    (a_doctor, {"stream": "orders", "home": ""}, r"^StreamDoctorOperator\.home is empty"),
    (a_sql_pointer, {"sql": "SELECT {laen}"}, r"^sql of pointer 'c' has {laen}"),
    (a_sql_pointer, {"sql": "SELECT {lane}", "undo_sql": ["{laen}"]}, "^undo_sql of pointer 'c'"),
    (stream_asset, {"checkpoint": "/c", "endpoint": "nope"}, "metrics endpoint 'nope'"),
    (a_sensor, {"endpoint": "driver:4040"}, "metrics endpoint 'driver:4040'"),
    (PointerFile, {"uri": "rel/p.json"}, "is relative"),
    (PointerFile, {"uri": "./p.json"}, "is relative"),
    (PointerFile, {"uri": "s3://lake/../p.json"}, r"has '\.\.'"),
]


def named(value: object) -> str:
    """Return a case's name, the same in every process: text of a function tells its address."""
    return value.__name__ if isinstance(value, type | FunctionType) else str(value)


@pytest.mark.parametrize(("kind", "given", "words"), NONSENSE, ids=named)
def test_what_cannot_be_meant_is_refused(
    kind: Callable[..., Any], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        kind(**given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (SoakTerms, {"batches": 0}),
        (RehearsalOptions, {"batches": 0}),
        (a_comparison, {"format": "com.example.ParqetSource"}),
        (a_comparison, {"format": "excel"}),
        (a_comparison, {"format": "Parquet"}),
        (a_comparison, {"keys": ("k",), "sums": ("x",), "ignore": ("x",)}),
        (a_view, {"select": "SELECT * FROM lake.orders_{color}"}),
        (a_spec, {"application_args": ['{"date": "{date}"}', "{{ params.outptu }}"]}),
        (PointerFile, {"uri": "memory://feeds/orders.json"}),
    ],
    ids=named,
)
def test_what_the_docs_give_a_meaning_stays(
    kind: Callable[..., Any], given: dict[str, Any]
) -> None:
    assert kind(**given) == kind(**given)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"application": Path("a.py")}, "application"),
        ({"home": Path("/srv/h")}, "home"),
        ({"output": Path("/x/y")}, "output"),
        ({"py_files": [Path("/x/y.py")]}, "py_files[0]"),
        ({"application_args": ["--x", PurePosixPath("/y")]}, "application_args[1]"),
    ],
)
def test_a_path_in_place_of_a_text_is_told_how_to_be_one(given: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as refused:
        replace(SPEC, **given)
    assert str(refused.value).startswith(f"{where} of stream 'orders' is of type ")
    assert " Write a path as str(path)." in str(refused.value)


@pytest.mark.parametrize("edits", [{"runtimes": "x"}, {"conf": 5}, {5: "x"}, {"runtime": 5}])
def test_an_edit_that_there_is_not_is_refused(edits: Any) -> None:
    for options in (UpgradeOptions, CutoverOptions):
        with pytest.raises(SpecError, match=rf"{options.__name__}\.edits"):
            options(edits=edits)


def test_a_secret_is_not_repeated_by_an_error() -> None:
    for wrong in (
        {"conf": "spark.x.password=canary"},
        {"env": {"P": ["canary"]}},
        {"jars": "a?token=canary"},
    ):
        with pytest.raises(SpecError) as refusal:
            replace(SPEC, **wrong)
        assert "canary" not in str(refusal.value)


@pytest.mark.parametrize("more", [{"nonsense": 1}, {"task_id": "t"}, {"stream": "s"}])
def test_an_argument_of_the_keep_alive_task_that_there_is_not_is_refused(more: Any) -> None:
    with pytest.raises(SpecError, match="keep_alive has"):
        stream_dags(SPEC, keep_alive=more)


@pytest.mark.parametrize("terms", [{"batches": "x"}, {"backlog_growth": inf}, {"at_most": 5}])
def test_terms_within_options_are_checked_too(terms: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"SoakTerms\."):
        UpgradeOptions(soak=SoakTerms(**terms))


@pytest.mark.parametrize(
    "terms",
    [{"at_least": timedelta(hours=1)}, {"at_most": timedelta(days=8)}],
    ids=["ends before it may", "outlasts the backups"],
)
def test_a_soak_that_cannot_be_is_refused(terms: dict[str, timedelta]) -> None:
    with pytest.raises(SpecError, match=r"UpgradeOptions\.soak"):
        UpgradeOptions(soak=SoakTerms(**terms))


@pytest.mark.parametrize("limits", [{"max": 10**30}, {"max": 4, "changes_a_day": 10**6}])
def test_limits_of_a_size_are_those_of_a_cluster(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Autoscale"):
        Autoscale(min=1, **limits)


SPEC = StreamSpec(name="orders", application="a.py", home="/srv/h", runtime="spark-4.3")


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: rescale(SPEC, UpgradeOptions()), "options"),
        (lambda: rolling_restart(SPEC, CutoverOptions()), "options"),  # type: ignore[arg-type]
        (lambda: upgrade_in_place(SPEC, RestartOptions()), "options"),  # type: ignore[arg-type]
        (lambda: upgrade_in_place("orders"), "stream"),  # type: ignore[arg-type]
        (lambda: blue_green(SPEC, UpgradeOptions()), "options"),  # type: ignore[arg-type]
        (lambda: blue_green(SPEC, connections={}), "connections"),  # type: ignore[arg-type]
        (lambda: rescale(SPEC, size=5), "size"),  # type: ignore[arg-type]
        (lambda: rescale(SPEC, size={"executors": -1}), "executors"),
        (lambda: rescale(SPEC, size={"executor_memory": "4 apples"}), "executor_memory"),
        (lambda: rescale(SPEC, size={"cores": 4}), "'cores'"),
    ],
)
def test_a_task_group_names_what_it_cannot_be_built_of(build: Callable[[], Any], name: str) -> None:
    with DAG("d"), pytest.raises(SpecError, match=f"^{name} is "):
        build()


def test_sizes_of_a_run_and_advice_are_taken() -> None:
    with DAG("d"):
        rescale(SPEC, size={"executors": "advised", "executor_cores": "{{ params.cores }}"})


def test_templates_whole_numbers_and_nothing_are_taken_where_they_are_declared() -> None:
    CutoverOptions(dry_run="{{ params.dry_run }}", approval=None, ready=ReadyTerms())
    UpgradeOptions(soak=SoakTerms(backlog_growth=2), approval_timeout=None)
    Connections(conn_id="{{ var.value.spark }}", home_conn_id=None)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (lambda: RestartPolicy(budgets=(3,)), r"RestartPolicy\.budgets\[0\]"),  # type: ignore[arg-type]
        (lambda: a_blackout(days=(0, "1")), r"Blackout\.days\[1\]"),
        (lambda: HealthRules(rules=(a_rule(), "x")), r"HealthRules\.rules\[1\]"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_member_is_refused_by_its_place(given: Callable[[], Any], name: str) -> None:
    with pytest.raises(SpecError, match=name):
        given()


def test_lists_are_taken_for_tuples_and_whole_numbers_for_fractions() -> None:
    assert RestartPolicy(blackouts=[a_blackout(days=[0])]) == RestartPolicy(  # type: ignore[arg-type]
        blackouts=(a_blackout(days=(0,)),)
    )
    assert HealthRules(stall_factor=3, rules=[a_rule()]).rules == (a_rule(),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("poll_interval", 5),
        ("poll_interval", None),
        ("poll_interval", timedelta(0)),
        ("poll_interval", timedelta(-1)),
        ("poll_interval", timedelta(days=2)),
        ("rollover_after", timedelta(0)),
        ("conn_id", 5),
        ("on_gave_up", "mail"),
        ("rollover_after", 7),
        ("changed_by", "nightly_upgrade"),
    ],
)
def test_an_operator_names_the_argument_that_is_wrong(name: str, value: object) -> None:
    spec = StreamSpec(name="orders", application="a.py", home="/srv/h", runtime="spark-4.3")
    with pytest.raises(SpecError, match=f"^{name} is "):
        SparkStreamOperator(task_id="keep", stream=spec, **{name: value})  # type: ignore[arg-type]


def test_the_age_of_a_backup_is_a_duration() -> None:
    with pytest.raises(SpecError, match=r"^max_age is 60; give a timedelta"):
        CheckpointBackupOperator(task_id="b", home="/srv/h", stream="orders", max_age=60)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["upgrade", "cutover", "backup", "prune", "connections", "soak"])
def test_the_dags_of_a_stream_name_the_options_that_are_none(name: str) -> None:
    spec = StreamSpec(name="orders", application="a.py", home="/srv/h", runtime="spark-4.3")
    with pytest.raises(SpecError, match=f"^{name} is "):
        stream_dags(spec, **{name: "x"})  # type: ignore[arg-type]


def written_here(message: str) -> bool:
    """Tell whether a message ends with a line of this file."""
    return re.search(r" See test_options\.py, line \d+\.$", message) is not None


@pytest.mark.parametrize(
    "write",
    [
        lambda: HealthRule(name="x", metric=Metric.BATCH_SECONDS, bound="slow"),  # type: ignore[arg-type]
        lambda: SparkStreamOperator(task_id="t", stream=None),  # type: ignore[arg-type]
        lambda: CheckpointBackupOperator(task_id="t", stream="o", home="/h", max_age=60),  # type: ignore[arg-type]
        lambda: StreamSpec(name="o", application="a.py", home="/h", runtime="r", jars=5),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_names_the_authors_line(write: Callable[[], object]) -> None:
    with DAG("d"), pytest.raises(SpecError) as refused:
        write()

    assert written_here(str(refused.value))


def test_a_plain_text_names_a_member_of_an_enum() -> None:
    rule = HealthRule(name="x", metric="batch_seconds", bound=1, severity="restart")  # type: ignore[arg-type]

    assert (rule.metric, rule.severity) == (Metric.BATCH_SECONDS, Severity.RESTART)
    assert isinstance(rule.severity, Severity)
    with pytest.raises(SpecError, match=r"^HealthRule\.severity is 'loud'"):
        HealthRule(name="x", metric=Metric.BATCH_SECONDS, bound=1, severity="loud")  # type: ignore[arg-type]


def test_a_task_keeps_a_stream_and_no_lane_of_one() -> None:
    spec = StreamSpec(name="orders.green", application="a.py", home="/h", runtime="r")

    with DAG("d"), pytest.raises(SpecError):
        SparkStreamOperator(task_id="t", stream=spec)
    with DAG("e"):
        SparkStreamOperator(task_id="t", stream=replace(spec, name="{{ params.name }}"))


@pytest.mark.parametrize("options", [{"backup": BackupOptions(schedule="hourlyy")}])
def test_a_schedule_that_cannot_be_leaves_no_dag_out_unseen(options: dict[str, Any]) -> None:
    spec = StreamSpec(name="orders", application="a.py", home="/h", runtime="r")

    with pytest.raises(SpecError, match="'orders_backup'"):
        stream_dags(spec, **options)


def test_a_slip_in_an_argument_is_refused_by_every_task_of_the_stream() -> None:
    stream = a_spec(application_args=["--out={outptu}"])
    tasks: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (SparkStreamOperator, {}),
        (UpgradeCheckOperator, {"checks": [print], "preflight_task_id": "p"}),
        (CutoverStepOperator, {"until": "ready"}),
    ]
    for kind, needed in tasks:
        with DAG("d"), pytest.raises(SpecError, match=r"^application_args of stream 'orders'"):
            kind(task_id="t", stream=stream, **needed)
    with DAG("d"):
        SparkStreamOperator(task_id="t", stream=a_spec(application_args=["{team}", "{output}"]))
