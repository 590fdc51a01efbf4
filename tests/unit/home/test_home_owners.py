"""The record of a stream's owner."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.exceptions import NotTheOwner
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.records.owner import Actor, DagAct

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MINE, THIEF = Actor(dag_id="orders"), Actor(dag_id="thief")


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return open_home(str(tmp_path / "home")).stream("orders")


def test_a_stream_without_an_owner_is_anybodys(home: StreamHome) -> None:
    home.check_owner(THIEF, DagAct.KEEP)

    assert home.owner() is None


def test_the_first_claim_counts(home: StreamHome) -> None:
    home.claim_ownership(MINE, by="a task", now=NOW)

    with pytest.raises(NotTheOwner):
        home.claim_ownership(THIEF, by="a task", now=NOW)
    with pytest.raises(NotTheOwner):
        home.check_owner(THIEF)
    home.check_owner(MINE, DagAct.KEEP)


def test_a_claim_that_is_repeated_writes_no_second_record(home: StreamHome) -> None:
    first = home.claim_ownership(MINE, by="a task", now=NOW)

    assert home.claim_ownership(MINE, by="another try", now=NOW) == first


def test_both_lanes_have_one_owner(home: StreamHome) -> None:
    green = home.beside("orders.green")
    green.claim_ownership(MINE, by="a task", now=NOW)

    assert home.owner() == green.owner()
    assert home.owner() is not None
    with pytest.raises(NotTheOwner):
        green.check_owner(THIEF)


def test_what_is_handed_over_belongs_to_the_other_dag(home: StreamHome) -> None:
    home.claim_ownership(MINE, ("nightly",), by="a task", now=NOW)

    owner = home.hand_over("orders2", by="ann", reason="It moved.", now=NOW)

    assert (owner.number, owner.dag_id, owner.shared_with) == (2, "orders2", ())
    assert home.hand_over("orders2", by="bob", reason="Again.", now=NOW) == owner
    with pytest.raises(NotTheOwner):
        home.claim_ownership(MINE, by="a task", now=NOW)


def test_a_stream_that_was_handed_to_a_team_waits_for_a_dag_of_that_team(home: StreamHome) -> None:
    home.claim_ownership(MINE, by="a task", now=NOW)
    home.hand_over("payments", by="ann", reason="It moved.", now=NOW, team="bank")

    with pytest.raises(NotTheOwner):
        home.claim_ownership(Actor(dag_id="payments", team="thieves"), by="a task", now=NOW)
    owner = home.claim_ownership(Actor(dag_id="payments", team="bank"), by="a task", now=NOW)

    assert (owner.dag_id, owner.team) == ("payments", "bank")


def test_a_dag_that_moves_to_another_team_needs_a_hand_over_to_its_own_name(
    home: StreamHome,
) -> None:
    moved = Actor(dag_id="orders", team="bank")
    home.claim_ownership(Actor(dag_id="orders", team="shop"), by="a task", now=NOW)
    with pytest.raises(NotTheOwner, match="--to orders --team bank"):
        home.claim_ownership(moved, by="a task", now=NOW)

    home.hand_over("orders", by="ann", reason="It moved.", now=NOW, team="bank")

    assert home.claim_ownership(moved, by="a task", now=NOW).team == "bank"
