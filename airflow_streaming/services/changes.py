"""
User commands for a change: an upgrade, a cutover, or a restore of the checkpoint.

Each command is one function here and needs only the home: it writes a record, and the task that
works on the change follows it. For a stream with several lanes, pass the home of the leading
stream, or of the lane in question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.records.control import Change
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from airflow_streaming.services.fleet_index import note_act
from airflow_streaming.storage.folders import open_folders

if TYPE_CHECKING:
    from airflow_streaming.changes.cutover.engine import CutoverProgress
    from airflow_streaming.changes.cutover.lanes import LaneContext, Retire
    from airflow_streaming.changes.restore.stream_restore import RestoreRequest, Switched
    from airflow_streaming.checkpoints.backup.stream_backup import Open
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.launch.port import Launcher
    from airflow_streaming.model.records.cutover import Pair
    from airflow_streaming.model.records.deployment import Deployment


def command_upgrade(
    home: StreamHome,
    change: Change,
    command: UpgradeCommand,
    *,
    by: str,
    reason: str,
    open_folders: Open = open_folders,
) -> None:
    """
    Record a command to an upgrade.

    :param open_folders: Opens the checkpoints, to see the committed batches.
    :raises UpgradeRefused: Too late or too early; the command was not recorded.
    :raises RecordError: The upgrade's terms cannot be read.
    """
    from airflow_streaming.changes.upgrade.commands import UpgradeCommands  # not at dag parse

    UpgradeCommands(home, by=by, open_folders=open_folders).give(change, command, reason)
    note_act(home)


def command_cutover(
    home: StreamHome,
    change: int,
    command: CutoverCommand,
    *,
    by: str,
    reason: str,
    launcher: Launcher | None = None,
    retire: Retire | None = None,
) -> CutoverProgress:
    """
    Record a command to a cutover, and return its phase.

    :param home: The base lane of the leading stream.
    :param launcher: Checks the drivers of the lanes; by default without clusters.
    :param retire: Takes the final backup when blue is retired, or ``None``.
    :raises CutoverRefused: Not possible in this phase; the command was not recorded.
    :raises CheckpointError: The final backup failed; blue is not retired.
    """
    from airflow_streaming.changes.cutover.engine import Cutover  # not at dag parse

    engine = Cutover(home.name, HomeLanes(Home(home.store), by, launcher), by=by, retire=retire)
    progress = engine.command(command, reason, change)
    note_act(home)
    return progress


class HomeLanes:
    """
    Opens the lanes of a home for a command, without launching.

    :param by: The user, for the records.
    :param launcher: Checks the drivers of the lanes; by default without clusters.
    """

    def __init__(self, home: Home, by: str, launcher: Launcher | None = None) -> None:
        self._home, self._by, self._launcher = home, by, launcher or open_launcher()

    def open(self, stream: str, lane: str) -> LaneContext:
        """Return the context of one lane; launches wait for the DAG."""
        from airflow_streaming.changes.cutover.lanes import LaneContext
        from airflow_streaming.supervision.actions import StreamActions
        from airflow_streaming.supervision.observer import Observer  # not at dag parse

        home = self._home.stream(lane)
        return LaneContext(
            home=home,
            controller=None,
            acts=StreamActions(home, self._launcher, by=self._by),
            observer=Observer(home, self._launcher),
        )


def final_backup(
    lane: StreamHome,
    store: BackupStore,
    change: Change,
    pair: Pair,
    blue: Deployment,
    *,
    by: str,
    reason: str,
    open_folders: Open = open_folders,
    progress: Progress = no_progress,
) -> str:
    """
    Take the final backup of blue's lane; return its id, empty without a checkpoint.

    :param lane: Any lane of the home.
    :raises CheckpointError: There is a checkpoint, and it could not be backed up.
    """
    from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, backup_before
    from airflow_streaming.model.arguments.choices import Origin  # not at dag parse

    request = BackupRequest(
        origin=Origin.BEFORE_UPGRADE,
        by=by,
        note=f"Final backup of deployment {blue.number}, change {change.number}: {reason}",
        open_folders=open_folders,
        progress=progress,
    )
    return backup_before(lane.beside(pair.blue), store, request)


def restore_stream(
    home: StreamHome,
    store: BackupStore,
    backup_id: str,
    request: RestoreRequest,
    *,
    launcher: Launcher,
    by: str,
    reason: str,
    backs_up: bool = True,
    open_folders: Open = open_folders,
) -> Switched:
    """
    Let a stopped stream continue from a backup at its next start; it stays stopped.

    :param launcher: Checks whether the stream's driver is gone.
    :param backs_up: Back up the replaced checkpoint first; if this fails, it stays in place.
    """
    from airflow_streaming.changes.restore.undo import switch
    from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest, backup_before
    from airflow_streaming.model.arguments.choices import Origin  # not at dag parse

    before = BackupRequest(
        origin=Origin.BEFORE_RESTORE,
        by=by,
        note=reason,
        open_folders=open_folders,
        progress=request.progress,
    )

    def take(_: Deployment) -> str:
        return backup_before(home, store, before)

    return switch(
        *(home, launcher, store, backup_id, request),
        by=by,
        reason=reason,
        backup_before=take if backs_up else None,
    )
