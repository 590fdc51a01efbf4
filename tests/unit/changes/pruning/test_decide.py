"""Removals of a pruning, as a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.changes.pruning.decide import (
    CLAIMS_KEPT,
    EVENTS_KEPT,
    DeploymentFacts,
    EpochFacts,
    FolderFacts,
    LaneFacts,
    SeriesFacts,
    decide_pruning,
    kept_for,
)
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.records.control import RemovalKind

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HOME = "/streams"


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def epoch(number: int, days: float, **changes: Any) -> EpochFacts:
    """Return an epoch that ended at once."""
    values: dict[str, Any] = {"deployment": 1, "created_at": ago(days), "ended_at": ago(days)}
    return EpochFacts(number=number, **{**values, **changes})


def deployment(number: int, days: float, place: int = 0, **changes: Any) -> DeploymentFacts:
    place = place or number
    values: dict[str, Any] = {
        "checkpoint": f"{HOME}/orders/checkpoints/{place:06d}",
        "output": f"{HOME}/orders/output/{place:06d}",
        "created_at": ago(days),
    }
    return DeploymentFacts(number=number, **{**values, **changes})


def folder(name: str, kind: str = "checkpoints", lane: str = "orders") -> FolderFacts:
    return FolderFacts(name=name, uri=f"{HOME}/{lane}/{kind}/{name}")


def lane(**changes: Any) -> LaneFacts:
    """Return a lane with twenty old epochs, three deployments and their files."""
    values: dict[str, Any] = {
        "lane": "orders",
        "is_live": True,
        "is_wanted": True,
        "epochs": tuple(epoch(n, 100 - n) for n in range(1, 21)),
        "deployments": (deployment(1, 100), deployment(2, 60), deployment(3, 40)),
        "checkpoints": tuple(folder(f"{n:06d}") for n in (1, 2, 3)),
        "outputs": tuple(folder(f"{n:06d}", "output") for n in (1, 2, 3)),
    }
    return LaneFacts(**{**values, **changes})


def gone(*lanes: LaneFacts, others: tuple[str, ...] = (), **policy: Any) -> set[tuple[str, str]]:
    plan = decide_pruning(lanes, others, PrunePolicy(**policy), NOW)
    return {(one.what.value, f"{one.lane}/{one.name}") for one in plan.remove}


def names(kind: RemovalKind, *lanes: LaneFacts, **more: Any) -> list[str]:
    return sorted(name.partition("/")[2] for what, name in gone(*lanes, **more) if what == kind)


def test_old_epochs_go_and_the_newest_stay():
    assert names(RemovalKind.EPOCH, lane()) == [f"{n:06d}" for n in range(1, 11)]


def test_an_epoch_is_as_old_as_its_successor():
    epochs = (epoch(1, 90), epoch(2, 5), *(epoch(n, 4) for n in range(3, 8)))
    assert names(RemovalKind.EPOCH, lane(epochs=epochs), keep_epochs=3) == []


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        pytest.param({"failed": True}, 4, id="the last failure"),
        pytest.param({"ended_at": None}, 4, id="a driver that was not proved dead"),
        pytest.param({"ended_at": NOW}, 4, id="a driver that ended a moment ago"),
        pytest.param(
            {"deployment": 3, "planned": frozenset({"revenue"})}, 4, id="the newest plan in use"
        ),
    ],
)
def test_an_old_epoch_stays_for_a_reason(changes: dict[str, Any], number: int):
    epochs = list(lane().epochs)
    epochs[number - 1] = replace(epochs[number - 1], **changes)
    kept = names(RemovalKind.EPOCH, lane(epochs=tuple(epochs)))
    assert f"{number:06d}" not in kept
    assert len(kept) == 9


def test_only_the_newest_epoch_with_a_plan_stays_for_it():
    planned = frozenset({"revenue"})
    epochs = tuple(replace(one, deployment=3, planned=planned) for one in lane().epochs)
    assert len(names(RemovalKind.EPOCH, lane(epochs=epochs))) == 10


def test_what_is_left_of_an_epoch_goes():
    epochs = (EpochFacts(number=1, deployment=None, created_at=None), *lane().epochs[1:])
    assert "000001" in names(RemovalKind.EPOCH, lane(epochs=epochs))


def test_an_epoch_that_cannot_be_read_stays():
    unread = EpochFacts(number=4, deployment=None, created_at=None, is_unreadable=True)
    epochs = (*lane().epochs[:3], unread, *lane().epochs[4:])
    kept = names(RemovalKind.EPOCH, lane(epochs=epochs))
    assert kept == [f"{n:06d}" for n in (1, 2, *range(5, 11))]
    # The one before it is as old as it, and nothing says how old that is.
    plan = decide_pruning([lane(epochs=epochs)], (), PrunePolicy(), NOW)
    spared = {one.name: one.reason for one in plan.spared if one.what is RemovalKind.EPOCH}
    assert {"000003", "000004"} <= spared.keys()
    assert "successor" in spared["000003"]


def test_old_changes_of_the_size_go():
    sizes = (("s/1", ago(20)), ("s/2", ago(13)), ("s/3", None))
    plan = decide_pruning([lane(sizes=sizes)], (), PrunePolicy(), NOW)
    assert [one.paths for one in plan.remove if one.what is RemovalKind.SIZES] == [("s/1",)]


@pytest.mark.parametrize(
    ("newest", "base", "first"),
    [
        pytest.param(80, 79, 80 - CLAIMS_KEPT + 1, id="the newest ones stay"),
        pytest.param(80, 7, 7, id="the claim that the newest one continues stays"),
        pytest.param(80, 0, 80 - CLAIMS_KEPT + 1, id="a series that has announced nothing"),
        pytest.param(CLAIMS_KEPT, CLAIMS_KEPT - 1, 1, id="few"),
        pytest.param(80, -3, 1, id="a forged number"),
        pytest.param(60, 99, 60 - CLAIMS_KEPT + 1, id="a forged later number"),
    ],
)
def test_old_claims_of_windows_go(newest: int, base: int, first: int):
    claims = tuple((n, (f"w/{n}", ago(20))) for n in range(1, newest + 1))
    series = SeriesFacts(name="3600s", newest=newest, base=base, files=claims)
    plan = decide_pruning([lane(series=(series,))], (), PrunePolicy(), NOW)
    found = [path for one in plan.remove if one.what is RemovalKind.WINDOWS for path in one.paths]
    assert found == [f"w/{n}" for n in range(1, first)]


def test_a_young_claim_of_windows_stays():
    claims = ((1, ("w/1", ago(20))), (2, ("w/2", ago(13))), (3, ("w/3", None)))
    series = SeriesFacts(name="3600s", newest=90, base=89, files=claims)
    plan = decide_pruning([lane(series=(series,))], (), PrunePolicy(), NOW)
    assert [one.paths for one in plan.remove if one.what is RemovalKind.WINDOWS] == [("w/1",)]


def test_old_history_of_an_epoch_that_stays_goes():
    history = (("a", ago(20)), ("b", ago(13)), ("c", None))
    epochs = (*lane().epochs[:-1], replace(lane().epochs[-1], history=history))
    plan = decide_pruning([lane(epochs=epochs)], (), PrunePolicy(), NOW)
    found = [one.paths for one in plan.remove if one.what is RemovalKind.HISTORY]
    assert found == [("a",)]


def test_the_newest_events_stay_however_old():
    events = tuple(
        f"e/20260101T0000{n % 60:02d}.{n:06d}Z-00000000.json" for n in range(EVENTS_KEPT + 3)
    )
    plan = decide_pruning([lane(events=events)], (), PrunePolicy(), NOW)
    found = [one.paths for one in plan.remove if one.what is RemovalKind.EVENTS]
    assert [len(paths) for paths in found] == [3]
    assert not decide_pruning(
        [lane(events=events[:EVENTS_KEPT])], (), PrunePolicy(), ago(0)
    ).blocked


def test_checkpoints_of_replaced_deployments_go():
    assert names(RemovalKind.CHECKPOINT, lane()) == ["000001", "000002"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"deployments": (deployment(1, 100), deployment(2, 60), deployment(3, 2))},
            id="replaced 2 days ago",
        ),
        pytest.param(
            {"deployments": (deployment(1, 100), deployment(2, 60), deployment(3, 40, place=2))},
            id="the newest deployment goes on from it",
        ),
    ],
)
def test_a_checkpoint_in_use_stays(changes: dict[str, Any]):
    assert names(RemovalKind.CHECKPOINT, lane(**changes))[:1] == ["000001"]
    assert "000002" not in names(RemovalKind.CHECKPOINT, lane(**changes))


@pytest.mark.parametrize(
    "used",
    [
        pytest.param("/streams/orders/checkpoints/000001", id="the folder"),
        pytest.param("/streams/orders/checkpoints/000001/revenue", id="one below it"),
        pytest.param("/streams/orders/checkpoints", id="one above it"),
        pytest.param("/mnt/other-name/orders/checkpoints/000001", id="under another mount"),
        pytest.param("file:///streams/orders/checkpoints/000001/", id="spelled otherwise"),
    ],
)
def test_what_another_stream_uses_stays(used: str):
    assert "000001" not in names(RemovalKind.CHECKPOINT, lane(), others=(used,))


def test_a_longer_name_is_another_folder():
    others = ("/streams/orders/checkpoints/0000011",)
    assert "000001" in names(RemovalKind.CHECKPOINT, lane(), others=others)


RETIRED = lane(
    lane="orders.green",
    is_live=False,
    is_wanted=False,
    change_ended_at=ago(20),
    deployments=(
        deployment(1, 60, checkpoint=f"{HOME}/orders.green/checkpoints/000001", output="/lake/x"),
    ),
    checkpoints=(folder("000001", lane="orders.green"),),
    outputs=(),
)


def test_the_checkpoint_of_a_retired_lane_goes():
    assert (RemovalKind.CHECKPOINT, "orders.green/000001") in gone(lane(), RETIRED)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"is_live": True}, id="live"),
        pytest.param({"is_wanted": True}, id="wanted"),
        pytest.param({"change_ended_at": ago(3)}, id="retired 3 days ago"),
        pytest.param({"epochs": (epoch(1, 50, ended_at=None),)}, id="its driver may live"),
        pytest.param({"epochs": (epoch(1, 50, ended_at=ago(1)),)}, id="its driver ended yesterday"),
    ],
)
def test_the_checkpoint_of_a_lane_in_use_stays(changes: dict[str, Any]):
    found = gone(lane(is_live=False), replace(RETIRED, **changes), lane(lane="x", checkpoints=()))
    assert (RemovalKind.CHECKPOINT, "orders.green/000001") not in found


def test_nothing_goes_while_a_change_of_either_lane_is_open():
    plan = decide_pruning(
        [lane(), replace(RETIRED, open_change="Change 4 (cutover) is open.")],
        (),
        PrunePolicy(),
        NOW,
    )
    assert (plan.remove, bool(plan.blocked)) == ((), True)


def test_nothing_goes_when_no_lane_is_known_to_be_live():
    assert decide_pruning([lane(is_live=False)], (), PrunePolicy(), NOW).blocked


def test_outputs_go_only_when_asked_for():
    assert names(RemovalKind.OUTPUT, lane()) == []
    assert names(RemovalKind.OUTPUT, lane(), outputs=True) == ["000001", "000002"]


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param({"checkpoint": f"{HOME}/orders/output/000001/_checkpoint"}, id="checkpoint"),
        pytest.param({"output": f"{HOME}/orders/checkpoints/000001/out"}, id="output"),
    ],
)
def test_what_is_in_use_stays_in_a_folder_of_the_other_kind(newest: dict[str, Any]):
    deployments = (deployment(1, 100), deployment(2, 60), deployment(3, 40, **newest))
    kind = RemovalKind.OUTPUT if "checkpoint" in newest else RemovalKind.CHECKPOINT
    assert names(kind, lane(deployments=deployments), outputs=True)[:1] == ["000002"]


def test_an_output_in_an_old_checkpoint_stays_unless_outputs_go():
    old = deployment(1, 100, output=f"{HOME}/orders/checkpoints/000001/out")
    one = lane(deployments=(old, deployment(2, 60), deployment(3, 40)))
    assert names(RemovalKind.CHECKPOINT, one) == ["000002"]
    assert names(RemovalKind.CHECKPOINT, one, outputs=True) == ["000001", "000002"]


def test_a_folder_that_no_deployment_names_stays():
    one = lane(
        checkpoints=(folder("restored-today"), folder("000009"), folder("000001")),
        outputs=(folder("mine", "output"), folder("000002", "output")),
    )
    assert names(RemovalKind.CHECKPOINT, one) == ["000001"]
    assert names(RemovalKind.OUTPUT, one, outputs=True) == ["000002"]


@pytest.mark.parametrize(
    ("backed_up", "found"),
    [(frozenset(), ["000001", "000002"]), (frozenset({2}), ["000001"]), (None, [])],
)
def test_outputs_stay_for_backups(backed_up: frozenset[int] | None, found: list[str]):
    assert names(RemovalKind.OUTPUT, lane(backed_up=backed_up), outputs=True) == found


def test_the_period_is_at_least_the_longest_replay_and_budget():
    policy = PrunePolicy(keep=timedelta(days=7))
    replayed = deployment(3, 40, replay=timedelta(days=45))
    assert kept_for([lane()], policy) == timedelta(days=7)
    assert kept_for([lane(deployments=(deployment(1, 60), replayed))], policy) == timedelta(days=45)
    assert kept_for([lane(restart_window=timedelta(days=9))], policy) == timedelta(days=9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep": timedelta(days=6)},
        {"keep": timedelta(days=31)},
        {"keep": 14},
        {"keep_epochs": 2},
        {"keep_epochs": True},
        {"outputs": "False"},
    ],
)
def test_a_policy_out_of_its_bounds_is_refused(wrong: dict[str, Any]):
    with pytest.raises(SpecError):
        PrunePolicy(**wrong)
