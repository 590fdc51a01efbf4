"""
From several topics of Kafka into one, with their headers.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 route_events.py \
        --servers broker:9092 --topics clicks,payments --into events

``--connector python_kafka`` reads through ``python_kafka.py`` beside this file instead, where the
official connector's jar is not to be had. A row's key names where it came from. A batch that runs a
second time sends its rows a second time with the same keys, so that a consumer can drop them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Return the topics as a stream of texts and headers."""
    options = {
        "kafka.bootstrap.servers": arguments.servers,
        "subscribe": arguments.topics,
        "maxOffsetsPerTrigger": str(arguments.max_offsets),
        "failOnDataLoss": str(arguments.fail_on_data_loss).lower(),
        "startingOffsets": "earliest",
    }
    if arguments.connector == "python_kafka":
        import python_kafka
        from pyspark import cloudpickle

        # The processes that plan for Spark know nothing of --py-files.
        cloudpickle.register_pickle_by_value(python_kafka)
        spark.dataSource.register(python_kafka.PythonKafka)
        return spark.readStream.format("python_kafka").options(**options).load()
    rows = spark.readStream.format("kafka").options(includeHeaders="true", **options).load()
    return rows.select(
        *("topic", "partition", "offset"),
        F.col("value").cast("string").alias("value"),
        F.map_from_entries(
            F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("string")))
        ).alias("headers"),
    )


def routed(rows: DataFrame) -> DataFrame:
    """Keep valid JSON with an id, and name its origin."""
    return rows.where(F.get_json_object("value", "$.id").isNotNull()).select(
        F.concat_ws("-", "topic", "partition", "offset").alias("key"), "value", "topic", "headers"
    )


def into_topic(servers: str, topic: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that sends rows with their headers; it returns when all are acknowledged."""

    def write(batch: DataFrame, number: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        failed: list[str] = []
        for row in batch.toLocalIterator():
            headers = {**row["headers"], "topic": row["topic"], "batch": str(number)}
            producer.produce(
                topic,
                key=row["key"],
                value=row["value"],
                headers=[(name, value.encode()) for name, value in headers.items()],
                on_delivery=lambda err, message: failed.append(str(err)) if err else None,
            )
            producer.poll(0)
        left = producer.flush(60)
        if left or failed:
            raise RuntimeError(f"{left + len(failed)} rows were not acknowledged: {failed[:1]}")

    return write


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Several topics into one.")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topics", required=True, help="names with commas")
    parser.add_argument("--into", required=True)
    parser.add_argument("--connector", choices=("kafka", "python_kafka"), default="kafka")
    parser.add_argument("--max-offsets", type=int, default=10_000)
    parser.add_argument("--fail-on-data-loss", type=lambda given: given == "true", default=True)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("route_events").getOrCreate()
    query = (
        routed(source(spark, arguments))
        .writeStream.queryName("routed")
        .foreachBatch(into_topic(arguments.servers, arguments.into))
        .trigger(processingTime="2 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
