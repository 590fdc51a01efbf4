"""``airflow-streaming cutover``: what a person on call sees of a cutover, and says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.core.cutover.table import CutoverState
from tests.unit.cutover.cutting import Cutting


def call(world: Cutting, *words: str) -> int:
    return main(["cutover", *words, "--home", world.uri])


def test_a_person_sees_the_steps_of_a_cutover(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)
    world.begin(promotes_by_itself=False)
    world.drive(CutoverState.READY)

    assert call(world, "status", "orders") == 0
    assert "green_well: Green has been well for" in capsys.readouterr().out

    assert call(world, "status", "orders.green", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["state"] == "ready"
    assert [step["event"] for step in told["steps"]][:2] == ["begin", "green_started"]


def test_a_person_gives_it_up_and_the_dag_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)
    world.begin(promotes_by_itself=False)
    world.drive(CutoverState.READY)

    assert call(world, "abort", "orders", "--reason", "Not today.", "--by", "ada") == 0

    assert "blue stays" in capsys.readouterr().out
    assert world.drive().state is CutoverState.ABORTED


def test_without_a_cutover_nothing_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)

    assert call(world, "status", "orders") == 1
    assert call(world, "keep", "orders", "--reason", "Yes.") != 0
    assert "leads no cutover" in capsys.readouterr().err
