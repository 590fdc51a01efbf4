"""Two tasks that launch one stream in the same instant start one driver; RACES=200 says how often."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_streaming.exceptions import StreamingError
from tests.fakes import FakeLauncher
from tests.unit.launch.racer import Racer
from tests.unit.racing import at_once

ROUNDS = int(os.environ.get("RACES", "20"))


def test_of_two_tasks_that_launch_in_one_instant_one_starts_a_driver(tmp_path: Path) -> None:
    for turn in range(ROUNDS):
        folder, launcher = tmp_path / str(turn), FakeLauncher()
        racers = [Racer(folder, launcher, name) for name in ("one", "two")]

        at_once(*(racer.launch for racer in racers))

        assert launcher.living() == [1], f"In round {turn}: {launcher.living()}."
        assert len(launcher.launched) == 1
        assert racers[0].home.launch(1) is not None


def test_a_late_task_of_two_that_restart_in_one_instant_starts_no_second_driver(
    tmp_path: Path,
) -> None:
    for turn in range(ROUNDS):
        folder, launcher = tmp_path / str(turn), FakeLauncher()
        Racer(folder, launcher, "before").launch()
        launcher.end(next(iter(launcher.drivers)))
        racers = [Racer(folder, launcher, name) for name in ("one", "two")]
        refused: list[StreamingError] = []

        def restart(racer: Racer, refused: list[StreamingError] = refused) -> None:
            try:
                racer.launch()
            except StreamingError as err:
                refused.append(err)

        at_once(*(lambda r=racer: restart(r) for racer in racers))  # type: ignore[misc]

        assert launcher.living() == [2], f"In round {turn}: {launcher.living()}, {refused}."
