"""
A bank's lake: all changes appended to an Iceberg table, the newest state merged into another.

    spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.2 \
        --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \
        lake_accounts.py --input /data/accounts --warehouse /data/lake

Three queries: ``changes`` appends, which Iceberg makes exactly once by the query's id and the number of
the batch in each snapshot. ``accounts`` merges in ``foreachBatch``, which is at least once: a change
counts only if its version is newer, so that a batch may run again. ``closures`` reads the first table
as a stream.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

CHANGE = "id string, account string, version long, cents long, closed boolean, ts timestamp"
TABLES = (
    f"CREATE TABLE IF NOT EXISTS lake.bank.changes ({CHANGE}) USING iceberg",
    """CREATE TABLE IF NOT EXISTS lake.bank.accounts
    (account string, version long, cents long, closed boolean) USING iceberg""",
    "CREATE TABLE IF NOT EXISTS lake.bank.closures (account string, ts timestamp) USING iceberg",
)
MERGE = """
    MERGE INTO lake.bank.accounts AS known USING newest ON known.account = newest.account
    WHEN MATCHED AND newest.version > known.version THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
"""


def latest(changes: DataFrame) -> DataFrame:
    """Return one row an account: its newest version in this batch."""
    newest = Window.partitionBy("account").orderBy(F.desc("version"))
    return (
        changes.withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .select("account", "version", "cents", "closed")
    )


def merge(batch: DataFrame, number: int) -> None:
    """Merge a batch; a repeated batch finds no older version and changes nothing."""
    latest(batch).createOrReplaceTempView("newest")
    batch.sparkSession.sql(MERGE)


def main() -> None:
    """Start the queries and wait for them."""
    parser = argparse.ArgumentParser(description="Accounts in a lake.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--warehouse", required=True, help="folder of the tables")
    parser.add_argument("--from-timestamp", help="milliseconds; snapshots before it are not read")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("lake_accounts").getOrCreate()
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.lake.type", "hadoop")
    spark.conf.set("spark.sql.catalog.lake.warehouse", arguments.warehouse)
    for table in TABLES:
        spark.sql(table)
    every = f"{arguments.trigger_seconds} seconds"
    changes = spark.readStream.schema(CHANGE).option("maxFilesPerTrigger", 1).json(arguments.input)
    changes.writeStream.queryName("changes").trigger(processingTime=every).format(
        "iceberg"
    ).toTable("lake.bank.changes")
    changes.writeStream.queryName("accounts").trigger(processingTime=every).foreachBatch(
        merge
    ).start()
    appended = spark.readStream.format("iceberg")
    if arguments.from_timestamp:
        appended = appended.option("stream-from-timestamp", arguments.from_timestamp)
    appended.load("lake.bank.changes").where("closed").select(
        "account", "ts"
    ).writeStream.queryName("closures").trigger(processingTime=every).format("iceberg").toTable(
        "lake.bank.closures"
    )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
