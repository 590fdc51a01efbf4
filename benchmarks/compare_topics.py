"""
Measure the seconds, CPU and memory of a comparison of two topics.

Two topics of the tests' broker get the same records in another order, and ``airflow-streaming compare`` reads both in
a process of its own. Topics with one record show the share of the start.

    python -m benchmarks.compare_topics --records 100000
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from benchmarks.figures import heed_signals, machine, table
from tests.integration.servers.broker import create_topic, kafka_broker

PROGRAM: Final = """
import json, sys, time
from pathlib import Path
began = time.perf_counter()
from airflow_streaming.cli.main import main
code = main(sys.argv[1:])
peak = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
print(json.dumps([time.perf_counter() - began, time.process_time(), int(peak.split()[1]) / 1024]), file=sys.stderr)
sys.exit(code)
"""
"""Runs the command and prints its cost. The kernel's figure for a child would begin with the memory of its parent."""


class Cost(NamedTuple):
    """The cost of one comparison."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def fill(address: str, topic: str, numbers: Sequence[int]) -> None:
    """Send one record for each number: an order of about 100 bytes with a nested key."""
    create_topic(address, topic)
    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 0})
    for number in numbers:
        order = {"id": number, "customer": f"customer-{number % 997}"}
        value = json.dumps({"order": order, "amount": number * 7 % 10_007, "state": "paid"})
        producer.produce(topic, key=f"customer-{number % 997}", value=value)
        producer.poll(0)
    if left := producer.flush(60):
        raise SystemExit(f"{left} records of {topic} did not reach the broker.")


def compare(address: str, blue: str, green: str) -> Cost:
    """Compare two topics by the command line and return the cost."""
    command = [
        *(sys.executable, "-c", PROGRAM, "compare", "--format", "kafka"),
        *("--blue", blue, "--green", green, "--key", "value.order.id"),
        *("--option", f"kafka.bootstrap.servers={address}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Equal topics were not found equal: {done.stdout}{done.stderr}")
    return Cost(*json.loads(done.stderr.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill topics, compare them some times, and print each cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--records", type=int, default=100_000, help="in each topic")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    heed_signals()
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="compare-topics-") as folder,
        kafka_broker(Path(folder, "kafka")) as address,
    ):
        for records in (1, given.records):
            blue, green = f"blue-{records}", f"green-{records}"
            numbers = range(records)
            fill(address, blue, numbers)
            fill(address, green, random.Random(38).sample(numbers, records))
            print(machine(), flush=True)
            for _ in range(given.rounds):
                cost = compare(address, blue, green)
                rows.append((f"{records:,}", *(f"{figure:.1f}" for figure in cost)))
    print(table(("records of each topic", "seconds", "CPU seconds", "peak MiB"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
