"""What an open cutover waits for, in every state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.changes.cutover.waits import waits_for
from airflow_streaming.model.records.cutover import CutoverTerms
from airflow_streaming.model.records.cutover_table import CutoverState, CutoverTransition
from tests.unit.changes.cutover.cutting import Cutting


@pytest.fixture
def begun(tmp_path: Path) -> tuple[CutoverTransition, CutoverTerms]:
    stream = Cutting(tmp_path)
    stream.begin()
    stream.drive(CutoverState.CATCHING_UP)
    home = stream.home("orders")
    change = home.changes()[-1]
    terms = home.cutover_terms(change)
    assert terms is not None
    return home.steps(change.number)[-1], terms


@pytest.mark.parametrize("state", CutoverState)
def test_every_state_waits_for_something_with_and_without_terms(
    state: CutoverState, begun: tuple[CutoverTransition, CutoverTerms]
) -> None:
    step, terms = begun
    for known in (terms, replace(terms, promotes_by_itself=True), None):
        assert waits_for([replace(step, after=state)], known)


@pytest.mark.parametrize(
    ("state", "change", "text"),
    [
        (CutoverState.SHADOWING, {}, "without a break, and for 2 batches of every query"),
        (CutoverState.READY, {"promotes_by_itself": False}, "the decision of a user: promote"),
        (CutoverState.READY, {"promotes_by_itself": True}, "its task, which makes green live"),
        (
            CutoverState.SOAKING,
            {"finalizes_by_itself": True},
            "without a finding, at most 6.67 min",
        ),
        (CutoverState.SOAKING, {"finalizes_by_itself": False}, "the decision of a user: keep or"),
    ],
)
def test_the_terms_say_how_long(
    state: CutoverState,
    change: dict[str, bool],
    text: str,
    begun: tuple[CutoverTransition, CutoverTerms],
) -> None:
    step, terms = begun
    assert text in waits_for([replace(step, after=state)], replace(terms, **change))
