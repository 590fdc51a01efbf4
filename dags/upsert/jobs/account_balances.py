"""
Upsert: the newest state of every account in a relational table, exactly once.

    spark-submit account_balances.py --input /data/accounts --database postgresql://user@host/bank
    spark-submit account_balances.py --input /data/accounts --database /data/bank.db

Every batch is one transaction that holds the number of the batch and the merged rows. A batch that
Spark runs again, because the driver died before it could commit, finds its number and changes
nothing. The merge itself takes a change only if its version is newer, so that late changes lose.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

CHANGE = "id string, account string, version long, cents long, closed boolean, ts timestamp"
TABLES = (
    """CREATE TABLE IF NOT EXISTS accounts (account text PRIMARY KEY, version bigint, cents bigint,
    closed boolean, changes bigint)""",
    "CREATE TABLE IF NOT EXISTS batches (query text, batch bigint, PRIMARY KEY (query, batch))",
)
MERGE = (
    "INSERT INTO accounts VALUES ({0}, {0}, {0}, {0}, {0}) ON CONFLICT (account) DO UPDATE SET"
    " cents = CASE WHEN excluded.version > accounts.version THEN excluded.cents"
    " ELSE accounts.cents END,"
    " closed = CASE WHEN excluded.version > accounts.version THEN excluded.closed"
    " ELSE accounts.closed END,"
    " version = CASE WHEN excluded.version > accounts.version THEN excluded.version"
    " ELSE accounts.version END,"
    " changes = accounts.changes + excluded.changes"
)


def latest(changes: DataFrame) -> DataFrame:
    """Return one row an account: its newest version in this batch, and how many changes it had."""
    newest = Window.partitionBy("account").orderBy(F.desc("version"))
    return (
        changes.withColumn("place", F.row_number().over(newest))
        .withColumn("changes", F.count("*").over(Window.partitionBy("account")))
        .where("place = 1")
        .select("account", "version", "cents", "closed", "changes")
    )


def connect(database: str) -> Any:
    """Open SQLite by its path, PostgreSQL by its URL."""
    if "://" not in database:
        Path(database).parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(database, timeout=60)
    import psycopg

    return psycopg.connect(database)


def merge(database: str, query: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that merges a batch and notes its number, in one transaction."""
    mark = "%s" if "://" in database else "?"

    def write(batch: DataFrame, number: int) -> None:
        rows = [tuple(row) for row in latest(batch).collect()]
        with closing(connect(database)) as connection, connection:
            cursor = connection.cursor()
            for table in TABLES:
                cursor.execute(table)
            cursor.execute(
                f"INSERT INTO batches VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING",  # noqa: S608
                (query, number),
            )
            if cursor.rowcount:
                cursor.executemany(MERGE.format(mark), rows)

    return write


def main() -> None:
    """Start the query and wait for it."""
    parser = argparse.ArgumentParser(description="Balances of accounts.")
    parser.add_argument("--input", required=True, help="folder of JSON lines")
    parser.add_argument("--database", required=True, help="file of SQLite or URL of PostgreSQL")
    parser.add_argument("--trigger-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("account_balances").getOrCreate()
    changes = spark.readStream.schema(CHANGE).option("maxFilesPerTrigger", 1).json(arguments.input)
    query = (
        changes.writeStream.queryName("balances")
        .foreachBatch(merge(arguments.database, "balances"))
        .trigger(processingTime=f"{arguments.trigger_seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
