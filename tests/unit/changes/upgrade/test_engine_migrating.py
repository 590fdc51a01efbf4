"""Upgrades whose state is migrated: the steps, the ways back, and workers that are killed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.restore import migrated_copy
from airflow_streaming.changes.restore.migrated_copy import SparkMigrator
from airflow_streaming.changes.upgrade.decide import MIGRATION_PATIENCE, MOST_MIGRATIONS
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.exceptions import CheckpointRefused, HomeUnavailable, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.jobs.migration import (
    MARK,
    MARKER,
    Migrated,
    OperatorProof,
    StateMigration,
)
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, SinkFacts
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from tests.unit.changes.upgrade.killing import died
from tests.unit.changes.upgrade.upgrading import QUERY, REWIND, Upgraded

MIGRATIONS = (StateMigration(query=QUERY),)
QUIET = (SinkFacts(query=QUERY, sink="foreachbatch", habit=SinkReplaySemantics.NOTHING),)
EVERY = 9
"""Of the durable steps one in so many is tried."""
RESUME = RollbackPlan(way=RollbackMethod.RESUME, reason="The test says so.")


class Killed(BaseException):
    """The worker is gone."""


@dataclass
class PlayedSpark:
    """
    Copies the checkpoint in the place of Spark.

    :param ends: How each attempt ends: ``proved``, ``refused``, ``away``, ``killed`` before the proof or ``late``
        after it; the last one counts for every further attempt.
    """

    ends: Sequence[str] = ("proved",)
    copies: list[str] = field(default_factory=list)

    def __call__(self, uri: str, to: str, migration: Any, runtime: Any, **more: Any) -> Migrated:
        end = self.ends[min(len(self.copies), len(self.ends) - 1)]
        self.copies.append(to)
        if end == "refused":
            raise CheckpointRefused("The proof is not clean.")
        if end == "away":
            raise HomeUnavailable("The store is away.")
        beside = {MARKER: MARK} if end == "killed" else {}
        cloned = clone(uri, to, keep_query_id=True, beside=beside)
        if end in ("killed", "late"):
            raise Killed
        proof = OperatorProof(operator=0, before=7, after=7)
        return Migrated(uri=to, batch=cloned.batch, proofs=(proof,))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> PlayedSpark:
    played = PlayedSpark()
    monkeypatch.setattr(migrated_copy, "migrate_checkpoint", played)
    # A killed process removes nothing.
    monkeypatch.setattr(SparkMigrator, "_remove", lambda *_: None)
    return played


def migrated(folder: Path, code: str = "works") -> Upgraded:
    stream = Upgraded(folder, code)
    with_migrator(stream, owner="run-1")
    return stream


def with_migrator(stream: Upgraded, owner: str) -> None:
    """Let tasks of a run upgrade a stream."""
    engine = partial(Upgraded.engine, stream)

    def made(home: StreamHome | None = None, **more: Any) -> Any:
        migrator = SparkMigrator(home=home or stream.home, of=lambda: (None, {}), owner=owner)  # type: ignore[arg-type, return-value]
        return engine(home, migrator=migrator, **more)

    stream.engine = made  # type: ignore[method-assign]


def whole(stream: Upgraded) -> bool:
    """Tell whether no batch is lost, and none came twice to the deployments that count."""
    kept = stream.deployment.number
    batches = [batch for deployment, batch in stream.written if deployment in (1, kept)]
    return batches == [*range(1, len(batches) + 1)]


def test_the_new_deployment_starts_from_the_proved_copy(tmp_path: Path, spark: PlayedSpark) -> None:
    stream = migrated(tmp_path)
    last = inspect(f"{stream.first}/{QUERY}").last_committed_batch
    stream.begin(migrations=MIGRATIONS)
    progress = stream.drive()

    stages = stream.stages()
    assert progress.state is Stage.KEPT
    assert stages.index("stopped") < stages.index("migrating") < stages.index("migrated")
    assert stages.index("migrated") < stages.index("deployed")
    assert [f"{stream.deployment.checkpoint}/{QUERY}"] == spark.copies
    assert progress.facts[f"rows.{QUERY}.0"] == "7 before, 7 after"
    stopped = inspect(f"{stream.first}/{QUERY}").last_committed_batch
    assert stopped is not None
    assert last is not None
    assert stopped >= last
    stream.tick()
    assert inspect(f"{stream.first}/{QUERY}").last_committed_batch == stopped, "it is only read"
    assert whole(stream)


def test_the_copy_is_claimed_before_its_driver_starts(tmp_path: Path, spark: PlayedSpark) -> None:
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    stream.drive(Stage.DEPLOYED)

    before = {claim.query: claim.query_id for claim in stream.home.claims(1)}
    claims = {claim.query: claim for claim in stream.home.claims(2)}
    assert before == {query: claim.query_id for query, claim in claims.items()}
    for query, claim in claims.items():
        assert claim.checkpoint == f"file:{stream.deployment.checkpoint}/{query}"


def test_a_migration_without_a_clean_proof_puts_the_old_deployment_back_on_its_checkpoint(
    tmp_path: Path, spark: PlayedSpark
) -> None:
    spark.ends = ("refused",)
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    progress = stream.drive()

    assert progress.state is Stage.ROLLED_BACK
    assert progress.facts["condition"] == "CheckpointRefused"
    assert "The proof is not clean." in progress.reason
    assert stream.deployment.checkpoint == stream.first
    stream.tick()
    assert whole(stream)


@pytest.mark.parametrize("until", [Stage.DEPLOYED, Stage.LAUNCHED])
def test_a_rollback_goes_back_to_the_original(
    until: Stage, tmp_path: Path, spark: PlayedSpark
) -> None:
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS, sinks=QUIET)
    stream.drive(until)
    for _ in range(2):
        stream.tick()
    stream.engine().command(UpgradeCommand.ROLL_BACK, "The test says so.")

    assert stream.drive().state is Stage.ROLLED_BACK
    # Without a driver the original is as it was; afterwards the backup of it is put beside it.
    is_original = stream.deployment.checkpoint == stream.first
    assert is_original is (until is Stage.DEPLOYED)
    assert "migrated" not in stream.deployment.checkpoint
    stream.tick()
    assert whole(stream)


def test_the_authors_function_gets_the_batches_of_the_copy(
    tmp_path: Path, spark: PlayedSpark
) -> None:
    from airflow_streaming.changes.upgrade.rollback import _migrated

    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS, sinks=QUIET)
    stream.drive(Stage.LAUNCHED)
    change = stream.home.changes()[0]
    backup = stream.store.backups("orders")[0]

    assert _migrated(stream.home, change, backup) == {
        QUERY: f"{stream.deployment.checkpoint}/{QUERY}"
    }


@pytest.mark.parametrize(
    ("ends", "copies"),
    [(("killed", "proved"), 2), (("late",), 1), (("away", "proved"), 2)],
    ids=["before the proof", "after the proof", "store away"],
)
def test_the_next_worker_of_the_run_goes_on_at_once(
    ends: Sequence[str], copies: int, tmp_path: Path, spark: PlayedSpark
) -> None:
    spark.ends = ends
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    with pytest.raises((Killed, HomeUnavailable)):
        stream.drive()

    assert stream.drive().state is Stage.KEPT
    assert len(set(spark.copies)) == len(spark.copies) == copies
    assert stream.deployment.checkpoint == spark.copies[-1].removesuffix(f"/{QUERY}")


def test_a_run_whose_workers_are_killed_again_and_again_gives_up(
    tmp_path: Path, spark: PlayedSpark
) -> None:
    spark.ends = ("killed",)
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    for _ in range(MOST_MIGRATIONS):
        with pytest.raises(Killed):
            stream.drive()

    assert stream.drive().state is Stage.ROLLED_BACK
    assert len(spark.copies) == MOST_MIGRATIONS
    assert stream.deployment.checkpoint == stream.first


def test_another_run_waits_until_the_time_is_over(tmp_path: Path, spark: PlayedSpark) -> None:
    spark.ends = ("killed",)
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    with pytest.raises(Killed):
        stream.drive()
    with_migrator(stream, owner="run-2")

    assert stream.advance().state is Stage.MIGRATING
    stream.now += MIGRATION_PATIENCE
    assert stream.drive().state is Stage.ROLLED_BACK
    assert len(spark.copies) == 1


def test_the_batch_that_was_planned_at_the_stop_runs_with_its_plan(
    tmp_path: Path, spark: PlayedSpark
) -> None:
    stream = migrated(tmp_path)
    stream.begin(migrations=MIGRATIONS)
    stream.drive(Stage.STOPPED)
    folder = Path(stream.first) / QUERY / "offsets"
    newest = max(int(one.name) for one in folder.glob("[0-9]*"))
    (folder / str(newest + 1)).write_bytes((folder / str(newest)).read_bytes())
    assert stream.drive(Stage.DEPLOYED).state is Stage.DEPLOYED

    copy = Path(stream.deployment.checkpoint) / QUERY / "offsets" / str(newest + 1)
    assert copy.read_bytes() == (folder / str(newest + 1)).read_bytes()
    assert stream.drive().state is Stage.KEPT
    assert whole(stream)


@pytest.mark.parametrize(
    "given",
    [{"rollback": RESUME}, {"partitions": 8, "rollback": REWIND}],
    ids=["no rewind", "other partitions too"],
)
def test_it_is_not_begun_without_a_way_back(
    given: dict[str, Any], tmp_path: Path, spark: PlayedSpark
) -> None:
    stream = migrated(tmp_path)
    with pytest.raises(UpgradeRefused):
        stream.begin(migrations=MIGRATIONS, **given)


def to_the_end(stream: Upgraded, home: StreamHome) -> None:
    stream.begin(home, migrations=MIGRATIONS, sinks=QUIET)
    for _ in range(60):
        if stream.advance(Stage.KEPT, home).is_there:
            return
        stream.tick()
    raise AssertionError("It came to no end.")


@pytest.mark.parametrize(("code", "end"), [("works", "kept"), ("fails after two", "rolled_back")])
def test_a_worker_killed_before_any_step_comes_to_the_same_end(
    code: str, end: str, tmp_path: Path, spark: PlayedSpark
) -> None:
    for step in range(len(code) % EVERY, 200, EVERY):
        stream = migrated(tmp_path / str(step), code)
        has_died = died(stream, to_the_end, step)
        if has_died:
            stream.tick()
            to_the_end(stream, stream.home)
        stream.tick()

        assert stream.stages()[-1] == end, f"Killed before step {step}: {stream.stages()}"
        assert whole(stream), f"Killed before step {step}: {stream.written}"
        assert stream.running() == stream.deployment.number
        if not has_died:
            break
    else:
        raise AssertionError("There was a step more than 200.")
