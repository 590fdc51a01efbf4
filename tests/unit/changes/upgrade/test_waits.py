"""What an open upgrade waits for, at every stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.changes.upgrade.waits import waits_for
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeTransition
from tests.unit.changes.upgrade.upgrading import Upgraded


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (Stage.BEGUN, "a verified backup of the running stream"),
        (Stage.BACKED_UP, "the old driver to stop at a batch boundary"),
        (Stage.STOPPED, "its task, which makes the new deployment"),
        (Stage.DEPLOYED, "the start of the new driver"),
        (Stage.LAUNCHED, "the soak: 3 batches of every query and 1 min without a finding, until"),
        (Stage.JUDGED, "the decision of a user: keep or roll back"),
    ],
)
def test_each_stage_says_what_comes_next(stage: Stage, text: str, tmp_path: Path) -> None:
    made = Upgraded(tmp_path)
    made.begin(keeps_by_itself=False)
    made.drive(stage)
    home = made.home

    assert waits_for(home.upgrade_steps(1), home.terms(home.change(1))).startswith(text)


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_waits_for_something_with_and_without_terms(
    stage: Stage, tmp_path: Path
) -> None:
    made = Upgraded(tmp_path)
    made.begin()
    made.drive(Stage.LAUNCHED)
    terms = made.home.terms(made.home.change(1))
    newest: UpgradeTransition = made.home.upgrade_steps(1)[-1]
    steps = [] if stage is Stage.BEGUN else [replace(newest, after=stage)]

    for known in (terms, replace(terms, prewarm=True), None):
        assert waits_for(steps, known)
