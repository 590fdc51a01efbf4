"""Streams that cannot run as they are set up."""

from __future__ import annotations

import http.server
import threading
import urllib.request
from typing import Any

from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.corpus.stage import Play, Stage, add, counts, scenario

CONFIGURATION = FailureKind.CONFIGURATION

for _name, _play in {
    "source_format_unknown": lambda stage: stage.spark.readStream.format("nosuch").load(),
    "source_kafka_without_package": lambda stage: (
        stage.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("subscribe", "orders")
        .load()
    ),
    "source_path_missing": lambda stage: stage.spark.readStream.schema("a int").json(
        str(stage.folder("absent"))
    ),
    "source_without_schema": lambda stage: stage.spark.readStream.json(str(stage.input)),
    "source_file_system_unknown": lambda stage: stage.spark.readStream.schema("a int").json(
        "nosuch://bucket/in"
    ),
    "source_s3_without_package": lambda stage: stage.spark.readStream.schema("a int").json(
        "s3a://bucket/in"
    ),
    "source_socket_without_port": lambda stage: (
        stage.spark.readStream.format("socket").option("host", "localhost").load()
    ),
    "option_not_a_number": lambda stage: stage.start(stage.rows(maxFilesPerTrigger="many")),
    "option_rate_negative": lambda stage: (
        stage.spark.readStream.format("rate").option("rowsPerSecond", -1).load()
    ),
    "sink_format_unknown": lambda stage: stage.start(stage.rows(), sink="nosuch"),
    "sink_kafka_without_package": lambda stage: stage.start(stage.rows(), sink="kafka"),
    "sink_is_no_stream_sink": lambda stage: stage.start(stage.rows(), sink="jdbc"),
    "sink_without_path": lambda stage: stage.start(stage.rows(), sink="parquet"),
    "checkpoint_file_system_unknown": lambda stage: (
        stage.rows()
        .writeStream.format("noop")
        .option("checkpointLocation", "nosuch://bucket/c")
        .start()
    ),
    "checkpoint_not_given": lambda stage: (
        stage.rows().writeStream.format("parquet").start(str(stage.folder("out")))
    ),
    "mode_append_without_watermark": lambda stage: stage.start(counts(stage.rows())),
    "mode_complete_without_aggregation": lambda stage: stage.start(stage.rows(), mode="complete"),
    "mode_unknown": lambda stage: stage.start(stage.rows(), mode="sometimes"),
    "trigger_not_a_time": lambda stage: stage.rows().writeStream.trigger(processingTime="often"),
    "watermark_negative": lambda stage: stage.rows().withWatermark("t", "-5 minutes"),
    "watermark_on_no_time": lambda stage: stage.start(stage.rows().withWatermark("k", "1 minute")),
    "plan_unresolved_column": lambda stage: stage.start(stage.rows().select("no_such_column")),
    "plan_no_such_table": lambda stage: stage.spark.readStream.table("no_such_table"),
    "plan_no_such_function": lambda stage: stage.start(stage.rows().selectExpr("nosuch(k)")),
    "plan_cannot_be_parsed": lambda stage: stage.rows().selectExpr("k + + )"),
    "plan_type_mismatch": lambda stage: stage.rows().selectExpr("array(1) + 1"),
    "plan_sorts_a_stream": lambda stage: stage.start(stage.rows().orderBy("k")),
    "plan_limits_an_update": lambda stage: stage.start(stage.rows().limit(3), mode="update"),
    "plan_writes_a_stream_as_a_batch": lambda stage: stage.rows().write.format("noop").save(),
    "conf_not_a_number": lambda stage: stage.spark.conf.set("spark.sql.shuffle.partitions", "many"),
}.items():
    add(_name, CONFIGURATION, _play)


@scenario(CONFIGURATION, reason="The path is fixed by the deployment; no wait makes it a folder.")
def checkpoint_under_a_file(stage: Stage) -> Any:
    return stage.start(stage.rows(), stage.input / "000.json" / "checkpoint")


@scenario(CONFIGURATION)
def state_store_class_unknown(stage: Stage) -> Any:
    conf = {"spark.sql.streaming.stateStore.providerClass": "com.example.NoSuchProvider"}
    return stage.with_conf(conf, lambda: stage.start(counts(stage.rows()), mode="update"))


def _jdbc(frame: Any, number: int) -> None:
    frame.write.jdbc("jdbc:nosuch://db/x", "t", properties={"driver": "com.example.NoDriver"})


def _jdbc_without_driver(frame: Any, number: int) -> None:
    frame.write.jdbc("jdbc:nosuch://db/x", "t")


def _import(frame: Any, number: int) -> None:
    import no_such_module_at_all  # type: ignore[import-not-found]  # noqa: F401


def _java_class(frame: Any, number: int) -> None:
    frame.sparkSession._jvm.java.lang.Class.forName("com.example.NoSuchClass")


for _name, _batch in {
    "batch_function_jdbc_driver_class": _jdbc,
    "batch_function_jdbc_no_driver": _jdbc_without_driver,
    "batch_function_module_missing": _import,
    "batch_function_java_class_missing": _java_class,
}.items():
    add(
        _name,
        CONFIGURATION,
        lambda stage, batch=_batch: stage.start(stage.rows(), batch=batch),
    )


@scenario(CONFIGURATION)
def udf_module_missing(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    def load(key: str) -> str:
        import no_such_module_at_all

        return str(no_such_module_at_all)

    return stage.start(stage.rows().select(f.udf(load)("k")))


@scenario(CONFIGURATION)
def pandas_missing(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.pandas_udf(lambda column: column, "string")("k")))


@scenario(CONFIGURATION)
def python_missing(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    context = stage.spark.sparkContext
    mine, context.pythonExec = context.pythonExec, "/data/no/such/python"
    try:
        return stage.start(stage.rows().select(f.udf(lambda key: key)("k")))
    finally:
        context.pythonExec = mine


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers every request with the number in its path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def asking(status: int) -> Play:
    """Return a play in which a service answers the batch function with a status."""

    def play(stage: Stage) -> Any:
        server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def batch(frame: Any, number: int) -> None:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{status}")

        return stage.start(stage.rows(), batch=batch)

    return play


add("batch_function_http_401", CONFIGURATION, asking(401))
add("batch_function_http_403", CONFIGURATION, asking(403))


@scenario(CONFIGURATION)
def batch_function_permission_denied(stage: Stage) -> Any:
    def batch(frame: Any, number: int) -> None:
        raise PermissionError(13, "Permission denied", "/data/exports/orders.csv")

    return stage.start(stage.rows(), batch=batch)


@scenario(CONFIGURATION, alone=True, conf={"spark.master": "nosuch://somewhere"})
def master_unknown(stage: Stage) -> Any:
    raise AssertionError("The session must not start.")
