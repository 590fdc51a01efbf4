"""The command ``prune``: remove what of a stream is old and not needed."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.pruning.observe import BackedUp, backed_up_in, no_backups
from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    Person,
    add_json,
    add_person,
    add_stream,
    number,
    place,
    positive,
)
from airflow_streaming.cli.output import show, show_json
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.keeping import LEAST, MOST, PrunePolicy
from airflow_streaming.model.codec import encode
from airflow_streaming.reports.pruning import pruning_report
from airflow_streaming.services.pruning import prune
from airflow_streaming.storage.fsspec_blobs import open_blobs

FOLDER_VARIABLE: Final = "AIRFLOW__STREAMING__DRIVER_FOLDER"
_days: Final = number(LEAST.days, MOST.days, "days")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``prune``."""
    add_stream(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would go and what stays; write nothing"
    )
    parser.add_argument(
        "--keep-days",
        type=_days,
        default=14,
        metavar="DAYS",
        help="how long old things are kept, from 7 to 30 (default: 14); longer for a stream with a "
        "longer replay",
    )
    parser.add_argument(
        "--keep-epochs",
        type=positive,
        default=10,
        metavar="N",
        help="how many of the newest epochs stay, however old (default: 10; at least 3)",
    )
    parser.add_argument(
        "--outputs",
        action="store_true",
        help="also remove outputs that no deployment in use and no backup needs",
    )
    parser.add_argument(
        "--store",
        type=place,
        metavar="URI",
        help="backup store, to keep outputs that its backups need (default: _backups in the home)",
    )
    parser.add_argument(
        "--driver-folder",
        type=Path,
        metavar="FOLDER",
        help=f"where this host keeps driver logs (default: ${FOLDER_VARIABLE}; without it they stay)",
    )
    add_json(parser)
    add_person(parser)


def run(home: Home, stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """
    Remove old records, or list them; ``PROBLEM`` when a removal failed.

    :raises SpecError: the folder of driver logs does not exist.
    """
    named = arguments.driver_folder
    if named is not None and not named.is_dir():
        raise SpecError(
            f"Folder {str(named)!r} with driver logs does not exist on this host. Give the "
            "folder of [streaming] driver_folder, or omit --driver-folder. Nothing was "
            "removed."
        )
    policy = PrunePolicy(
        keep=timedelta(days=arguments.keep_days),
        keep_epochs=arguments.keep_epochs,
        outputs=arguments.outputs,
    )
    folder = arguments.driver_folder or os.environ.get(FOLDER_VARIABLE)
    done = prune(
        home,
        open_blobs(home.store.uri),
        stream.name,
        policy,
        by=person.name,
        reason=person.reason if person.says_why else "",
        dry_run=arguments.dry_run,
        driver_folder=Path(folder) if folder else None,
        backed_up=_backed_up(home.store.uri, arguments.store) if arguments.outputs else no_backups,
    )
    if arguments.json:
        found: dict[str, Any] = encode(done)
        show_json({**found, "files": done.files, "size": done.size})
    else:
        show(pruning_report(done, dry_run=arguments.dry_run))
    return PROBLEM if done.problems else OK


def _backed_up(home: str, store: str | None) -> BackedUp:
    uri = store or default_store(home)
    if store is None and not open_blobs(uri).entries(""):
        return no_backups
    return backed_up_in(open_backup_store(uri))
