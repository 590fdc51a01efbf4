"""Cutovers whose worker is killed before a durable step, and what they come to all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.cutover.lanes import LaneContext
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from airflow_streaming.model.storage import LocalStore
from tests.unit.changes.cutover.cutting import Cutting, outcome
from tests.unit.changes.upgrade.killing import DyingLauncher
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.launch.restored_stream import DyingStore

MOST_TICKS: Final = 60

Story = Callable[[Cutting, Any], None]
"""One worker's part of a cutover: what it does with the lanes it is given."""


class DyingLanes:
    """Lanes whose every durable step is counted by whoever has the life."""

    def __init__(self, world: Cutting, life: Life) -> None:
        self._world, self._life = world, life

    def open(self, stream: str, lane: str) -> LaneContext:
        store = DyingStore(LocalStore(self._world.uri), self._life)
        context = self._world.open(stream, lane, store)
        launcher = DyingLauncher(self._world.lane(lane).launcher, self._life)
        controller = self._world.controller(context.home, "cutover", launcher)
        return LaneContext(
            home=context.home, controller=controller, acts=controller, observer=context.observer
        )


def to_the_end(world: Cutting, lanes: Any) -> None:
    """Begin and go on until it is over."""
    world.begin(lanes)
    _drive(world, lanes)


def aborted_at(state: CutoverState) -> Story:
    """Begin, and give it up when it has come to a state."""

    def story(world: Cutting, lanes: Any) -> None:
        world.begin(lanes)
        _drive(world, lanes, state)
        _word(world, lanes, "abort")
        _drive(world, lanes)

    return story


def rolled_back_at(state: CutoverState) -> Story:
    """Begin, and go back when it has come to a state."""

    def story(world: Cutting, lanes: Any) -> None:
        world.begin(lanes)
        _drive(world, lanes, state)
        _word(world, lanes, "roll-back")
        _drive(world, lanes)

    return story


def died(world: Cutting, story: Story, step: int) -> bool:
    """Let a worker do its part and die before a durable step; tell whether it died."""
    life = Life(step)
    world.checkpoints.step = life.step
    try:
        story(world, DyingLanes(world, life))
    except Killed:
        return True
    finally:
        world.checkpoints.step = lambda: None
    return False


def killed_and_retried(
    folder: Path, story: Story, step: int, **more: Any
) -> tuple[bool, Any, Cutting]:
    """Kill a worker before a step, let time pass, try again; return whether it died, and the end."""
    world = Cutting(folder, **more)
    has_died = died(world, story, step)
    if has_died:
        world.tick()
        story(world, None)
    for _ in range(3):
        world.tick()
    return has_died, outcome(world), world


def every_step(folder: Path, story: Story, *, every: int = 1, first: int = 1, **more: Any) -> int:
    """
    Kill a worker before every so-many-th step; return how many steps there are to die at.

    :raises AssertionError: an end differs from that without a kill.
    """
    _, wanted, _ = killed_and_retried(folder / "none", story, 10**6, **more)
    step = first
    while True:
        has_died, found, world = killed_and_retried(folder / str(step), story, step, **more)
        assert found == wanted, f"Killed before step {step}: {found}, not {wanted}."
        assert never_backwards(world.read), f"Killed before step {step}: consumers lost rows."
        if not has_died:
            return step
        step += every


def never_backwards(read: list[tuple[str, int]]) -> bool:
    """Tell whether consumers of one lane never saw fewer rows than before."""
    newest: dict[str, int] = {}
    for lane, rows in read:
        if rows < newest.get(lane, 0):
            return False
        newest[lane] = rows
    return True


def _drive(world: Cutting, lanes: Any, until: CutoverState = CutoverState.FINALIZED) -> None:
    for _ in range(MOST_TICKS):
        progress = world.advance(until, lanes)
        if progress.is_there or progress.needs_person:
            return
        world.tick()
    raise AssertionError(f"It came to no end: {progress}")


def _word(world: Cutting, lanes: Any, word: str) -> None:
    engine = world.engine(lanes)
    try:
        engine.command(CutoverCommand(word), "The test says so.")
    except CutoverRefused:
        # The worker before has said it, and it was carried out already.
        said = [step.reason for step in world.home(world.streams[0]).steps(world.change)]
        assert "The test says so." in said


WAYS: Final[Mapping[str, dict[str, Any]]] = {
    "parallel": {"way": SwitchMethod.PARALLEL},
    "handover": {"way": SwitchMethod.HANDOVER},
    "carried": {"way": SwitchMethod.HANDOVER, "stateless": True},
}
