"""
Whatever fails at a durable write, there is one driver, nothing is lost, and doing it again completes it.

The disk fails at the n-th change with EIO, ENOSPC, EACCES, a time-out or a lost answer, or the process
is killed before or after it. Here some changes are tried with some faults; ``make faults`` tries all with each fault.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import share_of
from tests.unit.faults.acts import ACTS
from tests.unit.faults.disk import Fault
from tests.unit.faults.striking import judge, strike

LONG = ("upgrade", "rollback", "cutover", "handover", "handback")
"""Acts of hundreds of changes, with kill tests of their own."""


@pytest.mark.parametrize("name", ACTS)
def test_a_fault_at_a_write_is_told_and_what_was_begun_is_completed(
    name: str, tmp_path: Path
) -> None:
    sound = strike(name, tmp_path / "none")
    assert not sound.problems

    faults = [Fault.ENOSPC, Fault.AFTER] if name in LONG else list(Fault)
    for turn, fault in share_of([*enumerate(faults)], name, parts=2):
        at = 1 + (2 * turn + 1) * sound.changes // (2 * len(faults))
        folder = tmp_path / f"{at}-{fault.name}"
        has_struck, problems = judge(name, folder, at, fault, sound.outcome)
        shutil.rmtree(folder)

        assert has_struck
        assert not problems, f"{fault} at change {at}: {problems}"


def test_every_act_of_the_table_makes_changes_that_are_seen(tmp_path: Path) -> None:
    assert all(strike(name, tmp_path / name).changes > 15 for name in ("launch", "stop", "verify"))
