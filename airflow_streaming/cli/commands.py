"""
What a person on call can do to a stream without the UI.

Each command is the same act as the operator of that name: a record in the home, which the task that
keeps the stream alive follows.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.cli.cutover_found import what_a_stop_does
from airflow_streaming.cli.look import POLL_SECONDS, Probe, observe, report
from airflow_streaming.cli.person import OK, PROBLEM, Person
from airflow_streaming.cli.table import clock, show, show_all
from airflow_streaming.core.control import CircuitState, DesiredState, Event, EventKind
from airflow_streaming.core.epoch import Death, Epoch, StopRequest
from airflow_streaming.core.health import HealthRules, judge
from airflow_streaming.core.liveness import SPAWN_GRACE
from airflow_streaming.core.observation import Observation, ProcessState
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import Home, StreamHome

WATCH_SECONDS: Final = 10.0
"""A living driver writes its heartbeat more often than this."""


def list_streams(home: Home, probe: Probe, *, as_json: bool) -> int:
    """Print every stream; one that cannot be read is a problem."""
    reports, unread = [], {}
    for name in home.streams():
        try:
            reports.append(report(home.stream(name), probe, patience=0, events=1))
        except RecordError as err:
            unread[name] = str(err)
    if as_json:
        told = {"home": home.store.uri, "streams": [one.to_dict() for one in reports]}
        print(json.dumps({**told, "unreadable": unread}, indent=2, sort_keys=True))
    else:
        for name, why in unread.items():
            print(f"{name} cannot be shown: {why}")
        if reports:
            print(show_all(reports))
        elif not unread:
            print(f"No stream has a deployment in {home.store.uri}.")
    return PROBLEM if unread else OK


def show_status(stream: StreamHome, probe: Probe, *, as_json: bool) -> int:
    """Print one stream; a stream that is not well is a problem."""
    found = report(stream, probe, patience=WATCH_SECONDS)
    print(json.dumps(found.to_dict(), indent=2, sort_keys=True) if as_json else show(found))
    return OK if found.is_all_right else PROBLEM


def start(stream: StreamHome, person: Person) -> int:
    """Record that the stream should run."""
    print(_want(stream, DesiredState.RUNNING, person))
    circuit = stream.circuit()
    if circuit is not None and circuit.state is CircuitState.OPEN:
        print(
            f"Its circuit is open and keeps it down: {circuit.reason}\n"
            f"When the cause is mended: airflow-streaming close-circuit {stream.name}"
        )
    else:
        print("The task that keeps it alive brings it up; its dag must be unpaused.")
    return OK


def stop(
    stream: StreamHome, person: Person, probe: Probe, *, grace: float, wait: float | None
) -> int:
    """Record that the stream should be down, then ask its driver to stop."""
    # The wish comes first: a driver that ends while the stream is wanted running is restarted.
    print(_want(stream, DesiredState.STOPPED, person))
    if told := what_a_stop_does(stream):
        print(told)
    epoch = stream.newest_epoch()
    if epoch is None:
        print("It has never run, so there is no driver to stop.")
        return OK
    if stream.exit(epoch.number) is None and stream.death(epoch.number) is None:
        print(_ask_to_stop(stream, epoch.number, person, grace))
    return OK if wait is None else _wait_until_down(stream, probe, wait)


def close_circuit(stream: StreamHome, person: Person) -> int:
    """Let a stream run again that was given up."""
    before, epoch = stream.circuit(), stream.newest_epoch()
    if before is None or before.state is CircuitState.CLOSED:
        print(f"The circuit of {stream.name} is not open. Nothing was changed.")
        return OK
    number = epoch.number if epoch else 0
    stream.close_circuit(epoch=number, by=person.name, reason=person.reason, now=_now())
    _tell(stream, EventKind.CIRCUIT_CLOSED, person, f"Circuit closed: {person.reason}", number)
    print(f"The circuit of {stream.name} is closed. Its restart budget is whole again.")
    wish = stream.desired()
    if wish is not None and wish.state is DesiredState.STOPPED:
        print(f"It is still wanted stopped; to bring it up: airflow-streaming start {stream.name}")
    return OK


def declare_dead(stream: StreamHome, person: Person, probe: Probe, *, number: int) -> int:
    """Record a person's word that a driver is gone which no machine can see."""
    epoch = stream.newest_epoch()
    if epoch is None or epoch.number != number:
        newest = f"epoch {epoch.number}" if epoch else "none"
        print(
            f"Epoch {number} is not the newest of {stream.name} (that is {newest}), so nothing "
            "waits for it. Look at the stream's status and name the newest epoch."
        )
        return PROBLEM
    if alive := _sign_of_life(stream, epoch, probe):
        print(f"The driver of epoch {number} of {stream.name} is not dead: {alive}")
        return PROBLEM
    death = stream.declare_dead(
        Death(
            epoch=number,
            evidence=person.reason,
            by=person.name,
            override=True,
            declared_at=_now(),
        )
    )
    message = f"Epoch {number} declared dead: {person.reason}"
    _tell(stream, EventKind.DECLARED_DEAD, person, message, number)
    print(
        f"Epoch {number} of {stream.name} is taken for dead on the word of {death.by}: "
        f"{death.evidence}\nIts next epoch may start now. Should the old driver come back, it "
        "finds itself fenced and ends."
    )
    return OK


def _sign_of_life(stream: StreamHome, epoch: Epoch, probe: Probe) -> str | None:
    launch = stream.launch(epoch.number)
    process = probe(epoch, launch)
    if process.state in (ProcessState.RUNNING, ProcessState.SUSPENDED):
        return f"{process.detail}. Kill it first; two drivers on one checkpoint write rows twice."
    if launch is None and _now() - epoch.created_at < SPAWN_GRACE:
        return "it is only being started. Look again in half a minute."
    return None


def _want(stream: StreamHome, state: DesiredState, person: Person) -> str:
    now = _now()
    wish = stream.want(state, by=person.name, reason=person.reason, now=now)
    if wish.at != now:
        return f"{stream.name} is wanted {state} already, by {wish.by} since {clock(wish.at)}."
    _tell(stream, EventKind.DESIRED, person, f"Wanted {state}: {person.reason}", None)
    return f"{stream.name} is now wanted {state}."


def _ask_to_stop(stream: StreamHome, epoch: int, person: Person, grace: float) -> str:
    now = _now()
    request = stream.request_stop(
        StopRequest(
            epoch=epoch,
            by=person.name,
            reason=person.reason,
            grace_seconds=grace,
            requested_at=now,
        )
    )
    if request.requested_at != now:
        return f"{request.by} has asked the driver of epoch {epoch} to stop already."
    _tell(stream, EventKind.STOP_REQUESTED, person, f"Epoch {epoch}: {person.reason}", epoch)
    return f"The driver of epoch {epoch} is asked to stop at its next batch boundary."


def _wait_until_down(stream: StreamHome, probe: Probe, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while True:
        seen = observe(stream, probe, patience=0)
        if seen is not None and _is_down(seen):
            print(f"{stream.name} is down. {judge(seen, HealthRules()).reason}")
            return OK
        if time.monotonic() >= deadline:
            process = f" ({seen.process.detail})" if seen is not None else ""
            print(
                f"The driver of {stream.name} is not proved down after {seconds:.0f} s{process}. "
                "The request stands; the task that keeps the stream alive kills a driver that "
                "outstays its grace."
            )
            return PROBLEM
        time.sleep(POLL_SECONDS)


def _is_down(seen: Observation) -> bool:
    # From another host the driver's own last word is all the proof there is.
    last_word = seen.exit is not None and seen.process.state is ProcessState.UNSEEN
    return judge(seen, HealthRules()).has_ended or last_word


def _tell(
    stream: StreamHome, kind: EventKind, person: Person, message: str, epoch: int | None
) -> None:
    stream.add_event(
        Event(event=kind, at=_now(), by=person.name, message=message, epoch=epoch or None)
    )


def _now() -> datetime:
    return datetime.now(UTC)
