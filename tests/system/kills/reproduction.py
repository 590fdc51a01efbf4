"""
The two failures that Spark does not recover from, without airflow-streaming.

Run it with the Python of a Spark runtime, 4.1 or newer: ``python tests/system/kills/reproduction.py``. A driver
is killed after a batch is in the sink and before its commit; here the newest commit is removed instead. Each
later start fails in the same way. With state checkpoint format 1 the file sink continues. Only pyspark is needed.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program of another Python, without the annotations of pyspark

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

STORE = "spark.sql.streaming.stateStore."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main():
    builder = SparkSession.builder.master("local[2]")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set(f"{STORE}providerClass", ROCKSDB)
    for version, sink in (("1", to_files), ("2", to_files), ("1", returning_early)):
        spark.conf.set(f"{STORE}checkpointFormatVersion", version)
        with tempfile.TemporaryDirectory() as folder:
            print(f"Spark {spark.version}, format {version}, {sink.__name__}: ", end="")
            print(after_a_kill(spark, Path(folder), sink), flush=True)


def after_a_kill(spark, root, sink):
    (root / "in").mkdir()
    for number in (0, 1):
        (root / f"in/{number}.json").write_text(f'{{"id": {number}}}\n')
        start(spark, root, sink).awaitTermination()
    for commit in (root / "checkpoint/commits").glob("*1*"):
        commit.unlink()
    query = start(spark, root, sink)
    try:
        query.awaitTermination()
    except StreamingQueryException:
        cause = query._jsq.exception().get()
        while cause.getCause() is not None:
            cause = cause.getCause()
        return cause.getMessage()
    return "continues"


def start(spark, root, sink):
    rows = spark.readStream.schema("id long").json(str(root / "in")).dropDuplicates(["id"])
    writer = sink(rows.writeStream, root / "out").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(root / "checkpoint")).start()


def to_files(writer, output):
    return writer.format("json").option("path", str(output))


def returning_early(writer, output):
    def write(batch, number):
        if not (output / str(number)).exists():
            batch.write.json(str(output / str(number)))

    return writer.foreachBatch(write)


if __name__ == "__main__":
    main()
