"""Leftovers of a first batch whose driver died."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.driver.checkpoint.first_batch import (
    ASIDE,
    drops_plans,
    put_first_batch_aside,
)
from tests.unit.driver.fakes import CheckpointFolder

TORN_PLAN = "offsets/.0.f0ea31f2.tmp"
TORN_COMMIT = "commits/.0.f0ea31f2.tmp"
STATE = ("state/0/_metadata/metadata", "state/0/0/1_a.changelog", "state/0/0/SSTs/000008-b.sst")


def a_checkpoint(folder: Path, *files: str) -> CheckpointFolder:
    for file in ("sources/0/0", *files):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("v1")
    (folder / "metadata").write_text(json.dumps({"id": "q"}))
    return CheckpointFolder(str(folder))


@pytest.mark.parametrize(
    ("files", "drops", "moved"),
    [
        pytest.param((), False, [], id="nothing_planned"),
        pytest.param((TORN_PLAN,), False, ["offsets"], id="died_in_the_first_plan"),
        pytest.param((TORN_PLAN,), True, ["offsets"], id="died_in_the_first_plan_in_real_time"),
        pytest.param(("offsets/0", TORN_COMMIT), False, [], id="a_plan_is_run_again"),
        pytest.param(
            ("offsets/0", TORN_COMMIT), True, ["offsets", "commits"], id="a_plan_is_dropped"
        ),
        pytest.param(("offsets/0", *STATE), True, ["offsets", "state"], id="with_first_state"),
        pytest.param(
            ("offsets/0", *STATE), False, [], id="first_state_of_a_plan_that_is_run_again"
        ),
        pytest.param(STATE, False, [], id="state_without_plans_is_damage"),
        pytest.param(
            ("offsets/0", "state/0/1/left-keyToNumValues/2.delta"), True, [], id="later_state"
        ),
        pytest.param(("offsets/1", TORN_COMMIT), True, [], id="a_later_plan_without_commits"),
        pytest.param(("offsets/0", "commits/0", "commits/.1.a.tmp"), True, [], id="a_commit"),
    ],
)
def test_leftovers_are_moved_where_spark_would_refuse_to_begin(
    tmp_path: Path, files: tuple[str, ...], drops: bool, moved: list[str]
) -> None:
    checkpoint = a_checkpoint(tmp_path, *files)

    assert put_first_batch_aside("q", checkpoint, drops_plans=drops) == moved

    left = {one.name for one in tmp_path.iterdir() if not one.name.startswith(".")}
    had = {"metadata", "sources", *(file.partition("/")[0] for file in files)}
    assert left == had - {*moved}
    aside = sorted(one.name for one in tmp_path.glob(f"{ASIDE}*/*"))
    assert aside == sorted(moved)


def test_a_second_look_finds_nothing_and_a_cut_move_is_continued(tmp_path: Path) -> None:
    checkpoint = a_checkpoint(tmp_path, "offsets/0", TORN_COMMIT, *STATE)
    checkpoint.move("offsets", f"{ASIDE}cut/offsets")  # and its driver died

    assert put_first_batch_aside("q", checkpoint, drops_plans=True) == ["commits", "state"]
    assert put_first_batch_aside("q", checkpoint, drops_plans=True) == []


def test_a_folder_without_a_query_is_left_alone(tmp_path: Path) -> None:
    checkpoint = a_checkpoint(tmp_path, TORN_PLAN)
    (tmp_path / "metadata").unlink()

    assert put_first_batch_aside("q", checkpoint, drops_plans=False) == []


@pytest.mark.parametrize(
    ("trigger", "options", "drops"),
    [
        ("10 seconds", {}, False),
        ("real time 30 seconds", {}, True),
        ("", {"asyncprogresstrackingenabled": "true"}, True),
        ("", {"asyncProgressTrackingEnabled": " True"}, True),
        ("", {"asyncprogresstrackingenabled": "false"}, False),
    ],
)
def test_plans_are_dropped_in_real_time_mode_and_with_asynchronous_progress(
    trigger: str, options: dict[str, str], drops: bool
) -> None:
    assert drops_plans(trigger, options) is drops
