"""Two streams in Spark's real-time mode over Kafka: one without state, one that counts (Spark 4.3)."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import HealthRules, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
SERVERS = "{{ var.value.get('kafka_servers', '127.0.0.1:9092') }}"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"

for name, script, observed in (
    ("masked_payments", "mask_payments", {"latency.p99": 1000.0}),
    ("counted_payments", "count_payments", {}),
):
    spec = StreamSpec(
        name=name,
        application=f"jobs/{script}.py",
        application_args=["--servers", SERVERS, "--interval", "30 seconds"],
        home=HOME,
        runtime="spark-4.3",
        packages=[CONNECTOR],
        # A core for each partition of the topic and, with state, for each shuffle partition.
        conf={"spark.master": "local[4]", "spark.sql.shuffle.partitions": 2},
        health=HealthRules.recommended(observed=observed),
    )
    globals().update(
        stream_dags(
            spec, start_date=datetime(2026, 1, 1, tzinfo=UTC), tags=["streaming", "example"]
        )
    )
