"""A launch puts a file sink back before its driver starts, tells people, and lets a user undo it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore.hand_repair import repair_by_hand
from airflow_streaming.changes.restore.undo import undo_repair
from airflow_streaming.checkpoints.repair import batch_move
from airflow_streaming.checkpoints.repair.batch_move import Repaired
from airflow_streaming.exceptions import (
    CheckpointRefused,
    HomeUnavailable,
    LaunchError,
    RestoreRefused,
    StreamingError,
)
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.records.alert import RESTART_KEY, AlertKind
from airflow_streaming.model.records.control import DesiredState, EventKind
from airflow_streaming.model.records.epoch import LaunchCause, OrderAct, StandbyOrder
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step
from airflow_streaming.supervision.observer import Observer
from tests.fakes import FakeLauncher
from tests.unit.checkpoints.repair_cases import DeadStream
from tests.unit.home.make import NOON, SCRIPT
from tests.unit.supervision.builders import a_spec


class Launched(DeadStream):
    """The stream with the task that launches its driver."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        super().__init__(folder)
        self.launcher = FakeLauncher()
        self.controller = StreamController(
            self.home,
            self.launcher,
            spec=a_spec(**fields),
            submit=self.submit,
            by="a test",
            now=lambda: NOON,
        )

    def submit(self, submission: Submission) -> LaunchRequest:
        log = self.folder / "driver.log"
        return LaunchRequest(epoch=submission.epoch, command=(), environment={}, log=log)

    def begin(self) -> None:
        situation = Observer(self.home, self.launcher).situation()
        step = Step(action=Action.LAUNCH, reason="It was killed.", cause=LaunchCause.RESTART)
        self.controller.begin(situation, step)

    def stop(self) -> None:
        self.home.want(DesiredState.STOPPED, by="kim", reason="A test.", now=NOON)

    def undo(self) -> None:
        undo_repair(self.home, self.launcher, by="kim", reason="Readers.", now=lambda: NOON)

    def repair_by_hand(self) -> list[Repaired]:
        return repair_by_hand(
            self.home, self.launcher, by="kim", reason="By hand.", now=lambda: NOON
        )

    def told(self) -> list[str]:
        return [one.message for one in self.home.events() if one.event is EventKind.SINK_REPAIRED]


@pytest.fixture
def stream(tmp_path: Path) -> Launched:
    return Launched(tmp_path)


def test_the_sink_is_put_back_before_the_driver_starts(
    stream: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []
    launch = stream.launcher.launch
    monkeypatch.setattr(
        stream.launcher,
        "launch",
        lambda request: (seen.append(stream.batches_in_sink()), launch(request))[1],
    )

    stream.begin()

    assert seen == [set(range(stream.batch))]
    assert stream.launcher.living() == [2]


def test_timeline_and_alert_say_what_was_moved_and_how_to_undo_it(stream: Launched) -> None:
    stream.begin()

    (told,) = stream.told()
    assert f"batch {stream.batch}" in told
    assert "_rolled_back/000001-repair" in told
    (alert,) = stream.home.unsent_alerts()
    assert (alert.alert, alert.key, alert.rule) == (
        AlertKind.RESTARTED,
        RESTART_KEY,
        "sink_repaired",
    )
    assert (alert.epoch, alert.query) == (1, "counts")
    assert "checkpoint undo orders --repair" in alert.remedy


def test_a_sink_that_cannot_be_seen_is_told_and_the_driver_starts(stream: Launched) -> None:
    shutil.rmtree(stream.sink.root)

    stream.begin()

    (alert,) = stream.home.unsent_alerts()
    assert alert.rule == "sink_not_repaired"
    assert "airflow-streaming start orders" in alert.remedy
    assert stream.launcher.living() == [2]


def test_nothing_is_moved_while_the_driver_before_may_be_alive(stream: Launched) -> None:
    stream.begin()
    stream.sink.write(stream.batch, by="again")
    stream.launcher.is_unkillable = True

    with pytest.raises(StreamingError, match="still there"):
        stream.begin()

    assert stream.batch in stream.batches_in_sink()
    assert len(stream.home.repairs()) == 1


def test_a_driver_is_not_started_on_a_sink_that_is_half_put_back(
    stream: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(batch_move.BatchMove, "end", unreachable)
        with pytest.raises(LaunchError, match="The store is away"):
            stream.begin()

    assert stream.launcher.launched == []
    death = stream.home.death(2)
    assert death is not None
    stream.begin()
    assert stream.launcher.living() == [3]
    assert [one.batch for one in stream.home.repairs()] == [stream.batch]


def test_an_undo_of_a_stopped_stream_holds_over_its_next_start(stream: Launched) -> None:
    before = stream.sink.read()
    stream.begin()
    stream.launcher.end(stream.home.epoch(2).token)
    stream.stop()

    stream.undo()
    stream.begin()

    assert stream.sink.read() == before
    told = " ".join(stream.told())
    assert "Repair 1 was undone" in told
    assert "a user has put back" in told


def running(stream: Launched) -> None:
    stream.begin()


def wanted_running(stream: Launched) -> None:
    stream.begin()
    stream.launcher.end(stream.home.epoch(2).token)


def never_repaired(stream: Launched) -> None:
    stream.stop()


@pytest.mark.parametrize(
    "arrange", [running, wanted_running, never_repaired], ids=lambda one: one.__name__
)
def test_an_undo_is_refused(stream: Launched, arrange: Callable[[Launched], None]) -> None:
    arrange(stream)
    after = stream.sink.tree()

    with pytest.raises(RestoreRefused):
        stream.undo()

    assert stream.sink.tree() == after
    assert stream.home.repair_undo(1) is None if stream.home.repairs() else True


def test_an_undo_for_a_checkpoint_that_the_stream_has_left_is_refused(stream: Launched) -> None:
    stream.begin()
    stream.launcher.end(stream.home.epoch(2).token)
    stream.stop()
    restored = replace(stream.deployment, number=2, checkpoint=str(stream.folder / "restored"))
    stream.home.create_deployment(restored, SCRIPT)
    after = stream.sink.tree()

    with pytest.raises(RestoreRefused, match="no longer continues"):
        stream.undo()

    assert stream.sink.tree() == after
    assert stream.home.repair_undo(1) is None


def test_an_undo_is_made_once(stream: Launched) -> None:
    stream.begin()
    stream.launcher.end(stream.home.epoch(2).token)
    stream.stop()
    stream.undo()

    with pytest.raises(RestoreRefused, match="No repair"):
        stream.undo()


def test_an_undo_comes_too_late_once_the_batch_was_written_anew(stream: Launched) -> None:
    stream.begin()
    stream.run(stream.batch)
    stream.launcher.end(stream.home.epoch(2).token)
    stream.stop()

    with pytest.raises(CheckpointRefused, match="ends at batch"):
        stream.undo()

    assert stream.home.repair_undo(1) is None


@pytest.fixture
def manual(tmp_path: Path) -> Launched:
    return Launched(tmp_path, repair_sinks=False)


def test_a_stream_that_switched_the_repair_off_starts_with_its_sink_as_it_is(
    manual: Launched,
) -> None:
    before = manual.sink.tree()

    manual.begin()

    assert manual.sink.tree() == before
    assert manual.home.repairs() == []
    assert manual.launcher.living() == [2]
    (alert,) = manual.home.unsent_alerts()
    assert alert.rule == "sink_not_repaired"
    assert "airflow-streaming checkpoint repair orders" in alert.reason


def test_it_is_repaired_by_hand_once_it_is_stopped(manual: Launched) -> None:
    manual.begin()
    manual.launcher.end(manual.home.epoch(2).token)
    manual.stop()

    (repaired,) = manual.repair_by_hand()

    assert repaired.repair is not None
    assert manual.batches_in_sink() == set(range(manual.batch))
    (by_hand,) = (text for text in manual.told() if "By hand." in text)
    assert "_rolled_back/000001-repair" in by_hand
    assert manual.repair_by_hand() == []
    manual.begin()
    assert len(manual.home.repairs()) == 1


def test_a_repair_by_hand_moves_out_what_an_undo_put_back(stream: Launched) -> None:
    stream.begin()
    stream.launcher.end(stream.home.epoch(2).token)
    stream.stop()
    stream.undo()

    (repaired,) = stream.repair_by_hand()

    assert repaired.repair is not None
    assert stream.batches_in_sink() == set(range(stream.batch))


@pytest.mark.parametrize("arrange", [running, wanted_running], ids=lambda one: one.__name__)
def test_a_repair_by_hand_is_refused(manual: Launched, arrange: Callable[[Launched], None]) -> None:
    arrange(manual)
    after = manual.sink.tree()

    with pytest.raises(RestoreRefused):
        manual.repair_by_hand()

    assert manual.sink.tree() == after
    assert manual.home.repairs() == []


def test_a_start_in_the_middle_of_a_repair_by_hand_finishes_it(
    manual: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    manual.stop()

    def unreachable(*_: object) -> None:
        raise HomeUnavailable("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(batch_move.BatchMove, "end", unreachable)
        with pytest.raises(HomeUnavailable):
            manual.repair_by_hand()

    manual.begin()

    assert manual.home.unfinished_repairs() == []
    assert manual.batches_in_sink() == set(range(manual.batch))


def test_a_repair_by_hand_works_on_the_driver_of_a_promoted_standby(manual: Launched) -> None:
    order = StandbyOrder(epoch=1, number=1, act=OrderAct.RELEASE, at=NOON, by="a test")
    manual.home.give_order(order)
    manual.stop()

    (repaired,) = manual.repair_by_hand()

    assert repaired.repair is not None
