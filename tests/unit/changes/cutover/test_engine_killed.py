"""A worker may be killed before any durable step of a cutover: the end is the same.

Here some steps are tried; ``python -m tests.system.cutover_kills`` tries them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.model.records.cutover_table import CutoverState
from tests.unit.changes.cutover.cut_short import (
    WAYS,
    Story,
    killed_and_retried,
    never_backwards,
    rolled_back_at,
    to_the_end,
)

S = CutoverState


@pytest.mark.parametrize(
    ("way", "story", "steps"),
    [
        pytest.param("parallel", to_the_end, (17,), id="parallel"),
        pytest.param("handover", to_the_end, (44, 63), id="handover"),
        pytest.param("handover", rolled_back_at(S.SOAKING), (84,), id="handed back"),
    ],
)
def test_a_cutover_ends_the_same_wherever_its_worker_was_killed(
    way: str, story: Story, steps: tuple[int, ...], tmp_path: Path
) -> None:
    _, wanted, _ = killed_and_retried(tmp_path / "none", story, 10**6, **WAYS[way])
    for step in steps:
        folder = tmp_path / str(step)
        has_died, found, world = killed_and_retried(folder, story, step, **WAYS[way])

        assert has_died
        assert found == wanted, f"Killed before step {step}."
        assert never_backwards(world.read), f"Killed before step {step}."
