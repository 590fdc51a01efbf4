"""
Starts every case of ``cases`` in one Spark and tells what came of it, a line of JSON each.

A case is refused when the source cannot be opened, when ``start`` raises, or when the first batch fails.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program of another Python, without the annotations of pyspark

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import functions
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from airflow_streaming.driver.jobs.refused_sources import listen_to_reader
from airflow_streaming.driver.jobs.scratch_patch import sentence_of
from airflow_streaming.driver.plan.reading import read_plan, take
from airflow_streaming.driver.plan.writer_settings import listen
from airflow_streaming.driver.script import error_of
from tests.system.edits.spark_side import QUICK, new_session
from tests.system.starts.cases import starts

PATIENCE = 30


def main():
    servers, jars, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    only = tuple(sys.argv[4:]) or ("",)
    quick = {key: value for key, value in QUICK.items() if not key.endswith("ManagerClass")}
    spark = new_session({**quick, **({"spark.jars": jars} if jars else {})})
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    tell(ready=spark.version)
    port = listening()
    (folder / "in").mkdir()
    (folder / "in" / "1.json").write_text('{"k": "a", "v": 1, "t": "2026-01-01T00:00:01"}\n')
    stage = Stage(spark, folder, {"servers": servers, "port": str(port)})
    for case in starts():
        if case.name.startswith(only) and (jars or not case.needs_kafka):
            told = json.dumps(stage.tried(case)).replace(str(folder), "/run")
            tell(name=case.name, **json.loads(told))


class Stage:
    def __init__(self, spark, folder, places):
        self._spark, self._folder, self._places = spark, folder, places
        self._number = 0
        self._refused, self._plan = [], None
        listen(DataStreamWriter)
        listen_to_reader(
            DataStreamReader, self._refused.append, lambda err: sentence_of(error_of(err))
        )

    def tried(self, case):
        self._refused.clear()
        self._plan = None
        self._number += 1
        query, when, says = None, "load", ""
        try:
            frame = self._frame(case)
            when = "start"
            writer = self._writer(case, frame)
            self._plan = read_plan(take(writer, {}, query=case.name, checkpoint=""))
            query = writer.start()
            when = "batch"
            wait(query)
            when = ""
        except Exception as err:  # noqa: BLE001 - Spark's errors have no common base
            says = shown(err, self._folder)
        finally:
            if query is not None:
                query.stop()
        return {"when": when, "says": says, **self._known()}

    def _known(self):
        if self._plan is not None:
            told = self._plan.to_dict()
            kept = ("query", "spark", "output_mode", "processing_trigger", "refusal", "notes")
            found = {key: told[key] for key in kept if told.get(key)}
            found["sources"], found["sink"] = told["sources"], told["sink"]
            return {"plan": found}
        return {"refused": [json.loads(json.dumps(one)) for one in map(encoded, self._refused)]}

    def _frame(self, case):
        options = self._filled({"path": "{in}"} | dict(case.source_options))
        if case.source not in (
            "json",
            "parquet",
            "orc",
            "csv",
            "text",
            "xml",
            "avro",
            "binaryFile",
        ):
            options = self._filled(case.source_options)
        reader = self._spark.readStream.format(case.source)
        for key, value in options.items():
            reader = reader.option(key, value)
        if case.schema != "-":
            reader = reader.schema(case.schema)
        frame = reader.load()
        if case.group:
            frame = frame.groupBy("k").agg(functions.count("*").alias("count"))
        return frame.selectExpr(*case.columns)

    def _writer(self, case, frame):
        writer = frame.writeStream.outputMode(case.mode).trigger(**dict([case.trigger]))
        if case.query_name != "-":
            writer = writer.queryName(f"{case.query_name}{self._number}")
        for key, value in self._filled(case.sink_options).items():
            writer = writer.option(key, value)
        if case.partitioned_by:
            writer = writer.partitionBy(*case.partitioned_by)
        writer = writer.option("checkpointLocation", str(self._folder / f"c{self._number}"))
        if case.sink == "foreachBatch":
            return writer.foreachBatch(lambda rows, batch: rows.count() and None)
        if case.sink == "foreach":
            return writer.foreach(lambda row: None)
        return writer.format(case.sink)

    def _filled(self, options):
        places = {
            **self._places,
            "in": str(self._folder / "in"),
            "new": str(self._folder / f"new{self._number}"),
        }
        found = {}
        for key, value in options.items():
            for name, place in places.items():
                value = value.replace(f"{{{name}}}", place)
            found[key] = value
        return found


def encoded(refused):
    from airflow_streaming.model.codec import encode

    return encode(refused)


def wait(query):
    """Return when a query has ended, or has run a batch."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if query.awaitTermination(0.1):
            return
        progress = query.lastProgress
        if progress is not None:
            return
        if query.exception() is not None:
            raise query.exception()
    raise TimeoutError("no batch, no error")


def shown(err, folder):
    text = sentence_of(error_of(err))
    text = re.sub(r"\S*" + re.escape(str(folder)) + r"[^\s,:\]\[]*", "/run", text)
    text = re.sub(r"#\d+L?", "", text)
    return re.sub(r"\[id = [^\]]*\]|127\.0\.0\.1:\d+", "…", text)[:300]


def listening():
    """Return the port of a server that accepts whoever comes."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def accept():
        while True:
            connection, _ = server.accept()
            held.append(connection)
            connection.sendall(b"a\n")

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


def tell(**what):
    print("@" + json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
