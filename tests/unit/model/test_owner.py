"""Which dag may do what with a stream."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_streaming.model.records.owner import (
    MAY,
    Actor,
    DagAct,
    DagRole,
    Owner,
    claimed,
    refusal,
    standing,
)
from tests.conftest import REPOSITORY

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MINE = Actor(dag_id="orders", bundle="dags", file="orders.py", team="shop")
OWNER = Owner(
    number=1,
    stream="orders",
    dag_id="orders",
    by="ann",
    reason="It was deployed.",
    at=NOW,
    bundle="dags",
    file="orders.py",
    team="shop",
    shared_with=("nightly",),
)


@pytest.mark.parametrize(
    ("actor", "expected"),
    [
        (MINE, DagRole.OWNER),
        (replace(MINE, file="moved.py", bundle="other"), DagRole.OWNER),
        (replace(MINE, team=""), DagRole.OWNER),
        (replace(MINE, team="thieves"), DagRole.OTHER_TEAM),
        (replace(MINE, dag_id="orders_upgrade"), DagRole.SHARED),
        (replace(MINE, dag_id="orders_upgrade", bundle="other"), DagRole.FOREIGN),
        (replace(MINE, dag_id="orders_upgrade", file="other.py"), DagRole.FOREIGN),
        (replace(MINE, dag_id="orders_upgrade", team="thieves"), DagRole.OTHER_TEAM),
        (Actor(dag_id="nightly", bundle="ops", file="nightly.py"), DagRole.SHARED),
        (Actor(dag_id="nightly", team="thieves"), DagRole.OTHER_TEAM),
        (Actor(dag_id="orders2"), DagRole.FOREIGN),
        (Actor(dag_id=""), DagRole.FOREIGN),
    ],
)
def test_what_a_dag_is_to_a_stream(actor: Actor, expected: DagRole) -> None:
    assert standing(OWNER, actor) is expected


def test_a_file_that_is_not_known_is_no_file_in_common() -> None:
    owner = replace(OWNER, bundle="", file="")

    assert standing(owner, Actor(dag_id="another")) is DagRole.FOREIGN


ACTORS = {
    DagRole.OWNER: MINE,
    DagRole.SHARED: replace(MINE, dag_id="orders_upgrade"),
    DagRole.FOREIGN: Actor(dag_id="thief", team="shop"),
    DagRole.OTHER_TEAM: Actor(dag_id="payments", team="bank"),
}
WHO_MAY = {
    #                   owner shared foreign other team
    DagAct.KEEP: (True, False, False, False),
    DagAct.CHANGE: (True, True, False, False),
    DagAct.OPERATE: (True, True, True, False),
}


@pytest.mark.parametrize("act", DagAct)
@pytest.mark.parametrize("role", DagRole)
def test_who_may_do_what(role: DagRole, act: DagAct) -> None:
    assert standing(OWNER, ACTORS[role]) is role

    refused = refusal(OWNER, ACTORS[role], "s3://bucket/streams", act)

    assert (refused is None) == WHO_MAY[act][[*DagRole].index(role)]


def test_the_table_of_the_docs_is_the_table_of_the_code() -> None:
    page = (REPOSITORY / "docs/teams.md").read_text()
    rows = [line.split("|")[2:-1] for line in page.splitlines() if line.startswith("| **")]
    printed = [tuple(cell.strip() == "yes" for cell in row) for row in rows]
    assert printed == [tuple(role in MAY[act] for role in DagRole) for act in DagAct]


def test_a_refusal_names_the_owner_its_team_and_the_way_to_hand_over() -> None:
    text = refusal(OWNER, ACTORS[DagRole.OTHER_TEAM], "s3://bucket/streams", DagAct.OPERATE)

    assert text is not None
    assert "belongs to dag 'orders' of team 'shop'" in text
    assert "dag 'payments' of team 'bank' may not operate it" in text
    assert "hand-over orders --to payments --team bank --reason TEXT" in text
    assert "changed_by" not in text


def test_only_a_dag_of_the_owners_team_is_sent_to_changed_by() -> None:
    text = refusal(OWNER, ACTORS[DagRole.FOREIGN], "s3://bucket/streams", DagAct.CHANGE)

    assert text is not None
    assert "name 'thief' in the owner's changed_by" in text


def claim(newest: Owner | None, actor: Actor, *shared: str) -> Owner | None:
    return claimed(newest, actor, shared, stream="orders", number=2, by="b", now=NOW)


def test_the_first_dag_becomes_the_owner() -> None:
    owner = claim(None, MINE, "nightly")

    assert owner is not None
    assert replace(owner, number=1, by="ann", reason="It was deployed.") == OWNER


def test_an_owner_that_has_not_changed_writes_nothing() -> None:
    assert claim(OWNER, MINE, "nightly") is None
    assert claim(OWNER, Actor(dag_id="orders"), "nightly") is None


@pytest.mark.parametrize(
    ("actor", "shared"),
    [(replace(MINE, file="moved.py"), ("nightly",)), (MINE, ()), (MINE, ("nightly", "weekly"))],
)
def test_the_record_follows_its_owner(actor: Actor, shared: tuple[str, ...]) -> None:
    owner = claim(OWNER, actor, *shared)

    assert owner is not None
    assert (owner.number, owner.file, owner.shared_with) == (2, actor.file, shared)


def test_another_dag_changes_nothing() -> None:
    assert claim(OWNER, Actor(dag_id="thief")) is None
    assert claim(OWNER, replace(MINE, dag_id="orders_upgrade")) is None
