"""An upgrade's stages are created once, and of two that exclude each other one counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Change, ChangeEnd, ChangeKind, ChangeOutcome
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeTransition
from airflow_streaming.model.storage import LocalStore
from tests.unit.home.make import NOON, an_upgrade_step, make_deployment


@pytest.fixture
def home(tmp_path: Any) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path)), "orders")


def terms(**changes: Any) -> UpgradeTerms:
    told = {
        "change": 1,
        "proposed": make_deployment(2),
        "rollback": RollbackPlan(way=RollbackMethod.REWIND, reason="So it is."),
    }
    return UpgradeTerms(**told | changes)


def begun(home: StreamHome, **changes: Any) -> Change:
    change = Change(
        number=1,
        stream="orders",
        what=ChangeKind.UPGRADE,
        replaced=1,
        deployment=2,
        checkpoint="/c",
        by="kim",
        reason="A release.",
        at=NOON,
        terms=home.keep_terms(terms()),
    )
    change = replace(change, **changes)
    home.begin_change(change)
    return change


WAY: Final = (Stage.BACKED_UP, Stage.STOPPED)


def taken(home: StreamHome, *stages: Stage, by: str = "kim") -> list[UpgradeTransition]:
    for stage in stages:
        home.take_step(an_upgrade_step(home.upgrade_steps(1), stage, by=by))
    return home.upgrade_steps(1)


def test_steps_are_found_again_in_their_order(home: StreamHome) -> None:
    begun(home)
    assert home.upgrade_steps(1) == []
    assert [step.after for step in taken(home, *WAY)] == [*WAY]
    assert set(home.stages(1)) == {*WAY}


@pytest.mark.parametrize(
    ("first", "second"), [(Stage.APPLYING, Stage.ABORTED), (Stage.ABORTED, Stage.APPLYING)]
)
def test_the_first_of_two_that_exclude_each_other_counts(
    first: Stage, second: Stage, home: StreamHome
) -> None:
    begun(home)
    history = taken(home, *WAY)
    steps = [
        an_upgrade_step(history, stage, by=by) for stage, by in ((first, "kim"), (second, "ada"))
    ]
    assert [home.take_step(step) for step in steps] == [steps[0], steps[0]]
    assert home.upgrade_steps(1)[-1].after is first


def test_a_step_in_a_wrong_file_is_not_believed(home: StreamHome) -> None:
    begun(home)
    step = an_upgrade_step([], Stage.BACKED_UP)
    home.store.create("orders/changes/000001/steps/000002.json", step.to_bytes("orders"))
    home.take_step(step)
    with pytest.raises(RecordError, match="is not what its name says"):
        home.upgrade_steps(1)


def test_a_hole_in_the_steps_is_not_taken_for_their_end(home: StreamHome) -> None:
    begun(home)
    taken(home, *WAY)
    home.store.delete("orders/changes/000001/steps/000001.json")
    with pytest.raises(RecordError, match=r"Step 1 .* is missing"):
        home.upgrade_steps(1)


def test_terms_are_what_the_change_was_begun_with(home: StreamHome) -> None:
    change = begun(home)
    other = home.keep_terms(terms(stop_grace=timedelta(seconds=1)))
    assert other != change.terms
    assert home.terms(change) == terms()
    home.store.replace(
        f"orders/changes/000001/terms-{change.terms[:16]}.json",
        terms(key="another").to_bytes("orders"),
    )
    with pytest.raises(RecordError, match="is not what its name says"):
        home.terms(change)


@pytest.mark.parametrize("digest", ["", "../../x", "cd" * 32])
def test_terms_that_are_not_there_are_missed_by_name(digest: str, home: StreamHome) -> None:
    with pytest.raises(RecordError, match=r"names no terms|is missing"):
        home.terms(begun(home, terms=digest))


def test_an_upgrade_is_open_until_it_has_ended(home: StreamHome) -> None:
    change = begun(home)
    assert home.open_upgrade() == change
    home.end_change(
        ChangeEnd(number=1, outcome=ChangeOutcome.ROLLED_BACK, by="kim", reason="Bad.", at=NOON)
    )
    assert home.open_upgrade() is None


def test_a_restore_is_no_upgrade(home: StreamHome) -> None:
    begun(home, what=ChangeKind.RESTORE)
    assert home.open_upgrade() is None
