"""Upgrades whose worker is killed before a durable step, and what they come to all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE
from tests.unit.changes.upgrade.upgrading import Upgraded, outcome
from tests.unit.checkpoints.restoring import Killed, Life, limit_local
from tests.unit.launch.restored_stream import DyingStore

MOST_TICKS: Final = 60

Story = Callable[[Upgraded, StreamHome], None]
"""One worker's part of an upgrade: what it does with the home it is given."""


def to_the_end(stream: Upgraded, home: StreamHome) -> None:
    """Begin and go on until it is over."""
    stream.begin(home)
    for _ in range(MOST_TICKS):
        if stream.advance(Stage.KEPT, home).is_there:
            return
        stream.tick()
    raise AssertionError("It came to no end.")


def aborted(stream: Upgraded, home: StreamHome) -> None:
    """Begin, and give it up when the old driver is gone."""
    if not stream.home.changes():
        stream.begin(home)
    change = stream.home.changes()[0]
    if Stage.APPLYING not in stream.home.stages(1) and stream.home.change_end(1) is None:
        while not stream.advance(Stage.STOPPED, home).is_there:
            stream.tick()
        if Stage.ABORTED not in stream.home.stages(1):
            stream.engine(home).command(
                UpgradeCommand.ABORT, "The test gives it up.", change.number
            )
    while not stream.advance(Stage.ABORTED, home).is_there:
        stream.tick()


def died(stream: Upgraded, story: Story, step: int) -> bool:
    """Let a worker do its part and die before a durable step; tell whether it died."""
    life = Life(step)
    home = StreamHome(DyingStore(LocalStore(stream.uri), life), "orders")
    with pytest.MonkeyPatch.context() as patch:
        # What the keep-alive task does between the worker's steps is not the worker's.
        limit_local(patch, Life())
        stream.worker = DyingLauncher(stream.launcher, life)
        try:
            story(stream, home)
        except Killed:
            return True
        finally:
            stream.worker = None
    return False


class DyingLauncher:
    """A launcher whose starts and kills are durable steps of whoever has the life."""

    def __init__(self, launcher: Any, life: Life) -> None:
        self._launcher = launcher
        self.launch = life.around(launcher.launch)
        self.kill = life.around(launcher.kill)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)


def killed_and_retried(
    folder: Path, code: str, story: Story, step: int, warmth: str = ""
) -> tuple[bool, Any]:
    """Kill a worker before a step, let time pass, try again; return whether it died, and the end."""
    stream = Upgraded(folder, code, warmth)
    has_died = died(stream, story, step)
    if has_died:
        stream.tick()
        story(stream, stream.home)
    stream.tick()
    return has_died, (outcome(stream), rows(stream))


def rows(stream: Upgraded) -> str:
    """Say whether the stream's batches, as the old and the kept deployment wrote them, are whole."""
    kept = stream.deployment.number
    counted = [batch for deployment, batch in stream.written if deployment in (1, kept)]
    return "whole" if counted == [*range(1, len(counted) + 1)] else f"not whole: {counted}"


def every_step(
    folder: Path, code: str, story: Story, *, every: int = 1, first: int = 1, warmth: str = ""
) -> int:
    """
    Kill a worker before every so-many-th step; return how many steps there are to die at.

    :raises AssertionError: an end differs from that without a kill.
    """
    _, wanted = killed_and_retried(folder / "none", code, story, 10**6, warmth)
    step = first
    while True:
        has_died, found = killed_and_retried(folder / str(step), code, story, step, warmth)
        assert found == wanted, f"Killed before step {step}: {found}, not {wanted}."
        if not has_died:
            return step
        step += every


class Pause(Life):
    """Stops before a step until it is told to go on: a worker that was suspended."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self.arrived, self.go = threading.Event(), threading.Event()

    def step(self) -> None:
        self.steps += 1
        if self.steps == self._at:
            self.arrived.set()
            assert self.go.wait(PATIENCE), "Nobody told the suspended worker to go on."


def suspended_and_overtaken(
    folder: Path, code: str, story: Story, step: int, warmth: str = ""
) -> tuple[bool, Any, BaseException | None]:
    """
    Suspend a worker before a step, let another do everything, and then let the first go on.

    :returns: Whether it came to that step, the end, and what the late worker failed with.
    """
    stream, pause = Upgraded(folder, code, warmth), Pause(step)
    home = StreamHome(DyingStore(LocalStore(stream.uri), pause), "orders")
    whole, failed = stream.launcher, list[BaseException]()
    late = DyingLauncher(whole, pause)

    def work() -> None:
        try:
            story(stream, home)
        except BaseException as err:  # noqa: BLE001 - whatever it is, the test wants to see it
            failed.append(err)
        finally:
            pause.arrived.set()

    stream.worker = late
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert pause.arrived.wait(PATIENCE), "The first worker came to nothing."
    was_suspended = thread.is_alive()
    stream.worker = None
    if was_suspended:
        stream.tick()
        story(stream, stream.home)
        stream.tick()
    pause.go.set()
    thread.join(PATIENCE)
    stream.tick()
    return was_suspended, (outcome(stream), rows(stream)), next(iter(failed), None)
