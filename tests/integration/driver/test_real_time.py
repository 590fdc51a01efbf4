"""
Queries in real-time mode: kills repeat at most an interval, a stop waits for the commit, too few slots are refused.

Rows come from Spark's memory source with real-time mode, which a script fills anew with the same rows after a kill. The
sink and the counting of slots need the official connector: ``SPARK_PACKAGES_DIR`` names a folder with its jars.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.model.records.epoch import Outcome
from tests.conftest import REPOSITORY
from tests.integration.driver.running import Driver, World
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.connector import official_jars
from tests.patience import until

Record = Callable[[str, object], None]
JOBS: Final = REPOSITORY / "dags" / "real_time" / "jobs"
KILLS: Final = 10
INTERVAL: Final = 5.0
RATE: Final = 20
"""Rows a second that the script gives."""
COMMIT: Final = 10.0
"""Seconds that a loaded machine may take to plan and to commit a batch."""

SCRIPT: Final = """
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_, _, servers, into, kind = sys.argv[1:]
jvm, fed = spark._jvm, folder / "fed"
source = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream.apply(
    spark._jsparkSession, 2, jvm.org.apache.spark.sql.Encoders.STRING())

def give(first, last):
    for place in (0, 1):
        rows = [f"{n},{int(time.time() * 1000)}" for n in range(first, last) if n % 2 == place]
        source.addData(place, jvm.PythonUtils.toSeq(rows))

def feed():
    while not (folder / "enough").exists():
        first = int(fed.read_text())
        (folder / "next").write_text(str(first + 2))
        (folder / "next").replace(fed)  # a row that is not written down is not given
        give(first, first + 2)
        time.sleep(2 / RATE)

if fed.exists():
    give(0, int(fed.read_text()))
else:
    fed.write_text("0")
threading.Thread(target=feed, daemon=True).start()
rows = DataFrame(source.toDF(), spark).selectExpr(
    "split(value, ',')[0] n",
    "cast(reflect('java.lang.System', 'currentTimeMillis') as bigint) "
    "- cast(split(value, ',')[1] as bigint) latency_ms")
rows = rows.observe("latency", *[F.percentile_approx("latency_ms", share).alias(name)
                                 for name, share in (("p50", 0.5), ("p99", 0.99))])
if kind == "counted":
    rows = rows.groupBy((F.col("n") % 5).cast("int").cast("string").alias("k")).count()
    rows = rows.selectExpr("k key", "to_json(struct(k, count)) value")
else:
    rows = rows.selectExpr("n key", "to_json(struct(cast(n as int) n)) value")
(rows.writeStream.queryName("q").format("kafka").option("kafka.bootstrap.servers", servers)
 .option("topic", into).outputMode("update").trigger(realTime="INTERVAL seconds")
 .start().awaitTermination())
""".replace("INTERVAL", f"{INTERVAL:g}").replace("RATE", f"{RATE}")


class RealTime:
    """One script, run from its checkpoint again and again."""

    def __init__(self, world: World, broker: str, kind: str) -> None:
        self.world, self.broker, self.epoch = world, broker, 0
        self.into = f"out-{time.monotonic_ns()}"
        create_topic(broker, self.into, 1)
        world.deploy(
            SCRIPT, application_args=(str(world.folder), "{stream}", broker, self.into, kind)
        )

    def start(self) -> Driver:
        self.epoch += 1
        self.world.begin_epoch(self.epoch)
        return self.world.launch(
            self.epoch, submit=["--jars", official_jars(), "--master", "local[6]"]
        )

    def killed(self) -> None:
        """Kill drivers at several places of an interval, each after it has committed."""
        for kill in range(KILLS):
            driver = self.start().has_committed(1)
            time.sleep(kill % 3 * 1.7)
            driver.kill()

    def end(self) -> int:
        """Give no more rows and return how many there are."""
        (self.world.folder / "enough").touch()
        time.sleep(1)
        return int((self.world.folder / "fed").read_text())

    def written(self) -> list[dict[str, Any]]:
        """Return the values of the output topic so far."""
        return [message.value for message in consume(self.broker, self.into, -1, within=5)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.mark.nightly("Twelve drivers.")
def test_kills_lose_nothing_and_repeat_at_most_an_interval_each(
    world: World, broker: str, record_property: Record
) -> None:
    stream = RealTime(world, broker, "plain")
    stream.killed()
    driver = stream.start().has_committed(2)
    busy = driver.query("q")
    assert busy is not None
    assert busy.checkpoint_interval_s == INTERVAL
    assert busy.is_reading
    assert busy.progress is not None
    assert {"latency.p50", "latency.p99"} <= busy.progress.observed.keys()
    record_property("latency", dict(busy.progress.observed))

    given = stream.end()
    until(lambda: len(_numbers(stream)) == given, "Every row", seen=lambda: driver.log)
    idle = driver.until(lambda: _without_rows(driver), "An interval without rows")
    assert not idle.is_reading
    repeated = sum(_numbers(stream).values()) - given
    record_property("kills", f"{KILLS}: {given} given, 0 lost, {repeated} written again")
    assert set(_numbers(stream)) == set(range(given))
    assert repeated <= KILLS * RATE * (INTERVAL + COMMIT)

    driver.request_stop()
    assert driver.ended() == 0, driver.log
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    assert inspect(str(world.checkpoint())).is_sound


@pytest.mark.nightly("Four drivers.")
@pytest.mark.parametrize("kind", ["plain", "counted"])
def test_a_query_that_died_in_its_first_interval_begins_again(
    world: World, broker: str, kind: str
) -> None:
    stream = RealTime(world, broker, kind)
    driver = stream.start()
    driver.until((world.checkpoint() / "offsets" / "0").exists, "The first plan")
    if kind == "counted":
        driver.until((world.checkpoint() / "state").exists, "The first state")
    driver.kill()
    assert not (world.checkpoint() / "commits" / "0").exists()

    driver = stream.start().has_committed(1)
    driver.request_stop()

    assert driver.ended() == 0, driver.log


@pytest.mark.nightly("Two drivers.")
def test_a_stop_waits_for_the_commit_and_repeats_less_than_a_second(
    world: World, broker: str, record_property: Record
) -> None:
    stream = RealTime(world, broker, "plain")
    driver = stream.start().has_committed(2)
    time.sleep(INTERVAL / 2)
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    stopped = sum(_numbers(stream).values())
    given = stream.end()
    driver = stream.start().has_committed(1)
    until(lambda: len(_numbers(stream)) == given, "Every row", seen=lambda: driver.log)
    repeated = sum(_numbers(stream).values()) - given
    record_property("stop", f"{stopped} written before, {repeated} written again")
    # Without the wait it would be about half an interval, 50 rows.
    assert repeated <= RATE


@pytest.mark.nightly("Eleven drivers.")
def test_state_counts_each_row_once_over_kills(
    world: World, broker: str, record_property: Record
) -> None:
    stream = RealTime(world, broker, "counted")
    stream.killed()
    driver = stream.start().has_committed(1)
    given = stream.end()
    expected = {f"{key}": len(range(key, given, 5)) for key in range(5)}

    def last() -> dict[str, int]:
        return {row["k"]: row["count"] for row in stream.written()}

    until(lambda: last() == expected, "Every row counted once", seen=lambda: f"{last()} {expected}")
    record_property("kills", f"{KILLS}: {given} rows given, counts {last()}")
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    found = inspect(str(world.checkpoint()))
    assert found.is_sound
    assert found.state_format == 2


@pytest.mark.nightly("A driver each.")
@pytest.mark.parametrize(
    ("job", "cores", "sentence"),
    [
        ("mask_payments.py", 1, "It needs 2 task slots at once (2 to read partitions)"),
        (
            "count_payments.py",
            3,
            "It needs 4 task slots at once (2 to read partitions, 2 behind shuffles)",
        ),
    ],
)
def test_a_query_without_a_slot_for_each_task_is_refused(
    world: World, broker: str, job: str, cores: int, sentence: str
) -> None:
    topic = f"in-{time.monotonic_ns()}"
    create_topic(broker, topic, 2)
    script = (JOBS / job).read_text().replace("from __future__ import annotations", "")
    world.deploy(script, application_args=("--servers", broker, "--topic", topic))
    world.begin_epoch()
    options = ["--jars", official_jars(), "--master", f"local[{cores}]"]
    driver = world.launch(submit=options)
    assert driver.ended() != 0
    ended = driver.exit()
    assert ended is not None
    assert sentence in ended.reason


def _numbers(stream: RealTime) -> Counter[int]:
    return Counter(row["n"] for row in stream.written())


def _without_rows(driver: Driver) -> Any:
    seen = driver.query("q")
    return seen if seen is not None and seen.progress and not seen.progress.input_rows else None
