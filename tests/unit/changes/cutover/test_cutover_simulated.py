"""A few of the simulated courses, and that the simulation sees what it is there to see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.handover import claims as claiming
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from tests.system.cutovers.model.checkpoint import Planned
from tests.system.cutovers.model.course import Course, Leg, drawn
from tests.system.cutovers.model.driver import Life, ModelDriver
from tests.system.cutovers.model.playing import Play
from tests.system.cutovers.model.world import Shape


def a_course(way: SwitchMethod, *legs: Leg) -> Course:
    shape = Shape(is_stateful=True, reads_files=True, has_gate=True, has_log=False)
    return Course(seed=7, shape=shape, way=way, start=StartWay.FRESH, legs=legs)


@pytest.mark.parametrize("seed", [2])
def test_every_row_is_there_and_seen_once_whoever_is_killed(seed: int, tmp_path: Path) -> None:
    found = Play(tmp_path, drawn(seed)).run()

    assert found.faults == ()
    assert found.rows > 0
    assert len(found.ends) == len(drawn(seed).legs)


@pytest.mark.parametrize(
    ("leg", "end"),
    [
        (Leg(code="works", deaths=(40, 30)), "retired"),
        (Leg(code="works", word="abort", word_at="shadowing"), "aborted"),
        (Leg(code="works", word="roll_back", word_at="soaking", deaths=(25,)), "rolled_back"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_handover_comes_to_the_end_it_is_meant_for(leg: Leg, end: str, tmp_path: Path) -> None:
    found = Play(tmp_path, a_course(SwitchMethod.HANDOVER, leg)).run()

    assert found.faults == ()
    assert found.ends == (end,)


def test_the_simulation_sees_rows_lost_where_numbers_of_batches_do_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_shift(**_: Any) -> int:
        return 0

    monkeypatch.setattr(claiming, "batch_shift", no_shift)

    found = Play(tmp_path, a_course(SwitchMethod.HANDOVER, Leg(code="works"))).run()

    assert any("lost" in fault for fault in found.faults)


def test_the_simulation_sees_rows_doubled_where_absorbing_evicts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ModelDriver._run

    def keeping(driver: ModelDriver, plan: Planned, *, writes: bool) -> Life:
        return run(driver, plan if writes else replace(plan, watermark_ms=0), writes=writes)

    monkeypatch.setattr(ModelDriver, "_run", keeping)

    found = Play(tmp_path, a_course(SwitchMethod.HANDOVER, Leg(code="works"))).run()

    assert any("doubled" in fault for fault in found.faults)
