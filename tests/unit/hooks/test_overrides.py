"""Which of three values counts: the form's, the live one, or the DAG's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.hooks.overrides import overrides_between, with_live
from airflow_streaming.model.records.deployment import Override
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.operators.common.form_edits import edited
from airflow_streaming.spec import StreamSpec


def dag(runtime: str = "spark-4.2", **conf: Any) -> StreamSpec:
    return StreamSpec(
        name="orders",
        application="orders.py",
        home="/home",
        runtime=runtime,
        conf={f"spark.{key}": value for key, value in conf.items()},
    )


TO_43 = Override(what="runtime", value="spark-4.3", dag="spark-4.2")
SET_A = Override(what="conf.spark.a", value="2", dag="1")
ADDED = Override(what="conf.spark.b", value="3", dag=None)
DROPPED = Override(what="conf.spark.a", value=None, dag="1")


@pytest.mark.parametrize(
    ("live", "named", "runtime"),
    [
        pytest.param((), "spark-4.2", "spark-4.2", id="no form has set it"),
        pytest.param((TO_43,), "spark-4.2", "spark-4.3", id="the DAG names the old one still"),
        pytest.param((TO_43,), "spark-4.3", "spark-4.3", id="the DAG follows"),
        pytest.param((TO_43,), "spark-4.4", "spark-4.4", id="the DAG's author goes on"),
    ],
)
def test_an_empty_field_keeps_the_live_value_until_the_dag_changes(
    live: tuple[Override, ...], named: str, runtime: str
) -> None:
    assert with_live(dag(named), live).runtime == runtime


def test_a_form_that_names_another_program_of_a_pipeline_keeps_it_a_pipeline() -> None:
    pipeline = replace(dag(), application="", pipeline="pipeline.yml")
    asked = edited(pipeline, application="next/pipeline.yml")
    live = overrides_between(pipeline, asked)

    assert (asked.pipeline, asked.application) == ("next/pipeline.yml", "")
    assert [(one.what, one.value, one.dag) for one in live] == [
        ("application", "next/pipeline.yml", "pipeline.yml")
    ]
    assert with_live(pipeline, live).pipeline == "next/pipeline.yml"


@pytest.mark.parametrize(
    ("live", "named", "conf"),
    [
        pytest.param((SET_A,), {"a": 1}, {"a": "2"}, id="set by a form"),
        pytest.param((SET_A,), {"a": 5}, {"a": 5}, id="set by a form, then by the DAG"),
        pytest.param((SET_A,), {}, {}, id="set by a form, then dropped by the DAG"),
        pytest.param((ADDED,), {"a": 1}, {"a": 1, "b": "3"}, id="added by a form"),
        pytest.param((DROPPED,), {"a": 1}, {}, id="dropped by a form"),
        pytest.param((DROPPED,), {"a": 4}, {"a": 4}, id="dropped by a form, then set by the DAG"),
    ],
)
def test_settings_are_merged_key_by_key(
    live: tuple[Override, ...], named: dict[str, Any], conf: dict[str, Any]
) -> None:
    expected = {f"spark.{key}": value for key, value in conf.items()}

    assert with_live(dag(**named), live).conf == expected


def test_a_typed_value_wins_over_the_live_one() -> None:
    asked = edited(dag(a=1), (TO_43, SET_A), runtime="spark-4.4", conf={"spark.a": 9})

    assert (asked.runtime, asked.conf) == ("spark-4.4", {"spark.a": 9})


def test_the_script_that_a_form_has_set_is_kept() -> None:
    live = (Override(what="application", value="/scripts/v2.py", dag="orders.py"),)

    assert with_live(dag(), live).application == "/scripts/v2.py"


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({"runtime": "spark-4.3"}, id="runtime"),
        pytest.param({"application": "/scripts/v2.py"}, id="script"),
        pytest.param({"conf": {"spark.a": 2, "spark.b": None, "spark.c": 3}}, id="settings"),
        pytest.param({"size": {"executors": 4}}, id="size"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_change_that_was_deployed_is_what_the_next_empty_form_starts_from(
    form: dict[str, Any],
) -> None:
    named = dag(a=1, b=2)
    asked = edited(named, (), **form)
    overrides = overrides_between(named, asked)

    again = edited(named, overrides)

    assert overrides_between(named, again) == overrides
    assert edited(named, overrides, **form).conf == asked.conf, "each task of a run merges anew"


def test_a_value_that_the_dag_names_too_is_no_override() -> None:
    assert overrides_between(dag("spark-4.3"), edited(dag("spark-4.3"), (TO_43,))) == ()


def test_a_secret_is_recorded_as_a_mark_and_never_used_as_a_value() -> None:
    named = replace(dag(), conf={"spark.my.password": "canary"})
    overrides = overrides_between(named, edited(named, conf={"spark.my.password": None}))
    marked = [replace(one, value=REDACTED) for one in overrides]

    assert "canary" not in repr(overrides)
    assert with_live(named, overrides).conf == {}
    assert with_live(named, marked).conf == named.conf
