"""Migrating a checkpoint around its Spark, which is a function here."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import CheckpointRefused, LaunchError, SpecError
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.migration import (
    BEFORE,
    MARK,
    MARKER,
    Carry,
    MigrationAnswer,
    MigrationOrder,
    Move,
    OperatorMigration,
    OperatorProof,
    StateColumn,
    StateMigration,
)
from airflow_streaming.spark_jobs import migration as migrating
from airflow_streaming.spark_jobs.migration import migrate_checkpoint
from tests.system.edits.plans import CHECKPOINTS

PROOF = OperatorProof(operator=0, before=9, after=9)


def a_column(name: str, type_: str, source: int | None, **changes: Any) -> StateColumn:
    return StateColumn(name=name, type=type_, move=Move.KEEP, source=source, **changes)


MIGRATION = StateMigration(
    query="totals",
    operators=(
        OperatorMigration(
            operator=0,
            name="stateStoreSave",
            carry=Carry.COLUMNS,
            source=0,
            key=(a_column("user", "string", 0), a_column("kind", "string", 1)),
            value=(
                a_column("sum", "bigint", 0),
                StateColumn(name="min", type="bigint", move=Move.ADD, initial="NULL", of="min(a)"),
            ),
            dropped=("count(1)",),
        ),
    ),
    consequences=("min(a) starts anew.",),
)
Answers = Callable[[MigrationAnswer | Exception], list[MigrationOrder]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with tarfile.open(CHECKPOINTS) as archive:
        members = [one for one in archive if one.name.startswith("totals/checkpoint")]
        archive.extractall(tmp_path, members, filter="data")
    return tmp_path / "totals" / "checkpoint"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        name="spark-4.3",
        spark_home=tmp_path,
        java_home=None,
        spark_version="4.3.0",
        python=tmp_path / "bin" / "python",
    )


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return a function that lets Spark answer, and returns the orders that it gets."""

    def answering(answer: MigrationAnswer | Exception) -> list[MigrationOrder]:
        orders: list[MigrationOrder] = []

        def ask(_: object, order: MigrationOrder, *__: object, **___: object) -> MigrationAnswer:
            orders.append(order)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(migrating, "ask", ask)
        return orders

    return answering


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def migrate(source: Path, runtime: Runtime, migration: StateMigration = MIGRATION) -> Path:
    target = source.parent / "migrated"
    migrate_checkpoint(str(source), str(target), migration, runtime)
    return target


def test_spark_gets_the_copy_and_what_it_needs_to_write_state(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))
    before = digest(source)

    found = migrate_checkpoint(
        str(source), str(source.parent / "migrated"), MIGRATION, runtime, keep_query_id=True
    )

    (order,) = orders
    assert order.checkpoint.endswith("/totals/migrated")
    assert (order.batch, order.partitions, order.codec) == (3, 2, "lz4")
    assert not order.is_rocksdb
    (schema,) = order.schemas
    assert [field["name"] for field in json.loads(schema.value)["fields"]] == ["sum", "min"]
    assert [field["type"] for field in json.loads(schema.value)["fields"]] == ["long", "long"]
    assert (found.batch, found.proofs) == (3, (PROOF,))
    assert digest(source) == before
    assert (source.parent / "migrated" / "metadata").read_text() == (
        source / "metadata"
    ).read_text()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (MigrationAnswer(condition="SOME", failed="It broke"), LaunchError),
        (
            MigrationAnswer(proofs=(replace(PROOF, problems=("8 rows were written",)),)),
            CheckpointRefused,
        ),
        (LaunchError("It could not be started."), LaunchError),
    ],
    ids=["an error", "a proof that is not clean", "no start"],
)
def test_no_copy_is_left_without_a_clean_proof(
    source: Path,
    runtime: Runtime,
    spark: Answers,
    answer: MigrationAnswer | Exception,
    error: type[Exception],
) -> None:
    spark(answer)
    before = digest(source)

    with pytest.raises(error):
        migrate(source, runtime)

    assert not (source.parent / "migrated").exists()
    assert digest(source) == before


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "QUIET_SECONDS", 0)


def test_a_copy_that_was_cut_off_is_made_anew(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    spark(MigrationAnswer(proofs=(PROOF,)))
    left = source.parent / "migrated" / "state" / "left"
    left.parent.mkdir(parents=True)
    left.write_text("of the run that was killed")
    marker = source.parent / "migrated" / MARKER
    marker.parent.mkdir()
    marker.write_bytes(MARK)

    target = migrate(source, runtime)

    assert not left.exists()
    assert (target / "metadata").exists()


def test_a_copy_whose_proof_was_clean_stays_though_its_run_was_killed(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))
    target = source.parent / "migrated"
    shutil.copytree(source, target)
    shutil.copytree(source / "offsets", target / BEFORE / "offsets")
    (target / MARKER).write_bytes(MARK)
    before = digest(target)

    with pytest.raises(CheckpointRefused, match="A query may use the copy already"):
        migrate(source, runtime)

    assert digest(target) == before
    assert orders == []


def test_a_clone_that_spark_never_saw_is_made_anew(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    spark(MigrationAnswer(proofs=(PROOF,)))
    target = source.parent / "migrated"
    shutil.copytree(source, target)
    (target / "commits" / "99").write_text("of the run that was killed")
    (target / BEFORE).mkdir()
    (target / MARKER).write_bytes(MARK)

    migrate(source, runtime)

    assert not (target / "commits" / "99").exists()


@pytest.mark.parametrize(("writes", "is_removed"), [(3, True), (99, False)])
def test_a_copy_that_another_run_still_writes_is_left_to_it(
    source: Path,
    runtime: Runtime,
    spark: Answers,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
    is_removed: bool,
) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))
    marker, left = source.parent / "migrated" / MARKER, iter(range(writes))

    def write(_: float) -> None:
        if next(left, None) is not None:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.write_bytes(MARK)

    write(0)
    monkeypatch.setattr(migrating.time, "sleep", write)

    if is_removed:
        assert (migrate(source, runtime) / "metadata").exists()
    else:
        with pytest.raises(CheckpointRefused, match="Another run of this command still writes"):
            migrate(source, runtime)
    assert bool(orders) is is_removed


def test_a_source_is_never_its_own_target(source: Path, runtime: Runtime, spark: Answers) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))
    (source / BEFORE).mkdir()
    (source / MARKER).write_bytes(MARK)
    before = digest(source)

    for target in (source, source / "inside", source.parent):
        with pytest.raises(SpecError, match=r"the same place|do not lie apart"):
            migrate_checkpoint(str(source), str(target), MIGRATION, runtime)

    assert digest(source) == before
    assert orders == []


def test_another_checkpoint_at_the_target_is_not_touched(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))
    target = source.parent / "migrated"
    shutil.copytree(source, target)
    (target / BEFORE).mkdir()
    (target / MARKER).write_text("of somebody else")
    before = digest(target)

    with pytest.raises(Exception, match="migrated"):
        migrate(source, runtime)

    assert digest(target) == before
    assert orders == []


def with_operator(**changes: Any) -> StateMigration:
    return replace(MIGRATION, operators=(replace(MIGRATION.operators[0], **changes),))


@pytest.mark.parametrize(
    ("migration", "says"),
    [
        (with_operator(source=1), "operator 1 is missing"),
        (with_operator(name="dedupe"), "operator 0 is stateStoreSave, the plan expects dedupe"),
        (
            with_operator(value=(a_column("sum", "double", 0),)),
            "value column 0 of operator 0 is bigint, the plan expects double",
        ),
        (with_operator(value=(a_column("sum", "bigint", 5),)), "no such column"),
        (StateMigration(query="totals"), r"its operators is \[0\] too"),
    ],
    ids=["operator", "kind", "type", "place", "forgotten"],
)
def test_a_migration_of_another_state_is_refused(
    source: Path, runtime: Runtime, spark: Answers, migration: StateMigration, says: str
) -> None:
    orders = spark(MigrationAnswer(proofs=(PROOF,)))

    with pytest.raises(CheckpointRefused, match=says):
        migrate(source, runtime, migration)

    assert orders == []
    assert not (source.parent / "migrated").exists()


def test_an_older_spark_is_refused_with_the_way_in_two_steps(
    source: Path, runtime: Runtime, spark: Answers
) -> None:
    spark(MigrationAnswer(proofs=(PROOF,)))

    with pytest.raises(SpecError, match=r"Upgrade Spark to 4\.2"):
        migrate(source, replace(runtime, spark_version="4.1.4"))
