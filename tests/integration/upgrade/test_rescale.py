"""A running stream is rescaled to more state partitions and back, by real drivers: no row tells of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
from airflow_streaming.changes.upgrade.engine import UpgradeInPlace
from airflow_streaming.changes.upgrade.repartition import (
    PARTITIONS,
    SparkRepartitioner,
    inspect_all,
)
from airflow_streaming.checkpoints.backup.recorded_sinks import known_sinks
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointBusy
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan
from airflow_streaming.model.records.upgrade_table import Stage as Reached
from tests.system.cutovers.applications import GOOD
from tests.system.cutovers.consumer import new_rows
from tests.system.cutovers.keeping import KeepAlive, start, want
from tests.system.cutovers.shop import Shop, expected
from tests.system.cutovers.stage import CONF, QUERY, STREAM, Stage
from tests.system.cutovers.truth import judge_rows
from tests.system.cutovers.waiting import until

ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
BATCHES: Final = 3
PATIENCE: Final = 600.0

pytestmark = pytest.mark.nightly("Five Sparks one after the other.")


@contextmanager
def running(stage: Stage) -> Iterator[Path]:
    """Run the stream and its input in the block, and stop it at a batch boundary; return its output."""
    start(stage, GOOD)
    deployment = stage.lane(STREAM).newest_deployment()
    assert deployment is not None
    try:
        with Shop(stage.input), KeepAlive(stage):
            yield Path(deployment.output)
            want(stage, STREAM, DesiredState.STOPPED)
            until(lambda: not stage.drivers(), "the driver to be stopped", PATIENCE)
    finally:
        stage.end()


def await_batches(stage: Stage) -> None:
    """Wait until the stream has committed some more batches."""
    deployment = stage.lane(STREAM).newest_deployment()
    assert deployment is not None
    commits = Path(deployment.checkpoint) / QUERY / "commits"

    def newest() -> int:
        return max((int(one.name) for one in commits.glob("[0-9]*")), default=-1)

    before = newest()
    until(lambda: newest() >= before + BATCHES, "some batches", PATIENCE, every=0.5)


def rescale(stage: Stage, partitions: int) -> None:
    """Give the running stream's state another number of partitions, to the end of the soak."""
    to = replace(stage, conf={**stage.conf, PARTITIONS: str(partitions)})
    home = to.lane(STREAM)
    spark = SparkRepartitioner(home, lambda: (to.runtime, {**CONF, **to.conf}))
    engine = UpgradeInPlace(
        *(home, to.controller(STREAM, "a test", str(GOOD)), to.observer(STREAM)),
        open_backup_store(to.store_uri, create=True),
        by="a test",
        repartitioner=spark,
    )
    terms = UpgradeTermsRequest(
        rollback=RollbackPlan(way=RollbackMethod.REWIND, reason="The sink keeps a file a batch."),
        soak=SoakTerms(
            batches=BATCHES,
            at_least=timedelta(seconds=1),
            at_most=timedelta(seconds=PATIENCE),
            backlog_growth=1000.0,
        ),
        stop_grace=timedelta(seconds=60),
        sinks=known_sinks(home, to.proposal(STREAM, GOOD, fresh=False)[0]),
        partitions=partitions,
    )
    change = engine.begin(*to.proposal(STREAM, GOOD, fresh=False), terms)
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        with suppress(CheckpointBusy):
            progress = engine.advance(Reached.KEPT, change.number)
            if progress.is_there:
                assert progress.state is Reached.KEPT, home.upgrade_steps(change.number)
                return
        time.sleep(0.2)
    pytest.fail(f"The rescale was not kept within {PATIENCE:.0f} s.")


def partitions_of(stage: Stage) -> set[int]:
    """Return the numbers of partitions that the stores of the query's state have."""
    report = inspect_all(stage.lane(STREAM))[QUERY]
    return {store.partitions for operator in report.operators for store in operator.stores}


def test_a_running_stream_gets_more_state_partitions_and_fewer_and_keeps_every_row(
    spark_4_3: Path, tmp_path: Path
) -> None:
    stage = replace(Stage.at(tmp_path, spark_4_3, "ledger"), conf=ROCKSDB)
    with running(stage) as output:
        until(lambda: any(output.glob("*.json")), "the first rows", PATIENCE, every=0.5)
        for partitions in (4, 3):
            await_batches(stage)
            rescale(stage, partitions)
            assert partitions_of(stage) == {partitions}
        await_batches(stage)

    home = stage.lane(STREAM)
    assert [home.deployment(n).conf[PARTITIONS] for n in (1, 2, 3)] == ["2", "4", "3"]
    rows = judge_rows(new_rows(str(output), set()), expected(stage.input))
    assert rows.is_whole, rows
    assert rows.rows > 0
