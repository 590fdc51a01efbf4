"""A report in XCom is believed where the home has recorded it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.operators.common.run_report import (
    digest_of,
    is_recorded,
    push_recorded,
    report_of_run,
)
from tests.unit.changes.upgrade.upgrading import Upgraded
from tests.unit.operators.upgrades import REPORT, Run, TaskInstance

FORGED = {
    "an approval that never was": {"resumes": 99},
    "a soak of nothing": {"soak": {}},
    "gates that know": {"has_to_be_rehearsed": False},
}


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def context(xcoms: dict[tuple[str, str], Any], run: str = "run-1", task: str = "look") -> Any:
    return {"ti": TaskInstance(task_id=task, run_id=run, xcoms=xcoms), "params": {}}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("name", ["rehearse", "approve", "back_up", "settle"])
def test_no_task_believes_a_report_that_the_home_has_not_recorded(
    name: str, change: dict[str, Any], stream: Upgraded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(stream, monkeypatch)
    run.report()
    run.xcoms[REPORT, "report"] = {**run.xcoms[REPORT, "report"], **change}

    with pytest.raises(AirflowFailException, match="is not the report that stream 'orders'"):
        run.task(name).execute(run.context(name))

    assert stream.home.changes() == []


@pytest.mark.parametrize(
    "journey",
    [
        pytest.param(lambda value: json.loads(json.dumps(value)), id="json"),
        pytest.param(lambda _: {"a": 40, "b": (1, 2), "c": {"x": 1.5}}, id="whole floats"),
        pytest.param(lambda _: {"c": {"x": 1.5}, "b": [1, 2.0], "a": 40.0}, id="another order"),
    ],
)
def test_a_report_is_the_same_after_its_journey(
    journey: Callable[[Any], Any], stream: Upgraded
) -> None:
    xcoms: dict[tuple[str, str], Any] = {}
    push_recorded(context(xcoms), stream.home, "report", {"a": 40.0, "b": [1, 2], "c": {"x": 1.5}})
    xcoms["look", "report"] = journey(xcoms["look", "report"])

    assert report_of_run(context(xcoms), stream.home, "look") == xcoms["look", "report"]


@pytest.mark.parametrize("value", [{"a": 41}, {"a": "40"}, {"a": 40.5}, {"a": True}, {}, [40]])
def test_another_value_has_another_digest(value: Any) -> None:
    assert digest_of(value) != digest_of({"a": 40})


def test_a_report_counts_for_its_run_its_task_and_its_key(stream: Upgraded) -> None:
    home, value = stream.home, {"a": 1}
    push_recorded(context({}), home, "report", value)

    assert is_recorded(context({}), home, "look", "report", value)
    assert not is_recorded(context({}, run="run-2"), home, "look", "report", value)
    assert not is_recorded(context({}), home, "other", "report", value)
    assert not is_recorded(context({}), home, "look", "rehearsed", value)


def test_the_newest_report_of_a_task_counts(stream: Upgraded) -> None:
    push_recorded(context({}), stream.home, "report", {"a": 1})
    push_recorded(context({}), stream.home, "report", {"a": 2})

    assert not is_recorded(context({}), stream.home, "look", "report", {"a": 1})
    assert is_recorded(context({}), stream.home, "look", "report", {"a": 2})


def test_both_lanes_know_the_report_of_a_stream(stream: Upgraded) -> None:
    push_recorded(context({}), stream.home.beside("orders.green"), "report", {"a": 1})

    assert is_recorded(context({}), stream.home, "look", "report", {"a": 1})


def test_a_run_without_a_report_has_none(stream: Upgraded) -> None:
    assert report_of_run(context({}), stream.home, "look") is None


def test_a_home_without_any_report_is_not_there(stream: Upgraded) -> None:
    xcoms: dict[tuple[str, str], Any] = {("look", "report"): {"a": 1}}

    with pytest.raises(HomeUnavailable, match="is mounted"):
        report_of_run(context(xcoms), stream.home, "look")
