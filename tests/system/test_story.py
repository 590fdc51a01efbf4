"""The story that ``make demo ARGS=--once`` tells, on a real Airflow and a real Spark."""

from __future__ import annotations

from pathlib import Path

from demo.story import show, tell_story
from demo.waiting import Progress


def test_a_killed_stream_comes_back_and_loses_and_doubles_nothing(
    tmp_path: Path, spark_4_3: Path
) -> None:
    checks = tell_story(tmp_path / "story", spark_4_3, Progress())

    assert all(check.holds for check in checks), "\n" + show(checks)
