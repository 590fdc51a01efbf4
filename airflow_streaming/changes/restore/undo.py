"""
Switch: a stream of a home continues from a restored checkpoint.

The checkpoint is restored into a new place beside the old one, and a new deployment, equal in all
else, names that place. Creating the deployment's record is the switch: before it the stream runs on
the old checkpoint, after it on the new one, and never on parts of both. The old checkpoint stays as
it is, so undoing is one more deployment.

Every step leaves a record or a finished folder, and asking again for a switch that was begun continues
where it ended, once all has been judged anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

from airflow_streaming.changes.restore.sinks import of_sinks
from airflow_streaming.changes.restore.stream_restore import (
    USUAL_RESTORE,
    BackupBefore,
    RestoreRequest,
    StreamRestore,
    Switched,
)
from airflow_streaming.changes.restore.switch import (
    Switching,
    SwitchRequest,
    checkpoints_at,
    now_in_utc,
)
from airflow_streaming.checkpoints.repair.put_back import PutBack, finish_undo
from airflow_streaming.checkpoints.repair.sink_position import file_sinks, is_used
from airflow_streaming.checkpoints.restore.replay import OF_SINKS, RefusalCode, RestorePlan
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.control import (
    Change,
    ChangeKind,
    ChangeOutcome,
    Event,
    EventKind,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.repair import (
    SinkRepair,
    SinkRepairUndo,
)

__all__ = ["BackupBefore", "Switched", "abandon", "plan_switch", "switch", "undo", "undo_repair"]
log: Final = logging.getLogger(__name__)
_EXCHANGES: Final = frozenset({ChangeKind.RESTORE, ChangeKind.UNDO})


def plan_switch(
    home: StreamHome,
    launcher: Launcher,
    store: BackupStore,
    backup_id: str,
    request: RestoreRequest = USUAL_RESTORE,
) -> RestorePlan:
    """
    Plan a stream's restore; writes no files (the dry run).

    :raises RestoreRefused: The stream has no deployment.
    """
    switching, backup = Switching(home, launcher, by="a dry run"), store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        return StreamRestore(home, switching, store, backup, request).plan()


def switch(
    home: StreamHome,
    launcher: Launcher,
    store: BackupStore,
    backup_id: str,
    request: RestoreRequest = USUAL_RESTORE,
    *,
    by: str,
    reason: str = "",
    backup_before: BackupBefore | None = None,
    now: Callable[[], datetime] = now_in_utc,
) -> Switched:
    """
    Restore a stream: its next start continues from a backup.

    The desired state must be stopped and the driver proved dead. The stream stays stopped until a
    user starts it. An unfinished switch to the same backup is finished if still possible; the
    request's ``to`` must be its place, or be left out.

    :param backup_before: Called after the judgment and before the restore. A checkpoint that cannot
        be backed up stays in its place.
    :raises RestoreRefused: With every reason; the stream is unchanged.
    """
    switching, backup = Switching(home, launcher, by=by, now=now), store.backup(backup_id)
    with store.hold(backup.stream, "restore", backup_id):
        restore = StreamRestore(home, switching, store, backup, request)
        return restore.run(reason, backup_before)


def undo(
    home: StreamHome,
    launcher: Launcher,
    *,
    by: str,
    reason: str = "",
    accept: Collection[RefusalCode] = (),
    storage_options: Mapping[str, Any] | None = None,
    now: Callable[[], datetime] = now_in_utc,
) -> Switched:
    """
    Go back to the checkpoint that the newest switch or undo left; a second undo undoes the first.

    :param accept: Accepted refusals, of ``replay.OF_SINKS``.
    :raises RestoreRefused: there was no switch, the old checkpoint is not sound, the desired state
        is running, its driver is not proved dead, or a file sink is ahead of the old checkpoint,
        behind it, or cannot be seen.
    :raises ValueError: A refusal that cannot be accepted.
    """
    if final := sorted(set(accept) - OF_SINKS):
        raise ValueError(f"An undo cannot accept {', '.join(final)}.")
    switching = Switching(home, launcher, by=by, now=now)
    change = home.unfinished_change()
    if change is None or change.what is not ChangeKind.UNDO:
        switching.check_stopped(change)
        request = _undoing(home, switching, reason)
        checkpoints_at(request.checkpoint, storage_options)
        _check_sinks(home, switching.current(), request.checkpoint, accept, storage_options)
        change = switching.begin(request)
    removal = home.removal_of(change.checkpoint)
    if removal is not None:
        # Looked for after the change was begun: see ``Removal``.
        switching.abandon(change, f"{change.checkpoint} was removed as old.")
        raise RestoreRefused(
            f"The checkpoint {change.checkpoint} of stream {home.name!r} was removed by "
            f"{removal.by} on {removal.at:%Y-%m-%d}: it was old. Restore a backup instead."
        )
    ids = checkpoints_at(change.checkpoint, storage_options)
    return Switched(change=change, deployment=switching.make(change, ids))


def _check_sinks(
    home: StreamHome,
    current: Deployment,
    checkpoint: str,
    accept: Collection[RefusalCode],
    options: Mapping[str, Any] | None,
) -> None:
    found = of_sinks(home, current, checkpoint, options)
    if refused := [one.message for one in found if one.code not in accept]:
        raise RestoreRefused(" ".join(refused))


def undo_repair(
    home: StreamHome,
    launcher: Launcher,
    *,
    by: str,
    reason: str = "",
    storage_options: Mapping[str, Any] | None = None,
    now: Callable[[], datetime] = now_in_utc,
) -> SinkRepair:
    """
    Move the newest repair's batch back into its file sink; no launch moves it out again.

    A second call undoes the previous repair, so that each of several sinks can be reached.

    :raises RestoreRefused: no repair is in effect, the desired state is running, its driver is not
        proved dead, or it continues another checkpoint than the repair's.
    :raises CheckpointRefused: The batch was written or committed again since.
    """
    repair = _standing_repair(home)
    Switching(home, launcher, by=by, now=now).check_stopped(home.unfinished_change())
    _check_continued(home, repair)
    PutBack(repair, storage_options).check()
    home.undo_repair(SinkRepairUndo(number=repair.number, by=by, reason=reason, at=now()))
    finish_undo(home, repair, storage_options, by=by, now=now)
    message = (
        f"Repair {repair.number} was undone: batch {repair.batch} of query {repair.query!r} is in its file "
        f"sink again. {reason}"
    )
    event = EventKind.SINK_REPAIRED
    home.add_event(Event(event=event, at=now(), by=by, message=message.rstrip()))
    return repair


def _standing_repair(home: StreamHome) -> SinkRepair:
    """Return the newest repair that was not undone, or whose undo was cut off."""
    for repair in reversed(home.repairs()):
        if home.undo_end(repair.number) is None:
            return repair
    raise RestoreRefused(
        f"No repair of a file sink of stream {home.name!r} stands, so there is nothing to undo."
    )


def _check_continued(home: StreamHome, repair: SinkRepair) -> None:
    current = home.newest_deployment()
    sinks = [] if current is None else file_sinks(home, current)
    if current is None or not is_used(repair, current, sinks):
        raise RestoreRefused(
            f"Stream {home.name!r} no longer continues {repair.checkpoint} in {repair.output}, for which "
            f"repair {repair.number} was made: with the batch back, the new checkpoint's batch {repair.batch} "
            f"would be skipped. Its files stay in {repair.aside}."
        )


def abandon(
    home: StreamHome,
    *,
    by: str,
    reason: str = "",
    sinks_in_step: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ChangeOutcome | None:
    """
    Abandon an unfinished change; the stream stays on its old checkpoint.

    Restored files stay in their place for inspection.

    :param sinks_in_step: File sinks that a restore could not rewind were rewound by hand. Their
        logs are checked; an invisible one is trusted, and the timeline says so.
    :return: How it ended: done, if only its last record was missing. ``None`` without an unfinished
        change.
    :raises RestoreRefused: The unfinished change is an upgrade or a cutover, which have their own
        commands; or a file sink is not in step with the restored checkpoint.
    """
    change = home.unfinished_change()
    if change is None:
        return None
    if change.what is ChangeKind.UPGRADE:
        raise RestoreRefused(
            f"Change {change.number} of stream {home.name!r} is an upgrade in progress. Give it up "
            f"with 'airflow-streaming upgrade abort {home.name}', or 'roll-back' once it is made."
        )
    if change.what is ChangeKind.REMOVE:
        raise RestoreRefused(
            f"Stream {home.name!r} was removed (change {change.number}). To use its name again: "
            f"airflow-streaming reuse {home.name}."
        )
    if change.what is ChangeKind.CUTOVER:
        raise RestoreRefused(
            f"Change {change.number} of stream {home.name!r} is a cutover in progress. Give it up "
            f"with 'airflow-streaming cutover abort {base_of(home.name)}', or 'roll-back' once the "
            "stream was switched."
        )
    switching = Switching(home, None, by=by)
    words, note = reason or f"Abandoned by {by}.", ""
    if change.rewinds_sinks and switching.is_made(change):
        if not sinks_in_step:
            raise RestoreRefused(
                f"Change {change.number} of stream {home.name!r} has given it the restored checkpoint, "
                "and its sinks are not put back yet. Ask for the same restore again, which finishes it; "
                "or put them back by hand and say so with 'abandon --sinks-in-step'."
            )
        note = _declared(home, change, by, words, storage_options)
    return switching.abandon(change, words, note)


def _declared(
    home: StreamHome, change: Change, by: str, reason: str, options: Mapping[str, Any] | None
) -> str:
    """
    Return the timeline's text on sinks that were declared in step.

    :raises RestoreRefused: They are not in step.
    """
    replaced = home.deployment(change.replaced)
    found = of_sinks(home, replaced, change.checkpoint, options)
    unseen = [one.query for one in found if one.code is RefusalCode.SINK_UNSEEN]
    if wrong := [one.message for one in found if one.code is not RefusalCode.SINK_UNSEEN]:
        raise RestoreRefused(
            f"The file sinks of stream {home.name!r} are not in step with {change.checkpoint}: "
            f"{' '.join(wrong)} Ask for the same restore again, which finishes it."
        )
    message = f"Its file sinks were declared in step by {by}: {reason.rstrip('.')}."
    if unseen:
        blind = f"The sink's log of {', '.join(map(repr, unseen))} could not be seen."
        log.warning("Stream %r: %s", home.name, blind)
        message = f"{message} {blind}"
    return message


def _undoing(home: StreamHome, switching: Switching, reason: str) -> SwitchRequest:
    current = switching.current()
    exchanges = [one for one in home.changes() if one.what in _EXCHANGES]
    done = [change for change in exchanges if switching.is_made(change)]
    if not done:
        raise RestoreRefused(
            f"The checkpoint of stream {home.name!r} was never exchanged, so there is nothing to "
            "undo."
        )
    last = done[-1]
    if last.rewinds_sinks:
        raise RestoreRefused(
            f"Change {last.number} of stream {home.name!r} moved the output of the file sinks "
            f"after backup {last.backup} to _rolled_back in their folders, so the old checkpoint "
            "is ahead of them. Restore another backup instead."
        )
    if current.checkpoint != last.checkpoint:
        raise RestoreRefused(
            f"Stream {home.name!r} no longer runs on {last.checkpoint}, which change {last.number} "
            f"gave it, but on {current.checkpoint}. Restore a backup, or deploy it with the "
            "checkpoint that you want."
        )
    return SwitchRequest(
        what=ChangeKind.UNDO,
        checkpoint=home.deployment(last.replaced).checkpoint,
        reason=reason or f"Undo of change {last.number}.",
    )
