"""``checkpoint backup``, ``list``, ``verify`` and ``retain``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.backup_trust import BackupTrust, last_word, unreadable
from airflow_streaming.checkpoints.vault.layout import name_for
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.cli.common import OK, PROBLEM, Person
from airflow_streaming.cli.output import Told, answer, progress, show, show_json
from airflow_streaming.exceptions import CheckpointError, RuntimeNotFound, SpecError
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import check_stream_name
from airflow_streaming.reports.backups import (
    backup_report,
    backups_report,
    retention_report,
    trust_text,
    verification_report,
)
from airflow_streaming.reports.report import Paragraph, report_of
from airflow_streaming.storage.folders import open_folders

# Each verb loads its modules when it runs: half the time of a short command is imports.
if TYPE_CHECKING:
    from airflow_streaming.checkpoints.backup.live_copy import Source
    from airflow_streaming.checkpoints.vault.retention import Retained
    from airflow_streaming.checkpoints.vault.store import Listed
    from airflow_streaming.checkpoints.vault.verify import Drill
    from airflow_streaming.home.home import StreamHome

_OF_A_DRILL: Final = ("runtime", "script", "argument", "conf")

_TIERS: Final = ("daily", "weekly", "monthly")


def check_stream(store: BackupStore, name: str) -> None:
    """
    Make sure that a store has a stream.

    :raises CheckpointError: it has none of that name; those it has are named.
    """
    streams = store.streams()
    if name not in streams:
        raise CheckpointError(
            f"Stream {name!r} does not exist in {store.uri}. Existing streams: "
            f"{', '.join(streams) or 'none'}."
        )


def _store_with_stream(arguments: Namespace) -> BackupStore:
    store = open_backup_store(arguments.store)
    if arguments.stream is not None:
        check_stream(store, arguments.stream)
    return store


def sink_logs(arguments: Namespace) -> dict[str, str] | None:
    """Return the log of each file sink that was named; ``None`` when none was."""
    if not arguments.sink:
        return None
    from airflow_streaming.checkpoints.backup.live_copy import SINK_LOG

    return {query: f"{uri.rstrip('/')}/{SINK_LOG}" for query, uri in arguments.sink}


def backup(arguments: Namespace, person: Person | None) -> int:
    """Back up a checkpoint."""
    from airflow_streaming.checkpoints.backup.backup import check_places, take_backup
    from airflow_streaming.checkpoints.backup.live_copy import sources_of

    if arguments.store is None:
        raise SpecError("The backup of a URI needs a backup store: give --store STORE.")
    stream = check_stream_name(arguments.name or name_for(arguments.uri))
    sources = _with_sinks(sources_of(open_folders(arguments.uri)), sink_logs(arguments) or {})
    # Before the store is made: a wrong place is left as it is.
    check_places(sources, arguments.store)
    with progress() as told:
        taken = take_backup(
            sources,
            open_backup_store(arguments.store, create=True),
            stream=stream,
            origin=Origin.MANUAL,
            by=_name_of(person),
            note=person.reason if person else "",
            progress=told,
        )
    return _show_backup(taken, arguments)


def back_up_of_home(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Back up the checkpoints of a stream."""
    # Not at the top: a backup of a checkpoint does without a home.
    from airflow_streaming.checkpoints.backup.stream_backup import (
        BackupRequest,
        back_up_stream,
        default_store,
    )

    if arguments.name is not None:
        raise SpecError(
            "--name is for the backup of a URI; a stream's backup has the stream's name."
        )
    uri = arguments.store or default_store(stream.store.uri)
    store = open_backup_store(uri, create=True, home=stream.store)
    with progress() as told:
        request = BackupRequest(
            origin=Origin.MANUAL,
            by=person.name,
            note=person.reason,
            sink_logs=dict(arguments.sink),
            progress=told,
        )
        taken = back_up_stream(stream, store, request)
    return _show_backup(taken, arguments)


def _show_backup(taken: Backup, arguments: Namespace) -> int:
    answer(backup_report(taken), {"backup_id": taken.id, **_as_dict(taken)}, as_json=arguments.json)
    return OK


def _name_of(person: Person | None) -> str:
    return person.name if person else "unknown"


def _as_dict(backup: Backup) -> dict[str, Any]:
    """Return a backup in JSON form, without where its bytes lie."""
    values: dict[str, Any] = encode(backup)
    del values["bundles"]
    return values


def _with_sinks(sources: Sequence[Source], sinks: Mapping[str, str]) -> list[Source]:
    from airflow_streaming.checkpoints.backup.live_copy import Source, with_only_query

    names = {source.folder for source in sources}
    sinks = with_only_query(sinks, names)
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


def list_backups(arguments: Namespace, _: Person | None) -> int:
    """Print the backups of a store; a damaged backup or a failed verification is a problem."""
    store = _store_with_stream(arguments)
    listed = store.listed(arguments.stream)
    values = {(one.stream, one.id): store.verifications(one.id, one.stream) for one in listed}
    words = {name: last_word(of_it) for name, of_it in values.items()}
    lost = [one.problem for of_it in values.values() for one in unreadable(of_it)]
    verified = {name: trust_text(word) for name, word in words.items()}
    if arguments.json:
        shown = [_listed_as_dict(one, verified[one.stream, one.id]) for one in listed]
        show_json({"store": store.uri, "backups": shown, "problems": lost})
    else:
        show(backups_report(listed, verified, lost))
    standings = {word.standing for word in words.values()}
    is_wrong = any(one.backup is None for one in listed) or bool(
        standings & {BackupTrust.DAMAGED, BackupTrust.UNKNOWN}
    )
    return PROBLEM if is_wrong else OK


def _listed_as_dict(listed: Listed, verified: str) -> dict[str, Any]:
    """Return one backup of a list in JSON form."""
    values = {"backup_id": listed.id, "stream": listed.stream, "verified": verified}
    if listed.backup is None:
        return {**values, "problem": listed.problem}
    return {**values, **_as_dict(listed.backup)}


def verify_backup(arguments: Namespace, person: Person | None) -> int:
    """Verify a backup and print the findings."""
    from airflow_streaming.checkpoints.vault.verify import verify

    level = Level(arguments.level)
    _check_used(arguments, level)
    store = _store_with_stream(arguments)
    with progress() as told:
        found = verify(
            store,
            arguments.backup_id,
            level,
            by=_name_of(person),
            now=datetime.now(UTC),
            drill=_drill(arguments, store, told) if level is Level.DRILL else None,
            progress=told.bytes_read,
        )
    answer(
        verification_report(found),
        {"backup_id": found.backup, "holds": found.holds, **encode(found)},
        as_json=arguments.json,
    )
    return OK if found.holds else PROBLEM


def _check_used(arguments: Namespace, level: Level) -> None:
    given = [name for name in _OF_A_DRILL if getattr(arguments, name)]
    if given and level is not Level.DRILL:
        raise SpecError(
            f"Only a drill runs anything, so --{given[0]} has no effect on level {level}. "
            "Leave it out, or give --level drill."
        )


def _drill(arguments: Namespace, store: BackupStore, told: Told) -> Drill:
    from airflow_streaming.spark_jobs.drill import choose_runtime, drill, runtimes_from
    from airflow_streaming.spark_jobs.runner import read_program

    backup = store.backup(arguments.backup_id)
    try:
        runtime = choose_runtime(runtimes_from(os.environ), backup, arguments.runtime)
    except RuntimeNotFound as err:
        raise SpecError(f"The drill did not run. {err}") from err
    program = None
    if arguments.script is not None:
        program = read_program(arguments.script, arguments.argument, dict(arguments.conf))
    return partial(drill, runtime=runtime, program=program, progress=told)


def retain(arguments: Namespace, person: Person | None) -> int:
    """Remove the backups of a stream that no rule keeps."""
    # Not at the top: the other verbs do without.
    from airflow_streaming.checkpoints.vault.retention import apply_retention

    if not any((arguments.keep_last, arguments.keep_for, *(getattr(arguments, n) for n in _TIERS))):
        raise SpecError(
            "Without a rule no backup is kept. Give --keep-last, --keep-for, --daily, --weekly or "
            "--monthly with a number from 1."
        )
    policy = RetentionPolicy(
        keep_last=arguments.keep_last or 0,
        keep_for=None if arguments.keep_for is None else timedelta(days=arguments.keep_for),
        daily=arguments.daily or 0,
        weekly=arguments.weekly or 0,
        monthly=arguments.monthly or 0,
    )
    store = _store_with_stream(arguments)
    with progress() as told:
        done = apply_retention(
            store,
            arguments.stream,
            policy,
            by=_name_of(person),
            dry_run=arguments.dry_run,
            progress=told,
        )
    answer(
        retention_report(done, dry_run=arguments.dry_run),
        _retained_as_dict(done),
        as_json=arguments.json,
    )
    return PROBLEM if done.problems else OK


def delete(arguments: Namespace, person: Person | None) -> int:
    """Delete one backup, or without ``--yes`` tell whether it could be."""
    # Not at the top: the other verbs do without.
    from airflow_streaming.checkpoints.vault.deletion import delete_named

    store = _store_with_stream(arguments)
    stream = delete_named(
        store,
        arguments.backup_id,
        by=_name_of(person),
        reason=person.reason if person else "",
        dry_run=not arguments.yes,
    )
    if arguments.json:
        show_json({"backup_id": arguments.backup_id, "stream": stream, "deleted": arguments.yes})
    else:
        done = "is deleted" if arguments.yes else "can be deleted; give --yes to do so"
        show(report_of([Paragraph(f"Backup {arguments.backup_id} of {stream} {done}.")]))
    return OK


def _retained_as_dict(done: Retained) -> dict[str, Any]:
    """Return the same in JSON form."""
    values: dict[str, Any] = encode(done)
    values["plan"] = {
        "keep": [{"backup_id": k.backup.id, "reasons": k.reasons} for k in done.plan.keep],
        "remove": [backup.id for backup in done.plan.remove],
    }
    return values
