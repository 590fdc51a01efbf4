"""
Actions of an on-call engineer on an upgrade in progress.

Each command is a record in the home. Consequences that need only the home follow at once. The
upgrade's task does the rest; when its run has failed, clear the failed task and it continues. If
the run is gone, ``--here`` does the rest from this host, except for starting a driver, which the
task that keeps the stream alive does.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.changes.upgrade.decide import way_out
from airflow_streaming.changes.upgrade.waits import waits_for
from airflow_streaming.cli.common import OK, PROBLEM, Person, add_commands, place
from airflow_streaming.cli.output import notice, show_json, show_lines
from airflow_streaming.exceptions import RecordError, SpecError, StreamingError, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeCommand
from airflow_streaming.reports.terminal import clock
from airflow_streaming.services.changes import command_upgrade

if TYPE_CHECKING:
    from airflow_streaming.changes.upgrade.offline import CarryingThrough

MOST_WAITING_S: Final = 600.0
"""How long a command waits for a driver to stop, before it gives the terminal back."""
_LOOK_S: Final = 1.0
_SAID: Final = {
    UpgradeCommand.KEEP: "{deployment} stays: this is the point of no return.",
    UpgradeCommand.ROLL_BACK: "{deployment} is taken back, and the deployment before it returns.",
    UpgradeCommand.ABORT: "The upgrade is abandoned; the stream stays as it was.",
    UpgradeCommand.LEAVE: "Nothing is put back, and the desired state is stopped. Repair checkpoint and sinks before "
    "you start the stream.",
}
_CARRIED: Final = (UpgradeCommand.ROLL_BACK, UpgradeCommand.ABORT)
"""Commands that ``--here`` finishes from this host."""
_NEXT: Final = (
    "The task of the upgrade continues from here. If its run has failed, clear the failed task; the "
    "next upgrade of the stream finishes it too. If no run is left: the same command with --here."
)
_STATUS: Final = "show its state and the reasons; exit code 1 without an upgrade"
_AGAIN: Final = "Give the same command again to continue."
_CLOSED: Final = "The upgrade is closed."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = add_commands(parser, UPGRADE, status=_STATUS, whose="name of the stream")
    for name in _CARRIED:
        verbs[name].add_argument(
            "--here",
            action="store_true",
            help="finish the upgrade from this host if its DAG run is gone",
        )
        verbs[name].add_argument(
            "--store",
            type=place,
            metavar="URI",
            help="where the upgrade's backups lie, for --here (default: HOME/_backups)",
        )


def run(stream: StreamHome, arguments: argparse.Namespace, person: Person) -> int:
    """Run the verb and return the exit code."""
    change = _newest(stream)
    if arguments.verb == "status":
        return _show(stream, change, as_json=arguments.json)
    if change is None or stream.change_end(change.number) is not None:
        raise UpgradeRefused(f"Stream {stream.name!r} has no upgrade in progress.")
    through = (
        _through(stream, change, arguments, person) if getattr(arguments, "here", False) else None
    )
    told = "It had come to its end already."
    if not UPGRADE.state_of(stream.upgrade_steps(change.number)).is_end:
        _command(stream, change, arguments, person)
        told = _SAID[arguments.verb].format(deployment=f"Deployment {change.deployment}")
    rest = _finish(stream, change, person)
    if rest and through is not None:
        rest = _carry(through, quietly=arguments.json)
    if arguments.json:
        show_json(_facts(stream, change))
    else:
        more = _NEXT if through is None else _AGAIN
        show_lines([f"{told} {f'{rest} {more}' if rest else _CLOSED}"])
    return PROBLEM if rest and through is not None else OK


def _through(
    stream: StreamHome, change: Change, arguments: argparse.Namespace, person: Person
) -> CarryingThrough:
    """
    Return the object that finishes an upgrade from this host.

    :raises UpgradeRefused: only the dag can; nothing was recorded or done.
    """
    from airflow_streaming.changes.restore.switch import now_in_utc
    from airflow_streaming.changes.upgrade.offline import CarryingThrough
    from airflow_streaming.checkpoints.backup.stream_backup import default_store
    from airflow_streaming.checkpoints.vault.store import open_backup_store
    from airflow_streaming.cli.asked_clusters import listed_launcher
    from airflow_streaming.cli.output import ConsoleProgress

    uri = arguments.store or default_store(stream.store.uri)
    store = open_backup_store(uri, home=stream.store)
    through = CarryingThrough(
        *(stream, listed_launcher(), store, change),
        by=person.name,
        now=now_in_utc,
        progress=ConsoleProgress(),
    )
    if arguments.verb == UpgradeCommand.ROLL_BACK:
        through.check()
    return through


def _carry(through: CarryingThrough, *, quietly: bool) -> str:
    """Continue until the upgrade is closed; return the wait that is left, empty without one."""
    until, said = time.monotonic() + MOST_WAITING_S, ""
    while True:
        progress = through.go_on()
        if progress.is_there:
            return ""
        if progress.needs_person or time.monotonic() >= until:
            return progress.waiting
        if progress.waiting != said and not quietly:
            notice(f"Waiting: {progress.waiting}")
        said = progress.waiting
        time.sleep(_LOOK_S)


def _command(
    stream: StreamHome, change: Change, arguments: argparse.Namespace, person: Person
) -> None:
    command = UpgradeCommand(arguments.verb)
    if command is UpgradeCommand.LEAVE and not person.says_why:
        raise SpecError(
            "Say why nothing is put back, for the user who starts the stream next: --reason TEXT"
        )
    command_upgrade(stream, change, command, by=person.name, reason=person.reason)


def _finish(stream: StreamHome, change: Change, person: Person) -> str:
    """Do the work that needs only the home; return the remaining work, empty when done."""
    from airflow_streaming.changes.restore.switch import now_in_utc
    from airflow_streaming.changes.upgrade.finish import finish
    from airflow_streaming.cli.asked_clusters import listed_launcher

    try:
        return finish(stream, listed_launcher(), change, by=person.name, now=now_in_utc)
    except StreamingError as err:
        # The word stands all the same.
        return str(err)


def _newest(stream: StreamHome) -> Change | None:
    upgrades = [one for one in stream.changes() if one.what is ChangeKind.UPGRADE]
    return upgrades[-1] if upgrades else None


def _show(stream: StreamHome, change: Change | None, *, as_json: bool) -> int:
    if change is None:
        raise UpgradeRefused(f"Stream {stream.name!r} was never upgraded in place.")
    if as_json:
        show_json(_facts(stream, change))
    else:
        show_lines(_lines(stream, change))
    return OK


def _facts(stream: StreamHome, change: Change) -> dict[str, Any]:
    history, end = stream.upgrade_steps(change.number), stream.change_end(change.number)
    return {
        "stream": stream.name,
        "change": change.number,
        "replaced": change.replaced,
        "deployment": change.deployment,
        "stage": UPGRADE.state_of(history).value,
        "outcome": None if end is None else end.outcome.value,
        "waits_for": _waits_for(stream, change) if end is None else None,
        "stages": [
            {
                "stage": step.after.value,
                "event": step.event.value,
                "at": format_time(step.at),
                "by": step.by,
                "reason": step.reason,
                "facts": dict(step.facts),
            }
            for step in history
        ],
    }


def _waits_for(stream: StreamHome, change: Change) -> str:
    try:
        terms = stream.terms(change)
    except RecordError:
        terms = None
    return waits_for(stream.upgrade_steps(change.number), terms)


def _lines(stream: StreamHome, change: Change) -> list[str]:
    history, end = stream.upgrade_steps(change.number), stream.change_end(change.number)
    state = f"{end.outcome} since {clock(end.at)}" if end is not None else "in progress"
    first = (
        f"Change {change.number} of {stream.name}: from deployment {change.replaced} to "
        f"{change.deployment}, {state}."
    )
    lines = [first, f"  {clock(change.at)}  begun         {change.reason} ({change.by})"]
    lines += [
        f"  {clock(step.at)}  {step.after.value:13} {step.reason} ({step.by})" for step in history
    ]
    if end is None:
        lines.append(f"  Waits for {_waits_for(stream, change)}.")
    if end is None and UPGRADE.state_of(history) is Stage.JUDGED:
        lines.append(
            f"  Decide: airflow-streaming upgrade keep {stream.name} --reason TEXT (or roll-back)"
        )
    if end is None and UPGRADE.state_of(history) is Stage.ROLLING_BACK:
        lines.append(f"  Checkpoint and sinks are not put back yet. {way_out(stream.name)}")
    return lines
