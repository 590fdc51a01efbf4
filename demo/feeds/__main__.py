"""
Send a feed into a folder, a Kafka topic, or to the clients of a socket.

    python -m demo.feeds sensors --folder /tmp/sensors --files 30 --every 2
    python -m demo.feeds sensors --kafka 127.0.0.1:19192 --topic sensors
    python -m demo.feeds mentions --socket 9999
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from demo.events import drop
from demo.feeds.shapes import FEEDS


def main() -> None:
    """Send files until done."""
    parser = argparse.ArgumentParser(prog="demo.feeds", description="Send synthetic events.")
    parser.add_argument("feed", choices=sorted(FEEDS))
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--folder", type=Path)
    target.add_argument("--kafka", help="host and port of a broker")
    target.add_argument("--socket", type=int, help="port to listen on, 127.0.0.1 only")
    parser.add_argument("--topic", help="default: the feed's name")
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two files")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    files = paced(FEEDS[given.feed].files(given.files, given.seed), given.every)
    if given.folder:
        for name, content in files:
            drop(given.folder, name, content)
    elif given.kafka:
        to_topic(files, given.kafka, given.topic or given.feed)
    else:
        to_socket(files, given.socket)


def paced(files: Iterator[tuple[str, str]], every: float) -> Iterator[tuple[str, str]]:
    """Wait after each file."""
    for one in files:
        yield one
        time.sleep(every)


def to_topic(files: Iterator[tuple[str, str]], broker: str, topic: str) -> None:
    """Send every line as a message with the file's name as a header; needs confluent-kafka."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
    for name, content in files:
        for line in content.splitlines():
            producer.produce(topic, value=line, headers=[("file", name.encode())])
        producer.flush()


def to_socket(files: Iterator[tuple[str, str]], port: int) -> None:
    """Wait for one reader, and send it every line."""
    with socket.create_server(("127.0.0.1", port)) as server:
        reader, _ = server.accept()
        with reader:
            for _, content in files:
                reader.sendall(content.encode())


if __name__ == "__main__":
    main()
