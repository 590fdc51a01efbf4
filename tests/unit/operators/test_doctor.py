from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.advice.examined import Advice, Outcome, RiskLevel, risk
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import init_home
from airflow_streaming.operators.doctor import StreamDoctorOperator, grave_risks
from tests.unit.home.make import make_deployment

SAID = [
    *(risk(level.value, level, "It is.", evidence="", remedy="") for level in RiskLevel),
    Advice(rule="fine", outcome=Outcome.FINE, what="It is not."),
]


@pytest.mark.parametrize(
    ("fail_on", "found"),
    [
        ("never", []),
        ("high", ["high"]),
        ("medium", ["high", "medium"]),
        ("low", ["high", "medium", "low"]),
    ],
)
def test_risks_of_a_level_and_above_are_grave(fail_on: str, found: list[str]) -> None:
    assert [one.rule for one in grave_risks(SAID, fail_on)] == found


def test_an_unknown_level_is_refused_when_the_dag_is_read() -> None:
    with pytest.raises(SpecError):
        StreamDoctorOperator(task_id="doctor", home="/x", stream="orders", fail_on="HIGH")


def operator(home: Path, fail_on: str) -> StreamDoctorOperator:
    return StreamDoctorOperator(task_id="doctor", home=str(home), stream="orders", fail_on=fail_on)


def test_a_risk_fails_the_task_and_is_returned_otherwise(tmp_path: Path) -> None:
    source = b"spark.readStream.format('rate').load()\n"
    stream = init_home(str(tmp_path)).stream("orders")
    stream.create_deployment(make_deployment(source=source), source)

    found = operator(tmp_path, "never").execute({})

    assert {one["outcome"] for one in found} >= {"risk"}
    with pytest.raises(AirflowFailException):
        operator(tmp_path, "low").execute({})
