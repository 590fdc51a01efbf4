"""The stories that ``make demo ARGS=--once`` tells, on a real Airflow and a real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.pipelines import PIPELINES
from demo.run import make_stage
from demo.story import show, tell_example, tell_story
from demo.waiting import Progress
from tests.system.some_dags import some_dags


def test_a_killed_stream_comes_back_and_loses_and_doubles_nothing(
    tmp_path: Path, spark_4_3: Path
) -> None:
    dags = some_dags(tmp_path, "retail_revenue", "retail_report", "stream_switch")
    checks = tell_story(tmp_path / "story", spark_4_3, Progress(), dags=dags)

    assert all(check.holds for check in checks), "\n" + show(checks)


@pytest.mark.nightly("A whole Airflow each.")
@pytest.mark.parametrize("name", [*PIPELINES])
def test_an_example_runs_is_killed_and_comes_back(
    name: str, tmp_path: Path, spark_4_3: Path
) -> None:
    say = Progress()
    stage, _ = make_stage(tmp_path / "example", spark_4_3, name, say)
    checks = tell_example(stage, PIPELINES[name], say)

    assert all(check.holds for check in checks), "\n" + show(checks)
