"""
Acts of a user on the page of a stream; each act is one call of a service.

An act that may lose or replay data needs the stream's name as confirmation, and the epoch or change that the page
showed. So an old page changes nothing by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from airflow_streaming.exceptions import DeclarationRefused, UpgradeRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.cutover_table import CutoverCommand
from airflow_streaming.model.records.upgrade_table import UpgradeCommand
from airflow_streaming.plugins.access.drivers import PageDrivers
from airflow_streaming.plugins.access.kept import Kept, check_owner, open_stream
from airflow_streaming.plugins.act_weight import asks_name
from airflow_streaming.services import changes, streams

_DECLARE_DEAD: Final = "declare-dead"


def act_on(kept: Kept, act: str, *, by: str, reason: str, number: int | None, confirm: str) -> str:
    """
    Run one act and return a sentence about its result.

    :param act: ``start``, ``start-again``, ``stop``, ``declare-dead``, ``upgrade.<command>`` or
        ``cutover.<command>``.
    :param number: The epoch or change.
    :param confirm: The stream's name, for every act that asks for it.
    :raises SameCopyRefused: a start would launch the copy that failed.
    :raises UpgradeRefused: the act is unknown or not confirmed, or the upgrade refuses it.
    :raises CutoverRefused: the state of the cutover refuses it.
    :raises DeclarationRefused: the driver lives as far as can be seen.
    :raises NotTheOwner: the cutover is led by a stream of another dag.
    :raises StreamingError: the home cannot be written.
    """
    if asks_name(act) and confirm != kept.stream:
        raise UpgradeRefused(
            f"{act!r} was not confirmed: send the name of the stream, {kept.stream!r}, with it."
        )
    home = open_stream(kept)
    word, _, command = act.partition(".")
    if word in ("upgrade", "cutover") and command:
        return _command(home, kept, word, command, by=by, reason=reason, number=number)
    if act == _DECLARE_DEAD:
        return _declare_dead(home, PageDrivers(kept), by, reason, number)
    do = _ACTS.get(act)
    if do is None:
        known = sorted([*_ACTS, _DECLARE_DEAD])
        raise UpgradeRefused(f"Unknown action {act!r}. Known actions: {', '.join(known)}.")
    return do(home, by, reason, number)


def _start(
    home: StreamHome, by: str, reason: str, number: int | None, *, again: bool = False
) -> str:
    started = streams.start(home, by=by, reason=reason, again=again)
    closed = " and its circuit was closed" if started.closed is not None else ""
    was = "is" if started.is_new else "was already"
    return f"Desired state {was} running{closed}."


def _stop(home: StreamHome, by: str, reason: str, number: int | None) -> str:
    stopped = streams.stop(home, by=by, reason=reason)
    if stopped.request is None:
        return "Desired state is stopped; no driver is running."
    return f"Desired state is stopped; the driver of epoch {stopped.epoch} will stop."


def _declare_dead(
    home: StreamHome, drivers: PageDrivers, by: str, reason: str, number: int | None
) -> str:
    if number is None:
        raise DeclarationRefused("The epoch whose driver is dead was not named.")
    streams.declare_dead(home, drivers.probe, number, by=by, reason=reason)
    return f"The driver of epoch {number} is declared dead."


_ACTS: Final[Mapping[str, Callable[[StreamHome, str, str, int | None], str]]] = {
    "start": _start,
    "start-again": partial(_start, again=True),
    "stop": _stop,
}


def _command(
    home: StreamHome,
    kept: Kept,
    kind: str,
    command: str,
    *,
    by: str,
    reason: str,
    number: int | None,
) -> str:
    if kind == "upgrade":
        change = _change(home, ChangeKind.UPGRADE, number)
        if command not in [*UpgradeCommand]:
            raise UpgradeRefused(f"An upgrade knows no command {command!r}.")
        changes.command_upgrade(home, change, UpgradeCommand(command), by=by, reason=reason)
        return f"Recorded {command!r} for upgrade {change.number}; its task follows."
    change = _change(home, ChangeKind.CUTOVER, None)
    led, led_number = home.leader_of(change)
    # The user's right was checked for this DAG; the stream of another DAG may lead the cutover.
    check_owner(led, kept)
    if command not in [*CutoverCommand] or (number is not None and number != led_number):
        raise UpgradeRefused(
            f"Cutover {number} with command {command!r} is outdated: reload the page."
        )
    changes.command_cutover(
        *(led, led_number, CutoverCommand(command)),
        by=by,
        reason=reason,
        launcher=PageDrivers(kept).launcher,
    )
    return f"Recorded {command!r} for cutover {led_number}; its task follows."


def _change(home: StreamHome, kind: ChangeKind, number: int | None) -> Change:
    change = home.unfinished_change() or home.newest_change()
    if change is None or change.what is not kind or number not in (None, change.number):
        raise UpgradeRefused(f"Stream {home.name!r} has no such {kind.value} now. Reload the page.")
    return change
