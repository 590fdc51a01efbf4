"""``checkpoint restore``, ``undo``, ``abandon``, ``repair``, ``clone`` and ``carry-over``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow_streaming.checkpoints.restore.clone import Cloned, carry_over, clone
from airflow_streaming.checkpoints.restore.replay import RestorePlan
from airflow_streaming.checkpoints.restore.restore import Place, plan_restore, restore
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.checkpoint.backups import sink_logs
from airflow_streaming.cli.common import OK, PROBLEM, Person
from airflow_streaming.cli.output import answer, progress, show, show_json, show_lines
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.reports.backups import (
    copied_report,
    restore_plan_report,
    restored_report,
    switched_report,
)

if TYPE_CHECKING:
    from airflow_streaming.changes.restore.stream_restore import Switched
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.model.records.repair import SinkRepair

_ENDED: Final[dict[ChangeOutcome | None, str]] = {
    None: "{stream} has no change of its checkpoint that is not finished.",
    ChangeOutcome.ABANDONED: "The change is abandoned; {stream} stays on its old checkpoint.",
    ChangeOutcome.DONE: "The change was already made; {stream} continues from the new checkpoint.",
}


def copy_whole(arguments: Namespace, _: Person | None) -> int:
    """Clone a checkpoint."""
    with progress() as told:
        copied = clone(
            arguments.uri, arguments.to, keep_query_id=arguments.keep_query_id, progress=told
        )
    return _show_copy(arguments, copied)


def copy_position(arguments: Namespace, _: Person | None) -> int:
    """Create a checkpoint that holds only the positions of another one."""
    with progress() as told:
        copied = carry_over(
            arguments.uri,
            arguments.to,
            sources=_sources(arguments.source),
            stateless=arguments.stateless,
            progress=told,
        )
    return _show_copy(arguments, copied)


def _sources(named: Sequence[str] | None) -> list[str | None] | None:
    return None if named is None else [None if name == "new" else name for name in named]


def _show_copy(arguments: Namespace, copied: Cloned) -> int:
    answer(
        copied_report(copied),
        {**encode(copied), "checkpoint": copied.checkpoint.to_dict()},
        as_json=arguments.json,
    )
    return OK


def restore_backup(arguments: Namespace, _: Person | None) -> int:
    """Write a copy of the checkpoints of a backup."""
    for option in ("rewind", "checkpoint"):
        if getattr(arguments, option):
            raise SpecError(f"--{option} is for the restore of a stream: give --stream NAME.")
    store = open_backup_store(arguments.store)
    where = Place(to=arguments.to, sink_logs=sink_logs(arguments))
    backup_id, accept = arguments.backup_id, arguments.accept
    with progress() as told:
        if arguments.dry_run:
            plan = plan_restore(store, backup_id, where, accept=accept, progress=told)
        else:
            restored = restore(store, backup_id, where, accept=accept, progress=told)
    if arguments.dry_run:
        return _show_plan(arguments, plan)
    answer(
        restored_report(restored),
        {**encode(restored), "plan": restored.plan.to_dict()},
        as_json=arguments.json,
    )
    return OK


def restore_of_home(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Restore a stream from a backup: its next start continues from there."""
    # Not at the top: a restore of a checkpoint does without a home.
    from airflow_streaming.changes.restore.stream_restore import RestoreRequest
    from airflow_streaming.changes.restore.undo import plan_switch
    from airflow_streaming.cli.asked_clusters import listed_launcher
    from airflow_streaming.services.changes import restore_stream

    store = open_backup_store(arguments.store)
    backup_id = arguments.backup_id
    with progress() as told:
        request = RestoreRequest(
            checkpoint=arguments.checkpoint,
            accept=arguments.accept,
            sink_logs=sink_logs(arguments),
            rewind=arguments.rewind,
            progress=told,
        )
        if arguments.dry_run:
            plan = plan_switch(stream, listed_launcher(), store, backup_id, request)
        else:
            by, reason = person.name, person.reason
            switched = restore_stream(
                *(stream, store, backup_id, request),
                launcher=listed_launcher(),
                by=by,
                reason=reason,
            )
    return _show_plan(arguments, plan) if arguments.dry_run else _show(switched, arguments)


def _show_plan(arguments: Namespace, plan: RestorePlan) -> int:
    answer(restore_plan_report(plan), plan.to_dict(), as_json=arguments.json)
    return PROBLEM if plan.is_refused else OK


def undo_restore(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Continue a stream from the checkpoint it had before a restore."""
    from airflow_streaming.changes.restore.undo import undo, undo_repair
    from airflow_streaming.cli.asked_clusters import listed_launcher

    by, reason, accept = person.name, person.reason, arguments.accept
    if arguments.repair:
        return _show_repair(undo_repair(stream, listed_launcher(), by=by, reason=reason), arguments)
    return _show(undo(stream, listed_launcher(), by=by, reason=reason, accept=accept), arguments)


def repair_sinks(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Repair the file sinks of a stopped stream."""
    from airflow_streaming.changes.restore.hand_repair import repair_by_hand
    from airflow_streaming.cli.asked_clusters import listed_launcher

    found = repair_by_hand(stream, listed_launcher(), by=person.name, reason=person.reason)
    if arguments.json:
        repairs = [encode(one.repair) if one.repair else None for one in found]
        told = [
            {"query": one.query, "reason": one.reason, "repair": repair}
            for one, repair in zip(found, repairs, strict=True)
        ]
        show_json({"stream": stream.name, "sinks": told})
    else:
        nothing = f"No file sink of stream {stream.name} is ahead of its checkpoint."
        show_lines([one.reason for one in found] or [nothing])
    return PROBLEM if any(one.repair is None for one in found) else OK


def _show_repair(repair: SinkRepair, arguments: Namespace) -> int:
    if arguments.json:
        show_json(encode(repair))
    else:
        message = f"Batch {repair.batch} of query {repair.query!r} is in {repair.output} again"
        show_lines([f"{message}; no launch of {repair.stream} moves it out."])
    return OK


def _show(switched: Switched, arguments: Namespace) -> int:
    if arguments.json:
        plan = switched.plan.to_dict() if switched.plan else None
        show_json({**encode(switched), "plan": plan})
    else:
        show(switched_report(switched))
    return OK


def abandon_restore(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Abandon an unfinished restore of a stream."""
    from airflow_streaming.changes.restore.undo import abandon

    in_step = arguments.sinks_in_step
    ended = abandon(stream, by=person.name, reason=person.reason, sinks_in_step=in_step)
    if arguments.json:
        show_json({"stream": stream.name, "outcome": ended})
    else:
        show_lines([_ENDED[ended].format(stream=stream.name)])
    return OK
