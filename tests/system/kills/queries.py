"""
The queries of the kill program: runs in a Spark runtime, and takes one order a line of JSON.

Only pyspark is needed. A query reads one file a batch, ends by itself, and answers with the keys that its
output has afterwards. Every key must be there once: a batch that was lost leaves a hole, one that was
written twice shows a key twice, and state that was lost lets a duplicate through.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program of another Python, without the annotations of pyspark

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

CATALOG = "spark.sql.catalog.lake"


def main(warehouse, jar="", master="local[2]"):
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        # The state of a run that has ended stays loaded for a while: it must not clean up a copy.
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
    )
    if jar:
        builder = (
            builder.config("spark.jars", jar)
            .config(CATALOG, "org.apache.iceberg.spark.SparkCatalog")
            .config(f"{CATALOG}.type", "hadoop")
            .config(f"{CATALOG}.warehouse", warehouse)
            # A table that is cached is at a later version than a cut.
            .config(f"{CATALOG}.cache-enabled", "false")
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if not spark.version.startswith("3."):
        spark.dataSource.register(topic_source())
    tell(ready=spark.version)
    for line in sys.stdin:
        tell(**run(spark, json.loads(line)))


def tell(**what):
    print("@" + json.dumps(what), flush=True)


def run(spark, order):
    # One session: a Python sink is looked up both in it and in the active one.
    for key, value in order["conf"].items():
        spark.conf.set(key, value)
    try:
        return answer(spark, order)
    finally:
        for key in order["conf"]:
            spark.conf.unset(key)


def answer(spark, order):
    query = None
    try:
        query = started(spark, order)
        query.awaitTermination()
    except Exception as err:  # noqa: BLE001 - Spark's errors have no common base
        return {"error": told(query, err)}
    return {"keys": sorted(keys_of(spark, order))}


def told(query, err):
    """Return the innermost cause of a failed query."""
    if query is None or not query._jsq.exception().isDefined():
        return f"{type(err).__name__}: {err}"[:1500]
    cause = query._jsq.exception().get()
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())[:1500]


def started(spark, order):
    rows = (
        spark.readStream.schema("k long, v long")
        .option("maxFilesPerTrigger", 1)
        .json(order["input"])
    )
    writer = SINKS[order["sink"]](spark, rows, order)
    writer = writer.option("checkpointLocation", order["checkpoint"])
    return writer.trigger(availableNow=True).start()


def file_sink(spark, rows, order):
    return rows.dropDuplicates(["k"]).writeStream.format("json").option("path", order["output"])


def stateless_file_sink(spark, rows, order):
    fresh = rows.where("v < 10")
    return fresh.writeStream.format("json").option("path", order["output"])


def batch_function(spark, rows, order, *, skips=False):
    output = Path(order["output"])

    def write(batch, number):
        place = output / f"batch-{number}.json"
        if skips and place.exists():
            return
        text = "".join(json.dumps({"k": row.k}) + "\n" for row in batch.collect())
        output.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    return rows.dropDuplicates(["k"]).writeStream.foreachBatch(write)


def skipping_function(spark, rows, order):
    return batch_function(spark, rows, order, skips=True)


def memory_table(spark, rows, order):
    counted = rows.groupBy("k").count().withColumn("k", f.col("k"))
    return counted.writeStream.format("memory").outputMode("complete").queryName(order["table"])


def topic(spark, rows, order):
    Path(order["output"]).mkdir(parents=True, exist_ok=True)
    rows = rows.dropDuplicates(["k"])
    return rows.writeStream.format("topic").option("path", order["output"])


def iceberg(spark, rows, order):
    table = f"lake.db.{order['table']}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (k BIGINT, v BIGINT) USING iceberg")
    rows = rows.dropDuplicates(["k"])
    # Iceberg asks for the table of the writer to be named this way.
    return rows.writeStream.format("iceberg").outputMode("append").option("path", table)


SINKS = {
    "file": file_sink,
    "file without state": stateless_file_sink,
    "foreachBatch": batch_function,
    "foreachBatch that skips": skipping_function,
    "memory": memory_table,
    "topic": topic,
    "iceberg": iceberg,
}


def keys_of(spark, order):
    output = Path(order["output"])
    if order["sink"].startswith("file"):
        return [row.k for row in spark.read.schema("k long").json(order["output"]).collect()]
    if order["sink"] == "memory":
        return [row.k for row in spark.table(order["table"]).collect()]
    if order["sink"] == "iceberg":
        spark.catalog.refreshTable(f"lake.db.{order['table']}")
        return [row.k for row in spark.table(f"lake.db.{order['table']}").collect()]
    lines = [line for path in output.glob("*.json") for line in path.read_text().splitlines()]
    return [json.loads(line)["k"] for line in lines]


def topic_source():
    from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

    class Topic(DataSource):
        """A sink like Kafka: a task writes at once, and a batch that is repeated is written again."""

        @classmethod
        def name(cls):
            return "topic"

        def streamWriter(self, schema, overwrite):
            return TopicWriter(self.options["path"])

    class TopicWriter(DataSourceStreamWriter):
        def __init__(self, path):
            self.path = path

        def write(self, iterator):
            import json
            import uuid
            from pathlib import Path

            text = "".join(json.dumps({"k": row.k}) + "\n" for row in iterator)
            (Path(self.path) / f"{uuid.uuid4()}.json").write_text(text)
            return WriterCommitMessage()

        def commit(self, messages, batchId):
            pass

        def abort(self, messages, batchId):
            pass

    return Topic


if __name__ == "__main__":
    main(*sys.argv[1:])
