"""A worker may be killed or suspended before any durable step of an upgrade: the end is the same.

Here every twelfth step is tried; ``python -m tests.system.upgrade_kills`` tries them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.changes.upgrade.killing import (
    Story,
    aborted,
    every_step,
    killed_and_retried,
    suspended_and_overtaken,
    to_the_end,
)

NEVER = 10**6


@pytest.mark.parametrize(
    ("code", "story", "first", "steps"),
    [
        pytest.param("works", to_the_end, 1, 31, id="kept"),
        pytest.param("fails at once", to_the_end, 2, 45, id="rolled back with nothing written"),
        pytest.param("fails after two", to_the_end, 3, 46, id="rolled back to the backup"),
        pytest.param("works", aborted, 4, 20, id="aborted"),
    ],
)
def test_an_upgrade_ends_the_same_wherever_its_worker_was_killed(
    code: str, story: Story, first: int, steps: int, tmp_path: Path
) -> None:
    last = every_step(tmp_path, code, story, every=12, first=first)
    assert steps < last <= steps + 12


@pytest.mark.parametrize(
    ("code", "story", "step"),
    [
        pytest.param("works", to_the_end, 9, id="at the fence"),
        pytest.param("works", to_the_end, 21, id="before the driver"),
        pytest.param("fails after two", to_the_end, 26, id="before the verdict"),
        pytest.param("fails after two", to_the_end, 40, id="before the old driver"),
        pytest.param("works", aborted, 15, id="after the word"),
    ],
)
def test_a_worker_that_wakes_up_late_changes_nothing(
    code: str, story: Story, step: int, tmp_path: Path
) -> None:
    _, wanted = killed_and_retried(tmp_path / "none", code, story, NEVER)

    was_suspended, found, failed = suspended_and_overtaken(tmp_path / "late", code, story, step)

    assert was_suspended
    assert failed is None
    assert found == wanted
