"""
Runs scripts one after another in one Spark, told by lines of JSON; needs pyspark only.

A script is run as it is, but for two things: its queries take what there is and end, and waiting
for them is done here.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program of another Python, without the annotations of pyspark

from __future__ import annotations

import json
import re
import sys
import traceback

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

try:
    from pyspark.sql.classic.dataframe import DataFrame
except ImportError:
    from pyspark.sql import DataFrame

CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z][A-Z0-9_]+)*)\]")
PATIENCE = 600
QUICK = {
    # Most of a trial is code that runs once, and files that are made one by one.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.cache.maxEntries": "3000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
started = []
filtered = {"place": ""}


def main():
    spark = new_session(QUICK)
    patch()
    tell(ready=spark.version)
    for line in sys.stdin:
        order = json.loads(line)
        tell(**run(spark, order))


def new_session(conf=None):
    """Return the session whose Spark all scripts share."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
    )
    spark = builder.config(map=conf or {}).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def session_of(spark, conf):
    """Return a session of its own for the next script, the one that a builder will find."""
    session = spark.newSession()
    SparkSession._instantiatedSession = session
    jvm = spark._jvm.org.apache.spark.sql
    sessions = (jvm if spark.version.startswith("3.") else jvm.classic).SparkSession
    sessions.setDefaultSession(session._jsparkSession)
    sessions.setActiveSession(session._jsparkSession)
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def tell(**what):
    print("@" + json.dumps(what), flush=True)


def patch():
    watermark, read = DataFrame.withWatermark, DataStreamReader._df

    def with_watermark(rows, *args):
        return only_late(watermark(rows, *args), "watermark")

    def df(reader, jdf):
        return only_late(read(reader, jdf), "source")

    DataFrame.withWatermark, DataStreamReader._df = with_watermark, df
    start = DataStreamWriter.start

    def start_and_end(writer, *args, **options):
        query = start(writer.trigger(availableNow=True), *args, **options)
        started.append(query)
        return query

    DataStreamWriter.start = start_and_end
    StreamingQueryManager.awaitAnyTermination = lambda *_: True


def only_late(rows, place):
    """Leave out the rows of the first phase; behind the watermarks, which these rows move."""
    if filtered["place"] != place or not rows.isStreaming:
        return rows
    return rows.where("split_part(input_file_name(), '/', -1) >= '004.'")


def run(spark, order):
    filtered["place"] = ""
    if order.get("late"):
        filtered["place"] = "watermark" if "withWatermark(" in order["source"] else "source"
    session = session_of(spark, order["conf"])
    if "migration" in order:
        return {"answer": migrated(session, order["migration"])}
    started.clear()
    sys.argv = [order["script"], *order["arguments"]]
    scope = {"__name__": "__main__", "__file__": order["script"]}
    try:
        exec(compile(order["source"], order["script"], "exec"), scope)  # noqa: S102 - its purpose
        batches = [ended(query) for query in started]
    except Exception as err:  # noqa: BLE001 - Spark's errors have no common base
        return {"error": told(err), "conditions": CONDITION.findall(str(err)), "text": texts(err)}
    finally:
        for query in started:
            if query.isActive:
                query.stop()
    return {"batches": batches}


def migrated(session, order):
    # The checkout has it; a Spark of another program than these trials does not need it.
    from airflow_streaming.driver.migration.job import answered
    from airflow_streaming.model.jobs.migration import MigrationOrder

    return answered(session, MigrationOrder.from_dict(order)).to_dict()


def ended(query):
    if not query.awaitTermination(PATIENCE):
        raise SystemExit("The query did not end; nothing can be said.")
    progress = query.lastProgress
    if progress is None:
        return -1
    return progress["batchId"] if isinstance(progress, dict) else progress.batchId


def texts(err):
    return "".join(traceback.format_exception(err))[-3000:]


def told(err):
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    telling = [line for line in lines if "Caused by" in line or "assertion" in line]
    return " | ".join(lines[:2] + telling[-2:])[:600]


if __name__ == "__main__":
    main()
