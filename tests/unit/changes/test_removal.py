"""Which streams may be removed, and what of their folders goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.changes.removal import LaneFolder, RemovalFacts, going, refusals, strangers
from airflow_streaming.model.names import PLACES
from airflow_streaming.model.observation import DriverLiveness
from airflow_streaming.model.records.control import Change, ChangeKind
from tests.unit.home.make import NOON

ORDERS = LaneFolder(name="orders", fate=DriverLiveness.DEAD, evidence="gone", newest=3)
FACTS = RemovalFacts(
    stream="orders",
    folders=(ORDERS,),
    is_stopped=True,
    dag="orders_dag",
    has_released=True,
    places=("/home/orders/output",),
)
UPGRADE = Change(
    number=2,
    stream="orders.green",
    what=ChangeKind.UPGRADE,
    replaced=1,
    deployment=2,
    checkpoint="/c",
    by="ada",
    reason="x",
    at=NOON,
)


def with_fate(fate: DriverLiveness) -> tuple[LaneFolder, ...]:
    standby = replace(ORDERS, name="orders.standby", fate=fate, evidence="pid 7 runs")
    return (ORDERS, standby)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"dag": "", "has_released": False}, []),
        ({"folders": with_fate(DriverLiveness.NONE)}, []),
        ({"used": ("/home/clicks/output",)}, []),
        ({"is_stopped": False}, ["airflow-streaming stop orders"]),
        ({"has_released": False}, ["--released-by orders_dag"]),
        ({"change": UPGRADE}, ["Change 2 (upgrade) of orders.green is open"]),
        ({"folders": with_fate(DriverLiveness.ALIVE)}, ["epoch 3 of orders.standby"]),
        ({"folders": with_fate(DriverLiveness.UNPROVED)}, ["pid 7 runs."]),
        ({"used": ("/home/orders/output/000002",)}, ["is in use elsewhere"]),
        ({"unread": ("Record 1 of clicks cannot be read.",)}, ["Record 1 of clicks"]),
        ({"is_stopped": False, "has_released": False}, ["airflow-streaming stop", "--released-by"]),
    ],
)
def test_what_is_in_the_way_is_named(facts: dict[str, Any], expected: list[str]) -> None:
    found = list(refusals(replace(FACTS, **facts)))

    assert len(found) == len(expected)
    assert all(part in text for part, text in zip(expected, found, strict=True))


def test_the_fence_and_the_records_that_count_stay() -> None:
    folder = replace(
        ORDERS,
        names=("notes.txt", "epochs", "output", "changes", "deployments", "owners", "checkpoints"),
        epochs=("000001", "000001.json", "000002", "000003", "000003.json"),
    )

    assert going(folder, keep_output=True) == [
        "epochs/000001.json",
        "epochs/000001",
        "epochs/000002",
        "checkpoints",
        "owners",
        "deployments",
    ]
    assert going(folder, keep_output=False)[-2:] == ["output", "deployments"]
    assert strangers(folder) == ["notes.txt"]


def test_no_record_of_ours_counts_as_a_file_of_another_program() -> None:
    of_fleet = {"campaign", "campaign_step", "disaster_drill", "stream_recovery", "maintenance"}
    folders = {place.partition("/")[0] for kind, place in PLACES.items() if kind not in of_fleet}

    assert strangers(replace(ORDERS, names=tuple(sorted(folders)))) == []


def test_late_times_go_and_announced_windows_stay() -> None:
    folder = replace(ORDERS, names=("freshness", "run_reports", "windows", "window_requests"))

    assert sorted(going(folder, keep_output=False)) == ["freshness", "run_reports"]


def test_nothing_of_a_folder_without_an_epoch_is_a_fence() -> None:
    folder = replace(ORDERS, newest=0, names=("deployments",), epochs=())

    assert going(folder, keep_output=False) == ["deployments"]
