"""
A stream on a standalone cluster whose home, checkpoint and output are on an object store.

The Spark connection sets cluster mode, so the driver runs on a worker of the cluster. One
connection, ``streams_home``, opens the home for Airflow and for Spark. The driver sends the figures
of every batch to Kafka and serves them to Prometheus. ``docker-compose.yaml`` starts all required
services.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_streaming.options import BackupOptions, Connections, PruneOptions
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import HealthRules, StreamSpec

globals().update(
    stream_dags(
        StreamSpec(
            name="on_a_cluster",
            application="jobs/ticks.py",
            application_args=["--output", "{output}"],
            home="{{ var.value.get('cluster_home', 's3://streams/home') }}",
            runtime="spark-4.3",
            conf={
                "spark.sql.shuffle.partitions": 2,
                "spark.cores.max": 2,
                "spark.executor.cores": 1,
                "spark.airflowStreaming.sinks": "kafka,prometheus",
                "spark.airflowStreaming.sink.kafka.bootstrap.servers": "broker:9092",
                "spark.airflowStreaming.sink.kafka.topic": "stream-progress",
                # Prometheus is another container; the port is not published.
                "spark.airflowStreaming.sink.prometheus.address": "0.0.0.0",  # noqa: S104
                "spark.airflowStreaming.sink.prometheus.port": "9464",
            },
            health=HealthRules.recommended(),
        ),
        connections=Connections(conn_id="spark_cluster", home_conn_id="streams_home"),
        backup=BackupOptions(schedule="@hourly"),
        prune=PruneOptions(),
        tags=["streaming", "example"],
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
    )
)
