"""
A driver whose topics are not what the checkpoint says, or whose brokers are away, says so by name.

Each test runs with the official connector where ``SPARK_PACKAGES_DIR`` names a folder with its jars, and with
the Python stand-in of the examples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.names import older_part
from airflow_streaming.model.records.epoch import Exit
from airflow_streaming.model.spark.conf import LOG_BYTES
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.conftest import REPOSITORY
from tests.integration.driver.running import Driver, World
from tests.integration.home.servers import free_ports
from tests.integration.servers.broker import create_topic, kafka_broker
from tests.integration.servers.connector import OFFICIAL, STAND_IN, official_jars
from tests.patience import PATIENCE, until

SCRIPT = """
import os
connector, servers, topics, trigger, *more = sys.argv[3:]
if connector == "python_kafka":
    import python_kafka
    from pyspark import cloudpickle
    cloudpickle.register_pickle_by_value(python_kafka)
    spark.dataSource.register(python_kafka.PythonKafka)
rows = (spark.readStream.format(connector)
        .option("kafka.bootstrap.servers", servers).option("subscribe", topics)
        .option("startingOffsets", "earliest").option("kafka.default.api.timeout.ms", "60000")
        .option("kafka.request.timeout.ms", "20000")
        .option("kafka.allow.auto.create.topics", "false").option("fetchOffset.numRetries", "1")
        .options(**dict(pair.split("=") for pair in more)).load())
writer = (rows.selectExpr("cast(value as string) as v").writeStream.queryName("q")
          .format("json").option("path", str(folder / "out")))
writer = writer.trigger(availableNow=True) if trigger == "once" else writer
writer.start().awaitTermination()
"""


MOST_LOG = 2_000_000
"""Bytes of a driver's log with its older part."""
LONG = pytest.mark.nightly("A driver is started again and again.")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(params=[OFFICIAL, STAND_IN])
def connector(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Reader:
    """One stream over topics, run from its checkpoint again and again."""

    def __init__(self, world: World, connector: str, stand_in: Path) -> None:
        self.world, self.connector, self.runs = world, connector, 0
        self._env = {"PYTHONPATH": str(stand_in)}
        self._options = ["--jars", official_jars()] if connector == OFFICIAL else []

    def start(
        self,
        servers: str,
        topics: str,
        trigger: str = "once",
        *more: str,
        env: Mapping[str, str] | None = None,
    ) -> Driver:
        self.runs += 1
        arguments = (
            str(self.world.folder),
            "{stream}",
            self.connector,
            servers,
            topics,
            trigger,
            *more,
        )
        self.world.deploy(
            SCRIPT,
            self.runs,
            application_args=arguments,
            checkpoint=str(self.world.home / "checkpoint"),
        )
        self.world.begin_epoch(self.runs, self.runs)
        return self.world.launch(self.runs, env={**self._env, **(env or {})}, submit=self._options)

    def ends(self, servers: str, topics: str, *more: str) -> Exit:
        driver = self.start(servers, topics, "once", *more)
        driver.ended()
        found = driver.exit()
        assert found is not None, driver.log
        return found

    def rows(self) -> int:
        files = (self.world.folder / "out").glob("*.json")
        return sum(len(file.read_text().splitlines()) for file in files)


@pytest.fixture
def reader(world: World, connector: str) -> Reader:
    return Reader(world, connector, REPOSITORY / "dags" / "kafka_to_kafka" / "jobs")


def send(broker: str, topic: str, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker})
    for number in range(count):
        producer.produce(topic, value=f"{number}")
    assert producer.flush(PATIENCE) == 0


def ask(broker: str, act: Callable[[Any], Mapping[Any, Any]]) -> None:
    """Have the broker do something, and wait for it."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker})
    [done] = act(client).values()
    done.result(PATIENCE)


@pytest.mark.nightly("A driver waits for its brokers for a minute.")
def test_brokers_that_do_not_answer_are_named_while_the_driver_waits_and_when_it_fails(
    reader: Reader,
) -> None:
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    refusal = f"No broker of topics clicks at {servers} accepts a connection (Connection refused)."
    begun = time.monotonic()

    driver = reader.start(servers, "clicks", "for ever")
    status = driver.until(
        lambda: (seen := driver.query("q")) is not None and seen.refusal and seen, "the refusal"
    )
    waited = time.monotonic() - begun
    driver.ended()
    ended = driver.exit()

    assert status.refusal == refusal
    assert 10.0 <= status.refused_for_s <= waited
    assert ended is not None
    assert ended.failure_kind is FailureKind.UNREACHABLE
    assert ended.retryable
    assert refusal in ended.reason


@LONG
def test_the_log_of_an_outage_keeps_its_bound_and_its_last_lines(
    world: World, tmp_path: Path
) -> None:
    reader = Reader(world, OFFICIAL, REPOSITORY)
    with kafka_broker(tmp_path / "leaves") as servers:
        create_topic(servers, "clicks", 1)
        send(servers, "clicks", 5)
        driver = reader.start(servers, "clicks", "for ever", env={LOG_BYTES: f"{MOST_LOG}"})
        driver.has_committed(1)
    older = driver.log_file.with_name(older_part(driver.log_file.name))
    driver.until(older.exists, "a log that was full")
    before, largest = older.stat().st_ino, 0

    def is_full_again_or_over() -> bool:
        nonlocal largest
        largest = max(largest, driver.log_file.stat().st_size + older.stat().st_size)
        return older.stat().st_ino != before or driver.process.poll() is not None

    # On a slow machine the query gives up before its log is full a second time.
    until(is_full_again_or_over, "a log that was full again, or the end of the driver")

    # A log grows past its half for as long as the driver's next look takes.
    assert largest < 3 * MOST_LOG
    assert "could not be established" in older.read_text(errors="replace") + driver.log


@LONG
def test_a_topic_that_was_created_anew_is_named_and_none_of_its_records_given_away(
    reader: Reader, broker: str
) -> None:
    topic = f"anew_{reader.connector}"
    create_topic(broker, topic, 1)
    send(broker, topic, 30)
    assert reader.ends(broker, topic).failure_kind is None
    ask(broker, lambda client: client.delete_topics([topic]))
    create_topic(broker, topic, 1)
    send(broker, topic, 10)

    ended = reader.ends(broker, topic)

    assert ended.failure_kind is FailureKind.INCOMPATIBLE
    assert f"Partition {topic}-0 ends at offset 10, and the checkpoint stands at 30" in ended.reason
    assert f"topics {topic} at {broker}" in ended.reason
    assert ended.remedy.startswith("Do not set failOnDataLoss=false")
    assert reader.rows() == 30


@LONG
def test_records_that_expired_are_named(reader: Reader, broker: str) -> None:
    from confluent_kafka import TopicPartition

    topic = f"expired_{reader.connector}"
    create_topic(broker, topic, 1)
    send(broker, topic, 20)
    assert reader.ends(broker, topic).failure_kind is None
    send(broker, topic, 20)
    ask(broker, lambda client: client.delete_records([TopicPartition(topic, 0, 30)]))

    ended = reader.ends(broker, topic)

    assert ended.failure_kind is FailureKind.INCOMPATIBLE
    assert f"Offsets 20 to 39 of partition {topic}-0 are planned" in ended.reason
    assert "continues with the oldest record" in ended.remedy
    assert reader.ends(broker, topic, "failOnDataLoss=false").failure_kind is None
    assert reader.rows() == 30


@LONG
def test_a_topic_that_the_query_left_is_no_lost_data(reader: Reader, broker: str) -> None:
    stays, leaves = f"stays_{reader.connector}", f"leaves_{reader.connector}"
    for topic in (stays, leaves):
        create_topic(broker, topic, 1)
        send(broker, topic, 5)
    assert reader.ends(broker, f"{stays},{leaves}").failure_kind is None

    ended = reader.ends(broker, stays)

    assert ended.failure_kind is FailureKind.INCOMPATIBLE
    assert f"no longer subscribes to {leaves}" in ended.reason
    assert "no record of the remaining topics is lost" in ended.remedy
    send(broker, stays, 3)
    assert reader.ends(broker, stays, "failOnDataLoss=false").failure_kind is None
    send(broker, stays, 3)
    assert reader.ends(broker, stays).failure_kind is None
    assert reader.rows() == 16


@LONG
def test_a_partition_that_was_added_is_read_from_its_beginning(reader: Reader, broker: str) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = f"added_{reader.connector}"
    create_topic(broker, topic, 1)
    send(broker, topic, 5)
    assert reader.ends(broker, topic).failure_kind is None
    ask(broker, lambda client: client.create_partitions([NewPartitions(topic, 3)]))
    send(broker, topic, 30)

    assert reader.ends(broker, topic).failure_kind is None
    assert reader.rows() == 35


@pytest.mark.nightly("A driver of its own.")
def test_a_topic_that_does_not_exist_is_named(reader: Reader, broker: str) -> None:
    ended = reader.ends(broker, "nowhere")

    assert "nowhere" in ended.reason
    assert broker in ended.reason


@pytest.mark.nightly("A driver works on while its brokers are asked.")
def test_when_unread_records_expire_is_told_while_the_query_reads(
    world: World, broker: str
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic, kept, age = "expiring", 6 * 3_600, 2 * 3_600
    new = NewTopic(topic, num_partitions=2, config={"retention.ms": str(kept * 1000)})
    ask(broker, lambda client: client.create_topics([new]))
    producer = Producer({"bootstrap.servers": broker})
    written = int((time.time() - age) * 1000)
    for number in range(4_000):
        producer.produce(topic, value=f"{number}", partition=number % 2, timestamp=written + number)
    assert producer.flush(PATIENCE) == 0
    assert AdminClient({"bootstrap.servers": broker}).list_topics().topics[topic]

    reader = Reader(world, OFFICIAL, REPOSITORY / "dags" / "kafka_to_kafka" / "jobs")
    driver = reader.start(broker, topic, "always", "maxOffsetsPerTrigger=2")

    def source() -> Any:
        status = driver.status()
        progress = status.queries[0].progress if status and status.queries else None
        found = progress.sources[0] if progress else None
        return found if found is not None and (found.loss_gap or found.kept_for_s) else None

    found = driver.until(source, "the brokers to have been asked")
    assert (found.loss_gap, found.kept_for_s) == ("", kept)
    assert found.loss_in_s == pytest.approx(kept - age, abs=300)
    assert found.loss_in_s <= kept - age + 1
    assert found.loss_share == pytest.approx(2 / 3, abs=0.02)
