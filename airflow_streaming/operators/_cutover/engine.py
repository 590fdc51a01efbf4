"""Who cuts streams over on behalf of a task: the engine, with the connections of the dag."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_streaming.checkpoint.ours import Asked, backup_before
from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.cutover.checkpoints import StoredCheckpoints
from airflow_streaming.cutover.cutting_over import Cutover
from airflow_streaming.cutover.memory import LANES
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.cutover.pointers.spark import with_runtimes
from airflow_streaming.hooks._access import access
from airflow_streaming.operators._cutover.comparing import Comparing
from airflow_streaming.operators._narrating import Narrator
from airflow_streaming.settings import read_settings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change
    from airflow_streaming.core.cutover.terms import Pair
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.operators._cutover.lanes import DagLanes
    from airflow_streaming.operators._cutover.task import CutoverTask


def open_engine(
    task: CutoverTask,
    lanes: DagLanes,
    context: Context,
    memory: dict[str, Any] | None,
    complete_from: Mapping[str, datetime],
) -> Cutover:
    """
    Return the engine of one task.

    :param memory: What an earlier try, or the trigger, remembers of the looks before.
    :param complete_from: By stream, the event time from which a fresh green is complete.
    """
    lanes.memory = (memory or {}).get(LANES, {})
    progress = Narrator(task.log)
    return Cutover(
        lanes.leader,
        lanes,
        by=lanes.by,
        checkpoints=StoredCheckpoints(**access(task.stream.home, task.home_conn_id)),
        pointers=usable(task.pointers),
        compare=Comparing(
            lanes,
            complete_from=complete_from,
            progress=progress,
            heard=lambda report: task.heard(report, context),
        ),
        retire=lambda change, pair, blue: final_backup(task, lanes, change, pair, blue),
        memory=memory,
    )


def usable(pointers: Mapping[str, Pointer]) -> dict[str, Pointer]:
    """Return pointers by name, those that need a Spark with the runtimes of this deployment."""
    runtimes = read_settings().runtimes
    return {
        name: with_runtimes([pointer], runtimes)[pointer.name] for name, pointer in pointers.items()
    }


def final_backup(
    task: CutoverTask, lanes: DagLanes, change: Change, pair: Pair, blue: Deployment
) -> str:
    """
    Take the backup with which blue's lane is given up; return its id, empty without a checkpoint.

    :raises CheckpointError: there is a checkpoint, and it could not be backed up.
    """
    asked = Asked(
        origin=Origin.BEFORE_UPGRADE,
        by=lanes.by,
        note=f"Final backup of deployment {blue.number}, change {change.number}: {change.reason}",
        open_folders=task.open_folders,
        progress=Narrator(task.log),
    )
    return backup_before(lanes.open(pair.stream, pair.blue).home, task.open_store(), asked)
