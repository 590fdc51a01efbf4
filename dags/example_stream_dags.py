"""
Everything that one stream needs, in one call: keep it alive, upgrade it, size it, back it up.

The upgrade is a form: trigger ``example_revenue_upgrade`` and choose another runtime, script or
configuration. It only looks until "dry run" is turned off.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_streaming.options import RehearsalOptions, RehearseWhen, Soaked, UpgradeOptions
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import HealthRules, SoakTerms, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('retail_input', '/opt/airflow/retail') }}"


# [START howto_upgrade_check]
def has_written(soaked: Soaked) -> str | None:
    """Return an error when the new deployment has left no files in the output."""
    written = Path(soaked.deployment.output).rglob("*.parquet")
    newer = (file for file in written if file.stat().st_mtime > soaked.begun_at.timestamp())
    return None if any(newer) else f"{soaked.deployment.output} has no file since the upgrade."


# [END howto_upgrade_check]

# [START howto_stream_dags]
globals().update(
    stream_dags(
        StreamSpec(
            name="example_revenue",
            application="jobs/retail_revenue.py",
            application_args=["--input", INPUT, "--output", "{output}"],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            health=HealthRules.recommended(backlog_files=50),
        ),
        soak=SoakTerms(batches=3, at_least=timedelta(minutes=2), at_most=timedelta(minutes=15)),
        # Ids of Airflow's users; without any, everybody who may edit the dag may approve.
        approvers=[],
        upgrade=UpgradeOptions(
            checks=[has_written], rehearsal=RehearsalOptions(when=RehearseWhen.WHEN_UNKNOWN)
        ),
    )
)
# [END howto_stream_dags]
