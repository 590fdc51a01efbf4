"""An upgrade is kept when the new deployment works, and else the old one is back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError, UpgradeRefused
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.supervision.decide import Action
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of
from tests.unit.home.make import SCRIPT

RESUME = RollbackPlan(way=RollbackMethod.RESUME, reason="What it wrote may stay.")
NO_WAY = RollbackPlan(way=RollbackMethod.NONE, reason="The sink only appends.", refused="No way.")
SECRET = {"spark.hadoop.fs.s3a.secret.key": "hunter2"}


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def test_a_deployment_that_works_is_kept_on_the_same_checkpoint(stream: Upgraded) -> None:
    stream.begin()

    progress = stream.drive()

    end = end_of(stream)
    assert end is not None
    assert (progress.state, end.outcome) == (Stage.KEPT, ChangeOutcome.DONE)
    assert (stream.deployment.number, stream.running()) == (2, 2)
    assert stream.deployment.checkpoint == stream.first
    batches = [batch for _, batch in stream.written]
    assert batches == [*range(1, len(batches) + 1)]
    assert progress.facts["verdict"] == "good"
    assert stream.keep_alive() is Action.WATCH


@pytest.mark.parametrize(
    "code", ["fails at once", "fails after two", "falls behind", "hangs", "starts no query"]
)
def test_a_deployment_that_is_bad_is_rolled_back_by_itself(code: str, tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, code)
    stream.begin()

    progress = stream.drive()
    stream.tick()

    end = end_of(stream)
    assert end is not None
    assert (progress.state, end.outcome) == (Stage.ROLLED_BACK, ChangeOutcome.ROLLED_BACK)
    assert (stream.deployment.number, stream.running()) == (3, 3)
    by_old = [batch for deployment, batch in stream.written if deployment != 2]
    assert by_old == [*range(1, len(by_old) + 1)]
    has_written = any(deployment == 2 for deployment, _ in stream.written)
    assert (stream.deployment.checkpoint != stream.first) == has_written
    assert stream.epoch.cause is LaunchCause.ROLLBACK


@pytest.mark.parametrize(
    ("does", "said"), [("idles", "No input arrived"), ("drops", "written none; the old deployment")]
)
@pytest.mark.parametrize(
    ("answer", "becomes"),
    [(UpgradeCommand.KEEP, Stage.KEPT), (UpgradeCommand.ROLL_BACK, Stage.ROLLED_BACK)],
)
def test_a_soak_that_proves_nothing_asks_and_is_neither_kept_nor_taken_back_by_itself(
    does: str, said: str, answer: UpgradeCommand, becomes: Stage, tmp_path: Path
) -> None:
    stream = Upgraded(tmp_path, does)
    stream.begin()

    progress = stream.drive()

    assert progress.state is Stage.LAUNCHED
    assert progress.needs_person
    assert said in progress.waiting
    assert "airflow-streaming upgrade keep or roll-back orders" in progress.waiting

    stream.engine().command(answer, "Seen by a test.")
    assert stream.drive().state is becomes


def test_the_keep_alive_task_looks_on_until_the_upgrade_has_ended(stream: Upgraded) -> None:
    stream.begin()
    seen = set()
    for _ in range(60):
        if stream.advance().is_there:
            break
        stream.tick()
        if stream.home.change_end(1) is None:
            seen.add(stream.keep_alive())
    assert stream.home.change_end(1) is not None
    assert seen == {Action.WATCH}


def test_a_good_soak_waits_for_a_persons_word_where_the_terms_say_so(stream: Upgraded) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(Stage.JUDGED)

    progress = stream.advance()
    assert (progress.is_there, progress.needs_person) == (False, True)

    assert stream.engine().command(UpgradeCommand.KEEP, "Looks good.").state is Stage.KEPT
    with pytest.raises(UpgradeRefused, match="is kept: `roll-back`"):
        stream.engine().command(UpgradeCommand.ROLL_BACK, "Too late.")


def test_a_person_takes_a_good_one_back_and_two_words_never_both_count(stream: Upgraded) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(Stage.JUDGED)

    stream.engine().command(UpgradeCommand.ROLL_BACK, "The rows are wrong.")
    with pytest.raises(UpgradeRefused, match="is rolling back: `keep`"):
        stream.engine().command(UpgradeCommand.KEEP, "But I like it.")
    assert stream.drive().state is Stage.ROLLED_BACK
    assert (stream.deployment.number, stream.running()) == (3, 3)


def test_a_driver_that_ends_after_a_good_soak_is_taken_back(stream: Upgraded) -> None:
    stream.begin(keeps_by_itself=False)
    stream.drive(Stage.JUDGED)
    stream.launcher.end(stream.epoch.token)
    assert stream.drive().state is Stage.ROLLED_BACK


@pytest.mark.parametrize("until", [Stage.BEGUN, Stage.BACKED_UP, Stage.STOPPED])
def test_it_is_given_up_before_the_new_deployment_is_made(until: Stage, stream: Upgraded) -> None:
    stream.begin()
    stream.drive(until)

    stream.engine().command(UpgradeCommand.ABORT, "Not today.")
    progress = stream.drive()

    assert progress.state is Stage.ABORTED
    assert (stream.deployment.number, stream.running()) == (1, 1)
    stream.tick()
    batches = [batch for _, batch in stream.written]
    assert batches == [*range(1, len(batches) + 1)]


def test_what_is_made_is_not_aborted_but_rolled_back(stream: Upgraded) -> None:
    stream.begin()
    stream.drive(Stage.DEPLOYED)
    with pytest.raises(UpgradeRefused, match=r"Available: .*roll-back"):
        stream.engine().command(UpgradeCommand.ABORT, "Not today.")
    stream.engine().command(UpgradeCommand.ROLL_BACK, "Not today.")
    assert stream.drive().state is Stage.ROLLED_BACK
    assert stream.deployment.checkpoint == stream.first


@pytest.mark.parametrize(
    ("until", "end", "deployment"),
    [
        (Stage.BEGUN, Stage.ABORTED, 1),
        (Stage.BACKED_UP, Stage.ABORTED, 1),
        (Stage.STOPPED, Stage.ABORTED, 1),
        (Stage.DEPLOYED, Stage.ROLLED_BACK, 3),
        (Stage.LAUNCHED, Stage.ROLLED_BACK, 3),
    ],
)
def test_a_person_who_wants_it_stopped_gets_the_old_deployment_stopped(
    until: Stage, end: Stage, deployment: int, stream: Upgraded
) -> None:
    stream.begin()
    stream.drive(until)

    stream.want(DesiredState.STOPPED)
    progress = stream.drive()
    for _ in range(3):
        stream.tick()

    assert (progress.state, stream.deployment.number) == (end, deployment)
    assert (stream.running(), stream.keep_alive()) == (None, Action.PARK)
    stream.want(DesiredState.RUNNING)
    stream.tick()
    assert stream.running() == deployment


def test_a_driver_that_outstays_its_grace_is_killed(stream: Upgraded) -> None:
    stream.stubborn = {1}
    stream.begin()
    assert stream.drive().state is Stage.KEPT
    assert stream.launcher.killed == [1]


def test_a_driver_that_cannot_be_killed_holds_the_upgrade_up(stream: Upgraded) -> None:
    stream.stubborn, stream.launcher.is_unkillable = {1}, True
    stream.begin()
    for _ in range(10):
        progress = stream.advance()
        stream.tick()
    assert (progress.state, progress.needs_person) == (Stage.BACKED_UP, True)
    assert stream.running() == 1

    stream.launcher.is_unkillable = False
    assert stream.drive().state is Stage.KEPT


def test_with_resume_the_old_one_goes_on_where_the_new_one_ended(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "fails after two")
    stream.begin(rollback=RESUME)
    assert stream.drive().state is Stage.ROLLED_BACK
    stream.tick()
    batches = [batch for _, batch in stream.written]
    assert (stream.deployment.checkpoint, batches) == (
        stream.first,
        [*range(1, len(batches) + 1)],
    )


@pytest.mark.parametrize(
    ("code", "end"), [("fails at once", Stage.ROLLED_BACK), ("fails after two", Stage.KEPT)]
)
def test_without_a_way_back_it_goes_back_only_while_nothing_is_committed(
    code: str, end: Stage, tmp_path: Path
) -> None:
    stream = Upgraded(tmp_path, code)
    stream.begin(rollback=NO_WAY, accepts_no_way_back=True)
    progress = stream.drive()
    assert (progress.state, progress.facts["verdict"]) == (end, "bad")


def test_a_launch_that_fails_is_rolled_back(stream: Upgraded) -> None:
    stream.begin()
    stream.drive(Stage.DEPLOYED)
    stream.launcher.refusal = "There is no Java."
    stream.advance(Stage.RESTORED)
    stream.launcher.refusal = None
    assert stream.drive().state is Stage.ROLLED_BACK


def test_what_else_is_deployed_meanwhile_ends_it(stream: Upgraded) -> None:
    stream.begin()
    stream.drive(Stage.STOPPED)
    other = stream.proposed(application_args=("--other",))
    stream.home.create_deployment(other, stream.new_script)

    assert stream.drive().state is Stage.ABORTED
    assert stream.deployment == other


def test_the_dag_deploys_nothing_while_an_upgrade_is_open(stream: Upgraded) -> None:
    stream.begin()
    other = stream.proposed(application_args=("--other",))
    assert not stream.controller().deploy(other, stream.new_script)
    assert stream.deployment.number == 1
    assert stream.drive().state is Stage.KEPT


def test_a_wish_is_begun_once_and_found_again_when_it_has_ended(stream: Upgraded) -> None:
    assert (stream.begin(), stream.begin()) == (1, 1)
    stream.drive()
    assert stream.begin() == 1
    assert stream.begin(key="run-2") == 2


def test_another_wish_waits_until_the_first_has_ended(stream: Upgraded) -> None:
    stream.begin()
    with pytest.raises(UpgradeRefused, match="unfinished change: upgrading to deployment 2"):
        stream.begin(key="run-2")


def test_the_old_deployment_has_to_be_launchable_before_anything_is_begun(
    stream: Upgraded,
) -> None:
    of_the_old = dict.fromkeys(SECRET, REDACTED)
    changes = {"application_sha256": stream.deployment.application_sha256, "conf": of_the_old}
    stream.conf = {**stream.conf, **SECRET}
    stream.home.create_deployment(stream.proposed(**changes), SCRIPT)
    stream.conf = {}

    with pytest.raises(SpecError, match="needs the secret"):
        stream.begin()
    assert stream.home.changes() == []


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda s: s.want(DesiredState.STOPPED), 'desired state is "stopped"'),
        (lambda s: setattr(s, "proposed", lambda: elsewhere(s)), "keeps the checkpoint"),
    ],
    ids=["stopped", "another checkpoint"],
)
def test_what_cannot_be_upgraded_is_said_before_anything_is_written(
    prepare: Any, says: str, stream: Upgraded
) -> None:
    prepare(stream)
    with pytest.raises(UpgradeRefused, match=says):
        stream.begin()
    assert stream.home.changes() == []


def elsewhere(stream: Upgraded) -> Any:
    return Upgraded.proposed(stream, checkpoint="/elsewhere")


def test_no_way_back_has_to_be_accepted(stream: Upgraded) -> None:
    with pytest.raises(UpgradeRefused, match="a safe rollback is not possible"):
        stream.begin(rollback=NO_WAY)
