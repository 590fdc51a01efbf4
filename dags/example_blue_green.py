"""
A stream that is moved to another version without losing, doubling or stopping.

Trigger ``example_shop_blue_green``: another script or runtime is run beside the live one, both
outputs are compared day by day and country by country, and consumers are led to the new one. It
only looks until "dry run" is turned off. ``example_shops_blue_green`` moves two streams in one
moment.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_streaming.options import CutoverOptions, GreenStart, SideBySide, SwitchMethod
from airflow_streaming.orchestration.blue_green import blue_green
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import (
    CompareTerms,
    FormPolicy,
    HealthRules,
    ReadyTerms,
    SoakTerms,
    StreamSpec,
)

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('retail_input', '/opt/airflow/retail') }}"
VERSIONS = os.environ.get("STREAM_VERSIONS", "/opt/airflow/versions")
"""Scripts below it may be typed into a form, so its writers run code as the worker's user."""


def shop(name: str) -> StreamSpec:
    """Return a stream that counts revenue; both lanes write where ``{output}`` says."""
    return StreamSpec(
        name=name,
        application="jobs/retail_revenue.py",
        application_args=["--input", INPUT, "--output", "{output}"],
        home=HOME,
        runtime="spark-4.3",
        conf={"spark.sql.shuffle.partitions": 2},
        health=HealthRules.recommended(backlog_files=50),
        form_policy=FormPolicy(applications=["jobs", VERSIONS]),
    )


# [START howto_cutover_check]
def keeps_its_place(pair: SideBySide) -> str | None:
    """Return an error when green does not write its own output."""
    if pair.green.output == pair.blue.output:
        return f"Both write {pair.green.output}."
    return None


# [END howto_cutover_check]

# [START howto_blue_green]
globals().update(
    stream_dags(
        shop("example_shop"),
        # Short, so that all of it can be tried in minutes; a stream that matters is watched for hours.
        soak=SoakTerms(batches=3, at_least=timedelta(minutes=1), at_most=timedelta(minutes=15)),
        approvers=[],
        cutover=CutoverOptions(
            way=SwitchMethod.PARALLEL,
            start=GreenStart.BY_GATE,
            ready=ReadyTerms(well_for=timedelta(minutes=1), batches=5, backlog_factor=1.5),
            compare=CompareTerms(
                stream="example_shop",
                format="parquet",
                time="day",
                bucket=timedelta(days=1),
                keys=("country",),
                sums=("revenue", "order_lines"),
                tolerance=1e-9,
                # A column that only the new version has; any other one would end the cutover.
                ignore=("largest",),
            ),
            checks=[keeps_its_place],
            deadlines={"catching_up": timedelta(hours=3), "ready": timedelta(hours=12)},
            retain_blue=timedelta(hours=48),
        ),
    )
)
# [END howto_blue_green]

# [START howto_blue_green_several]
TOGETHER = [shop("example_shop_north"), shop("example_shop_south")]

with DAG(
    "example_shops_blue_green",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=8,
    params=cutover_params(TOGETHER),
    tags=["streaming"],
    doc_md="Moves both shops in one moment: all of them or none.",
    description="Runs another version of two streams beside them, and switches both at once.",
):
    blue_green(TOGETHER)
# [END howto_blue_green_several]
