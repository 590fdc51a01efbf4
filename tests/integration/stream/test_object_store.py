"""A stream without a shared disk: home, checkpoint, output and backups on a real S3 server."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet
import pytest
import s3fs
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.gate import ChangeGateOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator
from airflow_streaming.operators.switch import StopStreamOperator
from airflow_streaming.services import streams
from tests.conftest import REPOSITORY
from tests.integration.home.servers import ACCESS_KEY, SECRET_KEY, S3Server, seaweedfs
from tests.integration.stream.conftest import RealStream, first_event

HOME = "s3://streams/home"
CONNECTION = "streams_home"
_S3A: Final = re.compile(
    r"(hadoop-aws|aws-java-sdk-\w+|jmespath-java|ion-java|joda-time|jackson-dataformat-cbor)-\d"
)


class StoredStream(RealStream):
    """A stream of which this host holds nothing but the driver's process and its log."""

    def __init__(self, folder: Path, server: S3Server, jars: list[str]) -> None:
        super().__init__(folder)
        self.server, self.jars, self.uri = server, jars, HOME
        self.files = s3fs.S3FileSystem(**server.options)

    @property
    def home(self) -> StreamHome:
        return open_home(HOME, storage_options=self.server.options).stream(self.lane)

    def spec(self, **changes: Any) -> Any:
        asked = {"runtime": "spark-3.5", "jars": self.jars, "output": None}
        return super().spec(**{**asked, **changes})

    def operator(self, **changes: Any) -> Any:
        operator = super().operator(**changes)
        operator.home_conn_id = CONNECTION
        return operator

    def numbers(self) -> list[int]:
        """Return the rows that the sink's log vouches for, sorted."""
        log = f"{HOME}/orders/output/000001/_spark_metadata"
        names = {path.rpartition("/")[2]: path for path in self.files.find(log)}
        compacted = max((int(n[:-8]) for n in names if n.endswith(".compact")), default=-1)
        later = [n for n in names if n.isdigit() and int(n) > compacted]
        found: list[int] = []
        for name in [*(n for n in names if n == f"{compacted}.compact"), *later]:
            for line in self.files.cat_file(names[name]).decode().splitlines()[1:]:
                with self.files.open(json.loads(line)["path"].replace("s3a://", "s3://")) as file:
                    found += pyarrow.parquet.read_table(file, columns=["value"])[
                        "value"
                    ].to_pylist()
        return sorted(found)

    def rows_are_whole(self) -> int:
        """Check that the output has every row once; return how many."""
        rows = self.numbers()
        assert rows == list(range(len(rows)))
        return len(rows)

    def driver_arguments(self, epoch: int) -> list[str]:
        deployment = self.home.deployment(self.home.epoch(epoch).deployment)
        return deployment.arguments(self.uri)

    def stop(self) -> None:
        """Stop the stream as a dag does, and wait for the driver's end."""
        newest = self.epochs()
        stop = StopStreamOperator(
            task_id="stop", home=self.uri, home_conn_id=CONNECTION, stream="orders"
        )
        with suppress(TaskDeferred):  # a driver that is quick has ended by then
            stop.execute(self.context())
        self.until(lambda: self.home.exit(newest) is not None, "the exit record")
        self.until(lambda: self.is_gone(newest), f"the end of epoch {newest}")

    def checkpoint_task(self, kind: Any, **arguments: Any) -> Any:
        task = kind(
            task_id="task",
            stream="orders",
            home=self.uri,
            home_conn_id=CONNECTION,
            **arguments,
        )
        return task.execute(self.context())


@pytest.fixture(scope="module")
def s3a_jars() -> list[str]:
    """The jars that Spark 3.5 lacks to open ``s3a://``."""
    found = (REPOSITORY / ".runtimes" / "s3a").rglob("*.jar")
    jars = sorted(str(jar) for jar in found if _S3A.match(jar.name))
    if not jars:
        pytest.skip("There is no .runtimes/s3a with hadoop-aws; 'make test' fetches it.")
    return jars


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as found:
        yield found


@pytest.fixture
def stored(
    tmp_path: Path,
    spark_3_5: Path,
    s3a_jars: list[str],
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StoredStream]:
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-3.5": str(spark_3_5)}))
    monkeypatch.setenv("AIRFLOW__STREAMING__DRIVER_FOLDER", str(tmp_path / "drivers"))
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"})
    )
    home = {
        "conn_type": "stream_home",
        "login": ACCESS_KEY,
        "password": SECRET_KEY,
        "extra": {"endpoint_url": server.endpoint, "region": "us-east-1"},
    }
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(home))
    monkeypatch.setattr("airflow_streaming.triggers.polling.HOLD", timedelta(0))
    stream = StoredStream(tmp_path, server, s3a_jars)
    yield stream
    stream.end()


async def test_a_stream_without_a_shared_disk_survives_kills_and_goes_back(
    stored: StoredStream,
) -> None:
    operator = stored.operator()
    trigger = stored.run(operator)
    stored.until(lambda: stored.batches(1) >= 3, "batches of epoch 1")
    assert stored.driver_arguments(1) == ["s3a://streams/home/orders/output/000001"]

    os.killpg(int(stored.launch(1).handle["pid"]), signal.SIGKILL)
    while stored.epochs() == 1:
        trigger = stored.wake(trigger, operator, **(await first_event(trigger)))
    stored.until(lambda: stored.batches(2) >= 3, "batches of epoch 2")

    backup = stored.checkpoint_task(CheckpointBackupOperator, verify="full")
    before = stored.batches(2)
    stored.until(lambda: stored.batches(2) > before, "a batch after the backup")
    gate = ChangeGateOperator(task_id="gate", stream=stored.spec(), home_conn_id=CONNECTION)
    assert gate.execute(stored.context()) == GateDecision.ALLOWED.value
    rehearsal = RehearsalOperator(
        task_id="rehearse",
        stream=stored.spec(),
        home_conn_id=CONNECTION,
        conf={"spark.sql.shuffle.partitions": "2"},
        batches=1,
    )
    assert rehearsal.execute(stored.context()) == GateDecision.ALLOWED.value
    stored.stop()
    assert stored.rows_are_whole() > 0

    assert (
        stored.checkpoint_task(CheckpointVerifyOperator, backup_id=backup, level="drill") == backup
    )
    stored.checkpoint_task(CheckpointRestoreOperator, backup_id=backup, dry_run=False)
    streams.start(stored.home, by="a test", reason="It is restored.")
    stored.run(stored.operator(application_args=["{output}", "new"]), restart=True)
    stored.until(lambda: stored.batches(3) >= 3, "batches of epoch 3")
    restored, changed = stored.home.deployment(2), stored.home.deployment(3)
    assert stored.home.epoch(3).deployment == 3
    assert changed.checkpoint == restored.checkpoint != stored.home.deployment(1).checkpoint
    stored.stop()
    assert stored.rows_are_whole() > 0
