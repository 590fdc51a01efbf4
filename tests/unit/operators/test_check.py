"""The check of an installation as a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.advice.installation import installation_probes
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.check import CheckInstallationOperator
from airflow_streaming.storage.probe import RECORD
from tests.unit.world import World

AIRFLOW = {
    "version": "3.3.2",
    "executor": "LocalExecutor",
    "capacity": 1000,
    "queues_enabled": False,
    "base_url": "http://127.0.0.1:9",
}


@pytest.fixture
def told(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What this worker's Airflow says."""
    facts = {
        "airflow": dict(AIRFLOW),
        "runtimes": {},
        "homes": [],
        "driver_folder": str(world.folder),
    }
    monkeypatch.setattr(installation_probes, "ask_airflow", lambda: (facts, ""))
    return facts


def check(world: World, **given: Any) -> list[dict[str, Any]]:
    operator = CheckInstallationOperator(task_id="check", home=world.uri, **given)
    return operator.execute(world.context())


def test_each_line_is_returned_with_the_value_seen_the_value_expected_and_the_next_step(
    world: World, told: dict[str, Any]
) -> None:
    lines = check(world, fail_on="never")

    found = {line["check"]: line for line in lines}
    assert found["runtimes"]["outcome"] == "problem"
    assert all(found["runtimes"][name] for name in ("seen", "expected", "next"))
    assert found[f"home {world.uri}: exclusive create"]["outcome"] == "ok"
    assert found["plugin"]["outcome"] == "ok"
    assert [path.name for path in Path(world.uri, "_store").iterdir()] == [Path(RECORD).name]


def test_a_problem_fails_the_task_with_the_next_step(world: World, told: dict[str, Any]) -> None:
    told["airflow"]["plugin"] = "not among 3 plugins"
    with pytest.raises(AirflowFailException, match=r"PROBLEM plugin: not among 3 plugins.*Next: "):
        check(world)


@pytest.mark.parametrize(
    ("fail_on", "fails"),
    [("never", False), ("problem", True), ("unknown", True), ("warning", True)],
)
def test_the_author_says_from_which_outcome_on_it_fails(
    world: World, told: dict[str, Any], fail_on: str, fails: bool
) -> None:
    if not fails:
        assert check(world, fail_on=fail_on)
        return
    with pytest.raises(AirflowFailException):
        check(world, fail_on=fail_on)


def test_a_home_that_is_away_is_a_line_and_no_error(
    world: World, told: dict[str, Any], tmp_path: Path
) -> None:
    operator = CheckInstallationOperator(
        task_id="check", home=str(tmp_path / "file"), fail_on="never"
    )
    (tmp_path / "file").write_text("no folder")

    lines = operator.execute(world.context())

    (found,) = [line for line in lines if line["check"] == f"home {tmp_path / 'file'}"]
    assert found["outcome"] == "problem"


def test_an_unknown_outcome_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(SpecError, match="never, problem, unknown, warning"):
        CheckInstallationOperator(task_id="check", fail_on="PROBLEM")
