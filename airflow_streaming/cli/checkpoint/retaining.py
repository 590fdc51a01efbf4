"""The backups that no rule keeps."""

from __future__ import annotations

from argparse import Namespace
from datetime import timedelta

from airflow_streaming.checkpoint.retention import apply_retention
from airflow_streaming.checkpoint.store import open_backup_store
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.printing import name_of, print_json, print_lines
from airflow_streaming.cli.checkpoint.streams import check_stream
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.checkpoint.retention import RetentionPolicy


def retain(arguments: Namespace, person: Person | None) -> int:
    """Remove the backups of a stream that no rule keeps."""
    policy = RetentionPolicy(
        keep_last=arguments.keep_last or 0,
        keep_for=None if arguments.keep_for is None else timedelta(days=arguments.keep_for),
        daily=arguments.daily or 0,
        weekly=arguments.weekly or 0,
        monthly=arguments.monthly or 0,
    )
    store = open_backup_store(arguments.store)
    check_stream(store, arguments.stream)
    done = apply_retention(
        store,
        arguments.stream,
        policy,
        by=name_of(person),
        dry_run=arguments.dry_run,
        progress=Told(),
    )
    if arguments.json:
        print_json(backups.retained_as_dict(done))
    else:
        print_lines(backups.retained(done, dry_run=arguments.dry_run))
    return PROBLEM if done.problems else OK
