"""The repair of a stopped stream's file sinks on a user's word, for streams whose launches make none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from airflow_streaming.changes.restore.switch import Switching, now_in_utc
from airflow_streaming.checkpoints.repair.batch_move import Repaired
from airflow_streaming.checkpoints.repair.sink_repairs import SinkRepairs
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.records.control import Event, EventKind


def repair_by_hand(
    home: StreamHome,
    launcher: Launcher,
    *,
    by: str,
    reason: str = "",
    storage_options: Mapping[str, Any] | None = None,
    now: Callable[[], datetime] = now_in_utc,
) -> list[Repaired]:
    """
    Move the batch that its checkpoint has not committed out of each file sink of a stopped stream.

    A second call finishes an interrupted repair, or changes nothing.

    :return: A finding for each sink ahead of its checkpoint. A refused finding has its reason.
    :raises RestoreRefused: the stream has never run, its desired state is "running", its driver is not proved
        dead, or a change is unfinished.
    :raises StreamingError: a repair was begun and could not be finished; repeat the call.
    """
    deployment, epoch = home.newest_deployment(), home.newest_epoch()
    if deployment is None or epoch is None:
        raise RestoreRefused(f"Stream {home.name!r} has never run, so no sink is ahead.")
    Switching(home, launcher, by=by, now=now).check_stopped(home.unfinished_change())
    repairs = SinkRepairs(home, by=by, options=storage_options, now=now)
    found = repairs.of_stopped(epoch.number, deployment)
    for one in found:
        message = f"{one.reason} {reason}".rstrip()
        home.add_event(Event(event=EventKind.SINK_REPAIRED, at=now(), by=by, message=message))
    return found
