"""An undo of a repair that was cut off on an object store, where a move is a copy and a delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from airflow_streaming.checkpoints.repair import put_back
from airflow_streaming.checkpoints.repair.put_back import PutBack, finish_undo
from airflow_streaming.checkpoints.restore.sink_output import Move, Output, open_output
from airflow_streaming.exceptions import CheckpointRefused, HomeUnavailable
from airflow_streaming.model.records.repair import RepairOutcome, SinkRepairUndo
from tests.unit.checkpoints.repair_cases import DeadStream
from tests.unit.checkpoints.restoring import Killed, Life
from tests.unit.home.make import NOON

LAST_STEPS = 40


class CopyingOutput:
    """An output as an object store has it; its user dies before a copy or a delete."""

    has_checksums = False

    def __init__(self, output: Output, life: Life) -> None:
        self.uri, self.folders, self.records = output.uri, output.folders, output.records
        self._root, self._life = Path(output.uri), life

    def move(self, moves: Iterable[Move]) -> None:
        for path, to in moves:
            source, target = self._root / path, self._root / to
            if not source.exists():
                continue
            self._life.step()
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(source, target)
            self._life.step()
            source.unlink()


def ask(stream: DeadStream) -> None:
    stream.home.undo_repair(SinkRepairUndo(number=1, by="kim", reason="", at=NOON))


def live(stream: DeadStream) -> dict[str, str]:
    return {path: text for path, text in stream.sink.tree().items() if "_rolled" not in path}


def cut_off(stream: DeadStream, monkeypatch: pytest.MonkeyPatch, step: int) -> bool:
    """Undo the repair and die before a step; tell whether it was reached."""
    with monkeypatch.context() as patch:
        patch.setattr(put_back, "open_output", copying(Life(step)))
        try:
            PutBack(stream.home.repairs()[0]).run()
        except Killed:
            return True
    return False


def copying(life: Life) -> Callable[..., Any]:
    return lambda *a: CopyingOutput(open_output(*a), life)


def unlisted(stream: DeadStream) -> None:
    for path in stream.sink.root.rglob(".*.crc"):
        path.unlink()


@pytest.mark.parametrize("committed", [5, 6])
def test_a_user_finishes_an_undo_that_was_killed_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    for step in range(1, LAST_STEPS):
        stream = DeadStream(tmp_path / str(step), committed=committed)
        unlisted(stream)
        before = live(stream)
        stream.launch()
        ask(stream)
        died = cut_off(stream, monkeypatch, step)

        PutBack(stream.home.repairs()[0]).run()

        assert live(stream) == before, step
        assert PutBack(stream.home.repairs()[0]).is_done
        if not died:
            return
    pytest.fail("It never came to its end.")


def test_the_next_launch_finishes_an_undo_that_was_killed_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, LAST_STEPS):
        stream = DeadStream(tmp_path / str(step))
        unlisted(stream)
        before = live(stream)
        stream.launch()
        ask(stream)
        died = cut_off(stream, monkeypatch, step)

        (refused,) = stream.launch(3)

        assert live(stream) == before, step
        assert "a user has put back" in refused.reason
        assert stream.home.unfinished_undos() == []
        if not died:
            return
    pytest.fail("It never came to its end.")


def test_a_finished_undo_is_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    ask(stream)
    stream.launch(3)

    def unreachable(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    monkeypatch.setattr(put_back, "open_output", unreachable)
    stream.launch(4)

    undone = stream.home.undo_end(1)
    assert undone is not None
    assert undone.outcome is RepairOutcome.DONE


def test_no_driver_starts_while_an_undo_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    ask(stream)

    def unreachable(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(put_back, "open_output", unreachable)
        with pytest.raises(HomeUnavailable):
            stream.launch(3)

    assert [one.number for one in stream.home.unfinished_undos()] == [1]


def test_an_undo_that_comes_too_late_is_given_up_and_told_once(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    stream.run(stream.batch)
    ask(stream)
    after = stream.sink.tree()

    (told,) = stream.launch(3)

    assert told.repair is None
    assert "undo of repair 1 is abandoned" in told.reason
    assert "_rolled_back/000001-repair" in told.reason
    assert stream.launch(4) == []
    assert stream.sink.tree() == after
    undone = stream.home.undo_end(1)
    assert undone is not None
    assert undone.outcome is RepairOutcome.ABANDONED


def test_an_entry_of_another_content_is_never_taken_for_a_cut_off_move(tmp_path: Path) -> None:
    stream = DeadStream(tmp_path)
    stream.launch()
    stream.sink.write(stream.batch, by="again")
    ask(stream)

    with pytest.raises(CheckpointRefused, match="ends at batch"):
        finish_undo(stream.home, stream.home.repairs()[0], by="kim", now=lambda: NOON)
