"""Change gate: reads checkpoints, and asks the rules whether new code may go on from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_streaming.checkpoint.folders import Folders, open_folders
from airflow_streaming.checkpoint.reader import Reader
from airflow_streaming.core.checkpoint.finding import FindingCode
from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.script import judge_script
from airflow_streaming.core.compatibility.finding import GateReport
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.home.home import StreamHome
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
) -> GateReport:
    """
    Judge a new version of a script by its plan, the old plans and the checkpoints.

    Only logs and the state's schema files are read, nothing is written, and no Spark is started.

    :param checkpoints: URI of each query's checkpoint, by query name.
    :param old: Plans that the running queries were started with; empty when they are not known,
        then the checkpoints alone are compared with.
    :param storage_options: Passed to fsspec for a URI that is not a local folder.
    :param same_code: The script is known to be the same, byte for byte.
    :raises SpecError: not a full URI.
    :raises HomeUnavailable: a store cannot be reached.
    """
    found: dict[str, Checkpoint | None] = {}
    columns: dict[str, list[StoreSchema]] = {}
    for query, uri in checkpoints.items():
        looked = look_at(uri, storage_options)
        found[query], columns[query] = looked.checkpoint, looked.schemas
    return judge_script(
        old, new.queries, found, schemas=columns, same_code=same_code, problem=new.problem
    )


def gate_stream_change(
    home: StreamHome,
    new: ScriptPlan,
    *,
    storage_options: Mapping[str, Any] | None = None,
    same_code: bool = False,
) -> GateReport:
    """
    Judge a new version of a stream's script by what its home has recorded.

    The old plans are those of the newest driver that recorded any; the checkpoints are where these
    queries have them under the current deployment.

    :param storage_options: Of the checkpoints' store.
    :param same_code: The script is known to be the same, byte for byte.
    :raises CheckpointError: the stream was never deployed.
    :raises HomeUnavailable: a store cannot be reached.
    """
    checkpoints = dict(checkpoints_of(home).checkpoints)
    old = home.newest_plans()
    return gate_change(checkpoints, old, new, storage_options=storage_options, same_code=same_code)


def _read(folders: Folders) -> Checkpoint | None:
    try:
        found = Reader(folders).inspect(contents=False)
    except CheckpointError:
        return None
    if any(problem.code is FindingCode.NOT_A_CHECKPOINT for problem in found.problems):
        return None
    return found
