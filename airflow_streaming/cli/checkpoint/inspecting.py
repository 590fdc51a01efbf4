"""What a checkpoint holds."""

from __future__ import annotations

from argparse import Namespace

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.reader import Reader, query_folders
from airflow_streaming.cli.checkpoint import report
from airflow_streaming.cli.checkpoint.printing import print_json
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.exceptions import CheckpointError


def inspect(arguments: Namespace, _: Person | None) -> int:
    """Print what a checkpoint holds, or the checkpoints of one application."""
    found = _read(arguments.uri, thorough=arguments.thorough, as_json=arguments.json)
    several = len(found) != 1 or found[0].uri != arguments.uri
    if not arguments.json:
        print("\n\n".join(report.show(checkpoint) for checkpoint in found))
    elif several:
        print_json({"uri": arguments.uri, "checkpoints": [one.to_dict() for one in found]})
    else:
        print_json(found[0].to_dict())
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
