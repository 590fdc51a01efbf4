"""A backup restored, or what that would mean."""

from __future__ import annotations

from argparse import Namespace

from airflow_streaming.checkpoint.restore import Place, plan_restore, restore
from airflow_streaming.checkpoint.store import open_backup_store
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.printing import print_json, print_lines
from airflow_streaming.cli.checkpoint.sinks import sink_logs
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.codec import encode
from airflow_streaming.exceptions import SpecError


def restore_backup(arguments: Namespace, _: Person | None) -> int:
    """Restore a backup into a new place."""
    if arguments.to is None:
        raise SpecError("Where to? Give --to NEW_URI, or --stream NAME with a home.")
    store = open_backup_store(arguments.store)
    where = Place(to=arguments.to, sink_logs=sink_logs(arguments))
    backup_id, told = arguments.backup_id, Told()
    if arguments.dry_run:
        plan = plan_restore(store, backup_id, where, accept=arguments.accept, progress=told)
        if arguments.json:
            print_json(plan.to_dict())
        else:
            print_lines(backups.planned(plan))
        return PROBLEM if plan.is_refused else OK
    restored = restore(store, backup_id, where, accept=arguments.accept, progress=told)
    if arguments.json:
        print_json({**encode(restored), "plan": restored.plan.to_dict()})
    else:
        print_lines(backups.restored(restored))
    return OK
