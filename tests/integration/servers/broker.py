"""A Kafka-protocol broker of this host, and what a consumer finds in it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.home.servers import free_ports, program
from tests.integration.servers.programs import running
from tests.patience import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What was consumed."""

    key: str
    value: dict[str, Any]
    headers: dict[str, str]


@contextlib.contextmanager
def kafka_broker(folder: Path, port: int | None = None) -> Iterator[str]:
    """Run the broker; gives its address."""
    chosen = free_ports(1)[0] if port is None else port
    command = [
        *(program("noida-db"), "start", "--data-dir", str(folder / "data")),
        *("--only", "kafka", "--kafka-port", str(chosen)),
    ]
    folder.mkdir(exist_ok=True)
    with running(command, folder, is_ready=lambda: _listens(chosen)):
        yield f"127.0.0.1:{chosen}"


def create_topic(address: str, topic: str, partitions: int = 3) -> None:
    """Create a topic, unless a producer that was waiting for the broker has asked for it first."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    [created] = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    try:
        created.result(PATIENCE)
    except KafkaException as err:
        if err.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def count_records(address: str, topic: str) -> int:
    """Return how many records a topic has, repeats included."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "test"})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in partitions]
        bounds = [consumer.get_watermark_offsets(place, timeout=PATIENCE) for place in places]
    finally:
        consumer.close()
    return sum(high - low for low, high in bounds)


def consume(address: str, topic: str, count: int, *, within: float = PATIENCE) -> list[Message]:
    """
    Read a topic from its beginning until so many messages came, or the time is over.

    It then listens a second longer, so that a message too many is seen as well.
    """
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"test-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        found.append(_read(message))
        if len(found) == count:
            deadline = time.monotonic() + 1
    consumer.close()
    return found


def _read(message: Any) -> Message:
    return Message(
        key=message.key().decode(),
        value=json.loads(message.value()),
        headers={name: value.decode() for name, value in message.headers() or ()},
    )


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0
