"""The verbs on a stream of a home: back it up, have it go on from a backup, undo that."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from airflow_streaming.checkpoint.ours import Asked, back_up_stream, backup_before
from airflow_streaming.checkpoint.store import open_backup_store
from airflow_streaming.checkpoint.switch import Switched, abandon, plan_switch, switch, undo
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.backing_up import show_backup
from airflow_streaming.cli.checkpoint.sinks import sink_logs
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.cli.table import printable
from airflow_streaming.core.change import ChangeOutcome
from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.core.codec import encode
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.local import LocalLauncher


def run(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    """Back up a stream, restore it from a backup, or undo that."""
    if arguments.verb == "backup":
        return _back_up(stream, arguments, person)
    launcher = LocalLauncher()
    if arguments.verb == "abandon":
        return _abandon(stream, arguments, person)
    if arguments.verb == "undo":
        return _show(undo(stream, launcher, by=person.name, reason=person.reason), arguments)
    store, told = open_backup_store(arguments.store), Told()
    if arguments.dry_run:
        plan = plan_switch(
            stream,
            launcher,
            store,
            arguments.backup_id,
            to=arguments.to,
            accept=arguments.accept,
            sink_logs=sink_logs(arguments),
            progress=told,
        )
        _print(plan.to_dict() if arguments.json else backups.planned(plan))
        return PROBLEM if plan.is_refused else OK
    switched = switch(
        stream,
        launcher,
        store,
        arguments.backup_id,
        by=person.name,
        reason=person.reason,
        to=arguments.to,
        accept=arguments.accept,
        sink_logs=sink_logs(arguments),
        backup_before=lambda _: backup_before(
            stream, store, _asked(Origin.BEFORE_RESTORE, person, {})
        ),
        progress=told,
    )
    return _show(switched, arguments)


def _back_up(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    sinks = dict(arguments.sink)
    if "" in sinks:
        raise SpecError(f"--sink has to name the query here: --sink QUERY={sinks['']}.")
    store = open_backup_store(arguments.to, create=True)
    return show_backup(
        back_up_stream(stream, store, _asked(Origin.MANUAL, person, sinks)), arguments
    )


def _abandon(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    ended = abandon(stream, by=person.name, reason=person.reason)
    if arguments.json:
        _print({"stream": stream.name, "outcome": ended})
    else:
        _print([_ENDED[ended].format(stream=stream.name)])
    return OK


_ENDED: Final[dict[ChangeOutcome | None, str]] = {
    None: "{stream} has no change of its checkpoint that is not finished.",
    ChangeOutcome.ABANDONED: "The change is given up; {stream} stays on its old checkpoint.",
    ChangeOutcome.DONE: "The change was made already; {stream} goes on from the new checkpoint.",
}


def _asked(origin: Origin, person: Person, sinks: Mapping[str, str]) -> Asked:
    return Asked(
        origin=origin, by=person.name, note=person.reason, sink_logs=sinks, progress=Told()
    )


def _show(switched: Switched, arguments: Namespace) -> int:
    plan = switched.plan.to_dict() if switched.plan else None
    _print(
        {**encode(switched), "plan": plan} if arguments.json else backups.switched(switched),
    )
    return OK


def _print(shown: object) -> None:
    if isinstance(shown, list):
        print("\n".join(printable(line) for line in shown))
    else:
        print(json.dumps(shown, indent=2))
