"""The commands ``remove``, which removes a whole stream, and ``reuse``, which frees its name."""

from __future__ import annotations

import argparse

from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.common import OK, PROBLEM, Person, add_json, add_person, place, said
from airflow_streaming.cli.output import progress, show_json, show_lines
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home
from airflow_streaming.launch.port import Launcher
from airflow_streaming.services.removing import (
    RemovalRequest,
    RemovedStream,
    free_name,
    remove_stream,
)
from airflow_streaming.storage.fsspec_blobs import open_blobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``remove``."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the paths and the obstacles; write nothing"
    )
    parser.add_argument(
        "--keep-output", action="store_true", help="leave the outputs in the home where they are"
    )
    parser.add_argument(
        "--released-by",
        type=said,
        metavar="DAG",
        help="confirm that this DAG, the owner, no longer has the stream",
    )
    parser.add_argument(
        "--store",
        type=place,
        metavar="URI",
        help="backup store for the last backup (default: _backups in the home)",
    )
    add_json(parser)
    add_person(parser)


def add_reuse_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``reuse``."""
    parser.add_argument("stream", metavar="STREAM", help="name of the removed stream")
    add_person(parser, must_say_why=True)


def run(home: Home, arguments: argparse.Namespace, person: Person, launcher: Launcher) -> int:
    """
    Remove a stream, or list the paths that a removal would delete.

    :raises SpecError: the reason is missing.
    :raises RemovalRefused: the stream cannot be removed now.
    """
    if not (person.says_why or arguments.dry_run):
        raise SpecError("A removal needs a reason: --reason TEXT. Nothing was removed.")
    uri = arguments.store or default_store(home.store.uri)
    with progress() as shown:
        done = remove_stream(
            home,
            open_blobs(home.store.uri),
            arguments.stream,
            None if arguments.dry_run else open_backup_store(uri, create=True, home=home.store),
            launcher,
            RemovalRequest(
                by=person.name,
                reason=person.reason,
                released_by=arguments.released_by or "",
                keep_output=arguments.keep_output,
                dry_run=arguments.dry_run,
                progress=shown,
            ),
        )
    if arguments.json:
        show_json(_as_json(done))
    else:
        show_lines(_lines(done, dry_run=arguments.dry_run))
    return PROBLEM if done.refusals else OK


def reuse(home: Home, arguments: argparse.Namespace, person: Person) -> int:
    """Free the name of a removed stream."""
    removal = free_name(home, arguments.stream, by=person.name, reason=person.reason)
    show_lines(
        [
            f"The name {arguments.stream} is free. The stream that was removed by {removal.by} stays removed.",
            "The next run of a DAG with a stream of this name starts the new one.",
        ]
    )
    return OK


def _lines(done: RemovedStream, *, dry_run: bool) -> list[str]:
    if not dry_run:
        message = f"Stream {done.stream} is removed; {len(done.removed)} files and folders went."
    elif done.refusals:
        message = f"Stream {done.stream} would not be removed:"
    else:
        message = f"Stream {done.stream} would be removed:"
    lines = [message, *(f"- {one}" for one in done.refusals)]
    if dry_run:
        lines += [f"would go: {one}" for one in done.removed]
    lines += [f"stays: {one}" for one in done.kept]
    lines += [f"backup: {one}" for one in done.backups]
    return lines


def _as_json(done: RemovedStream) -> dict[str, object]:
    return {
        "stream": done.stream,
        "change": done.change.number if done.change is not None else None,
        "refusals": done.refusals,
        "removed": done.removed,
        "kept": done.kept,
        "backups": done.backups,
    }
