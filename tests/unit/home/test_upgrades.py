"""An upgrade's stages are created once, and of two that exclude each other one counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.core.change import Change, ChangeEnd, ChangeOutcome, ChangeSort
from airflow_streaming.core.names import Layout
from airflow_streaming.core.upgrade.stage import Stage, StageReached
from airflow_streaming.core.upgrade.terms import RollbackPlan, RollbackWay, UpgradeTerms
from airflow_streaming.exceptions import RecordError
from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.home import StreamHome
from tests.unit.home.make import NOON, make_deployment


@pytest.fixture
def home(tmp_path: Any) -> StreamHome:
    return StreamHome(LocalStore(str(tmp_path)), "orders")


def reached(stage: Stage, by: str = "kim") -> StageReached:
    return StageReached(change=1, stage=stage, at=NOON, by=by, reason="So it is.")


def terms(**changes: Any) -> UpgradeTerms:
    told = {
        "change": 1,
        "proposed": make_deployment(2),
        "rollback": RollbackPlan(way=RollbackWay.REWIND, reason="So it is."),
    }
    return UpgradeTerms(**told | changes)


def begun(home: StreamHome, **changes: Any) -> Change:
    change = Change(
        number=1,
        stream="orders",
        what=ChangeSort.UPGRADE,
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


def test_stages_are_found_again_whatever_else_lies_beside_them(home: StreamHome) -> None:
    begun(home)
    assert home.stages(1) == {}
    for stage in (Stage.STOPPED, Stage.BACKED_UP):
        home.reach(reached(stage))
    assert set(home.stages(1)) == {Stage.BACKED_UP, Stage.STOPPED}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Stage.APPLYING, Stage.ABORTED),
        (Stage.ABORTED, Stage.APPLYING),
        (Stage.KEPT, Stage.ROLLING_BACK),
        (Stage.ROLLING_BACK, Stage.KEPT),
        (Stage.STOPPED, Stage.STOPPED),
    ],
)
def test_the_first_of_two_that_exclude_each_other_counts(
    first: Stage, second: Stage, home: StreamHome
) -> None:
    begun(home)
    assert home.reach(reached(first, by="kim")).by == "kim"
    assert home.reach(reached(second, by="ada")) == reached(first, by="kim")
    assert set(home.stages(1)) == {first}


def test_every_stage_has_a_file_and_only_rivals_share_one() -> None:
    files = [stage.file for stage in Stage]
    assert sorted(files.count(file) for file in set(files)) == [1] * (len(Stage) - 4) + [2, 2]


def test_a_stage_in_a_wrong_file_is_not_believed(home: StreamHome) -> None:
    begun(home)
    path = Layout("orders").change_file(1, Stage.KEPT.file)
    home.store.create(path, reached(Stage.STOPPED).to_bytes())
    with pytest.raises(RecordError, match="is not what its name says"):
        home.stages(1)


def test_terms_are_what_the_change_was_begun_with(home: StreamHome) -> None:
    change = begun(home)
    other = home.keep_terms(terms(stop_grace=timedelta(seconds=1)))
    assert other != change.terms
    assert home.terms(change) == terms()
    home.store.replace(
        Layout("orders").change_file(1, f"terms-{change.terms[:16]}.json"),
        terms(key="another").to_bytes(),
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
    begun(home, what=ChangeSort.RESTORE)
    assert home.open_upgrade() is None
