"""Which settings of Spark's core a plan records."""

from __future__ import annotations

import pytest

from airflow_streaming.model.plan.core_settings import recorded_core


@pytest.mark.parametrize(
    ("key", "value", "recorded"),
    [
        ("spark.default.parallelism", "7", "7"),
        ("spark.files.maxPartitionBytes", "1m", "1m"),
        ("spark.files.useFetchCache", "false", None),
        ("spark.python.worker.reuse", "false", "false"),
        ("spark.hadoop.fs.s3a.endpoint", "http://s3", None),
        ("spark.hadoop.parquet.split.files", "false", "false"),
        ("spark.hadoop.fsx.mode", "x", "x"),
        ("spark.kubernetes.namespace", "streams", None),
        ("spark.rdd.compress", "True", None),
        ("spark.rdd.limit.scaleUpFactor", "2", "2"),
        ("spark.masterless", "x", "x"),
        ("spark.master", "local[2]", None),
        ("spark.executorEnv.REGION", "eu", None),
        ("spark.sql.ansi.enabled", "true", None),
        ("other.key", "x", None),
        ("spark.driver.memory", "2g", None),
        ("spark.driver.extraJavaOptions", "-Xmx1g -XX:+UseG1GC", None),
        (
            "spark.driver.extraJavaOptions",
            "-Xmx1g -Duser.timezone=CET -Dfile.encoding=UTF-8 -Dlog=x",
            "-Dfile.encoding=UTF-8 -Duser.timezone=CET",
        ),
        ("spark.executor.defaultJavaOptions", "-Duser.country=NL", "-Duser.country=NL"),
    ],
)
def test_a_setting_is_recorded_unless_it_belongs_to_the_deployment(
    key: str, value: str, recorded: str | None
) -> None:
    assert dict(recorded_core([(key, value)])) == ({} if recorded is None else {key: recorded})
