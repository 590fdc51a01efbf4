"""What cannot be is refused when the dag is parsed, with a sentence that says what can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms
from airflow_streaming.options import (
    Approval,
    CutoverOptions,
    GreenStart,
    RehearsalOptions,
    SwitchMethod,
    UpgradeOptions,
)
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import StreamSpec

SPEC = StreamSpec(name="orders", application="orders.py", home="/home", runtime="spark-4.3")
GREEN = replace(SPEC, name="orders.green")


def group(*args: Any, **asked: Any) -> DAG:
    with DAG("cutover") as dag:
        blue_green(*(args or (SPEC,)), CutoverOptions(**asked))
    return dag


def is_right(_: object) -> None:
    """Find nothing wrong."""


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        pytest.param(lambda: group([]), "needs a stream", id="no stream"),
        pytest.param(lambda: group("orders"), "stream is 'orders'; give", id="a name"),
        pytest.param(lambda: group(GREEN), "kept for the other lane", id="a lane"),
        pytest.param(lambda: stream_dags(GREEN), "kept for the other lane", id="dags of a lane"),
        pytest.param(lambda: group(way="paralel"), "way is 'paralel'; give para", id="way"),
        pytest.param(lambda: group(start="frsh"), "start is 'frsh'; give by_gate", id="start"),
        pytest.param(
            lambda: group(approval={"switch": "x"}),
            r"approval\['switch'\] is 'x'; give ask, auto",
            id="approval",
        ),
        pytest.param(
            lambda: group(approval={"finalize": "ask"}),
            r"approval has 'finalize'",
            id="step",
        ),
        pytest.param(
            lambda: UpgradeOptions(approval={"switch": "ask"}),  # type: ignore[typeddict-unknown-key]
            r"approval has 'switch'",
            id="step of a cutover",
        ),
        pytest.param(lambda: group(replay_from="yesterday"), "give a time such as", id="moment"),
        pytest.param(
            lambda: group(deadlines={"ready": 5}), r"deadlines\['ready'\] is 5", id="deadline"
        ),
        pytest.param(
            lambda: group(deadlines={"ready": timedelta(-1)}),
            r"deadlines\['ready'\] is -1 d",
            id="past deadline",
        ),
        pytest.param(lambda: group(retain_blue=timedelta(-1)), "retain_blue is", id="retain"),
        pytest.param(lambda: group(checks=["x"]), r"checks\[0\] is 'x'", id="check"),
        pytest.param(lambda: group(pointers="x"), "pointers is 'x'", id="pointer"),
        pytest.param(lambda: group(ready={"batches": 1}), "give ReadyTerms", id="ready"),
        pytest.param(lambda: group(compare=["orders"]), "give CompareTerms", id="compare"),
        pytest.param(lambda: CompareTerms(stream="o", tolerance=-1), "tolerance is -1", id="tol"),
        pytest.param(
            lambda: CompareTerms(stream="o", bucket=timedelta(0)), "bucket is 0 s", id="bucket"
        ),
        pytest.param(
            lambda: CompareTerms(stream="o", keys="k"), "keys is 'k'; give a list", id="keys"
        ),  # type: ignore[arg-type]
        pytest.param(lambda: ReadyTerms(well_for=5), "well_for is 5; give a timed", id="well_for"),  # type: ignore[arg-type]
        pytest.param(
            lambda: stream_dags(SPEC, cutover={"way": "x"}),  # type: ignore[arg-type]
            r"give CutoverOptions\(\.\.\.\)",
            id="no options",
        ),
        pytest.param(lambda: CutoverOptions(way="x"), "way is 'x'", id="in form"),
        pytest.param(
            lambda: UpgradeOptions(sink_habits={"q": "forgets"}),
            r"sink_habits\['q'\] is 'forgets'",
            id="habit",
        ),
        pytest.param(
            lambda: UpgradeOptions(approvers="ann"),
            "approvers is 'ann'; give a list",
            id="one name",
        ),
        pytest.param(
            lambda: RehearsalOptions(when="often"), "'often'; give when_unknown", id="rehearse"
        ),
    ],
)
def test_what_cannot_be_is_refused_before_any_run(ask: Callable[[], object], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        ask()


def test_one_may_stand_for_itself_where_several_can_be_given(tmp_path: Path) -> None:
    pointer = PointerFile(uri=f"{tmp_path}/live.json")
    dag = group(compare=CompareTerms(stream="orders"), pointers=pointer, checks=is_right)

    preflight: Any = dag.get_task("blue_green.preflight")
    assert [one.stream for one in preflight.course.compare] == ["orders"]
    assert list(preflight.course.pointers) == [pointer.name]
    assert preflight.course.checks == ("is_right",)


def test_templates_are_left_to_the_run() -> None:
    asked: dict[str, Any] = dict.fromkeys(("way", "start", "replay_from"), "{{ params.x }}")
    asked["approval"] = {"switch": "{{ params.x }}"}
    preflight: Any = group(**asked).get_task("blue_green.preflight")
    assert preflight.way == preflight.approval["switch"] == "{{ params.x }}"


@pytest.mark.parametrize("way", ["handover", SwitchMethod.HANDOVER])
@pytest.mark.parametrize("start", ["fresh", GreenStart.FRESH])
def test_a_choice_is_an_enum_or_its_string_and_is_stored_as_a_string(way: str, start: str) -> None:
    preflight: Any = group(way=way, start=start).get_task("blue_green.preflight")

    assert (type(preflight.way), preflight.way) == (str, "handover")
    assert (type(preflight.start), preflight.start) == (str, "fresh")


def test_every_start_of_green_can_be_asked_for() -> None:
    form = cutover_params(SPEC)
    for field, choices in (
        ("start", GreenStart),
        ("approval_switch", Approval),
        ("way", SwitchMethod),
    ):
        assert set(form[field].schema["enum"]) == {choice.value for choice in choices}
        assert form[field].schema["values_display"].keys() == {choice.value for choice in choices}
