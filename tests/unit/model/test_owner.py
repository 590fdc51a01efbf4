"""Which dag may do what with a stream."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_streaming.model.records.owner import Actor, DagRole, Owner, claimed, refusal, standing

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
        (replace(MINE, team="thieves"), DagRole.FOREIGN),
        (replace(MINE, dag_id="orders_upgrade"), DagRole.SHARED),
        (replace(MINE, dag_id="orders_upgrade", bundle="other"), DagRole.FOREIGN),
        (replace(MINE, dag_id="orders_upgrade", file="other.py"), DagRole.FOREIGN),
        (replace(MINE, dag_id="orders_upgrade", team="thieves"), DagRole.FOREIGN),
        (Actor(dag_id="nightly", bundle="ops", file="nightly.py"), DagRole.SHARED),
        (Actor(dag_id="nightly", team="thieves"), DagRole.FOREIGN),
        (Actor(dag_id="orders2"), DagRole.FOREIGN),
        (Actor(dag_id=""), DagRole.FOREIGN),
    ],
)
def test_what_a_dag_is_to_a_stream(actor: Actor, expected: DagRole) -> None:
    assert standing(OWNER, actor) is expected


def test_a_file_that_is_not_known_is_no_file_in_common() -> None:
    owner = replace(OWNER, bundle="", file="")

    assert standing(owner, Actor(dag_id="another")) is DagRole.FOREIGN


@pytest.mark.parametrize(
    ("actor", "to_keep", "is_refused"),
    [
        (MINE, True, False),
        (replace(MINE, dag_id="orders_upgrade"), False, False),
        (replace(MINE, dag_id="orders_upgrade"), True, True),
        (Actor(dag_id="thief"), False, True),
        (Actor(dag_id="thief"), True, True),
    ],
)
def test_only_the_owner_keeps_a_stream_alive(actor: Actor, to_keep: bool, is_refused: bool) -> None:
    found = refusal(OWNER, actor, "s3://bucket/streams", to_keep=to_keep)

    assert (found is not None) == is_refused


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
