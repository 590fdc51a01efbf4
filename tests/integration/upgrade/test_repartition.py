"""A real Spark gives state another number of partitions; rows and the way back are as if untouched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.changes.upgrade.repartition import SparkRepartitioner
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.testing import StreamTester
from tests.system.repartitions import JOB, Proof, arrive, shared_spark
from tests.unit.home.make import SCRIPT, make_deployment

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
SHAPES = ("window", "dedup", "join_inner", "with_state_value")


@pytest.fixture(scope="module")
def spark(spark_4_3: Path) -> Iterator[StreamTester]:
    with shared_spark(spark_4_3) as found:
        yield found


@pytest.mark.nightly("The job of an upgrade below rewrites the state, too.")
@pytest.mark.parametrize("shape", SHAPES)
def test_up_and_down_the_rows_are_those_of_a_run_that_was_never_touched(
    spark: StreamTester, tmp_path: Path, shape: str
) -> None:
    proof = Proof(spark, tmp_path, shape, "rocksdb")
    for partitions in (5, 2):
        found = proof.to(partitions)
        assert found.gate == ("state_partitions.possible",), found
        assert found.condition == "", found
        assert found.is_same, found
        assert found.is_back, found


@pytest.mark.nightly("Two more queries.")
def test_a_store_that_spark_cannot_repartition_is_refused_beforehand(
    spark: StreamTester, tmp_path: Path
) -> None:
    found = Proof(spark, tmp_path, "window", "hdfs").to(5)

    assert found.gate == ("state_partitions.provider",)
    assert found.condition.endswith("UNSUPPORTED_PROVIDER"), "a Spark that can do it needs no gate"
    assert found.starts, "what Spark leaves does not start: that is what the gate is for"
    assert found.is_back


def test_the_job_of_an_upgrade_does_it_and_says_why_not(
    spark: StreamTester, spark_4_3: Path, tmp_path: Path
) -> None:
    home = StreamHome(LocalStore(str(tmp_path / "home")), "orders")
    checkpoint = tmp_path / "checkpoints"
    home.create_deployment(make_deployment(1, checkpoint=str(checkpoint)), SCRIPT)
    arrive(tmp_path / "in", range(3))
    given = ("window", "rocksdb", tmp_path / "in", checkpoint / "counts", tmp_path / "out", 3)
    spark.call(JOB, "run", *given)
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    repartitioner = SparkRepartitioner(home, lambda: (runtime, ROCKSDB))

    assert not repartitioner.is_done(5)
    answer = repartitioner.run(5)
    assert answer.condition == "", answer
    assert repartitioner.is_done(5)
    again = repartitioner.run(5)
    assert again.condition == "", "what is done is left as it is"

    # A batch that was planned and not committed: Spark refuses before it writes anything.
    folder = checkpoint / "counts"
    newest = max(int(one.name) for one in (folder / "commits").glob("[0-9]*"))
    (folder / "commits" / str(newest)).unlink()
    (folder / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    before = sorted(str(one) for one in folder.rglob("*"))
    refused = repartitioner.run(4)
    assert refused.condition.startswith("STATE_REPARTITION_INVALID_CHECKPOINT"), refused
    assert sorted(str(one) for one in folder.rglob("*")) == before
