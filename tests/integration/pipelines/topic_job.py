"""
Events of one topic, with their sums, in another: the stream of ``test_topic_cutover``.

The tests make versions of this script by replacing ``QUERY``, ``KEPT`` and the topic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

QUERY = "routed"
KEPT = "value IS NOT NULL"


def into_topic(servers: str, topic: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that sends rows; it returns when all are acknowledged."""

    def write(batch: DataFrame, number: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for row in batch.toLocalIterator():
            producer.produce(topic, key=row["key"], value=row["value"])
            producer.poll(0)
        if producer.flush(60):
            raise RuntimeError("Some rows were not acknowledged.")

    return write


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser()
    for name in ("connector", "servers", "topic", "into"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    spark = SparkSession.builder.appName("topics").getOrCreate()
    if given.connector == "python_kafka":
        import python_kafka
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(python_kafka)
        spark.dataSource.register(python_kafka.PythonKafka)
    # A busy machine gives a client's thread no turn for a minute and longer.
    patience = {f"kafka.{name}": "300000" for name in ("default.api.timeout.ms", "max.block.ms")}
    servers = {"kafka.bootstrap.servers": given.servers, **patience}
    source = spark.readStream.format(given.connector).options(**servers, subscribe=given.topic)
    rows = source.option("startingOffsets", "earliest").load()
    texts = rows.selectExpr("cast(key AS string) AS key", "cast(value AS string) AS value")
    into = given.into
    writer: Any = texts.where(KEPT).writeStream.queryName(QUERY).trigger(processingTime="1 second")
    if given.connector == "python_kafka":
        writer = writer.foreachBatch(into_topic(given.servers, into))
    else:
        writer = writer.format("kafka").options(**servers, topic=into)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
