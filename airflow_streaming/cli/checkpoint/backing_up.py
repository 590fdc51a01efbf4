"""Backups taken, and those that there are."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from airflow_streaming.checkpoint.backup import check_places, take_backup
from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.naming import name_for
from airflow_streaming.checkpoint.sources import Source, sources_of
from airflow_streaming.checkpoint.store import open_backup_store
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.printing import name_of, print_json, print_lines
from airflow_streaming.cli.checkpoint.sinks import sink_logs
from airflow_streaming.cli.checkpoint.streams import check_stream
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.checkpoint.backup import Backup, Origin
from airflow_streaming.core.checkpoint.standing import Standing, last_word
from airflow_streaming.core.names import check_stream_name
from airflow_streaming.exceptions import SpecError


def backup(arguments: Namespace, person: Person | None) -> int:
    """Back up a checkpoint."""
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
        by=name_of(person),
        note=person.reason if person else "",
        progress=told,
    )
    return show_backup(taken, arguments)


def show_backup(taken: Backup, arguments: Namespace) -> int:
    """Print a backup that was taken."""
    if arguments.json:
        print_json({"backup_id": taken.id, **backups.as_dict(taken)})
    else:
        print_lines(backups.taken(taken))
    return OK


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


def list_backups(arguments: Namespace, _: Person | None) -> int:
    """Print the backups of a store; one that is damaged or failed a verification is a problem."""
    store = open_backup_store(arguments.store)
    if arguments.stream is not None:
        check_stream(store, arguments.stream)
    listed = store.listed(arguments.stream)
    words = {
        (one.stream, one.id): last_word(store.verifications(one.id, one.stream)) for one in listed
    }
    levels = {name: backups.standing(word) for name, word in words.items()}
    if arguments.json:
        shown = [backups.listed_as_dict(one, levels[one.stream, one.id]) for one in listed]
        print_json({"store": store.uri, "backups": shown})
    else:
        print_lines(backups.table(listed, levels))
    is_wrong = any(one.backup is None for one in listed) or Standing.DAMAGED in {
        word.standing for word in words.values()
    }
    return PROBLEM if is_wrong else OK
