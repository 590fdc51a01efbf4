"""``checkpoint migrate``: a copy of a checkpoint whose state fits new code."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from airflow_streaming.cli.common import OK, Person, place_of
from airflow_streaming.cli.output import answer, progress
from airflow_streaming.cli.spark.runtime import runtime_named
from airflow_streaming.model.codec import encode
from airflow_streaming.reports.gate import migrated_report
from airflow_streaming.spark_jobs.migration import migrate_checkpoint, migration_in


def migrate(arguments: Namespace, _: Person | None) -> int:
    """Migrate a checkpoint by a plan, and print the proof."""
    migration = migration_in(Path(place_of(arguments.plan)))
    runtime = runtime_named(arguments.runtime)
    with progress() as told:
        found = migrate_checkpoint(
            *(arguments.uri, arguments.to, migration, runtime),
            conf=dict(arguments.conf),
            keep_query_id=arguments.keep_query_id,
            progress=told,
        )
    answer(migrated_report(found), encode(found), as_json=arguments.json)
    return OK
