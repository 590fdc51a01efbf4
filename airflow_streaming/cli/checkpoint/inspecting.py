"""``checkpoint inspect``, apart from the other verbs: it loads no code that copies or restores."""

from __future__ import annotations

from argparse import Namespace

from airflow_streaming.checkpoints.read.report import Checkpoint, Finding, FindingCode
from airflow_streaming.checkpoints.reader import Reader, find_queries
from airflow_streaming.cli.common import OK, PROBLEM, Person
from airflow_streaming.cli.output import show, show_json
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.model.codec import encode
from airflow_streaming.reports.checkpoint import checkpoint_report
from airflow_streaming.reports.report import Paragraph, Report, report_of
from airflow_streaming.storage.folders import open_folders


def inspect(arguments: Namespace, _: Person | None) -> int:
    """Print the content of a checkpoint, or the checkpoints of one application."""
    uri = arguments.uri
    found, beside = _read(uri, thorough=arguments.thorough, as_json=arguments.json)
    several = beside or len(found) != 1 or found[0].uri != uri
    if not arguments.json:
        show(*map(checkpoint_report, found), *map(_problem_report, beside))
    elif several:
        checkpoints = [one.to_dict() for one in found]
        show_json({"uri": uri, "checkpoints": checkpoints, "problems": encode(beside)})
    else:
        show_json(found[0].to_dict())
    return OK if not beside and all(checkpoint.is_sound for checkpoint in found) else PROBLEM


def _problem_report(problem: Finding) -> Report:
    return report_of([Paragraph(f"{problem.code}: {problem.message}")])


def _read(
    uri: str, *, thorough: bool, as_json: bool
) -> tuple[list[Checkpoint], tuple[Finding, ...]]:
    folders = open_folders(uri)
    try:
        queries = find_queries(folders)
        below = (folders.below(name) if name else folders for name in queries.names)
        return [Reader(one).inspect(thorough) for one in below], queries.problems
    except CheckpointError as err:
        if not as_json:
            raise
        # With --json, a place without a checkpoint gives the same JSON object.
        nothing = Finding(code=FindingCode.NOT_A_CHECKPOINT, path="", message=str(err))
        return [Checkpoint(uri=uri, problems=(nothing,))], ()
