"""A real stream that tells its progress to others, and what happens when they do not listen."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.sinks.config import CONF_PREFIX
from airflow_streaming.model.status import SinkStatus
from tests.integration.driver.running import LAYOUT, Driver, World, lines
from tests.integration.home.servers import free_ports
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.metrics import Samples, ask, prometheus_server, scrape

TWO_QUERIES = """
from pyspark.sql.functions import window

(source().writeStream.format("parquet").queryName("q")
 .trigger(processingTime="500 milliseconds").start(str(folder / "out")))
(source(20).withWatermark("timestamp", "10 seconds")
 .groupBy(window("timestamp", "1 second")).count()
 .writeStream.format("noop").outputMode("update").queryName("counts")
 .trigger(processingTime="500 milliseconds").start())
queries = list(spark.streams.active)
for query in queries:
    query.awaitTermination()
for query in queries:
    kept = [report.json() for report in query._jsq.recentProgress()]
    (folder / f"{query.name}.jsonl").write_text("".join(f"{line}\\n" for line in kept))
"""
"""Each leaves Spark's own ``recentProgress`` behind when it was stopped."""


def configured(world: World, sinks: str, **keys: str) -> dict[str, str]:
    """Write Spark's defaults, as a launch would give them, and return the environment."""
    folder = world.folder / "conf"
    folder.mkdir(exist_ok=True)
    named = {f".{key.replace('__', '.')}": value for key, value in keys.items()}
    conf = {f"{CONF_PREFIX}{key}": value for key, value in {"s": sinks, **named}.items()}
    text = "".join(f"{key} {value}\n" for key, value in conf.items())
    (folder / "spark-defaults.conf").write_text(text)
    return {"SPARK_CONF_DIR": str(folder)}


@pytest.fixture
def world_with_clients(world: World) -> World:
    for library in ("confluent_kafka", "prometheus_client"):
        if not list(world.runtime.glob(f"lib/python*/site-packages/{library}")):
            pytest.skip(
                f"{library} is missing in {world.runtime}. Install it: {world.runtime}/bin/python "
                "-m pip install confluent-kafka prometheus-client"
            )
    return world


def stopped(driver: Driver) -> dict[str, SinkStatus]:
    """Stop the stream and return how its sinks stood at the end."""
    driver.request_stop()
    assert driver.ended() == 0, driver.log
    status = driver.status()
    assert status is not None
    return {sink.sink: sink for sink in status.sinks}


def reports(world: World, query: str) -> dict[int, dict[str, Any]]:
    """Return Spark's own reports of the batches that ran, by batch."""
    told = [r for r in lines(world.folder / f"{query}.jsonl") if "addBatch" in r["durationMs"]]
    by_batch = {report["batchId"]: report for report in told}
    assert len(by_batch) == len(told) > 3
    return by_batch


def history(world: World) -> list[dict[str, Any]]:
    folder = world.home / LAYOUT.progress(1)
    return [row for chunk in sorted(folder.iterdir()) for row in lines(chunk)]


def figure(samples: Samples, name: str, query: str, **labels: str) -> float | None:
    own = frozenset({"stream": "orders", "query": query, **labels}.items())
    return samples.get((f"spark_streaming_{name}", own))


def newest(samples: Samples) -> dict[str, int]:
    """Return the batch that each query has come to."""
    found = {query: figure(samples, "batch_id", query) for query in ("q", "counts")}
    return {query: int(batch) for query, batch in found.items() if batch is not None}


def scraped_after(driver: Driver, batch: int) -> Samples:
    """Scrape until both queries are past a batch."""

    def look() -> Samples | None:
        samples = scrape(_url(driver))
        batches = newest(samples)
        return samples if len(batches) == 2 and min(batches.values()) > batch else None

    found: Samples = driver.until(look, f"A scrape of what came after batch {batch}")
    return found


def assert_equal_to(batches: Mapping[int, Mapping[str, Any]], samples: Samples, query: str) -> int:
    """Compare what was scraped with Spark's report of the same batch, and return the batch."""
    batch = int(figure(samples, "batch_id", query) or 0)
    report = batches[batch]
    until_then = [r for number, r in batches.items() if number <= batch]
    [source] = report["sources"]
    described = {"source": "0", "description": source["description"]}
    assert {
        name: figure(samples, name, query, **(described if "source" in name else {}))
        for name in (
            "batches_total",
            "input_rows_total",
            "batch_input_rows",
            "batch_duration_seconds",
            "input_rows_per_second",
            "processed_rows_per_second",
            "source_input_rows",
            "state_rows",
            "state_memory_bytes",
            "dropped_rows_total",
        )
    } == {
        "batches_total": len(until_then),
        "input_rows_total": sum(r["numInputRows"] for r in until_then),
        "batch_input_rows": report["numInputRows"],
        "batch_duration_seconds": report["durationMs"]["triggerExecution"] / 1000,
        "input_rows_per_second": report.get("inputRowsPerSecond"),
        "processed_rows_per_second": report.get("processedRowsPerSecond"),
        "source_input_rows": source["numInputRows"],
        "state_rows": _state(report, "numRowsTotal"),
        "state_memory_bytes": _state(report, "memoryUsedBytes"),
        "dropped_rows_total": _dropped(until_then),
    }
    return batch


def _state(report: Mapping[str, Any], name: str) -> float | None:
    operators = report["stateOperators"]
    return sum(operator[name] for operator in operators) if operators else None


def _dropped(until_then: list[Mapping[str, Any]]) -> float | None:
    counts = [_state(report, "numRowsDroppedByWatermark") for report in until_then]
    return None if counts[0] is None else sum(count or 0 for count in counts)


def test_what_consumers_and_scrapers_see_is_what_spark_reported(
    world_with_clients: World, tmp_path: Path
) -> None:
    world = world_with_clients
    with kafka_broker(tmp_path / "broker") as address:
        create_topic(address, "progress")
        driver = world.run(
            TWO_QUERIES,
            env=configured(
                world,
                "kafka,prometheus",
                kafka__topic="progress",
                kafka__bootstrap__servers=address,
                kafka__compression__type="lz4",
            ),
        )
        driver.has_committed(4).has_committed(4, "counts")
        first = scraped_after(driver, -1)
        later = scraped_after(driver, max(newest(first).values()))
        sinks = stopped(driver)

        told = {query: reports(world, query) for query in ("q", "counts")}
        count = sum(len(batches) for batches in told.values())
        messages = consume(address, "progress", count)

    for query, batches in told.items():
        got = [message for message in messages if message.key == f"orders/{query}"]
        assert [message.value for message in got] == list(batches.values())
        assert {message.headers["query"] for message in got} == {query}
        for samples in (first, later):
            assert_equal_to(batches, samples, query)
    assert {(m.headers["stream"], m.headers["epoch"]) for m in messages} == {("orders", "1")}
    numbers = sorted(int(message.headers["sequence"]) for message in messages)
    assert numbers == list(range(1, count + 1))

    assert sorted((row["query"], row["batch_id"]) for row in history(world)) == sorted(
        (query, batch) for query, batches in told.items() for batch in batches
    )
    for sink in ("kafka", "prometheus"):
        status = sinks[sink]
        assert (status.sent, status.dropped, status.trouble) == (count, 0, None)


def test_a_real_prometheus_has_the_same_values(world_with_clients: World, tmp_path: Path) -> None:
    world = world_with_clients
    [port] = free_ports(1)
    server_folder = tmp_path / "prometheus"
    server_folder.mkdir()
    with prometheus_server(server_folder, f"127.0.0.1:{port}") as server:
        env = configured(world, "prometheus", prometheus__port=str(port))
        driver = world.run(TWO_QUERIES, env=env).has_committed(5).has_committed(5, "counts")
        driver.until(
            lambda: len(ask(server, "spark_streaming_batch_id > 4")) == 2,
            "A scrape of both queries",
        )
        # One question for all, so that they come out of one scrape.
        found = ask(server, '{__name__=~"spark_streaming_.+"}')
        stopped(driver)
    gone = {"__name__", "job", "instance"}
    samples = {
        (labels["__name__"], frozenset((k, v) for k, v in labels.items() if k not in gone)): value
        for labels, value in found
    }
    for query in ("q", "counts"):
        assert assert_equal_to(reports(world, query), samples, query) > 4


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Give the address of a server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as held:
        listening.settimeout(0.1)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    held.enter_context(listening.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


HANGS_S = 60
"""Seconds until the hanging server is given up; the longest that may be configured."""


def shortest(world: World) -> float:
    """Return the seconds of the shortest batch of ``q`` after the first, which compiles its plan."""
    batches = reports(world, "q")
    taken = [r["durationMs"]["triggerExecution"] for number, r in batches.items() if number > 1]
    return min(taken) / 1000


@pytest.mark.nightly("It waits for clients that give up.")
def test_a_dead_broker_and_a_hanging_server_cost_reports_and_no_batch(
    world_with_clients: World,
) -> None:
    world = world_with_clients
    [nobody] = free_ports(1)
    with black_hole() as hole:
        driver = world.run(
            TWO_QUERIES,
            env=configured(
                world,
                "kafka,pushgateway,prometheus,statsdd",
                kafka__topic="progress",
                kafka__bootstrap__servers=f"127.0.0.1:{nobody}",
                kafka__message__timeout__ms="1000",
                pushgateway__url=f"http://{hole}",
                pushgateway__timeout=str(HANGS_S),
            ),
        )
        driver.has_committed(12)
        driver.until(lambda: _trouble(driver, "pushgateway"), "Trouble of the hanging")
        # Told by another thread of the client, so some reports later on a busy machine.
        driver.until(
            lambda: "Connection refused" in str(_trouble(driver, "kafka")), "the cause of the dead"
        )
        told = {sink: _trouble(driver, sink) for sink in ("kafka", "pushgateway", "statsdd")}
        sinks = stopped(driver)

    assert "confirmed 0 of" in str(told["kafka"])
    assert "has not taken" in str(told["pushgateway"])
    assert "Unknown sink 'statsdd'" in str(told["statsdd"])
    count = len(reports(world, "q")) + len(reports(world, "counts"))
    assert {name: (status.sent, status.dropped) for name, status in sinks.items()} == {
        "kafka": (0, count),
        "pushgateway": (0, count),
        "prometheus": (count, 0),
        "statsdd": (0, 0),
    }
    # A push inside a batch would have made every batch as long as the server hangs.
    assert shortest(world) < HANGS_S


def _trouble(driver: Driver, sink: str) -> str | None:
    status = driver.status()
    sinks = status.sinks if status is not None else ()
    return next((found.trouble for found in sinks if found.sink == sink), None)


def _url(driver: Driver) -> str:
    status = driver.status()
    assert status is not None
    [url] = [sink.url for sink in status.sinks if sink.sink == "prometheus"]
    assert url is not None
    return url


@pytest.mark.nightly("A driver of its own.")
def test_spark_itself_is_never_told_the_password_in_a_record(world_with_clients: World) -> None:
    world = world_with_clients
    driver = world.run(
        "source().writeStream.format('noop').queryName('q').start()",
        env=configured(
            world,
            "kafka",
            kafka__topic="progress",
            kafka__bootstrap__servers="127.0.0.1:1",
            kafka__message__timeout__ms="500",
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="PLAIN",
            kafka__sasl__username="ann",
            kafka__sasl__password="canary-password",
        ),
    ).has_committed(1)
    driver.until(lambda: _trouble(driver, "kafka"), "Trouble of the dead broker")
    stopped(driver)
    assert "canary-password" not in driver.log
    for record in world.home.rglob("*"):
        if record.is_file():
            assert b"canary-password" not in record.read_bytes(), record
    assert json.loads((world.home / LAYOUT.epoch(1, "status.json")).read_text())["sinks"]
