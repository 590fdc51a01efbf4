"""Change gate: reads checkpoints, and asks the rules whether new code may go on from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.reader import Reader
from airflow_streaming.core.checkpoint.finding import FindingCode
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.queries import match
from airflow_streaming.core.compatibility.change.script import (
    checkpoint_name,
    has_batch,
    judge_script,
)
from airflow_streaming.core.compatibility.finding import GateReport, report_of
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.change_versions import AS_PLANNED, Versions, judge_versions
from airflow_streaming.upgrade.rehearsal_place import checkpoints_of
from airflow_streaming.upgrade.state_columns import read_state_columns


class Looked(NamedTuple):
    """
    What the gate reads of one checkpoint.

    :param checkpoint: ``None`` where there is none.
    :param schemas: Columns of its state, as far as they can be read.
    """

    checkpoint: Checkpoint | None
    schemas: list[StoreSchema]


def look_at(uri: str, storage_options: Mapping[str, Any] | None = None) -> Looked:
    """
    Read one query's checkpoint as far as the rules need it: logs, names and schema files.

    :raises SpecError: not a full URI.
    :raises HomeUnavailable: the store cannot be reached.
    """
    folders = open_folders(uri, storage_options)
    checkpoint = _read(folders)
    return Looked(checkpoint, read_state_columns(folders, checkpoint) if checkpoint else [])


def gate_change(
    checkpoints: Mapping[str, str],
    old: Sequence[QueryPlan],
    new: ScriptPlan,
    *,
    storage_options: Mapping[str, Any] | None = None,
    same_code: bool = False,
    old_problem: str = "",
    versions: Versions | None = AS_PLANNED,
) -> GateReport:
    """
    Judge a new version of a script by its plan, the old plans and the checkpoints.

    Where the new plan is another Spark's than the old ones, the version gate is asked as well. Only logs and the state's schema files are read, nothing is written, and no Spark is started.

    :param checkpoints: URI of each query's checkpoint, by query name.
    :param old: Plans that the running queries were started with; empty when they are not known,
        then the checkpoints alone are compared with.
    :param storage_options: Passed to fsspec for a URI that is not a local folder.
    :param same_code: The script is known to be the same, byte for byte.
    :param old_problem: Why the old script came to no end in plan mode, if it did not.
    :param versions: From which Spark to which, where that is not what the plans say; ``None`` for
        whoever asks the version gate himself.
    :raises SpecError: not a full URI, or not a Spark version.
    :raises HomeUnavailable: a store cannot be reached.
    """
    found: dict[str, Checkpoint | None] = {}
    columns: dict[str, list[StoreSchema]] = {}
    for query, uri in checkpoints.items():
        looked = look_at(uri, storage_options)
        found[query], columns[query] = looked.checkpoint, looked.schemas
    report = judge_script(
        old,
        new.queries,
        found,
        schemas=columns,
        same_code=same_code,
        problem=new.problem,
        old_problem=old_problem,
    )
    if versions is None:
        return report
    read = {checkpoint_name(each, checkpoints) for each in match(old, new.queries)}
    there = {
        query: uri
        for query, uri in checkpoints.items()
        if query in read and has_batch(found[query])
    }
    other = judge_versions(there, old, new.spark, versions, storage_options)
    return report_of([*report.findings, *other], report.pattern)


def gate_stream_change(
    home: StreamHome,
    new: ScriptPlan,
    *,
    storage_options: Mapping[str, Any] | None = None,
    same_code: bool = False,
    versions: Versions | None = AS_PLANNED,
) -> GateReport:
    """
    Judge a new version of a stream's script by what its home has recorded.

    The old plans are those that the current deployment's drivers recorded; the checkpoints are where
    these queries have them under it.

    :param storage_options: Of the checkpoints' store.
    :param same_code: The script is known to be the same, byte for byte.
    :param versions: As of ``gate_change``; without more, the checkpoints are the newest
        deployment's Spark's.
    :raises CheckpointError: the stream was never deployed.
    :raises HomeUnavailable: a store cannot be reached.
    """
    checkpoints = checkpoints_of(home, storage_options).checkpoints
    old = home.newest_plans()
    deployment = home.newest_deployment()
    if versions is not None and deployment is not None:
        versions = replace(versions, start=versions.start or deployment.spark_version)
    return gate_change(
        checkpoints,
        old,
        new,
        storage_options=storage_options,
        same_code=same_code,
        versions=versions,
    )


def _read(folders: Folders) -> Checkpoint | None:
    try:
        found = Reader(folders).inspect(contents=False)
    except CheckpointError:
        return None
    if any(problem.code is FindingCode.NOT_A_CHECKPOINT for problem in found.problems):
        return None
    return found
