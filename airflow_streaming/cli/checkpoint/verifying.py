"""Whether a backup holds."""

from __future__ import annotations

import os
from argparse import Namespace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.checkpoint.verify import Drill, verify
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.printing import name_of, print_json, print_lines
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.checkpoint.backup import Level
from airflow_streaming.core.codec import encode
from airflow_streaming.exceptions import RuntimeNotFound, SpecError


def verify_backup(arguments: Namespace, person: Person | None) -> int:
    """Verify a backup and say what was found."""
    told = Told()
    level = Level(arguments.level)
    _check_used(arguments, level)
    store = open_backup_store(arguments.store)
    found = verify(
        store,
        arguments.backup_id,
        level,
        by=name_of(person),
        now=datetime.now(UTC),
        drill=_drill(arguments, store, told) if level is Level.DRILL else None,
        progress=told.bytes_read,
    )
    if arguments.json:
        print_json({"backup_id": found.backup, "holds": found.holds, **encode(found)})
    else:
        print_lines(backups.verified(found))
    return OK if found.holds else PROBLEM


def _check_used(arguments: Namespace, level: Level) -> None:
    given = [name for name in _OF_A_DRILL if getattr(arguments, name)]
    if given and level is not Level.DRILL:
        raise SpecError(
            f"Only a drill runs anything, so nothing is done with --{given[0]} on level {level}. "
            "Leave it out, or give --level drill."
        )


_OF_A_DRILL: Final = ("runtime", "script", "argument", "conf")


def _drill(arguments: Namespace, store: BackupStore, told: Told) -> Drill:
    from airflow_streaming.checkpoint.drill import drill
    from airflow_streaming.checkpoint.drill_program import read_program
    from airflow_streaming.checkpoint.drill_runtime import choose_runtime, runtimes_from

    backup = store.backup(arguments.backup_id)
    try:
        runtime = choose_runtime(runtimes_from(os.environ), backup, arguments.runtime)
    except RuntimeNotFound as err:
        raise SpecError(f"There was no drill. {err}") from err
    program = None
    if arguments.script is not None:
        program = read_program(arguments.script, arguments.argument, dict(arguments.conf))
    return partial(drill, runtime=runtime, program=program, progress=told)
