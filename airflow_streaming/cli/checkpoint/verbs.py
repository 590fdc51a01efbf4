"""
``airflow-streaming checkpoint``: what each verb does.

Every verb prints text for people, or with ``--json`` one JSON object; progress goes to the error
output. The exit code is 0 when all is right, 1 when anything is wrong with a checkpoint or a backup
or an act was refused, 2 for wrong use.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from airflow_streaming.checkpoint.backup import check_places, take_backup
from airflow_streaming.checkpoint.clone import Cloned, carry_over, clone
from airflow_streaming.checkpoint.drill import drill
from airflow_streaming.checkpoint.drill_program import read_program
from airflow_streaming.checkpoint.drill_runtime import choose_runtime, runtimes_from
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.ours import name_for
from airflow_streaming.checkpoint.reader import Reader, query_folders
from airflow_streaming.checkpoint.restore import Place, plan_restore, restore
from airflow_streaming.checkpoint.retention import apply_retention
from airflow_streaming.checkpoint.sources import SINK_LOG, Source, sources_of
from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.checkpoint.verify import Drill, verify
from airflow_streaming.cli.checkpoint import backups, report
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.commands import OK, PROBLEM, Person
from airflow_streaming.cli.table import printable
from airflow_streaming.core.checkpoint.backup import Backup, Level, Origin
from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.checkpoint.retention import RetentionPolicy
from airflow_streaming.core.names import check_stream_name
from airflow_streaming.core.wire import encode
from airflow_streaming.exceptions import CheckpointError, RuntimeNotFound, SpecError


def run(arguments: Namespace, person: Person | None) -> int:
    """
    Run one verb that needs no home.

    :param person: Who acts; ``None`` for a verb that only looks.
    """
    return _VERBS[arguments.verb](arguments, person)


def _inspect(arguments: Namespace, _: Person | None) -> int:
    found = _read(arguments.uri, thorough=arguments.thorough)
    several = len(found) != 1 or found[0].uri != arguments.uri
    if not arguments.json:
        print("\n\n".join(report.show(checkpoint) for checkpoint in found))
    elif several:
        _print_json({"uri": arguments.uri, "checkpoints": [one.to_dict() for one in found]})
    else:
        _print_json(found[0].to_dict())
    return OK if all(checkpoint.is_sound for checkpoint in found) else PROBLEM


def _read(uri: str, *, thorough: bool) -> list[Checkpoint]:
    folders = open_folders(uri)
    try:
        names = query_folders(folders)
        return [
            Reader(folders.below(name) if name else folders).inspect(thorough) for name in names
        ]
    except CheckpointError as err:
        # A program that asked for JSON gets the same object for a place that is no checkpoint.
        nothing = Finding(code=FindingCode.NOT_A_CHECKPOINT, path="", message=str(err))
        return [Checkpoint(uri=uri, problems=(nothing,))]


def _backup(arguments: Namespace, person: Person | None) -> int:
    told = Told()
    stream = check_stream_name(arguments.stream or name_for(arguments.uri))
    sources = _with_sinks(sources_of(open_folders(arguments.uri)), sink_logs(arguments) or {})
    # Before the store is made: a wrong place is left as it is.
    check_places(sources, arguments.to)
    taken = take_backup(
        sources,
        open_backup_store(arguments.to, create=True),
        stream=stream,
        origin=Origin.MANUAL,
        by=_name(person),
        note=person.reason if person else "",
        progress=told,
        clock=_now,
    )
    return show_backup(taken, arguments)


def show_backup(taken: Backup, arguments: Namespace) -> int:
    """Print a backup that was taken."""
    if arguments.json:
        _print_json({"backup_id": taken.id, **backups.as_dict(taken)})
    else:
        _print_lines(backups.taken(taken))
    return OK


def sink_logs(arguments: Namespace) -> dict[str, str] | None:
    """Return the log of each file sink that was named; ``None`` when none was."""
    named = {query: f"{uri.rstrip('/')}/{SINK_LOG}" for query, uri in arguments.sink}
    return named or None


def _with_sinks(sources: Sequence[Source], sinks: Mapping[str, str]) -> list[Source]:
    names = {source.folder for source in sources}
    if unknown := sorted(set(sinks) - names):
        known = ", ".join(sorted(filter(None, names))) or "none, for it is a single checkpoint"
        raise SpecError(f"--sink names no query of this checkpoint: {unknown}. Queries: {known}.")
    return [
        Source(
            folder=source.folder,
            folders=source.folders,
            sink_log=open_folders(sinks[source.folder]) if source.folder in sinks else None,
        )
        for source in sources
    ]


def _list(arguments: Namespace, _: Person | None) -> int:
    store = open_backup_store(arguments.store)
    listed = store.listed(arguments.stream)
    levels = {
        (one.stream, one.id): backups.standing(store.verifications(one.id, one.stream))
        for one in listed
    }
    if arguments.json:
        shown = [backups.listed_as_dict(one, levels[one.stream, one.id]) for one in listed]
        _print_json({"store": store.uri, "backups": shown})
    else:
        _print_lines(backups.table(listed, levels))
    return OK if all(one.backup is not None for one in listed) else PROBLEM


def _verify(arguments: Namespace, person: Person | None) -> int:
    told = Told()
    level = Level(arguments.level)
    store = open_backup_store(arguments.store)
    found = verify(
        store,
        arguments.backup_id,
        level,
        by=_name(person),
        now=_now(),
        drill=_drill(arguments, store, told) if level is Level.DRILL else None,
        progress=told.bytes_read,
    )
    if arguments.json:
        _print_json({"backup_id": found.backup, "holds": found.holds, **encode(found)})
    else:
        _print_lines(backups.verified(found))
    return OK if found.holds else PROBLEM


def _drill(arguments: Namespace, store: BackupStore, told: Told) -> Drill:
    backup = store.backup(arguments.backup_id)
    try:
        runtime = choose_runtime(runtimes_from(os.environ), backup, arguments.runtime)
    except RuntimeNotFound as err:
        raise CheckpointError(f"There was no drill. {err}") from err
    program = None
    if arguments.script is not None:
        program = read_program(arguments.script, arguments.argument, dict(arguments.conf))
    return partial(drill, runtime=runtime, program=program, progress=told)


def _restore(arguments: Namespace, _: Person | None) -> int:
    if arguments.to is None:
        raise SpecError("Where to? Give --to NEW_URI, or --stream NAME with a home.")
    store = open_backup_store(arguments.store)
    where = Place(to=arguments.to, sink_logs=sink_logs(arguments))
    backup_id, told = arguments.backup_id, Told()
    if arguments.dry_run:
        plan = plan_restore(store, backup_id, where, accept=arguments.accept, progress=told)
        if arguments.json:
            _print_json(plan.to_dict())
        else:
            _print_lines(backups.planned(plan))
        return PROBLEM if plan.is_refused else OK
    restored = restore(store, backup_id, where, accept=arguments.accept, progress=told)
    if arguments.json:
        _print_json({**encode(restored), "plan": restored.plan.to_dict()})
    else:
        _print_lines(backups.restored(restored))
    return OK


def _clone(arguments: Namespace, _: Person | None) -> int:
    return _show_copy(
        arguments,
        clone(arguments.uri, arguments.to, keep_query_id=arguments.keep_query_id, progress=Told()),
    )


def _carry_over(arguments: Namespace, _: Person | None) -> int:
    return _show_copy(
        arguments,
        carry_over(
            arguments.uri,
            arguments.to,
            sources=_sources(arguments.source),
            stateless=arguments.stateless,
            progress=Told(),
        ),
    )


def _sources(named: Sequence[str] | None) -> list[str | None] | None:
    return None if named is None else [None if name == "new" else name for name in named]


def _show_copy(arguments: Namespace, copied: Cloned) -> int:
    if arguments.json:
        _print_json({**encode(copied), "checkpoint": copied.checkpoint.to_dict()})
    else:
        _print_lines(backups.copied(copied))
    return OK


def _retain(arguments: Namespace, person: Person | None) -> int:
    policy = RetentionPolicy(
        keep_last=arguments.keep_last or 0,
        keep_for=None if arguments.keep_for is None else timedelta(days=arguments.keep_for),
        daily=arguments.daily or 0,
        weekly=arguments.weekly or 0,
        monthly=arguments.monthly or 0,
    )
    store = open_backup_store(arguments.store)
    if arguments.stream not in store.streams():
        raise CheckpointError(
            f"There is no stream {arguments.stream!r} in {store.uri}. Its streams are: "
            f"{', '.join(store.streams()) or 'none'}."
        )
    done = apply_retention(
        store,
        arguments.stream,
        policy,
        by=_name(person),
        dry_run=arguments.dry_run,
        progress=Told(),
    )
    if arguments.json:
        _print_json(backups.retained_as_dict(done))
    else:
        _print_lines(backups.retained(done, dry_run=arguments.dry_run))
    return PROBLEM if done.problems else OK


_VERBS: Final[dict[str, Callable[[Namespace, Person | None], int]]] = {
    "inspect": _inspect,
    "backup": _backup,
    "list": _list,
    "verify": _verify,
    "restore": _restore,
    "clone": _clone,
    "carry-over": _carry_over,
    "retain": _retain,
}


def _name(person: Person | None) -> str:
    return person.name if person else "unknown"


def _now() -> datetime:
    return datetime.now(UTC)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, sort_keys=False))


def _print_lines(lines: Sequence[str]) -> None:
    print("\n".join(printable(line) for line in lines))
