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

from pyspark.sql import SparkSession

STORE = "spark.sql.streaming.stateStore."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main():
    spark = SparkSession.builder.master("local[2]").getOrCreate()
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
        run(spark, root, sink)
    for commit in (root / "checkpoint/commits").glob("*1*"):
        commit.unlink()
    try:
        run(spark, root, sink)
    except Exception as err:  # noqa: BLE001 - Spark's errors have no common base
        return next(line for line in str(err).splitlines() if line.strip())
    return "continues"


def run(spark, root, sink):
    rows = spark.readStream.schema("id long").json(str(root / "in")).dropDuplicates(["id"])
    writer = sink(rows.writeStream, root / "out").trigger(availableNow=True)
    writer.option("checkpointLocation", str(root / "checkpoint")).start().awaitTermination()


def to_files(writer, output):
    return writer.format("json").option("path", str(output))


def returning_early(writer, output):
    def write(batch, number):
        if not (output / str(number)).exists():
            batch.write.json(str(output / str(number)))

    return writer.foreachBatch(write)


if __name__ == "__main__":
    main()
