"""A running stream gets an aggregate more by a migration of its state, and one less that is rolled back; real drivers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.changes.restore.migrated_copy import SparkMigrator
from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
from airflow_streaming.changes.upgrade.engine import UpgradeInPlace, UpgradeProgress
from airflow_streaming.changes.upgrade.preflight import Candidate, Migrate, preflight
from airflow_streaming.changes.upgrade.preflight_report import Preflight
from airflow_streaming.changes.upgrade.rollback import Ways
from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointBusy
from airflow_streaming.gates.change_gate import look_at
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal_compare import CLEAN
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.jobs.rehearsal import Bounds
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import RollbackMethod
from airflow_streaming.model.records.upgrade_table import Stage as Reached
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from airflow_streaming.spark_jobs.migrated_copies import Migrating
from airflow_streaming.spark_jobs.rehearsal_compare import Version, compare_versions
from airflow_streaming.spark_jobs.runner import program_of
from airflow_streaming.spark_jobs.shared_spark import SharedSpark
from tests.integration.upgrade.test_rescale import await_batches, running
from tests.system.cutovers.applications import GOOD, write
from tests.system.cutovers.consumer import new_rows
from tests.system.cutovers.shop import expected
from tests.system.cutovers.stage import CONF, QUERY, STREAM, Stage
from tests.system.cutovers.truth import judge_rows
from tests.system.cutovers.waiting import until

PATIENCE: Final = 600.0
SOAK: Final = SoakTerms(
    batches=2,
    at_least=timedelta(seconds=1),
    at_most=timedelta(seconds=PATIENCE),
    backlog_growth=1000.0,
)

pytestmark = pytest.mark.nightly("Seven Sparks one after the other.")


def looked(
    stage: Stage, proposal: tuple[Deployment, bytes], migrate: Migrate, spark: SharedSpark
) -> Preflight:
    deployment, source = proposal
    home = stage.lane(STREAM)
    # The tests give every driver settings by its environment, which plan mode does not have.
    settings = {key: value for plan in home.newest_plans() for key, value in plan.settings.items()}
    conf = {**settings, **deployment.conf}
    candidate = Candidate(
        deployment=deployment,
        program=program_of(deployment, source, stage.home_uri, conf),
        runtime=stage.runtime,
    )
    current = home.newest_deployment()
    assert current is not None
    return preflight(*(home, current, candidate, Ways()), migrate=migrate, spark=spark)


def engine_of(stage: Stage, application: Path) -> UpgradeInPlace:
    home = stage.lane(STREAM)
    return UpgradeInPlace(
        *(home, stage.controller(STREAM, "a test", str(application)), stage.observer(STREAM)),
        open_backup_store(stage.store_uri, create=True),
        by="a test",
        migrator=SparkMigrator(home=home, of=lambda: (stage.runtime, {**CONF, **stage.conf})),
    )


def taken_on(advance: Callable[[], UpgradeProgress]) -> UpgradeProgress:
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        with suppress(CheckpointBusy):
            progress = advance()
            if progress.is_there:
                return progress
        time.sleep(0.2)
    pytest.fail(f"The upgrade came to no end within {PATIENCE:.0f} s: {progress}")


def upgraded(stage: Stage, application: Path, found: Preflight, until: Reached) -> UpgradeProgress:
    engine = engine_of(stage, application)
    request = UpgradeTermsRequest(
        rollback=found.rollback,
        soak=SOAK,
        sinks=found.sinks,
        migrations=found.migrations,
        stop_grace=timedelta(seconds=60),
    )
    change = engine.begin(*stage.proposal(STREAM, application, fresh=False), request)
    return taken_on(lambda: engine.advance(until, change.number))


def columns_of(deployment: Deployment) -> list[str]:
    return [column.name for column in look_at(f"{deployment.checkpoint}/{QUERY}").schemas[0].value]


def test_a_refused_change_is_migrated_and_kept_and_another_one_rolled_back(
    spark_4_3: Path, tmp_path: Path
) -> None:
    stage = Stage.at(tmp_path, spark_4_3, "parquet")
    applications, home = write(tmp_path / "applications"), stage.lane(STREAM)
    with running(stage) as output:
        until(lambda: any(new_rows(str(output), set())), "the first rows", PATIENCE, every=0.5)
        wanted = Migrate(is_wanted=True)

        new = applications["new"]
        with SharedSpark() as spark:
            proposal = stage.proposal(STREAM, new, fresh=False)
            refused = looked(stage, proposal, Migrate(), spark)
            found = looked(stage, proposal, wanted, spark)
        assert refused.decision is GateDecision.NOT_ALLOWED
        refusals = [
            " ".join((one.rule, *one.migration, one.no_migration))
            for one in refused.gates.findings
            if one.severity is GateDecision.NOT_ALLOWED
        ]
        assert all("max(amount) starts anew" in text for text in refusals), "\n".join(refusals)
        assert found.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE
        assert found.rollback.way is RollbackMethod.REWIND
        progress = upgraded(stage, new, found, Reached.KEPT)
        assert progress.state is Reached.KEPT, progress
        assert columns_of(home.deployment(1)) == ["count", "sum"]
        assert columns_of(home.deployment(2)) == ["count", "sum", "max"]
        open_windows = int(progress.facts[f"rows.{QUERY}.0"].split()[0])
        original = inspect(f"{home.deployment(1).checkpoint}/{QUERY}").last_committed_batch
        await_batches(stage)
        assert inspect(f"{home.deployment(1).checkpoint}/{QUERY}").last_committed_batch == original

        old = applications["old"]
        with SharedSpark() as spark:
            found = looked(stage, stage.proposal(STREAM, old, fresh=False), wanted, spark)
        progress = upgraded(stage, old, found, Reached.JUDGED)
        assert progress.state is Reached.JUDGED, progress
        assert columns_of(home.deployment(3)) == ["count", "sum"]
        engine = engine_of(stage, old)
        engine.command(UpgradeCommand.ROLL_BACK, "The test says so.")
        progress = taken_on(lambda: engine.advance(Reached.KEPT))
        assert progress.state is Reached.ROLLED_BACK, progress
        assert columns_of(home.deployment(4)) == ["count", "sum", "max"]
        await_batches(stage)

    rows, right = [*new_rows(str(output), set())], expected(stage.input)
    # A window that was open during a migration has the maximum of its later lines alone.
    bare = judge_rows(((key, replace(row, most=None)) for key, row in rows), right)
    assert bare.is_whole, bare
    assert bare.rows > 0
    assert judge_rows(rows, right).wrong <= open_windows
    assert rows[-1][1].most is not None, "rows of the deployment that was taken back are gone"


@pytest.mark.parametrize(
    ("edit", "answers"),
    [
        # The sum of a group goes on with the state, so its rows are those of a run from scratch.
        (('F.count("*").alias("n"),\n', ""), CLEAN),
        # A window that was open has the maximum of its later rows alone; whether all of these end within the
        # compared batches is up to the machine.
        (None, {Answer.SETTLES, Answer.UNDECIDED}),
    ],
    ids=["aggregate removed", "aggregate added"],
)
def test_the_new_code_is_compared_on_migrated_copies_with_a_run_from_scratch(
    edit: tuple[str, str] | None, answers: set[Answer], spark_4_3: Path, tmp_path: Path
) -> None:
    # The run from scratch begins with batch 0, which a stream forgets after 100 batches.
    keeps = {"spark.sql.streaming.minBatchesToRetain": "100000"}
    stage = replace(Stage.at(tmp_path, spark_4_3, "parquet"), conf=keeps)
    applications, home = write(tmp_path / "applications"), stage.lane(STREAM)
    script = applications["new"]
    if edit is not None:
        script.write_text(
            GOOD.read_text()
            .replace("            " + edit[0], edit[1])
            .replace('            "n",\n', "")
        )
    with running(stage):
        await_batches(stage)
        with SharedSpark() as spark:
            proposal = stage.proposal(STREAM, script, fresh=False)
            found = looked(stage, proposal, Migrate(is_wanted=True), spark)
        assert [one.query for one in found.migrations] == [QUERY], found.gates
        old, new = (
            Version(
                program=program_of(
                    replace(deployment, output=SCRATCH_OUTPUT),
                    source,
                    stage.home_uri,
                    stage_conf(stage),
                ),
                runtime=stage.runtime,
            )
            for deployment, source in (
                (home.deployment(1), home.application(1)),
                proposal,
            )
        )
        compared = compare_versions(
            checkpoints_of(home),
            old,
            new,
            bounds=Bounds(batches=2, seconds=120.0),
            plans=home.newest_plans(),
            migrating=Migrating(
                migrations=found.migrations, runtime=stage.runtime, conf=stage_conf(stage)
            ),
        )
    (query,) = compared.queries
    assert query.from_scratch, query
    assert query.answer in answers, query


def stage_conf(stage: Stage) -> dict[str, str]:
    return {**CONF, **stage.conf}
