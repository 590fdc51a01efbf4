"""``checkpoint inspect``, apart from the other verbs: a look loads nothing that copies or restores."""

from __future__ import annotations

from argparse import Namespace

from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode
from airflow_streaming.checkpoints.reader import Reader, query_folders
from airflow_streaming.cli.common import OK, PROBLEM, Person
from airflow_streaming.cli.output import show, show_json
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.reports.checkpoint import checkpoint_report
from airflow_streaming.storage.folders import open_folders


def inspect(arguments: Namespace, _: Person | None) -> int:
    """Print what a checkpoint holds, or the checkpoints of one application."""
    found = _read(arguments.uri, thorough=arguments.thorough, as_json=arguments.json)
    several = len(found) != 1 or found[0].uri != arguments.uri
    if not arguments.json:
        show(*map(checkpoint_report, found))
    elif several:
        show_json({"uri": arguments.uri, "checkpoints": [one.to_dict() for one in found]})
    else:
        show_json(found[0].to_dict())
    return OK if all(checkpoint.is_sound for checkpoint in found) else PROBLEM


def _read(uri: str, *, thorough: bool, as_json: bool) -> list[Checkpoint]:
    folders = open_folders(uri)
    try:
        names = query_folders(folders)
        return [
            Reader(folders.below(name) if name else folders).inspect(thorough) for name in names
        ]
    except CheckpointError as err:
        if not as_json:
            raise
        # A program that asked for JSON gets the same object for a place that is no checkpoint.
        nothing = Finding(code=FindingCode.NOT_A_CHECKPOINT, path="", message=str(err))
        return [Checkpoint(uri=uri, problems=(nothing,))]
