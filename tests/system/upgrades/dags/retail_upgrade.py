"""The retail stream with all of its dags, in a hurry; for ``tests.system.upgrades``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_streaming.model.arguments.policies import Budget, RestartPolicy
from airflow_streaming.options import BackupOptions, Soaked, UpgradeOptions
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import FormPolicy, SoakTerms, StreamSpec

COUNTRIES = ("Freedonia", "Grand Fenwick", "Ruritania", "San Serriffe")
SOAK_AT_LEAST_S = 10
APPROVAL_S = 600


def countries_are_known(soaked: Soaked) -> str | None:
    """
    Say which country the new deployment has written that there is none of.

    Parquet files say in their footer, as they are, the first and the last value of each column.
    """
    begun = soaked.begun_at.timestamp()
    written = Path(soaked.deployment.output).rglob("*.parquet")
    footers = [file.read_bytes() for file in written if file.stat().st_mtime > begun]
    for country in COUNTRIES:
        if any(country.upper().encode() in footer for footer in footers):
            return f"There is no country {country.upper()}."
    return None


globals().update(
    stream_dags(
        StreamSpec(
            name="retail",
            application="jobs/retail_revenue.py",
            application_args=[
                *("--input", "{{ var.value.retail_input }}", "--output", "{output}"),
                *("--trigger-seconds", "1", "--files-per-batch", "10"),
            ],
            home="{{ var.value.streams_home }}",
            runtime="spark-3.5",
            conf={"spark.sql.shuffle.partitions": 2},
            form_policy=FormPolicy(fields=["application"]),
            restart=RestartPolicy(
                first_delay=timedelta(seconds=1),
                max_delay=timedelta(seconds=5),
                budgets=(Budget(restarts=1000, window=timedelta(hours=1)),),
            ),
        ),
        backup=BackupOptions(schedule=None),
        soak=SoakTerms(
            batches=3,
            at_least=timedelta(seconds=SOAK_AT_LEAST_S),
            at_most=timedelta(minutes=10),
            # The stop itself piles files up; a good application only takes from them.
            backlog_growth=1.1,
        ),
        upgrade=UpgradeOptions(
            checks=[countries_are_known], approval_timeout=timedelta(seconds=APPROVAL_S)
        ),
    )
)
