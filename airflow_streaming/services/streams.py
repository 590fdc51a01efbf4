"""
User commands for a stream: start, stop, pause, hand over, declare a driver dead.

Each command is one function here, and writes one record and one line on the timeline; operators,
the command line and triggers call it and report its result. A command may be repeated: it then
changes nothing and says so. The keep-alive task follows the records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from airflow_streaming.exceptions import (
    CircuitReopened,
    DeclarationRefused,
    PauseRefused,
    RestoreRefused,
    SameCopyRefused,
    SpecError,
    StreamingError,
    closed,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Heartbeat
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.observation import Observation, Process, ProcessState
from airflow_streaming.model.records.control import (
    MOST_PAUSE_SECONDS,
    BatchPause,
    BatchPauseEnd,
    ChangeKind,
    Circuit,
    CircuitState,
    Desired,
    DesiredState,
    Event,
    EventKind,
)
from airflow_streaming.model.records.epoch import (
    Epoch,
    Launch,
    StopRequest,
    TerminationProof,
)
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.services.fleet_index import note_act
from airflow_streaming.supervision.batch_pause import PauseStanding, PauseState, judge_pause
from airflow_streaming.supervision.health import spawn_grace
from airflow_streaming.supervision.restart import fails_alike, remedy_of

log: Final = logging.getLogger(__name__)
_DAG_ID: Final = re.compile(r"[\w.-]{1,250}")
"""As Airflow checks ids of dags."""

SHORTEST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(seconds=MOST_PAUSE_SECONDS)
Probe = Callable[[Epoch, Launch | None, Heartbeat], Process]


def look_once(
    home: StreamHome, epoch: Epoch, probe: Probe, now: Callable[[], datetime] | None = None
) -> Observation:
    """
    Observe an epoch once; its silence is measured with the clocks of two hosts.

    :param now: The time of day, read after all records.
    """
    launch = home.launch(epoch.number)
    # The process first: a process that ends in between is reported as "going down", never as "gone, no
    # exit".
    process = probe(epoch, launch, partial(home.heartbeat, epoch.number))
    status, written = home.status(epoch.number), home.aftermath(epoch.number)
    looked_at = _now() if now is None else now()
    return Observation(
        epoch=epoch,
        process=process,
        now=looked_at,
        launch=launch,
        status=status,
        exit=written.exit,
        death=written.death,
        silent_for=age_of(status.at if status else epoch.created_at, looked_at),
    )


"""Looks at a driver; see ``launch.port.Launcher.probe``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """
    The result of a start.

    :param closed: The circuit, if it was open and was closed just now.
    """

    desired: Desired
    is_new: bool
    closed: Circuit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """
    The result of a stop.

    :param epoch: The newest epoch; ``None`` if the stream has never run.
    :param request: The effective request to its driver; ``None`` if the driver has ended.
    :param is_asked_now: The request was made just now.
    """

    desired: Desired
    is_new: bool
    epoch: int | None = None
    request: StopRequest | None = None
    is_asked_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPause:
    """
    The result of closing a pause.

    :param held: The stream stood still until now.
    :param reason: Why, as a sentence.
    """

    pause: BatchPause
    held: bool
    reason: str


@contextmanager
def recorded(what: str) -> Iterator[None]:
    """Add a note to an error: the records that were written before it."""
    try:
        yield
    except StreamingError as err:
        err.add_note(what)
        raise


def start(home: StreamHome, *, by: str, reason: str, again: bool = False) -> Started:
    """
    Start a stream: set its desired state to running, and close its circuit.

    A user who starts a stream that gave up has fixed the cause, so the circuit closes and the
    restart budget is reset. A running stream is not changed.

    :param again: Also launch the same copy again.
    :raises SameCopyRefused: The stream gave up, and the same copy would start.
    :raises CircuitReopened: The desired state is recorded, but the circuit is open again.
    :raises RestoreRefused: An unfinished restore or undo has not set the checkpoint, or not rewound
        the sinks.
    """
    _check_no_open_restore(home, by)
    _check_copy(home, again=again)
    desired, is_new = _want(home, DesiredState.RUNNING, by, reason)
    with recorded(_recorded_state(home, desired)):
        closed = _close_circuit(home, by=by, reason=reason)
    return Started(desired=desired, is_new=is_new, closed=closed)


def _check_copy(home: StreamHome, *, again: bool) -> None:
    circuit = home.circuit()
    if again or circuit is None or circuit.state is CircuitState.CLOSED:
        return
    epoch = home.newest_epoch()
    if epoch is None or not circuit.holds(epoch.number):
        return
    decision, deployment = home.restart_decision(epoch.number), home.newest_deployment()
    number = deployment.number if deployment is not None else None
    if decision is not None and fails_alike(decision, epoch.deployment, number):
        raise SameCopyRefused(
            f"Deployment {number} of stream {home.name!r} failed in this way; the same copy would "
            f"start: {closed(decision.reason)} {remedy_of(decision, home.name)}"
        )


def _check_no_open_restore(home: StreamHome, by: str) -> None:
    change = home.unfinished_change()
    if change is None or change.what not in (ChangeKind.RESTORE, ChangeKind.UNDO):
        return
    from airflow_streaming.changes.restore.switch import Switching, words  # which reads checkpoints

    switching = Switching(home, None, by=by)
    if switching.is_made(change):
        if change.rewinds_sinks:
            raise RestoreRefused(
                f"The restore of backup {change.backup} (change {change.number}) of stream "
                f"{home.name!r} has not put its file sinks back yet: a driver would pass over batches "
                "that they have. Ask for the same restore again, which finishes it, and then start the "
                "stream."
            )
    elif not switching.is_overtaken(change):
        raise RestoreRefused(
            f"Change {change.number} of stream {home.name!r} is not finished: {words(change)} A driver "
            "would run on the checkpoint that it replaces. Ask for the same again, which finishes it, or "
            f"give it up with 'airflow-streaming checkpoint abandon {home.name}', and then start the "
            "stream."
        )


def stop(
    home: StreamHome,
    *,
    by: str,
    reason: str,
    grace: timedelta | None = None,
    until: datetime | None = None,
) -> Stopped:
    """
    Stop a stream: set its desired state to stopped, and ask its driver to stop at a batch boundary.

    The keep-alive task kills a driver that exceeds its grace.

    :param grace: Time for the driver to end; default: from the stream's DAG.
    :param until: When the keep-alive task starts the stream again; default: a user starts it. A stream that is
        stopped without an end stays so.
    """
    # Desired state first: a driver that ends while the stream should run is restarted.
    desired, is_new = _want(home, DesiredState.STOPPED, by, reason, until)
    with recorded(f"{_recorded_state(home, desired)} Its driver was not asked to stop."):
        epoch = home.newest_epoch()
        if epoch is None:
            return Stopped(desired=desired, is_new=is_new)
        known = home.aftermath(epoch.number)
        if known.exit is not None or known.death is not None:
            return Stopped(desired=desired, is_new=is_new, epoch=epoch.number)
        asked = StopRequest(
            epoch=epoch.number,
            by=by,
            reason=reason,
            grace_seconds=(stop_grace(home) if grace is None else grace).total_seconds(),
            requested_at=_now(),
        )
        request = home.request_stop(asked)
    if request == asked:
        with recorded(f"{_recorded_state(home, desired)} Its driver was requested to stop."):
            message = f"Epoch {epoch.number}: {reason}"
            _tell(home, EventKind.STOP_REQUESTED, by, message, epoch.number)
    return Stopped(
        desired=desired,
        is_new=is_new,
        epoch=epoch.number,
        request=request,
        is_asked_now=request == asked,
    )


def stop_grace(home: StreamHome) -> timedelta:
    """Return how long a driver of the stream may take to stop, by what its dag says."""
    return home.supervision().stop_grace


def begin_pause(
    home: StreamHome,
    *,
    longest: timedelta,
    begin_within: timedelta,
    by: str,
    reason: str,
    key: str = "",
) -> BatchPause:
    """
    Ask the stream's driver to hold its queries between two batches.

    :param longest: How long the queries are held at most.
    :param begin_within: How long the batches in work may take to end.
    :param key: A pause that is open under the same key is returned as it is.
    :raises PauseRefused: another pause, or a change of the stream, is open.
    :raises SpecError: the length is out of bounds.
    """
    if not SHORTEST_PAUSE <= longest <= LONGEST_PAUSE:
        raise SpecError(
            f"A pause lasts {duration_text(SHORTEST_PAUSE)} to {duration_text(LONGEST_PAUSE)}, not "
            f"{duration_text(longest)}. Choose another length, or stop the stream."
        )
    home.check_not_removed()
    if change := home.unfinished_change():
        raise PauseRefused(
            f"Change {change.number} of {home.name} ({change.what}) is open, and needs a stream that "
            "runs. Open the pause after its end."
        )
    now = _now()
    wanted = BatchPause(
        number=1,
        by=by,
        reason=reason,
        at=now,
        begin_within=begin_within.total_seconds(),
        longest=longest.total_seconds(),
        key=key,
    )
    pause = home.begin_pause(wanted, now)
    if (pause.by, pause.at) == (by, now):
        _tell(home, EventKind.PAUSED, by, f"Pause {pause.number} opened: {reason}")
    return pause


def look_at_pause(home: StreamHome, pause: BatchPause, probe: Probe) -> PauseStanding:
    """Look once at a pause and at the stream's driver."""
    end, epoch = home.batch_pause_end(pause.number), home.newest_epoch()
    seen = None if epoch is None or end is not None else look_once(home, epoch, probe)
    return judge_pause(pause, end, seen, _now())


def end_pause(
    home: StreamHome, pause: BatchPause, probe: Probe, *, by: str, reason: str, key: str = ""
) -> EndedPause:
    """
    Close a pause: the stream continues.

    :param key: The run that closes it; empty of a command.
    :returns: Whether the stream stood still until now. A pause that another user has closed before tells no more.
    """
    standing = look_at_pause(home, pause, probe)
    end = BatchPauseEnd(number=pause.number, by=by, reason=reason, at=_now(), key=key)
    if standing.state is not PauseState.CLOSED and home.end_pause(end):
        _tell(home, EventKind.PAUSED, by, f"Pause {pause.number} closed: {reason}")
    return EndedPause(pause=pause, held=standing.state is PauseState.HELD, reason=standing.reason)


def _close_circuit(home: StreamHome, *, by: str, reason: str) -> Circuit | None:
    """
    Close the circuit of a stream that gave up, and reset its restart budget.

    :returns: The open circuit that was closed; ``None`` if it was not open.
    :raises CircuitReopened: The circuit is open again.
    """
    before = home.circuit()
    if before is None or before.state is CircuitState.CLOSED:
        return None
    epoch = home.newest_epoch()
    number = epoch.number if epoch else 0
    now = _now()
    closed = home.close_circuit(epoch=number, by=by, reason=reason, now=now)
    with recorded(f"The circuit of {home.name} is recorded as closed."):
        after = home.circuit()
    if after is not None and after.holds(number):
        raise CircuitReopened(
            f"The circuit of {home.name} was opened again, or its newest record, {after.number}, "
            "cannot be followed by another. Look at the stream's status and start it again."
        )
    if closed is None or (closed.by, closed.at) != (by, now):
        return None  # another user was first
    with recorded(f"The circuit of {home.name} is recorded as closed."):
        _tell(home, EventKind.CIRCUIT_CLOSED, by, f"Circuit closed: {reason}", number or None)
    return before


def hand_over(
    home: StreamHome, dag_id: str, *, by: str, reason: str, team: str = ""
) -> tuple[Owner, bool]:
    """
    Make another DAG the owner of a stream; running drivers are not touched.

    :param team: Only a DAG of this team may take the stream over.
    :returns: The effective owner, and whether it changed.
    :raises SpecError: Airflow has no DAG with this id.
    """
    if not _DAG_ID.fullmatch(dag_id):
        raise SpecError(
            f"{dag_id[:80]!r} is not the id of a dag: letters, digits, '-', '_' and '.', at most 250. "
            f"{home.name} keeps its owner."
        )
    before = home.owner()
    owner = home.hand_over(dag_id, by=by, reason=reason, now=_now(), team=team)
    if before is not None and owner.number == before.number:
        return owner, False
    from_whom = f"dag {before.dag_id}" if before is not None else "no dag"
    to_whom = f"dag {dag_id}" + (f" of team {team}" if team else "")
    _tell(home, EventKind.OWNER, by, f"Handed over from {from_whom} to {to_whom}: {reason}")
    return owner, True


def declare_dead(
    home: StreamHome, probe: Probe, number: int, *, by: str, reason: str
) -> TerminationProof:
    """
    Record a user's word that a driver is gone which no machine can see.

    :param probe: Looks at the driver from here.
    :param number: Its epoch, which must be the newest.
    :returns: The proof that counts; another user may have been first.
    :raises DeclarationRefused: it lives as far as can be seen, or another epoch is the newest.
    """
    epoch = home.newest_epoch()
    if epoch is None or epoch.number != number:
        newest = f"epoch {epoch.number}" if epoch else "none"
        raise DeclarationRefused(
            f"Epoch {number} is not the newest of {home.name} (that is {newest}), so nothing "
            "waits for it. Look at the stream's status and name the newest epoch."
        )
    if alive := _sign_of_life(home, epoch, probe):
        raise DeclarationRefused(
            f"The driver of epoch {number} of {home.name} was not declared dead: {alive}"
        )
    declared = TerminationProof(
        epoch=number, evidence=reason, by=by, override=True, declared_at=_now()
    )
    death = home.declare_dead(declared)
    if death == declared:
        message = f"Epoch {number} declared dead: {reason}"
        _tell(home, EventKind.DECLARED_DEAD, by, message, number)
    return death


def _sign_of_life(home: StreamHome, epoch: Epoch, probe: Probe) -> str | None:
    launch = home.launch(epoch.number)
    process = probe(epoch, launch, partial(home.heartbeat, epoch.number))
    if not process.was_asked:
        return closed(process.detail)
    if process.state in (ProcessState.RUNNING, ProcessState.SUSPENDED):
        return f"{closed(process.detail)} Kill it first; two drivers on one checkpoint write rows twice."
    if launch is None and age_of(epoch.created_at, _now()) < spawn_grace(epoch):
        return "it is only being started. Look again in half a minute."
    return None


def _want(
    home: StreamHome, state: DesiredState, by: str, reason: str, until: datetime | None = None
) -> tuple[Desired, bool]:
    now = _now()
    desired = home.want(state, by=by, reason=reason, now=now, until=until)
    is_new = (desired.by, desired.at) == (by, now)
    if is_new:
        with recorded(_recorded_state(home, desired)):
            end = f" until {until:%Y-%m-%d %H:%M %Z}" if until else ""
            _tell(home, EventKind.DESIRED, by, f'Desired state is "{state}"{end}: {reason}')
    return desired, is_new


def _recorded_state(home: StreamHome, desired: Desired) -> str:
    return f'The desired state of {home.name} is recorded as "{desired.state}".'


def _tell(
    home: StreamHome, kind: EventKind, by: str, message: str, epoch: int | None = None
) -> None:
    log.info("%s", message)
    note_act(home)
    home.add_event(Event(event=kind, at=_now(), by=by, message=message, epoch=epoch))


def _now() -> datetime:
    return datetime.now(UTC)
