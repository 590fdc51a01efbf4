"""
Queries in real-time mode: kills repeat at most an interval, a stop waits for the commit, too few slots are refused.

The jobs are those of the example ``dags/real_time``. They need the official connector: ``SPARK_PACKAGES_DIR`` names a
folder with its jars.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from airflow_streaming.model.records.epoch import Outcome
from tests.conftest import REPOSITORY
from tests.integration.driver.running import Driver, World
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.connector import official_jars
from tests.patience import PATIENCE, until

Record = Callable[[str, object], None]
JOBS: Final = REPOSITORY / "dags" / "real_time" / "jobs"
KILLS: Final = 10
INTERVAL: Final = 5.0
RATE: Final = 20
"""Rows a second that are sent."""
COMMIT: Final = 10.0
"""Seconds that a loaded machine may take to plan and to commit a batch."""


class Payments:
    """A producer that numbers its rows."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer, self._topic = Producer({"bootstrap.servers": address}), topic
        self.sent = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        while not self._done.wait(1 / RATE):
            value = json.dumps({"number": self.sent})
            self._producer.produce(self._topic, key=f"{self.sent % 5}", value=value)
            self._producer.poll(0)
            self.sent += 1

    def end(self) -> int:
        """Stop sending and return how many rows were sent."""
        self._done.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE) == 0
        return self.sent


class RealTime:
    """One job of the example, run from its checkpoint again and again."""

    def __init__(self, world: World, broker: str, job: str, query: str) -> None:
        self.world, self.broker, self.query, self.epoch = world, broker, query, 0
        self.into = f"out-{query}-{time.monotonic_ns()}"
        self.topic = f"in-{query}-{time.monotonic_ns()}"
        create_topic(broker, self.topic, 2)
        create_topic(broker, self.into, 1)
        arguments = ("--servers", broker, "--topic", self.topic, "--into", self.into)
        world.deploy(
            (JOBS / job).read_text().replace("from __future__ import annotations", ""),
            application_args=(*arguments, "--interval", f"{INTERVAL:g} seconds"),
        )

    def start(self, cores: int = 4) -> Driver:
        self.epoch += 1
        self.world.begin_epoch(self.epoch)
        options = ["--jars", official_jars(), "--master", f"local[{cores}]"]
        return self.world.launch(self.epoch, submit=options)

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
    stream = RealTime(world, broker, "mask_payments.py", "masked")
    payments = Payments(broker, stream.topic)
    for kill in range(KILLS):
        driver = stream.start().has_committed(1, "masked")
        if kill == 0:
            seen = driver.query("masked")
            assert seen is not None
            assert seen.checkpoint_interval_s == INTERVAL
            assert seen.progress is not None
            assert {"latency.p50", "latency.p95", "latency.p99"} <= seen.progress.observed.keys()
            record_property("latency", dict(seen.progress.observed))
        time.sleep(kill % 3 * 1.7)  # anywhere in an interval
        driver.kill()
    driver = stream.start().has_committed(1, "masked")
    sent = payments.end()
    until(
        lambda: len({row["number"] for row in stream.written()}) == sent,
        "Every row in the output topic",
        seen=lambda: driver.log,
    )
    idle = driver.until(lambda: _idle(driver, "masked"), "An interval without rows")
    assert not idle.is_reading

    counts = Counter(row["number"] for row in stream.written())
    repeated = sum(counts.values()) - sent
    record_property("kills", f"{KILLS}: {sent} sent, {sent - len(counts)} lost, {repeated} again")
    assert set(counts) == set(range(sent))
    assert 0 < repeated <= KILLS * RATE * (INTERVAL + COMMIT)

    before = len(stream.written())
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    ended = driver.exit()
    assert ended is not None
    assert ended.outcome is Outcome.STOPPED
    stream.start().has_committed(1, "masked").kill()
    assert len(stream.written()) == before


def _idle(driver: Driver, query: str) -> Any:
    seen = driver.query(query)
    return seen if seen is not None and seen.progress and not seen.progress.input_rows else None


@pytest.mark.nightly("Eleven drivers.")
def test_state_counts_each_row_once_over_kills(
    world: World, broker: str, record_property: Record
) -> None:
    stream = RealTime(world, broker, "count_payments.py", "counted")
    payments = Payments(broker, stream.topic)
    for kill in range(KILLS):
        driver = stream.start().has_committed(1, "counted")
        time.sleep(kill % 3 * 1.7)
        driver.kill()
    driver = stream.start().has_committed(1, "counted")
    sent = payments.end()
    expected = {f"{key}": len(range(key, sent, 5)) for key in range(5)}

    def last() -> dict[str, int]:
        return {row["key"]: row["payments"] for row in stream.written()}

    until(lambda: last() == expected, "Every row counted once", seen=lambda: f"{last()} {expected}")
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    record_property("kills", f"{KILLS}: {sent} rows sent, counts {last()}")


@pytest.mark.nightly("A driver.")
def test_a_query_without_a_slot_for_each_task_is_refused(world: World, broker: str) -> None:
    stream = RealTime(world, broker, "count_payments.py", "counted")
    driver = stream.start(cores=3)
    assert driver.ended() != 0
    ended = driver.exit()
    assert ended is not None
    assert "4 task slots at once (2 to read partitions, 2 behind shuffles)" in ended.reason
