"""What a form changes of a stream, and what it may not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.common.form_edits import bounded, edited, hours, positive_minutes
from airflow_streaming.options import MOST_SOAK
from airflow_streaming.spec import SoakTerms, StreamSpec

SPEC = StreamSpec(
    name="orders",
    application="orders.py",
    home="/home",
    runtime="spark-3.5",
    conf={"spark.a": "1", "spark.my.password": "s"},
)


@pytest.mark.parametrize("empty", [None, "", "None", "  "])
def test_an_empty_field_leaves_what_the_dag_says(empty: str | None) -> None:
    assert edited(SPEC, runtime=empty, application=empty, conf=None).runtime == "spark-3.5"
    assert edited(SPEC, runtime=empty, application=empty, conf="{}") == SPEC


@pytest.mark.parametrize(
    "conf", ['{"spark.a": null, "spark.b": 2}', {"spark.a": None, "spark.b": 2}]
)
def test_a_change_of_the_configuration_adds_and_takes_out(conf: Any) -> None:
    assert edited(SPEC, conf=conf).conf == {"spark.my.password": "s", "spark.b": 2}


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        pytest.param({"spark.my.token": "x"}, "looks like a secret", id="a secret key"),
        pytest.param({"spark.x": "s3://k:pw@host"}, "looks like a secret", id="a secret value"),
        pytest.param({"master": "yarn"}, "must begin with 'spark.'", id="not Spark's"),
        pytest.param("[1]", "not an object", id="a list"),
        pytest.param("{", "not JSON", id="half an object"),
    ],
)
def test_what_a_form_must_not_change_is_refused(conf: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        edited(SPEC, conf=conf)


def test_a_secret_of_the_dag_may_be_taken_out() -> None:
    assert "spark.my.password" not in edited(SPEC, conf={"spark.my.password": None}).conf


def test_a_size_is_configuration() -> None:
    size = {
        "executors": 4,
        "executor_memory": "4g",
        "shuffle_partitions": "",
        "executor_cores": None,
    }

    assert edited(SPEC, size=size).conf == {
        **SPEC.conf,
        "spark.executor.instances": "4",
        "spark.executor.memory": "4g",
    }


def test_where_spark_chooses_the_executors_the_most_is_set() -> None:
    dynamic = edited(SPEC, conf={"spark.dynamicAllocation.enabled": True})

    assert (
        edited(dynamic, size={"executors": 4}).conf["spark.dynamicAllocation.maxExecutors"] == "4"
    )


@pytest.mark.parametrize(
    "size", [{"executors": "0"}, {"executors": "many"}, {"executor_memory": "4"}, {"disks": 1}]
)
def test_a_size_that_is_none_is_refused(size: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="give"):
        edited(SPEC, size=size)


@pytest.mark.parametrize(
    ("value", "minutes"), [("", None), (None, None), ("0.5", 0.5), (15.0, 15), ("15", 15)]
)
def test_minutes_of_a_form(value: Any, minutes: float | None) -> None:
    expected = None if minutes is None else timedelta(minutes=minutes)

    assert positive_minutes(value, "soak_minutes") == expected


@pytest.mark.parametrize(
    "value", ["-1", "0", "soon", "nan", "inf", "1e308", 1e308, 1e12, "1e-300", 527_041]
)
def test_a_time_of_a_form_outside_its_bounds_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match=r"soak_minutes is .* above 0, at most 527040"):
        positive_minutes(value, "soak_minutes")
    with pytest.raises(SpecError, match=r"retain_hours is .* above 0, at most 8784"):
        hours(value, "retain_hours", timedelta(hours=1))


def test_hours_of_a_form() -> None:
    assert hours("", "retain_hours", timedelta(hours=7)) == timedelta(hours=7)
    assert hours("0.5", "retain_hours", timedelta(hours=7)) == timedelta(minutes=30)


def test_a_soak_of_a_form_is_no_longer_than_backups_are_kept() -> None:
    terms = SoakTerms(at_least=timedelta(minutes=5), at_most=timedelta(minutes=60))

    assert bounded(terms, 10_080).at_most == MOST_SOAK
    with pytest.raises(SpecError, match="at most 10080"):
        bounded(terms, 10_081)
