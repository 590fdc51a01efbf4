"""
Back up a stream's checkpoints every hour, drill a restore every week, restore by hand.

Nothing here pauses or touches the stream, but a restore that is not a dry run; and that needs the
stream to be stopped and writes beside the old checkpoint, never over it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_streaming.operators.backup import CheckpointBackupOperator, CheckpointRetentionOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator
from airflow_streaming.spec import FormPolicy, Origin, RetentionPolicy

HOME = "{{ var.value.get('streams_home', '/opt/airflow/streams') }}"
STREAM = "retail_revenue"

# [START howto_checkpoint_backup]
with DAG(
    "example_checkpoint_backup",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - Airflow reads it in the dag's time zone
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
    tags=["streaming"],
    doc_md=__doc__,
):
    backup = CheckpointBackupOperator(
        task_id="backup",
        home=HOME,
        stream=STREAM,
        verify="full",
        # One alert after three missed backups in a row, and one when backups work again.
        max_age=timedelta(hours=3),
    )
    retention = CheckpointRetentionOperator(
        task_id="retention",
        home=HOME,
        stream=STREAM,
        policy=RetentionPolicy(
            keep_last=24,
            daily=7,
            weekly=4,
            origins={
                Origin.MANUAL: RetentionPolicy(keep_for=timedelta(days=90)),
                Origin.BEFORE_UPGRADE: RetentionPolicy(keep_last=5),
                Origin.BEFORE_RESTORE: RetentionPolicy(keep_last=5),
            },
        ),
        # Leftovers of a killed backup are swept too.
        trigger_rule="all_done",
    )
    backup >> retention
# [END howto_checkpoint_backup]

# [START howto_checkpoint_drill]
with DAG(
    "example_checkpoint_drill",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - Airflow reads it in the dag's time zone
    catchup=False,
    max_active_runs=1,
    tags=["streaming"],
    doc_md=__doc__,
):
    CheckpointVerifyOperator(
        task_id="drill",
        home=HOME,
        stream=STREAM,
        level="drill",
        execution_timeout=timedelta(minutes=30),
    )
# [END howto_checkpoint_drill]

# [START howto_checkpoint_restore]
with DAG(
    "example_checkpoint_restore",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={
        "stream": Param(STREAM, type="string", title="Stream", description="Name of the stream."),
        "backup_id": Param(
            "",
            type="string",
            title="Backup",
            description="Id of the backup; the newest when it is empty.",
        ),
        "to": Param(
            "",
            type="string",
            title="To",
            description="An empty place to write a copy to; empty for the stream itself.",
        ),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description="Only log the effects of the restore.",
        ),
        "rewind": Param(
            False,
            type="boolean",
            title="Rewind file sinks",
            description="Put the stream's file sinks back too; a query with state needs it.",
        ),
        "accept": Param(
            "",
            type="string",
            title="Accept",
            description="Codes of reasons against it that you accept, separated by commas.",
        ),
        "reason": Param(
            "by hand", type="string", title="Reason", description="Goes into the stream's records."
        ),
    },
    tags=["streaming"],
    doc_md=__doc__,
):
    CheckpointRestoreOperator(
        task_id="restore",
        home=HOME,
        stream="{{ params.stream }}",
        backup_id="{{ params.backup_id }}",
        to="{{ params.to }}",
        # A run writes its copy below this folder and nowhere else.
        form_policy=FormPolicy(places=["/opt/airflow/restored"]),
        dry_run="{{ params.dry_run }}",
        accept="{{ params.accept }}",
        rewind="{{ params.rewind }}",
        reason="{{ params.reason }}",
    )
# [END howto_checkpoint_restore]
