"""A stream without a shared disk: home, checkpoint, output and backups on a real S3 server."""

# ruff: noqa: T201 - it prints what it has measured

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import pyarrow.parquet
import pytest
import s3fs
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.home.home import StreamHome, init_home, open_home
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.operators.backup import CheckpointBackupOperator
from airflow_streaming.operators.gate import ChangeGateOperator
from airflow_streaming.operators.rehearsal import RehearsalOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator
from airflow_streaming.operators.switch import StopStreamOperator
from airflow_streaming.options import Approval, Connections, CutoverOptions
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.services import streams
from airflow_streaming.spec import CompareTerms, ReadyTerms, SoakTerms
from tests.conftest import REPOSITORY
from tests.integration.home.servers import ACCESS_KEY, S3A, SECRET_KEY, S3Server, seaweedfs
from tests.integration.stream.conftest import RealStream, first_event
from tests.patience import PATIENCE
from tests.unit.operators.upgrades import TaskInstance

BUCKET = "s3://streams"
CONNECTION = "streams_home"
READER: Final = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.text(source).select(F.col("value").cast("long").alias("value"))
rows.withColumn("at", F.timestamp_seconds("value")).writeStream.queryName("numbers").format("parquet")\\
    .trigger(processingTime="1 second").start(output)
"""
STEPS: Final = ("start_green", "catch_up", "shadow", "compare", "switch", "soak", "settle")


class StoredStream(RealStream):
    """A stream of which this host holds nothing but the driver's process and its log."""

    spark = "3.5.9"

    def __init__(self, folder: Path, server: S3Server, jars: list[str]) -> None:
        super().__init__(folder)
        self.server, self.jars, self.uri = server, jars, f"{BUCKET}/{folder.name}"
        init_home(self.uri, server.options)
        self.files = s3fs.S3FileSystem(**server.options, use_listings_cache=False)

    @property
    def home(self) -> StreamHome:
        return open_home(self.uri, storage_options=self.server.options).stream(self.lane)

    def spec(self, **changes: Any) -> Any:
        asked = {"runtime": "spark-3.5", "jars": self.jars, "output": None}
        return super().spec(**{**asked, **changes})

    @property
    def input(self) -> str:
        """Return a folder of the store that is this test's own."""
        return f"{BUCKET}/in-{self.folder.name}"

    @property
    def reads(self) -> dict[str, Any]:
        """Return how its spec reads the input."""
        return {"application_args": [self.input.replace("s3://", "s3a://"), "{output}"]}

    def reader(self) -> Any:
        """Return the spec of the stream that reads the input."""
        return self.spec(**self.reads)

    def operator(self, **changes: Any) -> Any:
        operator = super().operator(**changes)
        operator.home_conn_id = CONNECTION
        return operator

    def numbers(self, output: str = "") -> list[int]:
        """Return the rows that the log of a sink vouches for, by default the first one's, sorted."""
        log = f"{output or f'{self.uri}/orders/output/000001'}/_spark_metadata"
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

    def output_of(self, lane: str) -> str:
        """Return where the newest driver of a lane writes."""
        self.lane = lane
        return self.home.deployment(self.epoch().deployment).output

    def end(self) -> None:
        for lane in ("orders", other_lane("orders")):
            self.lane = lane
            super().end()

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
    jars = sorted(str(jar) for jar in found if S3A.match(jar.name))
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


@pytest.mark.nightly("It kills and restores a stream on S3 for two minutes.")
async def test_a_stream_without_a_shared_disk_survives_kills_and_goes_back(
    stored: StoredStream,
) -> None:
    operator = stored.operator()
    trigger = stored.run(operator)
    stored.until(lambda: stored.batches(1) >= 3, "batches of epoch 1")
    spelled = stored.uri.replace("s3://", "s3a://")
    assert stored.driver_arguments(1) == [f"{spelled}/orders/output/000001"]

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
    stored.checkpoint_task(CheckpointRestoreOperator, backup_id=backup, rewind=True, dry_run=False)
    streams.start(stored.home, by="a test", reason="It is restored.")
    stored.run(stored.operator(application_args=["{output}", "new"]), restart=True)
    stored.until(lambda: stored.batches(3) >= 3, "batches of epoch 3")
    restored, changed = stored.home.deployment(2), stored.home.deployment(3)
    assert stored.home.epoch(3).deployment == 3
    assert changed.checkpoint == restored.checkpoint != stored.home.deployment(1).checkpoint
    stored.stop()
    assert stored.rows_are_whole() > 0


class Arrivals:
    """Writes files of ten numbers into the store, one after another, in a thread."""

    def __init__(self, files: s3fs.S3FileSystem, folder: str) -> None:
        self._files, self._folder, self.rows = files, folder, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._over.wait(1.0):
            lines = "\n".join(map(str, range(self.rows, self.rows + 10)))
            self._files.pipe_file(f"{self._folder}/{self.rows:09}", lines.encode())
            self.rows += 10


class CutoverRun:
    """
    One run of a cutover's dag, task after task, with the real triggers between.

    :param options: As a dag has them; nobody is asked.
    """

    def __init__(self, stream: StoredStream, **options: Any) -> None:
        self._stream, self._xcoms = stream, dict[tuple[str, str], Any]()
        with DAG("orders_blue_green", schedule=None) as self._dag:
            blue_green(
                stream.reader(),
                CutoverOptions(
                    dry_run=False,
                    approval={"begin": "auto", "switch": Approval.AUTO},
                    ready=ReadyTerms(well_for=timedelta(seconds=2), batches=3),
                    soak=SoakTerms(batches=3, at_least=timedelta(seconds=2)),
                    **options,
                ),
                connections=Connections(home_conn_id=CONNECTION),
            )

    async def go(self, name: str) -> Any:
        """Run one task to its end."""
        task = self._dag.get_task(f"blue_green.{name}")
        ti = TaskInstance(
            task_id=task.task_id, run_id="run-1", xcoms=self._xcoms, dag_id=self._dag.dag_id
        )
        context: Any = {**self._stream.context(), "ti": ti}
        task.render_template_fields(context)
        begun, event = time.monotonic(), None
        while True:
            try:
                resumed = event is not None
                found = task.execute_complete(context, event) if resumed else task.execute(context)
            except TaskDeferred as deferred:
                _, kwargs = deferred.trigger.serialize()
                event = await first_event(type(deferred.trigger)(**kwargs))
                continue
            self._xcoms[task.task_id, "return_value"] = found
            print(f"{name}: {time.monotonic() - begun:.1f} s, {found}", flush=True)
            return found


@pytest.mark.nightly("It takes three minutes.")
async def test_a_cutover_without_a_shared_disk_loses_and_doubles_nothing(
    stored: StoredStream,
) -> None:
    stored.script.write_text(READER)
    arriving = Arrivals(stored.files, stored.input)
    with arriving:
        stored.run(stored.operator(**stored.reads))
        stored.until(lambda: stored.batches(1) >= 3, "batches of blue")
        blue = stored.output_of("orders")

        stored.script.write_text(f"{READER}# Another version.\n")
        run = CutoverRun(
            stored,
            way="parallel",
            start="fresh",
            compare=CompareTerms(stream="orders", time="at", full=True),
        )
        for step in ("preflight", *STEPS):
            ended = await run.go(step)
        assert ended["state"] == CutoverState.FINALIZED

        green = stored.output_of(other_lane("orders"))
        epoch, before = stored.epochs(), stored.batches(stored.epochs())
        stored.until(lambda: stored.batches(epoch) >= before + 3, "batches of a live green")
    # What was written last is read before the stop.
    last = arriving.rows - 1
    stored.until(lambda: last in stored.numbers(green), "the last row", every=2.0)
    stored.stop()

    written, read = stored.numbers(green), stored.numbers(blue)
    print(f"{arriving.rows} rows written, blue has {len(read)}, green {len(written)}")
    assert written == list(range(arriving.rows)), "green alone has every row once"
    assert read == list(range(len(read))), "blue has none twice and leaves none out"
