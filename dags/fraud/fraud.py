"""
Cards in two places at once: a stream with state of its own, upgraded and cut over from a form.

Trigger ``fraud_upgrade`` or ``fraud_blue_green`` to run another version. A version whose state has
another shape is refused by the first and warmed up beside the live one by the second.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_streaming.options import (
    CutoverOptions,
    GreenStart,
    RehearsalOptions,
    RehearseWhen,
    SwitchMethod,
    UpgradeOptions,
)
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import HealthRules, ReadyTerms, SoakTerms, StreamSpec

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
INPUT = "{{ var.value.get('streams_input', '/opt/airflow/input') }}"

globals().update(
    stream_dags(
        StreamSpec(
            name="fraud",
            application="jobs/fraud_alerts.py",
            # The database is in the output, so that each lane of a cutover has its own.
            application_args=[
                "--input",
                f"{INPUT}/payments",
                "--database",
                "{output}/alerts.db",
            ],
            py_files=[str(Path(__file__).parent / "jobs" / "fraud_rule.py")],
            home=HOME,
            runtime="spark-4.3",
            conf={"spark.sql.shuffle.partitions": 2},
            health=HealthRules.recommended(backlog_files=50, state_rows_limit=1_000_000),
        ),
        soak=SoakTerms(batches=3, at_least=timedelta(minutes=2), at_most=timedelta(minutes=15)),
        approvers=[],
        upgrade=UpgradeOptions(rehearsal=RehearsalOptions(when=RehearseWhen.WHEN_UNKNOWN)),
        cutover=CutoverOptions(
            way=SwitchMethod.PARALLEL,
            start=GreenStart.BY_GATE,
            ready=ReadyTerms(well_for=timedelta(minutes=5), batches=5),
        ),
    )
)
