"""A word ends an upgrade also when its dag run is gone, its terms are, or nothing can be put back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.acts import FACT, Committed, look
from airflow_streaming.changes.upgrade.commands import UpgradeCommands
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import CheckpointRefused, RecordError, UpgradeRefused
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.epoch import Epoch, LaunchCause, Outcome
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.storage.folders import open_folders
from airflow_streaming.supervision.decide import Action
from tests.unit.changes.upgrade.upgrading import SOAK, Upgraded, end_of
from tests.unit.home.make import upgrade_steps

NO_WAY = RollbackPlan(way=RollbackMethod.NONE, reason="The sink only appends.", refused="No way.")


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def words(stream: Upgraded) -> UpgradeCommands:
    return UpgradeCommands(stream.home, by="ada", now=lambda: stream.now)


def cli(stream: Upgraded, *arguments: str) -> int:
    who = () if arguments[0] == "status" else ("--by", "ada")
    return main(["--home", stream.uri, "upgrade", *arguments, *who])


class Refuses:
    """A way back that is refused, however often it is asked."""

    def why(self, undo: Any) -> str:
        return "It has written."

    def rewind(self, undo: Any) -> str:
        raise CheckpointRefused("The script chose the checkpoint itself.")


class MustNot(Refuses):
    """A way back that must not be taken."""

    def rewind(self, undo: Any) -> str:
        raise AssertionError("Sinks were rewound without a way back.")


def by(stream: Upgraded, back: Any) -> None:
    """Let all who work on the upgrade go back in this way."""
    engine = stream.engine
    stream.engine = lambda home=None, **more: engine(home, back=back, **more)  # type: ignore[method-assign]


def stuck(stream: Upgraded) -> None:
    """Bring the upgrade to where its restore is refused."""
    by(stream, Refuses())
    stream.begin()
    with pytest.raises(CheckpointRefused, match="upgrade leave orders --reason TEXT"):
        stream.drive()


def without_terms(stream: Upgraded) -> None:
    next(Path(stream.uri).rglob("terms-*")).unlink()


# Nothing can be put back.


def test_a_rollback_of_which_nothing_can_be_put_back_is_ended_by_a_word(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "fails after two")
    stuck(stream)

    words(stream).give(stream.home.changes()[0], UpgradeCommand.LEAVE, "I clean the output myself.")
    progress = stream.drive()

    end, left = end_of(stream), stream.home.stages(1)[Stage.LEFT]
    assert end is not None
    assert (progress.state, end.outcome) == (Stage.ROLLED_BACK, ChangeOutcome.ROLLED_BACK)
    assert (left.by, left.reason) == ("ada", "I clean the output myself.")
    assert "Nothing was restored, as ada decided: I clean the output myself." in progress.reason
    assert (stream.deployment.number, stream.deployment.checkpoint) == (3, stream.first)
    assert (stream.running(), stream.keep_alive()) == (None, Action.PARK)

    stream.want(DesiredState.RUNNING)
    stream.tick()
    assert stream.running() == 3


def test_at_a_terminal_it_is_ended_without_its_dag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Upgraded(tmp_path, "fails after two")
    stuck(stream)

    assert cli(stream, "status", "orders") == 0
    assert "airflow-streaming upgrade leave orders" in capsys.readouterr().out
    assert cli(stream, "leave", "orders") == 2
    assert "Say why" in capsys.readouterr().err
    assert cli(stream, "leave", "orders", "--reason", "I clean it.") == 0

    assert "The upgrade is closed." in capsys.readouterr().out
    assert end_of(stream) is not None
    assert (stream.deployment.number, stream.running()) == (3, None)


@pytest.mark.parametrize(
    ("until", "says"), [(Stage.STOPPED, "abort"), (Stage.LAUNCHED, "keep, roll-back")]
)
def test_what_is_not_rolled_back_is_not_left(until: Stage, says: str, stream: Upgraded) -> None:
    stream.begin()
    stream.drive(until)
    with pytest.raises(
        UpgradeRefused, match=f"`leave` is possible in rolling back. Available: .*{says}"
    ):
        stream.engine().command(UpgradeCommand.LEAVE, "No.")
    assert stream.home.desired() is None


# No way back.


def test_a_batch_that_nobody_told_of_counts_where_there_is_no_way_back(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path)
    by(stream, MustNot())
    stream._work = dies_silently(stream, stream._work)  # type: ignore[method-assign]
    stream.begin(rollback=NO_WAY, accepts_no_way_back=True)

    progress = stream.drive()

    assert (progress.state, progress.facts["verdict"]) == (Stage.KEPT, "bad")
    assert stream.deployment.number == 2


def test_no_word_takes_back_a_batch_that_nobody_told_of(stream: Upgraded) -> None:
    stream._work = dies_silently(stream, stream._work)  # type: ignore[method-assign]
    stream.begin(rollback=NO_WAY, accepts_no_way_back=True)
    stream.drive(Stage.LAUNCHED)
    stream.tick()
    with pytest.raises(UpgradeRefused, match="a rollback is not possible: The sink only appends"):
        words(stream).give(stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "It looks wrong.")


def test_a_batch_committed_after_the_word_ends_at_a_person(stream: Upgraded) -> None:
    by(stream, MustNot())
    stream._work = dies_silently(stream, stream._work)  # type: ignore[method-assign]
    stream.begin(rollback=NO_WAY, accepts_no_way_back=True)
    stream.drive(Stage.LAUNCHED)
    words(stream).give(stream.home.changes()[0], UpgradeCommand.ROLL_BACK, "It looks wrong.")
    for _ in range(3):
        stream.tick()
        progress = stream.advance()

    assert (progress.state, progress.needs_person) == (Stage.ROLLING_BACK, True)
    assert "upgrade leave orders" in progress.waiting
    stream.engine().command(UpgradeCommand.LEAVE, "I take the rows out.")
    assert stream.drive().state is Stage.ROLLED_BACK


def dies_silently(stream: Upgraded, work: Callable[[Epoch, str], None]) -> Any:
    def commit_and_die(epoch: Epoch, does: str) -> None:
        if not stream._is_new(epoch):
            work(epoch, does)
            return
        stream._commit(epoch)
        stream._end(epoch, Outcome.FAILED)

    return commit_and_die


# The dag run is gone.


@pytest.mark.parametrize("until", [Stage.BEGUN, Stage.BACKED_UP])
def test_given_up_before_anything_was_stopped_it_is_closed_at_once(
    until: Stage, stream: Upgraded
) -> None:
    stream.begin()
    stream.drive(until)
    words(stream).give(stream.home.changes()[0], UpgradeCommand.ABORT, "Not today.")

    end = end_of(stream)
    assert end is not None
    assert (end.outcome, end.by) == (ChangeOutcome.ABANDONED, "ada")
    assert stream.controller().deploy(stream.proposed(), stream.new_script)


@pytest.mark.parametrize(
    ("until", "say", "outcome", "runs"),
    [
        (Stage.STOPPED, UpgradeCommand.ABORT, ChangeOutcome.ABANDONED, 1),
        (Stage.LAUNCHED, UpgradeCommand.ROLL_BACK, ChangeOutcome.ROLLED_BACK, 3),
        (Stage.LAUNCHED, UpgradeCommand.KEEP, ChangeOutcome.DONE, 2),
    ],
    ids=["abort", "roll-back", "keep"],
)
def test_the_next_upgrade_carries_out_what_was_said_of_the_last(
    until: Stage, say: UpgradeCommand, outcome: ChangeOutcome, runs: int, stream: Upgraded
) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(until)
    words(stream).give(stream.home.changes()[0], say, "I say so.")

    assert begun_after_all(stream) == 2
    end = end_of(stream)
    assert end is not None
    assert (end.outcome, stream.running()) == (outcome, runs)


def begun_after_all(stream: Upgraded) -> int:
    """Ask for another upgrade until it is begun; whoever asks has to wait for a driver to stop."""
    for _ in range(20):
        stream.new_script = b"# another\n"
        with contextlib.suppress(UpgradeRefused):
            return stream.begin(key="run-2")
        stream.tick()
    raise AssertionError("The other upgrade was never begun.")


def test_a_rollback_that_is_refused_is_said_to_the_next_upgrade(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "fails after two")
    stuck(stream)
    with pytest.raises(UpgradeRefused, match="upgrade leave orders"):
        stream.begin(key="run-2")


def test_an_end_that_nobody_wrote_down_is_written_at_a_terminal(
    stream: Upgraded, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(Stage.JUDGED)
    words(stream).give(stream.home.changes()[0], UpgradeCommand.KEEP, "It is good.")
    assert end_of(stream) is None

    assert cli(stream, "roll-back", "orders", "--reason", "What is this?") == 0
    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.DONE
    assert "had come to its end already" in capsys.readouterr().out


# The terms are gone.


def test_terms_of_an_ended_upgrade_stand_in_nobodys_way(stream: Upgraded) -> None:
    stream.begin()
    stream.drive()
    without_terms(stream)
    stream.new_script = b"# another\n"
    assert stream.begin(key="run-2") == 2


@pytest.mark.parametrize(
    ("until", "say", "outcome", "newest"),
    [
        (Stage.BEGUN, "abort", ChangeOutcome.ABANDONED, 1),
        (Stage.STOPPED, "abort", ChangeOutcome.ABANDONED, 1),
        (Stage.LAUNCHED, "keep", ChangeOutcome.DONE, 2),
        (Stage.APPLYING, "leave", ChangeOutcome.ROLLED_BACK, 3),
        (Stage.LAUNCHED, "leave", ChangeOutcome.ROLLED_BACK, 3),
    ],
)
def test_an_upgrade_whose_terms_are_gone_has_a_way_out(
    until: Stage, say: str, outcome: ChangeOutcome, newest: int, stream: Upgraded
) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(until)
    without_terms(stream)
    with pytest.raises(RecordError, match="upgrade abort, keep or leave orders"):
        stream.advance()

    words(stream).give(stream.home.changes()[0], UpgradeCommand(say), "Its terms are lost.")
    stream.drive()

    end = end_of(stream)
    assert end is not None
    assert (end.outcome, stream.deployment.number) == (outcome, newest)


# What the soak and the launch are judged by.


def test_a_query_that_is_missing_is_told_from_the_wish_to_the_verdict(stream: Upgraded) -> None:
    soak = SoakTerms(
        batches=3, at_least=SOAK.at_least, at_most=SOAK.at_most, queries=("counts", "refunds")
    )
    stream.begin(soak=soak)
    progress = stream.drive()
    assert progress.state is Stage.ROLLED_BACK
    assert "Not started yet: refunds" in progress.reason


def test_a_backlog_is_compared_with_that_of_the_first_batch(stream: Upgraded) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(Stage.LAUNCHED)
    epoch = stream.epoch
    stream._say(epoch, 5, 9000.0, "works")
    for chunk, (rows, backlog) in enumerate([(2, 100.0), (500, 9000.0)], start=1):
        row = json.dumps(encode(stream._query(5, backlog, "works").progress)).encode()
        stream._replace(epoch.number, f"progress/{chunk:06}.jsonl", b"\n".join([row] * rows))

    change = stream.home.changes()[0]
    state = look(stream.home, stream.observer(), change, stream.home.terms(change))

    assert state.soak is not None
    assert "falls behind: its backlog has grown from 100 to" in state.soak.reason


def test_a_launcher_that_died_on_another_host_is_told_to_a_person(stream: Upgraded) -> None:
    stream.begin()
    stream.drive(Stage.DEPLOYED)
    begun = stream.controller()._epoch_after(stream.epoch, 2, LaunchCause.UPGRADE, "It begins.", 1)
    stream.home.create_epoch(begun)
    probe = stream.launcher.probe

    def blind(epoch: Epoch, launch: Any, heartbeat: Any = None) -> Process:
        if epoch.number != begun.number:
            return probe(epoch, launch, heartbeat)
        return Process(state=ProcessState.UNSEEN, detail="it runs on worker-2")

    stream.launcher.probe = blind  # type: ignore[method-assign]
    for _ in range(40):
        progress = stream.advance()
        stream.tick()

    assert progress.needs_person
    assert f"declare-dead orders --epoch {begun.number}" in progress.waiting


@pytest.mark.parametrize("named", ["/etc/passwd", "{first}/../../../etc"])
def test_a_checkpoint_that_is_not_the_streams_is_not_opened_whatever_a_step_names(
    named: str, stream: Upgraded
) -> None:
    opened: list[str] = []
    step = upgrade_steps(Stage.BACKED_UP, Stage.STOPPED)[-1]
    uri = named.format(first=stream.first)
    committed = Committed(stream.home, lambda uri: opened.append(uri) or open_folders(uri))

    with pytest.raises(RecordError, match="no deployment or claim of the stream"):
        committed.since({Stage.STOPPED: replace(step, facts={FACT: json.dumps({uri: 1})})})
    assert opened == []

    ours = {f"{stream.first}/counts": 0}
    assert committed.since({Stage.STOPPED: replace(step, facts={FACT: json.dumps(ours)})})
